"""The commands that make the documents' pictures, at toy size."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.screen import WINDOW
from tools.pictures import BAR, GOOD, PAPER, Take, caption_of, captioned

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "docs" / "policies" / "BlindGrasping.pth"


def run(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tools.pictures", *words], cwd=ROOT, capture_output=True, text=True)
    if "no off-screen rendering" in done.stderr:
        pytest.skip(f"no OpenGL on this machine: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def test_a_caption_says_how_long_the_policy_learned():
    assert caption_of(str(KEPT), ROOT / "runs") == "version 411, 6.7 M frames"


def test_the_outcome_stands_below_the_picture_once_the_episode_is_over():
    made = Take("version 1, 0.0 M frames", np.zeros((10, 7)), success=True)
    picture = np.zeros((50, 200, 3), np.uint8)
    playing, over = (captioned(picture, made, step) for step in (9, 10))
    assert playing.shape == over.shape == (50 + BAR, 200, 3)
    assert (playing[-1] == PAPER).all()
    assert not (playing == GOOD).all(axis=2).any()
    assert (over == GOOD).all(axis=2).any()


@pytest.mark.slow
def test_the_learning_hand_moves(tmp_path):
    out = tmp_path / "learning.webp"
    run("learning", str(out), str(KEPT), str(KEPT), "--seconds", "0.2", "--size", "60", "48")
    with Image.open(out) as picture:
        assert picture.size == (2 * 48, 60 + BAR)
        assert picture.n_frames == 4
        frames = []
        for index in range(4):
            picture.seek(index)
            frames.append(np.asarray(picture.convert("RGB")).astype(int))
    assert frames[0][:60].std() > 5
    assert np.abs(frames[0] - frames[3])[:60].max() > 30


@pytest.mark.slow
@pytest.mark.skipif(
    not all(map(shutil.which, ("Xvfb", "xdotool", "import"))), reason="needs Xvfb, xdotool and ImageMagick"
)
def test_the_window_is_photographed_with_its_keys(tmp_path):
    out = tmp_path / "window.png"
    run("window", str(out), "--seconds", "0")
    pixels = np.asarray(Image.open(out)).astype(int)
    assert pixels.shape == (WINDOW[1], WINDOW[0], 3)
    white = pixels.min(axis=2) > 240
    assert white[:460, 600:].sum() > 500  # letters of the table

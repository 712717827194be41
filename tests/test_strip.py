"""The kept policy grasps, and its pictures show it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from livegym.utils.errors import UserError
from livegym.viewers.strip import SIZE, main, successful_episode, world_of

KEPT = Path(__file__).parent.parent / "docs" / "policies" / "BlindGrasping.pth"


@pytest.fixture(scope="module")
def world():
    made = world_of(str(KEPT), Path("runs"), seed=0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def path(world):
    return successful_episode(world)


def test_an_episode_of_the_kept_policy_ends_with_the_box_held_up(world, path):
    box = path[:, world.env.task.box.q[:3]]
    assert box[0, 2] == pytest.approx(0.025, abs=1e-3)
    assert (box[-99:, 2] > 0.2).all()  # the last 2 s
    assert len(path) <= 500


def strip(out: Path, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "livegym.viewers.strip", str(KEPT), str(out), "--pictures", "3"]
    inherited = {name: value for name, value in os.environ.items() if name not in ("MUJOCO_GL", "DISPLAY")}
    return subprocess.run(command, cwd=KEPT.parents[2], env=inherited | env, capture_output=True, text=True)


@pytest.mark.slow
def test_the_pictures_show_it(tmp_path):
    done = strip(tmp_path / "strip.png", MUJOCO_GL="egl")
    if "libEGL" in done.stderr or "no off-screen rendering" in done.stderr:
        pytest.skip(f"no EGL on this machine: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    pixels = (255 * imread(tmp_path / "strip.png")).astype(int)
    assert pixels.shape[:2] == (SIZE[0], 3 * SIZE[1])
    red = (pixels[..., 0] - pixels[..., 2] > 60).reshape(SIZE[0], 3, SIZE[1])
    rows = [np.nonzero(red[:, k])[0].mean() for k in range(3)]
    assert rows[2] < rows[0] - 20  # the red box is higher in the last picture, by pixels


@pytest.mark.slow
def test_without_gl_it_says_what_to_do_and_writes_nothing(tmp_path):
    done = strip(tmp_path / "strip.png", MUJOCO_GL="glfw")  # needs a display
    assert done.returncode == 1
    assert "error: no off-screen rendering here" in done.stderr
    assert "MUJOCO_GL=egl" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_policy_that_does_not_succeed_is_refused(world, monkeypatch):
    monkeypatch.setattr("livegym.viewers.strip.TRIES", 3)
    with pytest.raises(UserError, match="no episode succeeded in 3 control steps"):
        successful_episode(world)


def test_help_shows_the_command_that_can_be_typed(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["strip.py", "--help"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith("usage: python -m livegym.viewers.strip ")

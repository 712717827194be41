"""What the tests of several foreign checkouts run: long random play, a page and a video."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from livegym.projects import executed
from tests.patience import PATIENCE_S, until
from tests.processes import Running, runs


def play_at_random(env: Any, steps: int, check: Callable[[Any], None]) -> float:
    """Microseconds of processor time of an environment step, over so many steps with random actions.

    Observations must be finite; `check` gets each step.
    """
    env.reset()
    generator = torch.Generator().manual_seed(0)
    begin_s = time.process_time()
    for _ in range(steps):
        step = env.step(2 * torch.rand(env.zero_action().shape, generator=generator) - 1)
        assert all(torch.isfinite(values).all() for values in step.obs.values())
        check(step)
    return 1e6 * (time.process_time() - begin_s) / (len(env.zero_action()) * steps)


def print_hashes(checkout: Path) -> None:
    """The hashes of the checkout's files that ran."""
    for file, digest in executed.below(checkout).items():
        print(f"{digest}  {file}")


def show_on_a_page_and_in_a_video(folder: Path, checkout: Path) -> None:
    """Watch the newest run of `folder` both ways."""
    here = f"projectDir={checkout}"
    page = ("config=test_stream", "checkpoint=latest", "testGamesNum=0", "streamPort=0", here)
    with Running(folder, *page, name="page") as shown:
        shown.wait_for("watch at http")
        address = re.search(r"watch at (http\S+)", shown.text)[1]
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            assert b"livegym" in answer.read()
        assert shown.end() == 0
    recording = ("config=test_record", "checkpoint=latest", "testGamesNum=0", here)
    with Running(folder, *recording, name="recording") as recorded:
        # an episode may have thousands of pictures, so its beginning is enough: the signal completes the file
        until(lambda: clips(folder), lambda: recorded.text, recorded.process)
        assert recorded.end() == 0
    assert clips(folder)[0].stat().st_size > 1_000


def clips(folder: Path) -> list[Path]:
    """The videos of the newest test in `folder`."""
    return sorted(video for test in runs(folder, "test")[-1:] for video in (test / "videos").glob("*.mp4"))

"""A training run that is watched in a copy, which the loop of the documents keeps up to date: real programs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness import free_port
from livegym.rundir.copies import pruned_names
from tests.patience import until
from tests.processes import SMALL, Running, results, run, runs

pytestmark = pytest.mark.slow
HOT_RELOAD = Path(__file__).parent.parent / "docs" / "hot-reload.md"
TEST = ("config=test", "testGamesNum=0", "checkpoint=latest", "reloadInterval=0.5", "historySize=0", "task=Cartpole")
TRAINING = (*SMALL, "maxIterations=1000000", "saveInterval=0.5")


@contextlib.contextmanager
def documented_loop(server: Path, laptop: Path) -> Iterator[None]:
    """The loop that docs/hot-reload.md shows, between two folders, with a shorter pause."""
    shown = re.search(r"^(while true; do rsync .*done) &$", HOT_RELOAD.read_text(), re.M)[1]
    command = shown.replace("server:livegym/runs/", f"{server}/runs/").replace("sleep 30", "sleep 0.3")
    assert command != shown
    loop = subprocess.Popen(["bash", "-c", f"{command} 2>/dev/null"], cwd=laptop, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(loop.pid, signal.SIGKILL)
        loop.wait()


def files(folder: Path, pattern: str) -> set[str]:
    return {file.name for file in folder.glob(pattern)}


def test_a_copy_with_the_filter_is_followed_does_not_grow_and_goes_over_to_the_next_run(tmp_path):
    server, laptop = tmp_path / "server", tmp_path / "laptop"
    (server / "runs").mkdir(parents=True), laptop.mkdir()
    with documented_loop(server, laptop), Running(laptop, *TEST, name="test") as test:
        with Running(server, *TRAINING, name="training") as training:
            test.wait_for("now acting")
            until(lambda: len(pruned_names(runs(server)[0])) > 6, lambda: training.text, training.process)
            training.process.kill()  # whatever it was doing
            training.process.wait()
        first = runs(laptop)[0]
        gone = pruned_names(runs(server)[0])
        newest = max(
            files(runs(server)[0] / "nn", "*.policy"), key=lambda name: int(name.split("_ep")[1].split(".")[0])
        )
        until(lambda: (first / "nn" / newest).exists(), lambda: test.text)
        until(lambda: len({f"{Path(name).stem}.policy" for name in gone} & files(first / "nn", "*.policy")) < 4)
        assert not files(first, "nn/*.pth") | files(first, "env_state_*") | files(first, "run.lock")
        refused = run(laptop, "config=train_headless", "task=Cartpole", "resume=true", "checkpoint=latest")
        assert refused.returncode == 2
        assert "copy it without the filter (rsync -a instead of rsync -aF)" in refused.stdout
        with Running(server, *TRAINING, name="second") as second:
            test.wait_for("there is a newer run: following")
            test.wait_for("now acting", count=2)
            assert second.end() == 130
        assert test.end() == 0
    assert test.text.count("older checkpoint") == 1
    assert "Traceback" not in test.text
    accepted = [swap for swap in results(laptop)["swaps"] if swap["accepted"]]
    assert {Path(swap["file"]).suffix for swap in accepted} == {".policy"}
    assert {swap["run"] for swap in accepted} == {path.name for path in runs(laptop)}


def points(port: int, run_name: str) -> int:
    """The number of points that TensorBoard shows of the return; 0 while it does not answer."""
    query = urllib.parse.urlencode({"tag": "rewards/step", "run": f"{run_name}/summaries"})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?{query}") as answer:
            return len(json.load(answer))
    except (urllib.error.URLError, ConnectionError):
        return 0


def test_tensorboard_that_is_open_on_the_copy_goes_on_drawing(tmp_path):
    server, laptop, port = tmp_path / "server", tmp_path / "laptop", free_port()
    (server / "runs").mkdir(parents=True), (laptop / "runs").mkdir(parents=True)
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", "runs", "--host", "127.0.0.1"]
    with documented_loop(server, laptop), Running(server, *TRAINING, name="training") as training:
        shown = subprocess.Popen(
            [*command, "--port", str(port), "--reload_interval", "1"],
            cwd=laptop, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            until(lambda: runs(laptop), lambda: training.text, training.process)
            name = runs(laptop)[0].name
            seen = 0
            for _ in range(3):  # each time after at least one more copy
                until(lambda: points(port, name) > seen, lambda: f"{seen} points", training.process)  # noqa: B023
                seen = points(port, name)
        finally:
            os.killpg(shown.pid, signal.SIGKILL)
            shown.wait()
        assert training.end() == 130

"""A reader who leaves early, as `| head -1` does, ends a command quietly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from livegym.rundir.run import create_run
from tests.patience import PATIENCE_S
from tests.processes import SMALL, TRAIN, results

ANSWERS = ["--help task=BlindGrasping", "--list-tasks", "--cfg job", "--info defaults", "--hydra-help"]


def read_nothing(cwd, *arguments, error=False):
    """Runs a command whose reader has left before it begins; (exit status, what it said on standard error)."""
    reads, writes = os.pipe()
    os.close(reads)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    try:
        done = subprocess.run(
            [sys.executable, str(TRAIN), *arguments],
            cwd=cwd, stdout=writes, stderr=writes if error else subprocess.PIPE, text=True, timeout=PATIENCE_S,
            env=buffered,
        )  # fmt: skip
    finally:
        os.close(writes)
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", ["--help", *(pytest.param(each, marks=pytest.mark.slow) for each in ANSWERS)])
def test_an_answer_that_nobody_reads_to_its_end_is_no_error(tmp_path, arguments):
    assert read_nothing(tmp_path, *arguments.split()) == (-signal.SIGPIPE, "")


def test_the_first_line_is_there(tmp_path):
    command = f"set -o pipefail; {sys.executable} {TRAIN} --help | head -1"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert done.returncode in (0, 128 + signal.SIGPIPE)  # 0: all of it was in the pipe before the reader left


@pytest.mark.slow
def test_a_table_of_runs_that_nobody_reads_ends_as_well(tmp_path):
    create_run(tmp_path / "runs", "Cartpole", "train")
    assert read_nothing(tmp_path, "config=runs", error=True)[0] == 0


@pytest.mark.slow
def test_a_training_continues_without_its_reader(tmp_path):
    assert read_nothing(tmp_path, *SMALL, "maxIterations=3", error=True)[0] == 0
    assert "finished after 3 iterations" in (tmp_path / "runs" / "latest_train" / "train.log").read_text()
    tested = ("config=test", "checkpoint=latest", "testGamesNum=2")
    assert read_nothing(tmp_path, *tested, error=True)[0] == 0
    assert len(results(tmp_path)["episodes"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("error", [False, True])
def test_a_mistake_keeps_its_status(tmp_path, error):
    assert read_nothing(tmp_path, "task=Carpole", error=error)[0] == 2

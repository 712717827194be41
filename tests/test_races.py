"""Many at once on one runs directory: trainings, tests, a resume, hundreds of launches, and clocks that jump."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys

import pytest

from livegym.rundir.checkpoint import list_checkpoints, read_checkpoint
from livegym.rundir.run import open_run
from tests.patience import PATIENCE_S, until
from tests.processes import SMALL, TRAIN, Running, results, run, runs, scalars

pytestmark = pytest.mark.slow
ENDLESS = ("config=test", "testGamesNum=0", "checkpoint=latest", "reloadInterval=0.2")

# imports once, then forks: each child is a launch of its own, with its own arguments and its own interpreter state
LAUNCHER = """
import os, sys
sys.path.insert(0, {root!r})
from livegym import train
import livegym.rl.training
from livegym.cfg import cli
count = {count}
for k in range(count):
    pid = os.fork()
    if pid == 0:
        sys.argv = ["train.py", *{arguments!r}, f"seed={{k}}"]
        os._exit(cli.run(train.job))
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        raise SystemExit(f"launch {{k}} ended with {{status}}")
"""


def test_two_trainings_two_tests_and_a_resume_share_a_runs_directory(tmp_path):
    first = run(tmp_path, *SMALL, "maxIterations=3")
    assert first.returncode == 0, first.stdout
    (old,) = runs(tmp_path)
    with (
        Running(tmp_path, *ENDLESS, name="test-a") as test_a,
        Running(tmp_path, *ENDLESS, "followLatest=true", name="test-b") as test_b,
        contextlib.ExitStack() as ended,
    ):
        test_a.wait_for("following")
        test_b.wait_for("following")
        names = ("train-a", "train-b")
        new = (*SMALL, "maxIterations=40", "saveFrequency=1")
        trainings = [ended.enter_context(Running(tmp_path, *new, name=n)) for n in names]
        going_on = ("resume=true", f"checkpoint={old.name}", "maxIterations=40", "saveFrequency=1")
        resumes = [ended.enter_context(Running(tmp_path, *going_on, name=n)) for n in ("resume-a", "resume-b")]
        statuses = [t.process.wait(PATIENCE_S) for t in trainings]
        resumed = [r.process.wait(PATIENCE_S) for r in resumes]
        assert statuses == [0, 0], [t.text for t in trainings]
        assert sorted(status == 0 for status in resumed) in ([False, True], [True, True]), [r.text for r in resumes]
        for refused in (r for r, status in zip(resumes, resumed, strict=True) if status):
            assert "Traceback" not in refused.text
            assert "by process" in refused.text  # the lock is held
        last = re.compile(r"version (\S+: )?40\b")  # of the resumed run, or of the one that outlived it
        until(lambda: last.search(test_a.text), lambda: test_a.text)
        until(lambda: "a newer run" in test_b.text, lambda: test_b.text)
        assert [test_a.end(), test_b.end()] == [0, 0]
        assert "Traceback" not in test_a.text + test_b.text
    assert len(runs(tmp_path)) == 3
    for path in runs(tmp_path):  # each directory has one history, whoever wrote it
        saved = [entry.version for entry in list_checkpoints(open_run(path))]
        assert saved[0] == 40
        assert len(set(saved)) == len(saved)


@pytest.mark.parametrize("count", [30, pytest.param(200, marks=pytest.mark.full)])
def test_launches_with_retention_while_a_test_follows(tmp_path, count):
    arguments = (*SMALL, "maxIterations=3", "saveFrequency=1", "keepLast=1", "config=train_headless")
    first = run(tmp_path, *arguments)
    assert first.returncode == 0, first.stdout
    with Running(tmp_path, *ENDLESS, "followLatest=true") as test:
        test.wait_for("following")
        program = LAUNCHER.format(root=str(TRAIN.parent), count=count, arguments=arguments)
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=10 * PATIENCE_S,  # for all of them
        )
        assert done.returncode == 0, done.stdout[-3000:]
        last = runs(tmp_path)[-1]
        until(lambda: last.name in test.text, lambda: test.text[-3000:])
        assert test.end() == 0
        assert "Traceback" not in test.text
    assert len(runs(tmp_path)) == count + 1
    assert (tmp_path / "runs" / "latest_train").resolve().parent == tmp_path / "runs"
    assert all(0 < len(list((path / "nn").glob("*_v*.pth"))) <= 2 for path in runs(tmp_path))  # the best and the last
    seen = results(tmp_path)
    assert sum(swap["accepted"] for swap in seen["swaps"]) > count // 20
    assert not [swap for swap in seen["swaps"] if not swap["accepted"]]


@pytest.mark.skipif(shutil.which("faketime") is None, reason="needs faketime")
def test_a_run_begun_on_a_clock_that_was_ahead_does_not_hide_what_came_after_it(tmp_path):
    """B3 and a clock set right: the link tells which training was begun last, the name would tell another."""
    for when in ("2025-09-30 23:50:00", "2025-10-01 00:00:10", "2027-01-09 12:00:00", "2026-02-01 08:00:00"):
        done = run(tmp_path, *SMALL, "maxIterations=2", under=("faketime", when))
        assert done.returncode == 0, done.stdout
    names = [path.name.split("_train_")[1][:8] for path in runs(tmp_path)]
    assert names == ["20250930", "20251001", "20260201", "20270109"]
    played = run(tmp_path, "config=test", "testGamesNum=2", "checkpoint=latest")
    assert "Cartpole_train_20260201" in played.stdout
    (tmp_path / "runs" / "latest_train").unlink()
    (tmp_path / "runs" / "latest_train.txt").unlink()
    os.utime(runs(tmp_path)[0])  # as rsync, or a look into it, would
    played = run(tmp_path, "config=test", "testGamesNum=2", "checkpoint=latest")
    assert "Cartpole_train_20270109" in played.stdout  # started last, by the only word left


@pytest.mark.skipif(shutil.which("faketime") is None, reason="needs faketime")
def test_a_resume_on_a_clock_an_hour_behind_continues_and_is_followed(tmp_path):
    done = run(tmp_path, *SMALL, "maxIterations=5", "saveFrequency=1")
    assert done.returncode == 0, done.stdout
    with Running(tmp_path, *ENDLESS) as test:
        test.wait_for("following")
        going_on = ("resume=true", "checkpoint=latest", "maxIterations=12", "saveFrequency=1")
        behind = run(tmp_path, *going_on, under=("faketime", "-f", "-1h"))
        assert behind.returncode == 0, behind.stdout
        until(lambda: "version 12" in test.text, lambda: test.text)
        assert test.end() == 0
    (path,) = runs(tmp_path)
    newest = list_checkpoints(open_run(path))[0]
    assert newest.version == 12
    assert read_checkpoint(newest.path)["epoch"] == 12


def test_one_environment_plays_what_many_trained(tmp_path):
    """O1: every number of environments trains or is refused with the nearest that would; one always plays."""
    for num_envs in (1, 2, 7, 64, 4096):
        done = run(tmp_path, "task=Cartpole", f"numEnvs={num_envs}", "train.horizon_length=8", "maxIterations=1")
        assert done.returncode == 0, done.stdout
        played = run(tmp_path, "config=test", "testGamesNum=1", "checkpoint=latest", "numEnvs=1")
        assert played.returncode == 0, played.stdout
        assert len(results(tmp_path)["episodes"]) == 1
    refused = run(tmp_path, "task=Cartpole", "numEnvs=7", "train.num_minibatches=3", "train.horizon_length=8")
    assert refused.returncode != 0
    assert "numEnvs=7 x train.horizon_length=8 = 56 steps" in refused.stdout


def test_an_exception_keeps_every_finished_iteration_in_the_curves(tmp_path):
    """Q1: a training that fails (here: nothing stays finite, for 100 steps) closes its curves."""
    done = run(tmp_path, *SMALL, "maxIterations=100", "task.params.max_push=1e300")
    assert done.returncode == 1, done.stdout
    assert "became non-finite in each of 100 steps" in done.stdout
    (path,) = runs(tmp_path)
    epochs = [value for _, value in scalars(path / "summaries", "info/epochs")]
    assert epochs == list(range(1, 100 // 8 + 1))

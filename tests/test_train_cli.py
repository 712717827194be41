"""Training as a person runs it: whole processes, real signals, real disks."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time

import pytest
import yaml

from livegym.rundir.checkpoint import list_checkpoints, read_checkpoint
from tests.disk_fixtures import tmpfs
from tests.patience import PATIENCE_S, until
from tests.processes import SMALL, Running, run, runs, scalars

pytestmark = pytest.mark.slow
LONG = (*SMALL, "maxIterations=100000")


def curve(run_dir, tag="info/epochs"):
    return scalars(run_dir / "summaries", tag)


def only_run(cwd):
    (found,) = runs(cwd)
    return found


def test_a_run_explains_itself_and_every_iteration_is_in_the_curves(tmp_path):
    done = run(tmp_path, *SMALL, "maxIterations=3", "seed=0", "task.rewards.upright=2")
    assert done.returncode == 0, done.stdout
    path = only_run(tmp_path)
    config = yaml.safe_load((path / "config.yaml").read_text())
    assert (config["seed"], config["numEnvs"], config["task"]["rewards"]["upright"]) == (0, 32, 2)
    assert isinstance(config["train"]["learning_rate"], float)
    assert "maxIterations=3" in (path / "command.txt").read_text()
    assert "commit" in (path / "git.txt").read_text()
    assert "finished after 3 iterations" in (path / "train.log").read_text()
    assert os.readlink(tmp_path / "runs" / "latest_train") == path.name
    assert [e.version for e in list_checkpoints(path)] == [3, 1]
    state = read_checkpoint(list_checkpoints(path)[0].path)
    assert state["config"]["task"]["rewards"]["upright"] == 2
    assert state["spec"]["observations"][0] == ["cart_position", 1]
    assert curve(path) == [(256, 1.0), (512, 2.0), (768, 3.0)]
    assert len(curve(path, "reward_terms/upright")) == 3


def test_k_stop_resume_m_equals_k_plus_m_bit_for_bit(tmp_path):
    from tests.test_learning import differences

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    common = ("task=Ant", "numEnvs=8", "train.horizon_length=16")
    assert run(whole, *common, "maxIterations=6").returncode == 0
    assert run(parts, *common, "maxIterations=3").returncode == 0
    resumed = run(parts, "resume=true", "checkpoint=latest", "maxIterations=6")
    assert resumed.returncode == 0, resumed.stdout
    a, b = (read_checkpoint(list_checkpoints(only_run(p))[0].path) for p in (whole, parts))
    for state in (a, b):
        state.pop("config"), state.pop("livegym")
        (
            state["learner"].pop("best_return"),
            state.pop("last_mean_rewards"),
        )  # decided when saving, which was at other times
    assert differences(a, b) == []
    assert [value for _, value in curve(only_run(parts))] == [1, 2, 3, 4, 5, 6]
    steps = [step for step, _ in curve(only_run(parts))]
    assert steps == [128 * k for k in range(1, 7)]


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.full)]
)
def test_a_signal_saves_the_last_iteration(tmp_path, signum, status):
    with Running(tmp_path, *LONG) as training:
        training.wait_for("iteration 1/")
        time.sleep(1.0)
        assert training.end(signum) == status
    path = only_run(tmp_path)
    newest = list_checkpoints(path)[0]
    assert f"stopped after {newest.epoch} iterations" in training.text
    assert (path / f"env_state_v{newest.version}.pt").exists()
    assert curve(path)[-1][1] == newest.epoch
    again = run(tmp_path, "resume=true", "checkpoint=latest", f"maxIterations={newest.epoch + 2}")
    assert again.returncode == 0, again.stdout
    assert "new episodes begin" not in again.stdout
    # a resumed run hands on the run's configuration, not that of the command line that resumed it
    for total in (newest.epoch + 4, newest.epoch + 6):
        again = run(tmp_path, "resume=true", "checkpoint=latest", f"maxIterations={total}")
        assert again.returncode == 0, again.stdout
        assert "32 environments" in again.stdout


def test_a_second_signal_ends_at_once_and_harms_nothing(tmp_path):
    with Running(tmp_path, "numEnvs=4096", "train.horizon_length=400") as training:
        training.wait_for("training Cartpole")
        time.sleep(2.0)
        training.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        if training.process.poll() is None:
            training.process.send_signal(signal.SIGINT)
        assert training.process.wait(PATIENCE_S) == 130
    for entry in list_checkpoints(only_run(tmp_path)):
        read_checkpoint(entry.path)


def test_one_writer_a_run_and_the_holder_is_named(tmp_path):
    with Running(tmp_path, *LONG) as training:
        training.wait_for("iteration 1/")
        refused = run(tmp_path, "resume=true", "checkpoint=latest", "maxIterations=100001")
        assert refused.returncode == 2
        assert str(training.process.pid) in refused.stdout
        assert training.end() == 130


def test_what_contradicts_the_run_is_refused_on_resume(tmp_path):
    assert run(tmp_path, *SMALL, "maxIterations=2").returncode == 0
    before = sorted(p.name for p in tmp_path.rglob("*"))
    for override, message in (
        ("numEnvs=64", "numEnvs=64 contradicts"),
        ("task=Ant", "has no training run of Ant"),
        ("seed=1", "seed=1 contradicts"),
    ):
        done = run(tmp_path, "resume=true", "checkpoint=latest", override, "maxIterations=5")
        assert done.returncode == 2, done.stdout
        assert message in done.stdout
        assert "Traceback" not in done.stdout
    assert sorted(p.name for p in tmp_path.rglob("*")) == before
    complete = run(tmp_path, "resume=true", "checkpoint=latest", "maxIterations=2")  # as a queue starts a job again
    assert complete.returncode == 0, complete.stdout
    assert "has completed 2 iterations, and maxIterations=2 is the total" in complete.stdout
    assert "To continue: maxIterations=102" in complete.stdout
    assert sorted(p.name for p in tmp_path.rglob("*")) == before


def test_a_new_run_starts_from_given_weights_and_names_its_parent(tmp_path):
    assert run(tmp_path, *SMALL, "maxIterations=2").returncode == 0
    parent = only_run(tmp_path)
    done = run(tmp_path, *SMALL, "maxIterations=1", "checkpoint=best", "seed=7")
    assert done.returncode == 0, done.stdout
    child = runs(tmp_path)[-1]
    assert child != parent
    origin = json.loads((child / "parent.json").read_text())
    assert origin["run_id"] == json.loads((parent / "run.json").read_text())["run_id"]
    wrong = run(
        tmp_path, "task=Ant", "numEnvs=4", "train.horizon_length=16", "maxIterations=1", f"checkpoint={parent.name}"
    )
    assert wrong.returncode == 2
    assert "task=Cartpole" in wrong.stdout


def test_a_full_disk_is_a_warning_and_a_failed_end(tmp_path):
    with tmpfs(tmp_path / "runs", "4m"):
        with Running(tmp_path, *LONG, "saveInterval=0.5", "keepLast=null") as training:
            training.wait_for("not written")
            at = training.text.count("\n")
            until(lambda: training.text.count("\n") > at + 1, lambda: training.text, training.process)  # it goes on
            assert training.end() == 1
        assert "could not be saved" in training.text
        entries = list_checkpoints(only_run(tmp_path))
        assert entries
        for entry in entries:
            read_checkpoint(entry.path)
        assert "Traceback" not in training.text


def test_a_run_directory_that_vanishes_does_not_end_training_but_its_end_reports_it(tmp_path):
    with Running(tmp_path, *LONG, "saveInterval=0.5") as training:
        training.wait_for("iteration 1/")
        shutil.rmtree(only_run(tmp_path))
        training.wait_for("not written")
        time.sleep(1.0)
        assert training.process.poll() is None
        assert training.end() == 1
        assert "Traceback" not in training.text


def test_retention_keeps_the_best_the_newest_and_every_nth(tmp_path):
    done = run(tmp_path, *SMALL, "maxIterations=40", "saveFrequency=2", "keepLast=3", "keepEvery=10")
    assert done.returncode == 0, done.stdout
    path = only_run(tmp_path)
    kept = sorted(e.epoch for e in list_checkpoints(path))
    best = int((path / "nn" / "best.txt").read_text().split("_ep")[1].split(".")[0])
    assert kept == sorted({10, 20, 30, 40, 38, 36, best})
    assert len(list((path / "nn").glob("*.pth.json"))) == len(kept)
    assert [p.name for p in path.glob("env_state_*")] == ["env_state_v40.pt"]


def test_sweeps_run_each_job_in_its_own_directory_and_survive_a_bad_one(tmp_path):
    done = run(tmp_path, "-m", *SMALL, "maxIterations=2", "seed=1,1,2")
    assert done.returncode == 0, done.stdout
    first, second, third = runs(tmp_path)
    assert curve(first, "losses/a_loss") == curve(second, "losses/a_loss") != curve(third, "losses/a_loss")
    assert os.readlink(tmp_path / "runs" / "latest_train") == third.name
    bad = run(tmp_path, "-m", "maxIterations=1", "train.horizon_length=8", "train.num_minibatches=3", "numEnvs=8,9")
    assert bad.returncode == 2
    assert "numEnvs=8" in bad.stdout
    assert len(runs(tmp_path)) == 4  # the good one ran


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.full)])
def test_kills_lose_nothing(tmp_path, kills):
    """kill -9 at random moments, each followed by a resume, while a test follows from before the first checkpoint."""
    dice = random.Random(0)
    with Running(
        tmp_path, "config=test", "task=Cartpole", "testGamesNum=0", "checkpoint=latest", "reloadInterval=1", name="test"
    ) as test:
        versions = [0]
        for round_ in range(kills):
            start = () if round_ == 0 else ("resume=true", "checkpoint=latest")
            arguments = (*LONG, "saveInterval=0.2") if round_ == 0 else ("maxIterations=100000",)
            with Running(tmp_path, *arguments, *start, name=f"train{round_}") as training:
                training.wait_for("/100000")  # so the first checkpoint after the resume is there
                time.sleep(dice.uniform(0.0, 1.5))
                training.process.kill()
                training.process.wait()
            entries = list_checkpoints(only_run(tmp_path))
            for entry in entries:
                read_checkpoint(entry.path)
            assert entries[0].version > versions[-1]
            versions.append(entries[0].version)
            assert test.process.poll() is None
        assert test.end() == 0
    assert "Traceback" not in test.text
    assert "now acting" in test.text

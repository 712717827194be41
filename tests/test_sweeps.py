"""Sweeps: what a job is given and leaves, under Hydra's own launcher and under others."""

from __future__ import annotations

import importlib.util
import math
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from PIL import Image

from livegym.cfg import cli, jobs
from livegym.cfg.compose import prepare
from livegym.cfg.jobs import Jobs
from livegym.rl.scalars import ScalarWriter
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import begin_run
from livegym.rundir.sweep import JobRecord, read_jobs
from livegym.utils.errors import UserError
from livegym.utils.files import read_json_dict
from tests.patience import until
from tests.processes import SMALL, TRAIN, Running, alive, run, runs

LAUNCHERS = [
    pytest.param(
        f"hydra/launcher={name}",
        marks=pytest.mark.skipif(
            importlib.util.find_spec(f"hydra_plugins.{module}") is None
            if importlib.util.find_spec("hydra_plugins")
            else True,
            reason=f"{module} is not installed (the extra launchers)",
        ),
    )
    for name, module in (("joblib", "hydra_joblib_launcher"), ("submitit_local", "hydra_submitit_launcher"))
]


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Runs a sweep of fake jobs in this process; returns its status and its records."""
    monkeypatch.chdir(tmp_path)

    def start(*arguments: str, job=lambda cfg: 0):
        argv = ["train.py", "-m", *arguments]
        monkeypatch.setattr(sys, "argv", argv)
        status = cli.run(job)
        (folder,) = (tmp_path / "runs" / "sweeps").iterdir()
        return status, read_jobs(folder)

    return start


def trains(slope: float = 1.0):
    """A job that leaves a run with a curve."""

    def job(cfg) -> int:
        provenance = Provenance("", "", jobs.explicit_overrides(), [], jobs.current_record())
        made = begin_run(Path(cfg.runsDir), "Cartpole", "train", provenance)
        writer = ScalarWriter(made.summaries)
        for frame, value in ((0, 1.0), (10, 9.0 * slope), (20, 5.0 * slope)):
            writer.add_scalar("rewards/step", value + cfg.seed, frame)
        writer.close()
        return 0

    return job


def test_a_sweep_names_its_runs_and_ends_with_their_table(sweep, tmp_path, capfd):
    status, records = sweep("seed=1,2", "train.learning_rate=3e-3,3e-4", job=trains())
    assert status == 0
    made = sorted(path.name for path in runs(tmp_path))
    assert [record.run.name for record in records] == made
    assert [record.overrides for record in records][1] == ("seed=1", "train.learning_rate=3e-4")
    assert [(record.number, record.status, record.objective) for record in records] == [
        (1, 0, 6.0), (2, 0, 6.0), (3, 0, 7.0), (4, 0, 7.0)
    ]  # fmt: skip
    said = capfd.readouterr()
    assert re.findall(r"^\[(\d)/4\]", said.err, re.MULTILINE) == ["1", "2", "3", "4"]
    for name in made:
        assert re.search(rf"^ {name} .*seed=[12] train\.learning_rate=3e-[34]", said.out, re.MULTILINE)
    assert re.search(r"train\.learning_rate=3e-3 +2 seeds +6\.5 \[6, 7\]", said.out)
    command = re.search(r"config=report runs=(\S+)", said.err)
    assert read_jobs(tmp_path / command[1]) == records


@pytest.mark.slow
def test_the_record_says_which_job_has_begun_which_failed_and_which_was_killed(sweep, capfd):
    def job(cfg):
        if cfg.seed == 2:
            raise UserError("no")
        if cfg.seed == 3:
            (Path(jobs.current_record().sweep) / "jobs" / "1.json").write_text('{"number": 1, "overrides": ["seed=1"]}')
        return 0

    status, records = sweep("seed=1,2,3", job=job)
    assert status == 1
    assert [record.status for record in records] == [None, 2, 0]
    said = capfd.readouterr().err
    assert "2 of 3 jobs failed:\n  seed=1: did not end (killed?)\n  seed=2: exit status 2" in said


def test_secrets_are_not_recorded(sweep, tmp_path):
    sweep("seed=1,2", "streamToken=verysecret", job=trains())
    assert [p for p in tmp_path.rglob("*") if p.is_file() and b"verysecret" in p.read_bytes()] == []


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "value"), [("final", 6.0), ("best", 10.0)])
def test_a_job_returns_its_objective_to_the_sweeper(sweep, monkeypatch, objective, value):
    returned = []
    call = Jobs.__call__
    monkeypatch.setattr(Jobs, "__call__", lambda self, cfg: returned.append(call(self, cfg)))
    sweep("seed=1", f"objective={objective}", job=trains())
    assert returned == [value]
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "seed=1"])
    cli.run(lambda cfg: 1)
    assert math.isnan(returned[-1])


def test_values_of_a_sweep_are_mapped_to_what_was_typed():
    typed = prepare(["task.rewards.fell=-2,-3", "train.learning_rate=3e-3,3e-4", "seed=range(2)"], True).typed
    assert typed["++task.rewards.fell=-3"] == "task.rewards.fell=-3"
    assert typed["train.learning_rate=0.0003"] == "train.learning_rate=3e-4"
    assert typed["seed=1"] == "seed=1"


def test_an_interval_needs_a_sweeper_that_draws_from_it():
    with pytest.raises(UserError, match="with hydra/sweeper=optuna also intervals"):
        prepare(["train.learning_rate=interval(1e-4,1e-2)"], True)


def _nothing(cfg) -> int:
    return 0


def test_another_process_gets_what_was_typed():
    given = Jobs(_nothing, {"a": "b"}, ["c"], True, 4, ["train.py", "seed=1"], ["python", "train.py", "seed=1"])
    copy = pickle.loads(pickle.dumps(given))
    assert (copy.typed, copy.added, copy.total, copy.orig_argv) == (given.typed, given.added, 4, given.orig_argv)


def test_a_record_is_relative_to_the_sweep(tmp_path):
    record = JobRecord(tmp_path / "runs" / "sweeps" / "a", 1, ["seed=1"])
    record.begin()
    record.note_run(tmp_path / "runs" / "Ant_train_20260101_000000")
    assert '"run": "../../Ant_train_20260101_000000"' in (record.sweep / "jobs" / "1.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["hydra/launcher=basic", *LAUNCHERS])
def test_one_job_of_four_fails_under_each_launcher_and_the_report_has_the_others(tmp_path, launcher):
    own = {"joblib": ["hydra.launcher.n_jobs=3"], "submitit_local": ["hydra.launcher.timeout_min=60"]}
    typed = (*SMALL, "task.rewards.fell=-2", "maxIterations=1", "checkpoint=null,null,null,/nope.pth")
    done = run(tmp_path, "-m", launcher, *own.get(launcher.partition("=")[2], []), *typed)
    assert done.returncode == 2, done.stdout
    (folder,) = (tmp_path / "runs" / "sweeps").iterdir()
    records = read_jobs(folder)
    assert [(record.number, record.status) for record in records] == [(1, 0), (2, 0), (3, 0), (4, 2)]
    assert "1 of 4 jobs failed:" in done.stdout
    assert re.search(r"^  .* checkpoint=/nope\.pth.*: exit status 2$", done.stdout, re.MULTILINE)
    assert {record.run for record in records} == {*runs(tmp_path), None}
    for record in records[:3]:
        assert math.isfinite(record.objective)
        recorded = yaml.safe_load((record.run / "overrides.yaml").read_text())
        assert recorded == list(record.overrides)
        assert {"task.rewards.fell=-2", "checkpoint=null"} <= set(recorded)
        assert (record.run / "command.txt").read_text().split()[2:4] == ["-m", launcher]
        assert record.run.name in done.stdout
    logs = [done.stdout, *(file.read_text() for file in folder.glob(".submitit/*/*.err"))]
    assert sorted(set(re.findall(r"^\[(\d)/4\] ", "\n".join(logs), re.MULTILINE))) == ["1", "2", "3", "4"]
    report = re.search(r"(config=report \S+)$", done.stdout, re.MULTILINE)[1]
    assert run(tmp_path, *report.split()).returncode == 0
    page = (folder / "report" / "report.html").read_text()
    assert all(path.name in page for path in runs(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS[:1])
def test_jobs_save_and_stop_if_the_command_is_killed(tmp_path, launcher):
    arguments = (
        "-m",
        launcher,
        "hydra.launcher.n_jobs=2",
        *SMALL,
        "maxIterations=99999",
        "sim.threads=1",
        "seed=1,2,3",
    )
    with Running(tmp_path, *arguments) as process:
        process.wait_for("iteration 1/", 2)
        begun = runs(tmp_path)
        workers = [int(read_json_dict(path / "run.lock")["pid"]) for path in begun]
        process.end(signal.SIGKILL)
        until(lambda: process.text.count("stopped after") == 2, lambda: process.text)
        until(lambda: not any(map(alive, workers)), lambda: f"one of {workers} still runs")
    assert runs(tmp_path) == begun


@pytest.mark.slow
def test_the_picture_of_the_document_is_drawn_by_its_own_commands(tmp_path):
    out = tmp_path / "sweep.png"
    changes = [word for change in ("seed=1,2", "maxIterations=2", "numEnvs=32") for word in ("--set", change)]
    command = [sys.executable, "-m", "tools.sweep_picture", str(out), *changes]
    done = subprocess.run(command, cwd=TRAIN.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"train\.learning_rate=3e-3 +2 seeds", done.stdout)
    with Image.open(out) as picture:
        assert picture.width > picture.height > 500

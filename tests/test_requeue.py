"""Jobs that are stopped from outside: Ctrl+C in a sweep, a scheduler's notice, and `resume=auto` in the next start."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from livegym.cfg.compose import compose, prepare
from livegym.cfg.own_run import with_own_run
from livegym.cfg.parallel import share_cores
from livegym.cfg.stopping import PassOn, Sweep, stops_with_sweep, watched
from livegym.cfg.typed import to_typed
from livegym.rundir.checkpoint import list_checkpoints, read_checkpoint
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import begin_run
from livegym.rundir.sweep import JobRecord, forget_stop, note_stop, read_jobs, stop_noted
from livegym.schema.settled import settled
from livegym.utils.cores import CORES, SLURM, cores, share
from livegym.utils.errors import UserError
from livegym.utils.signals import StopFlag
from tests.patience import PATIENCE_S, until
from tests.processes import SMALL, TRAIN, run, runs
from tests.test_learning import differences
from tests.test_sweeps import LAUNCHERS

SCRIPT = TRAIN.parent / "examples" / "slurm" / "train.sbatch"
TYPED = ["task=Cartpole", "seed=1"]


@pytest.fixture
def config(tmp_path):
    cfg = compose(["resume=auto", f"runsDir={tmp_path}"])
    cfg.numEnvs = 4
    return settled(to_typed(cfg))


def begun(runs_dir: Path, typed=TYPED, job=None, name=None, saved=True):
    """A run, and a file that stands for its checkpoint."""
    made = begin_run(runs_dir, "Cartpole", "train", Provenance("", "", list(typed), [], job, name))
    if saved:
        (made.nn / "Cartpole_v1_ep1.pth").touch()
    return made


def again(sweep: Path, number: int, typed=TYPED) -> JobRecord:
    record = JobRecord(sweep, number, list(typed))
    record.begin(keep_run=True)
    return record


def test_a_job_of_a_sweep_finds_the_run_of_its_number(config, tmp_path):
    sweep = tmp_path / "sweeps" / "a"
    mine = begun(tmp_path, job=again(sweep, 2))
    begun(tmp_path, job=again(sweep, 3))
    found = with_own_run(config, again(sweep, 2, [*TYPED, "maxIterations=500"]), TYPED)
    assert (found.resume, found.checkpoint) == (True, str(mine.path))
    assert with_own_run(config, again(sweep, 4), TYPED).resume is False
    assert with_own_run(config, again(tmp_path / "sweeps" / "b", 2), TYPED).resume is False
    assert read_jobs(sweep)[0].run == mine.path  # kept, should this one be killed before it begins
    with pytest.raises(UserError, match="was begun with seed=1 task=Cartpole, but this command has seed=2"):
        with_own_run(config, again(sweep, 2, ["task=Cartpole", "seed=2"]), ["task=Cartpole", "seed=2"])


def test_a_job_without_a_checkpoint_begins(config, tmp_path):
    sweep = tmp_path / "sweeps" / "a"
    begun(tmp_path, job=again(sweep, 1), saved=False)
    assert with_own_run(config, again(sweep, 1), TYPED).resume is False


def test_a_job_outside_of_a_sweep_finds_the_run_of_its_name(config, tmp_path):
    named = dataclasses.replace(config, jobName="b")
    begun(tmp_path, name="a")
    begun(tmp_path, name="b", saved=False)
    assert with_own_run(named, None, TYPED).resume is False
    mine = begun(tmp_path, name="b")
    assert with_own_run(named, None, TYPED).checkpoint == str(mine.path)
    with pytest.raises(UserError, match="Choose another name"):
        with_own_run(named, None, ["task=Cartpole"])
    begun(tmp_path, name="b")
    with pytest.raises(UserError, match="jobName=b: 2 runs"):
        with_own_run(named, None, TYPED)


def test_a_job_that_cannot_be_recognised_is_refused(config, tmp_path):
    with pytest.raises(UserError, match="resume=auto: nothing says which job this is"):
        with_own_run(config, None, TYPED)
    with pytest.raises(UserError, match="jobName=a: every job of this sweep"):
        with_own_run(dataclasses.replace(config, jobName="a"), again(tmp_path / "a", 1), TYPED)


@pytest.mark.parametrize("value", ["true", "false", "auto"])
def test_resume_has_three_values(value):
    assert compose([f"resume={value}"]).resume == {"true": True, "false": False}.get(value, value)


@pytest.mark.parametrize("value", ["yes", "2", "'true'", "null"])
def test_and_no_others(value):
    with pytest.raises(UserError, match="Allowed: true, false, auto"):
        compose([f"resume={value}"])


def test_cores_are_shared_by_the_jobs_that_run_at_the_same_time(monkeypatch):
    monkeypatch.setattr("livegym.utils.cores._of_machine", lambda: 8)
    for name in (CORES, SLURM):
        monkeypatch.delenv(name, raising=False)
    assert [share(jobs) for jobs in (1, 2, 3, 8, 9)] == [8, 4, 2, 1, 1]
    assert [cores({SLURM: "6"}), cores({SLURM: "6", CORES: "2"}), cores({SLURM: "99"}), cores({})] == [6, 2, 8, 8]


@pytest.mark.parametrize(
    ("launcher", "keys", "jobs", "each"),
    [
        ("joblib", {"n_jobs": 2}, 16, "4"),
        ("joblib", {"n_jobs": -1}, 16, "1"),
        ("joblib", {"n_jobs": -3}, 16, "1"),  # all cores but two: six jobs
        ("joblib", {"n_jobs": -1}, 2, "4"),
        ("submitit_local", {}, 4, "2"),
        ("submitit_slurm", {}, 4, None),
        ("basic", {}, 4, None),
    ],
)
def test_the_share_of_a_job_depends_on_the_launcher(monkeypatch, launcher, keys, jobs, each):
    monkeypatch.setattr("livegym.utils.cores._of_machine", lambda: 8)
    monkeypatch.setenv(CORES, "8")
    hydra = {
        "runtime": {"choices": {"hydra/launcher": launcher}},
        "launcher": keys,
        "sweeper": {"max_batch_size": None},
    }
    share_cores(OmegaConf.create(hydra), jobs)
    assert os.environ[CORES] == (each or "8")


def test_a_notice_may_come_several_times_and_a_signal_twice_if_it_was_passed_on():
    with StopFlag() as stop:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.wait(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR2)
    assert stop.exit_status == 128 + signal.SIGUSR1
    with StopFlag() as stop:
        stop.pass_on(signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)  # of the same Ctrl+C: it would end this process if it were a second one
    assert stop.exit_status == 130


def test_a_signal_that_comes_before_the_job_stops_it_when_it_begins():
    code = (
        "import os, signal\n"
        "from livegym.utils.signals import StopFlag, hold_back\n"
        "held = hold_back()\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "with StopFlag() as stop:\n"
        f"    assert stop.wait({PATIENCE_S})\n"
        "assert held <= signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"  # again, for the worker's next job
        "print(stop.exit_status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=TRAIN.parent)
    assert (done.stdout, done.stderr) == ("143\n", "")


def test_the_first_signal_to_the_command_reaches_the_jobs_through_the_directory(tmp_path, capfd):
    sweep = tmp_path / "sweep"
    with PassOn(lambda: sweep, "joblib") as signals:
        os.kill(os.getpid(), signal.SIGINT)
        until(lambda: stop_noted(sweep))
    assert signals.exit_status == 130
    with watched(Sweep(sweep, None)), StopFlag() as stop, stops_with_sweep(stop):
        assert stop.wait(PATIENCE_S)
    assert stop.exit_status == 130
    forget_stop(sweep)
    assert Sweep(sweep, os.getpid()).signum == 0
    assert "the jobs save and stop" in capfd.readouterr().err


def test_a_job_stops_if_the_command_is_gone(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert Sweep(tmp_path, process.pid).signum == signal.SIGHUP
    note_stop(tmp_path, signal.SIGINT)
    assert Sweep(tmp_path, process.pid).signum == signal.SIGINT


class Group:
    """A command in a process group of its own, as a terminal has it."""

    def __init__(self, cwd: Path, *command: str, **variables: str) -> None:
        cwd.mkdir(exist_ok=True)
        self.log = cwd / "out.log"
        with self.log.open("a") as out:
            self.process = subprocess.Popen(
                command, cwd=cwd, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, **variables},
            )  # fmt: skip

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait_for(self, holds, what: str) -> None:
        until(holds, lambda: f"{what}:\n{self.log.read_text()}", self.process)

    def members(self) -> list[str]:
        """The processes of the session that run livegym's jobs."""
        listed = subprocess.run(["ps", "-s", str(self.process.pid), "-o", "args="], capture_output=True, text=True)
        return [line for line in listed.stdout.splitlines() if "submitit" in line or "LokyProcess" in line]


def checkpoints(cwd: Path) -> set[Path]:
    return {file.parent.parent for file in cwd.glob("runs/*_train_*/nn/*.pth") if not file.is_symlink()}


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ctrl_c_ends_all_jobs_and_each_saves(tmp_path, launcher):
    size, seeds = ("hydra.launcher.n_jobs=2", "1,2,3") if "joblib" in launcher else ("hydra.launcher.nodes=1", "1,2")
    arguments = ("-m", launcher, size, *SMALL, "maxIterations=99999", f"seed={seeds}")
    with Group(tmp_path, sys.executable, str(TRAIN), *arguments) as command:
        command.wait_for(lambda: len(checkpoints(tmp_path)) == 2, "two jobs")
        os.killpg(command.process.pid, signal.SIGINT)
        assert command.process.wait(PATIENCE_S) == 130
        until(lambda: not command.members(), lambda: "\n".join(command.members()))
        said = command.log.read_text()
    (sweep,) = (tmp_path / "runs" / "sweeps").iterdir()
    assert [(job.number, job.status) for job in read_jobs(sweep)] == [(1, 130), (2, 130)]
    assert f"2 of {len(seeds.split(','))} jobs failed" in said
    for path in runs(tmp_path):
        assert path.name in said
        newest = list_checkpoints(path)[0]
        assert f"stopped after {newest.epoch} iteration" in (path / "train.log").read_text()


def last_state(run_dir: Path) -> dict:
    state = read_checkpoint(list_checkpoints(run_dir)[0].path)
    for name in ("config", "livegym", "last_mean_rewards"):
        state.pop(name)
    state["learner"].pop("best_return")  # decided when saving, which was at other times
    return state


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS[1:])
def test_a_job_that_submitit_requeues_goes_on_exactly_where_it_stood(tmp_path, launcher):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    common = (*SMALL, "maxIterations=40")
    sweep = ("-m", launcher, "hydra.launcher.timeout_min=600", "resume=auto", *common)
    with Group(parts, sys.executable, str(TRAIN), *sweep) as command:
        command.wait_for(lambda: checkpoints(parts), "a checkpoint")
        (run_dir,) = runs(parts)
        holder = int(re.search(r'"pid": ?(\d+)', (run_dir / "run.lock").read_text())[1])
        os.kill(holder, signal.SIGUSR2)  # what submitit's controller sends before the time is over
        assert command.process.wait(PATIENCE_S) == 0, command.log.read_text()
    assert runs(parts) == [run_dir]
    log = (run_dir / "train.log").read_text()
    stopped = int(re.search(r"stopped after (\d+) iteration", log)[1])
    assert f"continuing from {run_dir}/nn/Cartpole_v{stopped}_ep{stopped}.pth" in log
    assert "finished after 40 iterations" in log
    assert "new episodes begin" not in log
    (job,) = read_jobs(next((parts / "runs" / "sweeps").iterdir()))
    assert (job.status, job.run) == (0, run_dir)
    assert run(whole, *common, "sim.threads=1").returncode == 0
    assert differences(last_state(run_dir), last_state(runs(whole)[0])) == []


@pytest.mark.slow
@pytest.mark.parametrize("launcher", LAUNCHERS[1:])
def test_sigterm_under_submitit_saves_and_ends_the_job(tmp_path, launcher):
    """submitit's own handler would ignore it; SLURM kills the job a moment later."""
    sweep = ("-m", launcher, "resume=auto", *SMALL, "maxIterations=99999")
    with Group(tmp_path, sys.executable, str(TRAIN), *sweep) as command:
        command.wait_for(lambda: checkpoints(tmp_path), "a checkpoint")
        (run_dir,) = runs(tmp_path)
        holder = int(re.search(r'"pid": ?(\d+)', (run_dir / "run.lock").read_text())[1])
        os.kill(holder, signal.SIGTERM)
        assert command.process.wait(PATIENCE_S) == 143, command.log.read_text()
    assert "1 of 1 job failed" in command.log.read_text()
    assert "stopped after" in (run_dir / "train.log").read_text()


def test_the_slurm_script_is_shell_and_its_options_are_those_of_sbatch():
    assert subprocess.run(["bash", "-n", str(SCRIPT)]).returncode == 0
    options = dict(
        line.removeprefix("#SBATCH --").partition("=")[::2]
        for line in SCRIPT.read_text().splitlines()
        if line.startswith("#SBATCH")
    )
    forms = {  # of sbatch's manual
        "job-name": r"\w+", "nodes": r"\d+", "ntasks": r"\d+", "cpus-per-task": r"\d+", "mem": r"\d+[KMGT]?",
        "time": r"\d\d:\d\d:\d\d", "signal": r"(B:)?(USR1|10)@\d+", "requeue": "", "open-mode": "append|truncate",
        "output": r"\S*%j\S*",
    }  # fmt: skip
    assert {name: bool(re.fullmatch(forms[name], value)) for name, value in options.items()} == dict.fromkeys(
        forms, True
    )


def test_the_command_of_the_document_for_a_cluster_composes():
    document = (TRAIN.parent / "docs" / "sweeps.md").read_text().replace("\\\n", " ")
    (line,) = [
        line for line in document.splitlines() if line.startswith("python train.py -m hydra/launcher=submitit_s")
    ]
    prepared = prepare(shlex.split(line)[3:], multirun=True)
    assert [cfg.resume for cfg in prepared.samples] == ["auto"] * 4


@pytest.mark.slow
def test_the_slurm_script_goes_on_when_it_is_started_again(tmp_path):
    command = ["bash", str(SCRIPT), *SMALL, "maxIterations=40"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with Group(tmp_path, *command, PATH=path, SLURM_JOB_ID="") as script:
        script.wait_for(lambda: checkpoints(tmp_path), "a checkpoint")
        script.process.send_signal(signal.SIGUSR1)
        assert script.process.wait(PATIENCE_S) == 138, script.log.read_text()
    (run_dir,) = runs(tmp_path)
    assert "stopped after" in (run_dir / "train.log").read_text()
    with Group(tmp_path, *command, PATH=path, SLURM_JOB_ID="") as script:
        assert script.process.wait(PATIENCE_S) == 0, script.log.read_text()
    assert runs(tmp_path) == [run_dir]
    assert "finished after 40 iterations" in (run_dir / "train.log").read_text()
    assert shlex.quote("jobName=slurm-none") in (run_dir / "command.txt").read_text()


@pytest.mark.slow
def test_a_sweep_that_was_stopped_goes_on_in_the_same_directory(tmp_path):
    sweep = ("-m", "hydra.sweep.dir=runs/sweeps/mine", "resume=auto", *SMALL, "maxIterations=40", "seed=1,2")
    with Group(tmp_path, sys.executable, str(TRAIN), *sweep) as command:
        command.wait_for(lambda: checkpoints(tmp_path), "a checkpoint")
        command.process.send_signal(signal.SIGUSR1)
        assert command.process.wait(PATIENCE_S) == 138, command.log.read_text()
    (first,) = runs(tmp_path)
    done = run(tmp_path, *sweep)
    assert done.returncode == 0, done.stdout
    assert len(runs(tmp_path)) == 2
    assert read_jobs(tmp_path / "runs" / "sweeps" / "mine")[0].run == first
    assert all("finished after 40 iterations" in (path / "train.log").read_text() for path in runs(tmp_path))

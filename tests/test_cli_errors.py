"""The command line: every mistake ends with one readable message, status 2 and nothing on disk; sweeps go on."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import DictConfig

from livegym.cfg import cli, jobs
from livegym.cfg.compose import compose, prepare
from livegym.cfg.help import help_text
from livegym.cfg.overrides import typed_safely
from livegym.tasks import TASKS
from livegym.utils.errors import UserError
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent


class Recorder:
    """A job that remembers its configurations; `fails` may raise or return a status."""

    def __init__(self, fails=lambda cfg: None):
        self.configs: list[DictConfig] = []
        self.explicit: list[list[str]] = []
        self.fails = fails

    def __call__(self, cfg: DictConfig) -> int | None:
        self.configs.append(cfg)
        self.explicit.append(jobs.explicit_overrides())
        return self.fails(cfg)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run("seed=1", ..., job=...) -> exit status, in an empty working directory."""
    monkeypatch.chdir(tmp_path)

    def _run(*arguments: str, job=None) -> int:
        monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
        return cli.run(job or Recorder())

    return _run


BAD = [  # arguments, then what the message must contain: the value, and what is allowed or the nearest name
    (["num_envs=4"], ["num_envs=4", "Use numEnvs=4"]),
    (["numEvns=4"], ["numEvns=4", "Did you mean numEnvs?"]),
    (["help"], ["help", "Write --help"]),
    (["list-tasks"], ["list-tasks", "Write --list-tasks"]),
    (["confg=test"], ["confg=test", "Did you mean config?"]),
    (["learning_rate=1e-3"], ["learning_rate=1e-3", "Use train.learning_rate=1e-3"]),
    (["train.learning_rte=1"], ["train.learning_rte=1", "Did you mean train.learning_rate?"]),
    (["+train.learnin_rate=1"], ["+train.learnin_rate=1", "train.learning_rate", "Allowed in train"]),
    (["task.numEnvs=3"], ["task.numEnvs=3", "Use numEnvs=3"]),
    (["train.params.config.learning_rate=1"], ["Use train.learning_rate=1"]),
    (["max_iterations=3"], ["Use maxIterations=3"]),
    (["headless=true"], ["headless=true", "config=train_headless"]),
    (["task.params.max_pushh=3"], ["Did you mean task.params.max_push?"]),
    (["task=Ant", "task.params.max_push=3"], ["task.params.max_push=3", "no such key", "Allowed in task.params"]),
    (["task.rewards.uprite=3"], ["task.rewards.uprite=3", "Did you mean task.rewards.upright?"]),
    (["+task.rewards.new=3"], ["+task.rewards.new=3", "Allowed in task.rewards", "upright"]),
    (["task.noise.foo=0.1"], ["task.noise.foo=0.1", "pole_angle"]),
    (["config=debugg"], ["config=debugg", "Did you mean debug?"]),
    (
        ["task=Carpole"],
        ["task=Carpole", "Allowed: Ant, BaseTask, BlindGrasping, Cartpole, Push, Spaces, Territory.", "mean Cartpole?"],
    ),
    (["task=null"], ["task=null", "Ant, BaseTask, BlindGrasping, Cartpole, Push, Spaces, Territory"]),
    (["train=CartpolPPO"], ["train=CartpolPPO", "Did you mean CartpolePPO?"]),
    (["sim=mujocco"], ["sim=mujocco", "Did you mean mujoco?"]),
    (["physics=quick"], ["physics=quick", "accurate, default, fast"]),
    (["task=Territory", "sim=mujoco"], ["sim=mujoco", "Allowed: none", "Leave sim= out"]),
    (["task=Territory", "sim=reference"], ["sim=reference", "Allowed: none"]),
    (["task=Ant", "sim=none"], ["sim=none", "task=Ant", "Allowed: mujoco, reference", "--list-tasks"]),
    (["sim.engine=none"], ["sim=none", "task=Cartpole", "Allowed: mujoco, reference"]),
    (["task=Territory", "viewer=true"], ["viewer=true", "no bodies", "Allowed: viewer=false", "config=test"]),
    (["task=Territory", "watch=true"], ["watch=true", "Allowed: watch=false"]),
    (["task=Territory", "trainVideoEvery=5"], ["trainVideoEvery=5", "Allowed: trainVideoEvery=0"]),
    (["task=Territory", "config=test_viewer", "checkpoint=latest"], ["viewer=true", "no bodies"]),
    (["task=Territory", "config=test_stream", "checkpoint=latest"], ["watch=true", "no bodies"]),
    (["task=Territory", "config=test_record", "checkpoint=latest"], ["videoRecord=true", "no bodies"]),
    (["task=Territory", "physics=fast"], ["physics.integrator=euler", "Allowed: physics=default"]),
    (["task=Territory", "physics.substeps=2"], ["physics.substeps=2", "Leave physics out"]),
    (["-m", "task=Territory,Ant", "sim=none", "watch=true"], ["watch=true", "no bodies"]),
    (["task.name=Ant"], ["task.name=Ant", "task=<Name>"]),
    (["numEnvs=many"], ["numEnvs=many", "a whole number from 1"]),
    (["numEnvs=0"], ["numEnvs=0", "too small"]),
    (["numEnvs=true"], ["numEnvs=true", "a whole number"]),
    (["numEnvs=1e3"], ["numEnvs=1e3", "Write numEnvs=1000"]),
    (['numEnvs="8"'], ['numEnvs="8"', "Leave the quotes out"]),
    (["seed=None"], ["seed=None", "seed=null"]),
    (["resume=2"], ["resume=2", "Allowed: true, false"]),
    (['resume="False"'], ['resume="False"', "Allowed: true, false"]),
    (["resume=null"], ["resume=null", "Allowed: true, false"]),
    (["checkpoint=None"], ["checkpoint=None", "checkpoint=null"]),
    (["checkpoint=none"], ["checkpoint=none", "checkpoint=null"]),
    (['checkpoint=""'], ['checkpoint=""', "checkpoint=null"]),
    (['checkpoint="null"'], ['checkpoint="null"', "checkpoint=null"]),
    (["checkpoint=/tmp/a b/ep=10.pth"], ["""'checkpoint="/tmp/a b/ep=10.pth"'"""]),
    (["checkpoint=a,b.pth"], ["""'checkpoint="a,b.pth"'""", "-m"]),
    (["checkpoint=[3]"], ["checkpoint=[3]", """'checkpoint="[3]"'"""]),
    (["checkpoint=${foo}"], ["checkpoint=${foo}", "'foo' not found"]),
    (["train.learning_rate=nan"], ["train.learning_rate=nan", "not a finite number"]),
    (["train.learning_rate=fast"], ["train.learning_rate=fast", "a number above 0"]),
    (["train.network.units=64"], ["train.network.units=64", "a list"]),
    (["train.network={unitz:[3]}"], ["Did you mean train.network.units?"]),
    (["train.network.recurrent.cell=rnn"], ["lstm, gru"]),
    (["device=gpu"], ["device=gpu", "cpu, cuda"]),
    (["device=cuda:99"], ["device=cuda:99", "on this machine", "Allowed: cpu"]),
    (["Ant"], ["Ant", "task=Ant"]),
    (["--headless"], ["--headless", "config=train_headless"]),
    (["--list-task"], ["--list-task", "Did you mean --list-tasks?"]),
    (["seed=1", "seed=2"], ["seed=2", "given twice"]),
    (["+defaults=[foo]"], ["+defaults=[foo]", "config="]),
    (["~seed"], ["~seed", "cannot be deleted"]),
    (["task@train=Ant"], ["task@train=Ant", "task=<name>"]),
    (["seed=1,2"], ["seed=1,2", "-m"]),
    (["seed==3"], ["seed==3", "Write seed=3"]),
    (["seed =3"], ["Write seed=3"]),
    (["resume=true"], ["resume=true", "checkpoint=latest"]),
    (["resume=true", "config=test", "checkpoint=latest"], ["resume=true", "mode=test"]),
    (["numEnvs=7", "train.num_minibatches=3"], ["112", "numEnvs=6 or 9", "train.num_minibatches=2 or 4"]),
    (["train.network.recurrent.sequence_length=5"], ["sequence_length=5", "horizon_length=16"]),
    (["-m", "numEnvs=4,x"], ["numEnvs=x", "a whole number"]),
    (["-m", "task=Ant,Cartpole", "task.params.max_push=1"], ["task.params.max_push=1", "no such key"]),
    (["-m", "resume=true", "seed=1,2"], ["resume=true", "checkpoint=latest"]),
    (["-m", "--cfg", "job"], ["--cfg", "only one"]),
    (["hydra.foo=1"], ["hydra.foo"]),
    (["task=Carpole", "projectDir=null"], ["task=Carpole"]),
    (["projectDir=nowhere"], ["projectDir=nowhere", "no such folder", "Allowed: a folder that holds cfg/"]),
    (["projectDir=/dev/null"], ["projectDir=/dev/null", "that is a file", "Allowed: a folder"]),
    (["projectDir=" + 300 * "a"], ["no such folder"]),
    (['projectDir="~nosuchuser/x"'], ["projectDir=~nosuchuser/x", "no such folder"]),
    (["projectDir=~/x"], ["projectDir=~/x", f"projectDir={Path.home()}/x"]),
    (["projectDir=a", "projectDir=a"], ["projectDir=a projectDir=a", "Allowed: one folder"]),
    (["-m", "projectDir=a,b"], ["projectDir=a,b", "Allowed: one folder"]),
    (["projectDir=[a]"], ["projectDir=[a]", "Allowed: one folder"]),
]


@pytest.mark.parametrize(("arguments", "needles"), BAD, ids=lambda v: " ".join(v) if isinstance(v, list) else None)
def test_a_mistake_is_explained_and_leaves_nothing_behind(run, capfd, tmp_path, arguments, needles):
    job = Recorder()
    assert run(*arguments, job=job) == 2
    text = capfd.readouterr().err
    assert not job.configs
    assert "Traceback" not in text
    assert 1 <= len(text.strip().splitlines()) <= 3
    for needle in needles:
        assert needle in text
    assert not list(tmp_path.iterdir())


GOOD = [
    ["config=train_headless", "task=Ant"],
    ["config=test", "testGamesNum=0", "checkpoint=latest", "numEnvs=1"],
    ["checkpoint=null", "seed=0", "keepLast=-1"],
    ["resume=true", "checkpoint=latest", "maxIterations=500"],
    ["train.learning_rate=1e-3", "train.network.units=[64,64]"],
    ["+seed=3", "++numEnvs=8"],
    ["train.network={activation:relu,recurrent:{cell:gru}}"],
    ["hydra.job.chdir=true", "checkpoint=./x.pth"],
]


@pytest.mark.parametrize("arguments", GOOD, ids=" ".join)
def test_a_good_command_line_runs_once_and_hydra_makes_nothing(run, tmp_path, arguments):
    job = Recorder()
    assert run(*arguments, job=job) == 0
    assert len(job.configs) == 1
    assert job.explicit[0] == [a for a in arguments if not a.startswith("hydra.")]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "path",
    ["/a b/ep=10,rew=[3].pth", "it's/{x}.pth", 'q"uote.pth', "20250801_095943", "1_0,2", "/é/x.pth", "/a/b"],
)
def test_a_path_typed_as_the_message_says_arrives_unchanged(path):
    (argument,) = shlex.split(typed_safely("checkpoint", path))
    assert prepare([argument]).samples[0].checkpoint == path


def test_digits_in_a_run_name_stay_as_typed(run):
    job = Recorder()
    assert run("checkpoint=20250801_095943", job=job) == 0
    assert job.configs[0].checkpoint == "20250801_095943"
    assert job.explicit == [["checkpoint=20250801_095943"]]


def test_sweep_runs_each_job_in_the_directory_where_it_was_typed(run, tmp_path):
    job = Recorder(lambda cfg: Path(f"here_{cfg.seed}").touch())
    assert run("seed=1,2,3", "-m", "task=Ant", "hydra.job.chdir=true", job=job) == 0
    assert [c.seed for c in job.configs] == [1, 2, 3]
    assert job.explicit[1] == ["seed=2", "task=Ant"]
    assert {p.name for p in tmp_path.iterdir()} == {"runs", "here_1", "here_2", "here_3"}
    files = sorted(p.name for p in (tmp_path / "runs").rglob("*") if p.is_file())
    assert files == ["1.json", "2.json", "3.json", "multirun.yaml"]


def _two_fails(error):
    def fails(cfg):
        if cfg.seed == 2:
            raise error

    return fails


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UserError("no such run"), 2, "no such run"),
        (ZeroDivisionError("bug"), 1, "Traceback"),
        (SystemExit(3), 3, "sys.exit(3)"),
    ],
)
def test_a_failing_job_does_not_end_the_sweep(run, capfd, error, status, message):
    job = Recorder(_two_fails(error))
    assert run("-m", "seed=1,2,3", job=job) == status
    assert [c.seed for c in job.configs] == [1, 2, 3]
    text = capfd.readouterr().err
    assert message in text
    assert "1 of 3 jobs failed:\n  seed=2: exit status" in text


def test_a_size_that_does_not_fit_fails_its_own_job_only(run, capfd):
    job = Recorder()
    assert run("-m", "numEnvs=7,8", "train.num_minibatches=64", job=job) == 2
    assert [c.numEnvs for c in job.configs] == [8]
    assert "numEnvs=7 train.num_minibatches=64: exit status 2" in capfd.readouterr().err


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), None])
def test_ctrl_c_ends_the_sweep(run, capfd, stop):
    def fails(cfg):
        if cfg.seed == 2 and stop:
            raise stop
        return 130 if cfg.seed == 2 else 0

    job = Recorder(fails)
    assert run("-m", "seed=1,2,3", job=job) == 130
    assert [c.seed for c in job.configs] == [1, 2]
    assert "seed=2: exit status 130" in capfd.readouterr().err


def test_a_current_directory_that_is_gone(run, capfd, tmp_path):
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")  # `run` goes back
    (tmp_path / "gone").rmdir()
    for arguments in (["--list-tasks"], ["new", "zz"], []):
        assert run(*arguments) == 2
        assert "the current directory cannot be used" in capfd.readouterr().err


def test_exit_statuses_of_a_single_run(run, capfd):
    assert run(job=Recorder(lambda cfg: 130)) == 130
    assert run("seed=2", job=Recorder(_two_fails(UserError("text", exit_code=4)))) == 4
    assert run("seed=2", job=Recorder(_two_fails(KeyboardInterrupt()))) == 130
    assert run("seed=2", job=Recorder(_two_fails(SystemExit("bye")))) == 1
    assert "bye" in capfd.readouterr().err
    assert run("seed=2", job=Recorder(_two_fails(ZeroDivisionError("bug")))) == 1
    assert "ZeroDivisionError: bug" in capfd.readouterr().err


def test_keys_without_effect_in_this_mode_are_named(run, capfd):
    assert run("agent=zero") == 0
    assert "agent=zero has no effect in mode=train" in capfd.readouterr().err


def test_explicit_keys(run):
    configs = []
    assert (
        run("++seed=1", "task=Ant", job=lambda cfg: configs.extend(map(jobs.is_explicit, ("seed", "task", "sim")))) == 0
    )
    assert configs == [True, True, False]
    assert jobs.explicit_overrides() == []


def test_secrets_are_kept_out_of_the_sweep_directory(tmp_path):
    from livegym.cfg.typed import hide_secrets

    file = tmp_path / "multirun.yaml"
    file.write_text("hydra: {overrides: {task: [streamToken=abc, seed=1]}}\nstreamToken: abc\n")
    hide_secrets(file)
    assert "abc" not in file.read_text()
    assert "seed=1" in file.read_text()


def test_hydras_own_options_work(run, capfd, tmp_path):
    assert run("task=Ant", "numEnvs=8", "--cfg", "job", "--resolve") == 0
    out = capfd.readouterr().out
    assert "numEnvs: 8" in out
    assert "name: Ant" in out
    assert run("--info", "defaults") == 0
    assert "schema/task/Cartpole" in capfd.readouterr().out
    assert not list(tmp_path.iterdir())


def test_tab_completion_offers_tasks_and_nothing_of_the_schema(run, capfd, monkeypatch):
    monkeypatch.setenv("COMP_LINE", "python train.py task=")
    monkeypatch.setenv("COMP_POINT", "21")
    assert run("-sc", "query=bash") == 0
    assert capfd.readouterr().out.split() == [f"task={name}" for name in sorted(TASKS)]


MIGRATION = (
    (ROOT / "docs" / "configuration.md").read_text().partition("## Coming from Isaac Gym")[2].partition("\n## ")[0]
)
ISAAC_GYM = [row.strip("| ").split(" | ") for row in MIGRATION.splitlines() if row.startswith("| ")][2:]
"""Rows of the table: (key of IsaacGymEnvs, what there is in livegym)."""
HELP_SCRIPT = """
import sys
from livegym.cfg import cli, jobs
from livegym.cfg.compose import prepare
from livegym.cfg.help import help_text
from livegym.cfg.overrides import typed_safely
status = cli.run(print)
assert "torch" not in sys.modules, "help must not wait for torch"
raise SystemExit(status)
"""


def test_help_with_a_task_has_its_parameters_with_unit_and_range():
    text = help_text(200, ["task=BlindGrasping"])
    assert "task.params.lift_height=0.2" in text
    assert "height above which the box's centre counts as lifted [m] (a number above 0.03)" in text
    assert "lift_height" not in help_text(200)


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (key, re.findall(r"`([\w.-]+)|(TensorBoard)", right))
        for left, right in ISAAC_GYM
        for key in re.findall(r"`([\w.]+)`", left if left.startswith("`") else "")
        if key != "test"  # it is not a number
    ],
)
def test_a_key_of_isaac_gym_is_answered_as_the_documents_say(key, names):
    with pytest.raises(UserError) as error:
        compose(["task=Ant", f"{key}=1"])
    hint = error.value.message.partition("there is no such key.")[2].splitlines()[0]
    assert any(name in hint for name in map("".join, names)), error.value.message


def test_the_help_of_a_task_has_the_values_of_its_yaml_and_of_the_preset():
    text = " ".join(help_text(200, ["--help", "task=Ant", "config=debug", "train.tau=0.9"]).split())
    assert "The values below are those of: python train.py task=Ant config=debug train.tau=0.9" in text
    for value in ("numEnvs=8", "maxIterations=2", "task.episode_length_s=50.0", "train.tau=0.9"):
        assert f" {value} " in text
    assert re.search(r"task\.rewards .*; value: \{forward: 1\.0, healthy: 1\.0, ", text)
    assert " numEnvs=512 " in " ".join(help_text(200, ["--help", "task=BlindGrasping"]).split())
    assert " numEnvs=null " in " ".join(help_text(200).split())


def test_the_help_says_if_the_values_cannot_be_known():
    text = " ".join(help_text(200, ["--help", "task=Ant", "numEnvs=x"]).split())
    assert "The values below are defaults" in text
    assert "numEnvs=x: not a number" in text
    assert "task.randomization.<name>.interval_s" in text
    assert "task.curriculum.params" in text
    with pytest.raises(UserError, match=r"task=Blind: unknown\. Allowed: Ant"):
        help_text(200, ["task=Blind"])


def test_help_is_quick_to_come_and_complete():
    done = subprocess.run(
        [sys.executable, "-c", HELP_SCRIPT, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    for needle in ("debug", "Cartpole", "numEnvs=null", "train.learning_rate=0.0003", "reloadInterval=30.0", "[s]"):
        assert needle in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_list_of_tasks(run, capfd):
    assert run("--list-tasks") == 0
    out = " ".join(capfd.readouterr().out.split())
    assert "Cartpole" in out
    assert "Actions: Box(size=1); control: 60 Hz; episode: 8.33 s (500 steps)" in out
    assert "Actions: MultiDiscrete(nvec=(400, 2)); control: every 15 s; episode: 3,000 s (200 steps)" in out


def test_outside_its_environment_it_says_which_command_to_type():
    """`-S` leaves out site-packages, as a Python has none of the libraries if the environment is not activated."""
    done = subprocess.run([sys.executable, "-S", "train.py"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        r"error: \S+ has no module '\w+'\. (Activate the environment|Set up the environment and activate it): .*\n",
        done.stderr,
    )

"""Every command that the documents show is run, as it stands there, in an empty directory, or listed with a reason.

A command is a line of a block that a shell could run, or a word in the text that begins like one.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from livegym.cfg.compose import prepare
from livegym.cfg.validate import validate
from livegym.tasks.hand.asset import OURS as OUR_HAND
from tests.processes import Running, run
from tests.screen import Screen

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "clients/python/README.md")),
    ROOT / "projects" / "template" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
CODE = re.compile(r"`([^`]+)`")
PROGRAMS = (
    "python", "livegym", "make", ".venv/bin/python", "pip", "sudo", "source", "tensorboard", "curl", "ssh", "scp",
    "rsync", "unison", "while", "cd", "git", "export", "MUJOCO_GL=egl", "nohup", "docker",
)  # fmt: skip
"""What the lines of a document begin with that are commands."""

FOLLOWED = {
    "docs/new-task.md": "tests/test_new_task.py runs its commands one after the other",
    "docs/new-stream.md": "tests/test_new_stream.py runs its commands one after the other",
    "docs/protocol.md": "tests/test_online_docs.py sends its requests",
    "docs/export.md": "tests/test_export.py runs its commands one after the other",
    "docs/your-robot.md": "tests/test_your_robot.py runs its commands one after the other",
    "docs/isaacgym.md": "tests/test_foreign_docs.py runs its commands with small tasks of its own",
    "docs/blind-grasping-compared.md": "tests/test_foreign_docs.py runs its command, if there is a checkout",
}
"""Documents whose blocks are run as a whole by a test of their own."""

ELSEWHERE = {
    "while true; do rsync -aF --inplace server:livegym/runs/ ./runs/; sleep 30; done &":
        "test_copies_cli.py, between two folders",
    "rsync -F": "test_copies.py",
    "rsync -aF --inplace": "test_copies.py",
    "rsync -av": "test_benchmarks.py runs benchmarks.copies, which does it",
    "unison livegym -repeat 30": "test_copies.py, without the repetition",
    "MUJOCO_GL=egl python -m livegym.viewers.strip docs/policies/BlindGrasping.pth docs/images/grasp.png":
        "test_strip.py",
    "python -m livegym.viewers.strip docs/policies/BlindGrasping.pth grasp.png": "test_strip.py",
    "ssh -L 58080:localhost:58080 you@server": "it needs another machine",
    "sudo apt-get install python3-venv git rsync unison openssh-client gcc": "it changes the machine; .ci/run does it",
    "sudo apt-get install libegl1 libgl1-mesa-dri": "it changes the machine; .ci/run does it",
    "source .venv/bin/activate": "the tests run in that environment",
    ".venv/bin/python -m pytest tests/test_env.py": "this is how tests run",
    "tensorboard --logdir runs": "a program of its own; test_train_cli.py reads the curves as it does",
    "python -m livegym.compat -m isaacgymenvs.train": "test_foreign_docs.py, if there is a checkout",
    "python probe.py > probe.json": "it needs the original Isaac Gym; test_compat_probe.py runs the file here",
    "python train.py --list-tasks projectDir=../IsaacGymEnvs": "test_foreign_cli.py lists the toys",
    "livegym task=BlindGrasping hand=my_hand.yaml": "test_another_hand.py makes its environments, with a toy hand",
    "livegym task=BlindGrasping hand=dexhand021 asset=<dexrobot_mujoco>/models/dexhand021_right_simplified.xml":
        "test_another_hand.py makes its environments, if there is a checkout",
    "livegym task=BlindGrasping hand=allegro asset=<...>/kuka_allegro_description/kuka_allegro_touch_sensor.urdf":
        "test_another_hand.py makes its environments, if there is a checkout",
    "livegym config=test_viewer agent=random task=BlindGrasping hand=my_hand.yaml task.params.easy_start=1 "
    "testGamesNum=0":
        "it opens a window; test_another_hand.py lifts the box from such starts",
    "livegym new": "test_outside_project.py",
    "livegym new my_robot": "test_outside_project.py",
    "livegym new my_robot --from robot.urdf": "test_your_robot.py",
    "livegym new --from": "test_robots.py",
    "livegym new plant": "test_new_stream.py",
    "livegym serve": "test_any_environment.py",
    "livegym serve --env CartPole-v1": "test_any_environment.py",
    "curl -s $URL/spec; echo": "test_any_environment.py",
    "python -m tools.protocol_schema": "test_any_environment.py compares its output",
    "pip install ./clients/python": "test_client_package.py installs the wheel of that folder",
    "pip install path/to/livegym": "tests/installed.py installs livegym's wheel for the tests of projects",
    "pip install -e path/to/slider": "test_outside_project.py installs such a project",
    "pip install -e .": "test_outside_project.py installs such a project",
    "python -m livegym.viewers.strip docs/policies/BlindGrasping.pth docs/images/grasp.png": "test_strip.py",
    "python -m tools.pictures window docs/images/window.png": "test_pictures.py",
    "python -m tools.pictures learning docs/images/learning.webp v1.pth v99.pth docs/policies/BlindGrasping.pth":
        "test_pictures.py",
    "python -m tools.sweep_picture docs/images/sweep.png": "test_sweeps.py draws a smaller one",
    "python train.py config=report runs=runs/sweeps/20260102_120008_123456": "test_sweeps.py: a sweep prints it",
    "python train.py -m task=Cartpole seed=1,2,3,4,5,6,7,8 train.learning_rate=3e-3,3e-4 "
    "     train.lr_schedule=constant maxIterations=40 numEnvs=128": "test_sweeps.py runs it with fewer seeds",
    "python train.py -m hydra/launcher=joblib hydra.launcher.n_jobs=2 seed=1,2 maxIterations=5":
        "test_sweeps.py, if the extra is installed",
    "python train.py -m hydra/launcher=submitit_local hydra.launcher.timeout_min=60 seed=1,2 maxIterations=5":
        "test_sweeps.py, if the extra is installed",
    "python train.py -m hydra/launcher=submitit_slurm hydra.launcher.partition=cpu hydra.launcher.cpus_per_task=8 "
    "     hydra.launcher.timeout_min=240 hydra.launcher.max_num_timeout=10 resume=auto task=Ant seed=1,2,3,4":
        "it needs a cluster; test_requeue.py composes it",
    "sbatch examples/slurm/train.sbatch task=Ant seed=1 maxIterations=2000":
        "it needs a cluster; test_requeue.py runs the script in a plain shell",
    "docker build -t livegym .": "it needs Docker; test_dockerfile.py carries out the lines of the Dockerfile",
    'docker run --rm -v "$PWD/runs:/data/runs" livegym': "it needs Docker; test_dockerfile.py runs the image's command",
    "python train.py config=train_headless task=Cartpole maxIterations=5 wandb=true wandbMode=offline":
        "test_trackers.py, if the extra is installed",
    "pip install 'livegym[launchers]'": "extras of setup.py; CI installs them",
    "pip install 'livegym[wandb]'": "extras of setup.py; CI installs them",
    "pip install 'livegym[export]'": "extras of setup.py; CI installs them",
    "pip install 'livegym[sb3]'": "extras of setup.py; CI installs them",
    "pip install 'livegym[rsl_rl]'": "extras of setup.py; CI installs them",
    "pip install 'livegym[skrl]'": "extras of setup.py; CI installs them",
    "python examples/train_sb3.py": "test_adapters_live.py runs it, with fewer steps",
    "pip install 'livegym[convex]'": "an extra of setup.py; test_compat_decompose.py uses it if it is installed",
    "python -m tools.tasks_page": "test_docs.py compares what it would write",
    "python -m tools.architecture_picture": "test_docs.py compares what it would write",
    "python -m tools.page_pictures page docs/images/page.png": "test_page_pictures.py draws a smaller one",
    "python -m tools.page_pictures phone docs/images/phone.png": "test_page_pictures.py draws a smaller one",
    "python -m tools.page_pictures dashboard docs/images/dashboard.png": "test_page_pictures.py draws a smaller one",
    "rsync -a": "test_follow_cli.py",
    "rsync --inplace": "test_follow_cli.py",
    "python -m pytest": "test_outside_project.py runs a project's own tests",
    "python train.py": "what every command begins with",
    "livegym config=test agent=random task=Slider testGamesNum=4": "test_new_task.py",
    "livegym config=train_headless task=Slider": "test_new_task.py",
    "livegym config=test checkpoint=latest testGamesNum=100": "test_new_task.py",
    "livegym config=test_stream checkpoint=latest testGamesNum=0": "run here as `python train.py ...`",
    "livegym --help task=Slider": "test_half_made_task.py",
    "livegym projectDir=path/to/slider task=Slider": "test_outside_project.py runs every mode so",
    "livegym config=continuous task=Cartpole simulator=external": "test_client_package.py",
    'curl -H "Authorization: Bearer $TOKEN" http://server:58080/stats': "test_web_access.py sends that header",
    "python train.py config=test_viewer testGamesNum=0 checkpoint=http://server:58080 "
    "weightsTokenFile=~/.livegym-token": "test_network_cli.py, with a server on this machine",
}  # fmt: skip
"""Commands that are not run here, and where they are, or why not."""

COMPOSED = {
    "python train.py config=train_headless task=BlindGrasping seed=1": "README.md's with another seed",
    "python train.py config=continuous task=BlindGrasping gate=lookahead online.look_ahead=50    playSpeed=0 "
    "online.look_ahead_policy=docs/policies/BlindGrasping.pth": "test_look_ahead_policy.py makes such a gate",
}
"""Commands that are only composed and checked: starting the same is tested with another of their values."""


def in_blocks(document: Path) -> list[str]:
    """The commands in a document's blocks, without their comments."""
    lines = [line for language, block in FENCE.findall(document.read_text()) for line in shell_lines(language, block)]
    return [line for line in (line.split("  #")[0].strip() for line in lines) if line]


def in_text(document: Path) -> list[str]:
    """The commands in a document's text."""
    text = FENCE.sub("", document.read_text()).replace("\n", " ")
    return [code for code in CODE.findall(text) if " " in code and is_command(code)]


def shell_lines(language: str, block: str) -> list[str]:
    """The lines of a block that a shell could run, each with those that go on with it."""
    if language not in ("bash", "sh", "console", "shell", "text", ""):
        return []
    lines = block.replace("\\\n", " ").splitlines()
    return lines if language == "bash" else [line for line in lines if is_command(line)]


def is_command(line: str) -> bool:
    return line.split(" ")[0] in PROGRAMS


def commands(document: Path) -> list[str]:
    """The commands of a document that its own test does not run."""
    followed = document.relative_to(ROOT).as_posix() in FOLLOWED
    return [*([] if followed else in_blocks(document)), *in_text(document)]


ALL = list(dict.fromkeys(command for document in DOCUMENTS for command in commands(document)))
LISTED = ELSEWHERE | COMPOSED
LONG = (
    "python train.py config=test checkpoint=latest testGamesNum=4 videoRecord=true videoEnv=null",
    "python train.py -m config=train_headless task=Cartpole seed=1,2,3",
    "python train.py config=test checkpoint=docs/policies/BlindGrasping.pth testGamesNum=200 numEnvs=20",
    "python train.py config=train_headless task=Territory maxIterations=30",
)
"""Commands that run in `make test-full` only; tests of their own run the same modes in less time."""
PYTHON = [c for c in ALL if c.startswith("python train.py ") and c not in LISTED]
BENCHMARKS = [c for c in ALL if re.match(r"(\.venv/bin/)?python -m benchmarks\.", c)]
MAKE = [c for c in ALL if c.startswith("make ")]


def test_every_command_is_run_or_listed_with_a_reason():
    run_here = {*PYTHON, *MAKE, *BENCHMARKS}
    assert [c for c in ALL if c not in run_here and c not in LISTED] == []


def test_nothing_is_listed_that_no_document_has():
    assert [command for command in LISTED if command not in ALL] == []
    assert [name for name in FOLLOWED if not in_blocks(ROOT / name)] == []


@pytest.mark.parametrize("command", COMPOSED)
def test_the_command_composes(command):
    for cfg in prepare(shlex.split(command)[2:]).samples:
        validate(cfg)


@pytest.mark.parametrize("command", BENCHMARKS)
def test_the_benchmark_is_there_and_knows_its_options(command, monkeypatch, capsys):
    """That it runs is tested with --toy."""
    _, _, module, *options = shlex.split(command)
    monkeypatch.setattr("benchmarks.harness.end_on_sigterm", lambda: None)
    monkeypatch.setattr(sys, "argv", [module, *options, "--help"])
    with pytest.raises(SystemExit):
        importlib.import_module(module).main()
    said = capsys.readouterr().out
    assert all(option in said for option in options if option.startswith("--"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_what_a_document_links_to_exists(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert "://" in target or (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("command", MAKE)
def test_make_has_the_verb_and_it_runs_what_the_readme_promises(command):
    shown = subprocess.run(
        [*shlex.split(command), "-n", "-B"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    promised = {"make train": "config=train_headless task=Cartpole", "make test": 'pytest -m "not slow"'}
    promised |= {"make check": "ruff check", "make test-slow": 'pytest -m "slow', "make docs": "mkdocs build --strict"}
    promised |= {
        "make watch": "config=test_stream testGamesNum=0 checkpoint=latest",
        "make bench": "-m benchmarks.env_throughput --quick",
        "make setup": "install --constraint constraints.txt torch",
        "make format": "ruff format",
        "make test-full": "pytest -m full",
    }
    assert promised[command] in shown


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("readme")
    for name in ("docs", "examples"):
        (cwd / name).symlink_to(ROOT / name)
    shutil.copytree(OUR_HAND.parent, cwd, dirs_exist_ok=True)
    (cwd / OUR_HAND.name).rename(cwd / "my_hand.xml")
    (spaces,) = [
        block
        for language, block in FENCE.findall((ROOT / "docs" / "any-environment.md").read_text())
        if language == "json"
    ]
    (cwd / "spaces.json").write_text(spaces)
    ant = ("Ant", ("numEnvs=8", "train.horizon_length=16"))
    for task, size in (("Territory", ("numEnvs=8", "train.horizon_length=16")), ant, ("Cartpole", ())):
        done = run(cwd, f"task={task}", *size, "maxIterations=2")
        assert done.returncode == 0, done.stdout
    with Running(cwd, "config=continuous", "task=Territory", "playSpeed=0", "streamPort=0") as process:
        process.wait_for("dashboard at")
        process.wait_for("mean reward", 2)  # there are decisions
        assert process.end() == 0, process.text
    return cwd


@pytest.fixture
def newest(trained, command):
    """Each command finds the fixture's run that it is about as the newest, whichever ran before."""
    typed = set(command.split())
    served = {"config=continuous", "resume=true"} <= typed or typed & {"config=export_log", "config=evaluate_log"}
    run = min((trained / "runs").glob("Territory_continuous_*" if served else "Cartpole_train_*"))
    latest = trained / "runs" / "latest_train"
    latest.unlink()
    latest.symlink_to(run.name)


@pytest.fixture(scope="module")
def display():
    screen = Screen()
    yield {"DISPLAY": screen.name}
    screen.close()


@pytest.mark.slow
@pytest.mark.usefixtures("newest")
@pytest.mark.parametrize("command", [pytest.param(c, marks=pytest.mark.full) if c in LONG else c for c in PYTHON])
def test_the_command_runs(command, trained, display):
    arguments = shlex.split(command)[2:]
    trains = "config=train_headless" in arguments or any(
        a.startswith(("watch=", "viewer=", "trainVideoEvery=")) for a in arguments
    )
    offers = "config=serve_weights" in arguments
    serves = "config=continuous" in arguments or arguments[0] == "serve" or offers
    endless = (
        serves
        or "testGamesNum=0" in arguments
        or (trains and not any(a.startswith(("maxIterations", "-m", "numEnvs")) for a in arguments))
    )
    if not endless:
        done = run(trained, *arguments)
        assert done.returncode == 0, done.stdout
        return
    with Running(trained, *arguments, env=display) as process:
        served = "offering" if offers else "dashboard at"
        process.wait_for("iteration 1/" if trains else served if serves else "testing ")
        assert process.end() == (130 if trains else 0), process.text
    assert "Traceback" not in process.text

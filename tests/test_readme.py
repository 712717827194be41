"""Every command that the documents show is run, as it stands there, in an empty directory."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from livegym.tasks.hand.asset import OURS as OUR_HAND
from tests.processes import Running, run
from tests.screen import Screen

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "clients/python/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCE = re.compile(r"```bash\n(.*?)```", re.S)


def commands(document: Path) -> list[str]:
    lines = [
        line.split("  #")[0].strip() for block in FENCE.findall(document.read_text()) for line in block.splitlines()
    ]
    return [line for line in lines if line]


ALL = list(dict.fromkeys(command for document in DOCUMENTS for command in commands(document)))
PYTHON = [c for c in ALL if c.startswith("python train.py")]
BENCHMARKS = [c for c in ALL if c.startswith(".venv/bin/python -m benchmarks.")]
MAKE = [c for c in ALL if c.startswith("make ")]


def test_every_command_is_of_a_kind_that_is_tested_here():
    others = [c for c in ALL if c not in PYTHON and c not in MAKE and c not in BENCHMARKS]
    elsewhere = ("rsync", "livegym.viewers.strip")  # run for real in test_follow_cli.py and test_strip.py
    assert all(any(word in c for word in elsewhere) for c in others), others


@pytest.mark.parametrize("command", BENCHMARKS)
def test_the_benchmark_is_there_and_knows_its_options(command):
    options = shlex.split(command)[1:]
    done = subprocess.run([sys.executable, *options, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(option in done.stdout for option in options if option.startswith("--"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_what_a_document_links_to_exists(document):
    for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
        assert "://" in target or (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("command", MAKE)
def test_make_has_the_verb_and_it_runs_what_the_readme_promises(command):
    shown = subprocess.run([*shlex.split(command), "-n"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    promised = {"make train": "config=train_headless task=Cartpole", "make test": 'pytest -m "not slow"'}
    promised |= {"make check": "ruff check", "make test-slow": 'pytest -m "slow', "make docs": "mkdocs build --strict"}
    promised["make bench"] = "-m benchmarks.env_throughput --quick"
    assert promised[command] in shown


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    cwd = tmp_path_factory.mktemp("readme")
    (cwd / "docs").symlink_to(ROOT / "docs")
    shutil.copytree(OUR_HAND.parent, cwd, dirs_exist_ok=True)
    (cwd / OUR_HAND.name).rename(cwd / "my_hand.xml")
    ant = ("Ant", ("numEnvs=8", "train.horizon_length=16"))
    for task, size in (("Territory", ("numEnvs=8", "train.horizon_length=16")), ant, ("Cartpole", ())):
        done = run(cwd, f"task={task}", *size, "maxIterations=2")
        assert done.returncode == 0, done.stdout
    with Running(cwd, "config=continuous", "task=Territory", "playSpeed=0", "streamPort=0") as process:
        process.wait_for("dashboard at", timeout=120)
        assert process.end(timeout=60) == 0, process.text
    return cwd


@pytest.fixture
def newest(trained, command):
    """Each command finds the fixture's run that it is about as the newest, whichever ran before."""
    goes_on = {"config=continuous", "resume=true"} <= set(command.split())
    run = min((trained / "runs").glob("Territory_continuous_*" if goes_on else "Cartpole_train_*"))
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
@pytest.mark.parametrize("command", PYTHON)
def test_the_command_runs(command, trained, display):
    arguments = shlex.split(command)[2:]
    trains = "config=train_headless" in arguments or any(
        a.startswith(("watch=", "viewer=", "trainVideoEvery=")) for a in arguments
    )
    serves = "config=continuous" in arguments
    endless = (
        serves
        or "testGamesNum=0" in arguments
        or (trains and not any(a.startswith(("maxIterations", "-m", "numEnvs")) for a in arguments))
    )
    if not endless:
        done = run(trained, *arguments, timeout=300)
        assert done.returncode == 0, done.stdout
        return
    with Running(trained, *arguments, env=display) as process:
        process.wait_for("iteration 1/" if trains else "dashboard at" if serves else "testing ", timeout=120)
        assert process.end(timeout=60) == (130 if trains else 0), process.text
    assert "Traceback" not in process.text

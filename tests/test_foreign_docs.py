"""The commands of docs/isaacgym.md: with the toys in place of the checkouts, and as they are where checkouts exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.isaac_toys import GRIPPERS, TOYS, foreign, needs_isaacgym
from tests.patience import PATIENCE_S
from tests.processes import Running, run, runs

pytestmark = [pytest.mark.slow, needs_isaacgym]
ROOT = Path(__file__).parent.parent


def commands_of(document: str) -> list[str]:
    """The lines of a document's blocks."""
    blocks = re.findall(r"^```bash\n(.*?)^```", (ROOT / "docs" / document).read_text(), re.S | re.M)
    return [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]


COMMANDS = commands_of("isaacgym.md")
SHORT = {"numEnvs=256": "numEnvs=8", "testGamesNum=25": "testGamesNum=3"}


def arguments(command: str, folder: Path) -> list[str]:
    """What comes after train.py, with that folder as the checkout, at a small size."""
    given = [SHORT.get(word, word) for word in shlex.split(command)[2:]]
    given = [f"projectDir={folder}" if word.startswith("projectDir=") else word for word in given]
    trains = "config=train_headless" in given
    return [*given, "seed=1", *(["maxIterations=3" if "resume=true" in given else "maxIterations=2"] if trains else [])]


def follow(commands: list[str], folder: Path, cwd: Path) -> None:
    """Runs one command after the other; that of the page until it is shown."""
    for command in commands:
        if "config=test_stream" in command:
            with Running(cwd, *arguments(command, folder), "streamPort=0", name="page") as page:
                page.wait_for("watch at http")
                assert page.end() == 0
            continue
        done = run(cwd, *arguments(command, folder))
        assert done.returncode == 0, done.stdout
    assert len(runs(cwd, "train")) == 1


def test_the_document_has_the_commands():
    assert [command.split()[0] for command in COMMANDS].count("python") == 7 + 2
    assert COMMANDS[7].startswith("PYTHONPATH=<livegym>:<IsaacGymEnvs> python -m livegym.compat -m isaacgymenvs.train")
    assert all("compat/probe.py" in command for command in COMMANDS[8:]), "test_compat_probe.py runs them"


def test_with_the_toys(tmp_path):
    first, _, *more = COMMANDS[:5]
    follow([first.replace("isaacgymenvs:Ant", "toys:Crawl"), *more], TOYS, tmp_path)


def test_with_the_grippers(tmp_path):
    first, second = COMMANDS[5:7]
    follow([first.replace("dexrobot_isaac:BlindGrasping", "isaac_grippers:Pinch"), second], GRIPPERS, tmp_path)


@pytest.mark.full
def test_with_dexrobot_isaac(tmp_path):
    follow(COMMANDS[5:7], foreign("dexrobot_isaac", "DEXROBOT_ISAAC"), tmp_path)


@pytest.mark.full
def test_with_the_changes_that_the_comparison_proposes(tmp_path):
    (command,) = commands_of("blind-grasping-compared.md")
    follow([command], foreign("dexrobot_isaac", "DEXROBOT_ISAAC"), tmp_path)


@pytest.mark.full
def test_with_isaacgymenvs(tmp_path):
    first, _, *more = COMMANDS[:5]
    follow([first, *more], foreign("IsaacGymEnvs", "ISAACGYMENVS"), tmp_path)


@pytest.mark.full
def test_with_legged_gym(tmp_path):
    follow(COMMANDS[1:2], foreign("legged_gym", "LEGGED_GYM"), tmp_path)


@pytest.mark.full
def test_upstreams_own_trainer(tmp_path):
    checkout = foreign("IsaacGymEnvs", "ISAACGYMENVS")
    setting, _, *words = shlex.split(COMMANDS[7])
    path = setting.partition("=")[2].replace("<livegym>", str(ROOT)).replace("<IsaacGymEnvs>", str(checkout))
    done = subprocess.run(
        ["env", f"PYTHONPATH={path}", sys.executable, *words, "max_iterations=2", "num_envs=16",
         "train.params.config.minibatch_size=256"],
        cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.rglob("*.pth"))

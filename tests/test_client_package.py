"""The client as a distribution: its wheel needs only numpy and websockets, and it and the examples need no livegym."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import numpy as np
import pytest
import torch

from examples import territory_client
from livegym.tasks.build import make_env
from livegym.tasks.territory import costs
from tests.installed import tracked_copy, wheel
from tests.patience import PATIENCE_S
from tests.processes import Running
from tests.test_house import imports, tree_of

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "clients" / "python"
DEPENDENCIES = ("numpy", "websockets")


@pytest.mark.parametrize(
    "path", [*sorted(PACKAGE.rglob("*.py")), *sorted((ROOT / "examples").glob("*_client.py"))], ids=lambda p: p.name
)
def test_it_imports_nothing_of_livegym(path):
    assert [name for name in imports(tree_of(path)) if name.partition(".")[0] in ("livegym", "torch")] == []


def test_every_client_among_the_examples_is_run_as_a_program_by_a_test():
    text = (ROOT / "tests" / "test_continuous_cli.py").read_text()
    run = set(re.findall(r'\bexample\("(\w+\.py)"', text))
    assert {path.name for path in (ROOT / "examples").glob("*_client.py")} == run


def tops(distribution: str) -> set[str]:
    """Files and folders at the top of site-packages that a distribution has."""
    files = importlib.metadata.files(distribution) or []
    return {file.parts[0] for file in files if file.parts[0] != ".."}


def bare_python(folder: Path) -> Path:
    """An environment without pip that has the client's dependencies and nothing else; they are linked, not fetched."""
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in {top for distribution in DEPENDENCIES for top in tops(distribution)}:
        (packages / name).symlink_to(Path(sysconfig.get_path("purelib")) / name)
    return folder / "bin" / "python"


@pytest.mark.slow
def test_its_wheel_works_where_there_is_no_livegym(tmp_path):
    python = bare_python(tmp_path / "bare")
    source = tracked_copy(tmp_path / "source") / PACKAGE.relative_to(ROOT)
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index"]
    subprocess.run([*install, str(wheel(source, tmp_path))], check=True, cwd=tmp_path)
    alone = [str(python), "-I", "-c"]
    typed = "from importlib.resources import files; print((files('livegym_client') / 'py.typed').is_file())"
    assert subprocess.run([*alone, typed], capture_output=True, text=True, cwd=tmp_path).stdout == "True\n"
    absent = subprocess.run([*alone, "import livegym"], capture_output=True, text=True, cwd=tmp_path)
    assert "No module named 'livegym'" in absent.stderr
    (example,) = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
    with Running(tmp_path, "config=continuous", "task=Cartpole", "simulator=external", "streamPort=0") as server:
        server.wait_for("dashboard at")
        url = re.search(r"dashboard at (\S+)", server.text)[1]
        finished = subprocess.run(
            [*alone, example.replace("http://127.0.0.1:58080/", url)],
            capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S,
        )  # fmt: skip
        assert re.fullmatch(r"\[-?[\d.e-]+\] \d+\n", finished.stdout), finished.stderr
        assert server.end() == 0


class GivenChance:
    """The chance in a step of the example: whether its spawn lives is told, new errands do not matter yet."""

    lives = False

    def random(self):
        return 0.0 if self.lives else 1.0

    def integers(self, low, high, size):
        return np.full(size, low)


def copied(land, raw, into):
    """Territory 0 of livegym as the example has it."""
    for name in ("queen", "depot", "field", "minerals", "worker"):
        setattr(into, name, getattr(land, name)[0].numpy().copy())
    into.energy, into.age = float(land.energy[0]), raw["age"][0].numpy().copy()
    into.goal, into.loaded, into.stunned = land.errand[0].numpy().copy().T
    into.corner, into.sides = land.route[0, :, :2].numpy().copy(), land.route[0, :, 2:].numpy().copy()
    into.at, into.pace = land.patrol[0].numpy().copy().T


def test_the_examples_territory_is_livegyms(config):
    """Put into livegym's state before each step and told which spawns live, it sends the same observation after it."""
    typed = config("task=Territory", "numEnvs=1")
    env = make_env(typed.task, typed.sim, typed.physics, 1, 0)
    env.reset()
    example = territory_client.Territory(np.random.default_rng(0))
    example.rng = GivenChance()
    draw = np.random.default_rng(1)
    lived = []
    for _ in range(150):
        action = (int(draw.integers(400)), int(draw.integers(2)))
        raw = env.task.raw(env.sim)
        copied(env.task.land, raw, example)
        chances = costs.outlook(raw, torch.tensor([action]), env.task.params)
        near = float(costs.nearest_protector(raw, torch.tensor([action[0]])))
        assert abs(territory_client.survival(near) - float(chances.survival[0])) < 1e-5
        result = env.step(torch.tensor([action]))
        if result.terminated[0] or result.truncated[0]:  # its map is a new one already
            continue
        ours = {name: value[0].numpy() for name, value in env.task.raw(env.sim).items()}
        example.rng.lives = bool(ours["survived"])
        example.step(*action)
        for name, value in example.raw().items():
            assert np.allclose(value, ours[name], atol=1e-4), name
        lived.append(float(ours["survived"]))
    assert 5 < sum(lived) < len(lived) - 5

"""The toys: small projects of tasks in the manner of Isaac Gym's, in our own words, which every CI run trains.

`isaac_project` has the layout of IsaacGymEnvs, `isaac_wheels` that of its first version, whose programs start in the
package's folder, `isaac_walkers` that of legged_gym, `isaac_grippers` that of dexrobot_isaac.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.projects import registry
from livegym.tasks.build import make_env
from livegym.tasks.env import Env

TOYS = Path(__file__).parent / "isaac_project"
WALKERS = Path(__file__).parent / "isaac_walkers"
GRIPPERS = Path(__file__).parent / "isaac_grippers"
WHEELS = Path(__file__).parent / "isaac_wheels"
PACKAGE = Path(__file__).parent.parent / "compat" / "isaacgym" / "gymapi.py"
needs_isaacgym = pytest.mark.skipif(
    not PACKAGE.is_file() and importlib.util.find_spec("isaacgym") is None, reason="there is no compat/isaacgym here"
)


def foreign(name: str, variable: str) -> Path:
    """A checkout of somebody else's tasks, which the variable names; skips the test if there is none."""
    folder = Path(os.environ.get(variable, Path(__file__).parent.parent.parent / "foreign" / name))
    if not folder.is_dir():
        pytest.skip(f"there is no checkout of {name}: {variable}=<folder> names one")
    return folder


@contextmanager
def project(folder: Path) -> Iterator[registry.Project]:
    """The checkout in a folder is the project of this process."""
    registry.use(str(folder))
    try:
        yield registry.project_in_use()
    finally:
        registry.use(None)


@pytest.fixture
def toys() -> Iterator[registry.Project]:
    """The toys are the project of this process."""
    with project(TOYS) as found:
        yield found


@pytest.fixture
def walkers() -> Iterator[registry.Project]:
    """The walkers are the project of this process."""
    with project(WALKERS) as found:
        yield found


@pytest.fixture
def grippers() -> Iterator[registry.Project]:
    """The grippers are the project of this process."""
    with project(GRIPPERS) as found:
        yield found


@pytest.fixture
def wheels() -> Iterator[registry.Project]:
    """The wheels are the project of this process. Their modules `tasks` and `utils` are forgotten afterwards."""
    with fresh_modules("wheels", "tasks", "utils"), project(WHEELS) as found:
        yield found


def copied(folder: Path, source: Path = TOYS) -> Path:
    """A copy of the toys that a test may change."""
    return Path(shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__")))


@contextmanager
def fresh_modules(*packages: str) -> Iterator[None]:
    """Inside, the modules of packages are imported anew; afterwards, the former ones are there again."""

    def those() -> dict[str, object]:
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in packages}

    before, paths = those(), list(sys.path)
    for name in before:
        del sys.modules[name]
    try:
        yield
    finally:
        for name in those():
            del sys.modules[name]
        sys.modules.update(before)  # type: ignore[arg-type]
        sys.path[:] = paths


def made(*overrides: str, task: str = "toys:Swing", num_envs: int = 8, seed: int = 0, shown: bool = False) -> Env:
    """Environments of a toy."""
    config = to_typed(compose([f"task={task if ':' in task else f'toys:{task}'}", *overrides]))
    return make_env(config.task, config.sim, config.physics, num_envs, seed, shown=shown)

"""The toys: a small project of tasks in the manner of Isaac Gym's, in our own words, which every CI run trains."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livegym.projects import registry

TOYS = Path(__file__).parent / "isaac_project"
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


def copied(folder: Path) -> Path:
    """A copy of the toys that a test may change."""
    return Path(shutil.copytree(TOYS, folder / "isaac_project", ignore=shutil.ignore_patterns("__pycache__")))

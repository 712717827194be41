"""What every test leaves as it found it: how things are logged, the processes of this machine, and the checkout."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.leash import Leash

ROOT = Path(__file__).parent.parent
CACHES = {".git", ".venv", "__pycache__", ".pytest_cache", ".hypothesis", ".ruff_cache", ".mypy_cache"}
"""Folders of tools, which they may write at any time."""
GRACE_S = 20.0
"""How long processes may take to notice that whoever started them has ended."""

_unlogged: list[str] = []


def note_what_cannot_be_logged() -> None:
    """From now on a record that no handler could write is a fault of the test; logging would print it, and go on."""

    def note(handler: logging.Handler, record: logging.LogRecord) -> None:
        _unlogged.append(f"{record.name}: {record.msg!r} could not be logged\n{traceback.format_exc()}")

    logging.Handler.handleError = note  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Takes away handlers that a test has added, since their streams end with it, and gives all loggers their levels.

    A command line that is run in the tests' process adds some: livegym's own, and Hydra's for `--info`.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {logger: logger.level for logger in _loggers()}
    yield
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
    root.setLevel(level)
    for logger in _loggers():
        before = levels.get(logger, logging.NOTSET)
        if logger.level != before:  # setting a level forgets what every logger has found out, which takes milliseconds
            logger.setLevel(before)
    found = "\n".join(_unlogged)
    _unlogged.clear()
    assert not found, found


def _loggers() -> list[logging.Logger]:
    named = list(logging.root.manager.loggerDict.values())
    return [logger for logger in named if isinstance(logger, logging.Logger)]


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Fails if processes that tests have started still run at the end, and ends them, also if pytest is killed."""
    leash = Leash()
    yield
    deadline = time.monotonic() + GRACE_S
    while (left := leash.left()) and time.monotonic() < deadline:
        time.sleep(0.1)
    leash.close()
    assert not left, "left running:\n" + "\n".join(left)


class Checkout:
    """The files of the checkout before and after the tests, which write elsewhere."""

    def __init__(self) -> None:
        self._before = _files()
        self._ran: list[tuple[float, float, str]] = []

    def ran(self, report: pytest.TestReport) -> None:
        """Remembers when a test ran."""
        self._ran.append((report.start, report.stop, report.nodeid))

    def written(self) -> list[str]:
        """What is new, gone or another now, each with the tests that ran at that time."""
        after = _files()
        paths = [path for path in {**self._before, **after} if self._before.get(path) != after.get(path)]
        return [f"{path}: {self._who(after.get(path))}" for path in sorted(paths)]

    def _who(self, state: tuple[float, int] | None) -> str:
        if state is None:
            return "it is gone"
        ran = [test for start, stop, test in self._ran if start <= state[0] <= stop]
        return f"while {', '.join(ran)} ran" if ran else "between two tests"


def _files() -> dict[str, tuple[float, int]]:
    """Time of the last change and size of every file, and of folders that are empty."""
    found = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in CACHES]
        for name in names if names or folders else [""]:
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                state = os.lstat(path)
                found[os.path.relpath(path, ROOT)] = (state.st_mtime, state.st_size if name else 0)
    return found

"""What several test modules share, and what pytest does around all of them."""

from __future__ import annotations

import functools
import gc
import os
from pathlib import Path

import anyio._backends._asyncio
import hypothesis
import pytest
import torch
from omegaconf import DictConfig

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from tests.hygiene import Checkout, logging_as_it_was, no_process_is_left, note_what_cannot_be_logged

# pytest compiles anyio itself, and it imports its parts when they are first used: in the server's thread here. Two
# threads that compile at once are a SystemError in Python 3.11, so the parts are loaded now.
LOADED = (anyio._backends._asyncio, anyio.open_file)

__all__ = ["logging_as_it_was", "no_process_is_left"]  # fixtures of every test

ALONE = ("test_page_", "test_online_page", "test_native_viewer", "test_web_browser", "test_video", "test_record",
         "test_races", "test_learning")  # fmt: skip
"""Modules whose slow tests are about browsers, displays, or what is noticed within a time: one after the other."""

LONG = frozenset((Path(__file__).parent / "long_tests.txt").read_text().splitlines())
"""Slow tests of more than 11 s, whose subject shorter ones also touch: `make test-full` runs them."""

CHECKOUT = pytest.StashKey[Checkout]()


# a machine that stands still for 0.2 s must not fail a test
hypothesis.settings.register_profile("house", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("house")


def pytest_configure(config: pytest.Config) -> None:
    """Begins to watch over what tests leave behind; the checkout is watched by the process that workers report to."""
    note_what_cannot_be_logged()
    if not hasattr(config, "workerinput"):
        config.stash[CHECKOUT] = Checkout()
        config.pluginmanager.register(_Reports(config.stash[CHECKOUT]))


class _Reports:
    """Tells the checkout's watch which test ran when, and pytest what was written."""

    def __init__(self, checkout: Checkout) -> None:
        self._checkout = checkout
        self._written: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A phase of a test is over."""
        self._checkout.ran(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """In CI nobody else writes into the checkout: there it is a failure."""
        self._written = self._checkout.written()
        if self._written and os.environ.get("CI") and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Names the files."""
        if self._written:
            terminalreporter.section("written into the checkout meanwhile", red=True)
            for line in self._written:
                terminalreporter.line(line)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what two workers at once would disturb, and what is too long for CI."""
    for item in items:
        if item.path.stem.startswith(ALONE):
            item.add_marker(pytest.mark.alone)
        if item.nodeid in LONG:
            item.add_marker(pytest.mark.full)


def pytest_collection_finish() -> None:
    """What stands by now stays to the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def config():
    """Typed configuration of a command line: config("task=Ant", "numEnvs=4")."""
    return lambda *overrides: to_typed(_composed(overrides, os.getcwd()))


@functools.cache
def _composed(overrides: tuple[str, ...], cwd: str) -> DictConfig:
    """Composing takes a tenth of a second or two, and tests want the same few configurations again and again."""
    return compose(list(overrides))

"""What several test modules share."""

from __future__ import annotations

import anyio._backends._asyncio
import pytest
import torch

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed

# pytest compiles anyio itself, and it imports its parts when they are first used: in the server's thread here. Two
# threads that compile at once are a SystemError in Python 3.11, so the parts are loaded now.
LOADED = (anyio._backends._asyncio, anyio.open_file)


ALONE = ("test_page_", "test_online_page", "test_native_viewer", "test_web_browser", "test_video", "test_record",
         "test_races", "test_learning")  # fmt: skip
"""Modules whose slow tests are about browsers, displays, or what is noticed within a time: one after the other."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what two workers at once would disturb."""
    for item in items:
        if item.path.stem.startswith(ALONE):
            item.add_marker(pytest.mark.alone)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def config():
    """Typed configuration of a command line: config("task=Ant", "numEnvs=4")."""
    return lambda *overrides: to_typed(compose(list(overrides)))

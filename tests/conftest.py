"""What several test modules share."""

from __future__ import annotations

import pytest
import torch

from cfg.compose import compose
from cfg.typed import to_typed


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def config():
    """Typed configuration of a command line: config("task=Ant", "numEnvs=4")."""
    return lambda *overrides: to_typed(compose(list(overrides)))

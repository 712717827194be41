"""What every task must do; a new task is picked up by itself."""

from __future__ import annotations

import pytest

from livegym.contract import CHECKS
from livegym.tasks import TASKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("task", sorted(TASKS))
def test_contract(task, check):
    check(task)

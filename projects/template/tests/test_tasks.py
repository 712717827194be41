"""The tasks of this project keep the contract: seeds, time limit, bit-exact resume, names, finite values."""

from pathlib import Path

import pytest

from livegym.contract import CHECKS, tasks_in

FOLDER = Path(__file__).parent.parent


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("task", tasks_in(FOLDER))
def test_contract(task, check):
    check(task)

"""rl_games' agents are imported without torch's compiler, and torch is as it was afterwards."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys, torch
compiling = torch.compile
from livegym.rl.algorithms.ppo import agent
print("torch._inductor.compile_fx" in sys.modules, torch.compile is compiling)
"""


@pytest.mark.slow
def test_an_example_network_of_rl_games_does_not_cost_each_training_a_second():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]

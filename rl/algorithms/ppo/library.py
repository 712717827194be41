"""The parts of rl_games that learn, imported without torch's compiler.

    from livegym.rl.algorithms.ppo.library import A2CAgent

rl_games imports its example environments with its agents, and one of their networks is decorated with `@torch.compile`.
The decorator compiles nothing, but it imports all of torch's compiler, which was a sixth of the processor time of a
training run of one iteration. So `torch.compile` leaves functions as they are for as long as this import takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch


@contextlib.contextmanager
def _compiling_nothing() -> Iterator[None]:
    compiling = torch.compile
    leaving_alone: Any = _as_it_is
    torch.compile = leaving_alone
    try:
        yield
    finally:
        torch.compile = compiling


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


with _compiling_nothing():
    from rl_games.algos_torch import torch_ext
    from rl_games.algos_torch.a2c_continuous import A2CAgent
    from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
    from rl_games.common.a2c_common import A2CBase

__all__ = ["A2CAgent", "A2CBase", "DiscreteA2CAgent", "torch_ext"]

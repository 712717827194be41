"""The rows of a few environments out of buffers of many: how each part of an Env saves itself, and is put back.

    state = rows_of(self.buffers, env_ids)          # name -> (n, ...), copies
    put_rows(self.buffers, state, env_ids)          # the inverse

Bit-exact resume, the proofs of hot swapping and scratch environments stand on it. `Env.state_dict` composes what its
parts give, and says in which keys; `check_fits` compares such a state with one of this Env.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from livegym.sim.base import Simulator

PLACES = re.compile(r' (?:mesh|texture|asset)dir="[^"]*"')  # of the model's files on this machine


def model_digest(sim: Simulator) -> str:
    """What the model is, wherever its files lie."""
    return hashlib.sha256(PLACES.sub("", sim.model_xml()).encode()).hexdigest()


def rows_of(buffers: Mapping[str, Tensor], env_ids: Tensor) -> dict[str, Tensor]:
    """Copies of the rows of environments (n,): name -> (n, ...)."""
    return {name: value[env_ids].clone() for name, value in buffers.items()}


def put_rows(buffers: Mapping[str, Tensor], state: Mapping[str, Tensor], env_ids: Tensor) -> None:
    """Puts what `rows_of` gave into environments (n,). `state` may hold the rows of other parts as well."""
    for name, value in buffers.items():
        value[env_ids] = state[name].to(value.device)


def check_fits(state: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Raises ValueError if `state` is of another task or model than `here`, the state of any environment of this Env.

    The simulator checks its own part, before it changes anything.
    """
    missing = set(here) - set(state)
    if missing:
        raise ValueError(f"the state lacks {', '.join(sorted(missing))}")
    if state["model"] != here["model"]:
        raise ValueError("it is of another model: the MJCF was changed since, or physics is another")
    for part in ("task", "env"):
        theirs, mine = _row_shapes(state[part]), _row_shapes(here[part])
        if theirs != mine:
            raise ValueError(f"the state does not fit: its {part} buffers are {theirs}, here they are {mine}")


def _row_shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape[1:]) for name, value in tensors.items()}

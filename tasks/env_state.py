"""Save and restore the rows of some environments in the buffers of an Env's parts.

    state = rows_of(self.buffers, env_ids)          # name -> (n, ...), copies
    put_rows(self.buffers, state, env_ids)          # the inverse

Bit-exact resume, the tests of hot swapping, and scratch environments rely on it. `Env.state_dict` combines the states
of its parts; `check_fits` compares such a state with one of this Env.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.utils.words import count

# folders of the model's files on this machine (sim/assets.py)
PLACES = re.compile(r' (?:mesh|texture|asset)dir="[^"]*"|(?<=")/[^"]*?/\./')


def model_digest(sim: Simulator) -> str:
    """SHA-256 of the model, independent of the folders of its files."""
    return digest_of(sim.model_xml())


def digest_of(model_xml: str) -> str:
    """SHA-256 of a model as MJCF, independent of the folders of its files."""
    return hashlib.sha256(PLACES.sub("", model_xml).encode()).hexdigest()


def ids_for(n: int, env_ids: Tensor | None, num_envs: int) -> Tensor:
    """The environments, of `num_envs`, that take a state of n: `env_ids`, or the first n if that is None.

    Raises ValueError if their number is another.
    """
    ids = torch.arange(n) if env_ids is None else env_ids
    if len(ids) != n or n > num_envs:
        raise ValueError(f"a state of {n} environments does not fit {len(ids)} of {num_envs}")
    return ids


def rows_of(buffers: Mapping[str, Tensor], env_ids: Tensor) -> dict[str, Tensor]:
    """Copies of the rows of environments (n,): name -> (n, ...)."""
    return {name: value[env_ids].clone() for name, value in buffers.items()}


def put_rows(buffers: Mapping[str, Tensor], state: Mapping[str, Tensor], env_ids: Tensor) -> None:
    """Restore the rows from `rows_of` into environments (n,). `state` may also contain the rows of other parts."""
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
        raise ValueError("the state belongs to another model: the MJCF has changed since, or physics= differs")
    for part in ("task", "env"):
        saved, own = _row_shapes(state[part]), _row_shapes(here[part])
        if saved != own:
            raise ValueError(f"the state does not fit: its {part} buffers are {saved}, here they are {own}")
    terms, now = state["episode_terms"].shape[1], here["episode_terms"].shape[1]
    if terms != now:
        raise ValueError(f"the state has sums of {count(terms, 'reward term')}, but the task has {now} now")


def _row_shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape[1:]) for name, value in tensors.items()}

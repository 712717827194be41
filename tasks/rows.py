"""Rows and environments: where one ends and the other begins.

An environment is one simulation. A row is what one policy sees, does and gets. An environment with S seats has S rows,
which lie together: row = environment x S + seat. With one seat, rows are environments, and nothing is copied.

    rows = rows_of_envs(env_ids, seats)     # (n,) -> (n x S,)
    value = by_row(value, seats)            # (n,) of environments -> (n x S,), repeated
    any_seat = by_env(flags, seats)         # (n x S,) bool -> (n,), true if it is for any seat
"""

from __future__ import annotations

import torch
from torch import Tensor


def rows_of_envs(env_ids: Tensor, seats: int) -> Tensor:
    """The rows of environments (n,): (n x seats,), environment by environment, in the order of the seats."""
    if seats == 1:
        return env_ids
    return (env_ids[:, None] * seats + torch.arange(seats, device=env_ids.device)).flatten()


def by_row(value: Tensor, seats: int) -> Tensor:
    """(n,) of environments -> (n x seats,): each value once for every seat."""
    return value if seats == 1 else value.repeat_interleave(seats)


def by_env(flags: Tensor, seats: int) -> Tensor:
    """(n x seats,) bool of rows -> (n,): whether it is true for any seat of the environment."""
    return flags if seats == 1 else flags.view(-1, seats).any(1)

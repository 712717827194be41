"""Random numbers from a key and a counter, so that those of one territory do not depend on the others.

The finaliser of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators") over
key + n * gamma. Multiplication of int64 wraps around, as it does there; right shifts are made logical.
"""

from __future__ import annotations

import torch
from torch import Tensor

PER_TICK = 4096  # how many numbers of one key each tick may use
_GAMMA = 0x9E3779B97F4A7C15 - 2**64  # as int64
_FIRST, _SECOND = 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64


def bits(key: Tensor, tick: Tensor, count: int) -> Tensor:
    """Keys and ticks (n,) int64 -> (n, count) int64, uniform in [0, 2^53); at most PER_TICK."""
    index = tick[:, None] * PER_TICK + torch.arange(1, count + 1, device=key.device)
    z = key[:, None] + index * _GAMMA
    z = (z ^ _right(z, 30)) * _FIRST
    z = (z ^ _right(z, 27)) * _SECOND
    return _right(z ^ _right(z, 31), 11)


def uniform(drawn: Tensor) -> Tensor:
    """Bits -> float32 in [0, 1)."""
    return (drawn >> 29).float() / 2**24


def _right(z: Tensor, by: int) -> Tensor:
    return (z >> by) & ((1 << (64 - by)) - 1)

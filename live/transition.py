"""How one version takes over from another, and how far that has got."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from livegym.weights.candidate import Label

Change = tuple[list[int], Label]
"""Environments, and the version that acts in them from the next step on."""


@dataclass(frozen=True)
class SwapRule:
    """How new weights take over."""

    how: str = "now"  # now, reset, blend
    blend_steps: int = 1  # control steps
    min_interval: float = 0.0  # s between two swaps
    history: int = 0  # versions that are kept
    pool_envs: int = 0  # the last so many environments are older versions'


class Progress:
    """Where a swap stands."""

    def __init__(self, alpha: Tensor) -> None:
        self.fresh = torch.ones_like(alpha, dtype=torch.bool)  # (N,) whose episode has just begun
        self.how = "now"  # of the swap that goes on
        self.joining: list[int] = []  # environments in which the new version is to be named with the next step
        self.everywhere = list(range(len(alpha)))
        self.steps = 0  # of a blend
        self.swapped_at = -math.inf  # s, monotonic
        self.changes: list[Change] = []

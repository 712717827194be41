"""A buffer of past values, for delays and for histories."""

from __future__ import annotations

import torch
from torch import Tensor


class DelayBuffer:
    """The last `length` values of a (N, width) quantity, newest last; saved with its environments."""

    def __init__(self, num_envs: int, length: int, width: int, device: torch.device) -> None:
        self.values = torch.zeros(num_envs, length, width, device=device)

    def push(self, value: Tensor) -> None:
        """Append value (N, width), that of a new control step."""
        self.values.copy_(torch.cat([self.values[:, 1:], value[:, None]], 1))

    def fill(self, env_ids: Tensor, value: Tensor) -> None:
        """Begin an episode in environments (n,): all past values are set to value (n, width)."""
        self.values[env_ids] = value[:, None].expand(-1, self.values.shape[1], -1)

    def late(self, delay: Tensor) -> Tensor:
        """(N, width): the values of `delay` (N,) int64 control steps ago."""
        rows = torch.arange(len(delay), device=delay.device)
        return self.values[rows, self.values.shape[1] - 1 - delay]

    def last(self, count: int, delay: int = 0) -> Tensor:
        """(N, count x width): the last `count` values without the newest `delay`, oldest first."""
        end = self.values.shape[1] - delay
        return self.values[:, end - count : end].flatten(1)

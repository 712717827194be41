"""Lines that are drawn with a state: arrays of segments, each with its environment and its colour.

    sim.show_lines("window", True)             # from the next step on
    lines = sim.lines_of([3, 0]).of([3, 0])    # of environment 3, then of environment 0
    lines.ends[lines.envs == 0]                # (k, 2, 3) m: those of environment 3

The simulation makes them, and window, page and videos draw them with the same state. Arrays are never changed in place,
so they may be handed to other threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST = 10_000
"""Lines in one picture, at most."""


@dataclass(frozen=True)
class Lines:
    """L segments."""

    envs: np.ndarray  # (L,) int, the environment of each
    ends: np.ndarray  # (L, 2, 3) float32, m, in the frame of its environment
    colours: np.ndarray  # (L, 3) float32, red, green, blue in [0, 1]

    def __len__(self) -> int:
        return len(self.envs)

    def where(self, chosen: np.ndarray) -> Lines:
        """The lines at these indices, or where a mask is True."""
        return Lines(self.envs[chosen], self.ends[chosen], self.colours[chosen])

    def of(self, env_ids: Sequence[int]) -> Lines:
        """The lines of some environments, whose `envs` are indices into `env_ids`: the first MOST of them.

        Those of the first environment come first, so they are never left out for those of others.
        """
        if not len(self):
            return self
        places = np.full(max([int(self.envs.max()), *env_ids]) + 1, -1)
        places[list(env_ids)] = np.arange(len(env_ids))
        rows = places[self.envs]
        order = np.argsort(rows, kind="stable")
        chosen = order[rows[order] >= 0][:MOST]
        return Lines(rows[chosen], self.ends[chosen], self.colours[chosen])


NO_LINES = Lines(np.zeros(0, int), np.zeros((0, 2, 3), np.float32), np.zeros((0, 3), np.float32))

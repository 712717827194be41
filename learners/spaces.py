"""The Gymnasium spaces of a task's observations and actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from livegym.tasks.base import ActionSpec, Box, Discrete


def action_space_of(spec: ActionSpec) -> spaces.Space[Any]:
    """The space of one environment's action."""
    if isinstance(spec, Box):
        return spaces.Box(-1.0, 1.0, (spec.size,), dtype=np.float32)
    return spaces.Discrete(spec.n) if isinstance(spec, Discrete) else spaces.MultiDiscrete(list(spec.nvec))


def observation_space_of(width: int) -> spaces.Box:
    """The space of one row of observations."""
    return spaces.Box(-np.inf, np.inf, (width,), dtype=np.float32)

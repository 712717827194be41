"""A territory as plain values, which picture.js draws on the dashboard."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from livegym.tasks.territory.costs import CERTAIN_DEATH, SAFE, Raw
from livegym.tasks.territory.grid import SIDE
from livegym.tasks.territory.params import TerritoryParams

TYPES = ("energy", "combat")


def picture(raw: Raw, action: Tensor, params: TerritoryParams) -> dict[str, Any]:
    """One raw observation (name -> shape) and the action (2,) chosen in it; docs/continuous.md has the fields."""
    chunk, kind = (int(choice) for choice in action)
    return {
        "size": [SIDE, SIDE],
        "danger": [CERTAIN_DEATH, SAFE],
        **{name: raw[name].tolist() for name in ("workers", "protectors", "minerals")},
        "age": (raw["age"] / params.forgotten).clamp(max=1.0).tolist(),
        "queen": [int(x) for x in raw["queen"]],
        "energy": float(raw["energy"]),
        "last": {"chunk": chunk, "type": TYPES[kind]},
    }

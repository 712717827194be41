"""A stream's last moment as a picture, for the dashboard: plain values of the raw observation and the last decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from online.decider import Decided
from online.service import Tally
from tasks.base import Task
from tasks.territory import Territory
from tasks.territory.grid import SIDE

KINDS = ("energy", "combat")


def pictures_of(task: Task, tally: Tally) -> Callable[[str], dict[str, Any]] | None:
    """What draws a stream's newest decision; None for a task without a picture."""
    if not isinstance(task, Territory):
        return None
    territory = task

    def picture(stream: str) -> dict[str, Any]:
        """Raises LookupError for a stream that there is not."""
        decided = tally.last[stream]
        if decided.raw is None:
            raise LookupError(stream)
        raw = {name: value[0] for name, value in territory.unpack(torch.from_numpy(decided.raw)[None]).items()}
        maps = {name: raw[name].tolist() for name in ("workers", "protectors", "minerals")}
        return {
            "stream": stream,
            "size": [SIDE, SIDE],
            **maps,
            "age": (raw["age"] / territory.params.forgotten).clamp(max=1.0).tolist(),
            "queen": [int(x) for x in raw["queen"]],
            "energy": float(raw["energy"]),
            "last": _last(decided),
            "time": decided.experience.time,
        }

    return picture


def _last(decided: Decided) -> dict[str, Any]:
    e = decided.experience
    chunk, kind = e.proposed.tolist()
    return {
        "chunk": chunk,
        "type": KINDS[kind],
        "verdict": e.verdict.name,
        "expected": e.expected if math.isfinite(e.expected) else None,
        "decision": e.decision,
    }

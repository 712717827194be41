"""A stream's last moment as a picture, for the dashboard: plain values of the raw observation and the last decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from livegym.online.service import Tally
from livegym.tasks.base import Task
from livegym.tasks.stream_task import StreamTask


@dataclass(frozen=True)
class Pictures:
    """A task's pictures."""

    kind: str  # name of what draws them
    of: Callable[[str], dict[str, Any] | None]  # stream -> plain values; None: there is no such stream


def pictures_of(task: Task, tally: Tally) -> Pictures | None:
    """Each stream's newest decision as a picture; None for a task without pictures."""
    if not isinstance(task, StreamTask) or task.picture_kind is None:
        return None

    def picture(stream: str) -> dict[str, Any] | None:
        moment = tally.last.get(stream)
        if moment is None or moment.sight.raw is None:
            return None
        e = moment.decision
        raw = {name: value[0] for name, value in task.unpack(torch.from_numpy(moment.sight.raw)[None]).items()}
        drawn = task.picture(raw, torch.from_numpy(e.proposed))
        judged = {
            "verdict": e.verdict.name,
            "expected": e.expected if math.isfinite(e.expected) else None,
            "decision": e.decision,
        }
        return {"stream": stream, **drawn, "last": {**drawn["last"], **judged}, "time": e.time}

    return Pictures(task.picture_kind, picture)

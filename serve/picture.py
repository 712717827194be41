"""Pictures of streams for the dashboard: plain values of a stream's last raw observation and decision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from livegym.online.service_counters import ServiceCounters
from livegym.tasks.base import Task
from livegym.tasks.stream_task import StreamTask


@dataclass(frozen=True)
class TaskPictures:
    """The pictures of a task's streams, and the script that draws them."""

    script: Path  # the task's JavaScript module, which draws them
    of: Callable[[str], dict[str, Any] | None]  # stream -> plain values; None: unknown stream


def pictures_of(task: Task, tally: ServiceCounters) -> TaskPictures | None:
    """Return the pictures of a task's streams; None for a task without pictures.

    Raises UserError if the script that the task names does not exist.
    """
    if not isinstance(task, StreamTask):
        return None
    script = task.picture_path()
    if script is None:
        return None

    def picture(stream: str) -> dict[str, Any] | None:
        moment = tally.last.get(stream)
        if moment is None or moment.observation.raw is None:
            return None
        e = moment.decision
        raw = {name: value[0] for name, value in task.unpack(torch.from_numpy(moment.observation.raw)[None]).items()}
        drawn = task.picture(raw, torch.from_numpy(e.proposed))
        judged = {
            "verdict": e.verdict.name,
            "expected": e.expected if math.isfinite(e.expected) else None,
            "decision": e.decision,
        }
        return {"stream": stream, **drawn, "last": {**drawn["last"], **judged}, "time": e.time}

    return TaskPictures(script, picture)

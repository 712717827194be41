"""What is offered to a running policy, and what became of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from livegym.rl.spec import PolicySpec
from livegym.rundir.run import run_of

Label = int | str
"""A policy version; of a run that a test moved to, with that run's name before it."""


@dataclass(frozen=True)
class Candidate:
    """Verified weights with what is known of them. The tensors are the source's, and only good until it looks again."""

    model: dict[str, Tensor]
    spec: PolicySpec | None  # None: a plain rl_games file, which does not say
    run_id: str
    version: int
    epoch: int
    score: float | None  # what "best" compares
    file: Path | None  # None: from the weight bus
    source: str = "files"
    load_ms: float = 0.0
    run_name: str = ""  # where no file says it
    publication: tuple[int, int] | None = None  # on the weight bus: (writer, number)
    made: float | None = None  # s since 1970: when it was published or saved, if that is known
    config: dict[str, Any] | None = None  # the run's own, if it is known
    level: float | None = None  # of the run's curriculum when it was saved, if there is one

    @property
    def run(self) -> str:
        """The name of its run directory; empty for a lone file."""
        run = run_of(self.file) if self.file is not None else None
        return run.name if run else self.run_name

    @property
    def name(self) -> str:
        """What people call it: the file, or the version on the weight bus."""
        return self.file.name if self.file is not None else f"version {self.version} on the weight bus"

    def label(self, first_run: str) -> Label:
        """Its version, with the run before it where that is not the one that a test began with."""
        return self.version if self.run == first_run else f"{self.run}: {self.version}"


@dataclass(frozen=True)
class SwapEvent:
    """One new version offered to the running policy: taken over, or refused with a reason."""

    time: float  # s since the epoch
    source: str  # files, bus, history
    run: str
    file: str
    version: int | None
    epoch: int | None
    score: float | None
    accepted: bool
    reason: str
    load_ms: float

    def to_dict(self) -> dict[str, Any]:
        """For `results.json`, where the score is called `reward`."""
        return {"reward" if f.name == "score" else f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def of(cls, candidate: Candidate, accepted: bool, reason: str = "") -> SwapEvent:
        """The event of a candidate that was taken over or refused."""
        c = candidate
        file = c.file.name if c.file is not None else ""
        return cls(time.time(), c.source, c.run, file, c.version, c.epoch, c.score, accepted, reason, c.load_ms)

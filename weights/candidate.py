"""The weights that are offered to a running policy, and the record of each offer."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from livegym.rl.spec import PolicySpec
from livegym.rundir.run import run_of

Label = int | str
"""A policy version; preceded by the run's name if a test has moved to another run."""


def split_label(label: Label) -> tuple[str, int]:
    """The run's name, which is empty in a label without one, and the version."""
    run, _, version = str(label).rpartition(": ")
    return run, int(version)


@dataclass(frozen=True)
class Candidate:
    """Verified weights and their metadata. The tensors belong to the source, and are valid until its next `poll`."""

    model: dict[str, Tensor]
    spec: PolicySpec | None  # None: unknown, as in a plain rl_games file
    run_id: str
    version: int
    epoch: int
    score: float | None  # compared to find the best version
    file: Path | None  # None: from the weight bus or the network
    source: str = "files"
    load_ms: float = 0.0
    run_name: str = ""  # used if there is no file that names the run
    publication: tuple[int, int] | None = None  # on the weight bus: (writer, number)
    made: float | None = None  # s since 1970: when it was published or saved; None: unknown
    config: dict[str, Any] | None = None  # the run's configuration; None: unknown
    level: float | None = None  # of the curriculum at that time; None if there is no curriculum, or it is unknown
    address: str = ""  # of the server that sent it; empty: it comes from this machine

    @property
    def run(self) -> str:
        """The name of its run directory; empty for a file outside a run directory."""
        run = run_of(self.file) if self.file is not None else None
        return run.name if run else self.run_name

    @property
    def name(self) -> str:
        """Name for messages: the file's name, or the version and where it comes from."""
        if self.file is not None:
            return self.file.name
        return f"version {self.version} {f'from {self.address}' if self.address else 'on the weight bus'}"

    def label(self, first_run: str) -> Label:
        """Its version, preceded by the run's name if that is not `first_run`, the run that a test began with."""
        return self.version if self.run == first_run else f"{self.run}: {self.version}"


@dataclass(frozen=True)
class SwapEvent:
    """A new version was offered to the running policy: it was adopted, or refused with a reason."""

    time: float  # s since the epoch
    source: str  # files, bus, network, history
    run: str
    file: str
    version: int | None
    epoch: int | None
    score: float | None
    accepted: bool
    reason: str
    load_ms: float
    level: float | None = None  # of the curriculum

    def to_dict(self) -> dict[str, Any]:
        """Plain values for `results.json`, in which the score is called `reward`."""
        return {"reward" if f.name == "score" else f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def of(cls, candidate: Candidate, accepted: bool, reason: str = "") -> SwapEvent:
        """The event of a candidate that was adopted or refused."""
        c = candidate
        file = c.file.name if c.file is not None else ""
        return cls(
            time.time(), c.source, c.run, file, c.version, c.epoch, c.score, accepted, reason, c.load_ms, c.level
        )

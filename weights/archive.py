"""A run's checkpoint files, from which older versions are loaded if a user asks for them.

    archive = Archive(lambda: source.run, first_run)
    archive.refresh()               # watching thread; may be called often
    archive.entries                 # any thread: the files, the oldest first
    archive.load(120)               # watching thread: verified weights; UserError if the file is gone

A viewer lists these versions beside those that are kept in memory. Only the sidecars are read for the list.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from livegym.rundir.checkpoint import CheckpointError, list_playable, read_checkpoint
from livegym.rundir.checkpoint_io import score_of, sidecar_of
from livegym.rundir.run import Run
from livegym.utils.errors import UserError
from livegym.utils.files import read_json_dict
from livegym.weights.candidate import Candidate, Label
from livegym.weights.sources import candidate_of

REFRESH = 5.0  # s between two scans of the directory


@dataclass(frozen=True)
class ArchivedVersion:
    """A checkpoint file, here or on a server, that is not loaded; its content is not verified."""

    label: Label
    file: Path | None  # None: on a server
    epoch: int
    score: float | None  # from its sidecar
    made: float | None  # s since 1970, from its sidecar


class Archive:
    """The checkpoint files of the run that is followed now."""

    def __init__(self, run: Callable[[], Run], first_run: str) -> None:
        """`run` returns the followed run; `first_run`: see `Candidate.label`."""
        self._run = run
        self._first_run = first_run
        self.entries: tuple[ArchivedVersion, ...] = ()
        self._listed_at = float("-inf")
        self._known: dict[Path, ArchivedVersion] = {}

    def refresh(self) -> None:
        """List the files again if the list is a few seconds old."""
        if time.monotonic() - self._listed_at < REFRESH:
            return
        self._listed_at = time.monotonic()
        run = self._run()
        prefix = "" if run.name == self._first_run else f"{run.name}: "
        found: dict[Path, ArchivedVersion] = {}
        for entry in reversed(list_playable(run.path)):
            if entry.version >= 0:
                label: Label = f"{prefix}{entry.version}" if prefix else entry.version
                found[entry.path] = self._known.get(entry.path) or _archived(label, entry.path, entry.epoch)
        self._known = found
        self.entries = tuple(found.values())

    def get(self, label: Label) -> ArchivedVersion | None:
        """The file of this version; None if there was none when the files were last listed."""
        return next((entry for entry in self.entries if entry.label == label), None)

    def load(self, label: Label) -> Candidate:
        """The verified weights of a version. Raises UserError if its file is gone or cannot be used."""
        entry = self.get(label)
        if entry is None:
            raise UserError(f"version {label} has no checkpoint any more. It was deleted when newer ones were saved")
        start = time.perf_counter()
        try:
            assert entry.file is not None, "it was listed here"
            state = read_checkpoint(entry.file)
            return candidate_of(entry.file, state, 1000 * (time.perf_counter() - start))
        except (CheckpointError, OSError) as error:
            raise UserError(f"version {label} cannot be loaded: {error}") from error


def _archived(label: Label, file: Path, epoch: int) -> ArchivedVersion:
    made = read_json_dict(sidecar_of(file)).get("wall_time")
    return ArchivedVersion(label, file, epoch, score_of(file), float(made) if isinstance(made, (int, float)) else None)

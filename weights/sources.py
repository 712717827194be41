"""Sources of weights: their interface, and the source that reads a run's checkpoint directory.

The watching thread calls `poll` repeatedly. It returns newer weights, completely read and verified, or None. A file
that cannot be used is reported once, and tried again when it or its sidecar changes: it may still be being copied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from livegym.rl.spec import PolicySpec
from livegym.rundir.checkpoint import (
    CheckpointError,
    Entry,
    best_checkpoint_file,
    checkpoint_fingerprint,
    list_playable,
    meta_of,
    read_checkpoint,
)
from livegym.rundir.run import Run
from livegym.utils.errors import UserError
from livegym.weights.candidate import Candidate, SwapEvent
from livegym.weights.newer_run import Leaving, NewerRun

log = logging.getLogger(__name__)


class Source(Protocol):
    """A source in which newer weights may appear."""

    def poll(self, acting: Candidate) -> Candidate | None:
        """Poll for weights that should replace `acting`. Returns them verified, or None if there are none."""

    def refuse(self, candidate: Candidate, for_good: bool) -> None:
        """Do not offer the candidate again until it changes.

        `for_good`: its shapes do not fit, so weights from the same writer will not fit either.
        """

    def refusals(self) -> list[SwapEvent]:
        """Weights that could not be used since the last call."""

    def wait(self, timeout: float) -> None:
        """Sleep until there may be something new, at most `timeout` s."""


def candidate_of(file: Path, state: dict[str, Any], load_ms: float) -> Candidate:
    """The weights and metadata of a verified checkpoint. Raises CheckpointError if its epoch is not a whole number.

    A plain rl_games file has no version. Its epoch is used instead, so that later files of the same run are newer.
    """
    meta = meta_of(state)
    epoch = meta.epoch if meta else state.get("epoch", 0)
    if type(epoch) is not int:
        raise CheckpointError(f"{file.name}: epoch {epoch!r} is not a whole number")
    return Candidate(
        model=state["model"],
        spec=PolicySpec.from_dict(state["spec"]) if state.get("spec") else None,
        run_id=meta.run_id if meta else "",
        version=meta.version if meta else epoch,
        epoch=epoch,
        score=meta.score if meta else None,
        file=file,
        load_ms=load_ms,
        made=meta.wall_time if meta else None,
        config=state.get("config"),
        level=_level(state),
    )


def _level(state: dict[str, Any]) -> float | None:
    learner = state.get("learner")
    level = learner.get("curriculum") if isinstance(learner, dict) else None
    return level if isinstance(level, float) and 0.0 <= level <= 1.0 else None


class CheckpointSource:
    """The newest or the best checkpoint of one run directory, or of the run that succeeds it."""

    def __init__(self, run: Run, follow: str, runs_dir: Path, task: str, leaving: Leaving = Leaving.NEVER) -> None:
        """`follow`: newest or best. `leaving`: when to follow a newer run of `task` in `runs_dir` instead."""
        self.run, self.follow = run, follow
        self._runs = NewerRun(runs_dir, task, leaving)
        self._bad: dict[Path, object] = {}  # file that could not be used -> its fingerprint
        self._reported: set[tuple[Path, str]] = set()
        self._refusals: list[SwapEvent] = []

    def poll(self, acting: Candidate) -> Candidate | None:
        """The first usable checkpoint that should replace `acting`; None if there is none."""
        self._move()
        log.debug("polling %s", self.run.nn)
        for file, version, epoch in self._files(acting):
            fingerprint = checkpoint_fingerprint(file)
            if self._bad.get(file) == fingerprint:
                continue
            candidate = self._read(file, version, epoch, fingerprint)
            if candidate is None:
                continue
            if self._is_due(candidate, acting):
                return candidate
            self._bad[file] = fingerprint
            log.info("%s contains version %d, which is not newer than the acting one.", file.name, candidate.version)
        self._forget_what_is_gone()
        return None

    def refuse(self, candidate: Candidate, for_good: bool) -> None:
        """Do not offer the file again until it changes; other files of the run may fit."""
        if candidate.file is not None:  # otherwise it is not from this source
            self._bad[candidate.file] = checkpoint_fingerprint(candidate.file)

    def refusals(self) -> list[SwapEvent]:
        """Files that could not be used since the last call."""
        events, self._refusals = self._refusals, []
        return events

    @property
    def newer_run(self) -> str | None:
        """The name of a newer run that is not followed; None if there is none. May be read by any thread."""
        return self._runs.newer

    def move_if_changed(self) -> None:
        """Follow another run if it should succeed this one. May be called often: it is cheap while nothing changes."""
        if self._runs.changed(self.run):
            self._move()

    def _move(self) -> None:
        successor = self._runs.successor(self.run)
        if successor is not None:
            log.info("there is a newer run: following %s from now on (before: %s)", successor.path, self.run.path)
            self.run = successor

    def _acts_here(self, acting: Candidate) -> bool:
        """Whether the acting weights are from the followed run; versions of two runs cannot be compared.

        A file that was copied into this run's directory counts as its own; otherwise it would be new at every poll.
        """
        if acting.run_id and acting.run_id == self.run.run_id:
            return True
        return acting.file is not None and acting.file.parent.parent.resolve() == self.run.path.resolve()

    def _files(self, acting: Candidate) -> Iterator[tuple[Path, int | None, int | None]]:
        """(file, version, epoch) of the checkpoints that may be due, in the order in which they are tried."""
        if self.follow == "best":
            best = best_checkpoint_file(self.run)
            if best is not None and (acting.file is None or best.resolve() != acting.file.resolve()):
                yield best.resolve(), None, None
            return
        here = self._acts_here(acting)
        for entry in list_playable(self.run):
            if here and _order(entry) <= (acting.version, acting.epoch):
                return
            yield entry.path, entry.version, entry.epoch

    def _is_due(self, candidate: Candidate, acting: Candidate) -> bool:
        if self.follow == "best" or not self._acts_here(acting):
            return True
        return (candidate.version, candidate.epoch) > (acting.version, acting.epoch)

    def _read(self, file: Path, version: int | None, epoch: int | None, fingerprint: object) -> Candidate | None:
        start = time.perf_counter()
        try:
            state = read_checkpoint(file)
            return candidate_of(file, state, 1000 * (time.perf_counter() - start))
        except (UserError, ValueError, TypeError, LookupError, RuntimeError) as error:
            if not file.exists():  # deleted since it was listed, so it is no longer offered
                return None
            self._bad[file] = fingerprint  # one faulty file must not hide the good ones after it
            self._report(file, version, epoch, str(error))
            return None

    def _report(self, file: Path, version: int | None, epoch: int | None, reason: str) -> None:
        """Log one warning for each file, and add one event for each file and reason."""
        if (file, reason) in self._reported:
            return
        first = not any(path == file for path, _ in self._reported)
        self._reported.add((file, reason))
        self._refusals.append(
            SwapEvent(time.time(), "files", self.run.name, file.name, version, epoch, None, False, reason, 0.0)
        )
        log.log(
            logging.WARNING if first else logging.DEBUG,
            "%s. The old policy keeps acting; the file is tried again when it changes.",
            reason,
        )

    def _forget_what_is_gone(self) -> None:
        for file in [file for file in self._bad if not file.exists()]:
            del self._bad[file]
            self._reported = {entry for entry in self._reported if entry[0] != file}


def _order(entry: Entry) -> tuple[int, int]:
    """(version, epoch); the epoch replaces the version of a file that has none."""
    return (entry.epoch if entry.version < 0 else entry.version, entry.epoch)

"""Where weights come from: one interface, and the checkpoint directory.

`look` is called by the watching thread, again and again. It returns newer weights, completely read and verified, or
None. What cannot be used is reported once and tried again when the file, or its sidecar, changes: a file may still
be on its way here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from live.swap import Candidate, SwapEvent
from rl.checkpoint import (
    CheckpointError,
    Entry,
    best_checkpoint_file,
    checkpoint_fingerprint,
    list_checkpoints,
    read_checkpoint,
)
from rl.select import resolve_checkpoint
from rl.spec import PolicySpec
from utils.errors import UserError
from utils.run import Run, open_run

log = logging.getLogger(__name__)


class Source(Protocol):
    """Somewhere newer weights may appear."""

    def look(self, acting: Candidate) -> Candidate | None:
        """Weights that should act instead of `acting`, verified; None where there are none."""

    def refuse(self, candidate: Candidate) -> None:
        """The candidate does not fit what acts here: do not offer it again until it changes."""

    def refusals(self) -> list[SwapEvent]:
        """What could not be used since the last call."""


def candidate_of(file: Path, state: dict[str, Any], load_ms: float) -> Candidate:
    """A verified checkpoint's weights, with what is known of them. Raises UserError where its spec is unreadable.

    A plain rl_games file has no version; its epoch stands in, so that later files of the same run are newer.
    """
    meta = state.get("livegym", {})
    epoch = int(meta.get("epoch", state.get("epoch", 0)))
    return Candidate(
        model=state["model"],
        spec=PolicySpec.from_dict(state["spec"]) if "spec" in state else None,
        run_id=meta.get("run_id", ""),
        version=int(meta.get("version", epoch)),
        epoch=epoch,
        reward=meta.get("reward"),
        file=file,
        load_ms=load_ms,
    )


class CheckpointSource:
    """The newest, or the best, checkpoint of one run directory; optionally of whichever run is the latest."""

    def __init__(self, run: Run, follow: str, runs_dir: Path, task: str, follow_latest: bool) -> None:
        """`follow`: "newest" or "best". `follow_latest`: move to a newer training run of `task` in `runs_dir`."""
        self.run, self.follow = run, follow
        self._runs_dir, self._task, self._follow_latest = runs_dir, task, follow_latest
        self._bad: dict[Path, object] = {}  # file -> fingerprint of what could not be used
        self._reported: set[tuple[Path, str]] = set()
        self._refusals: list[SwapEvent] = []

    def look(self, acting: Candidate) -> Candidate | None:
        """The first usable checkpoint that should act instead of `acting`."""
        moved = self._move_to_latest()
        for file, version, epoch in self._files(acting, moved):
            print_of = checkpoint_fingerprint(file)
            if self._bad.get(file) == print_of:
                continue
            candidate = self._read(file, version, epoch, print_of)
            if candidate is None:
                continue
            if not self._is_due(candidate, acting, moved):
                self._bad[file] = print_of
                log.info("%s holds version %d, which is not newer than what acts.", file.name, candidate.version)
                continue
            return candidate
        return None

    def refuse(self, candidate: Candidate) -> None:
        """Not again until the file changes."""
        self._bad[candidate.file] = checkpoint_fingerprint(candidate.file)

    def refusals(self) -> list[SwapEvent]:
        """Files that could not be used since the last call."""
        events, self._refusals = self._refusals, []
        return events

    def _move_to_latest(self) -> bool:
        """Follows `latest` to another run where asked to; True where the run changed."""
        if not self._follow_latest:
            return False
        try:
            selection = resolve_checkpoint("latest", self._runs_dir, self._task)
        except UserError as error:
            log.debug("followLatest: %s", error)
            return False
        if selection.run is None or selection.run.resolve() == self.run.path.resolve():
            return False
        log.info("a newer run: following %s from now on (before: %s)", selection.run, self.run.path)
        self.run = open_run(selection.run)
        return True

    def _files(self, acting: Candidate, moved: bool) -> Iterator[tuple[Path, int | None, int | None]]:
        """Files that may be due, the first to try first."""
        if self.follow == "best":
            best = best_checkpoint_file(self.run.path)
            if best is not None and best.resolve() != acting.file.resolve():
                yield best, None, None
            return
        for entry in list_checkpoints(self.run.path):
            if not moved and _order(entry) <= (acting.version, acting.epoch):
                return
            yield entry.path, entry.version, entry.epoch

    def _is_due(self, candidate: Candidate, acting: Candidate, moved: bool) -> bool:
        if self.follow == "best" or moved or candidate.run_id != acting.run_id:
            return True
        return (candidate.version, candidate.epoch) > (acting.version, acting.epoch)

    def _read(self, file: Path, version: int | None, epoch: int | None, print_of: object) -> Candidate | None:
        start = time.perf_counter()
        try:
            state = read_checkpoint(file)
            return candidate_of(file, state, 1000 * (time.perf_counter() - start))
        except (CheckpointError, UserError) as error:
            self._bad[file] = print_of
            self._report(file, version, epoch, str(error))
            return None

    def _report(self, file: Path, version: int | None, epoch: int | None, reason: str) -> None:
        """One warning and one event for each file and reason."""
        if (file, reason) in self._reported:
            return
        first = not any(path == file for path, _ in self._reported)
        self._reported.add((file, reason))
        self._refusals.append(SwapEvent(time.time(), "files", file.name, version, epoch, None, False, reason, 0.0))
        log.log(
            logging.WARNING if first else logging.DEBUG,
            "%s. The old policy keeps acting; the file is tried again when it changes.",
            reason,
        )


def _order(entry: Entry) -> tuple[int, int]:
    """(version, epoch), where a foreign file's epoch stands in for its version."""
    return (entry.epoch if entry.version < 0 else entry.version, entry.epoch)

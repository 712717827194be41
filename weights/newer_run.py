"""Which run a test should follow next, and whether there is a newer one that it does not follow.

    watch = NewerRun(runs_dir, "Ant", Leaving.WHEN_ENDED)
    watch.successor(run)        # the run to follow instead of `run`, or None
    watch.newer                 # name of a newer run that is not followed, or None

A training run of the same task may succeed `run` if it is live on this machine, so that a process holds its lock. Among
copied runs, whose locks are not held here, it is the one to which `latest_train` moves. A run that has no usable
checkpoint yet is not followed. The pointer counts only when it moves: otherwise a test that has left for a live run
would return.
"""

from __future__ import annotations

import logging
from enum import Enum
from pathlib import Path

from livegym.rundir.checkpoint import newest_playable
from livegym.rundir.lock import lock_holder
from livegym.rundir.run import TRAINING_KINDS, Run, list_runs, open_run, read_latest
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)


class Leaving(Enum):
    """When a test leaves the run that it follows for another one."""

    NEVER = "never, because it was given by name"
    WHEN_ENDED = "once it is not being trained any more"
    ALWAYS = "also while it is being trained"


class NewerRun:
    """Looks for newer runs of one task in one directory of runs. Owned by the watching thread."""

    def __init__(self, runs_dir: Path, task: str, leaving: Leaving) -> None:
        self.newer: str | None = None  # may be read by any thread
        self._runs_dir = runs_dir
        self._task = task
        self._leaving = leaving
        pointed = read_latest(runs_dir, "train")
        self._known = None if pointed is None or leaving is Leaving.ALWAYS else pointed.resolve()
        self._seen: tuple[int, bool] | None = None
        self._logged: set[str] = set()

    def changed(self, run: Run) -> bool:
        """Whether something has happened since the last call that may give `run` a successor. Costs microseconds.

        A new run, its first checkpoint and a resume change the runs' directory, because they move `latest_train`.
        """
        try:
            modified = self._runs_dir.stat().st_mtime_ns
        except OSError:
            modified = 0
        before, self._seen = self._seen, (modified, lock_holder(run) is not None)
        return self._seen != before

    def successor(self, run: Run) -> Run | None:
        """The run to follow instead of `run`; None if the test stays with `run`. Updates `newer`."""
        live = lock_holder(run) is not None
        moved, training = self._moved_to(run), self._live_here(run, newer_only=live)
        if live:  # a test of two live runs would alternate between them, so only a move of the pointer counts
            found, leaves = moved or training, self._leaving is Leaving.ALWAYS and moved is not None
        else:
            found, leaves = training or moved, self._leaving is not Leaving.NEVER
        if found is not None and leaves:
            return self._leave_for(found)
        self._note(found, run)
        return None

    def _leave_for(self, run: Run) -> Run:
        self.newer = None
        pointed = read_latest(self._runs_dir, "train")
        self._known = None if pointed is None else pointed.resolve()
        return run

    def _note(self, found: Run | None, run: Run) -> None:
        self.newer = None if found is None else found.name
        if found is None or found.name in self._logged:
            return
        self._logged.add(found.name)
        until = "" if self._leaving is Leaving.NEVER else " until that run ends (followLatest=true leaves it at once)"
        log.info("there is a newer run, %s; %s is followed further%s", found.path, run.name, until)

    def _moved_to(self, run: Run) -> Run | None:
        """The run to which `latest_train` has moved, if it is of this task and can be played."""
        pointed = read_latest(self._runs_dir, "train")
        if pointed is None or pointed.resolve() in (self._known, run.path.resolve()):
            return None
        try:
            found = open_run(pointed.resolve())
        except UserError as error:
            log.debug("latest_train: %s", error)
            return None
        fits = found.kind in TRAINING_KINDS and found.task in ("", self._task)
        return found if fits and _playable(found) else None

    def _live_here(self, run: Run, newer_only: bool) -> Run | None:
        """The newest other run of this task that is being trained on this machine and can be played.

        `newer_only`: it must have begun after `run`.
        """
        for found in list_runs(self._runs_dir, TRAINING_KINDS, self._task):
            if found.path.resolve() == run.path.resolve():
                if newer_only:
                    return None
                continue
            holder = lock_holder(found)
            if holder is not None and holder.here and _playable(found):
                return found
        return None


def _playable(run: Run) -> bool:
    return newest_playable(run) is not None

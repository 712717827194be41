"""When checkpoints are written, which one is the best, and what happens if the disk is full.

A checkpoint is written after the first iteration, then every `saveInterval` seconds (or every `saveFrequency`
iterations), on signals and at the end. The best checkpoint is the one with the highest mean return, once that is a mean
of `games_to_track` episodes (the first episodes that end are the shortest, and not representative). A new best return
is saved early, once a quarter of the interval has passed. A failed write is a warning: training continues, the previous
checkpoint stays, and the next one is tried when it is due.

A stop does not wait for a long iteration. So that the last complete iteration can still be saved, the state is copied
after each iteration if iterations are long; the cost is negligible.
"""

from __future__ import annotations

import copy
import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livegym.projects.commands import command
from livegym.rl.divergence import Diverged, not_finite
from livegym.rl.learner import Iteration, Learner
from livegym.rl.spec import PolicySpec, shape_hash
from livegym.rl.state import capture_learner
from livegym.rundir.checkpoint import (
    CheckpointError,
    CheckpointMeta,
    NotFinite,
    files_of,
    newest_usable,
    prune,
    prune_env_states,
    set_best,
    write_checkpoint,
    write_env_state,
)
from livegym.rundir.run import Run, point_latest
from livegym.utils.errors import UserError
from livegym.utils.files import discard

log = logging.getLogger(__name__)

LONG_ITERATION = 2.0  # s; after a longer iteration, a copy of the state is kept until the next one ends

SCARCE = 20  # checkpoints; a warning comes if the disk has less room than for this number

Captured = tuple[dict[str, Any], dict[str, Any]]
"""Learner state and environment state, captured at the same moment."""


@dataclass(frozen=True)
class SaveRule:
    """When to save and which checkpoints to keep: the keys `saveInterval`, `saveFrequency`, `keepLast`, `keepEvery`."""

    interval: float  # s
    frequency: int | None  # iterations
    keep_last: int | None
    keep_every: int | None


class Saver:
    """Writes one run's checkpoints."""

    def __init__(self, run: Run, learner: Learner, spec: PolicySpec, config: dict[str, Any], policy: SaveRule) -> None:
        """`config`: the run's resolved configuration, embedded in every checkpoint."""
        self.run = run
        self.learner = learner
        self.spec = spec
        self.config = config
        self.policy = policy
        self.best_return: float | None = None
        self.saved_version = learner.version  # nothing new to save before the first iteration
        self._saved_at: float | None = None
        self._tried_at: float | None = None
        self._failing = self._scarce = False
        self._last: Iteration | None = None
        self._pointed = False
        self._kept: Captured | None = None

    def after_iteration(self, it: Iteration) -> bool:
        """Save if it is due. Returns True if a checkpoint was written. Raises UserError if the policy has diverged."""
        self._last, self._kept = it, None
        saved = self._due(it) and self.save()
        if it.seconds > LONG_ITERATION:
            self._kept = copy.deepcopy(self._capture())
        return saved

    def abandon_iteration(self) -> None:
        """Note that the running iteration will not end: only a state that was kept before it can be saved."""
        if self._kept is None:
            self._last = None
        log.warning(
            "the running iteration takes too long to wait for, and is dropped; version %d is the last one.",
            self._last.version if self._last else self.saved_version,
        )

    def age(self) -> float | None:
        """Seconds since the last checkpoint; None before the first."""
        return None if self._saved_at is None else time.monotonic() - self._saved_at

    def _due(self, it: Iteration) -> bool:
        if self._tried_at is None:
            return True
        age = time.monotonic() - self._tried_at
        if self.policy.frequency is not None:
            return it.epoch % self.policy.frequency == 0
        return age >= self.policy.interval or (self._improves(it) and age >= self.policy.interval / 4)

    def _improves(self, it: Iteration) -> bool:
        if it.mean_return is None or not it.mean_is_full:
            return False
        return self.best_return is None or it.mean_return > self.best_return

    def save(self) -> bool:
        """Write the last iteration's checkpoint and environment state. Returns False if they could not be written.

        Raises UserError if the weights are non-finite, since later iterations cannot recover from that.
        """
        it = self._last
        if it is None or self.saved_version == it.version:
            return True
        self._tried_at = time.monotonic()
        best_before = self.best_return
        if self._improves(it):
            self.best_return = it.mean_return
        try:
            path = self._write(it)
        except NotFinite as error:
            raise self.with_restart(self.learner.diverged(it.epoch, str(error), it.report)) from error
        except (OSError, CheckpointError) as error:
            self.best_return = best_before
            self._say_failed(it, error)
            return False
        self._failing = False
        self.saved_version, self._saved_at = it.version, time.monotonic()
        try:
            self._tidy(path, is_best=self.best_return != best_before)
        except OSError as error:
            log.warning("%s is saved, but updating links or removing old checkpoints failed: %s", path, error)
        return True

    def _say_failed(self, it: Iteration, error: Exception) -> None:
        """Log one warning while writes keep failing."""
        log.log(
            logging.DEBUG if self._failing else logging.WARNING,
            "checkpoint of epoch %d not written: %s. Training continues, and the last checkpoint stays; "
            "the next one is tried when it is due.",
            it.epoch,
            error,
        )
        self._failing = True

    def with_restart(self, error: Diverged) -> UserError:
        """The error with the command that starts again from the last good checkpoint."""
        last = newest_usable(self.run)
        given = [f"task={self.spec.task}", *([f"checkpoint={last.path}"] if last else [])]
        given += [error.remedy] if error.remedy else []
        return UserError(
            f"{error} Training cannot continue from there. Start again from before the divergence: {command(*given)}",
            exit_code=1,
        )

    def _capture(self) -> Captured:
        return capture_learner(self.learner), self.learner.environment_state()

    def _write(self, it: Iteration) -> Path:
        state, environment = self._kept or self._capture()
        broken = not_finite(state)  # a non-finite critic or optimizer would spoil the next policy
        if broken is not None:
            raise NotFinite(f"has NaN or Infinity in {broken}")
        self.learner.note_best_return(state, self.best_return)
        state["config"], state["spec"] = self.config, self.spec.to_dict()
        meta = CheckpointMeta(
            task=self.spec.task,
            run_id=self.run.run_id,
            version=it.version,
            epoch=it.epoch,
            frame=it.frame,
            score=it.mean_return,
            best_score=self.best_return,
            shape_hash=shape_hash(self.spec, state["model"]),
        )
        # environments first: if the process is killed in between, the newest checkpoint still has its environment state
        written = write_env_state(self.run, it.version, environment) if environment else None
        try:
            return write_checkpoint(self.run.nn, state, meta)
        except (OSError, CheckpointError):
            if written is not None:
                discard(written)
            raise

    def _tidy(self, path: Path, is_best: bool) -> None:
        """Update links and remove old files after a checkpoint, in the order in which a kill does the least harm."""
        if is_best:
            set_best(self.run.nn, path)
        if not self._pointed:
            point_latest(self.run.path.parent, "train", self.run)
            self._pointed = True
        prune_env_states(self.run, self.saved_version)
        prune(self.run.nn, self.policy.keep_last, self.policy.keep_every)
        log.debug("saved %s", path)
        files = [*files_of(path), *self.run.path.glob("env_state_*")]
        self._warn_if_disk_is_nearly_full(sum(file.stat().st_size for file in files))

    def _warn_if_disk_is_nearly_full(self, size: int) -> None:
        """Warn before the disk is full; once, until there is room again."""
        free = shutil.disk_usage(self.run.nn).free
        scarce = free < SCARCE * size
        if scarce and not self._scarce:
            log.warning(
                "only %.3g MB are free at %s, and a checkpoint takes %.3g MB: make room, or lower keepLast.",
                free / 1e6,
                self.run.path,
                size / 1e6,
            )
        self._scarce = scarce

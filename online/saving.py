"""Checkpoints of a continuous run: written every so many versions and at the end, in the form of any training's.

A write that fails (a full disk) is one warning while the trouble lasts: training and serving go on, the last one stays.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from livegym.rl.spec import PolicySpec, shape_hash
from livegym.rundir.checkpoint import CheckpointError, CheckpointMeta, prune, set_best, write_checkpoint
from livegym.rundir.run import Run, point_latest

log = logging.getLogger(__name__)


class CheckpointKeeper:
    """Writes one run's checkpoints."""

    def __init__(self, run: Run, spec: PolicySpec, config: dict[str, Any], saved: int, best: float | None) -> None:
        """`config`: the run's, embedded in each; `saved`: the newest version that is there, `best`: the best score."""
        self.run = run
        self.spec = spec
        self.config = config
        self.saved = saved
        self.best = best
        self.trouble = ""  # why the last one could not be written

    def save(self, state: dict[str, Any], version: int, trainings: int, added: int, score: float | None) -> bool:
        """Writes a version if it is new; False if it could not be written.

        `score`: mean of the last rewards that came, None if they are too few to tell.
        """
        if version == self.saved:
            return True
        better = score is not None and (self.best is None or score > self.best)
        meta = CheckpointMeta(
            task=self.spec.task,
            run_id=self.run.run_id,
            version=version,
            epoch=trainings,
            frame=added,
            score=score,
            best_score=score if better else self.best,
            shape_hash=shape_hash(self.spec, state["model"]),
        )
        try:
            path = write_checkpoint(self.run.nn, {**state, "config": self.config, "spec": self.spec.to_dict()}, meta)
        except (OSError, CheckpointError) as error:
            if not self.trouble:
                log.warning("version %d is not written: %s. Training goes on; the last one stays.", version, error)
            self.trouble = f"checkpoint not written: {error}"
            return False
        self.trouble = ""
        self.saved = version
        self._tidy(path, score if better else None)
        return True

    def _tidy(self, path: Path, best: float | None) -> None:
        try:
            if best is not None:
                set_best(self.run.nn, path)
                self.best = best
            point_latest(self.run.path.parent, "train", self.run)
            prune(self.run.nn, self.config.get("keepLast"), self.config.get("keepEvery"))
        except OSError as error:
            log.warning("%s is saved, but tidying up behind it failed: %s", path, error)

"""Checkpoints of a continuous run: written every few versions and at the end, in the same format as a training run's.

If writing fails (a full disk), there is one warning until it succeeds again: training and serving continue, and the
last checkpoint stays.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from livegym.cfg.typed import as_dict
from livegym.rl.actor_critic import ActorCritic, OffPolicyRule
from livegym.rl.algorithm import algorithm_of
from livegym.rl.spec import PolicySpec, shape_hash
from livegym.rundir.checkpoint import (
    CheckpointError,
    CheckpointMeta,
    highest_version,
    meta_of,
    newest_usable,
    prune,
    set_best,
    write_checkpoint,
)
from livegym.rundir.run import Run, point_latest
from livegym.schema.settled import SettledConfig
from livegym.weights.candidate import Candidate
from livegym.weights.learner import WeightBus

log = logging.getLogger(__name__)


def save_earlier(
    run: Run, config: SettledConfig, candidate: Candidate, after: int, trusted_from: int | None = None
) -> bool:
    """Save the weights of an earlier version as the newest checkpoint, from which the next trainer continues.

    Counts, learning rate and generator stay as in the checkpoint that is the newest so far. The optimizer starts again,
    because its moments belong to weights that are given up. `after`: the last version that was published.
    `trusted_from`: number of the first experience to which the trained policy is held (`online.kl_limit`); None: as in
    that checkpoint. Returns False if nothing was saved; the reason is logged.
    """
    usable = newest_usable(run)
    meta = meta_of(usable.state) if usable is not None else None
    if usable is None or meta is None:
        log.error("no usable checkpoint in %s: the trainer cannot go back to version %d.", run.nn, candidate.version)
        return False
    spec = PolicySpec.from_dict(usable.state["spec"])
    network = algorithm_of(config.train).actor_critic(spec, config.train)
    learner = ActorCritic(spec, network, OffPolicyRule(network.discount), config.online.learning_rate)
    learner.load_model(candidate.model)
    state = learner.state()
    if "online" in usable.state:
        online = usable.state["online"]
        counts = online["counts"] if trusted_from is None else {**online["counts"], "trusted_from": trusted_from}
        state["online"] = {**online, "counts": counts}
    elif trusted_from is not None or "trusted_from" in usable.state:  # no trainer has saved its counts yet
        state["trusted_from"] = usable.state["trusted_from"] if trusted_from is None else trusted_from
    writer = CheckpointWriter(run, spec, as_dict(config), meta.version, meta.best_score)
    published = WeightBus(0.0).highest_version(run)  # perhaps newer than the trainer's last report
    return writer.save(
        state, max(meta.version, highest_version(run), after, published) + 1, meta.epoch, meta.frame, None
    )


class CheckpointWriter:
    """Writes one run's checkpoints."""

    def __init__(self, run: Run, spec: PolicySpec, config: dict[str, Any], saved: int, best: float | None) -> None:
        """`config`: the run's configuration, stored in each checkpoint; `saved`: the newest version with a checkpoint.

        `best`: the best score so far; None if there is none.
        """
        self.run = run
        self.spec = spec
        self.config = config
        self.saved = saved
        self.best = best
        self.problem = ""  # why the last checkpoint could not be written

    def save(self, state: dict[str, Any], version: int, trainings: int, added: int, score: float | None) -> bool:
        """Write a checkpoint unless this version has one; return False if that failed.

        `score`: mean of the last rewards; None if there are too few.
        """
        if version == self.saved:
            return True
        better = score is not None and (self.best is None or score >= self.best)  # of equal ones, the newest
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
            if not self.problem:
                message = "version %d was not saved: %s. Training continues; the last checkpoint stays."
                log.warning(message, version, error)
            self.problem = f"checkpoint not written: {error}"
            return False
        self.problem = ""
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
            log.warning("%s is saved, but updating links or deleting old checkpoints failed: %s", path, error)

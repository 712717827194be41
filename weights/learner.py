"""The learner's side of the weight bus: it publishes the weights. `BusObserver` does so for a training run.

Weights are published after an iteration, at most every `publishInterval` seconds, and at the end. On a GPU the copy to
pinned host memory is queued on the device's stream behind its current work, and another thread publishes the weights
once they have arrived. The learner waits only if the previous copy is not finished yet.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from livegym.rl.divergence import not_finite
from livegym.rl.learner import Iteration, Learner
from livegym.rl.spec import PolicySpec, shape_hash
from livegym.rundir.run import Run, bus_file
from livegym.utils.errors import UserError
from livegym.weights.bus_reader import BusReader
from livegym.weights.publish import Publisher, VersionFacts, remove_left_overs

log = logging.getLogger(__name__)

KEPT_LEFT_OVERS = 24 * 3600.0  # s that a dead writer's bus is kept, because a resumed run continues its versions


class WeightBus:
    """A learner's bus. If there is no memory for it, it logs a warning, and followers read checkpoint files.

    bus = WeightBus(interval=1.0)
    bus.open(run, spec, config, model, after=0)
    bus.publish(model, VersionFacts(version=1, epoch=1, frame=8192, score=41.0))    # if a publication is due
    bus.close(model)                                                                # the last version, if it waits
    """

    def __init__(self, interval: float) -> None:
        """`interval`: shortest time between publications, in s; 0: no bus."""
        self._interval = interval
        self._publisher: Publisher | None = None
        self._waiting: VersionFacts | None = None
        self._due = 0.0
        self._copies: _DeviceCopies | None = None

    def highest_version(self, run: Run) -> int:
        """The highest version that a dead writer has published; a resumed run continues after it."""
        file = bus_file(run.run_id)
        if file is None or not file.exists():
            return 0
        try:
            reader = BusReader(file)
        except UserError as error:
            log.warning(
                "the last published version is unknown (%s): versions continue from the newest checkpoint's.", error
            )
            return 0
        found = reader.read(0)
        return max(found.version if found is not None else 0, int(reader.description.get("after", 0)))

    def open(self, run: Run, spec: PolicySpec, config: dict[str, Any], model: dict[str, Tensor], after: int) -> None:
        """Create the bus, if there is memory for it.

        `model`: gives the shapes and dtypes of the arrays; `after`: the last version that was assigned.
        """
        pattern, file = bus_file("*"), bus_file(run.run_id)
        if self._interval == 0 or pattern is None or file is None:
            log.info("no weight bus: processes that follow this run read its checkpoint files.")
            return
        description = {"run": run.name, "spec": spec.to_dict(), "config": config, "after": after}
        remove_left_overs(pattern, older_than=KEPT_LEFT_OVERS)
        try:
            self._publisher = _publisher(file, pattern, description, shape_hash(spec, model), model)
        except OSError as error:
            log.warning("no weight bus (%s: %s): processes that follow this run read its files.", file, error)
            return
        if any(value.is_cuda for value in model.values()):
            self._copies = _DeviceCopies(model)

    def publish(self, model: Mapping[str, Tensor], facts: VersionFacts) -> None:
        """Publish a version if a publication is due; otherwise it waits until a newer one replaces it, or `close`."""
        self._waiting = facts
        if time.monotonic() >= self._due:
            self._publish_waiting(model)

    def close(self, model: Mapping[str, Tensor] | None) -> None:
        """Publish the waiting version, if there is one, and close the bus.

        `model`: its weights; None if the learner is in the middle of an update. Then the version is not published.
        """
        if self._publisher is None:
            return
        try:
            if model is not None:
                self._publish_waiting(model)
            if self._copies is not None:
                self._copies.finish()
        finally:
            self._publisher.close()
            self._publisher = None

    def _publish_waiting(self, model: Mapping[str, Tensor]) -> None:
        publisher = self._publisher
        newest = self._waiting
        if publisher is None or newest is None:
            return
        self._due = time.monotonic() + self._interval
        self._waiting = None
        if self._copies is not None:
            self._copies.start(model, lambda host: _publish_finite(publisher, host, newest))
        else:
            _publish_finite(publisher, model, newest)


class BusObserver:
    """Observer that publishes the versions of one training run (`rl/observer.py`)."""

    def __init__(self, interval: float) -> None:
        """`interval`: shortest time between publications, in s; 0: no bus."""
        self._bus = WeightBus(interval)
        self._learner: Learner | None = None

    def highest_version(self, run: Run) -> int:
        """The highest version that a dead writer has published; a resumed run continues after it."""
        return self._bus.highest_version(run)

    def begin(self, run: Run, learner: Learner, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Create the bus when the training run begins."""
        self._learner = learner
        self._bus.open(run, spec, config, learner.policy_state(), learner.version)

    def after_iteration(self, it: Iteration) -> None:
        """Publish the iteration's version, if a publication is due."""
        assert self._learner is not None  # set by `begin`
        weights = self._learner.policy_state()
        facts = VersionFacts(it.version, it.epoch, it.frame, it.mean_return, it.report.level)
        self._bus.publish(weights, facts)

    def end(self, complete: bool) -> None:
        """Publish the last version, if it is complete and not published yet, and close the bus."""
        self._bus.close(self._learner.policy_state() if complete and self._learner is not None else None)


def _publisher(
    file: Path, pattern: Path, description: dict[str, Any], digest: str, model: dict[str, Tensor]
) -> Publisher:
    """Create a bus; if memory is full, first remove all buses of dead writers. Raises OSError if it is still full."""
    try:
        return Publisher(file, description, digest, model)
    except OSError:
        remove_left_overs(pattern, older_than=0.0)
        return Publisher(file, description, digest, model)


def _publish_finite(publisher: Publisher, model: Mapping[str, Tensor], facts: VersionFacts) -> None:
    """Publish the weights if they are finite. Non-finite weights end the training run at its next checkpoint."""
    if not_finite({"model": model}) is None:
        publisher.publish(model, facts)


class _DeviceCopies:
    """Asynchronous copies of the weights from the device to pinned host memory, one set at a time."""

    def __init__(self, model: dict[str, Tensor]) -> None:
        self._host = {name: torch.empty_like(value, device="cpu") for name, value in model.items()}
        try:
            self._host = {name: value.pin_memory() for name, value in self._host.items()}
        except RuntimeError as error:
            log.warning("no pinned memory (%s): the learner waits while weights are copied from the device.", error)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="weights-publisher")
        self._running: Any = None

    def start(self, model: Mapping[str, Tensor], then: Callable[[Mapping[str, Tensor]], None]) -> None:
        """Queue the copies behind the device's work. Another thread calls `then(host)` once they are finished."""
        if self._running is not None:
            self._running.result()  # waits until the buffers are free; raises the error of the previous copy, if any
        for name, value in model.items():
            self._host[name].copy_(value, non_blocking=True)
        copied = torch.cuda.Event()
        copied.record()

        def publish() -> None:
            copied.synchronize()
            then(self._host)

        self._running = self._worker.submit(publish)

    def finish(self) -> None:
        """Wait for the copy in progress, and for its publication."""
        self._worker.shutdown()
        if self._running is not None:
            self._running.result()

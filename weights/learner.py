"""The learner's side of the weight bus: whoever learns publishes its weights there; an observer does so for a training.

At most every `publishInterval` seconds, after an iteration, and at the end. On a GPU the weights are copied to pinned
host memory by the device's own queue, behind what it has to do anyway, and another thread publishes them once they
are there: the learner waits only where the last copy is not done yet.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from livegym.rl.learner import Iteration, Learner
from livegym.rl.spec import PolicySpec, shape_hash
from livegym.rl.state import not_finite
from livegym.rundir.run import Run, bus_file
from livegym.utils.errors import UserError
from livegym.weights.bus_reader import BusReader
from livegym.weights.publish import Publisher, remove_left_overs

log = logging.getLogger(__name__)

KEPT_LEFT_OVERS = 24 * 3600.0  # s that a dead writer's bus is kept: its run may be resumed, and goes on counting there


@dataclass(frozen=True)
class _Version:
    """What is known of a version beside its weights."""

    version: int
    epoch: int
    frame: int
    score: float | None


class WeightBus:
    """A learner's bus. Where there is no memory for one, it says so, and followers read files.

    bus = WeightBus(interval=1.0)
    bus.open(run, spec, config, model, after=0)
    bus.publish(model, version=1, epoch=1, frame=8192, score=41.0)      # if it is due
    bus.close(model)                                                    # with the last version, if it was not due
    """

    def __init__(self, interval: float) -> None:
        """`interval`: least s between publications; 0: no bus."""
        self._interval = interval
        self._publisher: Publisher | None = None
        self._waiting: _Version | None = None
        self._due = 0.0
        self._copies: _DeviceCopies | None = None

    def highest_version(self, run: Run) -> int:
        """What a writer that died had published: a resumed run goes on counting after it."""
        file = bus_file(run.run_id)
        if file is None or not file.exists():
            return 0
        try:
            reader = BusReader(file)
        except UserError as error:
            log.warning(
                "what was published last is not known (%s): versions go on after the newest checkpoint's.", error
            )
            return 0
        found = reader.read(0)
        return max(found.version if found is not None else 0, int(reader.description.get("after", 0)))

    def open(self, run: Run, spec: PolicySpec, config: dict[str, Any], model: dict[str, Tensor], after: int) -> None:
        """Makes the bus, if there is memory for it.

        `model`: the arrays to come, by their shapes; `after`: the last version that was given out.
        """
        pattern, file = bus_file("*"), bus_file(run.run_id)
        if self._interval == 0 or pattern is None or file is None:
            log.info("no weight bus: whoever follows this run reads its files.")
            return
        description = {"run": run.name, "spec": spec.to_dict(), "config": config, "after": after}
        remove_left_overs(pattern, older_than=KEPT_LEFT_OVERS)
        try:
            self._publisher = _publisher(file, pattern, description, shape_hash(spec, model), model)
        except OSError as error:
            log.warning("no weight bus (%s: %s): whoever follows this run reads its files.", file, error)
            return
        if any(value.is_cuda for value in model.values()):
            self._copies = _DeviceCopies(model)

    def publish(self, model: Mapping[str, Tensor], version: int, epoch: int, frame: int, score: float | None) -> None:
        """Publishes a version if that is due; else it waits for the next one, or for the end.

        `score`: what "best" compares; None if it is not known.
        """
        self._waiting = _Version(version, epoch, frame, score)
        if time.monotonic() >= self._due:
            self._publish_waiting(model)

    def close(self, model: Mapping[str, Tensor] | None) -> None:
        """Publishes the version that waits, if there is one, and closes the bus.

        `model`: its weights; None if the learner is in the middle of an update: then it is not published.
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
    """Publishes one training (`rl/observer.py`)."""

    def __init__(self, interval: float) -> None:
        """`interval`: least s between publications; 0: no bus."""
        self._bus = WeightBus(interval)
        self._learner: Learner | None = None

    def highest_version(self, run: Run) -> int:
        """What a writer that died had published: a resumed run goes on counting after it."""
        return self._bus.highest_version(run)

    def begin(self, run: Run, learner: Learner, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Makes the bus."""
        self._learner = learner
        self._bus.open(run, spec, config, learner.policy_state(), learner.version)

    def after_iteration(self, it: Iteration) -> None:
        """Publishes where it is due."""
        assert self._learner is not None  # begun
        self._bus.publish(self._learner.policy_state(), it.version, it.epoch, it.frame, it.mean_return)

    def end(self, complete: bool) -> None:
        """Publishes the last version, if it is whole and was not published yet, and closes the bus."""
        self._bus.close(self._learner.policy_state() if complete and self._learner is not None else None)


def _publisher(
    file: Path, pattern: Path, description: dict[str, Any], digest: str, model: dict[str, Tensor]
) -> Publisher:
    """A new bus. Where the memory is full, all that dead writers left makes room first. Raises OSError."""
    try:
        return Publisher(file, description, digest, model)
    except OSError:
        remove_left_overs(pattern, older_than=0.0)
        return Publisher(file, description, digest, model)


def _publish_finite(publisher: Publisher, model: Mapping[str, Tensor], v: _Version) -> None:
    """Weights that are not finite end the training at its next checkpoint; nobody needs to act with them till then."""
    if not_finite({"model": model}) is None:
        publisher.publish(model, v.version, v.epoch, v.frame, v.score)


class _DeviceCopies:
    """Weights on their way from the device to pinned host memory, at most one set at a time."""

    def __init__(self, model: dict[str, Tensor]) -> None:
        self._host = {name: torch.empty_like(value, device="cpu") for name, value in model.items()}
        try:
            self._host = {name: value.pin_memory() for name, value in self._host.items()}
        except RuntimeError as error:
            log.warning("no pinned memory (%s): copies of the weights wait for the device.", error)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="weights-publisher")
        self._running: Any = None

    def start(self, model: Mapping[str, Tensor], then: Callable[[Mapping[str, Tensor]], None]) -> None:
        """Queues the copies behind the device's work; `then(host)` is called in another thread once they are done."""
        if self._running is not None:
            self._running.result()  # the buffers are free again; raises what went wrong there
        for name, value in model.items():
            self._host[name].copy_(value, non_blocking=True)
        done = torch.cuda.Event()
        done.record()

        def publish() -> None:
            done.synchronize()
            then(self._host)

        self._running = self._worker.submit(publish)

    def finish(self) -> None:
        """Waits for what is on its way."""
        self._worker.shutdown()
        if self._running is not None:
            self._running.result()

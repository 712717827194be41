"""The learner's side of the weight bus: an observer of a training that publishes its weights.

At most every `publishInterval` seconds, after an iteration, and at the end. On a GPU the weights are copied to pinned
host memory by the device's own queue, behind what it has to do anyway, and another thread publishes them once they
are there: the learner waits only where the last copy is not done yet.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from livegym.rl.agent import Iteration
from livegym.rl.spec import PolicySpec, shape_hash
from livegym.rl.state import not_finite, policy_state
from livegym.rundir.run import Run, bus_file
from livegym.utils.errors import UserError
from livegym.weights.bus_reader import BusReader
from livegym.weights.publish import Publisher, remove_left_overs

log = logging.getLogger(__name__)

KEPT_LEFT_OVERS = 24 * 3600.0  # s that a dead writer's bus is kept: its run may be resumed, and goes on counting there


class Learner(Protocol):
    """Whoever learns: its weights are those of `version`."""

    model: Any
    version: int


class BusObserver:
    """Publishes one training. Where there is no memory for a bus, it says so, and followers read files."""

    def __init__(self, interval: float) -> None:
        """`interval`: least s between publications; 0: no bus."""
        self._interval = interval
        self._publisher: Publisher | None = None
        self._agent: Learner | None = None
        self._last: Iteration | None = None
        self._published = 0  # version
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
        found = reader.look(0)
        return max(found.version if found is not None else 0, int(reader.description.get("after", 0)))

    def begin(self, run: Run, agent: Learner, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Makes the bus, where there is memory for it."""
        pattern, file = bus_file("*"), bus_file(run.run_id)
        if self._interval == 0 or pattern is None or file is None:
            log.info("no weight bus: whoever follows this run reads its files.")
            return
        self._agent = agent
        model = policy_state(agent)
        said = {"run": run.name, "spec": spec.to_dict(), "config": config, "after": agent.version}
        remove_left_overs(pattern, older_than=KEPT_LEFT_OVERS)
        try:
            self._publisher = _publisher(file, pattern, said, shape_hash(spec, model), model)
        except OSError as error:
            log.warning("no weight bus (%s: %s): whoever follows this run reads its files.", file, error)
            return
        if any(value.is_cuda for value in model.values()):
            self._copies = _DeviceCopies(model)

    def after_iteration(self, it: Iteration) -> None:
        """Publishes where it is due."""
        self._last = it
        if time.monotonic() >= self._due:
            self._publish(it)

    def end(self, complete: bool) -> None:
        """Publishes the last version, if it is whole and was not published yet, and closes the bus."""
        if self._publisher is None:
            return
        try:
            if complete and self._last is not None and self._last.version != self._published:
                self._publish(self._last)
            if self._copies is not None:
                self._copies.finish()
        finally:
            self._publisher.close()
            self._publisher = None

    def _publish(self, it: Iteration) -> None:
        if self._publisher is None or self._agent is None:
            return
        self._due = time.monotonic() + self._interval
        self._published = it.version
        model, publisher = policy_state(self._agent), self._publisher
        if self._copies is not None:
            self._copies.start(model, lambda host: _publish_finite(publisher, host, it))
        else:
            _publish_finite(publisher, model, it)


def _publisher(file: Path, pattern: Path, said: dict[str, Any], digest: str, model: dict[str, Tensor]) -> Publisher:
    """A new bus. Where the memory is full, all that dead writers left makes room first. Raises OSError."""
    try:
        return Publisher(file, said, digest, model)
    except OSError:
        remove_left_overs(pattern, older_than=0.0)
        return Publisher(file, said, digest, model)


def _publish_finite(publisher: Publisher, model: dict[str, Tensor], it: Iteration) -> None:
    """Weights that are not finite end the training at its next checkpoint; nobody needs to act with them till then."""
    if not_finite({"model": model}) is None:
        publisher.publish(model, it.version, it.epoch, it.frame, it.mean_return)


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

    def start(self, model: dict[str, Tensor], then: Any) -> None:
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

"""The learner's side of the weight bus: an observer of a training that publishes its weights.

At most every `publishInterval` seconds, after an iteration, and at the end. On a GPU the weights are copied to pinned
host memory by the device's own queue, behind what it has to do anyway, and another thread publishes them once they
are there: the learner never waits for the copy.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

from live.bus_reader import BusReader
from live.publish import Publisher, remove_left_overs
from rl.agent import Agent, Iteration
from rl.spec import PolicySpec, shape_hash
from rl.state import policy_state
from utils.errors import UserError
from utils.run import Run, bus_file

log = logging.getLogger(__name__)


class BusObserver:
    """Publishes one training. Where there is no memory for a bus, it says so, and followers read files."""

    def __init__(self, interval: float) -> None:
        """`interval`: least s between publications."""
        self._interval = interval
        self._publisher: Publisher | None = None
        self._agent: Agent | None = None
        self._last: Iteration | None = None
        self._published = 0  # version
        self._due = 0.0
        self._copies: _DeviceCopies | None = None

    def highest_version(self, run: Run) -> int:
        """What a writer that died had published: a resumed run goes on counting after it."""
        file = bus_file(run.run_id)
        try:
            found = BusReader(file).look(0) if file is not None and file.exists() else None
        except UserError:
            return 0
        return found.version if found is not None else 0

    def begin(self, run: Run, agent: Agent, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Makes the bus."""
        self._agent = agent
        pattern, file = bus_file("*"), bus_file(run.run_id)
        if pattern is None or file is None:
            return
        try:
            remove_left_overs(pattern)
            model = policy_state(agent)
            said = {"run_id": run.run_id, "run": run.name, "spec": spec.to_dict(), "config": config}
            self._publisher = Publisher(file, said, shape_hash(spec, model), model)
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

    def end(self) -> None:
        """Publishes the last version, if it was not yet, and closes the bus."""
        if self._publisher is None:
            return
        try:
            if self._last is not None and self._last.version != self._published:
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


def _publish_finite(publisher: Publisher, model: dict[str, Tensor], it: Iteration) -> None:
    """Weights that are not finite end the training at its next checkpoint; nobody needs to act with them till then."""
    if all(bool(torch.isfinite(value.sum())) for value in model.values() if value.is_floating_point()):
        publisher.publish(model, it.version, it.epoch, it.frame, it.mean_return)


class _DeviceCopies:
    """Weights on their way from the device to pinned host memory, at most one set at a time."""

    def __init__(self, model: dict[str, Tensor]) -> None:
        self._host = {name: torch.empty_like(value, device="cpu", pin_memory=True) for name, value in model.items()}
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

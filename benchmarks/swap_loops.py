"""The parts of `benchmarks/hot_swap.py` with several processes: torn vectors, and control loops beside a writer."""

from __future__ import annotations

import multiprocessing
import queue
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

from benchmarks.reload import PERIOD, UNITS, World, quantiles
from livegym.play.watch import Watcher
from livegym.rl.spec import spec_of
from livegym.rundir.lock import RunLock
from livegym.rundir.run import Run, bus_file
from livegym.weights.bus_reader import BusReader, Publication
from livegym.weights.follow import FollowSource
from livegym.weights.publish import Publisher, VersionFacts

STEADY = 0.2871  # s between publications; not a multiple of the control period, so that their phase varies
Model = dict[str, torch.Tensor]


class Unchecked(BusReader):
    """The control of the comparison: a reader that accepts every copy without a check."""

    def _believes(self) -> bool:
        return True


def filled(model: Model, number: float) -> Model:
    """A copy of the model in which every element is `number`."""
    return {name: torch.full_like(value, number) for name, value in model.items()}


def is_whole(model: Model, number: float) -> bool:
    """True if every element is `number`."""
    return all(bool((value == number).all()) for value in model.values())


# -- torn


def _write(file: Path, count: int, begin: Any) -> None:
    models = [filled({"a": torch.zeros(2000), "b": torch.zeros(50, 20)}, 0.0)]
    with Publisher(file, {}, "", models[0]) as publisher:
        begin.wait()
        for number in range(1, count + 1):
            for value in models[0].values():
                value.fill_(float(number))
            publisher.publish(models[0], VersionFacts(number, number, number, None))


def _read(kind: type[BusReader], file: Path, out: Any) -> None:
    reader = kind(file)
    last_number = 0
    torn = 0
    whole = 0
    while not reader.ended:
        found: Publication | None = reader.read(last_number)
        if found is not None:
            last_number = found.number
            ok = is_whole(found.model, float(found.number))
            torn, whole = torn + (not ok), whole + ok
    out.put((torn, whole, reader.overtaken))


def torn_vectors(kind: type[BusReader], count: int) -> dict[str, float]:
    """The number of mixed versions that two readers see in `count` publications at full speed."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="livegym-bench-", dir="/dev/shm") as name:
        file = Path(name) / "bus"
        begin = context.Event()
        out = context.Queue()
        writer = context.Process(target=_write, args=(file, count, begin))
        writer.start()
        while not file.exists():
            time.sleep(0.01)
        readers = [context.Process(target=_read, args=(kind, file, out)) for _ in range(2)]
        for reader in readers:
            reader.start()
        time.sleep(0.2)
        start = time.perf_counter()
        begin.set()
        found = [out.get() for _ in readers]
        seconds = time.perf_counter() - start
        for process in (writer, *readers):
            process.join()
    torn, whole, overtaken = (float(sum(column)) for column in zip(*found, strict=True))
    read = {"torn": torn, "read": torn + whole, "overtaken": overtaken}
    return {**read, "publications": float(count), "publications_per_s": count / seconds}


# -- latency of a control loop


def _publish_steadily(run: Run, spec: dict[str, Any], model: Model, period: float, end: Any) -> None:
    torch.set_num_threads(1)
    with RunLock(run), Publisher(bus_file(run.run_id), {"run": run.name, "spec": spec}, "", model) as publisher:
        number = 1
        while not end.wait(period):
            number += 1
            publisher.publish(model, VersionFacts(number, number, number, None))


def _fill_steadily(shared: Model, end: Any) -> None:
    torch.set_num_threads(1)
    number = 0.0
    while not end.is_set():
        number += 1.0
        for value in shared.values():
            value.fill_(number)


@contextmanager
def process(target: Callable[..., None], *given: Any) -> Any:
    """Runs `target` in another process until the end of the `with` block."""
    context = multiprocessing.get_context("fork")
    end = context.Event()
    child = context.Process(target=target, args=(*given, end))
    child.start()
    try:
        yield
    finally:
        end.set()
        child.join()


def ours(world: World, seconds: float, period: float) -> dict[str, float]:
    """Latency of the loop while another process publishes every `period` s."""
    live = world.live(world.write(1))
    spec = spec_of(world.env).to_dict()
    waits: list[float] = []
    with process(_publish_steadily, world.run, spec, world.weights, period):
        while not bus_file(world.run.run_id).exists():
            time.sleep(0.01)
        source = FollowSource(world.source(), "bus", 1e9)
        with Watcher(live, source, queue.SimpleQueue()):
            times, at_swap = _loop(world, live.adopt, live.act, seconds, lambda: live.acting.made, waits)
    found = {**quantiles(times), "swaps": float(len(at_swap))}
    found["swap_p99_ms"] = quantiles(at_swap)["p99_ms"]
    return {**found, "to_act_p50_ms": quantiles(waits)["p50_ms"], "to_act_p99_ms": quantiles(waits)["p99_ms"]}


def _loop(
    world: World,
    adopt: Callable[[], Any],
    act: Callable[[torch.Tensor], torch.Tensor],
    seconds: float,
    made: Callable[[], float | None] = lambda: None,
    waits: list[float] | None = None,
) -> tuple[list[float], list[float]]:
    """Milliseconds of each control step at 60 Hz, and of the steps that began with a swap."""
    obs = world.env.reset()["policy"]
    times = []
    at_swap = []
    due = time.perf_counter()
    end = due + seconds + 1.0
    while due < end:
        start = time.perf_counter()
        swapped = adopt() is not None
        action = act(obs)
        if swapped and waits is not None and (stamp := made()) is not None:
            waits.append(1000 * (time.time() - stamp))
        obs = world.env.step(action).obs["policy"]
        spent = 1000 * (time.perf_counter() - start)
        if start > end - seconds:  # the first second warms up
            times.append(spent)
            at_swap += [spent] if swapped else []
        due = max(due + PERIOD, time.perf_counter() - PERIOD)
        time.sleep(max(0.0, due - time.perf_counter()))
    return times, at_swap


def naive(world: World, seconds: float, locked: bool) -> dict[str, float]:
    """Latency of the loop while a thread keeps calling load_state_dict from shared memory on the acting model."""
    policy = world.make_policy()
    shared = {name: value.float().clone().share_memory_() for name, value in world.weights.items()}
    lock = threading.Lock() if locked else nullcontext()
    end, acted = threading.Event(), [0, 0]  # steps, and steps that acted on a mixture

    def load() -> None:
        while not end.is_set():
            with lock:
                policy._module.load_state_dict(shared)

    def act(obs: torch.Tensor) -> torch.Tensor:
        with lock:
            first = next(iter(policy.state().values())).flatten()[0].item()
            acted[0] += 1
            acted[1] += not is_whole(policy.state(), first)
            return policy(obs).mode().nan_to_num(0.0)

    with process(_fill_steadily, shared):
        thread = threading.Thread(target=load)
        thread.start()
        times, _ = _loop(world, lambda: None, act, seconds)
        end.set()
        thread.join()
    return {**quantiles(times), "steps": float(acted[0]), "acted_torn": float(acted[1])}


def latency(side: str, size: str, seconds: float) -> dict[str, float]:
    """Latency of the control loop of one side."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        world = World(UNITS[size], Path(name))
        if side == "quiet":
            live = world.live(world.write(1))
            return quantiles(_loop(world, live.adopt, live.act, seconds)[0])
        if side in ("locked", "unlocked"):
            return naive(world, seconds, side == "locked")
        return ours(world, seconds, {"swap": STEADY, "flood": 0.0}[side])

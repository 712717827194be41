"""The cost of following new checkpoints for a running control loop, and the delay until they act.

A loop at 60 Hz plays Cartpole with a policy of 2 MB (or 0.2 MB). The sides are `quiet`, which loads nothing; `watcher`,
ours, in which a thread loads and checks one checkpoint after another, and the loop exchanges two references; `in_loop`,
the naive way, in which the loop itself calls torch.load and load_state_dict once a second. The files are written before
the measurement.

It also measures the delay from a poll that finds a new file to the first action with it, and the memory over 10,000
reloads.

    python -m benchmarks.reload --quick
"""

from __future__ import annotations

import argparse
import json
import queue
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.harness import Side, arguments, begin, effort, measure, ratios, report, rounds_of, some, summary
from livegym.cfg.compose import compose
from livegym.cfg.typed import as_dict, to_typed
from livegym.live.swap import LivePolicy
from livegym.play.watch import Watcher
from livegym.rl.algorithms.ppo.settings import NetworkConfig
from livegym.rl.policy import Policy
from livegym.rl.spec import shape_hash, spec_of
from livegym.rundir.checkpoint import CheckpointMeta, read_checkpoint, write_checkpoint
from livegym.rundir.run import Run, create_run
from livegym.tasks.build import make_env
from livegym.weights.candidate import Candidate
from livegym.weights.sources import CheckpointSource, candidate_of

UNITS = {"0.2 MB": [256, 160, 64], "2 MB": [768, 512, 256]}
PERIOD = 1 / 60  # s
SECONDS = {"full": 60.0, "quick": 10.0, "toy": 1.0}
RELOADS = {"full": 10_000, "quick": 1000, "toy": 10}
LOOKS = {"full": 1000, "quick": 200, "toy": 5}
FILES = 40  # versions, which the watcher loads in turn


class World:
    """Cartpole in four environments, a run directory, and checkpoints of a policy with layers of `units`."""

    def __init__(self, units: list[int], folder: Path) -> None:
        torch.set_num_threads(1)
        self.config = to_typed(compose(["config=test", "task=Cartpole"]))
        self.config.train.network = NetworkConfig(units=units)
        self.env = make_env(self.config.task, self.config.sim, self.config.physics, 4, seed=0)
        self.run: Run = create_run(folder, "Cartpole", "train")
        self.weights = self.make_policy().state()

    def make_policy(self) -> Policy:
        """A policy with untrained weights."""
        return Policy(spec_of(self.env), self.config.train, 4, "cpu")

    def write(self, version: int) -> Path:
        """Writes a complete checkpoint, as a training run does."""
        spec = spec_of(self.env)
        digest = shape_hash(spec, self.weights)
        meta = CheckpointMeta("Cartpole", self.run.run_id, version, version, version, digest)
        content = {"model": self.weights, "config": as_dict(self.config), "spec": spec.to_dict()}
        return write_checkpoint(self.run.nn, content, meta)

    def source(self) -> CheckpointSource:
        """The run's checkpoint directory."""
        return CheckpointSource(self.run, "newest", self.run.path.parent, "Cartpole")

    def live(self, file: Path) -> LivePolicy:
        """A live policy that acts with `file`."""
        first = candidate_of(file, read_checkpoint(file), 0.0)
        return LivePolicy(self.make_policy, first, stochastic=False, seed=0)

    def latencies(self, live: LivePolicy, seconds: float, between: Callable[[], None]) -> list[float]:
        """Milliseconds of each control step at 60 Hz; `between` is part of the step."""
        obs, times = self.env.reset(), []
        end = due = time.perf_counter()
        end += seconds
        while due < end:
            start = time.perf_counter()
            live.adopt()
            between()
            obs = self.env.step(live.act(obs["policy"])).obs
            times.append(1000 * (time.perf_counter() - start))
            due = max(due + PERIOD, time.perf_counter() - PERIOD)
            time.sleep(max(0.0, due - time.perf_counter()))
        return times


class Again:
    """A source that reads and verifies one of the files at each poll, and offers it as newer."""

    def __init__(self, files: list[Path]) -> None:
        self.files, self.count = files, 0

    def poll(self, acting: Candidate) -> Candidate:
        """The next file, read and verified as usual."""
        self.count += 1
        start = time.perf_counter()
        file = self.files[self.count % len(self.files)]
        return candidate_of(file, read_checkpoint(file), 1000 * (time.perf_counter() - start))

    def refuse(self, candidate: Candidate, for_good: bool) -> None:
        """Does nothing, because all files are accepted."""

    def refusals(self) -> list:
        """An empty list, because no file is refused."""
        return []

    def wait(self, timeout: float) -> None:
        """Returns immediately, because there is always a new version."""


def quantiles(values: list[float]) -> dict[str, float]:
    """The median, 99th percentile and maximum of times in ms."""
    ordered = sorted(values)
    return {"p50_ms": ordered[len(ordered) // 2], "p99_ms": ordered[int(0.99 * len(ordered))], "max_ms": ordered[-1]}


def step_latency(side: str, size: str, seconds: float) -> dict[str, float]:
    """Control-step latency of one side."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        world = World(UNITS[size], Path(name))
        files = [world.write(v) for v in range(1, FILES + 1)]
        live = world.live(files[0])
        world.latencies(live, 1.0, lambda: None)  # warms up
        if side == "watcher":
            source = Again(files)
            with Watcher(live, source, queue.SimpleQueue()):
                times = world.latencies(live, seconds, lambda: None)
            return {**quantiles(times), "reloads_per_s": source.count / seconds}
        policy, state = world.make_policy(), {"last": time.monotonic(), "count": 0}

        def naive() -> None:
            if side == "in_loop" and time.monotonic() - state["last"] >= 1.0:
                state["last"] = time.monotonic()
                state["count"] += 1
                loaded = torch.load(files[int(state["count"]) % FILES], weights_only=True)
                policy.load(loaded["model"])

        times = world.latencies(live, seconds, naive)
        return {**quantiles(times), "reloads_per_s": state["count"] / seconds}


def file_to_action(size: str, count: int) -> dict[str, float]:
    """Milliseconds from the start of the poll that finds a complete new file to the first action with it."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        world = World(UNITS[size], Path(name))
        live = world.live(world.write(1))
        watcher = Watcher(live, world.source(), queue.SimpleQueue())
        obs, times = world.env.reset()["policy"], []
        for version in range(2, count + 2):
            world.write(version)
            start = time.perf_counter()
            watcher.poll()
            if live.adopt() is None:
                raise RuntimeError(f"version {version} was not adopted")
            live.act(obs)
            times.append(1000 * (time.perf_counter() - start))
        return quantiles(times)


def memory(count: int) -> dict[str, float]:
    """Resident megabytes after a tenth of `count` reloads and after all of them."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        world = World(UNITS["0.2 MB"], Path(name))
        files = [world.write(v) for v in range(1, FILES + 1)]
        live, early = world.live(files[0]), 0.0
        watcher = Watcher(live, Again(files), queue.SimpleQueue())
        for reload in range(1, count + 1):
            watcher.poll()
            live.adopt()
            if reload == count // 10:
                early = resident()
        return {"early_mb": early, "late_mb": resident(), "reloads": float(count)}


def resident() -> float:
    """This process's resident memory, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    """Prints the table; with --side, measures one side and prints its JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(UNITS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(_measured(options)))
        return
    begin(options)
    table, figures = [["what", "p50 ms", "p99 ms", "max ms"]], {}
    given, count = effort(options), rounds_of(options)
    for size in some(options, list(UNITS)):
        extra = ["--size", size, *given]
        sides = {name: Side("benchmarks.reload", extra) for name in ("quiet", "watcher", "in_loop", "file_to_action")}
        rounds = measure(sides, count, not options.force)
        for name in sides:
            found = [summary(rounds, metric)[name] for metric in ("p50_ms", "p99_ms", "max_ms")]
            table.append([f"{name}, {size}", *(str(spread) for spread in found)])
            key = f"{name}_{size.replace(' ', '').replace('.', '_').lower()}"
            figures[f"{key}_p99_ms"], figures[f"{key}_max_ms"] = found[1].median, found[2].high
        ratio = ratios(rounds, "p99_ms", "watcher", "quiet")
        figures[f"ratio_watcher_quiet_p99_{size.replace(' ', '').replace('.', '_').lower()}"] = ratio.median
    found = measure({"memory": Side("benchmarks.reload", ["--size", "0.2 MB", *given])}, 1, not options.force)[0][
        "memory"
    ]
    growth = found["late_mb"] - found["early_mb"]
    label = f"memory after {found['reloads']:.0f} reloads, and its growth since a tenth of them"
    table.append([label, f"{found['late_mb']:.1f} MB", f"{growth:+.2f} MB", ""])
    figures |= {"memory_growth_mb": growth, "memory_mb": found["late_mb"], "reloads": found["reloads"]}
    report(options, table, figures)


def _measured(options: argparse.Namespace) -> dict[str, float]:
    if options.side == "memory":
        return memory(RELOADS[options.effort])
    if options.side == "file_to_action":
        return file_to_action(options.size, LOOKS[options.effort])
    return step_latency(options.side, options.size, SECONDS[options.effort])


if __name__ == "__main__":
    main()

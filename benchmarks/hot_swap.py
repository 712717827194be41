"""The cost of publishing, swapping and following on the weight bus, and whether a mixture of versions ever acts.

- `torn`: a writer at full speed and two readers. Every element of publication n is n, so a mixture shows. The control
  accepts every copy without a check.
- Latency of a control loop at 60 Hz (Cartpole, 4 environments). `quiet`: no swaps. `swap`: ours, published 3.5 times a
  second. `flood`: ours, published without a pause. Two naive ways under the same flood call load_state_dict from shared
  memory on the acting model in a thread: with `locked`, acting waits for a lock; with `unlocked`, the policy may act on
  a mixture (counted by inspecting the acting model).
- `publish_us`, `adopt_us` (copy, check, load, exchange), and the part of it in the control loop. The peer is
  load_state_dict from shared memory, which checks nothing.
- `training_share`: the share of an Ant training run that is spent on publishing once a second.

    python -m benchmarks.hot_swap --quick
"""

from __future__ import annotations

import argparse
import json
import queue
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Side, arguments, begin, effort, measure, report, rounds_of, some, summary
from benchmarks.reload import UNITS, World
from benchmarks.swap_loops import Unchecked, latency, torn_vectors
from livegym.play.watch import Watcher
from livegym.rl.spec import shape_hash, spec_of
from livegym.rundir.lock import RunLock
from livegym.rundir.run import bus_file
from livegym.weights.bus_reader import BusReader
from livegym.weights.follow import FollowSource
from livegym.weights.publish import Publisher, VersionFacts

SECONDS = {"full": 60.0, "quick": 10.0, "toy": 2.0}
PUBLICATIONS = {"full": 1_000_000, "quick": 100_000, "toy": 1000}
REPEATS = {"full": 300, "quick": 300, "toy": 5}
Table = list[list[str]]

# -- cost of the parts


def costs(size: str, repeats: int) -> dict[str, float]:
    """Median times in microseconds of publishing, adopting, the control loop's part, and the peer."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        world = World(UNITS[size], Path(name))
        live, peer = world.live(world.write(1)), world.make_policy()
        shared = {key: value.clone().share_memory_() for key, value in world.weights.items()}
        found: dict[str, list[float]] = {"publish": [], "adopt": [], "exchange": [], "peer_in": [], "peer_out": []}

        def timed(what: str, call: Callable[[], Any]) -> None:
            start = time.perf_counter()
            call()
            found[what].append(1e6 * (time.perf_counter() - start))

        digest = shape_hash(spec_of(world.env), world.weights)
        distribution = {"run": world.run.name, "spec": spec_of(world.env).to_dict()}
        with (
            RunLock(world.run),
            Publisher(bus_file(world.run.run_id), distribution, digest, world.weights) as publisher,
        ):
            watcher = Watcher(live, FollowSource(world.source(), "bus", 1e9), queue.SimpleQueue())
            for number in range(2, repeats + 2):
                given = (world.weights, VersionFacts(number, number, number, None))
                timed("publish", lambda given=given: publisher.publish(*given))
                timed("adopt", watcher.poll)
                timed("exchange", live.adopt)
                if live.acting.version != number:
                    raise RuntimeError(f"version {number} was not adopted")
                timed("peer_in", lambda: [shared[key].copy_(value) for key, value in world.weights.items()])
                timed("peer_out", lambda: peer._module.load_state_dict(shared))
        us = {f"{what}_us": statistics.median(values) for what, values in found.items()}
        whole = us["publish_us"] + us["adopt_us"] + us["exchange_us"]
        return {**us, "ratio": whole / (us["peer_in_us"] + us["peer_out_us"]), "ratio_adopt": whole / us["peer_out_us"]}


def training_share(seconds: float) -> dict[str, float]:
    """The share of an Ant training run that is spent on publishing once a second."""
    from livegym.cfg.compose import compose
    from livegym.cfg.typed import to_typed
    from livegym.rl import training
    from livegym.rundir.provenance import Provenance
    from livegym.utils.signals import StopFlag
    from livegym.weights.learner import BusObserver

    spent, iterations = [], int(2 * seconds)

    class Timed(BusObserver):
        def after_iteration(self, it: Any) -> None:
            start = time.perf_counter()
            super().after_iteration(it)
            spent.append((time.perf_counter() - start, it.seconds))

    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name, StopFlag() as stop:
        given = ["config=train_headless", "task=Ant", "seed=1", "numEnvs=256", f"maxIterations={iterations}"]
        config = to_typed(compose([*given, f"runsDir={name}"]))
        training.run_training(config, Provenance("", "", [], []), stop, None, [Timed(1.0)])
    publishing, learning = (sum(column) for column in zip(*spent, strict=True))
    return {"training_share": publishing / learning, "iterations": float(len(spent))}


def _measured(options: argparse.Namespace) -> dict[str, float]:
    if options.side in ("checked", "unchecked"):
        kind = BusReader if options.side == "checked" else Unchecked
        return torn_vectors(kind, PUBLICATIONS[options.effort])
    if options.side == "costs":
        return costs(options.size, REPEATS[options.effort])
    if options.side == "training":
        return training_share(SECONDS[options.effort])
    return latency(options.side, options.size, SECONDS[options.effort])


def main() -> None:
    """Prints the table; with --side, measures one side and prints its JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(UNITS), default="0.2 MB", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(_measured(options)))
        return
    begin(options)
    table: Table = [["what", "", "", ""]]
    figures = _torn(options, table)
    for size in some(options, list(UNITS)):
        figures |= _loops(options, table, size)
        figures |= _costs(options, table, size)
    found = _sides(options, ["training"], [], 1)[0]["training"]
    figures["training_share"] = found["training_share"]
    table.append(["share of an Ant training", f"{100 * found['training_share']:.3f} %", "", ""])
    report(options, table, figures)


def _sides(options: argparse.Namespace, names: Sequence[str], extra: list[str], count: int) -> list[dict]:
    given = [*extra, *effort(options)]
    return measure({name: Side("benchmarks.hot_swap", given) for name in names}, count, not options.force)


def _torn(options: argparse.Namespace, table: Table) -> dict[str, float]:
    figures: dict[str, float] = {}
    for side in ("checked", "unchecked"):
        found = _sides(options, [side], [], 1)[0][side]
        read = f"of {found['read']:,.0f} read, {found['publications']:,.0f} published"
        table.append([f"torn, {side}", f"{found['torn']:,.0f}", read, f"{found['overtaken']:,.0f} copies repeated"])
        key = "" if side == "checked" else "_unchecked"
        figures[f"torn{key}"], figures["publications"] = found["torn"], found["publications"]
    return figures


def _key(size: str) -> str:
    return size.replace(" ", "").replace(".", "_").lower()


def _loops(options: argparse.Namespace, table: Table, size: str) -> dict[str, float]:
    names = ("quiet", "swap", "flood", "locked", "unlocked")
    key = _key(size)
    figures = {}
    rounds = _sides(options, names, ["--size", size], rounds_of(options))
    for name in names:
        cells = [str(summary(rounds, m)[name]) for m in ("p50_ms", "p99_ms", "max_ms")]
        table.append([f"control step, ms, p50, p99, max: {name}, {size}", *cells])
        figures[f"step_p99_ms_{name}_{key}"] = summary(rounds, "p99_ms")[name].median
    for name in ("swap", "flood"):
        values = [r[name] for r in rounds]
        figures[f"publish_to_act_ms_p99_{name}_{key}"] = max(v["to_act_p99_ms"] for v in values)
        figures[f"step_p99_ms_at_swap_{name}_{key}"] = max(v["swap_p99_ms"] for v in values)
        cells = [f"{statistics.median(v[m] for v in values):.2f}" for m in ("to_act_p50_ms", "to_act_p99_ms")]
        table.append([f"published to acted on, ms, p50, p99: {name}, {size}", *cells, ""])
    mixed, steps = (sum(r["unlocked"][m] for r in rounds) for m in ("acted_torn", "steps"))
    table.append([f"steps acted on a mixture: unlocked, {size}", f"{mixed:.0f} of {steps:.0f}", "", ""])
    return {**figures, f"acted_torn_unlocked_{key}": mixed}


def _costs(options: argparse.Namespace, table: Table, size: str) -> dict[str, float]:
    found = _sides(options, ["costs"], ["--size", size], 1)[0]["costs"]
    ours = [f"{found[f'{n}_us']:.0f}" for n in ("publish", "adopt", "exchange")]
    table.append([f"us: publish, adopt beside, exchange in the loop, {size}", *ours])
    peer = [f"{found[f'{n}_us']:.0f}" for n in ("peer_in", "peer_out")]
    label = f"us: peer's copy into shared memory, its load_state_dict; all of ours / both, {size}"
    table.append([label, *peer, f"{found['ratio']:.2f}"])
    return {f"{name}_{_key(size)}": value for name, value in found.items()}


if __name__ == "__main__":
    main()

"""The latency that continuous training adds to decisions, the reward that it gains, and what a killed trainer costs.

- `latency`: ms from observations to decisions, 60 times a second in 4 streams. Training is off, has one update round
  per second, has update rounds without a pause (100 %) in a process or in a *thread* of the serving process, or is
  *coupled*: an update round in the path of each decision. Budget: p99 with training is at most 1.2 x p99 without.
- `learning`: mean reward of Territory in 16 streams, with an observation every 15 s: coupled (one gradient step with
  each experience when it arrives, and never again), replay (15 update rounds between two observations), and replay with
  the gate. Time is simulated, so the machine's speed does not matter. Several seeds, with 95 % intervals of the mean
  (Student's t).
- `streams`: decisions per second of one process for 1, 4, 16 and 64 streams, built in, over one WebSocket, and over one
  WebSocket for each stream (`clients`).
- `restart`: s from kill -9 of the trainer to the end of the next update round, with a spare trainer and without.
- `buffer`: simultaneous additions and sampled experiences per second. The peer is a deque with a lock in one process.

    python -m benchmarks.online --quick
    python -m benchmarks.online --only learning --plot docs/images/online-learning.png
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Side, arguments, begin, effort, measure, report, rounds_of, some, spread

LATENCY = ("off", "1 Hz", "100 %", "thread", "coupled")
LEARNING = ("coupled", "replay", "gated")
STREAMS = (1, 4, 16, 64)
SECONDS = {"full": 30.0, "quick": 5.0, "toy": 0.5}
LATENCY_SECONDS = {"full": 60.0, "quick": 10.0, "toy": 1.0}
FILLED = {"full": 400, "quick": 400, "toy": 40}  # steps before latency is measured, so that there is data to train on
TURNS = {"full": 600, "quick": 200, "toy": 8}
SEEDS = {"full": 5, "quick": 3, "toy": 1}
KILLS = {"full": 10, "quick": 4, "toy": 1}
PARTS = ("latency", "learning", "streams", "buffer", "restart")
T95 = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 8: 2.36, 10: 2.26}  # two-sided, n - 1 degrees of freedom
Table = list[list[str]]


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    from benchmarks import online_sides as sides  # only the measuring processes need these slow imports

    seconds = SECONDS[options.effort]
    if options.part == "latency":
        seconds = LATENCY_SECONDS[options.effort]
        return sides.latency(options.side, options.task, seconds, FILLED[options.effort])
    if options.part == "learning":
        return sides.learning(options.side, options.seed, options.turns)
    if options.part == "streams":
        where, count = options.side.split()
        kinds = {"built-in": sides.throughput, "socket": sides.sockets, "clients": sides.clients}
        return kinds[where](int(count), seconds)
    if options.part == "restart":
        return sides.restart(options.side == "spare", KILLS[options.effort])
    return sides.buffer_ours(seconds) if options.side == "ours" else sides.buffer_locked(seconds)


def main() -> None:
    """Prints the table; with --side, measures one side and prints its JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="measure these parts only")
    parser.add_argument("--seeds", type=int, default=0, help="number of seeds of `learning`; default 5, quick 3")
    parser.add_argument("--turns", type=int, default=0, help="observations of `learning`; default 600, quick 200")
    parser.add_argument("--plot", type=Path, help="draw the curves of `learning` to this file")
    for hidden in ("--part", "--task"):
        parser.add_argument(hidden, default="Territory", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.turns = options.turns or TURNS[options.effort]
    options.seeds = options.seeds or SEEDS[options.effort]
    if options.side:
        print(json.dumps(_measured(options)))
        return
    parts = options.only or PARTS
    measures = dict(zip(PARTS, (_latency, _learning, _streams, _buffer, _restart), strict=True))
    if options.effort == "toy" or set(parts) != {"learning"}:
        begin(options)
    table: Table = [["what", "", "", "", ""]]
    figures: dict[str, Any] = {}
    for part in parts:
        figures[part] = measures[part](options, table)
    report(options, table, figures)


def _rounds(
    options: argparse.Namespace,
    part: str,
    names: Sequence[str],
    count: int,
    extra: Sequence[str] = (),
    quiet: bool = True,
) -> list[dict[str, dict[str, Any]]]:
    given = ["--part", part, *extra, *effort(options)]
    sides = {name: Side("benchmarks.online", given) for name in names}
    return measure(sides, count, quiet and not options.force)


def _latency(options: argparse.Namespace, table: Table) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for task in some(options, ("Territory", "Cartpole")):
        rounds = _rounds(options, "latency", LATENCY, rounds_of(options), ["--task", task])
        for side in LATENCY:
            times = {name: spread([r[side][name] for r in rounds]) for name in ("p50", "p99", "max")}
            ratio = spread([r[side]["p99"] / r["off"]["p99"] for r in rounds])
            late = sum(r[side]["late"] for r in rounds)
            shown = [f"{name} {value} ms" for name, value in times.items()]
            table.append([f"{task}, training {side}", *shown, f"{ratio} x off, {late:.0f} late"])
            found[f"{task} {side}"] = {name: value.median for name, value in times.items()}
            found[f"{task} {side}"] |= {"p99_ratio": ratio.median, "late": late}
    return found


def _learning(options: argparse.Namespace, table: Table) -> dict[str, Any]:
    curves: dict[str, list[list[float]]] = {side: [] for side in LEARNING}
    for seed in range(options.seeds):
        extra = ["--seed", str(seed), "--turns", str(options.turns)]
        for side, found in _rounds(options, "learning", LEARNING, 1, extra, quiet=False)[0].items():
            curves[side].append(found["rewards"])
    figures: dict[str, Any] = {"turns": options.turns, "seeds": options.seeds}
    for side, seeds in curves.items():
        row = [f"reward, {side}"]
        for part in range(4):
            at = slice(part * options.turns // 4, (part + 1) * options.turns // 4)
            mean, half = interval([statistics.fmean(rewards[at]) for rewards in seeds])
            row.append(f"{mean:.3f} ± {half:.3f}")
            figures[f"{side} {part + 1}/4"] = [mean, half]
        table.append(row)
    if options.plot:
        _plot(curves, options.plot)
    return figures


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval (Student's t)."""
    if len(values) < 2:
        return values[0], float("nan")
    t = T95[max(n for n in T95 if n <= len(values))]
    return statistics.fmean(values), t * statistics.stdev(values) / len(values) ** 0.5


def _plot(curves: dict[str, list[list[float]]], path: Path) -> None:
    import matplotlib.pyplot as plt
    import numpy as np

    labels = {
        "coupled": "coupled: each experience once, when it arrives",
        "replay": "continuous replay",
        "gated": "replay with gate",
    }
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for side, seeds in curves.items():
        window = max(1, len(seeds[0]) // 25)
        smooth = [np.convolve(rewards, np.ones(window) / window, "valid") for rewards in seeds]
        middle, minutes = np.mean(smooth, 0), (np.arange(len(smooth[0])) + window) * 15 / 60
        (line,) = axes.plot(minutes, middle, label=labels[side])
        axes.fill_between(minutes, np.min(smooth, 0), np.max(smooth, 0), color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="time in minutes (an observation every 15 s, 16 streams)", ylabel="mean reward")
    per_minute = 16 * 60 / 15
    rate_axis = axes.secondary_xaxis("top", functions=(lambda m: m * per_minute, lambda n: n / per_minute))
    rate_axis.set_xlabel("observations seen")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def _streams(options: argparse.Namespace, table: Table) -> dict[str, Any]:
    names = [f"{where} {count}" for where in ("built-in", "socket", "clients") for count in some(options, STREAMS)]
    rounds = _rounds(options, "streams", names, rounds_of(options))
    found = {}
    for name in names:
        rate, p99 = (spread([r[name][metric] for r in rounds]) for metric in ("per_s", "p99"))
        table.append([f"streams, {name}", f"{rate} decisions/s", f"p99 {p99} ms for all", "", ""])
        found[name] = {"per_s": rate.median, "p99": p99.median}
    return found


def _buffer(options: argparse.Namespace, table: Table) -> dict[str, Any]:
    rounds = _rounds(options, "buffer", ("ours", "locked"), rounds_of(options))
    found = {}
    for side, label in (("ours", "buffer in two processes"), ("locked", "deque with a lock")):
        adds, samples = (spread([r[side][metric] for r in rounds]) for metric in ("adds", "samples"))
        table.append([label, f"{adds} additions/s", f"{samples} sampled/s", "", ""])
        found[side] = {"adds": adds.median, "samples": samples.median}
    return found


def _restart(options: argparse.Namespace, table: Table) -> dict[str, Any]:
    names = some(options, ("spare", "none"))
    found = {}
    for name, measured in _rounds(options, "restart", names, 1)[0].items():
        table.append(
            [f"killed trainer, spare: {name}", f"{measured['median']:.2f} s", f"max {measured['max']:.2f} s", "", ""]
        )
        found[name] = measured
    return found


if __name__ == "__main__":
    main()

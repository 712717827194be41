"""Seconds until a task is learned, from the command to the first curve point that reaches the threshold.

Cartpole must reach a mean return of 475 over the last 100 episodes: `train.py` against Stable-Baselines3 with rl-zoo's
settings on the same task. Ant must reach 500 and 1000: `train.py` with our settings against rl_games with the settings
that it ships for Ant on EnvPool (its learning settings; one thread and no compiling, which is faster here). The mean is
the same on both sides (the undiscounted return of the last 100 training episodes).

Each round is a training run with another seed. Times are given with the start of the process (imports, compiling) and
without it (from the first point of the curves).

    python -m benchmarks.time_to_solve --quick
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness import Side, arguments, begin, effort, measure, present, ratios, report, summary
from benchmarks.trainings import OURS, PEERS, POLL, TOY_POLL, Training


@dataclass(frozen=True)
class Problem:
    """The thresholds to reach, the two sides, and the time limit."""

    thresholds: tuple[float, ...]  # mean return
    peer: str
    seeds: int
    limit: float  # s
    commands: dict[str, tuple[list[str], str]]  # side -> (command, tag of the curve)


PROBLEMS = {
    "cartpole": Problem(
        (475.0,),
        "sb3",
        5,
        120.0,
        {
            "livegym": ([*OURS, "task=Cartpole", "maxIterations=1000"], "rewards/step"),
            "sb3": ([*PEERS, "sb3_cartpole"], "rollout/ep_rew_mean"),
        },
    ),
    "ant": Problem(
        (500.0, 1000.0),
        "rl_games",
        3,
        900.0,
        {
            "livegym": ([*OURS, "task=Ant", "maxIterations=100000"], "rewards/step"),
            "rl_games": ([*PEERS, "rl_games", "--actors", "64"], "rewards/step"),
        },
    ),
}


NEEDS = {"sb3": "stable_baselines3", "rl_games": "envpool"}
TOY_THRESHOLD = -1e6  # the first point of any curve reaches it


def chosen(options: argparse.Namespace) -> dict[str, Problem]:
    """The problems to measure. With --toy, each has one seed, and the first point of a curve solves it."""
    found = {name: problem for name, problem in PROBLEMS.items() if options.problem in (None, name)}
    if options.effort == "toy":
        return {name: replace(p, thresholds=(TOY_THRESHOLD,), seeds=1) for name, p in found.items()}
    return {name: replace(p, seeds=1) for name, p in found.items()} if options.effort == "quick" else found


def solve(problem: Problem, side: str, seed: int, poll: float) -> dict[str, float]:
    """`seconds_<threshold>` with the start, `training_seconds_<threshold>` without; the limit if it was missed."""
    command, tag = problem.commands[side]
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        training = Training(command, Path(name), tag, seed, poll)
        goal = problem.thresholds[-1]
        curve = training.run(lambda c: any(value >= goal for value in c.value), problem.limit)
        found: dict[str, float] = {}
        for threshold in problem.thresholds:
            whole = curve.seconds_to(threshold, training.start)
            found[f"seconds_{threshold:g}"] = problem.limit if whole is None else whole
            begun = curve.wall[0] - training.start if len(curve) else problem.limit
            found[f"training_seconds_{threshold:g}"] = found[f"seconds_{threshold:g}"] - begun
            found[f"reached_{threshold:g}"] = float(whole is not None)
        return found


def main() -> None:
    """Prints the table; with --side, measures one side of one problem and prints its JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--problem", choices=list(PROBLEMS), help="measure only this problem")
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        poll = TOY_POLL if options.effort == "toy" else POLL
        print(json.dumps(solve(chosen(options)[options.problem], options.side, options.seed, poll)))
        return
    begin(options)
    table, figures = [["to", "livegym s", "peer s", "ratio", "ratio without start"]], {}
    for name, problem in chosen(options).items():
        rounds = []
        for seed in range(1, 1 + problem.seeds):
            extra = ["--problem", name, "--seed", str(seed), *effort(options)]
            sides = {s: Side("benchmarks.time_to_solve", extra, needs=NEEDS.get(s, "")) for s in problem.commands}
            rounds += measure(present(options, sides), 1, not options.force)
        if options.effort == "toy":  # only the start is measured, and a peer may be missing
            first = summary(rounds, f"seconds_{TOY_THRESHOLD:g}")
            table.append([f"{name}, first point", *(str(first.get(s, "skipped")) for s in problem.commands), "", ""])
            continue
        for threshold in problem.thresholds:
            key = f"{threshold:g}"
            missed = {s: sum(not r[s][f"reached_{key}"] for r in rounds) for s in problem.commands}
            misses = "".join(f" ({s} missed it {m}x)" for s, m in missed.items() if m)
            times = summary(rounds, f"seconds_{key}")
            whole = ratios(rounds, f"seconds_{key}", "livegym", problem.peer)
            training = ratios(rounds, f"training_seconds_{key}", "livegym", problem.peer)
            found = (times["livegym"], times[problem.peer], whole, training)
            table.append([f"{name} {key}{misses}", *map(str, found)])
            label = f"{problem.peer}_{name}" + (f"_{key}" if len(problem.thresholds) > 1 else "")
            figures[f"ratio_{label}_time"] = whole.median
            figures[f"ratio_{label}_training_time"] = training.median
            figures[f"seconds_{name}_{key}"] = times["livegym"].median
            for side in problem.commands:
                figures[f"reached_{side}_{name}_{key}"] = 1 - missed[side] / len(rounds)
    report(options, table, figures)


if __name__ == "__main__":
    main()

"""Speed over the number of processor cores: environment steps/s and PPO frames/s of Ant.

Each side may use only the first 1, 2, 4 ... of the cores that this program may use, up to all of them. Physics takes
one thread per core. PPO runs with one thread per tensor operation and with one per core, and the faster is reported.
There is no peer: this is a curve, not a comparison. On a machine with hyperthreads, a core here is a hardware thread.

    python -m benchmarks.cores --quick
"""

from __future__ import annotations

import json
import os

from benchmarks.env_throughput import PLANS, env_rate
from benchmarks.harness import Side, arguments, begin, effort, measure, ratios, report, rounds_of, some, summary

ENVS = 512
SECONDS = {"full": 10.0, "quick": 4.0, "toy": 0.2}


def core_counts(available: int) -> list[int]:
    """1, 2, 4 ... below `available`, then `available`."""
    return [*(2**k for k in range(available.bit_length()) if 2**k < available), available]


def env_steps(cores: int, size: str) -> float:
    """Environment steps/s of Ant on so many cores."""
    return env_rate("ant", ENVS, SECONDS[size], PLANS[size])


def ppo(cores: int, size: str) -> float:
    """PPO frames/s of Ant on so many cores, with the better number of threads per tensor operation."""
    from benchmarks.scaling import ppo_frames

    return max(ppo_frames(ENVS, SECONDS[size], threads)["per_s"] for threads in {1, cores})


CURVES = {"env": env_steps, "ppo": ppo}


def main() -> None:
    """Prints the table; with --side, measures one point and prints its JSON."""
    options = arguments(__doc__.splitlines()[0]).parse_args()
    if options.side:
        curve, cores = options.side.split("-")
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])  # threads start later and inherit it
        print(json.dumps({"per_s": CURVES[curve](int(cores), options.effort)}))
        return
    begin(options)
    counts = some(options, core_counts(len(os.sched_getaffinity(0))))
    sides = {f"{curve}-{n}": Side("benchmarks.cores", effort(options)) for n in counts for curve in CURVES}
    rounds = measure(sides, rounds_of(options), not options.force)
    speed = summary(rounds, "per_s")
    table = [["cores", "env steps/s", "/ 1 core", "PPO frames/s", "/ 1 core"]]
    for n in counts:
        cells = [[str(speed[f"{c}-{n}"]), str(ratios(rounds, "per_s", f"{c}-{n}", f"{c}-1"))] for c in CURVES]
        table.append([str(n), *cells[0], *cells[1]])
    report(options, table, {f"{side}_cores_per_s": speed[side].median for side in sides})


if __name__ == "__main__":
    main()

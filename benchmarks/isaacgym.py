"""Cost of a step of Isaac Gym tasks, and the time to make their environments, beside livegym's own tasks.

A side is one task with 512 environments and random actions in one process with one thread. It reports the processor
time of an environment step, the part of it that is not physics (the task's own code and the package `isaacgym`, or
livegym's Env), and the time to make the environments. `Ant` and `Cartpole` of IsaacGymEnvs stand beside livegym's own,
which have other models: only the part that is not physics can be compared.

The environment variable ISAACGYMENVS names the checkout. Without one, only the small tasks of the tests are measured.

    ISAACGYMENVS=../IsaacGymEnvs python -m benchmarks.isaacgym --quick
"""

from __future__ import annotations

import argparse
import json
import os
import time
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Side, arguments, begin, effort, measure, report, rounds_of, summary

CHECKOUT = "ISAACGYMENVS"
TOYS = ROOT / "tests" / "isaac_project"
SIDES = {  # name -> task, what holds it
    "isaacgymenvs:Cartpole": CHECKOUT,
    "isaacgymenvs:Ant": CHECKOUT,
    "isaacgymenvs:Anymal": CHECKOUT,
    "toys:Crawl": "",
    "Cartpole": None,
    "Ant": None,
}
STEPS = {"full": 400, "quick": 100, "toy": 2}
WARM = {"full": 100, "quick": 50, "toy": 1}
ENVIRONMENTS = {"full": 512, "quick": 512, "toy": 4}


def side(options: argparse.Namespace) -> dict[str, float]:
    """The costs of one task."""
    import torch

    from livegym.cfg.compose import compose
    from livegym.cfg.typed import to_typed
    from livegym.projects import registry
    from livegym.tasks.build import make_env

    torch.set_num_threads(1)
    place = SIDES[options.side]
    if place is not None:
        registry.use(os.environ[place] if place else str(TOYS))
    count = ENVIRONMENTS[options.effort]
    config = to_typed(compose([f"task={options.side}", "sim.threads=1"]))
    began = time.perf_counter()
    env = make_env(config.task, config.sim, config.physics, count, seed=0)
    made = time.perf_counter() - began
    physics = Timed(env.sim.engine if place is not None else env.sim)
    env.reset()
    rng = torch.Generator().manual_seed(0)
    actions = [2 * torch.rand(env.zero_action().shape, generator=rng) - 1 for _ in range(16)]
    for k in range(WARM[options.effort]):
        env.step(actions[k % 16])
    physics.seconds, begin_s = 0.0, time.process_time()
    for k in range(STEPS[options.effort]):
        env.step(actions[k % 16])
    total = time.process_time() - begin_s
    steps = count * STEPS[options.effort]
    return {"us": 1e6 * total / steps, "rest": 100 * (1 - physics.seconds / total), "made_s": made}


class Timed:
    """Processor time that is spent in an object's `step`."""

    def __init__(self, stepped: Any) -> None:
        self.seconds = 0.0
        step = stepped.step

        def timed(*given: Any, **named: Any) -> Any:
            begin_s = time.process_time()
            try:
                return step(*given, **named)
            finally:
                self.seconds += time.process_time() - begin_s

        stepped.step = timed


def main() -> None:
    """Prints the table; with --side, one side as JSON."""
    options = arguments(__doc__.splitlines()[0]).parse_args()
    if options.side:
        print(json.dumps(side(options)))
        return
    begin(options)
    names = [name for name, place in SIDES.items() if place != CHECKOUT or CHECKOUT in os.environ]
    for name in SIDES.keys() - names:
        print(f"{name}: skipped: {CHECKOUT}=<folder> names no checkout", flush=True)
    sides = {name: Side("benchmarks.isaacgym", effort(options)) for name in names}
    rounds = measure(sides, rounds_of(options), not options.force)
    table = [["task", "us per environment step", "not physics, %", "made in, s"]]
    for name in names:
        table.append([name, *(str(summary(rounds, metric)[name]) for metric in ("us", "rest", "made_s"))])
    figures = {f"{metric}_{name}": np.median([r[name][metric] for r in rounds]) for name in names for metric in
               ("us", "rest", "made_s")}  # fmt: skip
    report(options, table, figures)


if __name__ == "__main__":
    main()

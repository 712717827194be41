"""The cost of Gymnasium's interface: steps of `gymnasium.make_vec` against those of the bare Env below it.

Both sides are in one process and have equal environments with equal seeds; they take turns, a slice of steps each, so
that other programs disturb both. The actions are drawn beforehand: numpy arrays for Gymnasium, tensors for Env.

- `steps/s`: control steps of all environments per second, of each side.
- `overhead`: time of a step through Gymnasium / time of a step of the bare Env - 1, the median over the slices.
- `CPU`: likewise, with the processor time of the process, which a busy machine changes less.

    python -m benchmarks.gymnasium_overhead --quick
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch

import livegym
from benchmarks.harness import arguments, begin, report, some

HEAD = ["task", "environments", "bare steps/s", "Gymnasium steps/s", "overhead %", "CPU %"]


class Plan(NamedTuple):
    """The size of a measurement."""

    slices: int  # of each side
    steps: int  # in a slice


PLANS = {"full": Plan(40, 50), "quick": Plan(20, 10), "toy": Plan(2, 2)}
CASES = (("Cartpole", 64), ("Cartpole", 1024), ("Ant", 64), ("Ant", 512), ("BlindGrasping", 64))


class Spent(NamedTuple):
    """The time of a slice, in s."""

    wall: float
    cpu: float


def stepped(step: Callable[[Any], object], actions: Sequence[Any]) -> Spent:
    """Make these steps."""
    start, cpu = time.perf_counter(), time.process_time()
    for action in actions:
        step(action)
    return Spent(time.perf_counter() - start, time.process_time() - cpu)


def measured(task: str, num_envs: int, plan: Plan) -> dict[str, float]:
    """The figures of one case."""
    envs = gymnasium.make_vec(f"livegym/{task}-v0", num_envs=num_envs)
    bare = livegym.make_env(task, num_envs, seed=1)
    envs.reset(seed=1)
    bare.rng.manual_seed(1)
    bare.reset()
    rng = np.random.default_rng(2)
    shape = (plan.steps, *envs.action_space.shape)
    spent: dict[str, list[Spent]] = {"bare": [], "gymnasium": []}
    for index in range(plan.slices + 1):
        actions = rng.uniform(-1, 1, shape).astype(np.float32)
        sides = [("bare", bare.step, list(torch.from_numpy(actions.copy()))), ("gymnasium", envs.step, list(actions))]
        for name, step, given in sides[:: 1 if index % 2 else -1]:
            spent[name].append(stepped(step, given))
    envs.close()
    bare.close()
    pairs = list(zip(spent["gymnasium"][1:], spent["bare"][1:], strict=True))  # the first slice only warms up
    steps = plan.slices * plan.steps * num_envs
    return {
        **{f"{name}_steps_per_s": steps / sum(one.wall for one in ours[1:]) for name, ours in spent.items()},
        "overhead_percent": 100 * (statistics.median(a.wall / b.wall for a, b in pairs) - 1),
        "cpu_percent": 100 * (statistics.median(a.cpu / b.cpu for a, b in pairs) - 1),
    }


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    options = arguments(__doc__.splitlines()[0]).parse_args(given)
    begin(options)
    torch.set_num_threads(1)
    table, found = [HEAD], {}
    for task, num_envs in some(options, CASES, 1):
        figures = measured(task, num_envs, PLANS[options.effort])
        found[f"{task} {num_envs}"] = figures
        rates = [f"{figures[f'{side}_steps_per_s']:,.0f}" for side in ("bare", "gymnasium")]
        costs = [f"{figures[f'{kind}_percent']:.1f}" for kind in ("overhead", "cpu")]
        table.append([task, str(num_envs), *rates, *costs])
        print("  ".join(table[-1]), flush=True)
    report(options, table, found)


if __name__ == "__main__":
    main()

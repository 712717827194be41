"""A whole environment step (physics, observations, rewards, endings, resets) beside the peers' on the same models.

Sides: `livegym`; `mujoco.batch`, the bare physics at the same forward stage, with resets but nothing else; `envpool`
and `gymnasium`, each in the best of several modes, which a short probe finds. Steps are control steps of one
environment.

    python -m benchmarks.env_throughput --quick
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import Side, arguments, measure, ratios, refuse_busy_machine, report, summary

SECONDS = {True: 2.0, False: 8.0}  # of stepping, by --quick
ACTIONS = 64  # batches of random actions, drawn beforehand
ENVPOOL_MODES = ((128, 128), (64, 32), (32, 16), (16, 8), (8, 4))  # (environments, batch); equal: synchronous
GYMNASIUM_MODES = (("sync", 8), ("async", 2), ("async", 4), ("async", 8))
Rate = Callable[[str, float], float]


def rate(step: Callable[[int], None], size: int, seconds: float) -> float:
    """Environment steps per second of `step(k)`, which advances `size` environments; a fifth of the time warms up."""
    for limit in (seconds / 5, seconds):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < limit:
            step(count % ACTIONS)
            count += 1
        elapsed = time.perf_counter() - start
    return size * count / elapsed


def livegym(name: str, seconds: float) -> float:
    """Our Env."""
    import torch

    from benchmarks.tasks import make

    torch.set_num_threads(1)
    env = make(name)
    env.reset()
    rng = torch.Generator().manual_seed(0)
    actions = [2 * torch.rand(env.zero_action().shape, generator=rng) - 1 for _ in range(ACTIONS)]
    return rate(lambda k: env.step(actions[k]), env.num_envs, seconds)


def bare(name: str, seconds: float) -> float:
    """`mujoco.batch` with the same fields bound, the same stage and the same ends of episodes."""
    import torch

    from benchmarks.tasks import make

    env = make(name)
    env.reset()
    sim, task, n = env.sim, env.task, env.num_envs
    batch, stage = sim.batch, sim.world.stage
    ctrl, qpos, qvel = batch.bind("ctrl"), batch.bind("qpos"), batch.bind("qvel")
    rng = np.random.default_rng(0)
    low, high = batch.model.actuator_ctrlrange.T
    actions = [rng.uniform(low, high, (n, len(low))) for _ in range(ACTIONS)]
    length = np.zeros(n, dtype=int)

    def step(k: int) -> None:
        ctrl[:] = actions[k]
        batch.step(nstep=sim.decimation, stage=stage)
        length[:] += 1
        sim.qpos.copy_(torch.from_numpy(qpos))  # what the task's rule of ending reads
        held = [value.numpy() for value in task.terminate(sim).values()]
        ended = np.flatnonzero(np.any([*held, length >= env.max_length], axis=0))
        if len(ended):
            start = task.reset(torch.from_numpy(ended), env.rng)
            qpos[ended], qvel[ended] = start[0].numpy(), start[1].numpy()
            batch.forward(ended, stage=stage)
            length[ended] = 0

    return rate(step, n, seconds)


def envpool(name: str, seconds: float) -> float:
    """EnvPool in its best mode, on all cores."""
    import os

    import envpool as library

    from benchmarks.tasks import BENCHES

    def mode(num_envs: int, batch: int, limit: float) -> float:
        pool = library.make(
            BENCHES[name].peer, "gymnasium", num_envs=num_envs, batch_size=batch, num_threads=os.cpu_count()
        )
        low, high, size = pool.action_space.low, pool.action_space.high, pool.action_space.shape
        rng = np.random.default_rng(0)
        actions = [rng.uniform(low, high, (batch, *size)).astype(low.dtype) for _ in range(ACTIONS)]
        pool.async_reset()
        ids = pool.recv()[-1]["env_id"]

        def step(k: int) -> None:
            nonlocal ids
            pool.send(actions[k], ids)
            ids = pool.recv()[-1]["env_id"]

        found = rate(step, batch, limit)
        pool.close()
        return found

    best = max(ENVPOOL_MODES, key=lambda m: mode(*m, seconds / 10))
    return mode(*best, seconds)


def gymnasium(name: str, seconds: float) -> float:
    """Gymnasium's vector environments in their best mode."""
    import gymnasium as library

    from benchmarks.tasks import BENCHES

    def mode(kind: str, num_envs: int, limit: float) -> float:
        env = library.make_vec(BENCHES[name].peer, num_envs=num_envs, vectorization_mode=kind)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(ACTIONS)]
        env.reset(seed=0)
        found = rate(lambda k: env.step(actions[k]), num_envs, limit)
        env.close()
        return found

    best = max(GYMNASIUM_MODES, key=lambda m: mode(*m, seconds / 10))
    return mode(*best, seconds)


SIDES: dict[str, Rate] = {"livegym": livegym, "mujoco.batch": bare, "envpool": envpool, "gymnasium": gymnasium}


def main() -> None:
    """Prints the table; with --side, measures one side of one model and prints its JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--model", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps({"steps_per_s": SIDES[options.side](options.model, SECONDS[options.quick])}))
        return
    from benchmarks.tasks import BENCHES

    refuse_busy_machine(options.force)
    table, figures = [["model", "livegym steps/s", *(f"/ {peer}" for peer in list(SIDES)[1:])]], {}
    for model in BENCHES:
        extra = ["--model", model, *(["--quick"] if options.quick else [])]
        sides = {name: Side("benchmarks.env_throughput", extra) for name in SIDES}
        rounds = measure(sides, 2 if options.quick else options.rounds)
        figures[f"steps_per_s_{model}"] = summary(rounds, "steps_per_s")["livegym"].median
        row = [model, str(summary(rounds, "steps_per_s")["livegym"])]
        for peer in list(SIDES)[1:]:
            ratio = ratios(rounds, "steps_per_s", "livegym", peer)
            row.append(str(ratio))
            figures[f"ratio_{peer.replace('mujoco.', '')}_{model}"] = ratio.median
        table.append(row)
    report(options, table, figures)


if __name__ == "__main__":
    main()

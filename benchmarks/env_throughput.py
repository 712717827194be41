"""Throughput of complete environment steps (physics, observations, rewards, resets) against peers on the same models.

The sides are `livegym`; `mujoco.batch`, the bare physics at the same forward stage, with resets but nothing else;
`mjbatch`, which has no forward stage and runs in its own virtual environment, because it needs another MuJoCo;
`envpool` and `gymnasium`. Each side runs in the best of several modes (numbers of environments, batch sizes), which a
short probe finds. A step is a control step of one environment; the first 100 of each are not timed.

    python -m benchmarks.env_throughput --quick
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import (
    Side,
    arguments,
    begin,
    effort,
    environment,
    measure,
    present,
    ratios,
    report,
    rounds_of,
    some,
    summary,
)

ACTIONS = 64  # batches of random actions, drawn before the measurement
BATCHES = {  # environments
    "ant": (128, 512),
    "halfcheetah": (512, 2048, 8192),
    "humanoid": (128, 512),
    "pendulum": (512, 2048, 8192),
}


@dataclass(frozen=True)
class Plan:
    """The size of a measurement."""

    seconds: float  # of stepping
    warm_steps: int = 100  # per environment, not timed: a falling robot has no contacts, so its steps are cheap
    probe: float = 1.0  # s of timed stepping, to find the best mode
    modes: int | None = None  # number of modes that are probed; None: all


PLANS = {"full": Plan(4.0), "quick": Plan(2.0), "toy": Plan(0.05, warm_steps=2, probe=0.05, modes=1)}
ENVPOOL_MODES = (  # (environments, batch); equal: synchronous
    (512, 512),
    (128, 128),
    (64, 32),
    (32, 16),
    (16, 8),
    (8, 4),
)
GYMNASIUM_MODES = (("sync", 8), ("async", 2), ("async", 4), ("async", 8), ("async", 16))
EPISODE = 1000  # control steps
PHYSICS_ENDS = {  # (column of qpos, least, most, reset noise): an episode ends if the column leaves [least, most]
    "ant": (2, 0.2, 1.0, 0.1),
    "halfcheetah": (0, -np.inf, np.inf, 0.1),
    "humanoid": (2, 1.0, 2.0, 0.01),
    "pendulum": (1, -0.2, 0.2, 0.01),
}
Rate = Callable[..., float]  # (model, plan) -> steps/s


def rate(step: Callable[[int], None], size: int, num_envs: int, seconds: float, plan: Plan) -> float:
    """Environment steps/s of `step(k)`, which advances `size` of `num_envs` environments, after the warm-up."""
    for k in range(-(-plan.warm_steps * num_envs // size)):
        step(k % ACTIONS)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        step(count % ACTIONS)
        count += 1
    return size * count / (time.perf_counter() - start)


def env_rate(name: str, num_envs: int, seconds: float, plan: Plan) -> float:
    """Steps/s of our Env with `num_envs` environments and random actions."""
    import torch

    from benchmarks.tasks import make

    torch.set_num_threads(1)
    env = make(name, num_envs)
    env.reset()
    rng = torch.Generator().manual_seed(0)
    actions = [2 * torch.rand(env.zero_action().shape, generator=rng) - 1 for _ in range(ACTIONS)]
    found = rate(lambda k: env.step(actions[k]), num_envs, num_envs, seconds, plan)
    env.sim.close()
    return found


def best_batch(name: str, mode: Callable[[int, float], float], plan: Plan) -> float:
    """Result of `mode(num_envs, seconds)` for the number of environments that was fastest in a probe."""
    return mode(max(BATCHES[name][: plan.modes], key=lambda n: mode(n, plan.probe)), plan.seconds)


def livegym(name: str, plan: Plan) -> float:
    """Steps/s of our Env."""
    return best_batch(name, lambda num_envs, limit: env_rate(name, num_envs, limit, plan), plan)


def bare(name: str, plan: Plan) -> float:
    """Steps/s of `mujoco.batch` with the same bound fields, the same stage and the same terminations."""
    from benchmarks.tasks import make

    def mode(num_envs: int, limit: float) -> float:
        env = make(name, num_envs)
        stage, decimation = env.sim.world.stage, env.sim.decimation
        return bare_rate(name, env.sim.batch, num_envs, decimation, limit, plan, {"stage": stage})

    return best_batch(name, mode, plan)


def bare_rate(
    name: str, batch: Any, num_envs: int, nstep: int, limit: float, plan: Plan, stage: dict[str, int]
) -> float:
    """Steps/s of a physics batch with random controls, terminations and resets, and nothing else.

    `batch` is mujoco.batch's or mjbatch's Batch. Both have the methods used here, except for `stage`.
    """
    ctrl = batch.bind("ctrl")
    qpos = batch.bind("qpos")
    qvel = batch.bind("qvel")
    rng = np.random.default_rng(0)
    low, high = batch.model.actuator_ctrlrange.T
    actions = [rng.uniform(low, high, (num_envs, len(low))) for _ in range(ACTIONS)]
    length = np.zeros(num_envs, dtype=int)
    column, least, most, noise = PHYSICS_ENDS[name]
    start = batch.model.qpos0

    def begin(ids: np.ndarray) -> None:
        qpos[ids] = start + noise * rng.uniform(-1, 1, (len(ids), len(start)))
        qvel[ids] = noise * rng.standard_normal((len(ids), qvel.shape[1]))
        batch.forward(ids, **stage)
        length[ids] = 0

    def step(k: int) -> None:
        ctrl[:] = actions[k]
        batch.step(nstep=nstep, **stage)
        length[:] += 1
        watched = qpos[:, column]
        ended = np.flatnonzero((watched < least) | (watched > most) | (length >= EPISODE))
        if len(ended):
            begin(ended)

    begin(np.arange(num_envs))
    return rate(step, num_envs, num_envs, limit, plan)


def mjbatch(name: str, plan: Plan, xml: str, nstep: int) -> float:
    """Steps/s of mjbatch on the same model, `nstep` physics steps per control step; runs without livegym and torch."""
    import mujoco
    from mjbatch import Batch

    model = mujoco.MjModel.from_xml_path(xml)

    def mode(num_envs: int, limit: float) -> float:
        batch = Batch(model, num_envs)
        batch.model = model
        return bare_rate(name, batch, num_envs, nstep, limit, plan, {})

    return best_batch(name, mode, plan)


def envpool(name: str, plan: Plan) -> float:
    """Steps/s of EnvPool in its best mode, on all cores."""
    import os

    import envpool as library

    from benchmarks.tasks import BENCHES

    def mode(num_envs: int, batch: int, limit: float) -> float:
        pool = library.make(
            BENCHES[name].peer, "gymnasium", num_envs=num_envs, batch_size=batch, num_threads=os.cpu_count()
        )
        low = pool.action_space.low
        high = pool.action_space.high
        size = pool.action_space.shape
        rng = np.random.default_rng(0)
        actions = [rng.uniform(low, high, (batch, *size)).astype(low.dtype) for _ in range(ACTIONS)]
        pool.async_reset()
        ids = pool.recv()[-1]["env_id"]

        def step(k: int) -> None:
            nonlocal ids
            pool.send(actions[k], ids)
            ids = pool.recv()[-1]["env_id"]

        found = rate(step, batch, num_envs, limit, plan)
        pool.close()
        return found

    best = max(ENVPOOL_MODES[: plan.modes], key=lambda m: mode(*m, plan.probe))
    return mode(*best, plan.seconds)


def gymnasium(name: str, plan: Plan) -> float:
    """Steps/s of Gymnasium's vector environments in their best mode."""
    import gymnasium as library

    from benchmarks.tasks import BENCHES

    def mode(kind: str, num_envs: int, limit: float) -> float:
        env = library.make_vec(BENCHES[name].peer, num_envs=num_envs, vectorization_mode=kind)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(ACTIONS)]
        env.reset(seed=0)
        found = rate(lambda k: env.step(actions[k]), num_envs, num_envs, limit, plan)
        env.close()
        return found

    best = max(GYMNASIUM_MODES[: plan.modes], key=lambda m: mode(*m, plan.probe))
    return mode(*best, plan.seconds)


SIDES: dict[str, Rate] = {
    "livegym": livegym,
    "mujoco.batch": bare,
    "mjbatch": mjbatch,
    "envpool": envpool,
    "gymnasium": gymnasium,
}


def write_model(name: str, folder: Path) -> Path:
    """Writes the model of one benchmark as our Env runs it, with the sensors that Env adds."""
    from benchmarks.tasks import make

    env = make(name, 1)
    file = folder / f"{name}.xml"
    file.write_text(env.sim.model_xml())
    env.sim.close()
    return file


def _pythons(options: argparse.Namespace) -> dict[str, str]:
    """The Python interpreter of each side that can be measured."""
    python = dict.fromkeys(SIDES, sys.executable)
    if options.effort == "toy":
        print("mjbatch: skipped: a toy run does not make its virtual environment", flush=True)
        del python["mjbatch"]
    else:
        python["mjbatch"] = environment("mjbatch", ["mjbatch==0.1.4"])
    return python


def main() -> None:
    """Prints the table; with --side, measures one side of one model and prints its JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--model", choices=list(PHYSICS_ENDS), help="measure only this model")
    parser.add_argument("--xml", help=argparse.SUPPRESS)
    parser.add_argument("--nstep", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        physics = {"xml": options.xml, "nstep": options.nstep} if options.side == "mjbatch" else {}
        print(json.dumps({"steps_per_s": SIDES[options.side](options.model, PLANS[options.effort], **physics)}))
        return
    from benchmarks.tasks import BENCHES

    begin(options)
    python = _pythons(options)
    table, figures = [["model", "livegym steps/s", *(f"/ {peer}" for peer in list(SIDES)[1:])]], {}
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as folder:
        for model in [options.model] if options.model else some(options, list(PHYSICS_ENDS)):
            xml = str(write_model(model, Path(folder)))
            extra = ["--model", model, "--xml", xml, "--nstep", str(BENCHES[model].decimation)]
            extra += effort(options)
            sides = {
                s: Side("benchmarks.env_throughput", extra, {}, python[s], "envpool" if s == "envpool" else "")
                for s in python
            }
            rounds = measure(present(options, sides), rounds_of(options, quick=2), not options.force)
            figures[f"steps_per_s_{model}"] = summary(rounds, "steps_per_s")["livegym"].median
            row = [model, str(summary(rounds, "steps_per_s")["livegym"])]
            for peer in list(SIDES)[1:]:
                if peer not in rounds[0]:
                    row.append("skipped")
                    continue
                ratio = ratios(rounds, "steps_per_s", "livegym", peer)
                row.append(str(ratio))
                figures[f"ratio_{peer.replace('.', '_')}_{model}"] = ratio.median
            table.append(row)
    report(options, table, figures)


if __name__ == "__main__":
    main()

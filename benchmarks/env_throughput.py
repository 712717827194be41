"""A whole environment step beside the bare physics under it.

Both step the same model with the same random controls at the same forward stage. Ours also computes observations,
rewards, terminations and resets. What is left of the bare rate is what the layers above the physics cost.

    python -m benchmarks.env_throughput --quick
"""

from __future__ import annotations

import argparse
import json
import time

from benchmarks.harness import Side, arguments, measure, ratios, refuse_busy_machine, report, summary

SIZES = {"Ant": 128, "Cartpole": 512}  # environments, as in training
SECONDS = {True: 2.0, False: 8.0}  # of stepping, by --quick


def livegym(task: str, num_envs: int, seconds: float) -> float:
    """Environment steps per second of a whole step."""
    import torch

    from cfg.compose import compose
    from cfg.typed import to_typed
    from tasks.build import make_env

    torch.set_num_threads(1)
    c = to_typed(compose([f"task={task}"]))
    env = make_env(c.task, c.sim, c.physics, num_envs, 0)
    env.reset()
    rng = torch.Generator().manual_seed(0)
    return rate(lambda: env.step(2 * torch.rand(env.zero_action().shape, generator=rng) - 1), num_envs, seconds)


def bare(task: str, num_envs: int, seconds: float) -> float:
    """Environment steps per second of `mujoco.batch` alone, reset whenever the task's own rule would."""
    import numpy as np
    import torch

    from cfg.compose import compose
    from cfg.typed import to_typed
    from tasks.build import make_env

    c = to_typed(compose([f"task={task}"]))
    env = make_env(c.task, c.sim, c.physics, num_envs, 0)
    env.reset()
    sim, task_object, ids = env.sim, env.task, torch.arange(num_envs)
    ctrl = np.zeros((num_envs, sim.ctrl.shape[1]), dtype=np.float32)
    rng = np.random.default_rng(0)
    batch, stage = sim.batch, sim.world.stage

    def step() -> None:
        ctrl[:] = rng.uniform(-1, 1, ctrl.shape)
        batch.bind("ctrl")[:] = ctrl * getattr(task_object.params, "max_push", 1.0)
        batch.step(nstep=sim.decimation, stage=stage)
        sim.qpos.copy_(torch.from_numpy(batch.bind("qpos")))
        sim.qvel.copy_(torch.from_numpy(batch.bind("qvel")))
        ended = torch.stack(list(task_object.terminate(sim).values())).any(0)
        if ended.any():
            picked = ids[ended]
            sim.reset(picked, *task_object.reset(picked, env.rng))

    return rate(step, num_envs, seconds)


def rate(step, num_envs: int, seconds: float) -> float:
    """Environment steps per second of `step`, after a warm-up of a fifth of the time."""
    for limit in (seconds / 5, seconds):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < limit:
            step()
            count += 1
        elapsed = time.perf_counter() - start
    return num_envs * count / elapsed


def main() -> None:
    """Prints the table."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--task", choices=SIZES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run = {"livegym": livegym, "mujoco.batch": bare}[options.side]
        print(json.dumps({"steps_per_s": run(options.task, SIZES[options.task], SECONDS[options.quick])}))
        return
    refuse_busy_machine(options.force)
    table, figures = [["task", "livegym steps/s", "mujoco.batch steps/s", "ratio"]], {}
    for task in SIZES:
        extra = ["--task", task, *(["--quick"] if options.quick else [])]
        sides = {name: Side("benchmarks.env_throughput", extra) for name in ("livegym", "mujoco.batch")}
        rounds = measure(sides, 2 if options.quick else options.rounds)
        steps, ratio = summary(rounds, "steps_per_s"), ratios(rounds, "steps_per_s", "livegym", "mujoco.batch")
        table.append([task, str(steps["livegym"]), str(steps["mujoco.batch"]), str(ratio)])
        figures[f"ratio_batch_{task.lower()}"] = ratio.median
        figures[f"steps_per_s_{task.lower()}"] = steps["livegym"].median
    report(options, table, figures)


if __name__ == "__main__":
    main()

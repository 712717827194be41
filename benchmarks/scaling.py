"""Speed and memory over the number of environments, the time of a start, and the cost of curves and display.

For Ant, it measures environment steps/s, PPO frames/s (horizon 16, minibatches of at most 2,048) and resident memory
for numEnvs from 1 to 16,384. For Cartpole, it measures the seconds from the command to the first finished iteration,
and the share of an iteration that TensorBoard, the progress display and checkpoints take. There is no peer: these are
curves, not comparisons.

    python -m benchmarks.scaling --quick
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.env_throughput import PLANS, Plan, env_rate
from benchmarks.harness import Side, arguments, begin, effort, measure, report, rounds_of, some, summary
from benchmarks.trainings import OURS, POLL, TOY_POLL, Training

ENVS = (1, 4, 16, 64, 256, 1024, 4096, 16384)
HORIZON, MINIBATCH = 16, 2048
SECONDS = {"full": 10.0, "quick": 3.0, "toy": 0.2}
STARTS = {"full": 5, "quick": 5, "toy": 1}


def peak_mb() -> float:
    """The peak resident memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def env_steps(num_envs: int, seconds: float, plan: Plan) -> dict[str, float]:
    """Environment steps/s of Ant, and peak memory."""
    return {"per_s": env_rate("ant", num_envs, seconds, plan), "memory_mb": peak_mb()}


def ppo_frames(num_envs: int, seconds: float, threads: int = 1) -> dict[str, float]:
    """Frames/s of PPO on Ant, without curves and checkpoints, and peak memory.

    `threads`: threads per tensor operation in an update.
    """
    import torch

    from benchmarks.tasks import make
    from livegym.rl.algorithm import algorithm_of
    from livegym.rl.algorithms.ppo.settings import NetworkConfig, PPOConfig
    from livegym.rl.learner import Iteration
    from livegym.utils.signals import StopFlag

    torch.set_num_threads(1)
    minibatches = max(1, num_envs * HORIZON // MINIBATCH)
    network = NetworkConfig(units=[256, 128, 64])
    config = PPOConfig(
        network=network, horizon_length=HORIZON, num_minibatches=minibatches, mini_epochs=4, torch_threads=threads
    )
    iterations: list[Iteration] = []
    learner = algorithm_of(config).learner(make("ant", num_envs), config, 10**6, "cpu", StopFlag())

    def on_iteration(iteration: Iteration) -> None:
        iterations.append(iteration)
        if len(iterations) > 2 and sum(i.seconds for i in iterations[1:]) > seconds:
            learner.max_iterations = learner.epoch  # ends training after this iteration

    learner.train(on_iteration)
    return {
        "per_s": sum(i.frames for i in iterations[1:]) / sum(i.seconds for i in iterations[1:]),
        "memory_mb": peak_mb(),
    }


def start_up(poll: float) -> dict[str, float]:
    """Seconds from the command to the first point of the curves."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        training = Training([*OURS, "task=Cartpole", "maxIterations=1"], Path(name), "info/epochs", poll=poll)
        begun = time.time()
        curve = training.run(lambda c: False, 60.0)
        return {"first_iteration_s": curve.wall[0] - begun}


def shares(seconds: float) -> dict[str, float]:
    """The shares of a Cartpole training run that curves, display and checkpoints take, with the default settings.

    Its stderr is a terminal, so that the display is drawn; another process reads it.
    """
    from livegym.cfg.compose import compose
    from livegym.cfg.typed import to_typed
    from livegym.rl import training
    from livegym.rl.progress import Progress
    from livegym.rl.saver import Saver
    from livegym.rundir.provenance import Provenance
    from livegym.utils.signals import StopFlag

    screen, terminal = pty.openpty()
    drain = subprocess.Popen(["cat"], stdin=screen, stdout=subprocess.DEVNULL)
    os.dup2(terminal, 2)
    os.environ["TERM"] = "xterm-256color"
    spent: dict[str, float] = {}

    def timed(name: str, function: Callable) -> Callable:
        def wrapped(*args: object) -> object:
            start = time.perf_counter()
            try:
                return function(*args)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - start

        return wrapped

    training.write_curves = timed("tensorboard", training.write_curves)
    Progress.update = timed("progress", Progress.update)  # type: ignore[method-assign]
    Saver.after_iteration = timed("checkpoints", Saver.after_iteration)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name, StopFlag() as stop:
        iterations = max(20, int(15 * seconds))
        given = ["config=train_headless", "task=Cartpole", "seed=1", "numEnvs=512", f"maxIterations={iterations}"]
        config = to_typed(compose([*given, f"runsDir={name}", "saveInterval=5"]))
        start = time.perf_counter()
        training.run_training(config, Provenance("", "", [], []), stop, None)
        whole = time.perf_counter() - start
    drain.terminate()
    drain.wait()
    return {f"{name}_share": value / whole for name, value in spent.items()}


def _measured(options: argparse.Namespace) -> dict[str, float]:
    seconds = SECONDS[options.effort]
    if options.side == "start_up":
        return start_up(TOY_POLL if options.effort == "toy" else POLL)
    if options.side == "shares":
        return shares(seconds)
    if options.side == "env":
        return env_steps(options.envs, seconds, PLANS[options.effort])
    return ppo_frames(options.envs, seconds)


def main() -> None:
    """Prints the table; with --side, measures one point and prints its JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(_measured(options)))
        return
    begin(options)
    given, count = effort(options), rounds_of(options)
    table, figures = [["numEnvs", "env steps/s", "MB", "PPO frames/s", "MB"]], {}
    for n in some(options, ENVS):
        sides = {side: Side("benchmarks.scaling", ["--envs", str(n), *given]) for side in ("env", "ppo")}
        rounds = measure(sides, count, not options.force)
        speed, memory = summary(rounds, "per_s"), summary(rounds, "memory_mb")
        row = [str(n)]
        for side in sides:
            row += [str(speed[side]), f"{memory[side].median:,.0f}"]
            figures[f"{side}_per_s_{n}"], figures[f"{side}_mb_{n}"] = speed[side].median, memory[side].median
        table.append(row)
    found = measure({"start_up": Side("benchmarks.scaling", given)}, STARTS[options.effort], not options.force)
    first = summary(found, "first_iteration_s")["start_up"]
    table.append(["command to first iteration, s", str(first), "", "", ""])
    figures["first_iteration_s"] = first.median
    for key, value in measure({"shares": Side("benchmarks.scaling", given)}, 1, not options.force)[0]["shares"].items():
        table.append([key.replace("_share", "") + ", share of training", f"{100 * value:.2f} %", "", "", ""])
        figures[key] = value
    report(options, table, figures)


if __name__ == "__main__":
    main()

"""How well continuous training learns through the socket, and what an idle hour does to it, beside other learners.

An external process plays one Gymnasium environment as one stream; the server learns from it. Every `mark` steps, the
newest checkpoint is evaluated: the mean return of 100 episodes with the most likely actions. The peers are DQN and PPO
of Stable-Baselines3, with the settings of rl-zoo, evaluated in the same way after the same numbers of steps. The column
"while it acted" has the mean return of the stream's own episodes after the first third of the steps: the actions of the
versions that were live, as they were drawn.

- `livegym`: rewards with the next observation; `late`: rewards come 1 to 20 steps later, in random order;
- `--rate 150`: at most so many steps per second. A stream that is faster gets fewer update rounds for each step;
- `--more 30`: after the last step, the stream continues for 30 minutes, with an evaluation every minute;
- `--idle 60`: after that, no observation comes for 60 minutes, and the policy is evaluated once more.

    python -m benchmarks.online_learning --quick
    python -m benchmarks.online_learning --environment Pendulum-v1 --sides livegym ppo
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Side, arguments, begin, effort, report, run_side
from benchmarks.online import interval

PROJECT = ROOT / "benchmarks" / "gym_project"
TASKS = {"CartPole-v1": "CartPoleV1", "Pendulum-v1": "PendulumV1"}
STEPS = {"full": 150_000, "quick": 30_000, "toy": 400}
SEEDS = {"full": 5, "quick": 2, "toy": 1}
EPISODES = {"full": 100, "quick": 100, "toy": 2}
MARKS = 15  # evaluations in a run
LATE = 20  # steps; a `late` reward is sent after 1 to so many
SIDES = ("livegym", "late", "dqn", "ppo")
Point = tuple[float, float]  # steps or minutes, mean return
ZOO: dict[str, dict[str, dict[str, Any]]] = {
    "CartPole-v1": {
        "dqn": {
            "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
            "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]},
        },
        "ppo": {"n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
                "ent_coef": 0.0, "learning_rate": 1e-3, "clip_range": 0.2, "linear": True},
    },
    "Pendulum-v1": {
        "ppo": {"n_envs": 4, "n_steps": 1024, "gae_lambda": 0.95, "gamma": 0.9, "n_epochs": 10, "ent_coef": 0.0,
                "learning_rate": 1e-3, "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4},
    },
}  # fmt: skip
"""rl-zoo's settings (rl-baselines3-zoo, hyperparams/*.yml); `linear`: learning rate and clip range fall to 0."""


def evaluate(environment: str, choose: Callable[[np.ndarray], np.ndarray], episodes: int) -> float:
    """Mean return of so many episodes; `choose`: observations (n, width) -> actions in the environment's units."""
    import gymnasium

    vector = gymnasium.make_vec(environment, episodes, vectorization_mode="sync")
    obs, _ = vector.reset(seed=10_000)
    total, playing = np.zeros(episodes), np.ones(episodes, bool)
    while playing.any():
        obs, reward, failed, late, _ = vector.step(choose(obs))
        total += reward * playing
        playing &= ~(failed | late)
    vector.close()
    return float(total.mean())


class Served:
    """A continuous run in a process of its own, and the stream that it learns from."""

    def __init__(self, environment: str, seed: int, folder: Path, given: list[str]) -> None:
        import gymnasium

        from livegym_client import Client

        self.environment, self.folder, self.seed = environment, folder, seed
        words = ["config=continuous", f"projectDir={PROJECT}", f"task={TASKS[environment]}", "simulator=external"]
        words += ["streamPort=0", f"runsDir={folder}", f"seed={seed}", "online.training_interval=0", *given]
        self.log = (folder / "served.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *words], cwd=folder, stdout=self.log, stderr=subprocess.STDOUT
        )
        self.client = Client(self._url())
        made = gymnasium.make(environment)
        self.box = isinstance(made.action_space, gymnasium.spaces.Box)
        scaled = gymnasium.wrappers.RescaleAction(made, -1.0, 1.0) if self.box else made
        self.env = gymnasium.wrappers.RecordEpisodeStatistics(scaled, buffer_length=10**6)
        self.high = made.action_space.high if self.box else None

    def _url(self) -> str:
        while self.process.poll() is None:
            for line in (self.folder / "served.txt").read_text().splitlines():
                if "dashboard at" in line:
                    return line.split()[-1]
            time.sleep(0.1)
        raise RuntimeError((self.folder / "served.txt").read_text()[-3000:])

    @contextlib.contextmanager
    def stream(self, late: bool, rate: float) -> Iterator[Iterator[int]]:
        """Yields an iterator that makes one step after another and yields their count; `rate`: most per second."""
        yield _paced(self._late_steps() if late else self._steps(), rate)

    def _steps(self) -> Iterator[int]:
        from livegym_client import Runner

        runner = Runner(self.env, self.client, "stream", seed=self.seed)
        count = 0
        while True:
            runner.run(1)
            count += 1
            yield count

    def _late_steps(self) -> Iterator[int]:
        rng = np.random.default_rng(self.seed)
        owed: list[tuple[int, Any, float]] = []  # step at which it is sent, decision, reward
        obs, _ = self.env.reset(seed=self.seed)
        count = 0
        while True:
            decision = self.client.decide("stream", obs)
            action = np.asarray(decision.action, np.float32) if self.box else int(decision.action[0])
            obs, reward, failed, over, _ = self.env.step(action)
            count += 1
            owed.append((count + int(rng.integers(1, LATE + 1)), decision, float(reward)))
            due = [entry for entry in owed if entry[0] <= count]
            owed = [entry for entry in owed if entry[0] > count]
            rng.shuffle(due)  # type: ignore[arg-type]
            for _, earlier, value in due:
                self.client.reward(earlier, value)
            if failed or over:
                self.client.decide("stream", obs, None, failed, over)
                obs, _ = self.env.reset()
            yield count

    def returns(self) -> list[float]:
        """Returns of the stream's own episodes since the last call."""
        found = [float(value) for value in self.env.return_queue]
        self.env.return_queue.clear()
        return found

    def score(self, episodes: int) -> float:
        """Mean return of the newest checkpoint's most likely actions."""
        import torch

        from livegym.cfg.compose import compose
        from livegym.cfg.typed import to_typed
        from livegym.projects import registry
        from livegym.rl.policy import Policy
        from livegym.rl.spec import PolicySpec
        from livegym.rundir.checkpoint import newest_usable
        from livegym.rundir.run import open_run

        registry.use(str(PROJECT))
        usable = newest_usable(open_run(next(self.folder.glob("*_continuous_*"))))
        assert usable is not None
        train = to_typed(compose([f"task={TASKS[self.environment]}", "config=continuous"])).train
        policy = Policy(PolicySpec.from_dict(usable.state["spec"]), train, episodes, "cpu")
        policy.copy(usable.state["model"])

        def choose(obs: np.ndarray) -> np.ndarray:
            action = policy(torch.from_numpy(np.asarray(obs, np.float32))).mode().numpy()
            return action.clip(-1.0, 1.0) * self.high if self.box else action

        return evaluate(self.environment, choose, episodes)

    def close(self) -> None:
        """End the stream and the server."""
        self.client.close()
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.log.close()


def _paced(steps: Iterator[int], rate: float) -> Iterator[int]:
    due = time.monotonic()
    for count in steps:
        yield count
        due = max(due + 1 / rate, time.monotonic() - 1.0)  # after a long evaluation it does not hurry
        time.sleep(max(0.0, due - time.monotonic()))


def livegym(options: argparse.Namespace, late: bool) -> dict[str, Any]:
    """One seed through the socket: returns at the marks, after the idle minutes, and while the stream continues."""
    steps, episodes = options.steps, EPISODES[options.effort]
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        served = Served(options.environment, options.seed, Path(name), options.keys)
        try:
            curve: list[Point] = []
            acted: list[list[float]] = []  # returns of the stream's own episodes, from mark to mark
            began = time.monotonic()
            with served.stream(late, options.rate) as stream:
                for count in stream:
                    if count % (steps // MARKS) == 0:
                        curve.append((count, served.score(episodes)))
                        acted.append(served.returns())
                        said = f"{curve[-1]}, while it acted {_mean(acted[-1]):.1f}"
                        print(f"{options.side} {options.seed}: {said}", file=sys.stderr, flush=True)
                    if count >= steps:
                        break
                seconds = time.monotonic() - began
                more = list(_continued(served, stream, options, episodes))
                acted.append(served.returns())
            idle = None
            if options.idle:
                time.sleep(60 * options.idle)
                idle = served.score(episodes)
            return {"curve": curve, "acted": acted, "more": more, "idle": idle, "steps_per_s": steps / seconds}
        finally:
            served.close()


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else float("nan")


def _continued(served: Served, stream: Iterator[int], options: argparse.Namespace, episodes: int) -> Iterator[Point]:
    begin_s, next_s = time.monotonic(), 60.0
    while (now := time.monotonic() - begin_s) < 60 * options.more:
        next(stream)
        if now >= next_s:
            next_s += 60.0
            point = (now / 60, served.score(episodes))
            print(f"{options.side} {options.seed}: minute {point[0]:.1f}: {point[1]:.1f}", file=sys.stderr, flush=True)
            yield point


def peer(options: argparse.Namespace) -> dict[str, Any]:
    """One seed of Stable-Baselines3."""
    import stable_baselines3
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)
    steps, episodes = options.steps, EPISODES[options.effort]
    given = dict(ZOO[options.environment][options.side])
    if given.pop("linear", False):
        for key in ("learning_rate", "clip_range"):
            given[key] = _falling(given[key])
    curve: list[Point] = []

    class Mark(BaseCallback):
        """Evaluates the policy at the marks."""

        def _on_step(self) -> bool:
            if self.num_timesteps >= (len(curve) + 1) * (steps // MARKS):
                found = evaluate(
                    options.environment, lambda obs: self.model.predict(obs, deterministic=True)[0], episodes
                )
                curve.append((self.num_timesteps, found))
            return True

    vector = make_vec_env(options.environment, given.pop("n_envs", 1), seed=options.seed)
    kind = {"dqn": stable_baselines3.DQN, "ppo": stable_baselines3.PPO}[options.side]
    began = time.monotonic()
    kind("MlpPolicy", vector, seed=options.seed, device="cpu", **given).learn(steps, callback=Mark())
    return {"curve": curve, "steps_per_s": steps / (time.monotonic() - began)}


def _falling(initial: float) -> Callable[[float], float]:
    return lambda left: left * initial


def main() -> None:
    """Prints the table; with --side, one seed of one side as JSON."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--environment", choices=TASKS, default="CartPole-v1")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--seeds", type=int, default=0, help="number of seeds; default 5, quick 2")
    parser.add_argument("--steps", type=int, default=0, help="default 150,000, quick 30,000")
    parser.add_argument("--rate", type=float, default=math.inf, help="steps per second at most; default: no limit")
    parser.add_argument("--idle", type=float, default=0.0, help="minutes without an observation, at the end")
    parser.add_argument("--more", type=float, default=0.0, help="minutes for which the stream continues")
    parser.add_argument("--keys", nargs="*", default=[], help="more keys for train.py")
    parser.add_argument("--plot", type=Path, help="draw the curves to this file")
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.steps = options.steps or STEPS[options.effort]
    options.seeds = options.seeds or SEEDS[options.effort]
    if options.side:
        measure = {"livegym": lambda: livegym(options, False), "late": lambda: livegym(options, True)}
        print(json.dumps(measure.get(options.side, lambda: peer(options))()))
        return
    begin(options)
    found = {side: _seeds(options, side) for side in options.sides if _possible(options, side)}
    report(options, _table(found), {"steps": options.steps, **found})
    if options.plot:
        _plot(options, found)


def _possible(options: argparse.Namespace, side: str) -> bool:
    from importlib.util import find_spec

    if side in ("livegym", "late"):
        return True
    if side not in ZOO[options.environment]:
        print(f"{side}: skipped: it has no settings for {options.environment}", flush=True)
        return False
    if options.effort == "toy" and find_spec("stable_baselines3") is None:
        print(f"{side}: skipped: stable_baselines3 is not installed", flush=True)
        return False
    return True


def _seeds(options: argparse.Namespace, side: str) -> list[dict[str, Any]]:
    given = [f"--environment={options.environment}", f"--steps={options.steps}", *effort(options)]
    given += [f"--idle={options.idle}", f"--more={options.more}", f"--rate={options.rate}"]
    if options.keys:
        given += ["--keys", *options.keys]
    return [run_side(side, Side("benchmarks.online_learning", [*given, f"--seed={n}"])) for n in range(options.seeds)]


def _table(found: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    head = ["side", "a third of the steps", "two thirds", "all", "while it acted", "least while it continued"]
    table = [[*head, "after the idle time"]]
    for side, seeds in found.items():
        row = [side]
        for part in (1, 2, 3):
            values = [seed["curve"][part * len(seed["curve"]) // 3 - 1][1] for seed in seeds]
            mean, half = interval(values)
            row.append(f"{mean:.1f} ± {half:.1f}, least {min(values):.1f}")
        later = [[value for part in seed["acted"][MARKS // 3 :] for value in part] for seed in seeds if "acted" in seed]
        acted = [_mean(values) for values in later]
        row.append("{:.1f} ± {:.1f}".format(*interval(acted)) if acted else "")
        more = [value for seed in seeds for _, value in seed.get("more", [])]
        idle = [seed["idle"] for seed in seeds if seed.get("idle") is not None]
        row.append(f"{min(more):.1f}" if more else "")
        row.append(f"{statistics.fmean(idle):.1f}, least {min(idle):.1f}" if idle else "")
        table.append(row)
    return table


def _plot(options: argparse.Namespace, found: dict[str, list[dict[str, Any]]]) -> None:
    import matplotlib.pyplot as plt

    labels = {
        "livegym": "continuous training, through the socket",
        "late": f"the same, rewards 1 to {LATE} steps late",
        "dqn": "Stable-Baselines3 DQN",
        "ppo": "Stable-Baselines3 PPO",
    }
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for side, seeds in found.items():
        length = min(len(seed["curve"]) for seed in seeds)
        steps = np.array([point[0] for point in seeds[0]["curve"][:length]])
        values = np.array([[point[1] for point in seed["curve"][:length]] for seed in seeds])
        (line,) = axes.plot(steps, values.mean(0), label=labels[side])
        axes.fill_between(steps, values.min(0), values.max(0), color=line.get_color(), alpha=0.2, linewidth=0)
    axes.set(xlabel="steps", ylabel=f"mean return of {EPISODES[options.effort]} episodes", title=options.environment)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    axes.grid(alpha=0.3)
    figure.savefig(options.plot, dpi=150)


if __name__ == "__main__":
    main()

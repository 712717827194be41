"""A day of Territory in minutes whose reward rule changes at noon: does the policy follow, is what is refused worse?

Sixteen territories are played by the built-in simulator at 60 times their speed, so a day has 5,760 observations of
each. From noon on, energy earns nothing, and disrupted workers earn five times as much
(`benchmarks/territory_project`). The learner makes one version per observation, of as many gradient steps as in real
time, and its learning rate falls as in real time. The gate is off: its expectation would be that of the old rule.

Every version is kept. After the day, refused versions and versions that went live are played against the version that
acted at that time, on the same maps with the same random numbers, under the rule of that time.

- `reward`: mean reward of a decision in each quarter of the day.
- `followed`: observations after noon until the mean over 100 of them reaches 90 % of the last quarter's.
- `truly worse`: versions whose mean reward, played, is below that of the version that acted.

    python -m benchmarks.online_day --quick
    python -m benchmarks.online_day --plot day.png
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.harness import ROOT, arguments, begin, free_port, report
from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.online.run_log import read_log
from livegym.projects import registry
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.tasks.build import make_env

PROJECT = ROOT / "benchmarks" / "territory_project"
STREAMS = 16
DAY = 5760  # observations of a stream, one each 15 s
ROUNDS = 15  # gradient steps between two observations, one each second
WINDOW = 100  # observations over which the reward is averaged
MAPS = 128  # on which a version is played
COUNTS = ("judged", "not_judged", "refused", "rolled_back", "started_over", "alarm")


@dataclass(frozen=True)
class Plan:
    """The size of a day."""

    day: int  # observations
    speed: float  # times the real time
    steps: int  # played to compare two versions
    compared: int  # versions of each kind


PLANS = {"full": Plan(DAY, 60.0, 100, 40), "quick": Plan(1200, 60.0, 50, 20), "toy": Plan(240, 120.0, 2, 2)}


class Judged(NamedTuple):
    """A version that was refused or went live."""

    version: int
    acting: int  # version that acted before
    turn: int  # observations of each stream until then


class Day:
    """One continuous run, and what was seen of it."""

    def __init__(self, folder: Path, plan: Plan, seed: int) -> None:
        self.plan, self.folder, self.port = plan, folder, free_port()
        self.interval = 15.0 / plan.speed
        words = ["config=continuous", f"projectDir={PROJECT}", "task=NoonTerritory", "gate=off", f"seed={seed}"]
        words += [f"numEnvs={STREAMS}", f"playSpeed={plan.speed:g}", f"streamPort={self.port}", f"runsDir={folder}"]
        words += [f"task.params.noon={plan.day // 2}", f"online.training_interval={self.interval:g}", "keepLast=null"]
        words += [f"online.updates={ROUNDS}", f"online.lr_decay={0.99**ROUNDS:.4f}", "online.checkpoint_versions=1"]
        self.log = (folder / "day.txt").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *words], cwd=folder, stdout=self.log, stderr=subprocess.STDOUT
        )
        self.refused: list[Judged] = []
        self.counts: dict[str, Any] = {}

    def wait(self) -> None:
        """Wait until the run answers. Raises RuntimeError with its output if it ends before."""
        while True:
            try:
                self._status()
            except OSError:
                time.sleep(0.2)
            else:
                return

    def _status(self) -> dict[str, Any]:
        if self.process.poll() is not None:
            raise RuntimeError((self.folder / "day.txt").read_text()[-3000:])
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats", timeout=20) as answer:
            return json.load(answer)

    def watch(self) -> None:
        """Note every version that is refused, until the day is over."""
        turn, shown = 0, 0
        while turn < self.plan.day:
            found = self._status()
            turn, champion = found["decisions"]["total"] // STREAMS, found["champion"]
            last = self.refused[-1].version if self.refused else None
            if champion["state"] == "refused" and champion["version"] != last:
                self.refused.append(Judged(champion["version"], found["serving"]["version"], turn))
            self.counts = {name: champion[name] for name in COUNTS}
            if turn >= shown:
                shown += self.plan.day // 20
                print(f"{turn}: reward {found['rewards']['mean']}, {self.counts}", file=sys.stderr, flush=True)
            time.sleep(self.interval / 3)

    def end(self) -> None:
        """Stop the run."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.log.close()

    @property
    def run_folder(self) -> Path:
        """The run's directory."""
        return next(self.folder.glob("*_continuous_*"))

    def decisions(self) -> tuple[np.ndarray, list[Judged]]:
        """(turns,) the mean reward of each observation's decisions; and the versions that went live."""
        data = read_log(self.run_folder)
        turns = len(data) // STREAMS
        version = data.version[: turns * STREAMS : STREAMS]
        changed = np.flatnonzero(np.diff(version)) + 1
        live = [Judged(int(version[turn]), int(version[turn - 1]), int(turn)) for turn in changed]
        return np.nanmean(data.reward[: turns * STREAMS].reshape(turns, STREAMS), 1), live


class Arena:
    """Plays versions of a run under either rule."""

    def __init__(self, run: Path, plan: Plan) -> None:
        registry.use(str(PROJECT))
        self.run, self.plan = run, plan
        self.files = {int(file.stem.split("_v")[1].split("_")[0]): file for file in (run / "nn").glob("*_v*.pth")}

    def reward(self, version: int, afternoon: bool) -> np.ndarray | None:
        """(MAPS,) mean reward of a decision of this version on each map; None if its checkpoint is missing."""
        if version not in self.files:
            return None
        noon = 0 if afternoon else 10**9
        config = to_typed(compose(["config=continuous", "task=NoonTerritory", f"task.params.noon={noon}"]))
        env = make_env(config.task, config.sim, config.physics, MAPS, 1)
        policy = Policy(spec_of(env), config.train, MAPS, "cpu")
        policy.copy(torch.load(self.files[version], map_location="cpu", weights_only=True)["model"])
        rng = torch.Generator().manual_seed(2)
        obs, total = env.reset(), torch.zeros(MAPS)
        for _ in range(self.plan.steps):
            step = env.step(policy(obs["policy"]).sample(rng))
            obs = step.obs
            total += step.reward
        return (total / self.plan.steps).numpy()

    def differences(self, judged: Sequence[Judged]) -> list[tuple[float, float]]:
        """Mean and 95 % half width of each version's reward minus that of the version that acted before it."""
        found = []
        for index in np.unique(np.linspace(0, len(judged) - 1, self.plan.compared).round().astype(int)):
            each = judged[index] if len(judged) else None
            if each is None:
                break
            afternoon = each.turn > self.plan.day // 2
            new, old = self.reward(each.version, afternoon), self.reward(each.acting, afternoon)
            if new is not None and old is not None:
                gain = new - old
                found.append((float(gain.mean()), 1.98 * float(gain.std(ddof=1)) / MAPS**0.5))
        return found


def measured(plan: Plan, seed: int) -> dict[str, Any]:
    """Live through one day, and play its versions."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        day = Day(Path(name), plan, seed)
        try:
            day.wait()
            day.watch()
        finally:
            day.end()
        rewards, live = day.decisions()
        arena = Arena(day.run_folder, plan)
        noon = plan.day // 2
        parts = {"refused, morning": [r for r in day.refused if r.turn <= noon]}
        parts |= {"refused, afternoon": [r for r in day.refused if r.turn > noon], "went live": live}
        gains = {part: arena.differences(judged) for part, judged in parts.items()}
        seen = {part: len(judged) for part, judged in parts.items()}
    return {"rewards": rewards.tolist(), "counts": day.counts, "gains": gains, "seen": seen}


def followed(rewards: np.ndarray, noon: int) -> int | None:
    """Observations after noon until the mean over WINDOW of them reaches 90 % of the last quarter's; None: never."""
    last = rewards[3 * len(rewards) // 4 :].mean()
    after = rewards[noon:]
    window = min(WINDOW, len(after))
    means = np.convolve(after, np.ones(window) / window, "valid")
    reached = np.flatnonzero(means >= 0.9 * last)
    return int(reached[0]) + window if len(reached) else None


def _table(found: dict[str, Any], plan: Plan) -> list[list[str]]:
    rewards = np.array(found["rewards"])
    quarters = [part.mean() for part in np.array_split(rewards, 4)]
    after = followed(rewards, plan.day // 2)
    table = [["what", "figures"], ["reward in each quarter", ", ".join(f"{mean:.3f}" for mean in quarters)]]
    table.append(["followed after", "never" if after is None else f"{after} observations of a stream"])
    table.append(["champion", ", ".join(f"{name} {value}" for name, value in found["counts"].items())])
    for part, gains in found["gains"].items():
        worse = sum(gain < 0 for gain, _ in gains)
        sure = sum(gain + half < 0 for gain, half in gains)
        mean = np.mean([gain for gain, _ in gains]) if gains else float("nan")
        text = f"{found['seen'][part]} seen, {len(gains)} played: {worse} truly worse ({sure} beyond chance), "
        table.append([part, text + f"mean gain {mean:+.3f}"])
    return table


def _plot(rewards: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt

    hours = np.arange(len(rewards)) * 24 / len(rewards)
    smooth = np.convolve(rewards, np.ones(WINDOW) / WINDOW, "valid")
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.plot(hours[WINDOW - 1 :], smooth)
    axes.axvline(12, color="0.5", linestyle="--")
    axes.set(xlabel="hour of the day; the rule changes at noon", ylabel=f"reward, mean of {WINDOW} observations")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", type=Path, help="draw the reward over the day to this file")
    options = parser.parse_args(given)
    begin(options)
    plan = PLANS[options.effort]
    found = measured(plan, options.seed)
    report(options, _table(found, plan), found)
    if options.plot:
        _plot(np.array(found["rewards"]), options.plot)


if __name__ == "__main__":
    main()

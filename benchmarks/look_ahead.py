"""The look-ahead gate on Ant and on the hand: failures and reward with and without it, and its cost.

Each policy plays without the gate (`ungated`), with it (`gated`), with it and its trigger (`triggered`), and with a
learned backup instead of zero (`learned`), from the same start states and with the same draws of actions. `random`
draws uniformly; `trained` samples from a checkpoint, as continuous training does: docs/policies/BlindGrasping.pth, and
for Ant the file given with --ant (without one, what needs it is skipped). The same checkpoint is the learned backup.

- `failed`: episodes that end in a failure, of all that end; each environment plays equally many.
- `per 1,000`: failures in 1,000 control steps of an environment.
- `return` of an episode and `reward` of a control step: means.
- `blocked`: fraction of actions with the verdict WAIT.
- `cost`: time of the gate's judgement per control step that it simulates / time of a control step of as many
  environments.
- `share`: time of the gate, with packing the states / time of a control step.

    python -m benchmarks.look_ahead --quick
    python -m benchmarks.look_ahead --ant runs/Ant_train_<date>_<time>/nn/best.pth
    python -m benchmarks.look_ahead --quick --only BlindGrasping --policy trained --gate learned --horizon 50
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import ROOT, arguments, begin, report, some
from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.online.backup_policy import BackupPolicy
from livegym.online.experience import Verdict
from livegym.online.look_ahead import LookAhead
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.schema import RootConfig
from livegym.tasks.build import make_env
from livegym.tasks.env import Env

SIDES = ("ungated", "gated", "triggered", "learned")
POLICIES = ("random", "trained")
TASKS = ("Ant", "BlindGrasping")
HEAD = ["what", "episodes", "failed", "per 1,000", "return", "reward", "blocked", "cost", "share"]


@dataclass(frozen=True)
class Plan:
    """The size of a measurement."""

    envs: int
    episodes: int  # of each environment
    steps: int  # limit of control steps; episodes that are unfinished then are not counted


PLANS = {"full": Plan(64, 4, 10**9), "quick": Plan(32, 1, 10**9), "toy": Plan(2, 1, 20)}


class Played(NamedTuple):
    """An episode that has ended."""

    total: float  # sum of its rewards
    length: int  # control steps
    failed: bool
    reason: str


class Spent:
    """Times in s, and counts of control steps of all environments."""

    def __init__(self) -> None:
        self.observing = self.judging = self.stepping = 0.0
        self.steps = self.blocked = 0


Act = Callable[[Tensor], Tensor]


class Task(NamedTuple):
    """A task, its trained policy, and the control steps that the gate looks ahead."""

    name: str
    config: RootConfig
    file: Path | None  # checkpoint of the trained policy
    horizon: int


def random_actions(env: Env, seed: int) -> Act:
    """Actions that are drawn uniformly."""
    rng, like = torch.Generator().manual_seed(seed), env.zero_action()
    return lambda obs: 2 * torch.rand(like.shape, generator=rng) - 1


def policy_of(env: Env, task: Task) -> Policy:
    """The task's trained policy."""
    assert task.file is not None
    policy = Policy(spec_of(env), task.config.train, env.num_envs, "cpu")
    policy.load(torch.load(task.file, map_location="cpu", weights_only=True)["model"])
    return policy


def trained_actions(env: Env, task: Task, seed: int) -> Act:
    """Actions that are drawn from the trained policy, clipped."""
    rng, policy = torch.Generator().manual_seed(seed), policy_of(env, task)
    return lambda obs: policy(obs).sample(rng).clamp(-1.0, 1.0)


def play(env: Env, act: Act, gate: LookAhead | None, plan: Plan) -> tuple[list[Played], Spent]:
    """Play the plan's episodes; return them, and the times."""
    played, spent, counts = list[Played](), Spent(), np.zeros(env.num_envs, int)
    obs = env.reset()
    while (counts < plan.episodes).any() and spent.steps < plan.steps:
        action = act(obs["policy"])
        if gate is not None:
            action = _gated(env, gate, action, spent)
        start = time.perf_counter()
        step = env.step(action)
        spent.stepping += time.perf_counter() - start
        spent.steps += 1
        obs = step.obs
        if step.ended is None:
            continue
        ended = step.ended
        for row, env_id in enumerate(ended.env_ids.tolist()):
            if counts[env_id] < plan.episodes:
                counts[env_id] += 1
                reason = env.reason_names[int(ended.reasons[row])]
                failed = reason not in ("time_limit", env.success_reason)
                played.append(Played(float(ended.returns[row]), int(ended.lengths[row]), failed, reason))
    return played, spent


def _gated(env: Env, gate: LookAhead, action: Tensor, spent: Spent) -> Tensor:
    start = time.perf_counter()
    seen = gate.observe(env)
    between = time.perf_counter()
    judgement = gate.evaluate(seen, action.numpy(), np.ones(len(action)))
    spent.observing += between - start
    spent.judging += time.perf_counter() - between
    waits = judgement.verdict == Verdict.WAIT
    spent.blocked += int(waits.sum())
    return torch.from_numpy(np.where(waits[:, None], judgement.fallback, action.numpy()).astype(np.float32))


def measured(task: Task, policy: str, side: str, plan: Plan) -> dict[str, float]:
    """Return the figures of one side."""
    config = task.config
    env, scratch = (make_env(config.task, config.sim, config.physics, plan.envs, 1) for _ in range(2))
    for each in (env, scratch):
        each.set_level(1.0)
    env.rng.manual_seed(1)
    gate = None
    if side != "ungated":
        backup = BackupPolicy(policy_of(scratch, task)) if side == "learned" else None
        gate = LookAhead(scratch, task.horizon, None, trigger=side == "triggered", backup=backup)
    act = random_actions(env, 3) if policy == "random" else trained_actions(env, task, 3)
    played, spent = play(env, act, gate, plan)
    env.sim.close()
    scratch.sim.close()
    steps = max(1, sum(episode.length for episode in played))
    total = sum(episode.total for episode in played)
    figures = {
        "episodes": float(len(played)),
        "failed": sum(episode.failed for episode in played) / max(1, len(played)),
        "per_1000": 1000 * sum(episode.failed for episode in played) / steps,
        "return": total / max(1, len(played)),
        "reward": total / steps,
    }
    figures |= {f"ended: {reason}": float(number) for reason, number in Counter(e.reason for e in played).items()}
    if gate is not None:
        step = spent.stepping / spent.steps
        figures["blocked"] = spent.blocked / (spent.steps * plan.envs)
        figures["cost"] = spent.judging / max(1, gate.steps) / step
        figures["share"] = (spent.observing + spent.judging) / spent.steps / step
    return figures


def _row(name: str, figures: dict[str, float]) -> list[str]:
    shown = [f"{figures['episodes']:.0f}", f"{figures['failed']:.4f}", f"{figures['per_1000']:.3f}"]
    shown += [f"{figures['return']:,.1f}", f"{figures['reward']:.3f}"]
    shown += [f"{figures[key]:.4f}" if key in figures else "" for key in ("blocked", "cost", "share")]
    return [name, *shown]


def main(given: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--ant", type=Path, help="checkpoint of a trained policy of Ant")
    parser.add_argument("--only", choices=TASKS, help="measure this task only")
    parser.add_argument("--policy", choices=POLICIES, help="measure this policy only")
    parser.add_argument("--gate", choices=SIDES, help="measure this gate only")
    parser.add_argument("--horizon", type=int, help="control steps that the gate looks ahead; default: the key's")
    options = parser.parse_args(given)
    begin(options)
    torch.set_num_threads(1)
    plan = PLANS[options.effort]
    files = {"Ant": options.ant, "BlindGrasping": ROOT / "docs" / "policies" / "BlindGrasping.pth"}
    table, found = [HEAD], dict[str, Any]()
    for name in [options.only] if options.only else TASKS:
        config = to_typed(compose(["config=continuous", f"task={name}"]))
        task = Task(name, config, files[name], options.horizon or config.online.look_ahead)
        for policy in [options.policy] if options.policy else some(options, POLICIES, 2):
            for side in [options.gate] if options.gate else SIDES:
                row = f"{name}, {policy}, {side}"
                if task.file is None and (policy == "trained" or side == "learned"):
                    print(f"{row}: skipped: give --ant a checkpoint", flush=True)
                    continue
                found[row] = measured(task, policy, side, plan)
                table.append(_row(row, found[row]))
                reasons = [f"{key} {value:.0f}" for key, value in found[row].items() if key.startswith("ended: ")]
                print("  ".join([*table[-1], *reasons]), flush=True)
    report(options, table, found)


if __name__ == "__main__":
    main()

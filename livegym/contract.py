"""The contract that every task must keep, as checks that a project's own tests call.

    from livegym.contract import CHECKS, tasks_in

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    @pytest.mark.parametrize("task", tasks_in(Path(__file__).parent.parent))
    def test_contract(task, check):
        check(task)

A check takes a task's name. It raises an AssertionError that says what is wrong, or UserError if it cannot make the
task.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.projects import registry
from livegym.tasks import TASKS
from livegym.tasks.base import NO_WINNER, Box, Discrete
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.tasks.stream_task import StreamTask


def tasks_in(folder: str | Path) -> list[str]:
    """Names of the tasks of the project in a folder, which this process uses from now on.

    Raises UserError if the folder is not a project.
    """
    registry.use(str(folder))
    near = registry.project_in_use()
    return sorted(near.yaml_files("task"))


def environments(task: str, num_envs: int = 4, seed: int = 0, **changes: Any) -> Env:
    """An Env of a task as its yaml has it; `changes` are fields of its configuration (`schema.TaskConfig`)."""
    config = to_typed(compose([f"task={task}"]))
    return make_env(dataclasses.replace(config.task, **changes), config.sim, config.physics, num_envs, seed)


def random_action(env: Env, rng: torch.Generator) -> Tensor:
    """Uniform actions of all rows, (R, size), (R,) or (R, choices) by the action spec."""
    zero, spec = env.zero_action(), env.task.action_spec
    if isinstance(spec, Box):
        return 2 * torch.rand(zero.shape, generator=rng) - 1
    sizes = [spec.n] if isinstance(spec, Discrete) else spec.nvec
    return torch.stack([torch.randint(size, (env.num_rows,), generator=rng) for size in sizes], 1).view(zero.shape)


def rollout(env: Env, steps: int) -> list[Tensor]:
    """Policy observations and rewards of random actions: the first observation, then two tensors a step."""
    rng = torch.Generator().manual_seed(7)
    results = [env.reset()["policy"]]
    for _ in range(steps):
        step = env.step(random_action(env, rng))
        results += [step.obs["policy"], step.reward]
    return results


def values_are_finite_float32(task: str) -> None:
    """Observations and rewards of 50 random steps."""
    for value in rollout(environments(task), 50):
        _hold(value.dtype == torch.float32, f"{task}: a value of type {value.dtype}. Allowed: float32")
        _hold(bool(torch.isfinite(value).all()), f"{task}: an observation or reward is NaN or infinite")


def equal_seeds_give_equal_rollouts(task: str) -> None:
    """Equal seeds give equal rollouts, other seeds others: every draw uses the generator that `reset` is given."""
    first, second, other = (rollout(environments(task, seed=seed), 30) for seed in (3, 3, 4))
    same = all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    _hold(same, f"{task}: two rollouts with seed 3 differ; draw from `rng` only")
    _hold(
        not torch.equal(first[0], other[0]),
        f"{task}: seeds 3 and 4 give the same first observation; draw the start from `rng`",
    )


def the_time_limit_truncates(task: str) -> None:
    """An episode that nothing else ends is truncated after `episode_length_s`, not terminated."""
    made = environments(task)
    never = dict.fromkeys(made.config.terminations, False)
    env = environments(task, terminations=never, episode_length_s=10 * made.sim.control_dt, curriculum=None)
    env.reset()
    for _ in range(env.max_length - 1):
        _hold(not env.step(env.zero_action()).truncated.any(), f"{task}: truncated before its time limit")
    step = env.step(env.zero_action())
    _hold(bool(step.truncated.all()), f"{task}: not truncated at its time limit")
    _hold(not step.terminated.any(), f"{task}: terminated though no reason is active")


def a_resumed_state_continues_bit_for_bit(task: str) -> None:
    """The buffers of a task hold all that it remembers between steps, so a saved state is complete."""
    env = environments(task)
    rollout(env, 20)
    state, rng = env.state_dict(), torch.Generator().manual_seed(1)
    actions = [random_action(env, rng) for _ in range(20)]
    first = [env.step(action) for action in actions]
    other = environments(task, seed=11)
    other.load_state_dict(state)
    for a, action in zip(first, actions, strict=True):
        b = other.step(action)
        for name in ("reward", "terminated"):
            _hold(torch.equal(getattr(a, name), getattr(b, name)), f"{task}: {name} differs after a resume")
        _hold(torch.equal(a.obs["policy"], b.obs["policy"]), f"{task}: observations differ after a resume")


def a_subset_continues_alone_as_among_others(task: str) -> None:
    """No environment reads another's state."""
    env = environments(task, noise={})  # noise is drawn for all environments at once
    rollout(env, 5)
    picked = torch.tensor([0, 2])
    scratch = environments(task, num_envs=2, seed=5, noise={})
    scratch.load_state_dict(env.state_dict(picked))
    action, rows = random_action(env, torch.Generator().manual_seed(1)), env.rows_of(picked)
    # compare the observations before the reset: the generators have drawn different amounts, so resets differ
    alone, among = scratch.step(action[rows]).final_obs["policy"], env.step(action).final_obs["policy"][rows]
    _hold(torch.equal(alone, among), f"{task}: an environment's step depends on the other environments")


def it_keeps_to_its_side(task: str) -> None:
    """Params is a frozen dataclass, and docstring, success reason and picture are as the contract says."""
    cls, env = TASKS[task], environments(task)
    reasons = env.config.terminations
    if isinstance(env.task, StreamTask):
        env.task.picture_path()
    frozen = dataclasses.is_dataclass(cls.Params) and cls.Params.__dataclass_params__.frozen  # type: ignore[attr-defined]
    _hold(frozen, f"{task}: Params is not a frozen dataclass")
    _hold(bool(cls.__doc__), f"{task}: its class has no docstring, which --list-tasks shows")
    named = cls.success_reason is None or cls.success_reason in reasons
    _hold(named, f"{task}: success_reason={cls.success_reason} is not among its terminations {', '.join(reasons)}")


def exactly_one_outcome_for_each_seat(task: str) -> None:
    """In a match, winners are seats, and come with the ends of episodes only. A task with one seat has no winners."""
    env, rng = environments(task), torch.Generator().manual_seed(3)
    env.reset()
    for _ in range(min(env.max_length, 300)):
        ended = env.step(random_action(env, rng)).ended
        if ended is None:
            continue
        if env.seats == 1:
            _hold(ended.winners is None, f"{task}: has one seat, but winners")
            continue
        seats = {NO_WINNER, *range(env.seats)}
        won = set() if ended.winners is None else set(ended.winners.tolist())
        _hold(bool(won) and won <= seats, f"{task}: winners {won} are not seats. Allowed: {sorted(seats)}")
    names = env.task.seat_names
    _hold(env.seats == 1 or len(names) == env.seats, f"{task}: {env.seats} seats have the names {', '.join(names)}")


CHECKS: tuple[Callable[[str], None], ...] = (
    values_are_finite_float32,
    equal_seeds_give_equal_rollouts,
    the_time_limit_truncates,
    a_resumed_state_continues_bit_for_bit,
    a_subset_continues_alone_as_among_others,
    it_keeps_to_its_side,
    exactly_one_outcome_for_each_seat,
)
"""All checks, each a function of a task's name."""


def _hold(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)

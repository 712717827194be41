"""What every task in the table must do; a new task is picked up by itself."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from livegym.tasks import TASKS
from livegym.tasks.base import Box, Discrete, Task
from livegym.tasks.build import make_env
from livegym.tasks.env import Env


@pytest.fixture(params=sorted(TASKS))
def make(request, config):
    def build(num_envs: int = 4, seed: int = 0, **changes) -> Env:
        c = config(f"task={request.param}")
        return make_env(dataclasses.replace(c.task, **changes), c.sim, c.physics, num_envs, seed)

    return build


def random_action(env: Env, rng: torch.Generator) -> torch.Tensor:
    zero = env.zero_action()
    spec = env.task.action_spec
    if isinstance(spec, Box):
        return 2 * torch.rand(zero.shape, generator=rng) - 1
    sizes = [spec.n] if isinstance(spec, Discrete) else spec.nvec
    return torch.stack([torch.randint(size, (env.num_envs,), generator=rng) for size in sizes], 1).view(zero.shape)


def rollout(env: Env, steps: int) -> list[torch.Tensor]:
    rng = torch.Generator().manual_seed(7)
    seen = [env.reset()["policy"]]
    for _ in range(steps):
        step = env.step(random_action(env, rng))
        seen += [step.obs["policy"], step.reward]
    return seen


def test_observations_and_rewards_are_finite_float32(make):
    for value in rollout(make(), 50):
        assert value.dtype == torch.float32
        assert torch.isfinite(value).all()


def test_equal_seeds_give_equal_rollouts_and_others_do_not(make):
    first, second, other = rollout(make(seed=3), 30), rollout(make(seed=3), 30), rollout(make(seed=4), 30)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first[0], other[0])


def test_the_time_limit_truncates_and_is_seen_by_whoever_bootstraps(make):
    never = dict.fromkeys(make().config.terminations, False)
    env = make(terminations=never, episode_length_s=10 * make().sim.control_dt, curriculum=None)
    env.reset()
    for _ in range(env.max_length - 1):
        assert not env.step(env.zero_action()).truncated.any()
    step = env.step(env.zero_action())
    assert step.truncated.all()
    assert not step.terminated.any()


def test_a_resumed_state_goes_on_bit_for_bit(make):
    env = make()
    rollout(env, 20)
    state, rng = env.state_dict(), torch.Generator().manual_seed(1)
    actions = [random_action(env, rng) for _ in range(20)]
    first = [env.step(a) for a in actions]
    other = make(seed=11)
    other.load_state_dict(state)
    second = [other.step(a) for a in actions]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a.obs["policy"], b.obs["policy"])
        assert torch.equal(a.reward, b.reward)
        assert torch.equal(a.terminated, b.terminated)


def test_a_subset_goes_on_alone_as_it_would_have_among_others(make):
    env = make(num_envs=4, noise={})  # noise is drawn for all environments at once
    rollout(env, 5)
    picked = torch.tensor([0, 2])
    scratch = make(num_envs=2, seed=5, noise={})
    scratch.load_state_dict(env.state_dict(picked))
    action = random_action(env, torch.Generator().manual_seed(1))
    # the step itself: resets draw from generators that differ in how much they have drawn
    assert torch.equal(scratch.step(action[picked]).final_obs["policy"], env.step(action).final_obs["policy"][picked])


def test_the_task_keeps_to_its_side_of_the_contract(make):
    task: type[Task] = type(make().task)
    assert dataclasses.is_dataclass(task.Params)
    assert task.Params.__dataclass_params__.frozen
    assert task.__doc__
    assert task.success_reason is None or task.success_reason in make().config.terminations

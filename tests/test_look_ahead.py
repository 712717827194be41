"""The look-ahead gate: what it says will come, comes; what would fall, waits, and what is done instead is safer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from livegym.online.decider import _executed
from livegym.online.experience import Verdict
from livegym.online.gates import GateInput, make_gate
from livegym.online.look_ahead import LookAhead, StateRows
from livegym.schema import RandomizationConfig
from livegym.tasks.base import Discrete, MultiDiscrete
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.utils.errors import UserError
from tests.dummy import Counting, CountingParams, CountingSim, counting_config, counting_env
from tests.test_actor_critic import same

SEND, WAIT = Verdict.SEND, Verdict.WAIT
ROOM = {"terminations": {"failed": True}, "params": CountingParams(fail_at=4)}


def env_of(config, task: str, count: int, seed: int = 0, shoved: bool = False) -> Env:
    settings = config(f"task={task}", f"numEnvs={count}")
    shoves = RandomizationConfig(what="push", names=["cart"], range=[0.0, 200.0], interval_s=[0.02, 0.06])
    drawn = dataclasses.replace(settings.task, randomization={"shoves": shoves} if shoved else {})
    return make_env(drawn, settings.sim, settings.physics, count, seed)


def moved(env: Env, steps: int = 3, seed: int = 0) -> Env:
    """The environments somewhere on their way."""
    env.reset()
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        env.step(some_action(env, rng))
    return env


def some_action(env: Env, rng: np.random.Generator) -> torch.Tensor:
    like = env.zero_action()
    if like.is_floating_point():
        return torch.from_numpy(rng.uniform(-1, 1, like.shape).astype(np.float32))
    return torch.from_numpy(rng.integers(0, 2, like.shape))


def rows_of(action: torch.Tensor) -> np.ndarray:
    return action.reshape(len(action), -1).numpy()


def judged(gate: LookAhead, env: Env, action: torch.Tensor):
    return gate.evaluate(gate.observe(env), rows_of(action), np.ones(len(action)))


def same_judgement(one, i: int, other, j: int) -> bool:
    parts = [(one.verdict, other.verdict), (one.expected, other.expected)]
    parts += [(one.components[name], other.components[name]) for name in one.components]
    if one.verdict[i] == WAIT:
        parts.append((one.fallback, other.fallback))
    return all((a[i] == b[j]).all() for a, b in parts)


# -- states as rows of bytes


@pytest.mark.parametrize("task", ["Cartpole", "Ant", "Territory"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_state_goes_into_bytes_and_back_to_the_last_bit(config, task, count):
    env = moved(env_of(config, task, count))
    rows = StateRows(env)
    state = env.state_dict()
    packed = rows.pack(state)
    assert (packed.shape, packed.dtype) == ((count, rows.width), np.uint8)
    back = rows.unpack(packed)
    for part in ("sim", "task", "env"):
        assert state[part].keys() == back[part].keys()
        for name, value in state[part].items():
            assert value.numel() == 0 or same(value, back[part][name]), (part, name)
    assert same(state["episode_length"], back["episode_length"])
    assert same(state["episode_terms"], back["episode_terms"])
    assert (rows.pack(back) == packed).all()


@pytest.mark.parametrize("task", ["Cartpole", "Ant", "Territory"])
def test_another_environment_continues_from_them_exactly(config, task):
    env, other = moved(env_of(config, task, 4)), moved(env_of(config, task, 3, seed=5), steps=7)
    packed = StateRows(env).pack(env.state_dict())
    ids = torch.tensor([2, 1])
    other.load_state_dict(StateRows(other).unpack(packed[[3, 1]]), ids)
    rng = np.random.default_rng(1)
    for _ in range(5):
        action = some_action(env, rng)
        other_zero = other.zero_action()
        other_zero[ids] = action[[3, 1]]
        one, two = env.step(action), other.step(other_zero)
        assert torch.equal(one.reward[[3, 1]], two.reward[ids])
        assert torch.equal(one.final_obs["policy"][[3, 1]], two.final_obs["policy"][ids])


def test_what_the_gate_was_shown_is_not_changed_by_looking(config):
    env = moved(env_of(config, "Cartpole", 3))
    gate = LookAhead(env_of(config, "Cartpole", 2), 10, None)
    before = env.state_dict()
    states, action = gate.rows.pack(before), rows_of(env.zero_action())
    copies = states.copy(), action.copy()
    gate.evaluate(states, action, np.ones(3))
    assert (states == copies[0]).all()
    assert (action == copies[1]).all()
    assert same(before, env.state_dict())


# -- what is expected


@pytest.mark.parametrize("task", ["Cartpole", "Ant"])
@pytest.mark.parametrize("scratch", [1, 3, 16])
def test_the_expected_reward_is_the_one_that_then_comes(config, task, scratch):
    """To the last bit, with fewer scratch environments than rows, and with more."""
    env = moved(env_of(config, task, 4))
    gate, rng = LookAhead(env_of(config, task, scratch, seed=9), 5, None), np.random.default_rng(2)
    for _ in range(4):
        action = some_action(env, rng)
        judgement = judged(gate, env, action)
        step = env.step(action)
        assert judgement.expected.tolist() == pytest.approx(step.reward.tolist(), rel=1e-6, abs=1e-6)
        for i, name in enumerate(env.terms.names):
            assert judgement.components[name].tolist() == step.terms[:, i].tolist()


def test_also_in_the_step_in_which_an_episode_ends(config):
    env = env_of(config, "Cartpole", 2)
    env.reset()
    env.sim.reset(torch.tensor([0]), torch.tensor([[0.0, 1.57]]), torch.tensor([[0.0, 3.0]]))
    judgement = judged(LookAhead(env_of(config, "Cartpole", 2), 5, None), env, env.zero_action())
    step = env.step(env.zero_action())
    assert step.terminated.tolist() == [True, False]
    assert judgement.expected.tolist() == pytest.approx(step.reward.tolist())
    assert judgement.components["fell"][0] == -2.0
    assert judgement.components["survives"].tolist() == [0.0, 1.0]
    assert judgement.verdict.tolist() == [WAIT, SEND]


# -- the shield


def leaning(config, count: int = 4, shoved: bool = False) -> Env:
    """Poles that lean to the right by 0.5 rad and fall further: a push to the left lets them fall in a few steps."""
    env = env_of(config, "Cartpole", count, shoved=shoved)
    env.reset()
    where, how_fast = torch.tensor([[0.0, 0.5]]), torch.tensor([[0.0, 3.0]])
    env.sim.reset(torch.arange(count), where.repeat(count, 1), how_fast.repeat(count, 1))
    return env


def survives(env: Env, action: np.ndarray, steps: int) -> list[int]:
    """Steps until each environment's failure, if each action is followed by zero."""
    alive, lived = torch.ones(env.num_envs, dtype=torch.bool), torch.zeros(env.num_envs, dtype=torch.int64)
    held = torch.from_numpy(action.astype(np.float32))
    for k in range(steps):
        alive &= ~env.step(held if k == 0 else torch.zeros_like(held)).terminated
        lived += alive
    return lived.tolist()


def test_a_push_that_lets_the_pole_fall_waits_and_what_is_done_instead_lives_longer(config):
    horizon, pushes = 10, torch.tensor([[-1.0], [0.3], [-0.8], [0.1]])
    lived = survives(leaning(config), pushes.numpy(), horizon)
    assert [steps == horizon for steps in lived] == [False, True, False, True]
    env = leaning(config)
    judgement = judged(LookAhead(env_of(config, "Cartpole", 4), horizon, None), env, pushes)
    assert judgement.verdict.tolist() == [WAIT if steps < horizon else SEND for steps in lived]
    assert judgement.components["survives"].tolist() == pytest.approx([steps / horizon for steps in lived])
    executed, held = _executed(rows_of(pushes), judgement, gated=True)
    assert not held.any()
    then = survives(leaning(config), executed, horizon)
    for before, after, waits in zip(lived, then, judgement.verdict == WAIT, strict=True):
        assert after > before if waits else after == before


def test_the_fallback_is_the_best_of_nothing_half_and_the_opposite(config):
    pushes = torch.tensor([[-1.0], [-0.8]])
    judgement = judged(LookAhead(env_of(config, "Cartpole", 2), 20, None), leaning(config, 2), pushes)
    assert judgement.verdict.tolist() == [WAIT, WAIT]
    for i in range(2):
        lived = [survives(leaning(config, 2), factor * pushes.numpy(), 20)[i] for factor in (0.0, 0.5, -1.0)]
        chosen = [0.0, 0.5, -1.0].index(judgement.fallback[i, 0] / pushes[i, 0].item())
        assert lived[chosen] == max(lived)


@pytest.mark.parametrize("shoved", [False, True])
def test_the_same_is_always_judged_the_same_whoever_is_beside_it(config, shoved):
    """With pushes at random moments, of which those have begun that have."""
    gate = LookAhead(env_of(config, "Cartpole", 3, shoved=shoved), 8, None)
    states = gate.rows.pack(leaning(config, 4, shoved=shoved).state_dict())
    action = np.array([[-1.0], [1.0], [-0.3], [0.2]], np.float32)
    first = gate.evaluate(states, action, np.ones(4))
    others = moved(env_of(config, "Cartpole", 4, seed=3, shoved=shoved))
    gate.evaluate(gate.rows.pack(others.state_dict()), -action, np.zeros(4))
    again = gate.evaluate(states, action, np.ones(4))
    alone = gate.evaluate(states[2:3], action[2:3], np.ones(1))
    backwards = gate.evaluate(states[::-1], action[::-1], np.ones(4))
    larger = env_of(config, "Cartpole", 8, seed=77, shoved=shoved)
    other = LookAhead(larger, 8, None).evaluate(states, action, np.ones(4))
    assert set(first.verdict.tolist()) == {SEND, WAIT}
    for i in range(4):
        assert same_judgement(first, i, again, i)
        assert same_judgement(first, i, backwards, 3 - i)
        assert same_judgement(first, i, other, i)
    assert same_judgement(first, 2, alone, 0)


def test_below_the_threshold_it_waits_though_nothing_fails(config):
    env = moved(env_of(config, "Cartpole", 3))
    action = torch.zeros(3, 1)
    expected = judged(LookAhead(env_of(config, "Cartpole", 3), 1, None), env, action).expected
    between = float(np.sort(expected)[:2].mean())
    judgement = judged(LookAhead(env_of(config, "Cartpole", 3), 1, between), env, action)
    assert judgement.verdict.tolist() == [WAIT if value < between else SEND for value in expected]
    assert sorted(judgement.verdict.tolist()) == [SEND, SEND, WAIT]


# -- on a world that counts: each number by hand


class Reaching(Counting):
    """To fail is to have arrived."""

    success_reason = "failed"


class Choosing(Counting):
    """Of five choices each moves by its own number; from a sum of 3 on it is too much, and more is better."""

    spec = Discrete(5)

    def terminate(self, state):
        return {"failed": state.qvel[:, 0] >= 3.0}

    def reward(self, state, action):
        return {"alive": state.qvel[:, 0].clone(), "step_number": state.qpos[:, 1].clone()}

    def reset(self, env_ids, rng):
        return torch.zeros(len(env_ids), 2), torch.zeros(len(env_ids), 1)


class Pairs(Choosing):
    """As two choices, of which the first counts."""

    spec = MultiDiscrete((5, 2))


def at_step(env: Env, *steps: int) -> Env:
    env.reset()
    env.sim.qpos[:, 1] = torch.tensor([float(step) for step in steps])
    env.episode_length[:] = torch.tensor(steps)
    return env


def test_steps_to_a_failure_are_counted():
    """It fails with the 4th step: from step 0 three are survived of a horizon of 4; from step 2, one."""
    env = at_step(counting_env(3, 100, **ROOM), 0, 2, 3)
    judgement = judged(LookAhead(counting_env(3, 100, **ROOM), 4, None), env, torch.zeros(3, 1))
    assert judgement.components["survives"].tolist() == [0.75, 0.25, 0.0]
    assert judgement.verdict.tolist() == [WAIT, WAIT, WAIT]
    assert judgement.expected.tolist() == [1.0, 1.0, 1.0]
    judgement = judged(LookAhead(counting_env(3, 100, **ROOM), 1, None), env, torch.zeros(3, 1))
    assert judgement.verdict.tolist() == [SEND, SEND, WAIT]


def test_to_succeed_is_no_failure():
    env = at_step(counting_env(2, 100, task=Reaching, **ROOM), 1, 3)
    judgement = judged(LookAhead(counting_env(2, 100, task=Reaching, **ROOM), 10, None), env, torch.zeros(2, 1))
    assert judgement.components["survives"].tolist() == [1.0, 1.0]
    assert judgement.verdict.tolist() == [SEND, SEND]


def test_nor_is_the_end_of_the_time():
    """Episodes of 5 steps, each but the first a failure at once: what comes after the end is another episode."""

    class FailsLater(Counting):
        def reset(self, env_ids, rng):
            start = torch.zeros(len(env_ids), 2)
            start[:, 0] = 1.0
            return start, torch.zeros(len(env_ids), 1)

        def terminate(self, state):
            return {"failed": state.qpos[:, 0] > 0}

    env = at_step(counting_env(3, 5, task=FailsLater), 1, 4, 4)
    env.sim.qpos[:, 0] = torch.tensor([0.0, 0.0, 1.0])
    judgement = judged(LookAhead(counting_env(3, 5, task=FailsLater), 30, None), env, torch.zeros(3, 1))
    assert judgement.components["survives"].tolist() == [1.0, 1.0, 0.0]
    assert judgement.verdict.tolist() == [SEND, SEND, WAIT]


def test_a_world_that_leaves_the_numbers_is_a_failure():
    class Exploding(CountingSim):
        def step(self):
            super().step()
            self.qpos[:, 1] *= torch.where(self.ctrl[:, 0] > 0.5, torch.inf, 1.0)

    def made():
        config = counting_config(100)
        return Env(Counting(config.params), Exploding(2), config, 0)

    env = made()
    env.reset()
    judgement = judged(LookAhead(made(), 3, None), env, torch.tensor([[1.0], [0.0]]))
    assert judgement.verdict.tolist() == [WAIT, SEND]
    assert np.isfinite(judgement.expected).all()


@pytest.mark.parametrize("task", [Choosing, Pairs])
def test_of_a_few_choices_all_are_tried_of_many_nothing_is_done(task):
    """Two steps of k: k = 0 and 1 live (0, 2); k = 1 earns 1 + 2, k = 0 nothing. Pairs: only doing nothing is tried."""
    env = counting_env(3, 100, task=task)
    env.reset()
    choices = torch.tensor([0, 1, 4]) if task is Choosing else torch.tensor([[0, 1], [1, 1], [4, 1]])
    judgement = judged(LookAhead(counting_env(2, 100, task=task), 2, None), env, choices)
    assert judgement.verdict.tolist() == [SEND, SEND, WAIT]
    assert judgement.expected.tolist() == [0.0, 1.0, 4.0]
    assert judgement.fallback.dtype == np.int64
    assert judgement.fallback[2].tolist() == ([1] if task is Choosing else [0, 0])


def test_more_rows_than_scratch_environments_are_judged_all():
    env = at_step(counting_env(7, 100, **ROOM), 0, 1, 2, 3, 2, 1, 0)
    judgement = judged(LookAhead(counting_env(2, 100, **ROOM), 3, None), env, torch.zeros(7, 1))
    assert judgement.verdict.tolist() == [SEND, WAIT, WAIT, WAIT, WAIT, WAIT, SEND]
    assert judgement.components["survives"].tolist() == pytest.approx([1, 2 / 3, 1 / 3, 0, 1 / 3, 2 / 3, 1])
    assert judgement.fallback.shape == (7, 1)


# -- as it is configured


def test_its_adapter_packs_what_it_sees(config):
    settings = config("config=continuous", "task=Cartpole", "gate=lookahead", "seed=0", "online.look_ahead=20")
    adapter = make_gate(settings, 4)
    env = leaning(config)
    states = adapter.observe(env)
    assert (states.shape, states.dtype, adapter.kind, adapter.what) == (
        (4, adapter.width),
        np.uint8,
        "uint8",
        GateInput.STATE,
    )
    judgement = adapter.gate.evaluate(states, np.full((4, 1), -1.0, np.float32), np.ones(4))
    assert judgement.verdict.tolist() == [WAIT] * 4


def test_clients_have_no_state_to_look_ahead_from(config):
    settings = config("config=continuous", "task=Cartpole", "gate=off", "seed=0", "simulator=external")
    with pytest.raises(UserError, match=r"gate=lookahead needs the state.*Allowed with simulator=external: off"):
        make_gate(dataclasses.replace(settings, gate="lookahead"), 4)

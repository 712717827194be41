"""The look-ahead gate with a learned backup: the policy acts in the copy as it would, and saves what zero does not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from livegym.cfg.typed import as_dict
from livegym.online.backup_policy import BackupPolicy, with_fixed_policy
from livegym.online.experience import Verdict
from livegym.online.gates import make_gate
from livegym.online.look_ahead import LookAhead
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.rundir.run import create_run
from livegym.tasks.base import Discrete
from livegym.tasks.build import make_env
from livegym.utils.errors import UserError
from tests.dummy import Counting, counting_env
from tests.test_evaluate_log import save_checkpoint
from tests.test_look_ahead import at_step, env_of, judged, moved, rows_of, same_judgement, some_action

SEND, WAIT = Verdict.SEND, Verdict.WAIT


class Drifting(Counting):
    """The sum grows by the action and 0.5 more in every step; at 2 it is too much."""

    def control(self, action):
        return super().control(action) + 0.5

    def terminate(self, state):
        return {"failed": state.qvel[:, 0] >= 2.0}


class Pull:
    """A backup that always acts with -1; it keeps the steps that it saw."""

    def __init__(self) -> None:
        self.seen: list[list[float]] = []

    def then(self, obs):
        self.seen.append(obs[:, 1].tolist())
        return torch.full((len(obs), 1), -1.0)

    def first(self, obs):
        return torch.stack([self.then(obs), torch.full((len(obs), 1), -0.25)])


class Push(Pull):
    """A backup that makes it worse: +1, and at first +0.5 is tried too."""

    def then(self, obs):
        return torch.ones(len(obs), 1)

    def first(self, obs):
        return torch.stack([self.then(obs), torch.full((len(obs), 1), 0.5)])


def at_sum(env, *sums: float):
    env.reset()
    env.sim.qvel[:, 0] = torch.tensor(sums)
    return env


def drifting(n: int = 3):
    return counting_env(n, 100, task=Drifting)


# -- on a world that counts: each number by hand


def test_a_learned_backup_survives_where_zero_fails():
    """From 0, 0.4 and 1: +1 makes 1.5, 1.9 and 2.5. Then zero makes 2.0 and 2.4, but -1 makes 1.0 and 1.4."""
    push = torch.ones(3, 1)
    zero = judged(LookAhead(drifting(), 4, None), at_sum(drifting(), 0.0, 0.4, 1.0), push)
    assert zero.components["survives"].tolist() == [0.25, 0.25, 0.0]
    assert zero.verdict.tolist() == [WAIT, WAIT, WAIT]
    learned = judged(LookAhead(drifting(), 4, None, backup=Pull()), at_sum(drifting(), 0.0, 0.4, 1.0), push)
    assert learned.components["survives"].tolist() == [1.0, 1.0, 0.0]
    assert learned.verdict.tolist() == [SEND, SEND, WAIT]
    assert learned.fallback[2].tolist() == [-1.0]


def test_its_own_action_is_taken_if_it_survives_though_another_earns_as_much():
    """From 1.4: +1 fails at once; -1 makes 0.9, and the rest is not tried."""
    gate = LookAhead(drifting(1), 3, None, backup=Pull())
    judgement = judged(gate, at_sum(drifting(1), 1.4), torch.ones(1, 1))
    assert judgement.fallback[0].tolist() == [-1.0]
    assert gate.steps == 1 + 3


def test_if_its_own_action_fails_the_one_that_survives_longest_is_taken():
    """From 1 with a backup of +1: the proposed +0.6 fails at once, and so do +1 and +0.5.

    Zero makes 1.5, half of 0.6 makes 1.8, and its opposite 0.9: each is too much with the next step but the last,
    which is 2.4 then. So all three survive one step, and zero is the first.
    """
    gate = LookAhead(drifting(1), 3, None, backup=Push())
    judgement = judged(gate, at_sum(drifting(1), 1.0), torch.tensor([[0.6]]))
    assert judgement.verdict.tolist() == [WAIT]
    assert judgement.components["survives"].tolist() == [0.0]
    assert judgement.fallback[0].tolist() == [0.0]


def test_if_nothing_survives_longer_the_proposed_action_stays():
    judgement = judged(LookAhead(drifting(1), 3, None, backup=Push()), at_sum(drifting(1), 3.0), torch.tensor([[0.6]]))
    assert judgement.verdict.tolist() == [WAIT]
    assert judgement.fallback[0].tolist() == pytest.approx([0.6])


def test_it_sees_each_step_that_it_acts_in():
    """From step 5: it acts in steps 6 and 7, after the proposed action."""
    backup = Pull()
    judged(LookAhead(drifting(1), 3, None, backup=backup), at_step(drifting(1), 5), torch.zeros(1, 1))
    assert backup.seen == [[6.0], [7.0]]
    late = at_step(drifting(1), 5)
    late.sim.qvel[:, 0] = 1.0
    judged(LookAhead(drifting(1), 3, None, backup=backup), late, torch.ones(1, 1))
    assert backup.seen[2:] == [[5.0], [6.0], [7.0]]  # the proposed action fails at once; then its own, from step 5


def test_it_may_be_discrete():
    class Choosing(Drifting):
        spec = Discrete(3)

        def control(self, action):
            return super().control(action - 1)

    class Down(Pull):
        def then(self, obs):
            return torch.zeros(len(obs), dtype=torch.int64)

        def first(self, obs):
            return self.then(obs)[None]

    def made():
        return counting_env(2, 100, task=Choosing)

    judgement = judged(LookAhead(made(), 4, None, backup=Down()), at_sum(made(), 0.0, 1.0), torch.tensor([2, 2]))
    assert judgement.verdict.tolist() == [SEND, WAIT]
    assert judgement.fallback.tolist() == [[2], [0]]


# -- what it sees


def test_without_noise_it_sees_what_the_policy_sees_with_delay_and_history():
    changes = {"delay": {"step": 1}, "history": {"step": 3}}
    env, copy = counting_env(2, 100, **changes), counting_env(2, 100, seed=3, **changes)
    env.reset()
    for k in range(4):
        obs = env.step(torch.full((2, 1), 0.1 * k)).obs["policy"]
    copy.load_state_dict(env.state_dict())
    assert torch.equal(copy.look(new=False), obs)
    assert torch.equal(copy.look(new=False), obs)
    for k in range(3):
        action = torch.full((2, 1), -0.1 * k)
        copy.advance(action)
        assert torch.equal(copy.look(new=True), env.step(action).obs["policy"])


def test_the_noise_of_the_policy_is_left_out():
    env = counting_env(2, 100, noise={"step": 1.0})
    env.reset()
    before = env.rng.get_state()
    env.advance(env.zero_action())
    assert env.look(new=True)[:, 1].tolist() == [1.0, 1.0]
    assert torch.equal(env.rng.get_state(), before)


def test_on_the_hand_it_sees_what_the_policy_sees_with_late_actions(config):
    settings = config("task=BlindGrasping")
    task = dataclasses.replace(settings.task, noise={})
    env, copy = (make_env(task, settings.sim, settings.physics, 3, seed) for seed in (0, 1))
    moved(env, steps=2)
    copy.randomizer.draw_at_resets_only()
    copy.load_state_dict(env.state_dict())
    rng = np.random.default_rng(0)
    for _ in range(3):
        action = some_action(env, rng)
        copy.advance(action)
        assert torch.equal(copy.look(new=True), env.step(action).final_obs["policy"])


# -- with a policy of a checkpoint


def policy_of(env, train, num_envs: int, seed: int = 0) -> Policy:
    """A policy with weights from a fixed seed, and a normaliser that does nothing."""
    policy = Policy(spec_of(env), train, num_envs, "cpu")
    rng = torch.Generator().manual_seed(seed)
    model = policy.state()
    for name, value in model.items():
        if value.is_floating_point() and "mean_std" not in name:
            model[name] = torch.randn(value.shape, generator=rng) * 0.3
    policy.load(model)
    return policy


def test_equal_states_are_judged_equally_in_batches_of_any_size_and_order(config):
    settings, env = config("task=Ant"), moved(env_of(config, "Ant", 5))

    def gate_of(size: int) -> LookAhead:
        scratch = env_of(config, "Ant", size, seed=size)
        return LookAhead(scratch, 12, None, backup=BackupPolicy(policy_of(scratch, settings.train, size)))

    one = gate_of(5)
    states = one.rows.pack(env.state_dict())
    action = rows_of(some_action(env, np.random.default_rng(4)))
    first = one.evaluate(states, action, np.ones(5))
    for size in (1, 3, 8):
        other = gate_of(size).evaluate(states[::-1], action[::-1], np.ones(5))
        for i in range(5):
            assert same_judgement(first, i, other, 4 - i), (size, i)


def test_the_first_of_its_actions_is_the_likeliest_and_the_others_are_the_same_for_equal_rows(config):
    settings, env = config("task=Ant"), env_of(config, "Ant", 4)
    policy = policy_of(env, settings.train, 4)
    obs = torch.randn(4, policy.spec.obs_width, generator=torch.Generator().manual_seed(1))
    obs[3] = obs[0]
    mode = policy(obs).mode().clamp(-1, 1)
    backup = BackupPolicy(policy, samples=2)
    first = backup.first(obs)
    assert first.shape == (3, 4, 8)
    assert first.dtype == torch.float32
    assert torch.allclose(first[0], mode, atol=1e-5)
    assert torch.equal(first[0], backup.then(obs))
    assert torch.equal(first[:, 0], first[:, 3])
    assert not torch.equal(first[1], first[2])


def constant(env, train, action: float) -> dict[str, torch.Tensor]:
    """The weights of a policy that always acts with `action`."""
    model = Policy(spec_of(env), train, 1, "cpu").state()
    for name, value in model.items():
        if "mean_std" not in name:
            model[name] = torch.full_like(value, action if name.endswith("mu.bias") else 0.0)
    return model


@pytest.fixture
def leaning_run(tmp_path, config):
    """A run with a checkpoint of a policy that always pushes the cart to the right, with full force."""
    settings, env = config("task=Cartpole"), env_of(config, "Cartpole", 1)
    run = create_run(tmp_path, "Cartpole", "train")
    file = save_checkpoint(run, spec_of(env), constant(env, settings.train, 1.0), 1, as_dict(settings))
    return run, file


def test_a_pole_that_falls_to_the_right_is_caught_by_a_policy_that_pushes_right(config, tmp_path, leaning_run):
    """It leans by 0.8 rad and falls at 2 rad/s, and the cart is pushed to the left.

    Then zero lets it fall after 7 steps; a push to the right holds it for 10 and 11.
    """
    typed = ("config=continuous", "task=Cartpole", "gate=lookahead", "seed=0", "online.look_ahead=9")
    env, push = env_of(config, "Cartpole", 2), np.array([[-1.0], [-0.8]], np.float32)
    env.reset()
    env.sim.reset(torch.arange(2), torch.tensor([[0.0, 0.8]]).repeat(2, 1), torch.tensor([[0.0, 2.0]]).repeat(2, 1))
    zero = make_gate(config(*typed), 2)
    assert zero.gate.evaluate(zero.observe(env), push, np.ones(2)).verdict.tolist() == [WAIT, WAIT]
    for named in (leaning_run[1], leaning_run[0].path, leaning_run[0].name):
        settings = config(*typed, f"runsDir={tmp_path}", f"online.look_ahead_policy={named}")
        learned = make_gate(settings, 2)
        judgement = learned.gate.evaluate(learned.observe(env), push, np.ones(2))
        assert judgement.verdict.tolist() == [SEND, SEND]


def test_a_run_is_replaced_by_the_file_that_is_its_newest_now(config, tmp_path, leaning_run):
    run, file = leaning_run
    typed = ("config=continuous", "task=Cartpole", "gate=lookahead", "seed=0", f"runsDir={tmp_path}")
    fixed = with_fixed_policy(config(*typed, "online.look_ahead_policy=latest"))
    assert fixed.online.look_ahead_policy == str(file.absolute())
    assert with_fixed_policy(fixed) == fixed
    save_checkpoint(run, spec_of(env_of(config, "Cartpole", 1)), torch.load(file)["model"], 2, {})
    assert with_fixed_policy(fixed) == fixed
    plain = config(*typed)
    assert with_fixed_policy(plain) is plain


def test_a_policy_that_does_not_fit_is_refused(config, tmp_path, leaning_run):
    typed = ("config=continuous", "task=Ant", "gate=lookahead", "seed=0", f"runsDir={tmp_path}")
    message = r"online.look_ahead_policy=.*its task is Cartpole, expected Ant. Allowed: a policy of task Ant .*or null"
    with pytest.raises(UserError, match=message):
        make_gate(config(*typed, f"online.look_ahead_policy={leaning_run[1]}"), 2)
    for read in (lambda settings: make_gate(settings, 2), with_fixed_policy):
        with pytest.raises(UserError, match=r"^online.look_ahead_policy=none.pth: no such file"):
            read(config(*typed, "online.look_ahead_policy=none.pth"))


def test_a_recurrent_policy_is_refused(config):
    settings = config("task=Cartpole", "train.network.recurrent.cell=lstm")
    env = env_of(config, "Cartpole", 2)
    with pytest.raises(UserError, match=r"online.look_ahead_policy: the policy is recurrent.*Allowed:.*or null"):
        BackupPolicy(Policy(spec_of(env), settings.train, 2, "cpu"))


def test_a_threshold_works_with_it_as_without():
    env = at_sum(counting_env(1, 100, task=Drifting), 0.0)
    gate = LookAhead(drifting(1), 2, 1.5, backup=Pull())
    judgement = judged(gate, env, torch.zeros(1, 1))
    assert judgement.verdict.tolist() == [WAIT]
    assert judgement.expected.tolist() == [1.0]

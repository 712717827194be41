"""The look-ahead gate steps only what is open, and with its trigger only states at risk; its verdicts stay the same."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch

from livegym.online.decider import _verdict_of
from livegym.online.experience import Verdict
from livegym.online.gates import make_gate
from livegym.online.look_ahead import LookAhead
from livegym.online.rewards import combine
from livegym.schema import OnlineConfig
from livegym.tasks.env import Env
from tests.dummy import Counting, counting_env
from tests.test_look_ahead import at_step, env_of, judged, rows_of, some_action
from tests.test_online_rewards import row

SEND, WAIT = Verdict.SEND, Verdict.WAIT
HORIZON = 8


def jumping(config, count: int = 6) -> Env:
    """Ants that rise: the torsos are at different heights and speeds, of which some leave the healthy band."""
    env = env_of(config, "Ant", count)
    env.reset()
    qpos, qvel = env.sim.qpos.clone(), env.sim.qvel.clone()
    qpos[:, 2] = torch.linspace(0.3, 0.9, count)
    qvel[:, 2] = torch.linspace(0.0, 3.0, count)
    env.sim.reset(torch.arange(count), qpos, qvel)
    return env


def stepped(env: Env, states: dict, action: torch.Tensor) -> list[int]:
    """Steps until a failure by whole control steps of all environments: the action, then zero."""
    env.load_state_dict(states)
    alive, lived = torch.ones(env.num_envs, dtype=torch.bool), torch.zeros(env.num_envs, dtype=torch.int64)
    for k in range(HORIZON):
        alive &= ~env.step(action if k == 0 else torch.zeros_like(action)).terminated
        lived += alive
    return lived.tolist()


def test_stepping_only_what_is_open_decides_as_stepping_everything(config):
    env, plain = jumping(config), env_of(config, "Ant", 6, seed=4)
    action = some_action(env, np.random.default_rng(5))
    lived = stepped(plain, env.state_dict(), action)
    assert len(set(lived)) > 2  # they fail at different steps, and some do not
    for size in (1, 4, 16):
        judgement = judged(LookAhead(env_of(config, "Ant", size), HORIZON, None), env, action)
        assert (judgement.components["survives"] * HORIZON).round().astype(int).tolist() == lived
        assert judgement.verdict.tolist() == [WAIT if steps < HORIZON else SEND for steps in lived]
        then = stepped(plain, env.state_dict(), torch.from_numpy(judgement.fallback))
        candidates = [stepped(plain, env.state_dict(), c) for c in (0 * action, action / 2, -action, action)]
        for i in np.flatnonzero(judgement.verdict == WAIT):
            assert then[i] == max(each[i] for each in candidates)


def test_rows_that_are_decided_are_not_stepped():
    """A row that fails at once costs one step, also beside a row that survives."""
    gate = LookAhead(counting_env(2, 100), HORIZON, None)
    env = at_step(counting_env(2, 100), 0, 0)
    judged(gate, env, torch.zeros(2, 1))
    assert gate.steps == HORIZON
    env.episode_length[:] = 99  # the time limit ends both episodes in the next step
    judged(gate, env, torch.zeros(2, 1))
    assert gate.steps == HORIZON + 1


def test_if_nothing_survives_longer_the_proposed_action_is_executed(config):
    env = at_step(counting_env(1, 100, task=Doomed), 0)
    judgement = judged(LookAhead(counting_env(1, 100, task=Doomed), 4, None), env, torch.tensor([[0.6]]))
    assert judgement.verdict.tolist() == [WAIT]
    assert judgement.fallback.tolist() == [[pytest.approx(0.6)]]


class Doomed(Counting):
    """It fails in the third step, whatever is done; until the second nobody sees it coming."""

    def terminate(self, state):
        return {"failed": state.qpos[:, 1] >= 3}

    def at_risk(self, state):
        return state.qpos[:, 1] >= 2


def test_the_trigger_leaves_other_states_out():
    env = at_step(counting_env(3, 100, task=Doomed), 0, 1, 2)
    gate = LookAhead(counting_env(3, 100, task=Doomed), 4, None, trigger=True)
    judgement = judged(gate, env, torch.zeros(3, 1))
    assert judgement.verdict.tolist() == [SEND, SEND, WAIT]
    assert judgement.predicted.tolist() == [False, False, True]
    assert gate.steps == 2  # the action, and its three candidates at once; each fails in its first step


def test_only_states_at_risk_are_stored_unless_a_threshold_needs_them_all():
    env = at_step(counting_env(3, 100, task=Doomed), 0, 1, 2)
    seen = LookAhead(counting_env(3, 100, task=Doomed), 4, None, trigger=True).observe(env)
    strict = LookAhead(counting_env(3, 100, task=Doomed), 4, 1.0, trigger=True)
    full = strict.observe(env)
    assert seen[:, -1].tolist() == [2, 2, 1]
    assert full[:, -1].tolist() == [0, 0, 1]
    assert not seen[:2, :-1].any()
    assert (seen[2] == full[2]).all()
    assert full[:2, :-1].any(1).all()
    later = strict.evaluate(seen, np.zeros((3, 1), np.float32), np.ones(3))  # the threshold was set on a resume
    assert later.predicted.tolist() == [False, False, True]
    assert later.verdict.tolist() == [SEND, SEND, WAIT]


def test_a_threshold_needs_the_expected_reward_of_every_state():
    env = at_step(counting_env(2, 100, task=Doomed), 0, 0)
    judgement = judged(LookAhead(counting_env(2, 100, task=Doomed), 1, 2.0, trigger=True), env, torch.zeros(2, 1))
    assert judgement.verdict.tolist() == [WAIT, WAIT]
    assert judgement.predicted is None


def test_a_task_that_names_no_risk_is_always_simulated(config):
    env = env_of(config, "Cartpole", 3)
    env.reset()
    gate = LookAhead(env_of(config, "Cartpole", 3), 4, None, trigger=True)
    assert judged(gate, env, env.zero_action()).predicted is None
    assert gate.steps == 4


@pytest.mark.slow
def test_on_ant_the_trigger_passes_nothing_that_the_full_gate_blocks(config):
    """Random actions from fixed seeds, 960 states: half of the ants stand, and half begin on their backs."""
    env = env_of(config, "Ant", 16, seed=3)
    env.reset()
    qpos = env.sim.qpos[8:].clone()
    qpos[:, 2:7] = torch.tensor([0.3, 0.0, 1.0, 0.0, 0.0])
    env.sim.reset(torch.arange(8, 16), qpos, env.sim.qvel[8:].clone())
    full = LookAhead(env_of(config, "Ant", 16), HORIZON, None)
    quick = LookAhead(env_of(config, "Ant", 16), HORIZON, None, trigger=True)
    rng, blocked, missed, skipped = np.random.default_rng(0), 0, 0, 0
    for _ in range(60):
        action = some_action(env, rng)
        one, two = judged(full, env, action), judged(quick, env, action)
        blocked += int((one.verdict == WAIT).sum())
        missed += int(((one.verdict == WAIT) & (two.verdict == SEND)).sum())
        skipped += 0 if two.predicted is None else int((~two.predicted).sum())
        env.step(action)
    assert blocked >= 4
    assert missed == 0
    assert skipped >= 50


def test_the_trainer_judges_again_as_the_server_did(config):
    """From the stored bytes, in batches of another size and order, with the trigger on."""
    settings = config("config=continuous", "task=Ant", "gate=lookahead", "seed=0", "online.look_ahead_trigger=true")
    server, trainer = make_gate(settings, 6), make_gate(settings, 4)
    env = jumping(config)
    action = rows_of(some_action(env, np.random.default_rng(5)))
    seen = server.observe(env)
    assert seen.shape == (6, server.width)
    first = server.gate.evaluate(seen, action, np.ones(6))
    again = trainer.gate.evaluate(seen[::-1], action[::-1], np.ones(6))
    assert set(first.verdict.tolist()) == {SEND, WAIT}
    assert first.predicted.tolist() == again.predicted[::-1].tolist()
    assert first.verdict.tolist() == again.verdict[::-1].tolist()
    assert first.expected.tolist() == again.expected[::-1].tolist()


# -- what is learned from an action that was sent without a prediction


def test_its_reward_is_the_one_that_came():
    rows = np.stack([row(SEND, 2.0), row(SEND, 2.0)])
    judgement = judged(
        LookAhead(counting_env(2, 100, task=Doomed), 4, None, trigger=True),
        at_step(counting_env(2, 100, task=Doomed), 0, 1),
        torch.zeros(2, 1),
    )
    rule = dataclasses.replace(OnlineConfig(), expected_weight=0.3, actual_weight=0.7)
    samples = combine(rows, dataclasses.replace(judgement, predicted=np.array([False, True])), rule)
    assert samples.reward.tolist() == pytest.approx([2.0, 0.3 * float(judgement.expected[1]) + 0.7 * 2.0])


def test_and_the_answer_shows_no_expectation():
    env = at_step(counting_env(2, 100, task=Doomed), 0, 2)
    judgement = judged(LookAhead(counting_env(2, 100, task=Doomed), 4, None, trigger=True), env, torch.zeros(2, 1))
    verdict, expected, components = _verdict_of(judgement, 0, failed=False)
    assert (verdict, math.isnan(expected), components) == (SEND, True, {})
    assert _verdict_of(judgement, 1, failed=False)[2]["survives"] == 0.0

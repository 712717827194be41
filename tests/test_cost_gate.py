"""The cost-function gate: the task's own terms in expectation, its limits, and what it refuses to judge."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
import torch

from livegym.online.cost_gate import CostGate
from livegym.online.experience import Verdict
from livegym.online.gate import check_judgement
from livegym.tasks.base import Box, Discrete
from livegym.tasks.build import make_env
from livegym.tasks.stream_task import CostTask, Expectation, RawField
from livegym.tasks.territory import Territory, TerritoryParams
from livegym.utils.errors import UserError

WEIGHTS = {"survival": 1.0, "location": 1.0, "disruption": 0.6, "capacity": 1.0, "exploration": 0.3}
TASK = Territory(TerritoryParams())  # bound to no simulator
ENERGY, COMBAT = 0, 1


def raw_row(n: int = 1, **values: float) -> np.ndarray:
    """Rows of one map: queen at (10, 10), 50 energy, all chunks new, 60 minerals at (5, 5), a protector at (5, 10)."""
    raw = TASK.unpack(torch.zeros(n, TASK.raw_width))
    raw["queen"][:], raw["energy"][:], raw["age"][:] = 10, 50, 40
    raw["minerals"][:, 5, 5], raw["protectors"][:, 5, 10], raw["workers"][:, 4, 4] = 60, 1, 2
    for name, value in values.items():
        raw[name][:] = value
    return TASK.pack(raw).numpy()


def judge(row: np.ndarray, *actions: tuple[int, int], threshold: float = 0.5, **options):
    action = np.array(actions)
    judgement = CostGate(TASK, WEIGHTS, threshold, **options).evaluate(row, action, np.ones(len(action)))
    check_judgement(judgement, len(action), TASK.action_spec)
    return judgement


def at(row: int, column: int, kind: int = ENERGY) -> tuple[int, int]:
    return row * 20 + column, kind


CHANCE = (1 - exp(-1.5)) / (1 - exp(-3))  # 5 chunks from a protector: 0.8176


def test_the_expected_reward_is_the_sum_of_its_named_components_by_hand():
    judgement = judge(raw_row(), at(5, 5))
    components = {name: float(value[0]) for name, value in judgement.components.items()}
    by_hand = {
        "survival": 2 * CHANCE - 1,
        "location": CHANCE,  # 15 of 15
        "disruption": 0.6 * CHANCE * 0.25 * 2 / 4,
        "capacity": 0.0,
        "exploration": 0.3,
    }
    assert components == pytest.approx(by_hand, abs=1e-6)
    assert judgement.expected[0] == pytest.approx(sum(by_hand.values()), abs=1e-6)
    assert judgement.verdict.tolist() == [Verdict.SEND]
    assert (judgement.verdict.dtype, judgement.expected.dtype) == (np.int8, np.float32)


@pytest.mark.parametrize(
    ("row", "action", "verdict"),
    [
        (raw_row(), at(5, 5, COMBAT), Verdict.SEND),
        (raw_row(), at(5, 9), Verdict.WAIT),  # beside a protector
        (raw_row(), at(10, 10), Verdict.WAIT),  # rest is no spawn
        (raw_row(), at(10, 10, COMBAT), Verdict.SEND),  # as far from the protector as the minerals are, and more
        (raw_row(energy=7.0), at(5, 5, COMBAT), Verdict.WAIT),  # too dear
        (raw_row(energy=8.0), at(5, 5, COMBAT), Verdict.SEND),
    ],
)
def test_it_sends_what_is_worth_it_safe_and_paid_for(row, action, verdict):
    judgement = judge(row, action)
    assert judgement.verdict.tolist() == [verdict]


def test_threshold_and_least_chance_are_limits_of_their_own():
    expected = float(judge(raw_row(), at(5, 5)).expected[0])
    verdicts = [
        judge(raw_row(), at(5, 5), threshold=threshold, least_chance=least).verdict[0]
        for threshold, least in ((expected, 0.5), (expected + 1e-3, 0.5), (-9.0, CHANCE - 1e-3), (-9.0, CHANCE + 1e-3))
    ]
    assert verdicts == [Verdict.SEND, Verdict.WAIT, Verdict.SEND, Verdict.WAIT]


def test_after_a_wait_the_queen_rests_on_her_own_chunk_which_is_worth_nothing():
    row = np.concatenate([raw_row(), raw_row(queen=3.0)])
    judgement = judge(row, at(5, 9), at(5, 9))
    assert judgement.fallback.tolist() == [[10 * 20 + 10, ENERGY], [3 * 20 + 3, ENERGY]]
    rest = judge(row, *map(tuple, judgement.fallback.tolist()))
    assert rest.expected.tolist() == [0, 0]
    assert all(value.tolist() == [0, 0] for value in rest.components.values())


def test_it_says_the_same_of_the_same_alone_and_among_others_and_whatever_the_confidence(config):
    c = config("task=Territory")
    env = make_env(c.task, c.sim, c.physics, 64, 0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = np.stack([rng.integers(400, size=64), rng.integers(2, size=64)], axis=1)
        env.step(torch.from_numpy(action))
    rows = env.task.pack(env.task.raw(env.sim)).numpy()
    gate, other = CostGate(env.task, c.task.rewards, 0.8), CostGate(Territory(c.task.params), c.task.rewards, 0.8)
    first = gate.evaluate(rows, action, np.ones(64))
    again = other.evaluate(rows.copy(), action.astype(np.float32), np.zeros(64))
    assert 0 < (first.verdict == Verdict.SEND).sum() < 64
    assert np.array_equal(first.verdict, again.verdict)
    assert np.array_equal(first.expected, again.expected)
    for i in range(64):
        alone = other.evaluate(rows[i : i + 1], action[i : i + 1], np.ones(1))
        assert (alone.verdict[0], alone.expected[0]) == (first.verdict[i], first.expected[i])


def test_it_changes_nothing_of_what_it_is_given():
    row, action = raw_row(), np.array([at(5, 5)])
    kept = row.copy()
    CostGate(TASK, WEIGHTS, 0.5).evaluate(row, action, np.ones(1))
    assert np.array_equal(row, kept)
    read_only = row.copy()
    read_only.flags.writeable = False  # a row of a buffer that another process writes
    CostGate(TASK, WEIGHTS, 0.5).evaluate(read_only, action, np.ones(1))


@pytest.mark.parametrize("action", [(400, 0), (-1, 0), (0, 2), (0.5, 0), (float("nan"), 0)])
def test_a_choice_that_there_is_not_is_refused(action):
    with pytest.raises(ValueError, match=r"is out of range; allowed: whole numbers, 0 to 399, 0 to 1"):
        judge(raw_row(), action)


@pytest.mark.parametrize(
    ("row", "actions", "message"),
    [
        (raw_row()[:, :-1], [at(0, 0)], r"allowed: \(n, 1604\)"),
        (raw_row(), [at(0, 0)] * 2, r"allowed: \(1, 2\)"),
        (raw_row(), [(1, 2, 3)], r"allowed: \(1, 2\)"),
        (raw_row(energy=float("nan")), [at(0, 0)], "non-finite"),
    ],
)
def test_what_it_cannot_read_is_refused(row, actions, message):
    with pytest.raises(ValueError, match=message):
        judge(row, *actions)


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        ({**WEIGHTS, "surival": 1.0}, {"threshold": 0.5}, r"rewards.surival.*Did you mean survival"),
        ({"survival": 1.0}, {"threshold": 0.5}, "no weight for location"),
        (WEIGHTS, {"threshold": float("nan")}, "threshold is nan"),
        (WEIGHTS, {"threshold": 0.5, "least_chance": 50}, "least_chance is 50"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(weights, options, message):
    with pytest.raises(UserError, match=message):
        CostGate(TASK, weights, **options)


class Valve(CostTask):
    """Open a valve by 0, 1 or 2 turns; more than the level would leak."""

    Params = TerritoryParams
    action_spec, control_dt = Discrete(3), 1.0

    def raw_fields(self):
        return {"level": RawField((), 0, 10, "m")}

    def features(self, raw):
        return {"level": raw["level"][:, None]}

    def stream_reward(self, before, action, after):
        return {"flow": action[:, 0].float(), "fall": after["level"] - before["level"]}

    def expect(self, raw, action):
        turns = action[:, 0].float()
        terms = {"flow": turns, "fall": -turns}
        closed = torch.zeros_like(action)
        return Expectation(terms, action[:, 0] > 0, (raw["level"] >= turns).float(), closed)

    bind = reset = raw = control = update = reward = terminate = None


def test_any_task_that_knows_what_to_expect_has_a_cost_gate():
    gate = CostGate(Valve(None), {"flow": 1.0, "fall": 0.25}, 1.0)
    level = np.array([[1.0], [1.0], [5.0], [5.0]], np.float32)
    judgement = gate.evaluate(level, np.array([[1], [2], [2], [0]]), np.ones(4))
    check_judgement(judgement, 4, Discrete(3))
    assert judgement.expected.tolist() == [0.75, 1.5, 1.5, 0.0]  # turns x (1 - 0.25)
    assert [Verdict(v).name for v in judgement.verdict] == ["WAIT", "WAIT", "SEND", "WAIT"]  # little, leaks, good, none
    assert judgement.components["fall"].tolist() == [-0.25, -0.5, -0.5, 0.0]
    assert judgement.fallback.tolist() == [[0]] * 4
    with pytest.raises(ValueError, match="0 to 2"):
        gate.evaluate(level[:1], np.array([[3]]), np.ones(1))


class Knobs(Valve):
    """Two knobs, turned together; their level begins at 1."""

    action_spec = Box(2)

    def raw_fields(self):
        return {"level": RawField((), 1, 10, "m")}

    def expect(self, raw, action):
        assert (raw["level"] >= 1).all()
        turned = action @ torch.ones(2)
        return Expectation({"flow": turned}, turned > 0, torch.ones(len(turned)), torch.zeros_like(action))


def test_also_one_with_continuous_actions():
    gate = CostGate(Knobs(None), {"flow": 2.0}, 1.0)
    judgement = gate.evaluate(
        np.ones((2, 1), np.float32), np.array([[0.5, 0.25], [0.5, -0.25]], np.float32), np.ones(2)
    )
    check_judgement(judgement, 2, Box(2))
    assert judgement.expected.tolist() == [1.5, 0.5]
    assert [Verdict(v).name for v in judgement.verdict] == ["SEND", "WAIT"]

"""What a sampled experience teaches: rewards by hand, and of which action."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from livegym.online.experience import Experience, Layout, Verdict, to_row
from livegym.online.gate import Judgement, check_judgement
from livegym.online.rewards import TrainingSamples, combine, later_rewards, weakened
from livegym.schema import OnlineConfig
from livegym.tasks.base import Box, Discrete

OFF, SEND, WAIT = Verdict.OFF, Verdict.SEND, Verdict.WAIT
LAYOUT = Layout(obs=1, action=2, discrete=True)
RULE = OnlineConfig()
PROPOSED, EXECUTED, SAID, EXECUTED_SAID = [7, 1], [3, 0], -0.25, -4.0


def row(verdict: Verdict, reward: float, held: bool = False, number: int = 0) -> np.ndarray:
    """An experience as the buffer holds it; what was sent was done, after a WAIT something else was."""
    executed = EXECUTED if verdict == WAIT and not held else PROPOSED
    said = EXECUTED_SAID if verdict == WAIT and not held else SAID
    one = np.zeros((), LAYOUT.dtype())
    to_row(Experience(
        stream="a", decision=number, obs=np.zeros(1), proposed=np.array(PROPOSED), executed=np.array(executed),
        log_prob=SAID, executed_log_prob=said, confidence=1.0, verdict=verdict,
        expected=math.nan if verdict == OFF else 0.0, seen=np.zeros(0), version=1, time=0.0, clock=0.0, held=held,
        reward=reward, next_obs=np.zeros(1),
    ), one)  # fmt: skip
    return one


def says(verdicts: list[Verdict], expected: list[float]) -> Judgement:
    judgement = Judgement(np.array(verdicts, np.int8), np.array(expected, np.float32), {})
    check_judgement(judgement, len(verdicts), Box(2))
    return judgement


def samples_of(rows: list[np.ndarray], judgement: Judgement | None, **rule) -> TrainingSamples:
    return of_policy(combine(np.stack(rows), judgement, dataclasses.replace(RULE, **rule)))


def of_policy(samples: TrainingSamples) -> TrainingSamples:
    """The samples from which the policy learns."""
    names = ("index", "action", "log_prob", "reward", "terminal", "policy", "value")
    return dataclasses.replace(samples, **{name: getattr(samples, name)[samples.policy] for name in names})


def test_the_value_learns_once_from_each_experience_what_followed_the_proposal():
    """Its reward, not weakened, and whether the episode ended; a blocked action ends for the policy alone.

    After a SEND it is the mixture 0.3 x 2 + 0.7 x 1, otherwise the actual one.
    """
    rows = [row(SEND, 1.0), row(WAIT, -3.0), row(WAIT, 2.0, held=True), row(OFF, 4.0)]
    got = combine(np.stack(rows), says([SEND, WAIT, WAIT, WAIT], [2.0] * 4), RULE)
    order = np.argsort(got.index[got.value])
    assert got.index[got.value][order].tolist() == [0, 1, 2, 3]
    assert got.reward[got.value][order].tolist() == pytest.approx([1.3, -3.0, 2.0, 4.0])
    assert got.action[got.value][order].tolist() == [PROPOSED] * 4
    assert not got.terminal[got.value].any()
    assert (len(got), int(got.policy.sum())) == (5, 5)  # sent, executed instead, blocked twice, not gated


def test_the_penalty_of_a_disagreement_is_for_the_policy_alone():
    """The later rewards of other experiences have no penalty either, so the value has one target and not two."""
    rows = np.stack([row(SEND, 1.0), row(SEND, 1.0)])
    rows["expected"] = 2.0
    rule = dataclasses.replace(RULE, on_disagreement="penalty", disagreement_penalty=0.25)
    got = combine(rows, says([WAIT, SEND], [2.0, 2.0]), rule)
    assert got.reward[got.policy].tolist() == pytest.approx([1.05, 1.3])
    assert sorted(got.index[got.value].tolist()) == [0, 1]
    assert got.reward[got.value].tolist() == pytest.approx([1.3, 1.3])
    assert later_rewards(rows, rule, gated=True).tolist() == pytest.approx([1.3, 1.3])


def test_the_defaults_are_those_of_the_document():
    assert (RULE.expected_weight, RULE.actual_weight, RULE.wait_multiplier, RULE.train_on_wait) == (0.3, 0.7, 0.5, True)


@pytest.mark.parametrize(
    ("reward", "m", "counts"),
    [(2, 0.5, 1), (-2, 0.5, -3), (-2, 1.0, -2), (2, 1.0, 2), (2, 0.0, 0), (-2, 0.0, -4), (0, 0.5, 0)],
)
def test_weakened_is_less_good_and_never_less_bad(reward, m, counts):
    """r - (1 - m) |r|: half of -2 would be -1, which rewards being blocked."""
    assert weakened(np.array([float(reward)]), m).tolist() == [counts]


def test_what_was_sent_teaches_a_mixture():
    """0.3 x 2 + 0.7 x 1 = 1.3, of the proposed action under the policy that proposed it."""
    got = samples_of([row(SEND, 1.0)], says([SEND], [2.0]))
    assert got.reward.tolist() == pytest.approx([1.3])
    assert (got.index.tolist(), got.action.tolist(), got.log_prob.tolist()) == ([0], [PROPOSED], [SAID])
    assert (got.gated, got.agreed) == (1, 1)
    got = samples_of([row(SEND, 1.0)], says([SEND], [2.0]), expected_weight=1.0, actual_weight=0.5)
    assert got.reward.tolist() == [2.5]


@pytest.mark.parametrize(("reward", "counts"), [(1.0, 0.5), (-1.0, -1.5)])
def test_after_a_wait_the_reward_belongs_to_what_was_done_instead(reward, counts):
    got = samples_of([row(WAIT, reward)], says([WAIT], [-9.0]), train_on_blocked=False)
    assert (got.action.tolist(), got.reward.tolist()) == ([EXECUTED], [counts])
    assert got.log_prob.tolist() == [EXECUTED_SAID]  # not that of the proposal, which did not happen
    assert (got.index.tolist(), got.gated, got.agreed) == ([0], 1, 1)


@pytest.mark.parametrize(("expected", "counts"), [(-2.0, -3.0), (2.0, 1.0)])
def test_what_was_blocked_is_learned_from_what_the_gate_expects_of_it(expected, counts):
    got = samples_of([row(WAIT, 1.0)], says([WAIT], [expected]), train_on_wait=False)
    assert (got.action.tolist(), got.log_prob.tolist(), got.reward.tolist()) == ([PROPOSED], [SAID], [counts])
    both = samples_of([row(SEND, 0.0), row(WAIT, 1.0)], says([SEND, WAIT], [0.0, expected]))
    assert both.index.tolist() == [0, 1, 1]
    assert both.action.tolist() == [PROPOSED, EXECUTED, PROPOSED]
    assert both.reward.tolist() == [0.0, 0.5, counts]
    assert (len(both), both.gated, both.agreed) == (3, 2, 2)


def test_waits_can_be_left_out():
    rows = [row(SEND, 1.0), row(WAIT, 1.0)]
    got = samples_of(rows, says([SEND, WAIT], [1.0, 1.0]), train_on_wait=False, train_on_blocked=False)
    assert (got.index.tolist(), got.gated, got.agreed) == ([0], 2, 2)


def test_where_nothing_was_done_no_action_earned_the_reward():
    got = samples_of([row(WAIT, 5.0, held=True)], says([WAIT], [-1.0]))
    assert (got.action.tolist(), got.reward.tolist()) == ([PROPOSED], [-1.5])  # of the proposal, what is expected
    assert len(samples_of([row(WAIT, 5.0, held=True)], says([WAIT], [-1.0]), train_on_blocked=False)) == 0


def test_without_a_gate_rewards_are_what_came():
    """`gate=off` stores OFF, which is not SEND: not mixed, and no agreement, also where there is a gate today."""
    rows = [row(OFF, 2.0), row(OFF, -2.0)]
    for judgement in (None, says([SEND, WAIT], [9.0, 9.0])):
        got = samples_of(rows, judgement, on_disagreement="penalty")
        assert got.reward.tolist() == [2.0, -2.0]
        assert got.action.tolist() == [PROPOSED] * 2
        assert (got.gated, got.agreed) == (0, 0)


def test_gated_experience_without_a_gate_today():
    """Nobody can be asked again: what was sent keeps its reward, a wait is weakened, a blocked one has no reward."""
    got = samples_of([row(SEND, 1.0), row(WAIT, 1.0)], None)
    assert (got.index.tolist(), got.reward.tolist()) == ([0, 1], [1.0, 0.5])
    assert (got.gated, got.agreed) == (0, 0)


def test_a_gate_that_changed_its_mind_takes_the_experience_out():
    rows = [row(SEND, 1.0), row(SEND, 2.0), row(WAIT, 1.0), row(WAIT, 2.0), row(OFF, 4.0)]
    got = samples_of(rows, says([SEND, WAIT, WAIT, SEND, WAIT], [0.0] * 5), on_disagreement="skip")
    assert got.index.tolist() == [0, 2, 4, 2]  # what was done, then what was blocked
    assert (got.gated, got.agreed) == (4, 2)


def test_or_is_punished_for_it():
    """SEND that is now a WAIT: 0.7 x 1 + 0.3 x 2 - 0.25; WAIT that is now a SEND: 0.5 - 0.25, blocked 1 - 0.25."""
    rows = [row(SEND, 1.0), row(WAIT, 1.0), row(SEND, 1.0)]
    judgement = says([WAIT, SEND, SEND], [2.0, 2.0, 2.0])
    got = samples_of(rows, judgement, on_disagreement="penalty", disagreement_penalty=0.25)
    assert got.index.tolist() == [0, 1, 2, 1]
    assert got.reward.tolist() == pytest.approx([1.3 - 0.25, 0.25, 1.3, 0.75])
    assert (got.gated, got.agreed) == (3, 1)


@pytest.mark.parametrize("judgement", [None, says([], [])])
def test_of_nothing_nothing_is_learned(judgement):
    got = combine(np.zeros(0, LAYOUT.dtype()), judgement, RULE)
    assert (len(got), got.action.shape, got.gated, got.agreed) == (0, (0, 2), 0, 0)


def test_the_rows_stay_as_they_were():
    rows = np.stack([row(SEND, 1.0), row(WAIT, -1.0)])
    before = rows.tobytes()
    combine(rows, says([SEND, SEND], [1.0, 2.0]), dataclasses.replace(RULE, on_disagreement="penalty"))
    assert rows.tobytes() == before


def test_a_fallback_that_is_no_choice_is_named():
    judgement = Judgement(np.array([SEND, WAIT]), np.zeros(2), {}, np.array([[2], [3]]))
    check_judgement(judgement, 2, Discrete(4))
    with pytest.raises(ValueError, match=r"action \[3\] is out of range; allowed: whole numbers, 0 to 2"):
        check_judgement(judgement, 2, Discrete(3))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Judgement(np.array([SEND]), np.zeros(2), {}), "verdict"),
        (Judgement(np.array([SEND, OFF]), np.zeros(2), {}), "verdict"),
        (Judgement(np.array([SEND, WAIT]), np.array([0.0, math.nan]), {}), "expected reward"),
        (Judgement(np.array([SEND, WAIT]), np.zeros(3), {}), "expected reward"),
        (Judgement(np.array([SEND, WAIT]), np.zeros(2), {"cost": np.array([1.0, math.inf])}), "component 'cost'"),
        (Judgement(np.array([SEND, WAIT]), np.zeros(2), {}, np.zeros((2, 3))), r"fallback has shape \(2, 3\)"),
        (Judgement(np.array([SEND, WAIT]), np.zeros(2), {}, np.full((2, 2), math.nan)), "fallback"),
    ],
)
def test_an_answer_of_a_gate_that_is_none_is_named(broken, message):
    with pytest.raises(ValueError, match=message):
        check_judgement(broken, 2, Box(2))

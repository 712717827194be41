"""Decisions that wait for their reward."""

from __future__ import annotations

import random

import numpy as np
import pytest

from livegym.online.pending import REMEMBERED, SESSION, Pending, RewardError
from tests.experiences import pending as decision_of

NEXT = np.ones(2, np.float32)


def opened(*decisions, stream="a", **settings):
    pending = Pending(**{"time_to_live": 60.0, "capacity": 100, **settings})
    for decision in decisions:
        pending.add(decision_of(decision, stream))
    return pending


def numbers(pending):
    return [experience.decision for experience in pending.all()]


@pytest.mark.parametrize("reward_first", [True, False])
def test_a_decision_is_complete_with_reward_and_next_observation_in_any_order(reward_first):
    pending = opened(1)
    steps = [lambda: pending.rewarded("a", 1, 0.5), lambda: pending.followed("a", NEXT)]
    first, second = steps if reward_first else steps[::-1]
    assert first() is None
    done = second()
    assert (done.reward, done.next_obs.tolist(), done.done, len(pending)) == (0.5, [1.0, 1.0], False, 0)


def test_rewards_find_their_decision_whatever_their_order():
    pending = Pending(60.0, 100)
    for decision in (1, 2):
        for stream in ("a", "b"):
            pending.followed(stream, np.full(2, 10 * decision, np.float32))
            pending.add(decision_of(decision, stream))
    assert pending.rewarded("b", 2, 5.0) is None  # nothing has come after it yet
    done = pending.rewarded("b", 1, 7.0)
    assert (done.stream, done.decision, done.reward, done.next_obs[0]) == ("b", 1, 7.0, 20.0)
    assert [(e.stream, e.decision) for e in pending.all()] == [("a", 1), ("a", 2), ("b", 2)]


def test_an_end_needs_no_observation_and_an_observation_may_bring_the_end():
    pending = opened(1)
    assert pending.rewarded("a", 1, 1.0, done=True).done is True
    pending.add(decision_of(2))
    assert pending.rewarded("a", 2, 1.0) is None
    assert pending.followed("a", NEXT, done=True).done is True


def test_only_the_newest_decision_of_a_stream_is_followed_and_once():
    pending = opened(1, 2)
    pending.rewarded("a", 2, 1.0)
    assert pending.followed("a", NEXT).decision == 2
    assert pending.followed("a", NEXT) is None
    assert numbers(pending) == [1]


@pytest.mark.parametrize(
    ("stream", "decision", "reward", "kind"),
    [
        ("a", SESSION + 1, 0.5, "duplicate"),
        ("a", SESSION + 4, 0.5, "duplicate"),
        ("a", SESSION + 9, 0.5, "unknown"),
        ("b", SESSION + 2, 0.5, "unknown"),
        ("a", SESSION + 3, 0.5, "late"),
        ("a", 7, 0.5, "late"),
        ("a", -7, 0.5, "unknown"),
        ("a", SESSION + 2, float("nan"), "invalid"),
        ("a", SESSION + 2, float("inf"), "invalid"),
    ],
)
def test_a_reward_that_makes_no_sense_is_counted_and_changes_nothing(stream, decision, reward, kind):
    pending = Pending(60.0, 100)
    pending.add(decision_of(SESSION + 3, clock=-100.0))
    for number in (1, 2, 4):
        pending.add(decision_of(SESSION + number))
    pending.rewarded("a", SESSION + 4, 1.0)
    pending.rewarded("a", SESSION + 1, 1.0, done=True)
    assert pending.expire(now=10.0) == 1
    before = pending.all()
    with pytest.raises(RewardError) as error:
        pending.rewarded(stream, decision, reward)
    assert error.value.kind == kind
    assert pending.refused == {kind: 1}
    assert pending.all() == before


@pytest.mark.parametrize("obs", [np.ones(3, np.float32), np.array([1.0, np.nan], np.float32), np.float32(1.0)])
def test_a_next_observation_that_does_not_fit_leaves_the_decision_open(obs):
    pending = opened(1)
    with pytest.raises(ValueError, match=r"expected \(2,\), all finite"):
        pending.followed("a", obs)
    assert numbers(pending) == [1]


def test_an_id_is_used_once_and_the_oldest_gives_way():
    pending = opened(1, capacity=2)
    with pytest.raises(ValueError, match="this id is in use"):
        pending.add(decision_of(1))
    for decision in (2, 3):
        pending.add(decision_of(decision))
    assert (numbers(pending), pending.expired) == ([2, 3], 1)
    for decision in range(10, 10 + 2 * REMEMBERED):
        pending.add(decision_of(decision))
    assert len(pending._ended["a"]) == REMEMBERED


def test_ids_are_never_used_again_after_a_restart():
    first, second = Pending(60.0, 10, session=1), Pending(60.0, 10, session=2)
    assert [first.next_id(), first.next_id()] == [SESSION + 1, SESSION + 2]
    assert second.next_id() == 2 * SESSION + 1


def test_a_thousand_rewards_shuffled_doubled_lost_invented_and_late():
    """Each joins its own decision; all others are counted: none is learned from as 0, and none blocks."""
    rng = random.Random(0)
    pending = Pending(60.0, 2000)
    ids = [pending.next_id() for _ in range(1000)]
    for number, decision in enumerate(ids):
        pending.followed("a", np.zeros(2, np.float32))
        pending.add(decision_of(decision, clock=-100.0 if number < 50 else 0.0))
    pending.followed("a", np.zeros(2, np.float32))
    assert pending.expire(now=0.0) == 50
    never, said = set(ids[50:100]), [decision for decision in ids if decision not in set(ids[50:100])]
    said += said[-50:]
    rng.shuffle(said)
    joined, kinds = {}, []
    for decision in [*said, *(SESSION + 5000 + k for k in range(50))]:
        try:
            joined[decision] = pending.rewarded("a", decision, float(decision % SESSION)).reward
        except RewardError as error:
            kinds.append(error.kind)
    assert joined == {decision: float(decision % SESSION) for decision in ids[100:]}
    assert dict(pending.refused) == {"late": 50, "duplicate": 50, "unknown": 50}
    assert set(numbers(pending)) == never


def test_another_stream_that_names_an_id_takes_nothing_from_its_owner():
    pending = opened(SESSION + 1)
    with pytest.raises(RewardError, match=f"stream 'b' has no known decision {SESSION + 1}"):
        pending.rewarded("b", SESSION + 1, 9.0)
    assert pending.rewarded("a", SESSION + 1, 1.0, done=True).reward == 1.0


def test_a_decision_whose_episode_broke_off_is_followed_by_nothing_but_its_end_completes_it():
    pending = opened(1)
    assert pending.break_off("a")
    assert not pending.break_off("a")
    assert pending.followed("a", NEXT) is None
    assert pending.last_of("a") is None
    pending.add(decision_of(2))
    assert pending.followed("a", NEXT) is None
    assert pending.rewarded("a", 1, 0.5, done=True).decision == 1
    assert not pending.break_off("a")  # the second one has its next observation, and waits for its reward
    assert pending.rewarded("a", 2, 0.5).next_obs is not None


def test_a_decision_of_last_night_is_not_followed_by_this_mornings_observation():
    """By the system clock, because nothing is served in between; a clock that was set back changes nothing."""
    saved = [decision_of(1, "a", time=1000.0), decision_of(2, "b", time=1050.0)]
    for now, followed in (
        (1055.0, [True, True]),
        (1100.0, [False, True]),
        (40_000.0, [False, False]),
        (5.0, [True] * 2),
    ):
        pending = Pending(60.0, 100, session=2)
        pending.restore(saved, now)
        assert [pending.last_of(stream) is not None for stream in "ab"] == followed
        assert pending.rewarded("a", 1, 1.0) is None  # its reward is accepted all the same
        assert (pending.followed("a", NEXT) is not None) == followed[0]

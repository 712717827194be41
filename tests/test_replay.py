"""Experiences that wait for their reward, and the buffer of those that have it."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from online.experience import Experience, Layout, Verdict
from online.pending import REMEMBERED, Pending, RewardError
from online.replay import BETA, FLOOR, BufferTimeout, Replay
from tasks.base import Box, Discrete, MultiDiscrete

LAYOUT = Layout(obs=2, action=1, discrete=True)
RNG = np.random.default_rng(0)


def experience(
    decision: int = 0, stream: str = "a", reward: float | None = None, time: float = 0.0, **changes
) -> Experience:
    values = {
        "obs": np.full(2, decision, np.float32), "proposed": np.array([1]), "executed": np.array([0]),
        "log_prob": -0.5, "confidence": 0.9, "verdict": Verdict.SEND, "expected": 0.25, "seen": np.zeros(0, np.float32),
        "version": 3, "time": time, "stream": stream, "decision": decision,
    }  # fmt: skip
    made = Experience(**{**values, **changes})
    return made if reward is None else made.completed(reward, np.full(2, decision + 1, np.float32), False)


@pytest.mark.parametrize(
    ("spec", "layout"),
    [(Box(3), Layout(5, 3, False)), (Discrete(4), Layout(5, 1, True)), (MultiDiscrete((400, 2)), Layout(5, 2, True))],
)
def test_an_action_is_a_row_of_numbers(spec, layout):
    assert Layout.of(5, spec) == layout


def next_obs() -> np.ndarray:
    return np.ones(2, np.float32)


def test_rewards_find_their_decision_whatever_their_order():
    pending = Pending(60.0, 100)
    for decision in (1, 2):
        for stream in ("a", "b"):
            pending.add(experience(decision, stream))
    assert pending.complete("b", 2, 5.0, next_obs(), False).reward == 5.0
    done = pending.complete("b", 1, 7.0, next_obs(), True)
    assert (done.stream, done.decision, done.reward, done.done, done.obs[0]) == ("b", 1, 7.0, True, 1.0)
    assert [(e.stream, e.decision) for e in pending.all()] == [("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    ("stream", "decision", "reward", "kind"),
    [
        ("a", 1, 0.5, "duplicate"),
        ("a", 9, 0.5, "unknown"),
        ("b", 2, 0.5, "unknown"),
        ("a", 3, 0.5, "late"),
        ("a", 2, float("nan"), "invalid"),
    ],
)
def test_a_reward_that_makes_no_sense_is_counted_and_changes_nothing(stream, decision, reward, kind):
    pending = Pending(60.0, 100)
    for number, time in ((1, 0.0), (3, -100.0), (2, 0.0)):
        pending.add(experience(number, time=time))
    pending.complete("a", 1, 1.0, next_obs(), False)
    assert pending.expire(now=10.0) == 1
    with pytest.raises(RewardError) as error:
        pending.complete(stream, decision, reward, next_obs(), False)
    assert error.value.kind == kind
    assert pending.refused == {kind: 1}
    assert [e.decision for e in pending.all()] == [2]


@pytest.mark.parametrize("obs", [np.ones(3, np.float32), np.array([1.0, np.nan], np.float32), np.float32(1.0)])
def test_a_next_observation_that_does_not_fit_leaves_the_decision_open(obs):
    pending = Pending(60.0, 100)
    pending.add(experience(1))
    with pytest.raises(RewardError, match="next observation of decision 1"):
        pending.complete("a", 1, 1.0, obs, False)
    assert pending.complete("a", 1, 1.0, next_obs(), False).reward == 1.0


def test_an_id_is_used_once_and_the_oldest_gives_way():
    pending = Pending(60.0, capacity=2)
    pending.add(experience(1))
    with pytest.raises(ValueError, match="has been made already"):
        pending.add(experience(1))
    for decision in (2, 3):
        pending.add(experience(decision))
    assert ([e.decision for e in pending.all()], pending.expired) == ([2, 3], 1)
    for decision in range(10, 10 + 2 * REMEMBERED):
        pending.add(experience(decision))
    assert len(pending._ended["a"]) == REMEMBERED


def test_the_buffer_keeps_the_last_ones():
    replay = Replay(LAYOUT, capacity=3)
    for decision in range(5):
        replay.add(experience(decision, reward=float(decision)))
    batch = replay.sample(200, np.random.default_rng(0))
    assert len(replay) == 3
    assert set(batch.reward.tolist()) == {2.0, 3.0, 4.0}
    assert set(batch.decision.tolist()) == {2, 3, 4}
    assert (batch.next_obs[:, 0] == batch.obs[:, 0] + 1).all()
    assert batch.weights.tolist() == [1.0] * 200
    assert set(batch.verdict.tolist()) == {Verdict.SEND}


def test_a_batch_has_each_experience_once_where_there_are_enough():
    replay = Replay(LAYOUT, capacity=50)
    for decision in range(40):
        replay.add(experience(decision, reward=0.0))
    assert len(set(replay.sample(40, np.random.default_rng(0)).decision.tolist())) == 40


def test_an_empty_buffer_gives_an_empty_batch():
    assert len(Replay(LAYOUT).sample(8, RNG)) == 0


def test_a_pending_or_misshapen_experience_is_refused():
    replay = Replay(LAYOUT)
    with pytest.raises(ValueError, match="no reward yet"):
        replay.add(experience(1))
    with pytest.raises(ValueError, match="sizes"):
        replay.add(experience(1, obs=np.zeros(3, np.float32), reward=1.0))
    assert len(replay) == 0


def test_prioritised_sampling_is_in_proportion_and_its_weights_undo_it():
    """Two experiences, errors 1 and 0.1: p ~ (1.05, 0.15)^0.6, weights (2 p)^-0.4 over their maximum."""
    replay = Replay(LAYOUT, prioritised=True)
    for decision in range(2):
        replay.add(experience(decision, reward=0.0))
    both = replay.sample(50, np.random.default_rng(0))
    order = [both.decision.tolist().index(d) for d in (0, 1)]
    one_each = type(both)(both.slots[order], both.stamps[order], both.weights[order], {})
    replay.prioritise(one_each, np.array([1.0, -0.1]))
    batch = replay.sample(40_000, np.random.default_rng(1))
    raw = np.array([1.0 + FLOOR, 0.1 + FLOOR]) ** 0.6
    share = raw / raw.sum()
    assert (batch.decision == 0).mean() == pytest.approx(share[0], abs=0.01)
    weights = (2 * share) ** -BETA
    assert batch.weights[batch.decision == 0][0] == pytest.approx(weights[0] / weights.max(), rel=1e-5)
    assert batch.weights[batch.decision == 1][0] == pytest.approx(1.0)


def test_priorities_of_slots_that_were_written_over_are_left_alone():
    replay = Replay(LAYOUT, capacity=1, prioritised=True)
    replay.add(experience(0, reward=1.0))
    old = replay.sample(1, RNG)
    replay.add(experience(1, reward=1.0))
    replay.sample(1, RNG)
    before = replay._priority[0]
    replay.prioritise(old, np.array([100.0]))
    assert replay._priority[0] == before


def test_old_experiences_expire():
    replay = Replay(LAYOUT)
    for decision in range(4):
        replay.add(experience(decision, reward=0.0, time=float(decision)))
    assert replay.expire(before=2.0) == 2
    assert set(replay.sample(50, np.random.default_rng(0)).decision.tolist()) == {2, 3}
    assert len(replay) == 2


@pytest.mark.parametrize("prioritised", [False, True])
def test_a_saved_buffer_goes_on_as_it_was(tmp_path, prioritised):
    replay = Replay(LAYOUT, 8, prioritised)
    for decision in range(11):
        replay.add(experience(decision, stream="ab"[decision % 2], reward=float(decision)))
    replay.expire(before=-1.0)
    replay.save(tmp_path / "replay.npz")
    again = Replay(LAYOUT, 8, prioritised)
    again.load(tmp_path / "replay.npz")
    for one in (replay, again):
        one.add(experience(11, stream="c", reward=1.0))
    first, second = (one.sample(30, np.random.default_rng(5)) for one in (replay, again))
    for name, column in first.arrays.items():
        assert (column == second.arrays[name]).all(), name
    assert (first.weights == second.weights).all()


def test_a_buffer_of_another_task_is_refused(tmp_path):
    Replay(LAYOUT, 8).save(tmp_path / "replay.npz")
    other = Replay(Layout(obs=3, action=1, discrete=True), 8)
    with pytest.raises(ValueError, match="of another buffer: obs, next_obs"):
        other.load(tmp_path / "replay.npz")


def test_a_pickle_in_the_file_is_never_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    np.savez(tmp_path / "replay.npz", obs=np.array([Evil()], dtype=object))
    with pytest.raises(ValueError, match="pickle"):
        Replay(LAYOUT, 8).load(tmp_path / "replay.npz")
    assert not (tmp_path / "ran").exists()


def test_adding_never_waits_for_a_reader(monkeypatch):
    monkeypatch.setattr("online.replay.LOCK", 0.05)
    replay = Replay(LAYOUT, capacity=4)
    with replay._held():
        for decision in range(6):
            replay.add(experience(decision, reward=0.0))
        with pytest.raises(BufferTimeout):
            replay.sample(1, RNG)
    assert replay.dropped == 2
    assert set(replay.sample(50, np.random.default_rng(0)).decision.tolist()) == {2, 3, 4, 5}


def test_nothing_is_lost_or_mixed_between_threads():
    """Four writers and two readers: rows stay whole, and every experience arrives once."""
    replay = Replay(LAYOUT, capacity=4000)
    mixed: list[int] = []

    def write(name: str) -> None:
        for decision in range(1000):
            replay.add(experience(decision, stream=name, reward=float(decision)))

    def read() -> None:
        rng = np.random.default_rng(0)
        for _ in range(200):
            batch = replay.sample(32, rng)
            if len(batch):
                mixed.extend(np.flatnonzero((batch.reward != batch.decision) | (batch.obs[:, 0] != batch.decision)))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mixed == []
    assert (len(replay), replay.added, replay.dropped) == (4000, 4000, 0)

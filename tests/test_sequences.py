"""What follows what in the replay buffer: by stream and observation, whatever the order in which rewards came."""

from __future__ import annotations

import numpy as np
import pytest

from livegym.online.replay import ReplayReader, ReplayWriter
from tests.experiences import LAYOUT, complete

ALL = lambda rows: np.ones(len(rows), bool)  # noqa: E731


def step(stream: str, number: int, done: bool = False):
    """Decision `number` of a stream: its observation is the next one of the decision before."""
    at = 100 * ord(stream) + number
    made = complete(number, stream=stream, obs=np.full(2, at, np.float32))
    return made.followed(np.full(2, at + 1, np.float32), done)


class Buffer:
    """A replay file with its writer and reader."""

    def __init__(self, folder, capacity: int = 64) -> None:
        self.writer = ReplayWriter(folder / "replay.bin", LAYOUT, capacity)
        self.reader = ReplayReader(folder / "replay.bin", LAYOUT, capacity)

    def after(self, stream: str, number: int, steps: int = 10, usable=ALL) -> list[int]:
        """The decisions that follow one, as the reader finds them."""
        rows = self.reader.fresh(0)
        rows = rows[(rows["stream"] == stream.encode()) & (rows["decision"] == number)]
        found, row, at = self.reader.follow(rows, steps, usable)
        assert row.tolist() == [0] * len(found)
        assert at.tolist() == list(range(len(found)))
        assert set(found["stream"].tolist()) <= {stream.encode()}
        return found["decision"].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_streams_interleave_and_late_rewards_change_the_order(tmp_path, seed):
    buffer = Buffer(tmp_path)
    made = [step(stream, number) for number in range(12) for stream in "ab"]
    np.random.default_rng(seed).shuffle(made)
    for experience in made:
        buffer.writer.add(experience)
        buffer.reader.follow(buffer.reader.fresh(0)[:1], 3, ALL)  # the index grows with the buffer
    assert buffer.after("a", 2) == list(range(3, 12))
    assert buffer.after("b", 8) == [9, 10, 11]
    assert buffer.after("a", 2, steps=4) == [3, 4, 5, 6]


def test_an_end_a_gap_and_a_rejected_row_cut_a_sequence(tmp_path):
    buffer = Buffer(tmp_path)
    for experience in [*(step("a", n, done=n == 3) for n in range(6)), *(step("b", n) for n in (0, 1, 3, 4))]:
        buffer.writer.add(experience)
    assert buffer.after("a", 1) == [2, 3]  # 4 begins another episode, though its observation would fit
    assert buffer.after("a", 3) == []
    assert buffer.after("b", 0) == [1]  # 2 was excluded from training
    assert buffer.after("b", 3) == [4]
    assert buffer.after("a", 0, usable=lambda rows: rows["decision"] != 2) == [1]


def test_what_was_overwritten_does_not_follow(tmp_path):
    buffer = Buffer(tmp_path, capacity=8)
    for number in range(6):
        buffer.writer.add(step("a", number))
    rows = buffer.reader.fresh(0)
    assert buffer.after("a", 0) == [1, 2, 3, 4, 5]
    for number in range(6):
        buffer.writer.add(step("b", number))
    found, row, _ = buffer.reader.follow(rows[:1], 10, ALL)  # a copy whose slot was overwritten
    assert (len(found), len(row)) == (0, 0)
    assert buffer.after("a", 4) == [5]
    assert buffer.after("b", 0) == [1, 2, 3, 4, 5]


def test_equal_observations_are_followed_forwards_only(tmp_path):
    """A stream that stands still: each decision's next observation is the observation of all of them."""
    buffer = Buffer(tmp_path)
    obs = np.ones(2, np.float32)
    for number in (0, 2, 1, 3):
        buffer.writer.add(complete(number, obs=obs).followed(obs, False))
    for number in range(4):
        after = buffer.after("a", number)
        assert after == sorted(set(after))
        assert all(later > number for later in after)
    assert buffer.after("a", 0)


def test_a_new_reader_knows_the_whole_buffer(tmp_path):
    buffer = Buffer(tmp_path, capacity=16)
    for number in range(40):
        buffer.writer.add(step("a", number))
    buffer.reader = ReplayReader(tmp_path / "replay.bin", LAYOUT, 16)
    assert buffer.after("a", 30) == list(range(31, 40))

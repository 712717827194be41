"""The replay buffer: a file that one process writes and another one reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from livegym.online import replay
from livegym.online.experience import Layout, Verdict, from_row, to_row
from livegym.online.priorities import FLOOR, Priorities
from livegym.online.replay import BETA, ReplayReader, ReplayWriter, Sieve
from livegym.online.ring import file_bytes
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.utils.errors import UserError
from tests.disk_fixtures import small_disk
from tests.experiences import LAYOUT, complete, mixed, pending

ROOT = Path(__file__).parent.parent
WRITER = """
import sys
from pathlib import Path
from livegym.online.replay import ReplayWriter
from tests.experiences import LAYOUT, complete
writer = ReplayWriter(Path(sys.argv[1]), LAYOUT, int(sys.argv[2]))
made = [complete(k) for k in range(4096)]
print("ready", flush=True)
while True:
    for experience in made:
        writer.add(experience)
"""
__all__ = ["small_disk"]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "replay.bin"


def both(file, capacity=100, prioritised=False, layout=LAYOUT):
    priorities = Priorities(file.with_name("priorities.bin"), capacity) if prioritised else None
    return ReplayWriter(file, layout, capacity), ReplayReader(file, layout, capacity, priorities)


def decisions(rows):
    return sorted(rows["decision"].tolist())


@pytest.mark.parametrize(
    ("spec", "layout"),
    [(Box(3), Layout(5, 3, False)), (Discrete(4), Layout(5, 1, True)), (MultiDiscrete((400, 2)), Layout(5, 2, True))],
)
def test_an_action_is_a_row_of_numbers(spec, layout):
    assert Layout.of(5, spec) == layout
    assert layout.dtype().itemsize % 8 == 0


def test_a_row_gives_the_experience_back():
    row = np.zeros(1, LAYOUT.dtype())
    for experience in (complete(7, verdict=Verdict.WAIT, held=True), pending(8, stream="Zürich"), complete(9)):
        to_row(experience, row[0])
        again = from_row(row[0])
        for name, value in vars(experience).items():
            found = getattr(again, name)
            assert found == pytest.approx(value) if not isinstance(value, np.ndarray) else (found == value).all(), name


def test_the_buffer_keeps_the_last_ones(file):
    writer, reader = both(file, 3)
    for decision in range(5):
        writer.add(complete(decision))
    rows, weights = reader.sample(3, np.random.default_rng(0))
    assert decisions(rows) == [2, 3, 4]
    assert mixed(rows) == 0
    assert weights.tolist() == [1.0] * 3
    assert (len(writer), writer.added, reader.added) == (3, 5, 5)


def test_a_batch_has_each_experience_once_and_no_more_than_there_are(file):
    writer, reader = both(file)
    assert len(reader.sample(8, np.random.default_rng(0))[0]) == 0
    for decision in range(20):
        writer.add(complete(decision))
    assert len(set(decisions(reader.sample(15, np.random.default_rng(0))[0]))) == 15
    assert decisions(reader.sample(32, np.random.default_rng(0))[0]) == list(range(20))


def test_batches_that_wrap_are_as_a_deque_has_them(file):
    writer, reader = both(file, 10)
    expected: deque[int] = deque(maxlen=10)
    count = 0
    for size in (3, 7, 12, 3, 7, 12, 1):
        for _ in range(size):
            writer.add(complete(count + 1))
            expected.append(count + 1)
            count += 1
        rows = reader.fresh(0)
        assert rows["decision"].tolist() == list(expected)
        assert (mixed(rows), len(writer)) == (0, len(expected))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (pending(1), "is not complete yet"),
        (replace(complete(1), next_obs=None), "is not complete yet"),
        (replace(complete(1), intervened=True), "human intervention"),
        (complete(1, obs=np.zeros(3, np.float32)), "has shapes"),
        (complete(1, seen=np.zeros(0, np.float32)), "has shapes"),
    ],
)
def test_what_is_no_whole_experience_is_refused(file, wrong, message):
    writer, _ = both(file)
    with pytest.raises(ValueError, match=message):
        writer.add(wrong)
    assert len(writer) == writer.added == 0


def test_the_last_rewards_are_those_of_the_newest_also_where_the_buffer_has_wrapped(file):
    writer, reader = both(file, 4)
    assert reader.last_rewards(3).tolist() == []
    for decision in range(6):
        writer.add(complete(decision))
    assert sorted(reader.last_rewards(3).tolist()) == [3.0, 4.0, 5.0]
    assert sorted(reader.last_rewards(100).tolist()) == [2.0, 3.0, 4.0, 5.0]


def test_prioritised_sampling_is_in_proportion_and_its_weights_undo_it(file):
    """Two experiences, errors 1 and 0.1: p ~ (1.05, 0.15)^0.6, weights (2 p)^-0.4 over their maximum."""
    writer, reader = both(file, prioritised=True)
    for decision in range(2):
        writer.add(complete(decision, reward=0.0))
    rows = reader.fresh(0)
    reader.sample(2, np.random.default_rng(0))
    reader.prioritise(rows, np.array([1.0, -0.1]))
    rows, weights = reader.sample(40_000, np.random.default_rng(1))
    raw = np.array([1.0 + FLOOR, 0.1 + FLOOR]) ** 0.6
    share = raw / raw.sum()
    assert (rows["decision"] == 0).mean() == pytest.approx(share[0], abs=0.01)
    wanted = (2 * share) ** -BETA
    assert weights[rows["decision"] == 0][0] == pytest.approx(wanted[0] / wanted.max(), rel=1e-5)
    assert weights[rows["decision"] == 1][0] == pytest.approx(1.0)


def test_rare_and_highly_rewarded_ones_come_first_at_first(file):
    writer, reader = both(file, prioritised=True)
    for decision in range(50):
        writer.add(complete(decision, reward=10.0 if decision == 7 else 0.0))
    rows, _ = reader.sample(5000, np.random.default_rng(0))
    assert (rows["decision"] == 7).mean() > 5 / 50


def test_an_absurd_reward_has_the_least_priority_and_does_not_count_in_the_spread(file):
    """It was the greatest priority for ever, because it is never trained on, and all others had the least."""
    writer, reader = both(file, prioritised=True)
    absurd = {3: 1e30, 5: float("nan"), 6: -1e30}
    for number in range(9):
        writer.add(complete(number, absurd.get(number, float(number % 2))))
    drawn = reader.sample(2000, np.random.default_rng(0))[0]["number"]
    assert reader.priorities.of(np.array(list(absurd))).tolist() == [FLOOR] * 3
    assert set(drawn.tolist()) >= {0, 1, 2, 4, 7, 8}
    count, mean, squares = reader.priorities._rewards
    assert (count, mean, squares) == (6, pytest.approx(1 / 3), pytest.approx(4 / 3))


def test_priorities_that_count_absurd_rewards_are_set_again(tmp_path, caplog):
    """A file of an earlier release, or of a run whose `task.max_reward` is lower now: it is not damaged."""
    path, slots = tmp_path / "priorities.bin", np.arange(4)
    Priorities(path, 10, max_reward=1e40).begin(slots, slots, np.array([1e30, 0.0, 1.0, 1.0]))
    assert Priorities(path, 10).unknown(slots, slots).all()
    (said,) = caplog.messages
    assert "counts rewards above task.max_reward=1e+06, which was greater before: all priorities are set again" in said


def test_priorities_of_slots_that_were_written_over_are_left_alone(file):
    writer, reader = both(file, 1, prioritised=True)
    writer.add(complete(0))
    old, _ = reader.sample(1, np.random.default_rng(0))
    writer.add(complete(1))
    reader.sample(1, np.random.default_rng(0))
    before = reader.priorities.of(np.array([0]))
    reader.prioritise(old, np.array([100.0]))
    assert reader.priorities.of(np.array([0])) == before


def test_what_is_too_old_is_not_sampled_whatever_the_wall_clock_says(file):
    writer, reader = both(file)
    fresh = Sieve(max_age=2.0)
    for decision in range(4):
        writer.add(complete(decision, clock=float(decision), time=1e9 * (-1) ** decision))
    writer.tell(4.5)
    assert decisions(reader.sample(50, np.random.default_rng(0), fresh)[0]) == [3]
    assert reader.expired(fresh.max_age) == 3
    assert len(writer) == 4


def test_one_verdict_can_be_left_out(file):
    writer, reader = both(file)
    for decision in range(6):
        writer.add(complete(decision, verdict=Verdict.WAIT if decision % 2 else Verdict.SEND))
    assert decisions(reader.sample(50, np.random.default_rng(0), Sieve(without=Verdict.WAIT))[0]) == [0, 2, 4]


def test_the_file_continues_as_it_was(file):
    writer, _ = both(file, 8)
    for decision in range(11):
        writer.add(complete(decision, stream="ab"[decision % 2]))
    writer.tell(12.5)
    again, reader = both(file, 8)
    assert (len(again), again.added, again.clock, again.sessions, again.partial) == (8, 11, 12.5, 2, 0)
    again.add(complete(11))
    assert reader.fresh(0)["decision"].tolist() == list(range(4, 12))
    assert reader.fresh(9)["decision"].tolist() == [9, 10, 11]


def test_a_half_written_row_is_dropped_and_never_sampled(file):
    writer, reader = both(file, 4)
    for decision in range(4):
        writer.add(complete(decision))
    writer._mapped.rows["obs"][2, 0] = 99.0  # as a kill in the middle of a copy leaves it
    assert decisions(reader.sample(4, np.random.default_rng(0))[0]) == [0, 1, 3]
    assert reader.partial > 0
    again = ReplayWriter(file, LAYOUT, 4)
    assert (again.partial, len(again), again.added) == (1, 3, 4)


@pytest.mark.parametrize(("layout", "capacity"), [(Layout(3, 1, True, 3), 8), (LAYOUT, 9), (Layout(2, 1, True, 9), 8)])
def test_a_buffer_of_another_task_is_refused_and_left_as_it_is(file, layout, capacity):
    both(file, 8)[0].add(complete(1))
    before = file.read_bytes()
    for open_it in (ReplayWriter, ReplayReader):
        with pytest.raises(UserError, match="is not a replay buffer of"):
            open_it(file, layout, capacity)
    assert file.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"something else", bytes(100_000)])
def test_another_file_is_refused(file, content):
    file.write_bytes(content)
    with pytest.raises(UserError, match="is not a replay buffer"):
        ReplayWriter(file, LAYOUT, 8)


def test_a_missing_file_is_reported(file):
    with pytest.raises(UserError, match="cannot be read"):
        ReplayReader(file, LAYOUT, 8)


def test_a_full_disk_reports_it_at_the_start_and_leaves_nothing(small_disk):
    capacity = 20_000_000 // LAYOUT.dtype().itemsize
    with pytest.raises(UserError, match=r"takes [\d.,]+ MB. Free disk space.*online.buffer_capacity"):
        ReplayWriter(small_disk / "replay.bin", LAYOUT, 50 * capacity)
    assert list(small_disk.iterdir()) == []


def test_its_blocks_are_there_from_the_start(file):
    both(file, 1000)
    status = os.stat(file)
    assert status.st_size == file_bytes(LAYOUT, 1000)
    assert status.st_blocks * 512 >= status.st_size


def sampled_beside_a_writer(file, capacity, wanted):
    """Samples `wanted` rows while another process writes over them as fast as it can; (mixed, torn copies)."""
    argv = [sys.executable, "-c", WRITER, str(file), str(capacity)]
    process = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        reader, rng = ReplayReader(file, LAYOUT, capacity), np.random.default_rng(0)
        while reader.added < capacity:
            time.sleep(0.01)
        wrong = seen = 0
        while seen < wanted:
            rows, _ = reader.sample(capacity // 2, rng)
            wrong, seen = wrong + mixed(rows), seen + len(rows)
        return wrong, reader.partial
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_rows_are_whole_while_another_process_writes_over_them(file):
    wrong, _ = sampled_beside_a_writer(file, 64, 100_000)
    assert wrong == 0
    again = ReplayWriter(file, LAYOUT, 64)  # after the kill
    assert len(again) >= 63
    assert mixed(ReplayReader(file, LAYOUT, 64).fresh(0)) == 0


@pytest.mark.full
@pytest.mark.slow
def test_ten_million_samples_hold_no_mixture_although_copies_were_torn(file):
    wrong, partial = sampled_beside_a_writer(file, 64, 10_000_000)
    assert wrong == 0
    assert partial > 0  # the race was there


@pytest.mark.parametrize(
    ("field", "value"), [("sessions", 2**62), ("sessions", -1), ("added", -5), ("added", 2**62), ("clock", np.nan)]
)
def test_a_header_that_makes_no_sense_is_refused(file, field, value):
    both(file, 8)[0]._mapped.header[field] = value
    with pytest.raises(UserError, match=r"is damaged.*Move it away"):
        ReplayWriter(file, LAYOUT, 8)


def test_a_file_that_was_cut_off_reports_it(file):
    both(file, 8)
    os.truncate(file, 5000)
    with pytest.raises(UserError, match=r"is truncated: 5000 bytes of \d+\. Move it away"):
        ReplayWriter(file, LAYOUT, 8)


@pytest.mark.parametrize("count", [3, 1000])
def test_the_newest_are_also_read_in_parts_without_the_gates_observation(file, monkeypatch, count):
    monkeypatch.setattr(replay, "PART", 4)
    writer, reader = both(file, capacity=10)
    assert len(reader.newest_unseen(count)) == 0
    for i in range(13):
        writer.add(complete(i))
    reader._mapped.rows["reward"][5] = 7.0  # row 5, which no longer has its checksum
    whole, rows = reader.newest(count), reader.newest_unseen(count)
    expected = [10, 11, 12] if count == 3 else [3, 4, *range(6, 13)]
    assert rows["number"].tolist() == whole["number"].tolist() == expected
    assert set(whole.dtype.names) - set(rows.dtype.names) <= {"seen", "spare"}
    assert all((rows[name] == whole[name]).all() for name in rows.dtype.names)


def test_the_newest_version_that_acted_is_known(file):
    writer, reader = both(file, 8)
    assert reader.newest_version == 0
    for version in (3, 118, 7):
        writer.add(replace(complete(1), version=version))
    assert reader.newest_version == 118


def test_the_shares_of_streams_follow_what_leaves_the_buffer(tmp_path):
    writer = ReplayWriter(tmp_path / "replay.bin", LAYOUT, 4)
    for number, stream in enumerate(["a", "a", "b", "a", "ö", "ö"]):
        writer.add(complete(number, stream=stream))
    assert dict(writer.streams) == {"b": 1, "a": 1, "ö": 2}
    assert dict(ReplayWriter(tmp_path / "replay.bin", LAYOUT, 4).streams) == dict(writer.streams)

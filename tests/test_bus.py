"""The weight bus: what is published comes out whole and once, and what is no bus is said to be none."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
import torch

from livegym.rundir.run import bus_file
from livegym.utils.errors import UserError
from livegym.weights import futex
from livegym.weights.bus import CONTROL, LAYOUT
from livegym.weights.bus_reader import BusReader
from livegym.weights.publish import Publisher, VersionFacts, remove_left_overs
from tests.bus_weights import is_whole, left_by_a_dead_writer, publish, weights
from tests.patience import PATIENCE_S

pytest_plugins = ["disk_fixtures"]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "bus"


def publisher_of(file, description=None) -> Publisher:
    return Publisher(file, description or {}, "0123456789abcdef", weights(0))


def test_what_is_published_comes_out_once(file):
    with publisher_of(file, {"task": "Ant"}) as publisher:
        reader = BusReader(file)
        assert (reader.description["task"], reader.shape_hash) == ("Ant", "0123456789abcdef")
        assert (reader.count, reader.read(0)) == (0, None)
        publish(publisher, 1)
        first = reader.read(0)
        assert is_whole(first)
        assert (first.version, first.epoch, first.frame, first.number, first.score) == (1, 1, 10, 1, None)
        assert reader.read(1) is None
        before = time.time()
        publish(publisher, 2)
        publish(publisher, 3)
        third = reader.read(1)
        assert is_whole(third)
        assert (third.version, third.number, third.score) == (3, 3, 3.0)
        assert before <= third.time <= time.time()
        assert not reader.ended
        assert reader.writer_lives
    assert reader.ended
    assert not file.exists()
    assert is_whole(reader.read(0))  # what was mapped can still be read


def test_only_its_owner_may_read_it_and_nobody_who_reads_can_write(file):
    with publisher_of(file):
        assert file.stat().st_mode & 0o777 == 0o600
        reader = BusReader(file)
        with pytest.raises(ValueError, match="read-only"):
            reader._map.count[0] = 7


def test_a_new_writer_takes_the_place_and_old_readers_notice(file):
    first = publisher_of(file)
    reader = BusReader(file)
    assert not reader.replaced
    second = publisher_of(file)
    assert reader.replaced
    assert BusReader(file).writer != reader.writer
    first.close()
    assert file.exists()  # it is the second one's by now
    second.close()
    assert not file.exists()


def test_closing_twice_leaves_other_files_alone(file):
    publisher = publisher_of(file)
    publisher.close()
    with file.open("wb") as other:  # takes the number that was given back
        publisher.close()
        other.write(b"still open")
    with pytest.raises(RuntimeError, match="after close"):
        publish(publisher, 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "cannot be opened"),
        (lambda data: data[:100], "too short"),
        (lambda data: b"garbage!" + data[8:], "is not a weight bus"),
        (
            lambda data: data[:8] + bytes([LAYOUT + 1]) + data[9:],
            f"has layout {LAYOUT + 1}, but this livegym reads layout {LAYOUT}",
        ),
        (lambda data: data[:-4096], "bytes, but its header describes"),
        (lambda data: data.replace(b'"arrays"', b'"arroys"'), "has no valid description of its arrays"),
        (lambda data: data.replace(b'"int64"', b'"inxyz"'), "inxyz"),
        (lambda data: data.replace(b"[3, 5]", b"[9e99]"), "has no valid description of its arrays"),
    ],
)
def test_what_cannot_be_read_is_reported(file, change, message):
    with publisher_of(file):
        data = file.read_bytes()
    file.write_bytes(change(data))
    with pytest.raises(UserError, match=message):
        BusReader(file)


def test_a_missing_one_is_reported(file):
    with pytest.raises(UserError, match="cannot be opened"):
        BusReader(file)


def test_what_a_dead_writer_left_is_known_and_removed(tmp_path, file):
    pattern = tmp_path / "livegym.1.*"
    left, alive = tmp_path / "livegym.1.dead", tmp_path / "livegym.1.alive"
    left_by_a_dead_writer(left, 1, 2)
    foreign = tmp_path / "livegym.1.foreign"
    foreign.write_bytes(b"not ours" * 100)
    with publisher_of(alive):
        dead = BusReader(left)
        assert not dead.writer_lives
        assert not dead.ended
        assert is_whole(dead.read(0))
        remove_left_overs(pattern, older_than=3600.0)
        assert left.exists()  # its run may be resumed, and goes on counting from what was published
        remove_left_overs(pattern, older_than=0.0)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["livegym.1.alive", "livegym.1.foreign"]


def test_what_another_user_has_put_there_is_refused(file):
    with publisher_of(file):
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        os.chown(file, 12345, -1)
        with pytest.raises(UserError, match="belongs to user 12345, but this process runs as user 0"):
            BusReader(file)


def test_a_link_is_not_followed(tmp_path, file):
    with publisher_of(file):
        (tmp_path / "link").symlink_to(file)
        with pytest.raises(UserError, match="cannot be opened"):
            BusReader(tmp_path / "link")


def test_a_full_memory_is_an_error_now_and_leaves_nothing(small_disk):
    with pytest.raises(OSError, match="No space"):
        Publisher(small_disk / "bus", {}, "", weights(0, 1_000_000))
    assert list(small_disk.iterdir()) == []


def test_a_waiting_reader_is_woken(file):
    with publisher_of(file) as publisher:
        reader, woken = BusReader(file), []
        thread = threading.Thread(target=lambda: woken.append(reader.wait_past(0, PATIENCE_S)))
        thread.start()
        publish(publisher, 1)
        thread.join(timeout=PATIENCE_S)
        assert woken == [True]
        assert reader.wait_past(0, PATIENCE_S)  # at once: it is there already
        assert not reader.wait_past(1, 0.01)


def test_a_reader_that_is_ahead_of_the_count_waits_like_any_other(file):
    """A writer that died between flip and count: what was flipped is read once, and nothing spins."""
    with publisher_of(file) as publisher:
        publish(publisher, 1)
        publish(publisher, 2)
        reader = BusReader(file)
        publisher._map.count[0] = 1
        assert reader.read(0).number == 2
        assert reader.read(2) is None
        assert not reader.wait_past(2, 0.01)
        assert reader.overtaken == 0


def test_where_there_is_no_futex_it_looks_again_and_again(monkeypatch):
    monkeypatch.setattr(futex, "_LIBC", None)
    word = np.zeros(1, dtype=np.uint64)
    assert not futex.wait(word, 0, 0.01)
    timer = threading.Timer(0.02, lambda: word.__setitem__(0, 1))
    timer.start()
    assert futex.wait(word, 0, PATIENCE_S)
    futex.wake(word)


def test_a_bus_is_where_nothing_copies_it_and_an_id_is_no_path():
    assert bus_file("../../etc/passwd") is None
    assert bus_file("") is None
    if os.path.isdir("/dev/shm"):
        assert str(bus_file("ab12")) == f"/dev/shm/livegym.{os.getuid()}.ab12"


def test_the_control_block_begins_the_same_in_every_layout():
    """What another layout's reader must know: that it is a bus, and which."""
    assert {name: CONTROL.fields[name][1] for name in ("magic", "layout")} == {"magic": 0, "layout": 8}


def test_every_kind_of_array_comes_back(file):
    model = {
        "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
        "brain": torch.tensor([3.0], dtype=torch.bfloat16),
        "flag": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(7),
    }
    with Publisher(file, {}, "", model) as publisher:
        publisher.publish(model, VersionFacts(1, 1, 1, None))
        found = BusReader(file).read(0).model
    assert all(found[name].dtype == value.dtype and torch.equal(found[name], value) for name, value in model.items())

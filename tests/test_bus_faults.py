"""The weight bus under fire: a writer that dies anywhere, readers that are slow anywhere, a control that must fail."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from livegym.weights import bus
from livegym.weights import publish as publish_module
from livegym.weights.bus_reader import BusReader
from livegym.weights.publish import Publisher
from tests.bus_weights import is_whole, publish, weights
from tests.patience import PATIENCE_S

OWN_FILES = {publish_module.__file__, bus.__file__}


class Unchecked(BusReader):
    """The control: believes every copy."""

    def _believes(self) -> bool:
        return True


# -- kill -9 between any two steps of the writer


def _kill_at(line: int) -> None:
    """From here on this process dies at the n-th line of the writer's own code."""
    passed = 0

    def trace(frame, event, argument):
        nonlocal passed
        if frame.f_code.co_filename not in OWN_FILES:
            return None
        if event == "line":
            passed += 1
            if passed == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def _die_at(file: Path, line: int) -> None:
    """Publishes 1 and 2, then dies at the n-th line of publication 3, or after it."""
    publisher = Publisher(file, {}, "", weights(0))
    publish(publisher, 1)
    publish(publisher, 2)
    _kill_at(line)
    publish(publisher, 3)
    sys.settrace(None)
    os._exit(0)


@pytest.mark.slow
def test_wherever_the_writer_is_killed_the_active_slot_is_whole(tmp_path):
    context = multiprocessing.get_context("fork")
    file, versions, line = tmp_path / "bus", [], 0
    while True:
        line += 1
        child = context.Process(target=_die_at, args=(file, line))
        child.start()
        child.join()
        reader = BusReader(file)
        assert not reader.writer_lives
        found = reader.read(0)
        assert is_whole(found), line
        versions.append(found.version)
        with Publisher(file, {}, "", weights(0)) as publisher:  # and the next writer can begin
            publish(publisher, 4)
            assert reader.replaced
            assert is_whole(BusReader(file).read(0))
        if child.exitcode == 0:
            break
        assert child.exitcode == -signal.SIGKILL
    assert versions == sorted(versions)
    assert (versions[0], versions[-1]) == (2, 3)
    assert line > 15  # it died at so many places


def _die_while_making(file: Path, line: int) -> None:
    _kill_at(line)
    Publisher(file, {}, "", weights(0))
    sys.settrace(None)
    os._exit(0)


@pytest.mark.slow
def test_a_bus_is_there_complete_or_not_at_all(tmp_path):
    context, line, last_number = multiprocessing.get_context("fork"), 0, set()
    while True:
        line += 1
        file = tmp_path / f"livegym.{line}"
        child = context.Process(target=_die_while_making, args=(file, line))
        child.start()
        child.join()
        last_number.add(file.exists())
        if file.exists():
            assert BusReader(file).read(0) is None
        publish_module.remove_left_overs(tmp_path / "livegym.*", older_than=0.0)
        if child.exitcode == 0:
            break
    assert last_number == {True, False}
    assert line > 15
    assert list(tmp_path.iterdir()) == []  # also what was only half made


# -- any interleaving of the writer's steps with a reader in the middle of its copy


class Halting(BusReader):
    """Calls `pause()` in the middle of each copy: between record and arrays, and half way through the arrays."""

    def __init__(self, file: Path, pause) -> None:
        super().__init__(file)
        self.pause = pause

    def _copy(self, slot: int) -> None:
        half = len(self._buffer) // 2
        self._record[0] = self._map.slots[slot]
        self.pause()
        self._buffer[:half] = self._map.buffers[slot][:half]
        self.pause()
        self._buffer[half:] = self._map.buffers[slot][half:]


class UncheckedHalting(Unchecked, Halting):
    """The control."""


class Protocol(RuleBasedStateMachine):
    """A writer that is advanced step by step, also while a reader copies."""

    reader_class: type[Halting] = Halting

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.publisher = Publisher(Path(self._folder.name) / "bus", {}, "", weights(0, 8))
        self.steps = self._write()
        self.published = 0
        self.plan: list[int] = []
        self.reader = self.reader_class(self.publisher.file, self._pause)
        self.last_number = 0

    def _write(self):
        """Publication after publication, in the very order of `Publisher.publish`."""
        mapped, number = self.publisher._map, 0
        while True:
            number += 1
            slot = number % 2
            for spec in self.publisher._specs:
                spec.view(mapped.buffers[slot]).copy_(weights(number, 8)[spec.name])
                yield
            self.publisher._seal(slot, (number, number, number, 10 * number, 0.0, 0.0))
            yield
            mapped.control["active"][0] = slot
            yield
            mapped.count[0] = number
            self.published = number
            yield

    def _pause(self) -> None:
        for _ in range(self.plan.pop() if self.plan else 0):
            next(self.steps)

    @rule(steps=st.integers(1, 8))
    def the_writer_continues(self, steps: int) -> None:
        for _ in range(steps):
            next(self.steps)

    @precondition(lambda self: self.published > 0)
    @rule(plan=st.lists(st.integers(0, 14), max_size=12))
    def a_reader_polls_while_the_writer_continues(self, plan: list[int]) -> None:
        before, self.plan = self.published, plan
        found = self.reader.read(self.last_number)
        self.plan = []
        if found is None:
            assert self.last_number >= before  # nothing was new; a hundred attempts outlast every plan
            return
        assert is_whole(found)
        assert before <= found.number <= self.published + 1  # flipped, but not counted yet, is whole already
        assert found.number > self.last_number
        self.last_number = found.number

    @invariant()
    def what_was_counted_can_be_read(self) -> None:
        if self.published:
            assert is_whole(BusReader(self.publisher.file).read(0))

    def teardown(self) -> None:
        self.publisher.close()
        self._folder.cleanup()


class UncheckedProtocol(Protocol):
    """The same with the check disabled."""

    reader_class = UncheckedHalting


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(max_examples=100, stateful_step_count=20, deadline=None)


@pytest.mark.slow
def test_without_the_check_the_machine_finds_a_partial_vector():
    from hypothesis.stateful import run_state_machine_as_test

    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            UncheckedProtocol, settings=settings(max_examples=300, stateful_step_count=20, deadline=None, database=None)
        )


# -- full speed, in other processes


def _write_hard(file: Path, count: int, size: int, ready) -> None:
    with Publisher(file, {}, "", weights(0, size)) as publisher:
        publish(publisher, 1, size)
        ready.wait()
        for number in range(2, count + 1):
            publish(publisher, number, size)


def _read_hard(kind: type[BusReader], file: Path, out) -> None:
    reader, last_number, whole, torn = kind(file), 0, 0, 0
    while not reader.ended:
        found = reader.read(last_number)
        if found is not None:
            assert found.number >= last_number
            last_number = found.number
            whole, torn = whole + is_whole(found), torn + (not is_whole(found))
    out.put((whole, torn, reader.overtaken))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BusReader, pytest.param(Unchecked, marks=pytest.mark.full)])
def test_a_writer_at_full_speed_and_several_readers(tmp_path, kind):
    context, file = multiprocessing.get_context("fork"), tmp_path / "bus"
    out, ready = context.Queue(), context.Event()
    writer = context.Process(target=_write_hard, args=(file, 200_000, 20_000, ready))
    writer.start()
    while not file.exists():
        pass
    readers = [context.Process(target=_read_hard, args=(kind, file, out)) for _ in range(3)]
    for reader in readers:
        reader.start()
    ready.set()
    found = [out.get(timeout=PATIENCE_S) for _ in readers]
    for process in (writer, *readers):
        process.join()
        assert process.exitcode == 0
    whole, torn, overtaken = (sum(column) for column in zip(*found, strict=True))
    assert whole > 1000
    if kind is Unchecked:
        assert torn > 0
    else:
        assert torn == 0
        assert overtaken > 0  # the hole was there, and was seen

"""Which stream loses its slot in the policy if a new one needs it."""

from __future__ import annotations

import pytest

from livegym.online.decider import NoFreeSlot, StreamSlots


class Slots(StreamSlots):
    """Slots whose clients and pending decisions a test chooses."""

    def __init__(self, count: int, idle: float = 60.0) -> None:
        self.held: set[str] = set()
        self.waiting: set[str] = set()
        super().__init__(count, idle, self.held.__contains__, self.waiting.__contains__)

    def ask(self, *streams: str, now: float, held: bool = True) -> list[int]:
        """Ask for streams, which have a client from then on if `held`."""
        if held:
            self.held.update(streams)
        return [self.of(stream, now) for stream in streams]


def test_names_that_come_and_go_take_the_slots_of_one_another_only():
    slots = Slots(3)
    (mine,) = slots.ask("mine", now=0.0)
    for number in range(100):
        name = f"name-{number}"
        slots.ask(name, now=1.0 + number)
        slots.held.discard(name)
        slots.waiting.add(name)  # its decision never gets a reward
    assert slots.streams == ["mine", "name-98", "name-99"]
    assert slots.ask("mine", now=200.0) == [mine]


def test_what_has_nothing_pending_goes_before_what_waits_and_the_least_recent_first():
    slots = Slots(4)
    slots.ask("waits", "older", "newer", "present", now=0.0)
    slots.ask("older", now=1.0)
    slots.ask("newer", now=2.0)
    for name in ("waits", "older", "newer"):
        slots.held.discard(name)
    slots.waiting.add("waits")
    lost = []
    for number in range(3):
        before = set(slots.streams)
        slots.ask(f"new-{number}", now=3.0)
        lost += before - set(slots.streams)
    assert lost == ["older", "newer", "waits"]
    with pytest.raises(NoFreeSlot, match="4 streams are served already"):
        slots.ask("one-more", now=4.0)


def test_a_stream_whose_client_is_present_keeps_its_slot_until_it_was_idle_for_long():
    slots = Slots(1, idle=60.0)
    slots.ask("mine", now=0.0)
    with pytest.raises(NoFreeSlot):
        slots.ask("other", now=59.0)
    slots.ask("other", now=60.0)
    assert slots.streams == ["other"]


def test_streams_of_one_pass_do_not_take_slots_from_one_another():
    slots = Slots(2)
    with pytest.raises(NoFreeSlot):
        slots.ask("a", "b", "c", now=1.0, held=False)
    assert slots.streams == ["a", "b"]


def test_a_reserved_stream_keeps_its_slot():
    slots = Slots(2)
    slots.reserve(["own"])
    for number in range(3):
        slots.ask(f"new-{number}", now=1.0 + number, held=False)
    assert slots.streams == ["own", "new-2"]

"""Blends never snap: a blend goes on as it began, whatever is changed while it runs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.live.transition import Progress
from livegym.utils.errors import UserError
from tests.test_live import OBS, candidate, live_of

CONTROL_DT = (0.005, 0.02, 0.05)  # s: rates at which one may be asked to blend over the same time


def share_of(live, old: int) -> float:
    """Acts one step; each version's action is its own number, so the action says the share of the acting one."""
    new = live.acting.version
    action = live.act(OBS)[0].item()
    return 1.0 if old == new else (action - old) / (new - old)


def weights_of_next_step(live) -> tuple[dict[int, float], float]:
    """Version -> its share in the next step, which is made, and the share per step of the blend in progress."""
    transition = live._transition
    blends, length = transition.blends, transition._progress.length
    old = transition.leaving.candidate.version if blends else live.acting.version
    share, new = share_of(live, old), live.acting.version
    return ({new: share, old: 1.0 - share} if old != new else {new: 1.0}), (1.0 / length if blends else 0.0)


CHANGES = st.one_of(
    st.tuples(st.just("rule"), st.sampled_from(["now", "blend"]), st.floats(0.005, 1.0), st.sampled_from(CONTROL_DT)),
    st.tuples(st.just("offer")),
    st.tuples(st.just("roll back"), st.one_of(st.none(), st.integers(1, 12))),
    st.tuples(st.just("pin")),
    st.tuples(st.just("follow")),
    st.tuples(st.just("new episodes"), st.sampled_from([[0], [1], [0, 1]])),
    st.tuples(st.just("steps"), st.integers(1, 12)),
)


def change(live, what: tuple, newest: int) -> int:
    """Makes one change; returns the newest version that was offered."""
    if what[0] == "rule":
        live.set_rule(what[1], max(1, round(what[2] / what[3])))
    elif what[0] == "offer":
        newest += 1
        live.prepare(candidate(newest, bias=float(newest)))
    elif what[0] == "roll back":
        try:
            live.rollback(what[1])
        except UserError:  # that version is not kept
            live.follow()
    elif what[0] == "pin":
        live.pin()
    elif what[0] == "follow":
        live.follow()
    elif what[0] == "new episodes":
        live.forget(torch.tensor(what[1]))
    return newest


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(st.lists(CHANGES, max_size=30), st.integers(1, 20))
def test_shares_are_monotonic_and_continuous_for_each_pair(changes, first_length):
    live = live_of(candidate(1, bias=1.0), how="blend", blend_steps=first_length, history=5)
    newest, before = 1, {1: 1.0}
    pair: tuple[int, int, float] | None = None  # (old, new, share per step) of the blend in progress
    for what in [("offer",), *changes, ("steps", 25)]:
        newest = change(live, what, newest)
        for _ in range(what[1] if what[0] == "steps" else 1):
            while live.adopt() is not None:  # as many events as there are
                pass
            now, rate = weights_of_next_step(live)
            if len(before) > 1 and min(before.values()) > 0.0:  # the last step was in the middle of a blend
                assert now.keys() <= before.keys(), "a third version acts before the blend has ended"
                rate = rate or pair[2]
                assert rate == pair[2], "the blend has another length than it began with"
                new = pair[1]
                moved = now.get(new, 0.0) - before[new]
                step = min(rate, 1.0 - before[new]) if live.acting.version == new else -min(rate, before[new])
                assert moved == pytest.approx(step, abs=2e-4)
            if rate:
                leaving = next((version for version in now if version != live.acting.version), None)
                pair = None if leaving is None else (leaving, live.acting.version, rate)
            before = {version: share for version, share in now.items() if share > 1e-4}


def test_a_roll_back_to_the_version_that_leaves_turns_the_blend_around():
    live = live_of(candidate(1, bias=0.0), how="blend", blend_steps=4, history=3)
    live.prepare(candidate(2, bias=1.0))
    live.adopt()
    assert [live.act(OBS)[0].item() for _ in range(3)] == [0.25, 0.5, 0.75]
    live.rollback()
    event = live.adopt()
    assert (event.version, event.reason, event.source) == (1, "rolled back", "history")
    assert [live.act(OBS)[0].item() for _ in range(4)] == [0.5, 0.25, 0.0, 0.0]
    assert live.pinned
    assert not live.swapping


def test_a_roll_back_to_a_third_version_waits_for_the_end_of_the_blend():
    live = live_of(candidate(1, bias=0.0), how="blend", blend_steps=2, history=4)
    for version, bias in ((2, 1.0), (3, 3.0)):
        live.prepare(candidate(version, bias=bias))
        live.adopt()
        if version == 2:
            assert [live.act(OBS)[0].item() for _ in range(2)] == [0.5, 1.0]
    assert live.act(OBS)[0].item() == 2.0
    live.rollback(1)
    assert live.adopt() is None
    assert live.act(OBS)[0].item() == 3.0
    assert live.adopt().version == 1
    assert [live.act(OBS)[0].item() for _ in range(2)] == [1.5, 0.0]


def test_two_roll_backs_in_a_blend_go_back_twice_and_following_again_cancels_what_waits():
    for cancel in (False, True):
        live = live_of(candidate(1), how="now", history=5)
        for version in (2, 3):
            live.prepare(candidate(version))
            live.adopt()
        live.set_rule("blend", 3)
        live.prepare(candidate(4))
        live.adopt()
        live.act(OBS)
        live.rollback()
        live.rollback()
        assert live.adopt().version == 3
        assert live.adopt() is None
        if cancel:
            live.pin()
        for _ in range(3):
            live.act(OBS)
        found = live.adopt()
        assert (found is None) if cancel else (found.version == 2)


def test_progress_by_hand():
    progress = Progress("blend", length=4)
    assert [(progress := progress.stepped()).share for _ in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert Progress("blend", 4, 1).turned().share == 0.75

"""What happened in a continuous run, found by comparing one status with the next."""

from __future__ import annotations

import copy

import pytest

from livegym.serve.events import COUNTED, FIRST, MOST, Events
from tests.online_status import full_status, merged

START = full_status()
STOPPED = {"state": "dead", "why": "killed by signal 9"}
OUTLIER = "stream 'a' earned 9e+05; the limit is 10000 (online.outlier_factor)"


def after(*changes):
    """The texts and kinds of events after some statuses, each a change of the one before."""
    events, status = Events(), copy.deepcopy(START)
    events.notice(status)
    for change in changes:
        status = merged(status, change)
        events.notice(status)
    return [(event["kind"], event["text"]) for event in events.recent]


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"serving": {"pinned": True, "pinned_by": "ann"}}, "warn", "version 41 was pinned by ann"),
        ({"trainer": STOPPED}, "bad", "the trainer is dead: killed by signal 9"),
        ({"trainer": {"restarts": 2}}, "warn", "another trainer took over"),
        ({"trainer": {"rollbacks": 2}}, "bad", "training diverged: the trainer went back to its last good version"),
        ({"champion": {"alarm": True, "alarm_why": "3 rollbacks"}}, "bad", "no new version goes live: 3 rollbacks"),
        ({"by_stream": {"east": {"learned": True}}}, "good", "learning from east was switched on"),
        ({"by_stream": {"north": {"learned": False}}}, "warn", "learning from north was switched off"),
        ({"rewards": {"outlier": OUTLIER}}, "bad", f"a reward far beyond the usual ones is not trained on: {OUTLIER}"),
        ({"decisions": {"not_logged": 7}}, "bad", "decisions cannot be written to the decision log"),
    ],
    ids=str,
)
def test_a_change_is_told_once(change, kind, text):
    assert after(change, {}, {}) == [(kind, text)]


def test_nothing_happens_while_numbers_grow():
    grown = {"decisions": {"total": 9999}, "trainer": {"training_steps": 10**6}, "serving": {"version": 42}}
    assert after(grown) == []


def test_a_rollback_says_why_and_from_which_version():
    back = {"state": "rolled back", "version": 41, "why": "it earns 154, the stable version earned 276"}
    told = after({"champion": {"rolled_back": 2, "stable": 39, **back}})  # no decision has been made yet: 41 acts
    text = "version 41 was rolled back to 39: it earns 154, the stable version earned 276"
    assert told == [("bad", text)]
    judged_since = {"champion": {"rolled_back": 2, "stable": 39}, "serving": {"version": 39}}
    assert after(judged_since) == [("bad", "rolled back to version 39")]


def test_a_pin_moves_and_ends():
    pinned = {"serving": {"pinned": True, "pinned_by": "ann"}}
    told = after(pinned, {"serving": {"version": 38}}, {"serving": {"pinned": False, "pinned_by": ""}})
    assert [text for _, text in told] == [
        "version 41 was pinned by ann", "version 38 was pinned by ann", "new versions are followed again",
    ]  # fmt: skip


def test_an_alarm_ends():
    told = after({"champion": {"alarm": True, "alarm_why": "x"}}, {"champion": {"alarm": False}})
    assert told[-1] == ("good", "versions go live again")


def test_only_the_first_broken_experience_is_an_event():
    told = after({"trainer": {"broken_rows": 1}}, {"trainer": {"broken_rows": 90}})
    assert told == [("bad", "experiences with non-finite or huge numbers have come; they are not trained on")]


def test_a_trainer_that_does_not_know_its_counts_yet_has_not_lost_them():
    """After a restart they are null, and then what the checkpoint has, or what they were."""
    unknown = {"rollbacks": None, "broken_rows": None}
    assert after({"trainer": unknown}, {"trainer": {"rollbacks": 0, "broken_rows": 0}}) == []
    assert after({"trainer": unknown}, {"trainer": {"rollbacks": 1, "broken_rows": 0}}) == []


def test_a_trainer_that_continues_from_fewer_rollbacks_tells_of_its_next_ones():
    """It was killed before it saved; the counts of restarts begin again too, if a person starts another trainer."""
    diverged, another = (text for path, _, text in COUNTED if path in ("trainer.rollbacks", "trainer.restarts"))
    counts = [{"rollbacks": 4}, {"rollbacks": None}, {"rollbacks": 2}, {"rollbacks": 3}, {"rollbacks": 3}]
    told = after(*({"trainer": change} for change in counts))
    assert told == [("bad", diverged)] * 2
    told = after(*({"trainer": {"restarts": n}} for n in (5, 0, 1)))
    assert told == [("warn", another)] * 2


@pytest.mark.parametrize("path", [path for path, _, _ in FIRST])
def test_a_run_that_has_had_faults_before_tells_of_the_first_new_one(path):
    """A resumed run's counts do not begin at zero; a trainer that continues counts the same rows again."""
    group, name = path.split(".")
    (event,) = ((kind, text) for known, kind, text in FIRST if known == path)
    events = Events()
    for count, expected in ((7, 0), (7, 0), (3, 0), (7, 0), (8, 1), (9, 1), (0, 1), (10, 1)):
        events.notice(merged(START, {group: {name: count}}))
        assert [(each["kind"], each["text"]) for each in events.recent] == [event] * expected


def test_a_stream_that_comes_was_not_switched():
    assert after({"by_stream": {"new": {"learned": False}}}) == []


def test_the_last_ones_are_kept():
    told = after(*({"trainer": {"restarts": 2 + n}} for n in range(MOST + 5)))
    assert len(told) == MOST

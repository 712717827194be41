"""Events of a continuous run, found by comparing each status with the one before.

    events = Events()
    events.notice(status)                # one thread, a few times a second
    events.recent                        # any thread: the last ones, oldest first

Rollbacks, pins, alarms and restarts explain a step in a curve, so the dashboard lists them and marks their times in its
plots. Of what begins and ends between two calls, nothing is noticed, except where a count tells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from typing import Any

from livegym.serve.metrics import GONE
from livegym.utils.nested import look_up

MOST = 50  # events that are kept
ROLLED_BACK = "champion.rolled_back"
COUNTED = (
    ("trainer.rollbacks", "bad", "training diverged: the trainer went back to its last good version"),
    ("trainer.restarts", "warn", "another trainer took over"),
    ("champion.started_over", "warn", "the trainer was set back to the acting or the stable version"),
)
"""Path of a count, kind and text of the event if it rises."""
FIRST = (
    ("trainer.broken_rows", "bad", "experiences with non-finite or huge numbers have come; they are not trained on"),
    ("decisions.not_logged", "bad", "decisions cannot be written to the decision log"),
    ("decisions.gate_failures", "bad", "the gate failed: its action was blocked"),
    ("buffer.lost", "bad", "completed decisions were lost"),
)
"""The same for counts of which only the first rise above the session's first known value is an event."""

Event = dict[str, Any]
"""`t` in s since 1970, `kind` ("good", "warn" or "bad") and `text`."""


class Events:
    """The last events of a run; only one thread may call `notice`."""

    def __init__(self, most: int = MOST) -> None:
        """`most`: number of events that are kept."""
        self._most = most
        self._before: Mapping[str, Any] | None = None
        self._counts: dict[str, float] = {}  # the last known ones: a trainer that starts knows none
        self._first: dict[str, float] = {}  # the first known ones, of `FIRST`; inf: an event has told of the rise
        self.recent: tuple[Event, ...] = ()
        """Oldest first; replaced as a whole, so any thread may read it."""

    def notice(self, status: Mapping[str, Any]) -> None:
        """Add what happened since the last call. `status`: plain values, which must not be changed later."""
        before, self._before = self._before, status
        risen = self._risen(status)
        if before is None:
            return
        now = round(status.get("now") or time.time(), 2)
        found = (*_judged(before, status, ROLLED_BACK in risen), *_steered(before, status), *_trained(before, status))
        counted = [(kind, text) for path, kind, text in COUNTED if path in risen]
        counted += [(kind, text) for path, kind, text in FIRST if path in risen]
        made = [{"t": now, "kind": kind, "text": text} for kind, text in (*found, *counted)]
        if made:
            self.recent = (*self.recent, *made)[-self._most :]

    def _risen(self, status: Mapping[str, Any]) -> set[str]:
        """Return the paths of the counts whose rise is an event. The first known value of a count is no rise.

        Counts fall if another trainer continues from an older checkpoint, or begins to count again.
        """
        risen = set()
        for path in (ROLLED_BACK, *(path for path, _, _ in COUNTED)):
            count = look_up(status, path)
            if count is not None:
                if count > self._counts.get(path, count):
                    risen.add(path)
                self._counts[path] = count
        for path, _, _ in FIRST:
            count = look_up(status, path)
            if count is not None and count > self._first.setdefault(path, count):
                risen.add(path)
                self._first[path] = math.inf
        return risen


def _trained(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield where the trainer is gone, and where the first outlier has come."""
    state, why = look_up(after, "trainer.state"), look_up(after, "trainer.why")
    if state in GONE and state != look_up(before, "trainer.state"):
        yield "bad", f"the trainer is {state}{f': {why}' if why else ''}"
    outlier = look_up(after, "rewards.outlier")
    if outlier and not look_up(before, "rewards.outlier"):
        yield "bad", f"a reward far beyond the usual ones is not trained on: {outlier}"


def _judged(before: Mapping[str, Any], after: Mapping[str, Any], rolled_back: bool) -> Iterator[tuple[str, str]]:
    """Yield the automatic rollbacks, and where an alarm begins or ends."""
    champion = after.get("champion", {})
    if rolled_back:
        stable = champion.get("stable")  # not the acting version, which is still the old one until the next decision
        if champion.get("state") == "rolled back":
            yield "bad", f"version {champion['version']} was rolled back to {stable}: {champion['why']}"
        else:  # another version has been judged since
            yield "bad", f"rolled back to version {stable}"
    alarm, was = bool(champion.get("alarm")), bool(look_up(before, "champion.alarm"))
    if alarm and not was:
        yield "bad", f"no new version goes live: {champion.get('alarm_why')}"
    if was and not alarm:
        yield "good", "versions go live again"


def _steered(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what people did: versions that were pinned, and streams whose learning was switched."""
    serving, was = after.get("serving", {}), before.get("serving", {})
    by = f" by {serving['pinned_by']}" if serving.get("pinned_by") else ""
    if serving.get("pinned") and (not was.get("pinned") or was.get("version") != serving.get("version")):
        yield "warn", f"version {serving.get('version')} was pinned{by}"
    if was.get("pinned") and not serving.get("pinned"):
        yield "good", "new versions are followed again"
    streams, known = after.get("by_stream", {}), before.get("by_stream", {})
    for name in streams.keys() & known.keys():
        learned = streams[name].get("learned")
        if learned != known[name].get("learned"):
            yield "good" if learned else "warn", f"learning from {name} was switched {'on' if learned else 'off'}"

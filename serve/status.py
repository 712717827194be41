"""Where continuous training stands: one plain dictionary, made by the serving thread, read by any.

It is made anew a few times a second, and exchanged as one reference. What must be true at the moment of reading, and
not when it was made (the trainer's state, ages), is added by `reading`. `refreshed` tells when it was made: where that
stands still, what decides hangs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from livegym.online.service import Service
from livegym.serve.metrics import NUMBERS
from livegym.serve.watchdog import Watchdog
from livegym.weights.candidate import Candidate

LATENCIES = 2000  # the last decisions whose times are looked at
STREAMS_SHOWN = 100
RATE_S = 60.0  # s over which decisions are counted: some streams ask four times a minute
UNKNOWN = {number.place.removeprefix("trainer."): None for number in NUMBERS if number.place.startswith("trainer.")}
"""What is not known of a trainer that has told nothing yet."""


class Status:
    """What is known, for pages, tools and curves."""

    def __init__(
        self, fixed: dict[str, Any], service: Service, watchdog: Watchdog, clients: Callable[[], dict[str, int]] = dict
    ) -> None:
        """`fixed`: what does not change (task, run, gate, simulator, speed, capacity); `clients`: counts of clients."""
        self._fixed = fixed
        self._service = service
        self._watchdog = watchdog
        self._latencies: deque[float] = deque(maxlen=LATENCIES)  # s
        self._marks: deque[tuple[float, int]] = deque()  # (monotonic s, decisions), of the last RATE_S
        self._made: dict[str, Any] = {}
        self._owed = service.writer.added + len(service.pending) + service.pending.expired  # before the first decision
        self._phase = "serving"
        self._clients = clients

    # the serving thread

    def took(self, seconds: float) -> None:
        """One decision took so long."""
        self._latencies.append(seconds)

    def end_serving(self) -> None:
        """Nothing is decided any more: the run is ending."""
        self._phase = "stopping"

    def refresh(self) -> None:
        """Makes a new snapshot."""
        service = self._service
        tally = self._service.tally
        fixed = self._fixed
        live, pending = service.decider.live, service.pending
        self._marks.append((time.monotonic(), tally.decisions))
        while self._marks[-1][0] - self._marks[0][0] > RATE_S:
            self._marks.popleft()
        lately = [v.name for v in tally.lately]
        gated = lately.count("SEND") + lately.count("WAIT")
        self._made = {
            "refreshed": round(time.time(), 2),
            "serving": {**_version(live.acting), "pinned": live.pinned, "swapping": live.swapping,
                        "newest": live.newest.version, "history": list(live.history.labels)},
            "streams": sorted(list(tally.last)[-STREAMS_SHOWN:]), "stream_count": len(tally.last),
            "decisions": {
                "total": tally.decisions, "per_second": self._rate(), "send": tally.verdicts["SEND"],
                "wait": tally.verdicts["WAIT"], "off": tally.verdicts["OFF"],
                "send_rate": lately.count("SEND") / gated if gated else None, "interfered": tally.intervened,
                "unlearned": tally.excluded,
                "gate_failures": service.decider.failures, "latency_ms": self._latency(),
            },
            "buffer": {
                "capacity": fixed["capacity"], "size": len(service.writer), "added": service.writer.added,
                "pending": len(pending), "expired_pending": pending.expired, "torn": service.writer.partial,
                "lost": self._owed + tally.decisions - service.writer.added - len(pending) - pending.expired
                - tally.excluded,
                "refused": {kind: pending.refused[kind] for kind in ("late", "duplicate", "unknown", "invalid")},
            },
            "episodes": {"ended": tally.episodes.ended, "return_mean": _mean(tally.episodes.returns),
                         "length_mean": _mean(tally.episodes.lengths)},
            "rewards": {"mean": _mean(tally.rewards), "expected_mean": _mean(tally.expected),
                        "components": _means(tally.terms)},
        }  # fmt: skip

    def _rate(self) -> float | None:
        (start, first), (now, last) = self._marks[0], self._marks[-1]
        return (last - first) / (now - start) if now - start > 0.1 else None

    def _latency(self) -> dict[str, float | None]:
        if not self._latencies:
            return {"p50": None, "p99": None, "max": None}
        p50, p99, most = np.percentile(np.array(self._latencies) * 1000, (50, 99, 100)).tolist()
        return {"p50": p50, "p99": p99, "max": most}

    # any thread

    def reading(self) -> dict[str, Any]:
        """The state of this moment, as plain values for strict JSON."""
        made, fixed = self._made, self._fixed
        trainer = {**UNKNOWN, **self._watchdog.reading()}
        serving = dict(made.get("serving", {}))
        born = serving.get("made")
        serving["age_s"] = None if born is None else round(max(0.0, time.time() - born), 2)
        idle = time.monotonic() - self._service.tally.decided_at
        decisions = {**made.get("decisions", {}), "idle_s": round(idle, 2)}
        buffer = {**made.get("buffer", {}), "expired": trainer.get("expired")}
        shown = {name: fixed[name] for name in ("task", "run", "simulator", "gate", "playSpeed")}
        now = round(time.time(), 2)
        return {
            **made,
            **shown,
            "now": now,
            "refreshed": made["refreshed"] if self._phase == "serving" else now,  # nothing is decided any more
            "phase": self._phase,
            "serving": serving,
            "decisions": decisions,
            "buffer": buffer,
            "trainer": trainer,
            "server": self._clients(),
        }


def _version(candidate: Candidate) -> dict[str, Any]:
    return {"version": candidate.version, "made": candidate.made, "source": candidate.source}


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _means(terms: Sequence[dict[str, float]]) -> dict[str, float]:
    names = terms[-1] if terms else ()
    return {name: float(np.mean([t[name] for t in terms if name in t])) for name in names}

"""The status of continuous training: one plain dictionary, made by the serving thread and read by any thread.

It is made again a few times a second, and replaced by a single assignment. `reading` adds the entries that must be true
at the moment of reading (the trainer's state, ages). `refreshed` is the time at which it was made: if that no longer
advances, the decision loop hangs.
"""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from livegym.online.champion import Champion
from livegym.online.judgements import GAIN
from livegym.online.service import Service
from livegym.online.service_counters import LastDecision
from livegym.serve.events import Events
from livegym.serve.latencies import Latencies
from livegym.serve.metrics import GONE, NUMBERS
from livegym.serve.watchdog import Watchdog
from livegym.weights.candidate import Candidate

STREAMS_SHOWN = 100
LEAST_IDLE_S = 20.0  # shortest time without a decision that is reported
IDLE_INTERVALS = 3.0  # the same as a multiple of a stream's usual time between two decisions
USUAL = 3  # last intervals of a stream of which the usual one is the median
STALLED_S = 5.0  # without a new snapshot, after which the decision loop counts as stalled; one is due every 0.25 s
RATE_S = 60.0  # s over which the decision rate is computed: some streams ask only four times a minute
UNKNOWN = {number.path.removeprefix("trainer."): None for number in NUMBERS if number.path.startswith("trainer.")}
"""The trainer's numbers before it has reported any: all are unknown."""
NOT_JUDGED = dict.fromkeys((
    "version", "state", "why", "kl", "gain", "gain_low", "gain_high", "stable", "challenger", "measuring",
    "alarm", "alarm_why", "judged", "not_judged", "refused", "rolled_back", "started_over",
))  # fmt: skip
"""The champion's entries if versions are not judged."""


class Status:
    """The status of one run, for pages, tools and curves."""

    def __init__(
        self,
        fixed: dict[str, Any],
        service: Service,
        watchdog: Watchdog,
        clients: Callable[[], dict[str, int]] = dict,
        champion: Champion | None = None,
        latencies: Latencies | None = None,
        not_learned: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """`fixed`: constant entries (task, run, gate, simulator, speed, capacity); `clients()`: the API's counts.

        `champion`: judges versions; None: every version goes live. `latencies`: those of clients' messages, which are
        recorded elsewhere. `not_learned()`: the streams from which nothing is learned.
        """
        self._not_learned = not_learned
        self._events = Events()
        self._champion = champion
        self._fixed = fixed
        self._service = service
        self._watchdog = watchdog
        self._latencies = latencies or Latencies()
        self._marks: deque[tuple[float, int]] = deque()  # (monotonic s, decisions) within the last RATE_S
        self._made: dict[str, Any] = {}
        self._refreshed_at = time.monotonic()
        self._owed = service.writer.added + len(service.pending) + service.pending.expired  # before the first decision
        self._phase = "serving"
        self._clients = clients

    # called by the serving thread

    def took(self, seconds: float) -> None:
        """Record the latency of a step of the built-in simulator, in seconds."""
        self._latencies.add(seconds)

    def end_serving(self) -> None:
        """Set the phase to stopping: the run is ending, and no more decisions are made."""
        self._phase = "stopping"

    def notice(self, reading: dict[str, Any]) -> None:
        """Record what happened since the last call, as `reading` shows it."""
        self._events.notice(reading)

    def refresh(self) -> None:
        """Make a new snapshot of the serving side."""
        service = self._service
        tally = self._service.tally
        fixed = self._fixed
        live, pending = service.decider.live, service.pending
        self._marks.append((time.monotonic(), tally.decisions))
        while self._marks[-1][0] - self._marks[0][0] > RATE_S:
            self._marks.popleft()
        lately = [v.name for v in tally.lately]
        gated = lately.count("SEND") + lately.count("WAIT")
        shown = sorted(list(tally.last)[-STREAMS_SHOWN:])
        usual = {stream: _usual_interval(tally.last[stream]) for stream in shown}
        not_learned = self._not_learned()
        size = len(service.writer)
        most = max(service.writer.streams.values(), default=0)
        self._refreshed_at = time.monotonic()
        self._made = {
            "refreshed": round(time.time(), 2),
            "serving": {**_version(live.acting), "pinned": live.pinned, "pinned_by": live.pinned_by,
                        "swapping": live.swapping, "newest": self._newest(), "history": list(live.history.labels)},
            "versions": self._versions(),
            "streams": shown, "stream_count": len(tally.last),
            "by_stream": {stream: self._of_stream(stream, size) | {"learned": stream not in not_learned}
                          for stream in shown},
            "decisions": {
                "total": tally.decisions, "per_second": self._rate(), "send": tally.verdicts["SEND"],
                "wait": tally.verdicts["WAIT"], "off": tally.verdicts["OFF"],
                "send_rate": lately.count("SEND") / gated if gated else None, "interfered": tally.intervened,
                "unlearned": tally.excluded,
                "gate_failures": service.decider.failures, "latency_ms": self._latencies.reading(),
                "logged": service.log.added, "not_logged": service.log.missing,
                "idle_limit_s": _idle_limit([interval for interval in usual.values() if interval is not None]),
            },
            "buffer": {
                "capacity": fixed["capacity"], "size": size, "added": service.writer.added,
                "largest_share": most / size if most and size else None,
                "pending": len(pending), "expired_pending": pending.expired, "torn": service.writer.partial,
                "lost": self._owed + tally.decisions - service.writer.added - len(pending) - pending.expired
                - tally.excluded,
                "refused": {kind: pending.refused[kind] for kind in ("late", "duplicate", "unknown", "invalid")},
            },
            "episodes": {"ended": tally.episodes.ended, "broken_off": tally.episodes.broken_off,
                         "returns": len(tally.episodes.returns), "return_mean": _mean(tally.episodes.returns),
                         "length_mean": _mean(tally.episodes.lengths)},
            "rewards": {"mean": _mean(tally.rewards), "count": len(tally.rewards),
                        "outliers": tally.outliers, "outlier": tally.outlier, "limit": service.rewards.limit,
                        "expected_mean": _mean(tally.expected), "components": _means(tally.terms)},
        }  # fmt: skip

    def _newest(self) -> int:
        arrived = self._champion.arrived if self._champion is not None else 0
        return max(self._service.decider.live.newest.version, arrived)

    def _versions(self) -> dict[str, dict[str, Any]]:
        """Return the age, the mean reward and the judgement of the versions that are kept, by label."""
        history = self._service.decider.live.history
        kept = ((label, history.get(label)) for label in history.labels)
        return {str(label): self._of_version(snapshot.candidate) for label, snapshot in kept if snapshot is not None}

    def _of_version(self, candidate: Candidate) -> dict[str, Any]:
        earned = self._service.tally.by_version.get(candidate.version)
        said = self._champion.said.of(candidate.version) if self._champion is not None else None
        judged = {name: (said or {}).get(name) for name in ("state", "why", *GAIN)}
        return {
            "made": candidate.made,
            "reward_mean": _rounded(earned.total / earned.count) if earned is not None else None,
            "rewards": earned.count if earned is not None else 0,
            **{name: _rounded(value) if name in GAIN else value for name, value in judged.items()},
        }

    def _of_stream(self, stream: str, size: int) -> dict[str, Any]:
        """Return the stream's share of the buffer's `size` experiences, its mean reward, its rate and its last time."""
        writer, tally = self._service.writer, self._service.tally
        rewards = [reward for _, reward in tally.by_stream.get(stream, ())]
        return {
            "experiences": writer.streams[stream],
            "share": round(writer.streams[stream] / size, 4) if size else None,
            "reward_mean": _rounded(_mean(rewards)),
            "rewards": len(rewards),
            "per_second": _rounded(_per_second(tally.last[stream])),
            "seen": round(tally.last[stream].decision.time, 2),
        }

    def stream_rewards(self, stream: str) -> dict[str, list[float]] | None:
        """Return `t` (s since 1970) and `reward` of a stream's last rewards, from any thread; None: unknown stream."""
        tally = self._service.tally
        if stream not in tally.last and stream not in tally.by_stream:
            return None
        rewards = tally.by_stream[stream].copy() if stream in tally.by_stream else ()  # the serving thread adds to it
        return {"t": [round(t, 2) for t, _ in rewards], "reward": [reward for _, reward in rewards]}

    def trouble(self) -> str | None:
        """Return why the run is not healthy; None if it is. Called by any thread, for `/healthz`."""
        silent = time.monotonic() - self._refreshed_at
        if self._phase == "serving" and silent > STALLED_S:
            return f"the decision loop has not responded for {silent:.0f} s"
        trainer = self._watchdog.reading()
        if trainer.get("state") in GONE:
            why = f": {trainer['why']}" if trainer.get("why") else ""
            return f"the trainer is {trainer['state']}{why}"
        return None

    def _rate(self) -> float | None:
        (start, first), (now, last) = self._marks[0], self._marks[-1]
        return (last - first) / (now - start) if now - start > 0.1 else None

    # called by any thread

    def reading(self) -> dict[str, Any]:
        """Return the current status, as plain values for strict JSON."""
        made, fixed = self._made, self._fixed
        trainer = {**UNKNOWN, **self._watchdog.reading()}
        serving = dict(made.get("serving", {}))
        born = serving.get("made")
        serving["age_s"] = None if born is None else round(max(0.0, time.time() - born), 2)
        idle = time.monotonic() - self._service.tally.decided_at
        decisions = {**made.get("decisions", {}), "idle_s": round(idle, 2)}
        buffer = {**made.get("buffer", {}), "expired": trainer.get("expired")}
        shown = {name: fixed[name] for name in ("task", "title", "run", "simulator", "gate", "playSpeed")}
        now = round(time.time(), 2)
        return {
            **made,
            **shown,
            "now": now,
            "refreshed": made["refreshed"] if self._phase == "serving" else now,  # no snapshots while stopping
            "phase": self._phase,
            "serving": serving,
            "decisions": decisions,
            "buffer": buffer,
            "trainer": trainer,
            "champion": NOT_JUDGED if self._champion is None else self._champion.reading(),
            "server": self._clients(),
            "events": list(self._events.recent),
        }


def _version(candidate: Candidate) -> dict[str, Any]:
    return {"version": candidate.version, "made": candidate.made, "source": candidate.source}


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _usual_interval(last: LastDecision) -> float | None:
    """Return the usual time in s between two decisions of a stream; None if it is unknown.

    It follows a stream that becomes slower within two decisions.
    """
    return statistics.median(last.intervals[-USUAL:]) if last.intervals else None


def _per_second(last: LastDecision) -> float | None:
    """Return the mean rate of a stream's last decisions without its pauses; None if it is unknown."""
    usual = _usual_interval(last)
    if usual is None:
        return None
    running = [interval for interval in last.intervals if interval <= _idle_limit([usual])]
    total = sum(running)
    return len(running) / total if total > 0 else None


def _idle_limit(usual: Sequence[float]) -> float:
    """Return the s without a decision after which the streams count as silent; some ask only twice a minute.

    `usual`: intervals in s of the last streams that asked.
    """
    return max(LEAST_IDLE_S, IDLE_INTERVALS * statistics.median(usual)) if usual else LEAST_IDLE_S


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _means(terms: Sequence[dict[str, float]]) -> dict[str, float]:
    names = terms[-1] if terms else ()
    return {name: statistics.fmean([t[name] for t in terms if name in t]) for name in names}

"""Exports the numbers of a continuous run to Prometheus (`/metrics`) and TensorBoard.

    readings = Readings(lambda: status)
    Gateway(..., stats=lambda: status, metrics=readings)
    curves = Curves(run.path / "summaries", start_step=...)
    curves.update(status)                     # at any rate; writes at most once a second

`NUMBERS` is the only list of them: each number's path in the status, its names in Prometheus and TensorBoard, its unit
and its meaning. A number that is unknown (null) or non-finite is left out. In `/metrics`, a counter never falls: while
its count is unknown, or lower because a restarted trainer resumed from an older checkpoint, the highest count so far is
repeated. Prometheus would take a falling counter for a restart from zero, and count the events again.
"""

from __future__ import annotations

import math
import numbers
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livegym.rl.scalars import ScalarWriter
from livegym.utils.locks import locked
from livegym.utils.nested import look_up
from livegym.web.metrics import Reading

PREFIX = "livegym_online_"
STATES = ("starting", "waiting", "training", "hung", "dead", "given up", "stopped")
GONE = ("hung", "dead", "given up")  # states of a trainer that is not alive
EVERY = 1.0  # s between points of a curve at first
LATER, EVERY_LATER = 3600.0, 10.0  # s: after an hour, points come less often, or a month of them would fill the disk
MS = 1e-3


@dataclass(frozen=True)
class Number:
    """One number of the status. If the last part of its path is `*`, it stands for all numbers at that path."""

    path: str  # path in the status, parts joined by dots
    name: str  # name in /metrics, without the prefix; a name that ends in _total is a counter
    tag: str | None  # tag in TensorBoard, without `online/`; None: no curve
    unit: str
    meaning: str
    label: str | None = None  # name of the label that distinguishes the numbers of one name
    value: str | None = None  # value of the label, unless the path ends in `*`
    scale: float = 1.0  # factor from the status to /metrics: Prometheus uses seconds
    group: str = ""  # common meaning of the numbers of one name, if there are several

    @property
    def kind(self) -> str:
        """The type of the metric in Prometheus."""
        return "counter" if self.name.endswith("_total") else "gauge"

    def detect(self, status: Mapping[str, Any]) -> Iterator[tuple[str | None, float | None]]:
        """Yield (value of the label, number or None) for each number at the path."""
        parent, _, last = self.path.rpartition(".")
        if last != "*":
            yield self.value, _number(look_up(status, self.path))
            return
        group = look_up(status, parent)
        for key, value in (group if isinstance(group, Mapping) else {}).items():
            yield str(key), _number(value)


def _latency(of: str, which: str) -> Number:
    path, name = f"decisions.latency_ms.{of}", "decision_latency_seconds"
    group = "time from an observation's arrival until its answer was sent, over the last decisions"
    return Number(path, name, f"latency_ms/{of}", "ms (/metrics: s)", f"{which} {group}", "of", of, MS, group)


def _verdict(key: str, meaning: str) -> Number:
    group = "decisions by the gate's verdict"
    return Number(f"decisions.{key}", "verdicts_total", None, "decisions", meaning, "verdict", key.upper(), group=group)


NUMBERS = (
    Number("serving.version", "current_model_version", "version", "", "version of the acting policy"),
    Number("serving.age_s", "model_age_seconds", None, "s", "time since the acting version was made"),
    Number("serving.newest", "newest_model_version", None, "", "newest version that has arrived"),
    Number(
        "serving.pinned", "pinned", None, "0 or 1",
        "1 if a user has pinned a version; its decisions are excluded from training",
    ),
    Number("champion.version", "judged_version", None, "", "newest version that was judged"),
    Number("champion.stable", "stable_version", "stable_version", "", "the stable version, to which a rollback leads"),
    Number("champion.challenger", "challenger_version", None, "", "version that acts in a share of the streams"),
    Number(
        "champion.kl", "judged_kl", "champion/kl", "nats",
        "mean KL divergence of the judged version from the acting one",
    ),
    Number(
        "champion.gain", "judged_gain", "champion/gain", "reward",
        "estimated gain of the judged version over the one it was compared with, for each decision",
    ),
    Number("champion.gain_low", "judged_gain_low", None, "reward", "lower end of the gain's interval"),
    Number("champion.gain_high", "judged_gain_high", None, "reward", "upper end of the gain's interval"),
    Number("champion.judged", "judged_total", None, "versions", "versions for which the data gave an interval"),
    Number("champion.not_judged", "not_judged_total", None, "versions", "versions that went live without one"),
    Number("champion.refused", "refused_versions_total", "champion/refused", "versions", "versions that were refused"),
    Number("champion.rolled_back", "automatic_rollbacks_total", "champion/rolled_back", "", "automatic rollbacks"),
    Number(
        "champion.started_over", "trainer_set_back_total", None, "",
        "times that the trainer was set back to the acting or the stable version",
    ),
    Number(
        "champion.measuring", "champion_measuring", None, "0 or 1",
        "1 after a rollback, while no version goes live until it is known what the stable version earns now",
    ),
    Number("champion.alarm", "champion_alarm", None, "0 or 1", "1 if no version goes live until a person allows it"),
    Number("decisions.total", "decisions_total", None, "decisions", "decisions since the server started"),
    Number("decisions.per_second", "decisions_per_second", "decisions_per_second", "1/s", "mean over the last minute"),
    Number("decisions.idle_s", "idle_seconds", None, "s", "time since the last decision, or since the start"),
    Number(
        "decisions.idle_limit_s", "idle_limit_seconds", None, "s",
        "time without a decision after which the page reports it: 3 times a stream's usual interval, at least 20 s",
    ),
    _verdict("send", "actions that the gate let through"),
    _verdict("wait", "actions that the gate blocked"),
    _verdict("off", "decisions without a gate"),
    Number("decisions.send_rate", "send_rate", "send_rate", "0 to 1", "fraction of SEND among recent gated decisions"),
    Number(
        "decisions.interfered", "interfered_total", None, "decisions",
        "affected by human intervention, or by a failure of the gate or the policy",
    ),
    Number(
        "decisions.unlearned", "unlearned_total", None, "decisions",
        "completed decisions that are excluded from training: interfered ones, and those with `learn: false`",
    ),
    Number(
        "decisions.gate_failures", "gate_failures_total", None, "",
        "calls in which the gate raised an exception or returned no valid verdict",
    ),
    Number(
        "decisions.logged", "logged_total", None, "decisions",
        "decisions in the decision log since the server started: completed, or dropped without a reward",
    ),
    Number(
        "decisions.not_logged", "not_logged_total", None, "decisions",
        "decisions that could not be written to the decision log, because the disk was full, for example",
    ),
    _latency("p50", "median"),
    _latency("p99", "99th percentile of the"),
    _latency("max", "longest"),
    Number("stream_count", "streams", None, "streams", "known streams"),
    Number("buffer.capacity", "buffer_capacity", None, "experiences", "capacity of the replay buffer"),
    Number("buffer.size", "buffer_size", "buffer/size", "experiences", "completed experiences in the replay buffer"),
    Number(
        "buffer.added", "experiences_with_rewards_total", None, "experiences",
        "experiences that got their reward and were stored, since the run began",
    ),
    Number(
        "buffer.largest_share", "buffer_largest_stream_share", "buffer/largest_share", "0 to 1",
        "fraction of the replay buffer that the stream with the most experiences has",
    ),
    Number("buffer.pending", "pending_experiences", "buffer/pending", "decisions", "decisions waiting for a reward"),
    Number(
        "buffer.expired_pending", "expired_pending_total", None, "decisions",
        "decisions dropped because no reward came in time",
    ),
    Number("buffer.expired", "expired_experiences", None, "experiences", "in the buffer, but too old to train on"),
    Number(
        "buffer.torn", "torn_experiences_total", None, "experiences",
        "partially written when the process was killed, and dropped",
    ),
    Number("buffer.lost", "lost_experiences_total", None, "experiences", "completed but never stored; should stay 0"),
    Number("buffer.refused.*", "rewards_refused_total", None, "rewards", "refused rewards, by kind", "kind"),
    Number("episodes.ended", "episodes_total", None, "episodes", "finished episodes of all streams"),
    Number(
        "episodes.broken_off", "episodes_broken_off_total", None, "episodes",
        "episodes that the client did not end before it began another",
    ),
    Number(
        "episodes.return_mean", "episode_return_mean", "episode/return", "reward",
        "mean return of the last hundred episodes",
    ),
    Number(
        "episodes.returns", "episode_return_mean_episodes", None, "episodes",
        "episodes in that mean, at most a hundred; those whose beginning is unknown have no return",
    ),
    Number(
        "episodes.length_mean", "episode_length_mean", "episode/length", "decisions",
        "mean length of the last hundred episodes",
    ),
    Number("rewards.mean", "reward_mean", "reward/mean", "reward", "mean reward of the last completed decisions"),
    Number("rewards.count", "reward_mean_decisions", None, "decisions", "decisions in that mean, at most a thousand"),
    Number(
        "rewards.limit", "reward_limit", None, "reward",
        "magnitude beyond which a reward is left out of training: `online.outlier_factor` times the usual size",
    ),
    Number(
        "rewards.outliers", "reward_outliers_total", None, "rewards",
        "rewards beyond that limit in this session; they are in no mean",
    ),
    Number(
        "rewards.expected_mean", "reward_expected_mean", "reward/expected", "reward",
        "mean reward that the gate expected of the last decisions",
    ),
    Number(
        "rewards.components.*", "reward_component_mean", "reward_component/*", "reward", "mean of each reward term",
        "component",
    ),
    Number("trainer.restarts", "trainer_restarts_total", None, "", "starts of the trainer after the first"),
    Number("trainer.spare", "trainer_spare", None, "0 or 1", "1 if a spare trainer waits to take over"),
    Number("trainer.beat_age_s", "trainer_beat_age_seconds", None, "s", "time since the trainer's last heartbeat"),
    Number(
        "trainer.training_steps", "training_steps_total", None, "update rounds",
        "completed update rounds, each of `online.updates` gradient steps",
    ),
    Number("trainer.total_batches_trained", "batches_trained_total", None, "batches", "batches trained on"),
    Number("trainer.average_batch_size", "average_batch_size", "batch_size", "experiences", "mean size of a batch"),
    Number("trainer.average_loss", "average_loss", "average_loss", "", "mean loss of the last hundred update rounds"),
    Number("trainer.loss", "loss", "loss", "", "mean loss of the last update round"),
    Number(
        "trainer.training_steps_per_second", "training_steps_per_second", "steps_per_second", "1/s",
        "recent update rounds per second",
    ),
    Number(
        "trainer.average_training_time_ms", "average_training_time_seconds", "training_time_ms", "ms (/metrics: s)",
        "mean duration of an update round", scale=MS,
    ),
    Number("trainer.entropy", "entropy", "entropy", "nats", "entropy of the policy in the last update round"),
    Number(
        "trainer.kl", "kl_divergence", "kl", "nats",
        "divergence of the trained policy from the one that acted, in the last update round",
    ),
    Number(
        "trainer.training_utilization", "training_utilization", "utilization", "0 to 1",
        "fraction of the time in which the trainer is busy",
    ),
    Number("trainer.learning_rate", "learning_rate", "learning_rate", "", "learning rate of the next update round"),
    Number("trainer.version", "trainer_model_version", None, "", "version that was published last"),
    Number(
        "trainer.agreement", "gate_agreement", "agreement", "0 to 1",
        "fraction of samples for which the re-evaluated verdict is unchanged",
    ),
    Number(
        "trainer.overruns", "overruns_total", "overruns", "",
        "update rounds that took longer than `online.training_interval`",
    ),
    Number(
        "trainer.rollbacks", "rollbacks_total", "rollbacks", "",
        "times that the trainer diverged and returned to its last good weights",
    ),
    Number(
        "trainer.skipped_batches", "skipped_batches_total", "skipped_batches", "batches",
        "batches that were not trained on: too small, or not finite",
    ),
    Number(
        "trainer.broken_rows", "broken_rows_total", None, "experiences",
        "experiences with non-finite or huge numbers; they are never trained on",
    ),
    Number(
        "trainer.outlier_rows", "outlier_rows_total", None, "experiences",
        "experiences whose reward was beyond `online.outlier_factor` times the usual size when they came",
    ),
    Number("trainer.saved", "saved_model_version", None, "", "version of the newest checkpoint"),
    Number("server.clients", "server_clients", None, "", "connected clients"),
    Number("server.messages", "server_messages_total", None, "messages", "messages from clients"),
    Number("server.refused", "server_refused_total", None, "requests", "refused requests and messages"),
    Number("server.busy", "server_busy_total", None, "messages", "turned away because too many were waiting"),
)  # fmt: skip


class Readings:
    """Makes the readings of `/metrics` at each collection, on any thread."""

    def __init__(self, read: Callable[[], Mapping[str, Any]]) -> None:
        self._read = read
        self._counts: dict[tuple[str, str | None], float] = {}  # highest count of each counter so far
        self._lock = threading.Lock()

    def __call__(self) -> Iterable[Reading]:
        """Return the current readings."""
        status = self._read()
        found: dict[str, tuple[Number, list[tuple[dict[str, str], float]]]] = {}
        with locked(self._lock, "the last counts"):
            for number in NUMBERS:
                samples = found.setdefault(number.name, (number, []))[1]
                samples += self._samples(number, status)
        readings = [_reading(number, samples) for number, samples in found.values() if samples]
        return [*readings, *_others(status)]

    def _samples(self, number: Number, status: Mapping[str, Any]) -> Iterator[tuple[dict[str, str], float]]:
        for key, value in number.detect(status):
            if number.kind == "counter":
                known = [count for count in (value, self._counts.get((number.name, key))) if count is not None]
                value = max(known, default=None)
                if value is not None:
                    self._counts[number.name, key] = value
            if value is not None:
                yield ({} if number.label is None else {number.label: key or ""}), value * number.scale


def _reading(number: Number, samples: list[tuple[dict[str, str], float]]) -> Reading:
    return PREFIX + number.name, number.group or number.meaning, number.kind, samples


def _others(status: Mapping[str, Any]) -> Iterator[Reading]:
    """Yield the readings of states, which are not numbers in the status."""
    state = look_up(status, "trainer.state")
    if state is not None:
        samples = [({"state": name}, float(name == state)) for name in STATES]
        yield f"{PREFIX}trainer_state", "1 for the state that the trainer is in", "gauge", samples


class Curves:
    """TensorBoard scalars of one run. Not thread-safe; one thread calls all methods.

    The step of the trainer's curves is the number of update rounds; the step of all other curves is the number of
    completed experiences. Both counts continue over a resume.
    """

    def __init__(self, directory: Path, start_step: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """`start_step`: the highest step of either kind that a resumed run has reached; later points are dropped."""
        self._writer = ScalarWriter(directory, start_step)
        self._clock = clock
        self._began, self._next = clock(), -math.inf
        self._last: dict[str, tuple[int, float]] = {}  # tag -> the last step and value written

    def update(self, status: Mapping[str, Any]) -> bool:
        """Write the numbers that have changed, if the next point is due; return whether it was."""
        now = self._clock()
        if now < self._next:
            return False
        self._next = now + (EVERY if now - self._began < LATER else EVERY_LATER)
        for number in NUMBERS:
            if number.tag is not None:
                self._add(number, number.tag, status)
        self._writer.flush()
        return True

    def close(self) -> None:
        """Flush and close the event file."""
        self._writer.close()

    def _add(self, number: Number, tag: str, status: Mapping[str, Any]) -> None:
        path = "trainer.training_steps" if number.path.startswith("trainer.") else "buffer.added"
        step = _number(look_up(status, path))
        for key, value in number.detect(status):
            name = "online/" + tag.replace("*", key or "")
            if step is not None and value is not None and self._last.get(name) != (int(step), value):
                self._last[name] = (int(step), value)
                self._writer.add_scalar(name, value, int(step))


def _number(value: Any) -> float | None:
    """Return a finite number as a float, anything else as None."""
    return float(value) if isinstance(value, numbers.Real) and math.isfinite(value) else None


def table() -> str:
    """Return all numbers as a Markdown table, for docs/continuous.md."""
    lines = [
        "| `/stats` | `/metrics`: `livegym_online_...` | TensorBoard | unit | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    for number in NUMBERS:
        label = "" if number.label is None else f'{{{number.label}="{number.value or "..."}"}}'
        tag = "" if number.tag is None else f"`online/{number.tag}`"
        lines.append(f"| `{number.path}` | `{number.name}{label}` | {tag} | {number.unit} | {number.meaning} |")
    return "\n".join(lines) + "\n"

"""Decisions: the live policy's proposal for each stream, and the gate's verdict on it.

    decider = Decider(live, adapter, StreamSlots(64, idle=120.0), spec)
    made = decider.decide([StreamObservation("north", obs, seen)], clock=12.5, ids=[17])

Streams come and go, but a policy acts in a fixed number of environments. So each stream occupies one of these slots for
as long as it keeps asking. All streams that ask at the same time share one forward pass. Version, probabilities and
confidence come from that same pass, so they belong to the version that chose the action, even if another one takes over
a moment later.

If the gate fails, the verdict is WAIT, no action is executed, and the policy is not trained on that decision.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from livegym.live.swap import LivePolicy
from livegym.online.experience import Experience, Verdict, clipped
from livegym.online.gate import Judgement, check_judgement
from livegym.online.gates import GateAdapter
from livegym.online.trial import Trial, both
from livegym.rl.distribution import Distribution
from livegym.rl.spec import PolicySpec
from livegym.tasks.env import Env
from livegym.utils.attempt import Attempts

log = logging.getLogger(__name__)

NOTHING = np.zeros(0, np.float32)
"""The gate's observation without a gate."""


@dataclass(frozen=True)
class StreamObservation:
    """One observation of a stream, as the policy and the gate see it."""

    stream: str
    obs: np.ndarray  # (W,) float32, the policy's observation
    seen: np.ndarray | None  # (S,) the gate's observation; empty without a gate; None: the gate could not make it
    raw: np.ndarray | None = None  # (R,) the packed raw observation, if the task has raw fields
    learn: bool = True  # False: nothing is learned from the decision


class NoFreeSlot(RuntimeError):
    """All slots are taken by streams that asked recently."""


class StreamSlots:
    """Assigns streams to the policy's environments, which are the slots.

    If all are taken, a new stream gets the slot of another one: of a stream whose client has left, first of those
    without a pending decision, then of the others; or of one that has not asked for `idle` s. Of several, the one that
    asked least recently loses it. So new names use up the slots of those that came and went before, not of clients.
    """

    def __init__(
        self,
        count: int,
        idle: float,
        held: Callable[[str], bool] = lambda stream: True,
        waits: Callable[[str], bool] = lambda stream: False,
    ) -> None:
        """`idle`: s without a request after which a stream may lose its slot although its client is present.

        `held(stream)`: whether a client has the stream. `waits(stream)`: whether its newest decision is pending.
        """
        self._free = list(range(count - 1, -1, -1))
        self._idle = idle
        self._held, self._waits = held, waits
        self._reserved: set[str] = set()
        # Stream -> its slot and the s of its last request, the least recent stream first.
        self._assigned: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._assigned)

    @property
    def streams(self) -> list[str]:
        """The streams that have a slot."""
        return list(self._assigned)

    def of(self, stream: str, now: float) -> int:
        """Return the stream's slot; assign one if it has none. Raises NoFreeSlot.

        Streams that ask at the same time `now` keep theirs.
        """
        slot = self._assigned[stream][0] if stream in self._assigned else self._take(now)
        self._assigned[stream] = (slot, now)
        self._assigned.move_to_end(stream)
        return slot

    def reserve(self, streams: Sequence[str]) -> None:
        """Assign slots that these streams keep, however seldom they ask. Raises NoFreeSlot."""
        for stream in streams:
            self._reserved.add(stream)
            self.of(stream, 0.0)

    def assigned(self, streams: Sequence[str]) -> list[int]:
        """Return the slots of those of `streams` that have one."""
        return [self._assigned[stream][0] for stream in streams if stream in self._assigned]

    def _take(self, now: float) -> int:
        if self._free:
            return self._free.pop()
        loser = self._loser(now)
        if loser is None:
            raise NoFreeSlot(f"{len(self._assigned)} streams are served already, which is the limit")
        return self._assigned.pop(loser)[0]

    def _loser(self, now: float) -> str | None:
        """Return the stream that loses its slot to a new one; None if all keep theirs."""
        waits = idle = None
        for stream, (_, last_request) in self._assigned.items():
            if stream in self._reserved or last_request >= now:
                continue
            if not self._held(stream):
                if not self._waits(stream):
                    return stream
                waits = waits or stream
            elif now - last_request >= self._idle:
                idle = idle or stream
        return waits or idle


class Decider:
    """Makes decisions for streams. Not thread-safe; the serving thread calls all methods."""

    def __init__(self, live: LivePolicy, adapter: GateAdapter | None, slots: StreamSlots, spec: PolicySpec) -> None:
        """`live` must act in as many environments as `slots` has slots."""
        self.live = live
        self.adapter = adapter
        self.slots = slots
        self.spec = spec
        self.trial: Trial | None = None  # a challenger that acts in a share of the streams; set by any thread
        self._attempt = Attempts("the gate")
        self._unseen = NOTHING if adapter is None else np.zeros(adapter.width, adapter.kind)
        self._obs = torch.zeros(live.num_envs, spec.obs_width)
        self._unsound: int | None = None  # the version whose non-finite actions were logged

    @property
    def failures(self) -> int:
        """Number of calls in which the gate raised an exception or returned an invalid judgement."""
        return self._attempt.failures

    def decide(self, observations: Sequence[StreamObservation], clock: float, ids: Sequence[int]) -> list[Experience]:
        """Decide for several different streams in one forward pass.

        `clock`: s that the run has been served; `ids`: one new decision id for each observation. Raises NoFreeSlot;
        no decision is made then.
        """
        rows = torch.tensor([self.slots.of(observation.stream, clock) for observation in observations])
        obs = np.stack([observation.obs for observation in observations])
        self._obs[rows] = torch.from_numpy(obs)
        first = self._obs[: int(rows.max()) + 1]
        intervened = self.live.pinned or self.live.swapping
        step = self.live.decide(first)
        intervened = intervened or self.live.swapping
        versions, trial = np.full(len(rows), self.live.acting.version), self.trial
        if trial is not None and not intervened:
            chosen = np.array([trial.acts_in(observation.stream) for observation in observations])
            versions[chosen] = trial.version
            step = both(step, trial.decide(first), rows[torch.from_numpy(chosen)]) if chosen.any() else step
        action, distribution = step
        of_all = distribution.log_prob(action)
        log_prob, confidence = of_all.cpu()[rows], distribution.confidence(of_all).cpu()[rows]
        proposed = _rows_of(action)[rows.numpy()]
        sound = self._sound(proposed, log_prob, versions)
        proposed[~sound] = 0
        log_prob[~sound] = 0.0
        confidence[~sound] = 0.0
        judgement = self._judge(observations, proposed, confidence.numpy().copy())
        executed, blocked = _executed(proposed, judgement, gated=self.adapter is not None)
        forced = torch.from_numpy((executed != proposed).any(1))
        executed_log_prob = log_prob
        if forced.any():  # rare, and needs a second evaluation of the distribution
            executed_log_prob = log_prob.where(~forced, _log_prob_of_forced(distribution, action, rows, executed))
        failed = self.adapter is not None and judgement is None
        now = time.time()
        made = []
        for i, observation in enumerate(observations):
            verdict, expected, components = _verdict_of(judgement, i, failed)
            made.append(Experience(
                stream=observation.stream, decision=ids[i], obs=observation.obs,
                proposed=proposed[i], executed=executed[i],
                log_prob=float(log_prob[i]), executed_log_prob=float(executed_log_prob[i]),
                confidence=float(confidence[i]), verdict=verdict, expected=expected, components=components,
                seen=self._unseen if observation.seen is None else observation.seen,
                version=int(versions[i]), time=now, clock=clock,
                held=bool(blocked[i] or not sound[i]),
                intervened=intervened or failed or not sound[i], learn=observation.learn,
            ))  # fmt: skip
        return made

    def _sound(self, proposed: np.ndarray, log_prob: Tensor, versions: np.ndarray) -> np.ndarray:
        """Return (n,) whether action and log-probability are finite; others are neither executed nor trained on."""
        sound = np.isfinite(proposed).all(1) & np.isfinite(log_prob.numpy())
        version = None if sound.all() else int(versions[~sound][0])
        if version not in (None, self._unsound):
            self._unsound = version
            log.error("version %d proposes non-finite actions or log-probabilities; they are not executed.", version)
        return sound

    def forget(self, streams: Sequence[str]) -> None:
        """Tell the live policy that the episodes of these streams have ended."""
        slots = self.slots.assigned(streams)
        if slots:
            self.live.forget(torch.tensor(slots))
        trial = self.trial  # another thread may end it at this moment
        if trial is not None:
            trial.forget(streams)
        self.live.take_changes()  # dropped: a continuous run does not report which version acts in which stream

    def sees(self, env: Env) -> Sequence[np.ndarray | None]:
        """Return the gate's observation (S,) of each environment of the built-in simulator; None: the gate failed."""
        adapter, n = self.adapter, env.num_envs
        if adapter is None:
            return [NOTHING] * n

        def observe() -> np.ndarray:
            seen = np.asarray(adapter.observe(env))
            if seen.shape != (n, adapter.width):
                raise ValueError(f"the gate's observation has shape {seen.shape}; expected ({n}, {adapter.width})")
            return seen

        seen = self._attempt.result(observe)
        return [None] * n if seen is None else list(seen)

    def _judge(
        self, observations: Sequence[StreamObservation], proposed: np.ndarray, confidence: np.ndarray
    ) -> Judgement | None:
        if self.adapter is None:
            return None
        seen = [observation.seen for observation in observations if observation.seen is not None]
        if len(seen) < len(observations):
            return None
        gate_obs, found = np.stack(seen), list[Judgement]()
        gate = self.adapter.gate

        def judge() -> None:
            judgement = gate.evaluate(gate_obs, clipped(proposed), confidence)  # copies, so the gate cannot change ours
            check_judgement(judgement, len(observations), self.spec.action)
            found.append(judgement)

        return found[0] if self._attempt(judge) else None


def _rows_of(action: torch.Tensor) -> np.ndarray:
    """Return actions as rows (N, A): float32, or int64 choices."""
    rows = action.reshape(len(action), -1).cpu().numpy()
    return rows.astype(np.float32 if rows.dtype.kind == "f" else np.int64)


def _log_prob_of_forced(
    distribution: Distribution, action: torch.Tensor, rows: torch.Tensor, executed: np.ndarray
) -> Tensor:
    """Return log-probabilities (n,) of actions that the gate forced. A discrete choice was certain, so its value is 0.

    A continuous action that is certain has an infinite density, which would be useless in an importance ratio. It is
    treated as if the policy that acted had drawn it.
    """
    if executed.dtype.kind != "f":
        return torch.zeros(len(executed))
    forced = action.clone()
    forced[rows.to(forced.device)] = torch.from_numpy(executed).to(forced).reshape(len(executed), *forced.shape[1:])
    return distribution.log_prob(forced).cpu()[rows]


def _executed(proposed: np.ndarray, judgement: Judgement | None, gated: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the executed actions (n, A), and a mask (n,) of those for which no action is executed."""
    n = len(proposed)
    if not gated:
        return proposed, np.zeros(n, bool)
    if judgement is None:
        return proposed, np.ones(n, bool)
    waits = np.asarray(judgement.verdict) == Verdict.WAIT
    if judgement.fallback is None:
        return proposed, waits
    instead = clipped(np.asarray(judgement.fallback))
    return np.where(waits[:, None], instead, proposed).astype(proposed.dtype), np.zeros(n, bool)


def _verdict_of(judgement: Judgement | None, i: int, failed: bool) -> tuple[Verdict, float, dict[str, float]]:
    if judgement is None:
        return (Verdict.WAIT if failed else Verdict.OFF), math.nan, {}
    if judgement.predicted is not None and not judgement.predicted[i]:
        return Verdict(int(judgement.verdict[i])), math.nan, {}
    components = {name: float(values[i]) for name, values in judgement.components.items()}
    return Verdict(int(judgement.verdict[i])), float(judgement.expected[i]), components

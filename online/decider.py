"""One decision: what the live policy proposes for some streams, and what the gate says of it.

    decider = Decider(live, adapter, StreamSlots(64, idle=120.0), spec)
    made = decider.decide([StreamObservation("north", obs, seen)], clock=12.5, ids=[17])

Streams come and go; a policy acts in a fixed number of environments. So each stream has a slot among those, kept while
it is seen now and then. All streams that ask at once share one forward pass, from which version, probabilities and
confidence are taken too: a version that takes over a moment later is not named for what an older one chose.

A gate that fails judges nothing: the action waits, nothing is done instead, and nothing is learned from it.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from livegym.live.swap import LivePolicy
from livegym.online.experience import Experience, Verdict, as_done
from livegym.online.gate import Judgement, check_judgement
from livegym.online.gates import GateAdapter
from livegym.rl.distribution import Distribution
from livegym.rl.spec import PolicySpec
from livegym.utils.attempt import Attempts

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamObservation:
    """What a stream shows at one moment."""

    stream: str
    obs: np.ndarray  # (W,) float32, what the policy sees
    seen: np.ndarray  # (S,) what the gate sees; empty without one
    raw: np.ndarray | None = None  # (R,) the packed raw observation, if there is one


class NoFreeSlot(RuntimeError):
    """Every slot belongs to a stream that was seen lately."""


class StreamSlots:
    """Which stream acts in which environment of the policy."""

    def __init__(self, count: int, idle: float) -> None:
        """`idle`: s, after which a stream that was not seen makes room for another."""
        self._free = list(range(count - 1, -1, -1))
        self._idle = idle
        self._reserved: set[str] = set()
        self._held: OrderedDict[str, tuple[int, float]] = OrderedDict()  # seen longest ago first

    def __len__(self) -> int:
        return len(self._held)

    @property
    def streams(self) -> list[str]:
        """Those that have one."""
        return list(self._held)

    def of(self, stream: str, now: float) -> int:
        """The stream's slot, a new one if it has none. Raises NoFreeSlot."""
        slot = self._held[stream][0] if stream in self._held else self._take(now)
        self._held[stream] = (slot, now)
        self._held.move_to_end(stream)
        return slot

    def reserve(self, streams: Sequence[str]) -> None:
        """Slots that these streams keep, however seldom they are seen. Raises NoFreeSlot."""
        for stream in streams:
            self._reserved.add(stream)
            self.of(stream, 0.0)

    def held(self, streams: Sequence[str]) -> list[int]:
        """The slots of those streams that have one."""
        return [self._held[stream][0] for stream in streams if stream in self._held]

    def _take(self, now: float) -> int:
        if self._free:
            return self._free.pop()
        others = ((stream, *held) for stream, held in self._held.items() if stream not in self._reserved)
        oldest, slot, seen = next(others, ("", 0, now))
        if not oldest or now - seen < self._idle:
            raise NoFreeSlot(f"{len(self._held)} streams are served already, which is as many as can be")
        del self._held[oldest]
        return slot


class Decider:
    """Decides for the streams that ask. Belongs to the serving thread."""

    def __init__(self, live: LivePolicy, adapter: GateAdapter | None, slots: StreamSlots, spec: PolicySpec) -> None:
        """The live policy acts in as many environments as there are slots."""
        self.live = live
        self.adapter = adapter
        self.slots = slots
        self.spec = spec
        self._attempt = Attempts("the gate")
        self._obs = torch.zeros(live.num_envs, spec.obs_width)
        self._unsound: int | None = None  # the version that was complained of

    @property
    def failures(self) -> int:
        """How often the gate raised, or gave no judgement."""
        return self._attempt.failures

    def decide(self, observations: Sequence[StreamObservation], clock: float, ids: Sequence[int]) -> list[Experience]:
        """One forward pass for different streams. `clock`: s served; `ids`: of the decisions.

        Raises NoFreeSlot, and nothing is decided then.
        """
        rows = torch.tensor([self.slots.of(observation.stream, clock) for observation in observations])
        obs = np.stack([observation.obs for observation in observations])
        self._obs[rows] = torch.from_numpy(obs)
        first = self._obs[: int(rows.max()) + 1]
        intervened = self.live.pinned or self.live.swapping
        action, distribution = self.live.decide(first)
        intervened = intervened or self.live.swapping
        version = self.live.acting.version
        of_all = distribution.log_prob(action)
        log_prob, confidence = of_all.cpu()[rows], distribution.confidence(of_all).cpu()[rows]
        proposed = _rows_of(action)[rows.numpy()]
        sound = self._sound(proposed, log_prob, version)
        proposed[~sound] = 0
        log_prob[~sound] = 0.0
        confidence[~sound] = 0.0
        judgement = self._judge(observations, proposed, confidence.numpy().copy())
        executed, held = _executed(proposed, judgement, gated=self.adapter is not None)
        forced = torch.from_numpy((executed != proposed).any(1))
        executed_log_prob = log_prob
        if forced.any():  # seldom, and a second look at the distribution
            executed_log_prob = log_prob.where(~forced, _log_prob_of_forced(distribution, action, rows, executed))
        failed = self.adapter is not None and judgement is None
        now = time.time()
        made = []
        for i, observation in enumerate(observations):
            verdict, expected, components = _said_of(judgement, i, failed)
            made.append(Experience(
                stream=observation.stream, decision=ids[i], obs=observation.obs,
                proposed=proposed[i], executed=executed[i],
                log_prob=float(log_prob[i]), executed_log_prob=float(executed_log_prob[i]),
                confidence=float(confidence[i]), verdict=verdict, expected=expected, components=components,
                seen=observation.seen, version=version, time=now, clock=clock, held=bool(held[i] or not sound[i]),
                intervened=intervened or failed or not sound[i],
            ))  # fmt: skip
        return made

    def _sound(self, proposed: np.ndarray, log_prob: Tensor, version: int) -> np.ndarray:
        """(n,) where the policy said something that can be done; elsewhere nothing is done, and nothing is learned."""
        sound = np.isfinite(proposed).all(1) & np.isfinite(log_prob.numpy())
        if not sound.all() and version != self._unsound:
            self._unsound = version
            log.error("version %d proposes what is no finite number: nothing is done where it does.", version)
        return sound

    def forget(self, streams: Sequence[str]) -> None:
        """Episodes of these streams have ended."""
        slots = self.slots.held(streams)
        if slots:
            self.live.forget(torch.tensor(slots))
        self.live.take_changes()  # nobody follows who acts where

    def _judge(
        self, observations: Sequence[StreamObservation], proposed: np.ndarray, confidence: np.ndarray
    ) -> Judgement | None:
        if self.adapter is None:
            return None
        seen, found = np.stack([observation.seen for observation in observations]), list[Judgement]()
        gate = self.adapter.gate

        def judge() -> None:
            judgement = gate.evaluate(seen, as_done(proposed), confidence)  # which nothing here changes with
            check_judgement(judgement, len(observations), self.spec.action)
            found.append(judgement)

        return found[0] if self._attempt(judge) else None


def _rows_of(action: torch.Tensor) -> np.ndarray:
    """Actions as rows (N, A): float32, or int64 choices."""
    rows = action.reshape(len(action), -1).cpu().numpy()
    return rows.astype(np.float32 if rows.dtype.kind == "f" else np.int64)


def _log_prob_of_forced(
    distribution: Distribution, action: torch.Tensor, rows: torch.Tensor, executed: np.ndarray
) -> Tensor:
    """(n,) for actions that the gate has done. A choice is certain: 0.

    A continuous action has no probability: one that is certain has an infinite density, to which nothing can be
    compared. It counts as if the policy that acted had drawn it.
    """
    if executed.dtype.kind != "f":
        return torch.zeros(len(executed))
    done = action.clone()
    done[rows.to(done.device)] = torch.from_numpy(executed).to(done).reshape(len(executed), *done.shape[1:])
    return distribution.log_prob(done).cpu()[rows]


def _executed(proposed: np.ndarray, judgement: Judgement | None, gated: bool) -> tuple[np.ndarray, np.ndarray]:
    """(n, A) what is done, and (n,) if that is nothing, so that the row means nothing."""
    n = len(proposed)
    if not gated:
        return proposed, np.zeros(n, bool)
    if judgement is None:
        return proposed, np.ones(n, bool)
    waits = np.asarray(judgement.verdict) == Verdict.WAIT
    if judgement.fallback is None:
        return proposed, waits
    instead = as_done(np.asarray(judgement.fallback))
    return np.where(waits[:, None], instead, proposed).astype(proposed.dtype), np.zeros(n, bool)


def _said_of(judgement: Judgement | None, i: int, failed: bool) -> tuple[Verdict, float, dict[str, float]]:
    if judgement is None:
        return (Verdict.WAIT if failed else Verdict.OFF), math.nan, {}
    components = {name: float(values[i]) for name, values in judgement.components.items()}
    return Verdict(int(judgement.verdict[i])), float(judgement.expected[i]), components

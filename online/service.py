"""What is done with observations and rewards, wherever they come from: complete, keep, decide.

    service.answer([Observed("north", obs=...), Rewarded("south", 17, 0.5)], clock)    # answers, in order

For each observation, in this order: it is checked; the stream's last decision gets its reward, from the client or from
the task's own reward calculator, and this observation as what came after it; what is complete goes into the replay
buffer; then all streams are decided for in one forward pass. Belongs to the serving thread.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from online.decider import Decided, Decider, NoRoom, Sight
from online.episodes import Episodes
from online.experience import Experience, Verdict
from online.gates import Sees
from online.inbox import Accepted, Answer, Decision, Observed, Refusal, Request, Rewarded
from online.pending import Pending, RewardError
from online.replay import ReplayWriter

WINDOW = 1000  # decisions and rewards over which rates and means are taken
STREAMS = 1000  # whose last answer is remembered
RewardOf = Callable[[np.ndarray, np.ndarray, np.ndarray], "tuple[float, dict[str, float]]"]
"""(raw before (R,), action (A,), raw after (R,)) -> reward, and its weighted terms"""


@dataclass
class _Stream:
    """What is known of a stream beside its decisions."""

    sequence: int | None = None
    answer: Answer = None
    raw: np.ndarray | None = None  # the last raw observation


@dataclass
class Tally:
    """What has happened, for whoever asks."""

    verdicts: dict[str, int] = field(default_factory=lambda: dict.fromkeys((v.name for v in Verdict), 0))
    interfered: int = 0
    unlearned: int = 0  # completed, and not to be learned from
    lately: deque[Verdict] = field(default_factory=lambda: deque(maxlen=WINDOW))
    rewards: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    expected: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    terms: deque[dict[str, float]] = field(default_factory=lambda: deque(maxlen=WINDOW))
    episodes: Episodes = field(default_factory=Episodes)
    refused: int = 0
    decided_at: float = field(default_factory=time.monotonic)  # s, the last decision, or the start
    last: OrderedDict[str, Decided] = field(default_factory=OrderedDict)  # stream -> its newest decision

    @property
    def decisions(self) -> int:
        """All."""
        return sum(self.verdicts.values())

    def decided(self, made: Decided) -> None:
        """One more decision."""
        e = made.experience
        self.decided_at = time.monotonic()
        self.verdicts[e.verdict.name] += 1
        self.interfered += e.interfered
        self.lately.append(e.verdict)
        if math.isfinite(e.expected):
            self.expected.append(e.expected)
        self.last[e.stream] = made
        self.last.move_to_end(e.stream)
        if len(self.last) > STREAMS:
            self.last.popitem(last=False)


class Service:
    """Serves streams."""

    def __init__(
        self,
        decider: Decider,
        pending: Pending,
        writer: ReplayWriter,
        features: Callable[[np.ndarray], np.ndarray] | None = None,
        reward_of: RewardOf | None = None,
    ) -> None:
        """`features`: raw observations (n, R) -> the policy's (n, W), where clients send those; `reward_of`: what a
        decision earned, computed where nobody says it."""
        self.decider, self.pending, self.writer = decider, pending, writer
        self.tally = Tally()
        self.own: frozenset[str] = frozenset()  # streams of the built-in simulator, which no client may use
        self._features, self._reward_of = features, reward_of
        seat = decider.seat
        self._no_clients = None if seat is None else seat.for_clients(has_raw=features is not None)
        self._streams: OrderedDict[str, _Stream] = OrderedDict()

    def answer(self, requests: Sequence[Request], clock: float) -> list[Answer]:
        """Answers in order; a refusal is an answer, and changes nothing. `clock`: s served."""
        answers: list[Answer] = [None] * len(requests)
        waiting: list[tuple[int, Observed]] = []
        for i, request in enumerate(requests):
            if isinstance(request, Rewarded):
                answers[i] = self._reward(request)
                continue
            if any(request.stream == other.stream for _, other in waiting):
                self._decide(waiting, answers, clock)  # the same stream again: what came before it is decided first
                waiting = []
            waiting.append((i, request))
        self._decide(waiting, answers, clock)
        return answers

    def _decide(self, waiting: list[tuple[int, Observed]], answers: list[Answer], clock: float) -> None:
        asking: list[tuple[int, Observed, np.ndarray, str | None]] = []
        for (i, request), obs in zip(waiting, self._observations([r for _, r in waiting]), strict=True):
            known = self._known_answer(request) or self._no_room(request, clock)
            if known is not None:
                answers[i] = known[0]
                continue
            why = self._complete(request, obs)
            if request.ends:
                self.end([request.stream])
                self._note(request, None)
            else:
                asking.append((i, request, obs, why))
        if not asking:
            return
        made = self.decide([self._sight(request, obs) for _, request, obs, _ in asking], clock)
        for (i, request, _, why), decided in zip(asking, made, strict=True):
            answers[i] = _decision(decided, why)
            self._note(request, answers[i])

    def decide(self, sights: Sequence[Sight], clock: float) -> list[Decided]:
        """Decides for different streams, and remembers it until the rewards come. Raises NoRoom."""
        made = self.decider.decide(sights, clock, [self.pending.next_id() for _ in sights])
        for decided in made:
            self.pending.add(decided.experience)
            self.tally.decided(decided)
        return made

    def end(self, streams: Sequence[str]) -> None:
        """Episodes of these streams have ended."""
        self.decider.forget(streams)
        for stream in streams:
            self.tally.episodes.end(stream)

    def keep(self, experience: Experience | None) -> None:
        """Takes a completed experience into the buffer, unless people interfered with it."""
        if experience is None or experience.reward is None:
            return
        self.tally.rewards.append(experience.reward)
        self.tally.episodes.earned(experience.stream, experience.reward)
        if experience.interfered:
            self.tally.unlearned += 1
        else:
            self.writer.add(experience)

    def _known_answer(self, request: Observed) -> tuple[Answer] | None:
        """The answer that was given to the very same observation, or the refusal of one that came too late."""
        if request.stream in self.own:
            return (
                self._refusal("invalid", f"stream {request.stream!r} is the built-in simulator's; take another name"),
            )
        if self._no_clients is not None:
            return (self._refusal("invalid", self._no_clients),)
        stream = self._streams.get(request.stream)
        if stream is None or stream.sequence is None or request.sequence is None:
            return None
        if request.sequence == stream.sequence:
            return (stream.answer,)
        if request.sequence < stream.sequence:
            words = f"sequence {request.sequence} of stream {request.stream!r} came after {stream.sequence}"
            return (self._refusal("out_of_order", f"{words}. Allowed: greater ones"),)
        return None

    def _no_room(self, request: Observed, clock: float) -> tuple[Answer] | None:
        """The refusal of a stream for which there is no slot, before anything is done with its observation."""
        if request.ends:
            return None
        try:
            self.decider.slots.of(request.stream, clock)
        except NoRoom as error:
            return (self._refusal("too_many_streams", f"{error}: online.max_streams=<more>"),)
        return None

    def _complete(self, request: Observed, obs: np.ndarray) -> str | None:
        """What this observation means for the stream's last decision; why its reward was refused, if it was."""
        last, why = self.pending.last_of(request.stream), None
        if last is None:
            return None if request.reward is None else "there is no open decision that this reward could belong to"
        reward = request.reward
        if reward is None and last.reward is None:
            reward = self._computed(request, last)
        if reward is not None:
            try:
                self.keep(self.pending.rewarded(request.stream, last.decision, reward))
            except RewardError as error:
                why = str(error)
                self.tally.refused += 1
        self.keep(self.pending.followed(request.stream, obs, request.done))
        return why

    def _computed(self, request: Observed, last: Experience) -> float | None:
        stream = self._streams.get(request.stream)
        if self._reward_of is None or last.held or request.raw is None or stream is None or stream.raw is None:
            return None
        reward, terms = self._reward_of(stream.raw, last.executed, request.raw)
        self.tally.terms.append(terms)
        return reward

    def _reward(self, request: Rewarded) -> Answer:
        try:
            self.keep(self.pending.rewarded(request.stream, request.decision, request.reward, request.done))
        except RewardError as error:
            return self._refusal(error.kind, str(error))
        if request.done:
            self.end([request.stream])
        return Accepted(request.stream, request.decision)

    def _refusal(self, kind: str, message: str) -> Refusal:
        self.tally.refused += 1
        return Refusal(kind, message)

    def _observations(self, requests: list[Observed]) -> list[np.ndarray]:
        if not requests or self._features is None:
            return [r.obs for r in requests if r.obs is not None]
        return list(self._features(np.stack([r.raw for r in requests if r.raw is not None])))

    def _sight(self, request: Observed, obs: np.ndarray) -> Sight:
        seat = self.decider.seat
        if seat is None:
            return Sight(request.stream, obs, np.zeros(0, np.float32), request.raw)
        seen = request.raw if seat.what is Sees.RAW else obs
        assert seen is not None, "asked for at the start"
        return Sight(request.stream, obs, seen, request.raw)

    def _note(self, request: Observed, answer: Answer) -> None:
        self._streams[request.stream] = _Stream(request.sequence, answer, request.raw)
        self._streams.move_to_end(request.stream)
        if len(self._streams) > STREAMS:
            self._streams.popitem(last=False)


def _decision(decided: Decided, previous: str | None) -> Decision:
    e, executed = decided.experience, decided.executed
    if executed is not None and executed.dtype.kind == "f":
        executed = executed.clip(-1.0, 1.0)  # as an environment here does; learned from is what the policy drew
    return Decision(
        stream=e.stream,
        decision=e.decision,
        proposed=e.proposed.tolist(),
        executed=None if executed is None else executed.tolist(),
        verdict=e.verdict.name,
        expected=e.expected if math.isfinite(e.expected) else None,
        components=decided.components,
        confidence=e.confidence,
        version=e.version,
        previous=previous,
    )

"""Handles observations and rewards from any source: completes experiences, stores them, and decides.

    service.answer([Observed("north", obs=...), Rewarded("south", 17, 0.5)], clock)    # answers, in order

For each observation, in this order: it is checked; the stream's last decision gets its reward (from the client, or from
the task's reward calculator) and this observation as its next one; once complete, it goes into the replay buffer. If an
episode begins with the observation, or if its client has come back without continuing, the last decision gets neither.
Then one forward pass decides for all streams, including those of other messages that wait (`answer_all`). The serving
thread calls all methods.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from livegym.online.decider import Decider, NoFreeSlot, StreamObservation
from livegym.online.experience import Experience, clipped
from livegym.online.gates import GateInput
from livegym.online.outcomes import Outcomes
from livegym.online.outliers import RewardWatch, unwatched
from livegym.online.pending import OWN_PART, RewardError
from livegym.online.service_counters import ServiceCounters
from livegym.online.service_state import STREAMS, ServiceState
from livegym.online.stream_requests import Accepted, Answer, Observed, Refusal, Request, Rewarded
from livegym.tasks.stability import MAX_REWARD
from livegym.utils.attempt import Attempts

log = logging.getLogger(__name__)

RewardOf = Callable[[np.ndarray, np.ndarray, np.ndarray], "tuple[float, dict[str, float]]"]
"""(raw before (R,), action (A,), raw after (R,)) -> reward, and its weighted terms"""


class _Asking(NamedTuple):
    """An observation of a message that gets a decision."""

    place: int  # of its answer in the message
    request: Observed
    observation: StreamObservation
    why: str | None  # why the reward of the stream's previous decision was refused


class _Prepared(NamedTuple):
    """A message whose decisions are not made yet."""

    answers: list[Answer]  # None for those in `asking`
    asking: list[_Asking]

    @property
    def observations(self) -> list[StreamObservation]:
        """The observations to decide on."""
        return [asking.observation for asking in self.asking]


class Service:
    """Decides for all streams of one run, and stores their experiences."""

    def __init__(
        self,
        decider: Decider,
        memory: ServiceState,
        features: Callable[[np.ndarray], np.ndarray] | None = None,
        reward_of: RewardOf | None = None,
        own: Collection[str] = (),
        outcomes: Outcomes | None = None,
        rewards: RewardWatch | None = None,
    ) -> None:
        """`features`: raw observations (n, R) -> the policy's (n, W), if clients send raw ones.

        `reward_of`: computes the reward of a decision if the client does not send it. `own`: streams of the built-in
        simulator, which clients may not use. `outcomes`: gets what each decision earned. `rewards`: knows the outliers.
        """
        self.decider = decider
        self.pending = memory.pending
        self.writer = memory.writer
        self.log = memory.log
        self.answer_cache = memory.answer_cache
        self.not_learned = memory.not_learned
        self.tally = ServiceCounters(max(STREAMS, decider.live.num_envs))
        self._attempt = Attempts("answering a client")
        self._own = frozenset(own)
        self._outcomes = outcomes
        self.rewards = rewards or unwatched(MAX_REWARD)
        self._features, self._reward_of = features, reward_of
        adapter = decider.adapter
        self._no_clients = None if adapter is None else adapter.for_clients(has_raw=features is not None)

    def answer(self, requests: Sequence[Request], clock: float) -> list[Answer]:
        """Return the answers in order; a refusal is an answer too, and changes nothing. `clock`: s served.

        `requests`: those of one message, either rewards in any order, or one observation each of different streams.
        """
        prepared = self._prepare(requests, clock)
        return self._finish(prepared, self.decide(prepared.observations, clock) if prepared.asking else [])

    def answer_all(self, messages: Sequence[Sequence[Request]], clock: float) -> list[list[Answer] | None]:
        """Return the answers to several messages, with one forward pass for all; no stream is in two of them.

        They are the answers that `answer` would give to one message after the other. None: this message failed; the
        log has the reason. The others are answered all the same.
        """
        prepared = [self._attempt.result(partial(self._prepare, requests, clock)) for requests in messages]
        asking = [part for part in prepared if part is not None and part.asking]
        made = iter(self._decide_together([part.observations for part in asking], clock))
        answers: list[list[Answer] | None] = []
        for part in prepared:
            decisions = [] if part is None or not part.asking else next(made)
            answers.append(None if part is None or decisions is None else self._finish(part, decisions))
        return answers

    def _prepare(self, requests: Sequence[Request], clock: float) -> _Prepared:
        """Handle one message up to its decisions: rewards, refusals, and what its observations complete."""
        rewards = [self._reward(request) for request in requests if isinstance(request, Rewarded)]
        if rewards:
            return _Prepared(rewards, [])
        observed = [request for request in requests if isinstance(request, Observed)]
        prepared = _Prepared([None] * len(observed), [])
        for i, (request, obs) in enumerate(zip(observed, self._observations(observed), strict=True)):
            try:
                self._check(request)
                known = self.answer_cache.answer_to(request)
                if known is None:
                    self._make_room(request, clock)
            except Refusal as refusal:
                prepared.answers[i] = refusal
                continue
            if known is not None:
                prepared.answers[i] = known[0]
                continue
            why = self._complete(request, obs)
            if request.ends_episode:
                self.end([request.stream])
                self.answer_cache.note(request, None)
            else:
                prepared.asking.append(_Asking(i, request, self._stream_observation(request, obs), why))
        return prepared

    def _finish(self, prepared: _Prepared, made: Sequence[Experience]) -> list[Answer]:
        """Return the answers of a message whose decisions were made, and remember them."""
        for asking, decision in zip(prepared.asking, made, strict=True):
            answer = decision if asking.why is None else replace(decision, previous=asking.why)
            prepared.answers[asking.place] = answer
            self.answer_cache.note(asking.request, answer)
        return prepared.answers

    def _decide_together(
        self, messages: Sequence[Sequence[StreamObservation]], clock: float
    ) -> list[list[Experience] | None]:
        """Decide for the streams of all messages in one forward pass; return the decisions of each message.

        If policy or gate fails, each message gets a pass of its own, so that the one at fault harms no other. A
        message that fails there too has None instead of its decisions.
        """
        if len(messages) > 1:
            gate_failures = self.decider.failures
            made = self._attempt.result(partial(self._propose, list(chain.from_iterable(messages)), clock))
            if made is not None and self.decider.failures == gate_failures:
                decisions = iter(made)
                return [[self._accept(each, next(decisions)) for each in message] for message in messages]
        return [self._attempt.result(partial(self.decide, message, clock)) for message in messages]

    def decide(self, observations: Sequence[StreamObservation], clock: float) -> list[Experience]:
        """Decide for different streams; the decisions are then pending. Raises NoFreeSlot."""
        made = self._propose(observations, clock)
        return [self._accept(each, decision) for each, decision in zip(observations, made, strict=True)]

    def _propose(self, observations: Sequence[StreamObservation], clock: float) -> list[Experience]:
        return self.decider.decide(observations, clock, [self.pending.next_id() for _ in observations])

    def _accept(self, observation: StreamObservation, decision: Experience) -> Experience:
        self.pending.add(decision)
        self.tally.decided(observation, decision)
        if self._outcomes is not None:
            self._outcomes.decided(decision)
        return decision

    def end(self, streams: Sequence[str]) -> None:
        """End the episodes of these streams."""
        self.decider.forget(streams)
        for stream in streams:
            self.tally.episodes.end(stream)
            if self._outcomes is not None:
                self._outcomes.end(stream)

    def keep(self, experience: Experience | None) -> None:
        """Add a completed experience to the buffer, unless it is excluded from training."""
        if experience is None or experience.reward is None:
            return
        self.log.add(experience)
        if abs(experience.reward) <= self.rewards.limit:
            self.tally.earned(experience, experience.reward)
        else:
            self._leave_out(experience, self.rewards.beyond(experience.reward))
        if self._outcomes is not None:
            self._outcomes.earned(experience)
        if experience.excluded:
            self.tally.excluded += 1
        else:
            self.writer.add(experience)
            self.rewards.added()

    def _leave_out(self, e: Experience, why: str) -> None:
        """Count an outlier, and log the first one."""
        self.tally.outliers += 1
        if not self.tally.outlier:
            self.tally.outlier = why = f"stream {e.stream!r} earned {why}"
            advice = "If such rewards are right, scale all rewards down, or raise this key"
            text = "a reward far beyond the usual ones is not trained on: decision %s of %s. %s."
            log.warning(text, e.decision, why, advice)

    def _check(self, request: Observed) -> None:
        """Raises Refusal if clients may not use this stream, or the gate."""
        if request.stream in self._own:
            problem = f"stream {request.stream!r} belongs to the built-in simulator; choose another name"
            raise Refusal("invalid", problem)
        if self._no_clients is not None:
            raise Refusal("invalid", self._no_clients)

    def _make_room(self, request: Observed, clock: float) -> None:
        """Assign a slot to the stream before its observation is used. Raises Refusal if there is none."""
        if request.ends_episode:
            return
        try:
            self.decider.slots.of(request.stream, clock)
        except NoFreeSlot as error:
            raise Refusal("too_many_streams", f"{error}. To serve more: online.max_streams=<more>") from error

    def _complete(self, request: Observed, obs: np.ndarray) -> str | None:
        """Complete the stream's last decision; return why what the client reported of it was refused, or None."""
        if request.first or not self.answer_cache.is_continued(request):
            self._break_off(request.stream)
            return "an episode begins here, so no decision of it has this reward" if request.tells_of_previous else None
        last, why = self.pending.last_of(request.stream), None
        if last is None:
            none = "the stream has no pending decision to which this reward belongs"
            return none if request.tells_of_previous else None
        if request.instead is not None:
            last = last.replaced(request.instead.action, request.instead.log_prob)
            self.pending.change(last)
        reward, part = request.reward, request.part
        if reward is None and last.reward is None:
            reward = self._computed(request, last)
            if part is None and last.next_obs is None and self.pending.in_parts(last):
                part = OWN_PART
        if reward is not None or part is not None:
            try:
                self.keep(self.pending.rewarded(request.stream, last.decision, reward or 0.0, part=part))
            except RewardError as error:
                why = str(error)
        self.keep(self.pending.followed(request.stream, obs, request.done))
        return why

    def _break_off(self, stream: str) -> None:
        """Begin an episode. One that still runs has no end, and its last decision gets no next observation."""
        episodes = self.tally.episodes
        waited = self.pending.break_off(stream)
        if waited or episodes.is_running(stream):
            self.decider.forget([stream])
            episodes.break_off(stream)
        episodes.begin(stream)
        if self._outcomes is not None:
            self._outcomes.break_off(stream)

    def _computed(self, request: Observed, last: Experience) -> float | None:
        before = self.answer_cache.raw_of(request.stream)
        if self._reward_of is None or last.held or request.raw is None or before is None or last.next_obs is not None:
            return None
        reward, terms = self._reward_of(before, clipped(last.executed), request.raw)
        self.tally.terms.append(terms)
        return reward

    def _reward(self, request: Rewarded) -> Answer:
        def change(experience: Experience) -> Experience:
            if request.instead is not None:
                experience = experience.replaced(request.instead.action, request.instead.log_prob)
            return experience if request.learn else replace(experience, learn=False)

        last = self.pending.last_of(request.stream)
        newest = last is not None and last.decision == request.decision and last.next_obs is None
        try:
            self.keep(
                self.pending.rewarded(
                    request.stream, request.decision, request.reward, request.done, request.part, change
                )
            )
        except RewardError as error:
            return Refusal(error.kind, str(error))
        if request.done:
            self._end_with(request.stream, request.decision, newest)
        return Accepted(request.stream, request.decision)

    def _end_with(self, stream: str, decision: int, newest: bool) -> None:
        """End the episode that has this decision. `newest`: the stream has sent no observation since."""
        episodes = self.tally.episodes
        if episodes.is_running(stream, decision) or (newest and not episodes.is_running(stream)):
            self.end([stream])  # even if the decision is from before a restart: the next one begins an episode
        else:
            episodes.end_late(stream, decision)

    def _observations(self, requests: list[Observed]) -> list[np.ndarray]:
        if not requests or self._features is None:
            return [r.obs for r in requests if r.obs is not None]
        return list(self._features(np.stack([r.raw for r in requests if r.raw is not None])))

    def _stream_observation(self, request: Observed, obs: np.ndarray) -> StreamObservation:
        adapter, learn = self.decider.adapter, request.learn and request.stream not in self.not_learned.streams
        if adapter is None:
            return StreamObservation(request.stream, obs, np.zeros(0, np.float32), request.raw, learn)
        gate_obs = request.raw if adapter.what is GateInput.RAW else obs
        assert gate_obs is not None, "_check refuses clients without raw rows: GateAdapter.for_clients"
        return StreamObservation(request.stream, obs, gate_obs, request.raw, learn)

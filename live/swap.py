"""The live policy acts with one set of weights while the next one is prepared.

A thread checks new weights and loads them into a model that does not act. The control loop adopts it between two
control steps by exchanging references. So nothing is reset, no action comes from partially loaded weights, and the loop
never waits.

    live = LivePolicy(make_policy, first, rule=SwapRule("blend", blend_steps=75))
    live.prepare(candidate)          # watching thread; raises Misfit if the weights do not fit
    event = live.adopt()             # control loop, between two steps; None if nothing is ready
    action = live.act(obs)           # or live.decide(obs), which also returns the action's distribution

In each environment, the new policy has a share a in [0, 1]: `now` sets it to 1, `reset` sets it to 1 when that
environment's next episode begins, and `blend` ramps it up over `blend_steps`. While some a < 1, both versions act. If
versions arrive meanwhile, the newest of them waits and the others are dropped.

Three model slots are enough: one acts, one may be leaving, and one is free, being loaded, or ready. A slot is handed
over by `deque.append` and taken by `deque.pop`. Both are atomic: the thread that popped a slot owns it, without locks.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from livegym.live.model_slot import LoadedSlot, ModelSlot, PolicySnapshot, SnapshotHistory, load, snapshot_of
from livegym.live.pool import Pool
from livegym.live.transition import Chooser, SwapRule, Transition
from livegym.rl.distribution import Distribution
from livegym.rl.policy import Policy
from livegym.utils.errors import UserError
from livegym.weights.archive import ArchivedVersion
from livegym.weights.candidate import Candidate, Label, SwapEvent

log = logging.getLogger(__name__)

Change = tuple[list[int], Label]
"""Environments, and the version that acts in them from the next step on."""


ROLLED_BACK = "rolled back"

Judge = Callable[[Candidate], bool]
"""Returns whether a version that fits may take over, or raises UserError with the reason why it may not."""


class Recall(NamedTuple):
    """A request to load versions from files, and what to do in the control loop when they are in the history."""

    labels: tuple[Label, ...]
    then: Callable[[], object]


class PolicyStep(NamedTuple):
    """One control step of the policy."""

    action: Tensor  # (n, size) float32, or (n,) / (n, k) int64
    distribution: Distribution  # action distribution of the acting version; while two act, that of the new one


class LivePolicy:
    """A policy that acts in N environments, and whose weights can be exchanged meanwhile.

    In a match, it takes every seat: then an environment, here, is a row of the world (`Env.num_rows`).
    """

    def __init__(
        self,
        make_policy: Callable[[], Policy],
        first: Candidate,
        stochastic: bool,
        seed: int,
        rule: SwapRule | None = None,
        first_run: str | None = None,
    ) -> None:
        """`make_policy` builds a model without trained weights. Raises Misfit if `first` does not fit.

        `first_run`: the run whose versions are labelled without the run's name; None: the run of `first`.
        """
        self.rule = rule or SwapRule()
        self.first_run = first.run if first_run is None else first_run
        self.pinned = False
        self.pinned_by = ""  # name of the visitor who pinned or rolled back last; '': unknown
        self._commands: queue.SimpleQueue[Callable[[], SwapEvent | None]] = queue.SimpleQueue()
        self.recalls: queue.SimpleQueue[Recall] = queue.SimpleQueue()
        self.archived: tuple[ArchivedVersion, ...] = ()  # versions that the watching thread can load from files
        slot, *others = (ModelSlot(make_policy()) for _ in range(3))
        self._free = deque(others)
        self._ready = deque[LoadedSlot]()
        policy = slot.policy
        self.device = policy.device
        self._transition = Transition(policy.num_envs, self.device)
        self._swapped_at = -math.inf  # s, monotonic
        self._changes: list[Change] = []
        self._waiting_rollback: Label | None = None  # a version to return to once the blend in progress has ended
        self._joining: list[int] = []  # environments for which the new version is recorded after the next step
        self.history = SnapshotHistory(self.rule.history, self.rule.spaced)
        self.pool = Pool(self.rule.pool_envs, policy.num_envs, make_policy, self.history, seed, self._note)
        self._choose = Chooser(stochastic, torch.Generator(self.device).manual_seed(seed))
        policy.check(first.model, first.spec)
        self._acting = load(slot, first, self._kept_of(first))
        self._remember(self._acting)
        self.newest = self.acting  # the newest accepted version, whether it acts already or waits

    @property
    def num_envs(self) -> int:
        """N, the number of environments in which the policy acts."""
        return self._acting.slot.policy.num_envs

    @property
    def acting(self) -> Candidate:
        """The acting version, without its weights; while two act, the new one."""
        return self._acting.candidate

    @property
    def label(self) -> Label:
        """The label of the acting version."""
        return self._acting.label(self.first_run)

    @property
    def swapping(self) -> bool:
        """Whether two versions act at the moment."""
        return self._transition.leaving is not None

    # any thread: these requests take effect between two control steps

    def pin(self, by: str = "") -> None:
        """Keep the acting version: no other version takes over automatically. `by`: name of the visitor."""
        self._commands.put(lambda: self._set_pinned(True, by))

    def follow(self) -> None:
        """Undo `pin`: the newest version takes over, and later ones follow."""
        self._commands.put(lambda: self._set_pinned(False))

    def rollback(self, label: Label | None = None, by: str = "") -> None:
        """Return to a version of the history and pin it; None: the version before the acting one.

        `by`: name of the visitor. A blend in progress is reversed if it came from that version; otherwise it ends
        first. Raises UserError if that version is not kept.
        """
        self._kept_or_refused(label)
        self._commands.put(lambda: self._roll_back(label, by))

    def recall(self, labels: Iterable[Label | None], then: Callable[[], object]) -> bool:
        """Request versions that are not in the history but in files; `then` is called once they are in the history.

        Returns False, and does nothing, if no file is needed.
        """
        files = {entry.label for entry in self.archived}
        missing = tuple(x for x in labels if x is not None and self.history.get(x) is None and x in files)
        if missing:
            self.recalls.put(Recall(missing, then))
        return bool(missing)

    def cast(self, env_id: int, label: Label) -> None:
        """Assign version `label` to a pool environment until `release`. Raises UserError as `Pool.cast` does."""
        self.pool.check(env_id, label)
        self._commands.put(lambda: self.pool.cast(env_id, label))

    def release(self, env_id: int) -> None:
        """Undo `cast` when the environment's next episode begins."""
        self._commands.put(lambda: self.pool.release(env_id))

    def compare(self, first: Label, second: Label) -> None:
        """Let two kept versions act, in even and in odd environments, until `end_comparison`.

        Raises UserError if one of them is not kept, or if they are the same.
        """
        self.pool.pair(first, second)
        self._commands.put(lambda: self.pool.compare(first, second))

    def end_comparison(self) -> None:
        """Let the acting version act everywhere again, until versions are drawn for the pool's environments."""
        self._commands.put(lambda: self.pool.end_comparison(self.label))

    def set_rule(self, how: str, blend_steps: int) -> None:
        """Set how the next versions take over. A swap in progress continues as it began."""
        self._commands.put(lambda: self._set_rule(how, blend_steps))

    # for the watching thread only

    def prepare(self, candidate: Candidate, judge: Judge | None = None) -> None:
        """Make a version ready to take over. It replaces a version that still waits.

        `judge` is called if the version fits. Raises Misfit if it does not fit, and passes on the UserError of `judge`.
        If it raises, nothing has changed.
        """
        self._acting.slot.policy.check(candidate.model, candidate.spec)
        if judge is not None and not judge(candidate):
            return
        ready = load(self._take_slot(), candidate, self._kept_of(candidate))
        self.newest = ready.candidate
        with contextlib.suppress(IndexError):  # an older version that waits is dropped
            self._free.append(self._ready.pop().slot)
        self._ready.append(ready)  # from here on the control loop may own it

    def restore(self, candidate: Candidate, then: Callable[[], object] | None = None) -> None:
        """Put a version from a file into the history, and call `then` in the control loop. Raises Misfit."""
        self._acting.slot.policy.check(candidate.model, candidate.spec)
        snapshot = snapshot_of(candidate, self.first_run)

        def insert() -> None:
            age = 0.0 if candidate.made is None else max(0.0, time.time() - candidate.made)
            self.history.insert(snapshot, age)
            if then is not None:
                then()

        self._commands.put(insert)

    def _kept_of(self, candidate: Candidate) -> PolicySnapshot | None:
        return snapshot_of(candidate, self.first_run) if self.rule.history else None

    def _take_slot(self) -> ModelSlot:
        """A slot that does not act: a free one, or the one that waits. Retries until the control loop returns one."""
        while True:
            with contextlib.suppress(IndexError):
                return self._free.pop()
            with contextlib.suppress(IndexError):
                return self._ready.pop().slot

    def weights(self) -> tuple[Label, dict[str, Tensor]]:
        """The label of the acting version, and a copy of its weights."""
        while True:
            acting = self._acting
            label, weights = acting.label(self.first_run), acting.slot.policy.state()
            if acting is self._acting:  # otherwise another version may have been loaded into its slot meanwhile
                return label, weights

    # for the control loop only, between two steps

    def adopt(self) -> SwapEvent | None:
        """Run the waiting requests, and exchange the slots if a version is ready and may take over."""
        while not self._commands.empty():
            event = self._run(self._commands.get())
            if event is not None:
                return event
        if self._waiting_rollback is not None and not self.swapping:
            label, self._waiting_rollback = self._waiting_rollback, None
            return self._run(lambda: self._roll_back(label, self.pinned_by))
        if not self._ready or self.pinned or self.swapping:
            return None
        if time.monotonic() - self._swapped_at < self.rule.min_interval:
            return None
        try:
            ready = self._ready.pop()
        except IndexError:  # the watching thread has just replaced it by a newer one
            return None
        return self._begin(ready, self.rule)

    def _run(self, command: Callable[[], SwapEvent | None]) -> SwapEvent | None:
        try:
            return command()
        except UserError as error:  # the version was kept at the time of the request, but is no longer
            log.warning("%s", error)
            return None

    def _set_pinned(self, pinned: bool, by: str = "") -> None:
        self.pinned = pinned
        self.pinned_by = by
        self._waiting_rollback = None

    def _set_rule(self, how: str, blend_steps: int) -> None:
        self.rule = replace(self.rule, how=how, blend_steps=blend_steps)

    def _roll_back(self, label: Label | None, by: str) -> SwapEvent | None:
        kept = self._kept_or_refused(self._before_waiting() if label is None else label)
        self.pinned = True
        self.pinned_by = by
        if self._transition.blends:
            return self._roll_back_in_blend(kept)
        rule = replace(self.rule, how="now") if self.swapping else self.rule  # three versions cannot act at once
        self._end_transition()
        earlier = load(self._take_slot(), replace(kept.candidate, source="history", load_ms=0.0), kept)
        event = self._begin(earlier, rule, ROLLED_BACK)
        self.newest = self.acting
        return event

    def _before_waiting(self) -> Label | None:
        """The version before that of a waiting rollback, or that one if it is the first; None if no rollback waits."""
        if self._waiting_rollback is None:
            return None
        before = self.history.before(self._waiting_rollback)
        return before.label if before is not None else self._waiting_rollback

    def _roll_back_in_blend(self, kept: PolicySnapshot) -> SwapEvent | None:
        """Reverse the blend if `kept` is leaving; otherwise wait for its end, because the action would jump."""
        leaving = self._transition.leaving
        self._waiting_rollback = None
        if leaving is None or leaving.label(self.first_run) != kept.label:
            if kept.label != self.label:
                self._waiting_rollback = kept.label
                log.info("version %s will act as soon as the blend in progress has ended", kept.label)
            return None
        back = self._transition.turn(self._acting)
        self._acting = replace(back, candidate=replace(back.candidate, source="history", load_ms=0.0))
        self._swapped_at = time.monotonic()
        self.newest = self.acting
        self._note_acting(self._transition.everywhere)
        self._end_if_finished()
        self._remember(self._acting)
        return SwapEvent.of(self.acting, accepted=True, reason=ROLLED_BACK)

    def _kept_or_refused(self, label: Label | None) -> PolicySnapshot:
        kept = self.history.before(self.label) if label is None else self.history.get(label)
        if kept is None:
            wanted = "no version before the acting one is kept" if label is None else f"version {label} is not kept"
            labels = ", ".join(map(str, self.history.labels)) or "none"
            raise UserError(f"rollback: {wanted}. Kept: {labels} ({self.rule.history_key}={self.rule.history})")
        return kept

    def _begin(self, ready: LoadedSlot, rule: SwapRule, reason: str = "") -> SwapEvent:
        """Let a loaded version take over."""
        ready.slot.copy_memory(self._acting.slot)
        leaving, self._acting = self._acting, ready
        self._swapped_at = time.monotonic()
        if rule.how == "now":
            taken = self._transition.everywhere
            self._free.append(leaving.slot)  # from here on the watching thread may own it
        else:
            self._transition.begin(leaving, rule)
            taken = self._transition.taken()
            self._end_if_finished()
        self._note_acting(taken)
        self._remember(ready)
        return SwapEvent.of(self.acting, accepted=True, reason=reason)

    def _remember(self, acting: LoadedSlot) -> None:
        if acting.kept is not None:
            self.history.add(acting.kept)

    def _end_if_finished(self) -> None:
        if self._transition.finished:
            self._end_transition()

    def _end_transition(self) -> None:
        left = self._transition.end()
        if left is not None:
            self._free.append(left.slot)  # from here on the watching thread may own it

    def _note(self, env_ids: list[int], label: Label) -> None:
        if env_ids:
            self._changes.append((env_ids, label))

    def _note_acting(self, env_ids: list[int]) -> None:
        """Record that the acting version acts in these environments, except those in which an older version does."""
        self._note(self.pool.without(env_ids), self.label)

    def take_changes(self) -> list[Change]:
        """Changes since the last call of the version that acts in an environment from the next step on."""
        changes, self._changes = self._changes, []
        return changes

    # for the control loop only, within a step

    def act(self, obs: Tensor) -> Tensor:
        """obs (N, width) -> actions; see `decide`."""
        return self.decide(obs).action

    def decide(self, obs: Tensor) -> PolicyStep:
        """obs (N, width) -> actions and their distribution. The actions are modes, or samples if it is stochastic.

        If the policy is not recurrent, `obs` may contain only the first environments: (n, width), n <= N.
        """
        obs = obs.to(self.device)
        distribution = self._acting.slot.think(obs)
        action = self._transition.act(obs, distribution, self._choose)
        self._end_if_finished()
        self._transition.stepped()
        self._note_acting(self._joining)
        self._joining = []
        return PolicyStep(self.pool.act(obs, action, self._choose), distribution)

    def forget(self, env_ids: Tensor) -> None:
        """New episodes begin in environments (n,)."""
        self._acting.slot.forget(env_ids)
        joined = self._transition.forget(env_ids)
        if self._transition.blends and self._transition.leaving is not None:
            joining = self.pool.without(env_ids.tolist())  # both play the new episodes; the old one is recorded first
            self._note(joining, self._transition.leaving.label(self.first_run))
            self._joining = self._joining + joining
        else:
            self._note_acting(joined)
            self._end_if_finished()
        self.pool.forget(env_ids, self.label)

"""Model slots, each of which holds the weights of one version, and the history of versions kept in memory.

    slot = ModelSlot(policy)
    slot.take(candidate)          # copies the weights; the recurrent state stays
    out = slot.think(obs)         # Distribution
    loaded = load(slot, candidate)  # also copies the weights, and records which version the slot has

A live policy acts with a few slots. `SnapshotHistory` keeps copies of versions that acted, with their returns, so that
one of them can be rolled back to, or act beside the newest.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor

from livegym.rl.distribution import Distribution, RecurrentState
from livegym.rl.policy import Policy
from livegym.utils.errors import UserError
from livegym.utils.moments import Moments
from livegym.utils.thinning import least_missed
from livegym.weights.candidate import Candidate, Label

SPACED = 12
"""Number of older versions that the history of a test keeps in addition to the newest ones."""


@dataclass
class PolicySnapshot:
    """One version with its own copy of the weights, and the returns of the episodes in which it acted longest."""

    label: Label
    candidate: Candidate
    returns: Moments = field(default_factory=Moments)
    since: float = 0.0  # s, by the history's clock: when it was added


def snapshot_of(candidate: Candidate, first_run: str) -> PolicySnapshot:
    """A snapshot with a copy of the candidate's weights; `first_run`: see `Candidate.label`."""
    model: dict[str, Tensor] = {name: value.clone() for name, value in candidate.model.items()}
    return PolicySnapshot(candidate.label(first_run), replace(candidate, model=model))


class ModelSlot:
    """A policy with the recurrent state of N environments. Its weights are replaced; its modules stay."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._first_memory = policy.first_memory()
        self.memory: RecurrentState = tuple(m.clone() for m in self._first_memory)

    def take_memory(self, other: ModelSlot, env_ids: Tensor) -> None:
        """Copy the recurrent state of environments (n,) from `other`, to continue the same episodes there."""
        for mine, theirs in zip(self.memory, other.memory, strict=True):
            mine[:, env_ids] = theirs[:, env_ids]

    def take(self, candidate: Candidate) -> None:
        """Copy the weights of a version that fits; the recurrent state stays."""
        self.policy.copy(candidate.model)

    def think(self, obs: Tensor) -> Distribution:
        """obs (N, width) -> distribution of the action. Advances the recurrent state by one step."""
        out = self.policy(obs, self.memory)
        self.memory = out.memory
        return out

    def copy_memory(self, other: ModelSlot) -> None:
        """Copy the recurrent state of `other`, to continue the same episodes."""
        self.memory = tuple(m.clone() for m in other.memory)

    def forget(self, env_ids: Tensor) -> None:
        """Reset the recurrent state of environments (n,) to that of an episode's start."""
        for memory, first in zip(self.memory, self._first_memory, strict=True):
            memory[:, env_ids] = first[:, env_ids]


@dataclass(frozen=True)
class LoadedSlot:
    """A slot and the version that is loaded into it."""

    slot: ModelSlot
    candidate: Candidate  # without weights, which the slot has
    kept: PolicySnapshot | None  # goes into the history once the version acts; None if there is no history

    def label(self, first_run: str) -> Label:
        """The label of the version; see `Candidate.label`."""
        return self.candidate.label(first_run)


def load(slot: ModelSlot, candidate: Candidate, kept: PolicySnapshot | None = None) -> LoadedSlot:
    """Copy the weights of a version that fits into a slot; `kept`: see `LoadedSlot`."""
    slot.take(candidate)
    return LoadedSlot(slot, replace(candidate, model={}), kept)


class SnapshotHistory:
    """Versions by label, the oldest first: the last `size`, and `spaced` older ones. Owned by the control loop.

    The older ones include the first version and the one with the best score. The intervals between the others grow with
    age: after an hour at one version a second, there are versions of about 1, 2, 5, 10 and 30 minutes ago.
    """

    def __init__(self, size: int, spaced: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        """`spaced`: 0, or at least 4; it has no effect if `size` is 0. `clock` returns s."""
        self.size = size
        self.spaced = spaced
        self._clock = clock
        self._kept: OrderedDict[Label, PolicySnapshot] = OrderedDict()

    def add(self, kept: PolicySnapshot) -> None:
        """Add the newest version, and drop one if there are too many."""
        if self.size == 0:
            return
        before = self._kept.get(kept.label)
        kept.since = self._clock()
        if before is not None:  # it acts again: it keeps its place and its returns
            kept.returns, kept.since = before.returns, before.since
        self._kept[kept.label] = kept
        while len(self._kept) > self.size + self.spaced:
            del self._kept[self._dropped()]

    def insert(self, kept: PolicySnapshot, age: float) -> None:
        """Insert a version that was made `age` s ago, in the order of age; an older one may be dropped for it.

        Raises UserError if no older versions are kept.
        """
        if kept.label in self._kept:
            return
        if not self.size or not self.spaced:
            raise UserError(f"version {kept.label} cannot be loaded: historySize={self.size} keeps no older versions")
        kept.since = self._clock() - age
        by_age = sorted([*self._kept.values(), kept], key=lambda one: one.since)
        self._kept = OrderedDict((one.label, one) for one in by_age)
        while len(self._kept) > self.size + self.spaced:
            del self._kept[self._dropped(kept.label)]

    def _dropped(self, needed: Label | None = None) -> Label:
        """The version whose removal leaves the smallest gap for its age (`utils/thinning.py`); never `needed`."""
        if not self.spaced:
            return next(iter(self._kept))
        older = list(self._kept.values())[: -self.size]
        protected = [index for index, kept in enumerate(older) if kept.label in (self.best, needed)]
        return older[least_missed([*(kept.since for kept in older), self._clock()], protected)].label

    @property
    def best(self) -> Label | None:
        """The version with the best training score among those that are kept; None if no score is known."""
        scored = [kept for kept in self._kept.values() if kept.candidate.score is not None]
        return max(scored, key=lambda kept: kept.candidate.score or 0.0).label if scored else None

    def note(self, label: Label, value: float) -> None:
        """Record the return of an episode in which version `label` acted longest."""
        if label in self._kept:
            self._kept[label].returns.add(value)

    def get(self, label: Label) -> PolicySnapshot | None:
        """The snapshot of this version; None if it is no longer kept."""
        return self._kept.get(label)

    @property
    def labels(self) -> list[Label]:
        """The kept versions, the oldest first. May be read by any thread."""
        return list(self._kept)

    def before(self, label: Label) -> PolicySnapshot | None:
        """The version before `label`, or the newest if `label` is not kept; None if there is no such version."""
        labels = self.labels
        index = labels.index(label) if label in labels else len(labels)
        return self._kept[labels[index - 1]] if index > 0 else None

    def __iter__(self) -> Iterator[PolicySnapshot]:
        return iter(self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

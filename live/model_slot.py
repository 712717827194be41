"""A model that has one version's weights at a time, and the versions that are kept in memory.

    slot = ModelSlot(policy)
    slot.take(candidate)          # copies the weights; the recurrent state stays
    out = slot.think(obs)         # Distribution
    loaded = load(slot, candidate)  # the same, for whoever has to know which version the slot has

A live policy acts with a few slots. `SnapshotHistory` holds copies of the versions that acted lately, with their
returns: to go back to, or to act beside the newest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor

from livegym.rl.distribution import Distribution, RecurrentState
from livegym.rl.policy import Policy
from livegym.utils.moments import Moments
from livegym.weights.candidate import Candidate, Label


@dataclass
class PolicySnapshot:
    """One version with weights of its own, and the returns of the episodes that it played most of."""

    label: Label
    candidate: Candidate
    returns: Moments = field(default_factory=Moments)


def snapshot_of(candidate: Candidate, first_run: str) -> PolicySnapshot:
    """A version with a copy of its weights, whoever owned them; `first_run`: see `Candidate.label`."""
    model: dict[str, Tensor] = {name: value.clone() for name, value in candidate.model.items()}
    return PolicySnapshot(candidate.label(first_run), replace(candidate, model=model))


class ModelSlot:
    """A policy with the recurrent state of N environments. Weights come and go; the modules stay."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._first_memory = policy.first_memory()
        self.memory: RecurrentState = tuple(m.clone() for m in self._first_memory)

    def take(self, candidate: Candidate) -> None:
        """Copies the weights of a version that fits; the recurrent state stays."""
        self.policy.copy(candidate.model)

    def think(self, obs: Tensor) -> Distribution:
        """obs (N, width) -> what it would do; the recurrent state moves on."""
        out = self.policy(obs, self.memory)
        self.memory = out.memory
        return out

    def copy_memory(self, other: ModelSlot) -> None:
        """Starts from what `other` remembers: the episodes are the same."""
        self.memory = tuple(m.clone() for m in other.memory)

    def forget(self, env_ids: Tensor) -> None:
        """The recurrent state of environments (n,) is that of an episode's start again."""
        for memory, first in zip(self.memory, self._first_memory, strict=True):
            memory[:, env_ids] = first[:, env_ids]


@dataclass(frozen=True)
class LoadedSlot:
    """A slot with the version that it has now."""

    slot: ModelSlot
    candidate: Candidate  # without weights: those are the slot's by now
    kept: PolicySnapshot | None  # for the history, once the version acts; None if there is no history

    def label(self, first_run: str) -> Label:
        """The label of the version; see `Candidate.label`."""
        return self.candidate.label(first_run)


def load(slot: ModelSlot, candidate: Candidate, kept: PolicySnapshot | None = None) -> LoadedSlot:
    """Copies the weights of a version that fits into a slot; see `LoadedSlot.kept`."""
    slot.take(candidate)
    return LoadedSlot(slot, replace(candidate, model={}), kept)


class SnapshotHistory:
    """The last `size` versions by label, the oldest first. Belongs to the control loop."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: OrderedDict[Label, PolicySnapshot] = OrderedDict()

    def add(self, kept: PolicySnapshot) -> None:
        """Adds the newest one; the oldest is dropped if there are too many."""
        if self.size == 0:
            return
        if kept.label in self._kept:  # it acts again: it keeps its place and what it achieved
            kept.returns = self._kept[kept.label].returns
        self._kept[kept.label] = kept
        while len(self._kept) > self.size:
            self._kept.popitem(last=False)

    def note(self, label: Label, value: float) -> None:
        """An episode of this return ended, most of which `label` played."""
        if label in self._kept:
            self._kept[label].returns.add(value)

    def get(self, label: Label) -> PolicySnapshot | None:
        """This version, if it is still kept."""
        return self._kept.get(label)

    @property
    def labels(self) -> list[Label]:
        """The kept versions, the oldest first; may be asked for by other threads."""
        return list(self._kept)

    def before(self, label: Label) -> PolicySnapshot | None:
        """The version that came before `label`; the newest one if `label` is not kept, None if there is none."""
        labels = self.labels
        index = labels.index(label) if label in labels else len(labels)
        return self._kept[labels[index - 1]] if index > 0 else None

    def __iter__(self) -> Iterator[PolicySnapshot]:
        return iter(self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

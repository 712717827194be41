"""The versions that acted lately, in memory with what they achieved: to go back to, or to act beside the newest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor

from livegym.utils.moments import Moments
from livegym.weights.candidate import Candidate, Label


@dataclass
class Kept:
    """One version with weights of its own, and the returns of the episodes that it played most of."""

    label: Label
    candidate: Candidate
    returns: Moments = field(default_factory=Moments)


def kept_of(label: Label, candidate: Candidate) -> Kept:
    """A version with a copy of its weights, whoever owned them."""
    model: dict[str, Tensor] = {name: value.clone() for name, value in candidate.model.items()}
    return Kept(label, replace(candidate, model=model))


class History:
    """The last `size` versions by label, the oldest first. Belongs to the control loop."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._kept: OrderedDict[Label, Kept] = OrderedDict()

    def add(self, kept: Kept) -> None:
        """The newest one; the oldest is dropped where there are too many."""
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

    def get(self, label: Label) -> Kept | None:
        """This version, where it is still kept."""
        return self._kept.get(label)

    @property
    def labels(self) -> list[Label]:
        """The kept versions, the oldest first; may be asked for by other threads."""
        return list(self._kept)

    def before(self, label: Label) -> Kept | None:
        """The version that came before `label`; the newest one where `label` is not kept, None where there is none."""
        labels = self.labels
        index = labels.index(label) if label in labels else len(labels)
        return self._kept[labels[index - 1]] if index > 0 else None

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

"""Collision groups and filters as MuJoCo's contype and conaffinity.

Two shapes of one environment may touch if their groups are equal or one of them is -1, and if their filters have no
bit in common. An actor with filter -1 keeps, among its own shapes, the contype and conaffinity of its file.
Each different class of shapes gets one bit of contype; its conaffinity has the bits of the classes that it touches, so
31 classes are exact. The ground has contype 0 and all bits of conaffinity: it touches everything.

    bits = encode([ShapeClass(0, 0, 0, 1, 1), ShapeClass(0, 1, 1, 1, 1)])  # (shapes, 2): contype, conaffinity
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livegym.utils.errors import UserError

CLASSES = 31
EVERYTHING = (1 << CLASSES) - 1
"""The conaffinity of ground and terrain, whose contype is 0."""
FROM_FILE = -1


@dataclass(frozen=True)
class ShapeClass:
    """The properties that decide with which other shapes of its environment a shape collides."""

    actor: int
    group: int
    filter: int
    contype: int
    conaffinity: int

    def touches(self, other: ShapeClass) -> bool:
        """Whether this shape and `other` may collide."""
        if self.group != other.group and -1 not in (self.group, other.group):
            return False
        if self.actor == other.actor and self.filter == other.filter == FROM_FILE:
            return bool((self.contype & other.conaffinity) | (other.contype & self.conaffinity))
        mine, theirs = (0 if f == FROM_FILE else f for f in (self.filter, other.filter))
        return mine & theirs == 0


def encode(shapes: list[ShapeClass]) -> np.ndarray:
    """Return (shapes, 2) int32 contype and conaffinity. Raises UserError if more than 31 classes are needed."""
    different = list(dict.fromkeys(shapes))
    if not different:
        return np.zeros((0, 2), np.int32)
    touches = np.array([[a.touches(b) for b in different] for a in different])
    rows, merged = np.unique(touches, axis=0, return_inverse=True)  # equal rows: interchangeable shapes
    merged = merged.reshape(-1)
    if len(rows) > CLASSES:
        raise UserError(
            f"{len(rows)} different classes of collision group and filter in one environment; MuJoCo has bits for "
            f"{CLASSES}. Give actors that need not be told apart the same group and filter in create_actor."
        )
    first = [int(np.flatnonzero(merged == k)[0]) for k in range(len(rows))]
    affinity = [sum(1 << j for j in range(len(rows)) if rows[k, first[j]]) for k in range(len(rows))]
    of = {shape: merged[i] for i, shape in enumerate(different)}
    return np.array([(1 << of[shape], affinity[of[shape]]) for shape in shapes], np.int64).astype(np.int32)


def canonical_groups(groups: list[int]) -> list[int]:
    """Number an environment's groups by their first use; -1 stays. Environments never meet, so only equality counts."""
    numbers: dict[int, int] = {-1: -1}
    return [numbers.setdefault(group, len(numbers) - 1) for group in groups]

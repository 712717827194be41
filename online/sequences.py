"""Finds the experiences that follow an experience: the next decisions of the same stream.

    successors = Successors(capacity)
    successors.add(rows)                        # new rows of the replay buffer
    successors.after(slots)                     # (n,) slots of the next decisions; -1: unknown

Experiences are stored in the order in which they become complete. Streams therefore interleave, and rewards that come
late change the order within a stream. One experience follows another if it is a later decision of the same stream, and
if its observation is, bit for bit, the other's next observation. So a decision that is missing (it was excluded from
training, or dropped) breaks the sequence, and the end of an episode does too.

The index holds only hints: slots are overwritten, and hashes may be equal by chance. `follows` verifies a hint on the
copied rows.
"""

from __future__ import annotations

import numpy as np


class Successors:
    """For each slot of a replay buffer, the slot of the next decision of its stream."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._next = np.full(capacity, -1, np.int64)
        self._keys: dict[int, tuple[int, int]] = {}  # slot -> hashes of its observation and of its next one
        self._begins: dict[int, tuple[int, int]] = {}  # hash of an observation -> slot and decision
        self._ends: dict[int, tuple[int, int]] = {}  # hash of a next observation -> slot and decision

    def add(self, rows: np.ndarray) -> None:
        """Add complete rows (n,), the oldest first."""
        fields = (rows["number"], rows["decision"], rows["stream"], rows["done"])
        for row, (number, decision, stream, done) in enumerate(zip(*(f.tolist() for f in fields), strict=True)):
            slot = number % self._capacity
            self._forget(slot)
            begin = hash((stream, rows["obs"][row].tobytes()))
            end = hash((stream, rows["next_obs"][row].tobytes()))
            before, after = self._ends.get(begin), self._begins.get(end)
            if before is not None and before[1] < decision:
                self._next[before[0]] = slot
            self._begins[begin] = (slot, decision)
            if not done:
                self._ends[end] = (slot, decision)
                if after is not None and after[1] > decision:
                    self._next[slot] = after[0]
            self._keys[slot] = (begin, end)

    def after(self, slots: np.ndarray) -> np.ndarray:
        """Return the slots (n,) that may follow `slots` (n,); -1 stays -1."""
        return np.where(slots >= 0, self._next[slots], -1)

    def _forget(self, slot: int) -> None:
        self._next[slot] = -1
        begin, end = self._keys.pop(slot, (0, 0))
        for table, key in ((self._begins, begin), (self._ends, end)):
            if table.get(key, (-1, 0))[0] == slot:
                del table[key]


def follows(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return (n,) whether each row of `after` is the decision that follows the row of `before`."""
    same = (before["stream"] == after["stream"]) & (before["decision"] < after["decision"]) & ~before["done"]
    bits = [
        row.view(np.uint32) for row in (np.ascontiguousarray(before["next_obs"]), np.ascontiguousarray(after["obs"]))
    ]
    return same & (bits[0] == bits[1]).all(1)

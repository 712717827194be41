"""The replay buffer: the last completed experiences, in preallocated arrays.

    replay.add(experience)                        # the serving thread; never waits
    batch = replay.sample(32, rng)                # the trainer
    replay.prioritise(batch, errors)              # where sampling is prioritised

Adding is a `deque.append`, which is atomic: the trainer takes over what has arrived when it next looks. The one lock is
for those who read, and waits at most `LOCK` seconds.

`prioritised`: experiences are drawn in proportion to priority^alpha and weighted by (N p)^-beta, as in proportional
prioritised replay (Schaul et al. 2016, arXiv:1511.05952); here the priority is that of rare and of highly rewarded ones
until the trainer tells an error: |reward - mean| / spread of all that came so far, plus a floor.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np

from online.experience import Batch, Experience, Layout
from utils.files import atomic_write_bytes
from utils.moments import Moments

LOCK = 5.0  # s
ALPHA, BETA = 0.6, 0.4
FLOOR = 0.05  # least priority, so that everything is seen now and then


class BufferTimeout(RuntimeError):
    """Somebody holds the buffer for longer than anything here takes."""


class Replay:
    """A ring of completed experiences."""

    def __init__(self, layout: Layout, capacity: int = 10_000, prioritised: bool = False) -> None:
        self.layout, self.capacity, self.prioritised = layout, capacity, prioritised
        self.added = 0  # experiences taken over so far; the next one's number
        self.dropped = 0  # arrived faster than anybody took them over
        self._arrived: deque[Experience] = deque()
        self._columns = _columns(layout, capacity)
        self._priority = np.zeros(capacity)
        self._stamp = np.full(capacity, -1, np.int64)  # number of the experience in a slot; -1: none, or expired
        self._streams: dict[str, int] = {}
        self._rewards = Moments()
        self._lock = threading.Lock()

    # the serving thread

    def add(self, experience: Experience) -> None:
        """A completed experience. One that people interfered with is counted and never kept.

        Raises ValueError for one that is pending, or of other sizes.
        """
        if experience.reward is None or experience.next_obs is None:
            raise ValueError(f"decision {experience.decision} of {experience.stream!r} has no reward yet")
        sizes = (experience.obs.shape, experience.next_obs.shape, experience.executed.shape, experience.seen.shape)
        wanted = ((self.layout.obs,),) * 2 + ((self.layout.action,), (self.layout.seen,))
        if sizes != wanted:
            raise ValueError(f"an experience of sizes {sizes}; this buffer holds {wanted}")
        if len(self._arrived) >= self.capacity:  # nobody takes over, and a ring would have lost the oldest too
            self._arrived.popleft()
            self.dropped += 1
        self._arrived.append(experience)

    # whoever reads

    def __len__(self) -> int:
        with self._held():
            return int((self._stamp >= 0).sum())

    def sample(self, size: int, rng: np.random.Generator) -> Batch:
        """`size` experiences, with replacement where there are fewer; an empty batch where there is none.

        Raises BufferTimeout.
        """
        with self._held():
            slots = np.flatnonzero(self._stamp >= 0)
            if not len(slots):
                return self._batch(slots, np.zeros(0))
            if not self.prioritised:
                chosen = rng.choice(slots, size, replace=len(slots) < size)
                return self._batch(chosen, np.ones(size))
            share = self._priority[slots] ** ALPHA
            share /= share.sum()
            picked = rng.choice(len(slots), size, p=share)
            weights = (len(slots) * share[picked]) ** -BETA
            return self._batch(slots[picked], weights / weights.max())

    def prioritise(self, batch: Batch, errors: np.ndarray) -> None:
        """New priorities, |errors| (n,), of experiences that are still in their slots. Raises BufferTimeout."""
        with self._held():
            same = self._stamp[batch.slots] == batch.stamps
            self._priority[batch.slots[same]] = np.abs(errors[same]) + FLOOR

    def expire(self, before: float) -> int:
        """Forgets what was decided before a time, s since 1970; how many. Raises BufferTimeout."""
        with self._held():
            old = (self._stamp >= 0) & (self._columns["time"] < before)
            self._stamp[old] = -1
            return int(old.sum())

    def save(self, path: Path) -> None:
        """Everything into one file, whole or not at all. Raises OSError, BufferTimeout."""
        with self._held():
            columns = {name: column.copy() for name, column in self._columns.items()}
            counts = np.array([self.added, self.dropped, self.capacity], np.int64)
            rest = {"stamp": self._stamp.copy(), "priority": self._priority.copy(), "counts": counts}
            rest["moments"] = np.array([self._rewards.count, *astuple(self._rewards)[1:]])
            streams = np.array(list(self._streams), dtype=np.str_)
        file = io.BytesIO()
        content: dict[str, Any] = {"streams": streams, **rest, **columns}
        np.savez(file, **content)
        atomic_write_bytes(path, file.getvalue())

    def load(self, path: Path) -> None:
        """What `save` wrote. Raises OSError, ValueError where it does not fit this buffer; nothing has changed then."""
        with np.load(path, allow_pickle=False) as saved:
            content = {name: saved[name] for name in saved.files}
        wrong = [n for n, c in self._columns.items() if n not in content or content[n].shape != c.shape]
        if wrong:
            raise ValueError(f"{path} is of another buffer: {', '.join(wrong)}")
        with self._held():
            for name, column in self._columns.items():
                column[:] = content[name]
            self._stamp[:], self._priority[:] = content["stamp"], content["priority"]
            self.added, self.dropped = (int(x) for x in content["counts"][:2])
            count, mean, squares = content["moments"].tolist()
            self._rewards = Moments(int(count), mean, squares)
            self._streams = {str(name): index for index, name in enumerate(content["streams"])}

    @contextmanager
    def _held(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=LOCK):
            raise BufferTimeout(f"the replay buffer was held for {LOCK:g} s")
        try:
            for _ in range(len(self._arrived)):
                self._put(self._arrived.popleft())
            yield
        finally:
            self._lock.release()

    def _put(self, experience: Experience) -> None:
        slot = self.added % self.capacity
        values = {name: getattr(experience, name) for name in _PLAIN}
        values["stream"] = self._streams.setdefault(experience.stream, len(self._streams))
        for name, value in values.items():
            self._columns[name][slot] = value
        self._stamp[slot] = self.added
        self._rewards.add(float(values["reward"]))
        spread = self._rewards.std or 1.0
        self._priority[slot] = abs(float(values["reward"]) - self._rewards.mean) / spread + FLOOR
        self.added += 1

    def _batch(self, slots: np.ndarray, weights: np.ndarray) -> Batch:
        arrays = {name: column[slots] for name, column in self._columns.items()}
        return Batch(slots, self._stamp[slots].copy(), weights.astype(np.float32), arrays)


_PLAIN = (
    "obs", "proposed", "executed", "log_prob", "confidence", "verdict", "expected", "seen", "version", "time",
    "decision", "reward", "next_obs", "done",
)  # fmt: skip


def _columns(layout: Layout, capacity: int) -> dict[str, np.ndarray]:
    number = np.int64 if layout.discrete else np.float32
    shapes: dict[str, tuple[int, type]] = {
        "obs": (layout.obs, np.float32),
        "next_obs": (layout.obs, np.float32),
        "proposed": (layout.action, number),
        "executed": (layout.action, number),
        "seen": (layout.seen, np.float32),
    }
    columns: dict[str, np.ndarray] = {name: np.zeros((capacity, width), kind) for name, (width, kind) in shapes.items()}
    kinds: dict[type, tuple[str, ...]] = {
        np.float32: ("log_prob", "confidence", "expected", "reward"),
        np.int64: ("version", "decision", "stream"),
        np.int8: ("verdict",),
        np.bool_: ("done",),
        np.float64: ("time",),
    }
    return columns | {name: np.zeros(capacity, kind) for kind, names in kinds.items() for name in names}

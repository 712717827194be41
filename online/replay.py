"""The replay buffer: the last completed experiences, in a file of the run that two processes map into memory.

    writer = ReplayWriter(path, layout, capacity)      # the serving process
    writer.add(experience)                             # never waits for a reader

    reader = ReplayReader(path, layout, capacity)      # the trainer's process
    rows, weights = reader.sample(32, rng)

There are no locks. The writer fills the rows in order and starts again at the first. A reader copies rows and then
verifies each copy: a row carries its number and a checksum over its content, so a row that was overwritten during the
copy, or that was only partially written when the process was killed, is recognised and left out. The file survives both
processes; a resumed run continues with it.

The file's blocks are allocated when it is created, so a full disk causes an error then, rather than a signal later.

Experiences are drawn uniformly, or by priority: in proportion to priority^alpha, and weighted by (N p)^-beta (Schaul et
al. 2016, arXiv:1511.05952). `online/priorities.py` has the priorities; the trainer raises beta.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.recfunctions import repack_fields

from livegym.online.experience import Experience, Layout, Verdict, to_row
from livegym.online.priorities import Priorities
from livegym.online.ring import MappedRing, checks_of, factors_of, file_bytes, make_file, open_file
from livegym.online.sequences import Successors, follows
from livegym.utils.errors import UserError

ALPHA, BETA = 0.6, 0.4
PART = 128  # rows that are copied at a time
RECENT = 1000  # last experiences that are searched for the newest version


class ReplayWriter:
    """Adds experiences to the file. What the file already has is kept, except for partially written rows."""

    def __init__(self, path: Path, layout: Layout, capacity: int) -> None:
        """Create or open the file. Raises UserError if that fails, or if the file belongs to another buffer."""
        self.path = path
        self.layout = layout
        self.capacity = capacity
        try:
            fresh = not path.exists()
            descriptor = make_file(path, layout, capacity) if fresh else open_file(path, layout, capacity)
        except OSError as error:
            size = f"{file_bytes(layout, capacity) / 1e6:,.1f}"
            raise UserError(
                f"the replay buffer {path} cannot be opened ({error.strerror or error}): it takes {size} MB. Free "
                f"disk space, or store fewer experiences: online.buffer_capacity=<less than {capacity}>"
            ) from error
        try:
            self._mapped = MappedRing(descriptor, layout, capacity)
        finally:
            os.close(descriptor)
        self._row = np.zeros(1, self._mapped.dtype)
        self._row_words = self._row.view(np.uint64).reshape(1, -1)
        self._factors = factors_of(self._row_words.shape[1])
        self.partial = self._drop_partial()
        kept = self._mapped.rows["stream"][self._mapped.numbers >= 0]
        self.streams = Counter(name.decode() for name in kept.tolist())  # stream -> its experiences in the buffer
        self._mapped.header["sessions"] += 1

    def _drop_partial(self) -> int:
        m = self._mapped
        complete = (checks_of(m.words, self._factors) == m.rows["check"]) & (m.numbers == m.rows["number"])
        partial = int(((m.numbers >= 0) & ~complete).sum())
        m.numbers[~complete] = -1
        m.header["added"] = max(int(m.header["added"]), int(m.numbers.max()) + 1)
        return partial

    def add(self, experience: Experience) -> None:
        """Add an experience in place of the oldest. Raises ValueError if it is pending, excluded or misshapen."""
        e = experience
        if not e.complete or e.next_obs is None:
            raise ValueError(f"decision {e.decision} of {e.stream!r} is not complete yet")
        if e.excluded:
            raise ValueError(
                f"decision {e.decision} of {e.stream!r} is excluded from training: human intervention, "
                "failure of gate or policy, or `learn: false`"
            )
        sizes = (e.obs.shape, e.next_obs.shape, e.proposed.shape, e.executed.shape, e.seen.shape)
        wanted = ((self.layout.obs,),) * 2 + ((self.layout.action,),) * 2 + ((self.layout.seen,),)
        if sizes != wanted:
            raise ValueError(f"the experience has shapes {sizes}; this buffer needs {wanted}")
        m, number = self._mapped, int(self._mapped.header["added"])
        slot = number % self.capacity
        to_row(e, self._row[0])
        self._row["number"] = number
        self._row["check"] = checks_of(self._row_words, self._factors)
        if m.numbers[slot] >= 0:
            self._leave(m.rows["stream"][slot].decode())
        self.streams[e.stream] += 1
        m.numbers[slot] = -1
        m.words[slot] = self._row_words[0]
        m.numbers[slot] = number
        m.header["added"] = number + 1

    def _leave(self, stream: str) -> None:
        self.streams[stream] -= 1
        if not self.streams[stream]:
            del self.streams[stream]

    @property
    def added(self) -> int:
        """Experiences that were ever added."""
        return int(self._mapped.header["added"])

    @property
    def sessions(self) -> int:
        """Number of times that this file was opened for writing, this time included."""
        return int(self._mapped.header["sessions"])

    @property
    def clock(self) -> float:
        """s that the run had been served at the last call of `tell`."""
        return float(self._mapped.header["clock"])

    def last_rewards(self, count: int) -> np.ndarray:
        """Return rewards (n,) of the last `count` experiences."""
        return self._mapped.last_rewards(count)

    def tell_reward_limit(self, limit: float) -> None:
        """Store the greatest reward, either way, that is trained on."""
        self._mapped.header["reward_limit"] = limit

    def tell(self, clock: float) -> None:
        """Store the s that the run has been served. Ages are measured by this clock, not by the system time."""
        self._mapped.header["clock"] = clock

    def __len__(self) -> int:
        return int((self._mapped.numbers >= 0).sum())


@dataclass(frozen=True)
class Sieve:
    """Selects the experiences to train on."""

    max_age: float = math.inf  # greatest age in s served
    without: Verdict | None = None  # excludes experiences with this verdict
    without_held: bool = False  # excludes blocked actions without a fallback


ALL = Sieve()


class ReplayReader:
    """Samples experiences from the file."""

    def __init__(self, path: Path, layout: Layout, capacity: int, priorities: Priorities | None = None) -> None:
        """Open the file. `priorities`: sample by them; None: uniformly.

        Raises UserError if the file is missing, or if it belongs to another buffer.
        """
        try:
            descriptor = open_file(path, layout, capacity)
        except OSError as error:
            raise UserError(f"the replay buffer {path} cannot be read ({error.strerror or error})") from error
        try:
            self._mapped = MappedRing(descriptor, layout, capacity)
        finally:
            os.close(descriptor)
        self.capacity = capacity
        self.priorities = priorities
        self.partial = 0  # incomplete copies, which were left out
        self._factors = factors_of(self._mapped.words.shape[1])
        self._successors = Successors(capacity)
        self._linked = 0  # number of the first experience that `_successors` does not know

    @property
    def added(self) -> int:
        """Experiences that were ever added."""
        return int(self._mapped.header["added"])

    @property
    def newest_version(self) -> int:
        """The newest version among the recent experiences; 0 if there are none."""
        rows = self.newest(RECENT)
        return int(rows["version"].max()) if len(rows) else 0

    def usable(self, sieve: Sieve = ALL) -> np.ndarray:
        """Return the slots (n,) of the experiences that a sieve accepts."""
        m = self._mapped
        usable = m.numbers >= 0
        if math.isfinite(sieve.max_age):
            usable &= m.rows["clock"] >= float(m.header["clock"]) - sieve.max_age
        if sieve.without is not None:
            usable &= m.rows["verdict"] != sieve.without
        if sieve.without_held:
            usable &= ~m.rows["held"]
        return np.flatnonzero(usable)

    def expired(self, max_age: float) -> int:
        """Return how many experiences in the file are older than `max_age` s served."""
        m = self._mapped
        return int(((m.numbers >= 0) & (m.rows["clock"] < float(m.header["clock"]) - max_age)).sum())

    def fresh(self, after: int) -> np.ndarray:
        """Return rows (n,) of the experiences with number `after` or greater that are still here, the oldest first."""
        slots = np.flatnonzero(self._mapped.numbers >= after)
        rows = self._complete_rows(slots)
        return rows[np.argsort(rows["number"])]

    def newest(self, count: int) -> np.ndarray:
        """Return rows (n,) of the last `count` experiences, the oldest first."""
        return self.fresh(max(0, self.added - count))

    def newest_unseen(self, count: int) -> np.ndarray:
        """Return rows (n,) of the last `count` experiences without the gate's observation, the oldest first.

        The gate's observation may be most of a row (of Territory 94 %), so this is for those who often need many rows.
        Copies of whole rows are made of `PART` rows at a time: the allocator keeps what large copies once took.
        """
        slots = np.flatnonzero(self._mapped.numbers >= max(0, self.added - count))
        names = [name for name in self._mapped.dtype.names or () if name not in ("seen", "spare")]
        parts = [slots[start : start + PART] for start in range(0, max(1, len(slots)), PART)]
        rows = np.concatenate([repack_fields(self._complete_rows(part)[names]) for part in parts])
        return rows[np.argsort(rows["number"])]

    @property
    def reward_limit(self) -> float:
        """The greatest reward, either way, that is trained on, as the writer has told; inf: it has told none."""
        limit = float(self._mapped.header["reward_limit"])
        return limit if limit > 0 else math.inf

    def last_rewards(self, count: int) -> np.ndarray:
        """Return rewards (n,) of the last `count` experiences, for a mean. They are not verified by checksum."""
        return self._mapped.last_rewards(count)

    def sample(
        self, size: int, rng: np.random.Generator, sieve: Sieve = ALL, beta: float = BETA
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows (n,) that a sieve accepts, and importance weights (n,) float32, which are 1 for uniform sampling.

        Uniform: `size` different rows, or all if there are fewer. By priority: `size` draws with replacement; `beta` is
        the exponent of the importance weights. Incomplete copies are left out, so there may be a few less.
        """
        slots = self.usable(sieve)
        if not len(slots):
            return np.zeros(0, self._mapped.dtype), np.zeros(0, np.float32)
        rows, weights = self._draw(slots, size, rng, beta)
        return rows, (weights / weights.max() if len(weights) else weights)

    def _draw(
        self, slots: np.ndarray, size: int, rng: np.random.Generator, beta: float
    ) -> tuple[np.ndarray, np.ndarray]:
        if self.priorities is not None:
            self._set_first_priorities(slots, self.priorities)
            share = self.priorities.of(slots) ** ALPHA
            share /= share.sum()
            picked = rng.choice(len(slots), size, p=share)
            chosen, weights = slots[picked], (len(slots) * share[picked]) ** -beta
        else:
            chosen = rng.choice(slots, min(size, len(slots)), replace=False)
            weights = np.ones(len(chosen))
        rows, complete = self._copies(chosen)
        return rows[complete], weights[complete].astype(np.float32)

    def prioritise(self, rows: np.ndarray, errors: np.ndarray) -> None:
        """Set new priorities from errors (n,), in standard deviations, for experiences that are still here."""
        if self.priorities is not None:
            self.priorities.set(rows["number"] % self.capacity, rows["number"], errors)

    def _set_first_priorities(self, slots: np.ndarray, priorities: Priorities) -> None:
        numbers = self._mapped.numbers[slots].copy()
        new = priorities.unknown(slots, numbers) & (numbers >= 0)
        if new.any():
            priorities.begin(slots[new], numbers[new], self._mapped.rows["reward"][slots[new]])

    def follow(
        self, rows: np.ndarray, steps: int, usable: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the experiences that follow each of the rows (n,), at most `steps` of each.

        Returns (following (m,), row (m,), step (m,)): `following[j]` is decision `step[j]` (from 0) after
        `rows[row[j]]`; ordered by row, then by step. A sequence ends with the episode, and before an experience that is
        missing or that `usable`, (k,) rows -> (k,) bool, rejects.
        """
        self._link()
        slots = np.full((len(rows), steps), -1, np.int64)
        at = rows["number"] % self.capacity
        for column in range(steps):
            at = slots[:, column] = self._successors.after(at)
        row, step = np.nonzero(slots >= 0)
        following, complete = self._copies(slots[row, step])
        before = np.empty_like(following)
        before[1:] = following[:-1]
        before[step == 0] = rows[row[step == 0]]
        linked = np.zeros(slots.shape, bool)
        linked[row, step] = complete & follows(before, following) & usable(following)
        kept = np.logical_and.accumulate(linked, axis=1)[row, step]
        return following[kept], row[kept], step[kept]

    def _link(self) -> None:
        new = self.fresh(self._linked)
        if len(new):
            self._successors.add(new)
            self._linked = int(new["number"][-1]) + 1

    def _complete_rows(self, slots: np.ndarray) -> np.ndarray:
        rows, complete = self._copies(slots)
        return rows[complete]

    def _copies(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of rows (n,), and a mask (n,) of the complete ones."""
        words = self._mapped.words[slots]  # a copy
        rows = words.reshape(-1).view(self._mapped.dtype)
        complete = (checks_of(words, self._factors) == rows["check"]) & (rows["number"] % self.capacity == slots)
        self.partial += int((~complete).sum())
        return rows, complete

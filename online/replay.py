"""The replay buffer: the last completed experiences, in a file of the run that two processes have mapped.

    writer = ReplayWriter(path, layout, capacity)      # the one that serves
    writer.add(experience)                             # never waits for anybody

    reader = ReplayReader(path, layout, capacity)      # the one that trains
    rows, weights = reader.sample(32, rng)

Nobody locks. The writer fills one row after the other and starts again at the first; a reader copies rows and looks
whether each is one whole experience: a row carries its number and a checksum over everything in it, so one that was
being written over meanwhile, or was left half written by a kill, is recognised and left out. What is in the
file survives both processes; a run that is resumed goes on with it.

The file's blocks are reserved when it is made: a full disk says so then, by an error, and not later, by a signal.

`prioritised`: experiences are drawn in proportion to priority^alpha and weighted by (N p)^-beta (Schaul et al. 2016,
arXiv:1511.05952; beta stays as it is). The priority is the error that the trainer tells, in standard deviations, plus a
floor; until it tells one, |reward - mean| / spread of all that came so far, for the rare and the highly rewarded.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from livegym.online.experience import Experience, Layout, Verdict, to_row
from livegym.online.ring import MappedRing, checks_of, factors_of, file_bytes, make_file, open_file
from livegym.utils.errors import UserError
from livegym.utils.moments import Moments

ALPHA, BETA = 0.6, 0.4
RECENT = 1000  # experiences, among which is one of the newest version
FLOOR = 0.05  # least priority, so that everything is seen now and then


class ReplayWriter:
    """The one who adds. Holds whatever the file held already, but for rows that a kill left half written."""

    def __init__(self, path: Path, layout: Layout, capacity: int) -> None:
        """Makes the file, or takes it up. Raises UserError if it cannot be had, or is of another buffer."""
        self.path = path
        self.layout = layout
        self.capacity = capacity
        try:
            fresh = not path.exists()
            descriptor = make_file(path, layout, capacity) if fresh else open_file(path, layout, capacity)
        except OSError as error:
            size = f"{file_bytes(layout, capacity) / 1e6:,.1f}"
            raise UserError(
                f"the replay buffer {path} cannot be had ({error.strerror or error}): it takes {size} MB. Make "
                f"room, or keep fewer experiences: online.buffer_capacity=<less than {capacity}>"
            ) from error
        try:
            self._mapped = MappedRing(descriptor, layout, capacity)
        finally:
            os.close(descriptor)
        self._row = np.zeros(1, self._mapped.dtype)
        self._row_words = self._row.view(np.uint64).reshape(1, -1)
        self._factors = factors_of(self._row_words.shape[1])
        self.partial = self._drop_partial()
        self._mapped.header["sessions"] += 1

    def _drop_partial(self) -> int:
        m = self._mapped
        whole = (checks_of(m.words, self._factors) == m.rows["check"]) & (m.numbers == m.rows["number"])
        partial = int(((m.numbers >= 0) & ~whole).sum())
        m.numbers[~whole] = -1
        m.header["added"] = max(int(m.header["added"]), int(m.numbers.max()) + 1)
        return partial

    def add(self, experience: Experience) -> None:
        """A completed experience; the oldest makes room. Raises ValueError for one that is pending, or does not fit."""
        e = experience
        if not e.complete or e.next_obs is None:
            raise ValueError(f"decision {e.decision} of {e.stream!r} is not complete yet")
        if e.intervened:
            raise ValueError(
                f"decision {e.decision} of {e.stream!r} is of a human intervention: nothing is learned from it"
            )
        sizes = (e.obs.shape, e.next_obs.shape, e.proposed.shape, e.executed.shape, e.seen.shape)
        wanted = ((self.layout.obs,),) * 2 + ((self.layout.action,),) * 2 + ((self.layout.seen,),)
        if sizes != wanted:
            raise ValueError(f"an experience of sizes {sizes}; this buffer holds {wanted}")
        m, number = self._mapped, int(self._mapped.header["added"])
        slot = number % self.capacity
        to_row(e, self._row[0])
        self._row["number"] = number
        self._row["check"] = checks_of(self._row_words, self._factors)
        m.numbers[slot] = -1
        m.words[slot] = self._row_words[0]
        m.numbers[slot] = number
        m.header["added"] = number + 1

    @property
    def added(self) -> int:
        """Experiences that were ever added."""
        return int(self._mapped.header["added"])

    @property
    def sessions(self) -> int:
        """How often this file was taken up, this time included."""
        return int(self._mapped.header["sessions"])

    @property
    def clock(self) -> float:
        """s that the run had been served when this was last told."""
        return float(self._mapped.header["clock"])

    def tell(self, clock: float) -> None:
        """How long the run has been served, which is what ages are measured by: no clock of the wall's jumps in it."""
        self._mapped.header["clock"] = clock

    def __len__(self) -> int:
        return int((self._mapped.numbers >= 0).sum())


@dataclass(frozen=True)
class Sieve:
    """Which experiences are learned from."""

    max_age: float = math.inf  # s served, beyond which one is too old
    without: Verdict | None = None  # but for those with this verdict
    without_held: bool = False  # but for those after which nothing was done


ALL = Sieve()


class ReplayReader:
    """The one who samples. Priorities are its own."""

    def __init__(self, path: Path, layout: Layout, capacity: int, prioritised: bool = False) -> None:
        """Raises UserError if the file is missing or of another buffer."""
        try:
            descriptor = open_file(path, layout, capacity)
        except OSError as error:
            raise UserError(f"the replay buffer {path} cannot be read ({error.strerror or error})") from error
        try:
            self._mapped = MappedRing(descriptor, layout, capacity)
        finally:
            os.close(descriptor)
        self.capacity, self.prioritised = capacity, prioritised
        self.partial = 0  # copies that were no whole experience, and left out
        self._factors = factors_of(self._mapped.words.shape[1])
        self._priority = np.zeros(capacity)
        self._known = np.full(capacity, -1, np.int64)  # numbers whose first priority has been set
        self._rewards = Moments()

    @property
    def added(self) -> int:
        """Experiences that were ever added."""
        return int(self._mapped.header["added"])

    @property
    def newest_version(self) -> int:
        """The newest version that an experience here was decided by; 0 if there is none."""
        rows = self.fresh(max(0, self.added - RECENT))
        return int(rows["version"].max()) if len(rows) else 0

    def usable(self, sieve: Sieve = ALL) -> np.ndarray:
        """Slots (n,) of the experiences that a sieve lets through."""
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
        """How many experiences in the file are older than `max_age` s served."""
        m = self._mapped
        return int(((m.numbers >= 0) & (m.rows["clock"] < float(m.header["clock"]) - max_age)).sum())

    def fresh(self, after: int) -> np.ndarray:
        """Rows (n,) of the experiences with numbers from `after` on that are still here, the oldest first."""
        slots = np.flatnonzero(self._mapped.numbers >= after)
        rows = self._whole(slots)
        return rows[np.argsort(rows["number"])]

    def last_rewards(self, count: int) -> np.ndarray:
        """Rewards (n,) of the last `count` experiences, for a mean: rows are not checked, one may be written over."""
        m = self._mapped
        return m.rows["reward"][m.numbers >= max(0, self.added - count)]

    def sample(self, size: int, rng: np.random.Generator, sieve: Sieve = ALL) -> tuple[np.ndarray, np.ndarray]:
        """Rows (n,) that a sieve lets through, and their importance weights (n,) float32, 1 where sampling is uniform.

        Uniform: `size` different ones, or all if there are fewer. Prioritised: `size` draws with replacement.
        Copies that are not whole are left out, so there may be a few less.
        """
        slots = self.usable(sieve)
        if not len(slots):
            return np.zeros(0, self._mapped.dtype), np.zeros(0, np.float32)
        rows, weights = self._draw(slots, size, rng)
        return rows, (weights / weights.max() if len(weights) else weights)

    def _draw(self, slots: np.ndarray, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        if self.prioritised:
            self._set_first_priorities(slots)
            share = self._priority[slots] ** ALPHA
            share /= share.sum()
            picked = rng.choice(len(slots), size, p=share)
            chosen, weights = slots[picked], (len(slots) * share[picked]) ** -BETA
        else:
            chosen = rng.choice(slots, min(size, len(slots)), replace=False)
            weights = np.ones(len(chosen))
        rows, whole = self._copies(chosen)
        return rows[whole], weights[whole].astype(np.float32)

    def prioritise(self, rows: np.ndarray, errors: np.ndarray) -> None:
        """New priorities, |errors| (n,) in standard deviations, of experiences that are still here."""
        slots = rows["number"] % self.capacity
        same = self._known[slots] == rows["number"]
        self._priority[slots[same]] = np.abs(errors[same]) + FLOOR

    def _set_first_priorities(self, slots: np.ndarray) -> None:
        numbers = self._mapped.numbers[slots].copy()
        new = slots[(numbers != self._known[slots]) & (numbers >= 0)]
        if not len(new):
            return
        rewards, numbers = self._mapped.rows["reward"][new].astype(float), self._mapped.numbers[new].copy()
        rewards = np.nan_to_num(rewards)  # of a row that is written over just now
        for reward in rewards.tolist():
            self._rewards.add(reward)
        spread = self._rewards.std or 1.0
        self._priority[new] = np.abs(rewards - self._rewards.mean) / spread + FLOOR
        self._known[new] = numbers

    def _whole(self, slots: np.ndarray) -> np.ndarray:
        rows, whole = self._copies(slots)
        return rows[whole]

    def _copies(self, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copies of rows (n,), and which of them are whole (n,)."""
        words = self._mapped.words[slots]  # a copy
        rows = words.reshape(-1).view(self._mapped.dtype)
        whole = (checks_of(words, self._factors) == rows["check"]) & (rows["number"] % self.capacity == slots)
        self.partial += int((~whole).sum())
        return rows, whole

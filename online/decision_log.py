"""The decision log of a continuous run: what the replay buffer no longer holds, and what it never held.

    log = DecisionLog(run.decisions, layout, limit=100_000_000)   # bytes; the serving process
    log.add(experience)                                           # one write, which does not wait for the disk
    for rows in segments_of(run.decisions): ...                   # any process, at any time

A decision is added once: when it is complete, or when it is dropped because its reward did not come in time. Decisions
that are excluded from training are logged too, as `intervened`. The gate's observation is not, as it may be large.

The log consists of segments. A new one begins in each session, and when the current one has reached its size; the
oldest are deleted so that all together stay below the limit. A row has a checksum, so a row that was only partially
written when the process was killed is left out. If the disk is full, decisions are missing in the log, and are counted;
the run continues, and the next decision is written in their place if there is room again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from livegym.online.experience import Experience, Layout, to_row
from livegym.online.ring import checks_of, checks_of_rows, factors_of
from livegym.utils.files import discard

log = logging.getLogger(__name__)

MAGIC = b"lvgymdl1"
SEGMENTS = 8  # parts of the log's limit: the oldest is deleted as a whole
SUFFIX = ".rows"
LONGEST_HEAD = 4096  # bytes


def row_type(obs: int, action: int, discrete: bool) -> np.dtype[Any]:
    """Return the type of a row; its size is a multiple of 8 bytes."""
    layout = Layout(obs, action, discrete)
    return np.dtype([("check", np.uint64), ("intervened", np.bool_), ("spare", np.uint8, 7), ("it", layout.dtype())])


class DecisionLog:
    """Adds decisions to the log. Not thread-safe; the serving thread calls all methods."""

    def __init__(self, folder: Path, layout: Layout, limit: int) -> None:
        """`limit`: bytes that the log may have; 0: nothing is logged, and what is there stays."""
        self.folder, self.limit = folder, limit
        self.added = 0  # in this session
        self.missing = 0  # could not be written in this session
        sizes = (layout.obs, layout.action, layout.discrete)
        self._head = _head_of(*sizes)
        self._row = np.zeros(1, row_type(*sizes))
        self._words = self._row.view(np.uint64).reshape(1, -1)
        self._factors = factors_of(self._words.shape[1])
        self._largest = max(limit // SEGMENTS, len(self._head) + self._row.nbytes)
        self._file: int | None = None  # its descriptor
        self._size = 0  # bytes of the current segment

    def add(self, experience: Experience) -> None:
        """Log a decision. If that fails, it is counted, and logged as a warning the first time."""
        if not self.limit:
            return
        to_row(experience, self._row["it"][0])
        self._row["intervened"] = experience.excluded
        self._row["check"] = checks_of(self._words, self._factors)
        try:
            if self._file is None or self._size + self._row.nbytes > self._largest:
                self._begin_segment()
            assert self._file is not None
            written = os.pwrite(self._file, self._row.tobytes(), self._size)
            if written < self._row.nbytes:
                raise OSError(f"only {written} of {self._row.nbytes} bytes were written")
        except OSError as error:
            if not self.missing:
                log.warning("decisions cannot be logged in %s (%s); the run continues.", self.folder, error)
            self.missing += 1
            return
        self._size += self._row.nbytes
        self.added += 1

    def close(self) -> None:
        """Close the current segment."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _begin_segment(self) -> None:
        self.close()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        older = _paths_of(self.folder)
        number = _number_of(older[-1]) + 1 if older else 1
        path = self.folder / f"{number:09d}{SUFFIX}"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, self._head)
            self._make_room(older)
        except OSError:
            os.close(descriptor)
            discard(path)
            raise
        self._file, self._size = descriptor, len(self._head)

    def _make_room(self, older: list[Path]) -> None:
        """Delete the oldest segments, so that the others and one more of full size stay below the limit."""
        sizes = [path.stat().st_size for path in older]
        while older and sum(sizes) + self._largest > self.limit:
            older.pop(0).unlink(missing_ok=True)
            sizes.pop(0)


def segments_of(folder: Path) -> Iterator[np.ndarray]:
    """Yield the rows (n,) of each segment of a log, the oldest first, without incomplete ones.

    A live run may delete a segment meanwhile, or add to the last one. Nothing is yielded for a damaged segment; it and
    damaged rows are logged as warnings, except for a last row, which may be one that is being written. Raises OSError
    if a file cannot be read.
    """
    for path in _paths_of(folder):
        with contextlib.suppress(FileNotFoundError):
            content = path.read_bytes()
            try:
                rows = _rows_in(content)
            except (ValueError, KeyError, TypeError) as error:
                log.warning("%s is damaged, and left out (%s).", path, error)
                continue
            sound = checks_of_rows(rows) == rows["check"] if len(rows) else np.zeros(0, bool)
            damaged = int((~sound[:-1]).sum())
            if damaged:
                log.warning("%s: %d of %d decisions are damaged, and left out.", path, damaged, len(rows))
            yield rows[sound]


def _paths_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())


def _number_of(path: Path) -> int:
    return int(path.stem)


def _head_of(obs: int, action: int, discrete: bool) -> bytes:
    """Return the beginning of a segment: the magic word, the length of what follows, and the layout as JSON."""
    text = json.dumps({"obs": obs, "action": action, "discrete": discrete}).encode()
    text += b" " * (-len(text) % 8)
    return MAGIC + len(text).to_bytes(8, "little") + text


def _rows_in(content: bytes) -> np.ndarray:
    length = int.from_bytes(content[8:16], "little")
    if content[:8] != MAGIC or not 0 < length <= LONGEST_HEAD:
        raise ValueError("it is not a segment of a decision log")
    layout = json.loads(content[16 : 16 + length])
    kind = row_type(int(layout["obs"]), int(layout["action"]), bool(layout["discrete"]))
    whole = (len(content) - 16 - length) // kind.itemsize
    return np.frombuffer(content, kind, max(0, whole), 16 + length)

"""The file of a replay buffer: a header, each slot's number, and rows with checksums, mapped by two processes."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from livegym.online.experience import Layout
from livegym.utils.errors import UserError
from livegym.utils.files import discard

MAGIC = 0x6C76_6779_6D72_6231  # "lvgymrb1"
HEADER = np.dtype(
    [
        ("magic", np.uint64),
        ("capacity", np.int64),
        ("row_bytes", np.int64),
        ("sessions", np.int64),  # number of times that a writer opened the file
        ("added", np.int64),  # experiences added so far, which is the next one's number
        ("clock", np.float64),  # s that the run has been served
        ("reward_limit", np.float64),  # greatest |reward| that is trained on; 0, as in old files: not told yet
    ]
)
PAGE = 4096
MOST = 2**50  # experiences, or s; no run can reach as many
MOST_SESSIONS = 2**20  # so that decision ids stay exact in JavaScript


class MappedRing:
    """The mapped file: a header, each slot's number (-1: no complete row), and the rows."""

    def __init__(self, descriptor: int, layout: Layout, capacity: int) -> None:
        self.dtype = layout.dtype()
        self._map = mmap.mmap(descriptor, file_bytes(layout, capacity))
        self.header = np.ndarray(1, HEADER, self._map)[0]
        self.numbers = np.ndarray(capacity, np.int64, self._map, PAGE)
        self.rows = np.ndarray(capacity, self.dtype, self._map, _rows_at(capacity))
        self.words = np.ndarray((capacity, self.dtype.itemsize // 8), np.uint64, self._map, _rows_at(capacity))

    def last_rewards(self, count: int) -> np.ndarray:
        """Return rewards (n,) of the last `count` experiences. They are not verified by checksum."""
        return self.rows["reward"][self.numbers >= max(0, int(self.header["added"]) - count)]


def _rows_at(capacity: int) -> int:
    return PAGE + -(-8 * capacity // PAGE) * PAGE


def file_bytes(layout: Layout, capacity: int) -> int:
    """Return the size in bytes of a file for `capacity` experiences."""
    return _rows_at(capacity) + capacity * layout.dtype().itemsize


def factors_of(words: int) -> np.ndarray:
    """Return the checksum's factors, one fixed odd number for each 8-byte word of a row."""
    return np.random.default_rng(0).integers(0, 2**63, words, dtype=np.uint64) | np.uint64(1)


def checks_of(words: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return the checksums (n,) of rows (n, words), without their first word: sums of products, modulo 2^64."""
    return np.einsum("ij,j->i", words[:, 1:], factors[1:])  # needs no temporary array of the buffer's size


def checks_of_rows(rows: np.ndarray) -> np.ndarray:
    """Return the checksums (n,) of rows (n,) of a layout's type."""
    words = np.ascontiguousarray(rows).view(np.uint64).reshape(len(rows), -1)
    return checks_of(words, factors_of(words.shape[1]))


def _sound(header: np.void) -> bool:
    """Return whether the counts are plausible; they have no checksum, because they change with each experience."""
    clock = float(header["clock"])
    counts = int(header["sessions"]), int(header["added"])
    return 0 <= clock < MOST and all(0 <= count < MOST for count in counts) and counts[0] < MOST_SESSIONS


def make_file(path: Path, layout: Layout, capacity: int) -> int:
    """Create a file, complete or not at all; return its descriptor. Raises OSError."""
    temporary = path.with_name(f"{path.name}.making")
    discard(temporary)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        size = file_bytes(layout, capacity)
        if shutil.disk_usage(path.parent).free < size:  # otherwise allocation would fill the disk before it fails
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(descriptor, 0, size)
        mapped = MappedRing(descriptor, layout, capacity)
        mapped.numbers[:] = -1
        mapped.header["capacity"], mapped.header["row_bytes"] = capacity, mapped.dtype.itemsize
        mapped.header["magic"] = MAGIC
        os.rename(temporary, path)
    except BaseException:
        discard(temporary)
        os.close(descriptor)
        raise
    return descriptor


def open_file(path: Path, layout: Layout, capacity: int) -> int:
    """Open a file; return its descriptor. Raises UserError if it is not a buffer of this layout, and OSError."""
    descriptor = os.open(path, os.O_RDWR)
    head = os.pread(descriptor, HEADER.itemsize, 0)
    header = np.frombuffer(head, HEADER)[0] if len(head) == HEADER.itemsize else np.zeros(1, HEADER)[0]
    if int(header["magic"]) == MAGIC and not _sound(header):
        os.close(descriptor)
        raise UserError(f"{path} is damaged: its header is invalid. Move it away; the run then creates a new one")
    wanted = (MAGIC, capacity, layout.dtype().itemsize, file_bytes(layout, capacity))
    found = (int(header["magic"]), int(header["capacity"]), int(header["row_bytes"]), os.fstat(descriptor).st_size)
    if found[:3] == wanted[:3] and found != wanted:
        os.close(descriptor)
        raise UserError(
            f"{path} is truncated: {found[3]} bytes of {wanted[3]}. Move it away; the run then creates a new one"
        )
    if found[0] != MAGIC:
        os.close(descriptor)
        raise UserError(f"{path} is not a replay buffer. Move it away; the run then creates a new one")
    if found != wanted:
        os.close(descriptor)
        raise UserError(
            f"{path} is not a replay buffer of {capacity} experiences of {wanted[2]} bytes (it has {found[1]} of "
            f"{found[2]}). Set online.buffer_capacity={found[1]} and the gate with which it was created, or move it "
            "away"
        )
    return descriptor


def rows_in_file(path: Path, layout: Layout) -> np.ndarray:
    """Return copies (n,) of the complete rows in a file, the oldest first, of `layout`'s type. The file is only read.

    `layout` may be without the gate's observation, which stands at the end of each row, and is left out then.
    Raises OSError, and UserError if the file is not a buffer with such rows.
    """
    words, dtype, numbers = _read(path, layout)
    rows = words.reshape(-1).view(dtype)["it"]
    complete = (numbers >= 0) & (checks_of(words, factors_of(words.shape[1])) == rows["check"])
    rows = rows[complete & (rows["number"] == numbers)]
    return rows[np.argsort(rows["number"])]


def _read(path: Path, layout: Layout) -> tuple[np.ndarray, np.dtype[Any], np.ndarray]:
    """Return all words (capacity, words), the type of a row, and each slot's number (capacity,)."""
    with path.open("rb") as file:
        content = np.frombuffer(file.read(), np.uint8)
    header = content[: HEADER.itemsize].view(HEADER)[0] if len(content) >= PAGE else np.zeros(1, HEADER)[0]
    capacity, row_bytes = int(header["capacity"]), int(header["row_bytes"])
    least = layout.dtype()
    if int(header["magic"]) != MAGIC or row_bytes % 8 or row_bytes < least.itemsize:
        raise UserError(f"{path} is not a replay buffer of observations and actions of this size")
    start = _rows_at(capacity)
    if len(content) < start + capacity * row_bytes:
        raise UserError(f"{path} is truncated: {len(content)} bytes of {start + capacity * row_bytes}")
    dtype = np.dtype([("it", least), ("rest", np.uint8, (row_bytes - least.itemsize,))])
    rows = content[start : start + capacity * row_bytes].view(np.uint64).reshape(capacity, -1)
    return rows, dtype, content[PAGE : PAGE + 8 * capacity].view(np.int64)

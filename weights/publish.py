"""Writer of the weight bus: puts a learner's weights into shared memory, for other processes on the same host.

    with Publisher(bus_file(run.run_id), description, digest, model) as publisher:
        publisher.publish(model, VersionFacts(version=7, epoch=7, frame=57344, score=41.0))

The writer fills the slot that is not active, then sets it active, then raises the count. If the count is unchanged, a
reader has nothing to do. The active slot is complete, whenever the writer dies. `weights/bus_reader.py` explains what a
slow reader must do.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import math
import mmap
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from livegym.utils.files import discard
from livegym.weights import futex
from livegym.weights.bus import LAYOUT, LEVEL, MAGIC, SLOT, MappedBus, checksum, file_size, specs_of, writer_lives

log = logging.getLogger(__name__)

MAKING = "making"  # suffix of a bus file that is not complete yet


class VersionFacts(NamedTuple):
    """The facts about a version that are published with its weights."""

    version: int
    epoch: int
    frame: int
    score: float | None  # compared to find the best version; None if it is unknown
    level: float | None = None  # of the curriculum; None if there is no curriculum


class Publisher:
    """The only writer of a bus. Not thread-safe."""

    def __init__(self, file: Path, description: Mapping[str, Any], digest: str, model: Mapping[str, Tensor]) -> None:
        """Create the file atomically; it replaces one that another writer has left.

        `description`: plain values that readers need (run, spec, configuration); `digest`: the shape hash; `model`:
        gives the shapes and dtypes of the arrays. Raises OSError if the memory cannot be allocated.
        """
        self.file = file
        specs, buffer_bytes = specs_of({**model, LEVEL: torch.zeros((), dtype=torch.float64)})
        *self._specs, level = specs
        listed = [[p.name, p.dtype, list(p.shape), p.offset] for p in self._specs]
        text = json.dumps({**description, "arrays": listed, "level": level.offset}).encode()
        size = file_size(len(text), buffer_bytes)
        temporary = file.with_name(f"{file.name}.{os.getpid()}.{MAKING}")
        discard(temporary)
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # readers see by this lock that the writer is alive
            os.posix_fallocate(descriptor, 0, size)  # if memory is full: an error now, instead of a SIGBUS later
            self._map = MappedBus(mmap.mmap(descriptor, size), len(text), buffer_bytes)
            self._views = [[spec.view(buffer) for spec in self._specs] for buffer in self._map.buffers]
            self._levels = [level.view(buffer) for buffer in self._map.buffers]
            self._map.text[:] = np.frombuffer(text, dtype=np.uint8)
            identity = (MAGIC, LAYOUT, os.getpid(), secrets.randbits(63))
            self._map.control[0] = (*identity, len(text), buffer_bytes, digest.encode(), 0, 0, 0)
            self._inode = os.fstat(descriptor).st_ino
            os.rename(temporary, file)
        except BaseException:
            discard(temporary)
            os.close(descriptor)
            raise
        self._descriptor: int | None = descriptor  # holds the lock; None after `close`

    def publish(self, model: Mapping[str, Tensor], facts: VersionFacts) -> None:
        """Publish a version: fill the slot that is not active, set it active, raise the count; in this order.

        The score is stored in the slot's `reward` field. Raises RuntimeError after `close`.
        """
        if self._descriptor is None:
            raise RuntimeError("publish() was called after close(): the bus has already been marked as ended")
        number = int(self._map.count[0]) + 1
        slot = number % 2
        self._fill(slot, model)
        self._levels[slot].fill_(math.nan if facts.level is None else facts.level)
        score = math.nan if facts.score is None else facts.score
        self._seal(slot, (number, facts.version, facts.epoch, facts.frame, score, time.time()))
        self._map.control["active"][0] = slot
        self._map.count[0] = number
        os.utime(self._descriptor)  # writing to a mapping does not update the modification time
        futex.wake(self._map.count)

    def _fill(self, slot: int, model: Mapping[str, Tensor]) -> None:
        for spec, view in zip(self._specs, self._views[slot], strict=True):
            view.copy_(model[spec.name])

    def _seal(self, slot: int, known: tuple[int, int, int, int, float, float]) -> None:
        record = np.array([(*known, 0)], dtype=SLOT)
        record["checksum"] = checksum(record, self._map.buffers[slot])
        self._map.slots[slot] = record[0]

    def close(self) -> None:
        """Mark the bus as ended, and remove its file. Readers keep their mappings."""
        self._map.control["ended"][0] = 1
        futex.wake(self._map.count)
        with contextlib.suppress(OSError):
            if self.file.stat().st_ino == self._inode:  # not a newer writer's file
                self.file.unlink()
        if self._descriptor is not None:  # a second close could hit another file that has the same number by then
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def remove_left_overs(pattern: Path, older_than: float) -> None:
    """Remove the buses of dead writers, complete or not, that have not been written for `older_than` seconds.

    `pattern`: a path with a `*`, which matches the names of all bus files.
    """
    for file in pattern.parent.glob(pattern.name):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime >= older_than and _is_left_over(file):
                file.unlink()
                log.info("removed %s, which a dead training run had left.", file)


def _is_left_over(file: Path) -> bool:
    with file.open("rb") as opened:
        ours = opened.read(len(MAGIC)) == MAGIC or file.name.endswith(f".{MAKING}")  # incomplete
        return ours and not writer_lives(opened.fileno())

"""The weight bus, read: the newest publication, whole, or nothing.

    reader = BusReader(bus_file(run.run_id))
    publication = reader.read(seen=41)       # None if nothing after publication 41 is there
    reader.wait_past(seen=42, timeout=1.0)   # sleeps until there is

The hole of a plain double buffer: a reader that is slow, or put to sleep in the middle, copies out of a slot that the
writer has meanwhile left, come back to and begun to overwrite. So this one copies first and believes after: the
checksum is over the record *and* the arrays of its own copy, and what does not agree is read again. It writes nothing.
"""

from __future__ import annotations

import json
import math
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from livegym.utils.errors import UserError
from livegym.weights import futex
from livegym.weights.bus import (
    CONTROL,
    LAYOUT,
    MAGIC,
    SLOT,
    TEXT_AT,
    MappedBus,
    TensorSpec,
    checksum,
    file_size,
    floats_of,
    writer_lives,
)

ATTEMPTS = 100  # copies that the writer overtakes, before it is asked again


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


@dataclass(frozen=True)
class Publication:
    """One version, copied out whole. The tensors are the reader's, and are overwritten by its next `read`."""

    model: dict[str, Tensor]
    number: int  # of the publication, from 1
    version: int
    epoch: int
    frame: int
    score: float | None  # the slot's `reward`: what "best" compares
    time: float  # s since the epoch, when it was published


class BusReader:
    """One of many readers of a bus. Raises UserError if there is none, or not one that can be read here."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self._opened = open(file, "rb", buffering=0, opener=_without_links)  # noqa: SIM115 - as long as the reader
            found = os.fstat(self._opened.fileno())
            memory = mmap.mmap(self._opened.fileno(), 0, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise UserError(f"weight bus {file}: cannot be opened ({error})") from error
        if found.st_uid != os.getuid():  # everybody may write there
            raise UserError(f"weight bus {file}: belongs to user {found.st_uid}, not to {os.getuid()}, who reads it")
        self._inode = found.st_ino
        self._map = self._checked(memory)
        control = self._map.control[0]
        self.writer = int(control["writer"])
        self.shape_hash = bytes(control["shape_hash"]).decode("ascii", "replace")
        try:
            self.description: dict[str, Any] = json.loads(self._map.text.tobytes())
            places = [TensorSpec(n, d, tuple(s), o) for n, d, s, o in self.description["arrays"]]
            self._buffer = np.zeros(self._map.buffers.shape[1], dtype=np.uint8)
            self._model = {place.name: place.view(self._buffer) for place in places}
            self._floats = floats_of(places, self._buffer)
        except (ValueError, LookupError, TypeError, RuntimeError) as error:
            raise UserError(f"weight bus {file}: does not say what it holds ({error})") from error
        self._record = np.zeros(1, dtype=SLOT)
        self.overtaken = 0  # copies that had to be made again

    def _checked(self, memory: mmap.mmap) -> MappedBus:
        if len(memory) < TEXT_AT:
            raise UserError(f"weight bus {self.file}: is too short ({len(memory)} bytes) to be one")
        control = np.frombuffer(memory, dtype=CONTROL, count=1)[0]
        if bytes(control["magic"]) != MAGIC:
            raise UserError(f"weight bus {self.file}: is not one (it begins with {bytes(control['magic'])!r})")
        if control["layout"] != LAYOUT:
            raise UserError(
                f"weight bus {self.file}: has layout {control['layout']}, this livegym reads {LAYOUT}. "
                "Run both with the same version, or follow files: weights=files"
            )
        sizes = int(control["text_bytes"]), int(control["buffer_bytes"])
        if len(memory) != file_size(*sizes):
            raise UserError(f"weight bus {self.file}: has {len(memory)} bytes where it says {file_size(*sizes)}")
        return MappedBus(memory, *sizes)

    @property
    def count(self) -> int:
        """The number of the newest publication; 0 before the first."""
        return int(self._map.count[0])

    @property
    def ended(self) -> bool:
        """Whether the writer said that no more will come."""
        return bool(self._map.control["ended"][0])

    @property
    def writer_lives(self) -> bool:
        """Whether the process that made the file still runs."""
        return writer_lives(self._opened.fileno())

    @property
    def replaced(self) -> bool:
        """Whether another writer has put a new file in the place of this one, or it is gone."""
        try:
            return os.stat(self.file).st_ino != self._inode
        except OSError:
            return True

    def wait_past(self, seen: int, timeout: float) -> bool:
        """Sleeps until there is something after publication `seen`, `timeout` s at most; whether there is."""
        return futex.wait(self._map.count, seen, timeout)

    def read(self, seen: int) -> Publication | None:
        """The newest publication after number `seen`, whole; None if there is none, or the writer was faster."""
        if self.count <= seen:  # below it where the writer has flipped, but not counted yet, or never will
            return None
        for _ in range(ATTEMPTS):
            self._copy(int(self._map.control["active"][0]) % 2)
            if self._believes() and int(self._record["number"][0]) > seen:
                return self._publication()
            self.overtaken += 1
        return None

    def _copy(self, slot: int) -> None:
        self._record[0] = self._map.slots[slot]
        np.copyto(self._buffer, self._map.buffers[slot])

    def _believes(self) -> bool:
        """Whether the copy is whole: the same checksum over the same record and arrays."""
        return int(self._record["checksum"][0]) == checksum(self._record, self._buffer)

    def _publication(self) -> Publication:
        number, version, epoch, frame, score, stamp, _ = self._record[0].item()
        known = None if math.isnan(score) else score
        return Publication(self._model, number, version, epoch, frame, known, stamp)

    def not_finite(self) -> str | None:
        """The first array of the last copy that has NaN or Infinity; None if all are finite.

        A sum is finite only if every summand is; where it merely overflowed, the elements decide.
        """
        if all(math.isfinite(view.sum().item()) for view in self._floats):
            return None
        floats = ((name, value) for name, value in self._model.items() if value.is_floating_point())
        return next((name for name, value in floats if not torch.isfinite(value).all()), None)

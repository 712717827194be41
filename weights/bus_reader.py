"""Reader of the weight bus: returns the newest publication, complete, or None.

    reader = BusReader(bus_file(run.run_id))
    publication = reader.read(seen=41)       # None if there is no publication after number 41
    reader.wait_past(seen=42, timeout=1.0)   # sleeps until there is a publication after number 42

A plain double buffer has a race: while a slow or suspended reader copies a slot, the writer may publish to the other
slot, return to this one and begin to overwrite it. So this reader copies first and verifies afterwards: it computes the
checksum over the record *and* the arrays of its own copy, and copies again if the checksum does not match. It writes
nothing.
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
    LEVEL,
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

ATTEMPTS = 100  # copies that the writer may overtake before `read` gives up


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


@dataclass(frozen=True)
class Publication:
    """One version, completely copied. The tensors belong to the reader, and its next `read` overwrites them."""

    model: dict[str, Tensor]
    number: int  # sequence number of the publication, from 1
    version: int
    epoch: int
    frame: int
    score: float | None  # the slot's `reward`; compared to find the best version
    time: float  # s since the epoch, when it was published
    level: float | None = None  # of the curriculum; None if there is no curriculum, or it is unknown


class BusReader:
    """One of many readers of a bus. Raises UserError if there is no bus, or if this process cannot read it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        try:
            self._opened = open(file, "rb", buffering=0, opener=_without_links)  # noqa: SIM115 - open as long as self
            found = os.fstat(self._opened.fileno())
            memory = mmap.mmap(self._opened.fileno(), 0, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise UserError(f"weight bus {file}: cannot be opened ({error})") from error
        if found.st_uid != os.getuid():  # every user may create files in that directory
            raise UserError(
                f"weight bus {file}: belongs to user {found.st_uid}, but this process runs as user {os.getuid()}. "
                "Follow the checkpoint files instead: weights=files"
            )
        self._inode = found.st_ino
        self._map = self._checked(memory)
        control = self._map.control[0]
        self.writer = int(control["writer"])
        self.shape_hash = bytes(control["shape_hash"]).decode("ascii", "replace")
        try:
            self.description: dict[str, Any] = json.loads(self._map.text.tobytes())
            specs = [TensorSpec(n, d, tuple(s), o) for n, d, s, o in self.description["arrays"]]
            self._buffer = np.zeros(self._map.buffers.shape[1], dtype=np.uint8)
            self._model = {spec.name: spec.view(self._buffer) for spec in specs}
            self._floats = floats_of(specs, self._buffer)
            offset = self.description.get("level")
            self._level = None if offset is None else TensorSpec(LEVEL, "float64", (), offset).view(self._buffer)
        except (ValueError, LookupError, TypeError, RuntimeError) as error:
            raise UserError(f"weight bus {file}: has no valid description of its arrays ({error})") from error
        self._record = np.zeros(1, dtype=SLOT)
        self.overtaken = 0  # copies that had to be repeated

    def _checked(self, memory: mmap.mmap) -> MappedBus:
        if len(memory) < TEXT_AT:
            raise UserError(
                f"weight bus {self.file}: is too short ({len(memory)} bytes; the header alone has {TEXT_AT})"
            )
        control = np.frombuffer(memory, dtype=CONTROL, count=1)[0]
        if bytes(control["magic"]) != MAGIC:
            raise UserError(
                f"weight bus {self.file}: is not a weight bus (it begins with {bytes(control['magic'])!r}, "
                f"not with {MAGIC!r})"
            )
        if control["layout"] != LAYOUT:
            raise UserError(
                f"weight bus {self.file}: has layout {control['layout']}, but this livegym reads layout {LAYOUT}. "
                "Run both with the same version of livegym, or follow the checkpoint files: weights=files"
            )
        sizes = int(control["text_bytes"]), int(control["buffer_bytes"])
        if len(memory) != file_size(*sizes):
            raise UserError(
                f"weight bus {self.file}: has {len(memory)} bytes, but its header describes {file_size(*sizes)}"
            )
        return MappedBus(memory, *sizes)

    @property
    def count(self) -> int:
        """The sequence number of the newest publication; 0 before the first."""
        return int(self._map.count[0])

    @property
    def ended(self) -> bool:
        """Whether the writer has closed the bus."""
        return bool(self._map.control["ended"][0])

    @property
    def writer_lives(self) -> bool:
        """Whether the process that created the file still runs."""
        return writer_lives(self._opened.fileno())

    @property
    def replaced(self) -> bool:
        """Whether another writer has replaced the file, or the file was removed."""
        try:
            return os.stat(self.file).st_ino != self._inode
        except OSError:
            return True

    def wait_past(self, last: int, timeout: float) -> bool:
        """Sleep until there is a publication after number `last`, at most `timeout` s. Returns whether there is one."""
        return futex.wait(self._map.count, last, timeout)

    def read(self, last: int) -> Publication | None:
        """The newest publication after number `last`, complete.

        None if there is none, or if the writer overtook each attempt.
        """
        if self.count <= last:  # smaller than `last` if the writer set `active`, but has not raised the count (yet)
            return None
        for _ in range(ATTEMPTS):
            self._copy(int(self._map.control["active"][0]) % 2)
            if self._believes() and int(self._record["number"][0]) > last:
                return self._publication()
            self.overtaken += 1
        return None

    def _copy(self, slot: int) -> None:
        self._record[0] = self._map.slots[slot]
        np.copyto(self._buffer, self._map.buffers[slot])

    def _believes(self) -> bool:
        """Whether the copy is complete: the checksum of its record and arrays is the one in the record."""
        return int(self._record["checksum"][0]) == checksum(self._record, self._buffer)

    def _publication(self) -> Publication:
        number, version, epoch, frame, score, stamp, _ = self._record[0].item()
        score_or_none = None if math.isnan(score) else score
        level = math.nan if self._level is None else self._level.item()
        level_or_none = level if 0.0 <= level <= 1.0 else None
        return Publication(self._model, number, version, epoch, frame, score_or_none, stamp, level_or_none)

    def not_finite(self) -> str | None:
        """The first array of the last copy that contains NaN or Infinity; None if all are finite.

        A sum is finite only if every summand is. A sum of finite elements may overflow, so the elements decide then.
        """
        if all(math.isfinite(view.sum().item()) for view in self._floats):
            return None
        floats = ((name, value) for name, value in self._model.items() if value.is_floating_point())
        return next((name for name, value in floats if not torch.isfinite(value).all()), None)

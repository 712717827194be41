"""Memory layout of a weight bus, and the checksum by which a copy of it is verified.

A bus is one memory-mapped file in shared memory (`rundir.run.bus_file`), outside all directories that are copied:

    control   magic, layout, sizes, writer, shape hash, active index, count of publications, whether it has ended
    slots     two records: sequence number of the publication, version, epoch, frame, reward, time, checksum
    text      JSON: run, policy spec, configuration, the name, dtype, shape and offset of each array, and the offset of
              the curriculum's level
    buffers   the arrays and the level, twice

`weights/publish.py` writes it, and `weights/bus_reader.py` reads it. docs/hot-swap.md explains the protocol with a
picture.
"""

from __future__ import annotations

import fcntl
import math
import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xxhash
from torch import Tensor

from livegym.utils.errors import UserError

MAGIC = b"LGYMBUS"
LAYOUT = 1
ALIGNMENT = 64  # bytes, of each array
PAGE = 4096
TEXT_AT = PAGE
LEVEL = "curriculum level"
"""Name of the curriculum's level in a buffer (float64; NaN: none). Readers that do not know it see the same arrays."""
CONTROL = np.dtype(
    [
        ("magic", "S8"),
        ("layout", "<u8"),
        ("writer_pid", "<u8"),
        ("writer", "<u8"),  # random id, drawn by each writer
        ("text_bytes", "<u8"),
        ("buffer_bytes", "<u8"),
        ("shape_hash", "S16"),
        ("active", "<u8"),
        ("count", "<u8"),
        ("ended", "<u8"),
    ]
)
SLOT = np.dtype(
    [
        ("number", "<u8"),  # sequence number of the publication, from 1
        ("version", "<u8"),
        ("epoch", "<u8"),
        ("frame", "<u8"),
        ("reward", "<f8"),  # the version's score; NaN: it has none yet
        ("time", "<f8"),  # s since the epoch
        ("checksum", "<u8"),  # over the fields above and the arrays
    ]
)


@dataclass(frozen=True)
class TensorSpec:
    """Position, dtype and shape of one array in a buffer."""

    name: str
    dtype: str  # as in str(tensor.dtype), without "torch."
    shape: tuple[int, ...]
    offset: int  # bytes

    @property
    def torch_dtype(self) -> torch.dtype:
        """The tensor's dtype. Raises UserError if this version of torch has no dtype of that name."""
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise UserError(
                f"the weight bus uses dtype {self.dtype} for {self.name}, which this torch does not support"
            )
        return dtype

    def view(self, buffer: np.ndarray) -> Tensor:
        """The array as a tensor that shares the memory of `buffer` (uint8)."""
        size = math.prod(self.shape) * self.torch_dtype.itemsize
        flat = torch.from_numpy(buffer[self.offset : self.offset + size])
        return flat.view(self.torch_dtype).reshape(self.shape)


def specs_of(model: Mapping[str, Tensor]) -> tuple[list[TensorSpec], int]:
    """The positions of a model's arrays, and the size of one buffer in bytes, a multiple of the page size.

    Arrays of one dtype are contiguous, so that one sum over them shows whether all are finite.
    """
    offsets, at = {}, 0
    for name in sorted(model, key=lambda name: str(model[name].dtype)):
        offsets[name] = at
        at += _whole(model[name].numel() * model[name].element_size(), ALIGNMENT)
    specs = [
        TensorSpec(name, str(value.dtype).removeprefix("torch."), tuple(value.shape), offsets[name])
        for name, value in model.items()
    ]
    return specs, max(PAGE, _whole(at, PAGE))


def floats_of(specs: Sequence[TensorSpec], buffer: np.ndarray) -> list[Tensor]:
    """One flat view of `buffer` for each floating point dtype in it, including the gaps (zeros) between the arrays."""
    views = []
    for dtype in dict.fromkeys(spec.torch_dtype for spec in specs):
        same = [spec for spec in specs if spec.torch_dtype is dtype]
        if dtype.is_floating_point:
            first = min(spec.offset for spec in same)
            end = max(spec.offset + math.prod(spec.shape) * dtype.itemsize for spec in same)
            views.append(torch.from_numpy(buffer[first:end]).view(dtype))
    return views


def checksum(record: np.ndarray, buffer: np.ndarray) -> int:
    """xxh3 checksum of the arrays and of a slot's record (1,), except the record's checksum field."""
    digest = xxhash.xxh3_64(record.tobytes()[: -SLOT["checksum"].itemsize])
    digest.update(buffer.data)
    return digest.intdigest()


def file_size(text_bytes: int, buffer_bytes: int) -> int:
    """Size of the bus file in bytes."""
    return TEXT_AT + _whole(text_bytes, PAGE) + 2 * buffer_bytes


def _whole(size: int, unit: int) -> int:
    """`size`, rounded up to a multiple of `unit`."""
    return -(-size // unit) * unit


class MappedBus:
    """The sections of a mapped file as numpy views, which keep the mapping alive."""

    def __init__(self, memory: mmap.mmap, text_bytes: int, buffer_bytes: int) -> None:
        data = np.frombuffer(memory, dtype=np.uint8)
        self.control = data[: CONTROL.itemsize].view(CONTROL)  # (1,)
        self.count = self.control["count"]  # (1,)
        at = _whole(CONTROL.itemsize, ALIGNMENT)
        self.slots = data[at : at + 2 * SLOT.itemsize].view(SLOT)  # (2,)
        start = TEXT_AT + _whole(text_bytes, PAGE)
        self.text = data[TEXT_AT : TEXT_AT + text_bytes]
        self.buffers = data[start : start + 2 * buffer_bytes].reshape(2, buffer_bytes)


def writer_lives(descriptor: int) -> bool:
    """Whether the writer of the open bus file still runs: it holds a lock, which the kernel releases when it dies."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False

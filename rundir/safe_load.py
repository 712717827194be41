"""Turns untrusted bytes of a `.pth` into tensors and plain values.

    state = load_bytes(data)     # raises CheckpointError for anything but a complete, harmless checkpoint

Checkpoints arrive through synced folders, so they may be truncated, mixed up, or made by another program. `load_bytes`
checks in this order:

1. the file is a zip of *stored* members with distinct names and matching checksums, and its total size is bounded;
2. its pickle refers only to the parts of tensors (`_ALLOWED`); the opcodes are read for this, but not executed;
3. torch loads it with `weights_only=True`, from the same bytes;
4. no tensor claims more memory than the file holds, and no value contains itself.

Plain rl_games files hold NumPy scalars. Our stand-ins rebuild them as Python numbers, so that NumPy's constructors,
which trust their input, are never called.
"""

from __future__ import annotations

import io
import lzma
import pickle
import pickletools
import re
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from livegym.utils.errors import UserError

# Exceptions of zipfile, pickletools, torch's unpickler and tensor constructors on arbitrary bytes; found by fuzzing.
# RecursionError and NotImplementedError are RuntimeErrors, UnicodeError is a ValueError, and IndexError and KeyError
# are LookupErrors.
LOAD_ERRORS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    EOFError,
    ImportError,
    MemoryError,
    BufferError,
    SystemError,
    OSError,
    Warning,  # raised if warnings are turned into errors
    pickle.PickleError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)

_ALLOWED = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils (_rebuild_tensor_v2|_rebuild_parameter)"
    r"|torch (\w+Storage|Size|device|b?float\d*|u?int\d+|bool)"
    r"|torch\.storage (Untyped|Typed)Storage"
    r"|_codecs encode"
    r"|numpy dtype|numpy\.(_core|core)\.multiarray scalar"
)
_GLOBAL_OPCODES = ("GLOBAL", "INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4")
_SLACK = 64 * 2**20  # bytes that a file may unpack to beyond 4 times its own size
_DTYPE = re.compile(r"[fiu][1248]|b1")
_STRUCT = {"f2": "e", "f4": "f", "f8": "d", "b1": "?"}
_INTEGER_STRUCT = {1: "b", 2: "h", 4: "i", 8: "q"}
_torch_allow_list = threading.Lock()  # torch keeps one list for the whole process


class CheckpointError(UserError):
    """A file cannot be used as a checkpoint; the message says why in one line."""


class NotFinite(CheckpointError):
    """The checkpoint holds NaN or Infinity."""


class _Dtype:
    """Stand-in for `numpy.dtype`: the kind, size and byte order of a number."""

    def __init__(self, code: str, align: bool = False, copy: bool = True) -> None:
        if not isinstance(code, str) or not _DTYPE.fullmatch(code):
            raise CheckpointError(f"holds a NumPy value of dtype {code!r}; only plain numbers are allowed")
        self._code = code
        self._order = "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._order = ">" if state[1] == ">" else "<"

    def decode(self, data: bytes) -> float | int | bool:
        """The number in `data`."""
        kind, size = self._code[0], int(self._code[1])
        letter = _STRUCT.get(self._code) or _INTEGER_STRUCT[size]
        return struct.unpack(self._order + (letter.upper() if kind == "u" else letter), data)[0]


def _scalar(dtype: _Dtype, data: bytes) -> float | int | bool:
    if not isinstance(dtype, _Dtype):
        raise CheckpointError("holds a NumPy value without a dtype")
    return dtype.decode(data)


_STAND_INS: list[Any] = [
    (_Dtype, "numpy.dtype"),
    (_scalar, "numpy.core.multiarray.scalar"),  # NumPy 1
    (_scalar, "numpy._core.multiarray.scalar"),  # NumPy 2
]


def load_bytes(data: bytes) -> Any:
    """The content of the `.pth` in `data`, on the CPU.

    Raises:
        CheckpointError: `data` is anything but a complete file of tensors and plain values.
    """
    try:
        sizes = _check_archive(data)
        with _torch_allow_list, torch.serialization.safe_globals(_STAND_INS):
            content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True, mmap=False)
        _check_values(content, sizes)
    except LOAD_ERRORS as error:
        raise CheckpointError(f"is not a readable checkpoint ({in_one_line(error)})") from error
    return content


def in_one_line(error: BaseException) -> str:
    """The text of an exception without line breaks and escape sequences, at most 200 characters long."""
    text = re.sub(r"\x1b\[[\d;]*m", "", str(error)) or type(error).__name__
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= 200 else text[:197] + "..."


class _Sizes(NamedTuple):
    program: int  # bytes of the pickle
    largest: int  # bytes of the largest member


def _check_archive(data: bytes) -> _Sizes:
    if not data:
        raise CheckpointError("is empty")
    if not data.startswith(b"PK\x03\x04"):
        raise CheckpointError("is not a PyTorch file (no zip)")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        _check_members(members, len(data))
        damaged = archive.testzip()
        if damaged is not None:
            raise CheckpointError(f"is damaged (wrong checksum of {damaged!r})")
        pickles = [m for m in members if m.filename.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise CheckpointError("is not a PyTorch file (a zip without data.pkl)")
        _check_globals(archive.read(pickles[0]))
    return _Sizes(pickles[0].file_size, max(member.file_size for member in members))


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    total = sum(member.file_size for member in members)
    if total > 4 * size + _SLACK:
        raise CheckpointError(f"would unpack from {size} to {total} bytes, so it is not a checkpoint")
    if any(m.filename.endswith("/constants.pkl") or "/code/" in m.filename for m in members):
        raise CheckpointError("is a TorchScript file (torch.jit.save), which holds code. Allowed: the .pth of a run")
    if any(m.compress_type != zipfile.ZIP_STORED or m.compress_size != m.file_size for m in members):
        raise CheckpointError("has compressed parts, which torch.save does not write")
    if len({member.filename for member in members}) != len(members):
        raise CheckpointError("has two parts of the same name")


def _check_globals(program: bytes) -> None:
    for opcode, argument, _ in pickletools.genops(program):
        if opcode.name == "PROTO" and argument != 2:
            raise CheckpointError(f"is pickled by protocol {argument}; PyTorch uses 2")
        if opcode.name in _GLOBAL_OPCODES and not _ALLOWED.fullmatch(str(argument)):
            name = str(argument).replace(" ", ".")
            raise CheckpointError(f"refers to {name!r}, which no checkpoint needs; none of it was executed")


def _tensors_in(content: Any, budget: int) -> Iterator[torch.Tensor]:
    # A small pickle can refer to one list many times and thus hold more values than can be visited.
    waiting = [content]
    while waiting:
        budget -= 1
        if budget < 0:
            raise CheckpointError("has values that contain one another, so it is not a checkpoint")
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, (list, tuple)):
            waiting.extend(value)


def _check_values(content: Any, sizes: _Sizes) -> None:
    # A tensor of stride 0 can claim any size, and the first operation on it could then use up the memory.
    for tensor in _tensors_in(content, budget=100 * sizes.program):
        claimed, stored = tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()
        if claimed > stored or stored > sizes.largest:
            raise CheckpointError(f"has a tensor that claims {claimed} bytes, but stores {stored}")

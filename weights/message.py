"""One policy version as bytes: what a server sends to its followers, and how they read it.

    data = encode(candidate)
    candidate = decode(data, "http://server:58080")      # UserError if the bytes are anything else

    head      magic, layout, bytes of the text, bytes of the buffer
    text      JSON: run, policy spec, configuration, the name, dtype, shape and offset of each array, and the offset of
              the curriculum's level
    record    as on the weight bus: version, epoch, score, time, checksum
    buffer    the arrays and the level, as on the weight bus

The checksum is that of the bus, and includes the text. Nothing is unpickled. A reader knows the size of everything
before it allocates memory, and every number in the text is checked against the bytes that have arrived.
"""

from __future__ import annotations

import json
import math
import re
import struct
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import xxhash
from torch import Tensor

from livegym.cfg.received import received_config, shared_part
from livegym.rl.spec import PolicySpec
from livegym.utils.errors import UserError
from livegym.utils.nested import look_up
from livegym.weights.bus import ALIGNMENT, LEVEL, SLOT, TensorSpec, floats_of, specs_of
from livegym.weights.candidate import Candidate

MAGIC = b"LGYMNET"
LAYOUT = 1
HEAD = struct.Struct("<8sIIQ")
CONTENT_TYPE = "application/vnd.livegym.weights"
MAX_TEXT = 2**20  # bytes
MAX_BYTES = 256 * 2**20
"""Largest message, in bytes."""
MAX_ARRAYS = 10_000
MAX_DIMENSIONS = 8
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
RUN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,160}")
RUN_ID = re.compile(r"[A-Za-z0-9]{1,64}")
LARGEST = 2**53  # of a version or an epoch, so that JSON numbers are exact everywhere


def can_be_sent(candidate: Candidate) -> bool:
    """Whether a version can be sent: it must say which run and which policy it is."""
    return bool(RUN_ID.fullmatch(candidate.run_id) and RUN_NAME.fullmatch(candidate.run)) and bool(
        candidate.spec and candidate.config
    )


def encode(candidate: Candidate) -> bytes:
    """The bytes of a version for which `can_be_sent` is true."""
    assert candidate.spec is not None, "can_be_sent says so"
    level = torch.tensor(math.nan if candidate.level is None else candidate.level, dtype=torch.float64)
    arrays = {**candidate.model, LEVEL: level}
    specs, buffer_bytes = specs_of(arrays)
    buffer = np.zeros(buffer_bytes, dtype=np.uint8)
    for spec in specs:
        spec.view(buffer).copy_(arrays[spec.name])
    described = {
        "run": candidate.run,
        "run_id": candidate.run_id,
        "spec": candidate.spec.to_dict(),
        "config": shared_part(candidate.config),
        "arrays": [[s.name, s.dtype, list(s.shape), s.offset] for s in specs if s.name != LEVEL],
        "level": next(s.offset for s in specs if s.name == LEVEL),
    }
    text = json.dumps(described, separators=(",", ":")).encode()
    number = candidate.publication[1] if candidate.publication is not None else 0
    score = math.nan if candidate.score is None else candidate.score
    made = time.time() if candidate.made is None else candidate.made
    record = np.array([(number, candidate.version, candidate.epoch, 0, score, made, 0)], dtype=SLOT)
    record["checksum"] = _checksum(text, record, buffer)
    return b"".join([HEAD.pack(MAGIC, LAYOUT, len(text), buffer_bytes), text, record.tobytes(), buffer.data])


def checksum_of(data: bytes) -> str:
    """The checksum in a message that `encode` has made, as text."""
    text_bytes = HEAD.unpack_from(data)[2]
    record = np.frombuffer(data, dtype=SLOT, count=1, offset=HEAD.size + text_bytes)
    return f"{int(record['checksum'][0]):016x}"


def _checksum(text: bytes | memoryview, record: np.ndarray, buffer: np.ndarray) -> int:
    digest = xxhash.xxh3_64(text)
    digest.update(record.tobytes()[: -SLOT["checksum"].itemsize])
    digest.update(buffer.data)
    return digest.intdigest()


@dataclass(frozen=True)
class _Parts:
    """The sections of a message whose sizes agree."""

    text: memoryview
    record: np.ndarray  # (1,) of SLOT
    buffer: np.ndarray  # (buffer_bytes,) uint8, a copy, so that its arrays are aligned


def decode(data: bytes | bytearray | memoryview, address: str, load_ms: float = 0.0) -> Candidate:
    """The version in a message, completely verified; its arrays belong to the caller.

    `address`: where it comes from, for messages. Raises UserError, which says in one line what is wrong.
    """
    try:
        return _decoded(_parts(memoryview(data)), address, load_ms)
    except UserError as error:
        raise UserError(f"what {address} sent cannot be used: {error}") from error
    except (ValueError, LookupError, TypeError, RuntimeError, OverflowError, RecursionError) as error:
        raise UserError(f"what {address} sent cannot be used: it has no valid description ({error})") from error


def _parts(data: memoryview) -> _Parts:
    if len(data) < HEAD.size:
        raise UserError(f"it has {len(data)} bytes; the head alone has {HEAD.size}")
    magic, layout, text_bytes, buffer_bytes = HEAD.unpack_from(data)
    if magic.rstrip(b"\0") != MAGIC:
        raise UserError("it is not a policy version")
    if layout != LAYOUT:
        raise UserError(
            f"it has layout {layout}, but this livegym reads layout {LAYOUT}. Run both with the same version of livegym"
        )
    described = HEAD.size + text_bytes + SLOT.itemsize + buffer_bytes
    if text_bytes > MAX_TEXT or described > MAX_BYTES or described != len(data):
        raise UserError(f"it has {len(data)} bytes, but its head describes {described}")
    at = HEAD.size + text_bytes
    record = np.frombuffer(data, dtype=SLOT, count=1, offset=at)
    text, buffer = data[HEAD.size : at], np.frombuffer(data, dtype=np.uint8, offset=at + SLOT.itemsize).copy()
    if int(record["checksum"][0]) != _checksum(text, record, buffer):
        raise UserError("its checksum is wrong")
    return _Parts(text, record, buffer)


def _decoded(parts: _Parts, address: str, load_ms: float) -> Candidate:
    described: dict[str, Any] = json.loads(bytes(parts.text))
    run, run_id = described["run"], described["run_id"]
    if not (isinstance(run, str) and RUN_NAME.fullmatch(run) and isinstance(run_id, str) and RUN_ID.fullmatch(run_id)):
        raise UserError("the name or the id of its run is invalid")
    specs = _array_specs(described["arrays"], len(parts.buffer))
    model = {spec.name: _array(spec, parts.buffer) for spec in specs}
    _check_finite(specs, parts.buffer, model)
    spec = PolicySpec.from_dict(described["spec"])
    config = received_config(described["config"])
    _check_sizes(spec, config, sum(value.numel() for value in model.values()))
    _, version, epoch, _, score, made, _ = parts.record[0].item()
    if not (version <= LARGEST and epoch <= LARGEST and math.isfinite(made)):
        raise UserError(f"its version, epoch or time is out of range ({version}, {epoch}, {made})")
    (level_at,) = _array_specs([[LEVEL, "float64", [], described["level"]]], len(parts.buffer))
    level = level_at.view(parts.buffer).item()
    return Candidate(
        model=model,
        spec=spec,
        run_id=run_id,
        version=version,
        epoch=epoch,
        score=score if math.isfinite(score) else None,
        file=None,
        source="network",
        load_ms=load_ms,
        run_name=run,
        made=made,
        config=config,
        level=level if 0.0 <= level <= 1.0 else None,
        address=address,
    )


def _array_specs(listed: Any, buffer_bytes: int) -> list[TensorSpec]:
    """The arrays that are described. Raises UserError unless each of them lies in the buffer, and all fit in it."""
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_ARRAYS:
        raise UserError(f"it describes no arrays, or more than {MAX_ARRAYS}")
    specs, total = [], 0
    for name, dtype, shape, offset in listed:
        sizes = shape if isinstance(shape, list) and len(shape) <= MAX_DIMENSIONS else [-1]
        numbers = all(type(size) is int and 0 <= size <= buffer_bytes for size in [*sizes, offset])
        if not (isinstance(name, str) and 0 < len(name) <= 200 and dtype in DTYPES and numbers):
            raise UserError(f"it describes an array that is not one: {str(name)[:80]!r}, {str(dtype)[:20]!r}")
        spec = TensorSpec(name, dtype, tuple(sizes), offset)
        size = math.prod(sizes) * spec.torch_dtype.itemsize
        total += size
        if offset % ALIGNMENT or offset + size > buffer_bytes or total > buffer_bytes:
            raise UserError(f"{name[:80]!r} is outside of its {buffer_bytes} bytes")
        specs.append(spec)
    if len({spec.name for spec in specs}) != len(specs):
        raise UserError("it describes two arrays of the same name")
    return specs


def _array(spec: TensorSpec, buffer: np.ndarray) -> Tensor:
    values = spec.view(buffer)
    if spec.dtype == "bool" and bool((values.view(torch.uint8) > 1).any()):
        raise UserError(f"{spec.name[:80]!r} has values that are neither true nor false")
    return values


def _check_finite(specs: list[TensorSpec], buffer: np.ndarray, model: dict[str, Tensor]) -> None:
    """Raises UserError for NaN or Infinity. A sum is finite only if every summand is; it may overflow by itself."""
    if all(math.isfinite(view.sum().item()) for view in floats_of(specs, buffer)):
        return
    for name, value in model.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise UserError(f"it has NaN or Infinity in {name[:80]!r}")


def _check_sizes(spec: PolicySpec, config: dict[str, Any], values: int) -> None:
    """Raises UserError if the network that the configuration describes has more weights than have arrived.

    So no configuration can make a follower allocate more than a small multiple of what was sent.
    """
    network = look_up(config, "train.network")
    hidden = look_up(network, "units") if isinstance(network, dict) else None
    recurrent = look_up(network, "recurrent.units") if isinstance(network, dict) else None
    widths = [spec.obs_width, *(hidden if isinstance(hidden, list) else [])]
    squares = [recurrent, recurrent] if isinstance(recurrent, int) else [0, 0]
    numbers = [*widths, *squares, *(width for _, width in (*spec.observations, *spec.privileged))]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise UserError("the sizes of its network are not whole numbers")
    largest = max([*numbers, *(a * b for a, b in pairwise(widths)), squares[0] * squares[1]])
    if largest > values:
        raise UserError(f"its network would have {largest} weights in one layer, but {values} numbers were sent")

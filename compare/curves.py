"""The scalar curves of a run, read from its TensorBoard event files in one pass.

    curves, problem = read_curves(run)         # tag -> Curve, and what could not be read ("" if nothing)
    curves["rewards/step"].values[-1]          # the last mean return

TensorBoard's own reader verifies checksums in Python and keeps a random sample of a long curve, in which the best value
may be missing; this one keeps every point. The rules are TensorBoard's: files are read in the order of their names, and
a session marker discards the points at or beyond its step, which a killed session had written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from google.protobuf.message import DecodeError
from tensorboardX.proto.event_pb2 import Event, SessionLog

from livegym.rundir.run import Run

HEADER, FOOTER = 12, 4  # bytes of a record beside its content: its length and a checksum, and another checksum
LONGEST = 1 << 24  # bytes; a longer record is damage


@dataclass(frozen=True)
class Curve:
    """One scalar of a run. All arrays have shape (n,)."""

    frames: np.ndarray
    values: np.ndarray
    seconds: np.ndarray  # time of training until the point in s, without the pauses between sessions


@dataclass
class _Points:
    frames: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def discard_from(self, step: int) -> None:
        """Removes the points at or beyond `step`."""
        kept = [i for i, frame in enumerate(self.frames) if frame < step]
        if len(kept) < len(self.frames):
            self.frames = [self.frames[i] for i in kept]
            self.values = [self.values[i] for i in kept]
            self.seconds = [self.seconds[i] for i in kept]


class _Reader:
    """Collects the points of all sessions of a run."""

    def __init__(self) -> None:
        self.points: dict[str, _Points] = {}
        self._offset = 0.0  # s of training before this session
        self._began: float | None = None

    def add(self, event: Event) -> None:
        """Adds one event."""
        if event.session_log.status == SessionLog.START:
            for points in self.points.values():
                points.discard_from(event.step)
            self._offset = max((p.seconds[-1] for p in self.points.values() if p.seconds), default=0.0)
            self._began = event.wall_time
        for value in event.summary.value:
            if value.HasField("simple_value"):
                points = self.points.setdefault(value.tag, _Points())
                points.frames.append(event.step)
                points.values.append(value.simple_value)
                began = event.wall_time if self._began is None else self._began
                points.seconds.append(self._offset + max(0.0, event.wall_time - began))


def read_curves(run: Run) -> tuple[dict[str, Curve], str]:
    """The curves of a run by their tags, and why some of them are missing; '' if all could be read."""
    reader, problems = _Reader(), []
    try:
        files = sorted(p for p in run.summaries.iterdir() if p.name.startswith("events.out.tfevents."))
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        return {}, f"its curves cannot be read ({error.strerror})"
    for file in files:
        try:
            for record in _records(file):
                reader.add(Event.FromString(record))
        except OSError as error:
            problems.append(f"{file.name} cannot be read ({error.strerror})")
        except (DecodeError, ValueError):
            problems.append(f"{file.name} is damaged; what precedes the damage is used")
    curves = {tag: Curve(*map(np.array, (p.frames, p.values, p.seconds))) for tag, p in reader.points.items()}
    return {tag: curve for tag, curve in curves.items() if len(curve.frames)}, "; ".join(problems)


def _records(file: Path) -> Iterator[bytes]:
    """The records of an event file, without a last one that is still being written. Raises ValueError if damaged."""
    with file.open("rb") as stream:
        while len(header := stream.read(HEADER)) == HEADER:
            (length,) = struct.unpack_from("<Q", header)
            if length > LONGEST:
                raise ValueError(f"a record of {length} bytes")
            record = stream.read(length + FOOTER)
            if len(record) < length + FOOTER:
                return
            yield record[:length]

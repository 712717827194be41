"""One video file: H.264 in an MP4 that is playable at any moment.

    clip = Clip(Path("episode.mp4"), exact_dt(1 / 60), 480, 640)
    clip.add(0, picture)     # (480, 640, 3) uint8, the picture of control step 0
    clip.close()

The time of a picture is its step's number times the control step, to the last digit: a file plays at the speed of the
simulation at any control rate, also where steps have no picture. The MP4 consists of fragments of about a second, each
handed to the system as soon as it is whole, so that one whose writer was killed plays up to there.
"""

from __future__ import annotations

import contextlib
import os
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import IO, Final

import numpy as np

from livegym.utils.errors import UserError
from livegym.utils.files import discard

try:
    import av
except ImportError:  # check_encoder tells it in one line, before the run
    av = None  # type: ignore[assignment]

CODEC: Final = "libx264"
# zerolatency: no picture waits in the encoder; sc_threshold: key pictures come by the second only, not at cuts too
QUALITY = {"preset": "veryfast", "crf": "20", "tune": "zerolatency", "sc_threshold": "0"}
# a fragment from key picture to key picture; delay_moov: no file before the first of them is whole
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+delay_moov+default_base_moof"}
FAULTS: tuple[type[Exception], ...] = (OSError, ValueError, RuntimeError, *((av.FFmpegError,) if av else ()))
"""What a clip raises if it cannot be encoded or written."""


def check_encoder() -> None:
    """Raises UserError with the line that installs what is missing."""
    if av is None:
        raise UserError("videos need PyAV. Try: pip install av")
    if CODEC not in av.codecs_available:
        raise UserError(f"videos need {CODEC}, and this PyAV is built without. Try: pip install --force-reinstall av")


def exact_dt(control_dt: float) -> Fraction:
    """s, the control step as the fraction that was meant: 1/60 for 0.016666666666666666."""
    return Fraction(control_dt).limit_denominator(1_000_000)


class Clip:
    """A file that is there from its first whole fragment on. After a fault, `abandon` is all that can be done."""

    def __init__(self, path: Path, dt: Fraction, height: int, width: int) -> None:
        """`path`, or path_2 and so on if that is taken; dt: s between steps; height, width: even, in pixels."""
        self._file = _NewFile(path)
        self._container = av.open(self._file, "w", format="mp4", options=FRAGMENTS)
        self._stream = self._container.add_stream(CODEC, rate=1 / dt, options=QUALITY)
        self._stream.height = height
        self._stream.width = width
        self._stream.pix_fmt = "yuv420p"
        self._stream.codec_context.time_base = dt
        self._stream.codec_context.gop_size = max(1, round(1 / dt))
        self._stream.codec_context.thread_count = 1  # the other cores step the simulation
        self._whole = 0  # bytes of the file that can be played, whatever comes

    @property
    def path(self) -> Path:
        """The name that the file really has, from its first bytes on."""
        return self._file.path

    def add(self, step: int, picture: np.ndarray) -> None:
        """The picture (height, width, 3) uint8 RGB of a control step; steps rise. Raises FAULTS."""
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
        frame.pts = step
        self._write(frame)

    def close(self) -> None:
        """Writes what is left. Raises FAULTS."""
        self._write(None)
        self._container.close()
        self._file.close()

    def abandon(self) -> bool:
        """After a fault: keeps what can be played, and removes the rest. True if something is kept."""
        try:
            self.close()
            broken = self._file.broken  # PyAV does not always repeat a fault at the end
        except FAULTS:
            broken = True
        if not broken:
            return self._file.size > 0
        self._file.cut(self._whole)
        return self._whole > 0

    def _write(self, frame: av.VideoFrame | None) -> None:
        for packet in self._stream.encode(frame):
            is_key = packet.is_keyframe
            self._container.mux(packet)
            if is_key:  # it has completed the fragment before
                self._whole = self._file.size


class _NewFile:
    """A file that is made with its first bytes, under a name that was free then; each write is handed to the system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0  # bytes
        self.broken = False  # a write has failed, so what comes after it is no use
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> int:
        """Called by PyAV, which hands on what this raises."""
        was_broken, self.broken = self.broken, True
        if self._file is None:
            self._file = self._create()
        self._file.write(data)
        self._file.flush()
        self.broken = was_broken
        self.size += len(data)
        return len(data)

    def _create(self) -> IO[bytes]:
        wanted = self.path
        for number in count(2):
            with contextlib.suppress(FileExistsError):
                return open(self.path, "xb")
            self.path = wanted.with_stem(f"{wanted.stem}_{number}")
        raise AssertionError("count() does not end")

    def close(self) -> None:
        """Closes the file, if it was made. Raises OSError."""
        if self._file is not None:
            self._file.close()

    def cut(self, size: int) -> None:
        """Closes the file and keeps its first `size` bytes; removes it where these are none."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):  # what it cannot write any more is cut off anyway
            self._file.close()
        if not size:
            discard(self.path)
            return
        with contextlib.suppress(OSError):
            os.truncate(self.path, size)

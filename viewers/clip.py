"""One video file: H.264 in an MP4 that is playable at any moment.

    clip = Clip(Path("episode.mp4"), exact_dt(1 / 60), 480, 640)
    clip.add(0, picture)     # (480, 640, 3) uint8, the picture of control step 0
    clip.close()

The time of a picture is its step number times the control step, exactly. So a file plays at the speed of the simulation
at any control rate, even if some steps have no picture. The MP4 consists of fragments of about a second. Each is
written as soon as it is complete, so a file whose writer was killed plays up to its last complete fragment.
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
except ImportError:  # check_encoder reports it in one line, before the run
    av = None  # type: ignore[assignment]

CODEC: Final = "libx264"
# zerolatency: no picture waits in the encoder; sc_threshold: key frames come once a second, and not at cuts too
QUALITY = {"preset": "veryfast", "crf": "20", "tune": "zerolatency", "sc_threshold": "0"}
# one fragment per key frame; delay_moov: no file is created before the first fragment is complete
FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+delay_moov+default_base_moof"}
FAULTS: tuple[type[Exception], ...] = (OSError, ValueError, RuntimeError, *((av.FFmpegError,) if av else ()))
"""The exceptions of a clip that cannot be encoded or written."""


def check_encoder() -> None:
    """Raises UserError if PyAV or its encoder is missing; the message has the command that installs it."""
    if av is None:
        raise UserError("videos need PyAV. Try: pip install av")
    if CODEC not in av.codecs_available:
        raise UserError(f"videos need {CODEC}, but this PyAV lacks it. Try: pip install --force-reinstall av")


def exact_dt(control_dt: float) -> Fraction:
    """The control step in s as the fraction that its float stands for: 1/60 for 0.016666666666666666."""
    return Fraction(control_dt).limit_denominator(1_000_000)


class Clip:
    """A video file, created with its first complete fragment. After a fault, only `abandon` may be called."""

    def __init__(self, path: Path, dt: Fraction, height: int, width: int) -> None:
        """Writes to `path`, or to path_2 and so on if it exists. dt: s between steps; height, width: even, pixels."""
        self._file = _NewFile(path)
        self._container = av.open(self._file, "w", format="mp4", options=FRAGMENTS)
        self._stream = self._container.add_stream(CODEC, rate=1 / dt, options=QUALITY)
        self._stream.height = height
        self._stream.width = width
        self._stream.pix_fmt = "yuv420p"
        self._stream.codec_context.time_base = dt
        self._stream.codec_context.gop_size = max(1, round(1 / dt))
        self._stream.codec_context.thread_count = 1  # the other cores step the simulation
        self._complete = 0  # bytes of the file up to its last complete fragment

    @property
    def path(self) -> Path:
        """The file's actual path; final once its first bytes are written."""
        return self._file.path

    def add(self, step: int, picture: np.ndarray) -> None:
        """Adds the picture (height, width, 3) uint8 RGB of a control step; steps must increase. Raises FAULTS."""
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
        frame.pts = step
        self._write(frame)

    def close(self) -> None:
        """Writes the remaining pictures and closes the file. Raises FAULTS."""
        self._write(None)
        self._container.close()
        self._file.close()

    def abandon(self) -> bool:
        """After a fault: keeps the part that can be played, and removes the rest. True if any part is kept."""
        try:
            self.close()
            broken = self._file.broken  # PyAV does not always repeat a fault at the end
        except FAULTS:
            broken = True
        if not broken:
            return self._file.size > 0
        self._file.cut(self._complete)
        return self._complete > 0

    def _write(self, frame: av.VideoFrame | None) -> None:
        for packet in self._stream.encode(frame):
            is_key = packet.is_keyframe
            self._container.mux(packet)
            if is_key:  # a key frame completes the previous fragment
                self._complete = self._file.size


class _NewFile:
    """A file that is created with its first bytes, under a name that is free then; each write is flushed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0  # bytes
        self.broken = False  # a write has failed, so that later bytes are useless
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> int:
        """Called by PyAV, which passes exceptions on."""
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
        """Closes the file, if it was created. Raises OSError."""
        if self._file is not None:
            self._file.close()

    def cut(self, size: int) -> None:
        """Closes the file and truncates it to `size` bytes; removes it if `size` is 0."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):  # bytes that can no longer be written are cut off anyway
            self._file.close()
        if not size:
            discard(self.path)
            return
        with contextlib.suppress(OSError):
            os.truncate(self.path, size)

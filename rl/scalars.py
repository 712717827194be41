"""TensorBoard scalars that survive a full disk.

The writers of tensorboardX and torch pass events to a thread. If the disk is full, that thread dies, its queue fills,
and training hangs. This writer writes in the calling thread: a failure is one warning, and a new event file is started
when the disk accepts writes again. After a resume, a session marker sets the step from which the curves continue;
TensorBoard then drops the points that a killed run had written beyond that step.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import re
import socket
import time
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import RecordWriter
from tensorboardX.summary import scalar

log = logging.getLogger(__name__)
_serial = itertools.count()
_STAMP = re.compile(r"events\.out\.tfevents\.(\d{10})\.")


class ScalarWriter:
    """Appends scalars to an event file in `directory`; the curves continue after step `start_step`."""

    def __init__(self, directory: Path, start_step: int = 0) -> None:
        self.directory = directory
        self._writer: RecordWriter | None = None
        self._failed = False
        self._last_step = start_step
        self._open()

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        """Add one point to a curve. A non-finite value is left out, since it would hide the others."""
        value = float(value)
        self._last_step = max(self._last_step, int(step))
        if math.isfinite(value):
            self._write(Event(wall_time=time.time(), step=int(step), summary=scalar(tag, value)))

    def add_summary(self, summary: Summary) -> None:
        """Add a summary that is not a scalar, such as the data of a plugin."""
        self._write(Event(wall_time=time.time(), step=self._last_step, summary=summary))

    def flush(self) -> None:
        """Flush to the operating system. After a failure, try to open a new file instead."""
        if self._writer is None:
            self._open()
        else:
            self._guarded(self._writer.flush)

    def close(self) -> None:
        """Flush and close the event file."""
        if self._writer is not None:
            self._guarded(self._writer.close)
            self._writer = None

    def _open(self) -> None:
        name = f"events.out.tfevents.{self._stamp()}.{socket.gethostname()}.{os.getpid()}.{next(_serial)}"
        try:
            self.directory.mkdir(exist_ok=True)
            self._writer = RecordWriter(str(self.directory / name))
        except OSError as error:
            self._warn(error)
            return
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        marker = SessionLog(status=SessionLog.START)
        self._write(Event(wall_time=time.time(), step=self._last_step + 1, session_log=marker))
        if self._writer is not None:
            self._guarded(self._writer.flush)  # shows whether the disk accepts writes
        if self._writer is None:
            (self.directory / name).unlink(missing_ok=True)  # otherwise each retry would leave an empty file
        elif self._failed:
            log.info("TensorBoard curves are being written again.")
            self._failed = False

    def _stamp(self) -> int:
        """Seconds since 1970, but larger than in all file names here: TensorBoard reads files in the order of names."""
        stamps = [_STAMP.match(file.name) for file in self.directory.glob("events.out.tfevents.*")]
        return max([int(time.time()), *(int(stamp[1]) + 1 for stamp in stamps if stamp)])

    def _write(self, event: Event) -> None:
        writer = self._writer
        if writer is not None:
            self._guarded(lambda: writer.write(event.SerializeToString()))

    def _guarded(self, action) -> None:
        try:
            action()
        except OSError as error:
            self._warn(error)
            self._abandon()

    def _abandon(self) -> None:
        """Give up a file that could not be written: it may end in a partial event, so nothing may be appended."""
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.close()
        except OSError as error:
            log.debug("closing the event file: %s", error)

    def _warn(self, error: OSError) -> None:
        if not self._failed:
            log.warning("TensorBoard curves cannot be written (%s); the run continues without them.", error)
        self._failed = True

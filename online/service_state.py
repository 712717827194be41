"""What a continuous run remembers: completed experiences in a file that is always there, and over a stop that was asked
for also the open decisions, and what the streams were answered last.
"""

from __future__ import annotations

import io
import json
import logging
import time
import tokenize

import numpy as np

from livegym.online.answer_cache import AnswerCache
from livegym.online.experience import Layout, from_row, to_row
from livegym.online.pending import Pending
from livegym.online.replay import ReplayWriter
from livegym.online.ring import MOST_SESSIONS, checks_of, factors_of
from livegym.rundir.run import Run
from livegym.schema import OnlineConfig
from livegym.utils.files import atomic_write_bytes, atomic_write_text, discard, read_first_line, strict_json

log = logging.getLogger(__name__)

UNREADABLE = (OSError, ValueError, EOFError, MemoryError, SyntaxError, tokenize.TokenError)
"""What NumPy's parser makes of a damaged file."""


STREAMS = 1000
"""Streams that are remembered at least, also where fewer are served at once."""


class ServiceState:
    """Replay buffer, pending decisions, last answers, and the clock by which they age: s that the run was served."""

    def __init__(self, run: Run, layout: Layout, online: OnlineConfig) -> None:
        """Takes up what is there. Raises UserError if it is of another layout, or cannot be had."""
        self.run, self.layout = run, layout
        self.writer = ReplayWriter(run.replay_file, layout, online.buffer_capacity)
        streams = max(STREAMS, online.max_streams)
        self.pending = Pending(online.pending_ttl_s, online.pending_capacity, self._session(), streams)
        self.answer_cache = AnswerCache(streams)
        if self.writer.partial:
            log.warning("%d experiences had been left half written, and are dropped.", self.writer.partial)
        if len(self.writer):
            log.info("going on with %d experiences of %d.", len(self.writer), self.writer.added)
        self._restore_pending()
        self._restore_answers()
        for file in (run.pending_file, run.answers_file):
            discard(file)  # once: a kill must not bring them back a second time
        told = [e.clock for e in self.pending.all()]  # later than the buffer's if that was left behind
        self._start = time.monotonic() - max([self.writer.clock, *told])

    def _session(self) -> int:
        """How often the run was taken up, this time included; noted beside the buffer, which may be left behind."""
        file = self.run.sessions_file
        words = read_first_line(file)
        noted = int(words) if words.isdecimal() and len(words) < 8 else 0
        session = max(self.writer.sessions, noted + 1 if noted < MOST_SESSIONS else 0)
        try:
            atomic_write_text(file, f"{session}\n")
        except OSError as error:
            log.warning("%s cannot be written (%s): keep the replay buffer with the run.", file, error)
        return session

    @property
    def clock(self) -> float:
        """s served, over all sessions; what the clock on the wall does is nothing to it."""
        return time.monotonic() - self._start

    def tick(self) -> None:
        """Now and then: tells the reader how late it is, and gives up what has waited too long."""
        self.writer.tell(self.clock)
        self.pending.expire(self.clock)

    def _restore_pending(self) -> None:
        file = self.run.pending_file
        if not file.exists():
            return
        try:
            rows = np.load(file, allow_pickle=False)
            if rows.dtype != self.layout.dtype():
                raise ValueError("it is of another layout")
            whole = rows["check"] == _checks(rows)
            self.pending.restore([from_row(row) for row in rows[whole]])
        except UNREADABLE as error:
            log.warning("%s cannot be used (%r): the rewards of those decisions will come too late.", file, error)
            return
        if not whole.all():
            log.warning("%d decisions of %s are damaged: their rewards will come too late.", (~whole).sum(), file)
        log.info("%d decisions wait for their rewards.", len(self.pending))

    def _restore_answers(self) -> None:
        file = self.run.answers_file
        if not file.exists():
            return
        try:
            self.answer_cache.restore(json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            log.warning("%s cannot be used (%r): what is asked again is decided again.", file, error)

    def save(self, without: frozenset[str] = frozenset()) -> None:
        """Keeps what is open for the next session, but for the decisions of some streams; says if it cannot."""
        self.tick()
        self._save_pending(without)
        if len(self.answer_cache):
            try:
                text = strict_json(self.answer_cache.state(), indent=None)
                atomic_write_text(self.run.answers_file, text)
            except OSError as error:
                log.error("the last answers could not be kept (%s): what is asked again is decided again.", error)

    def _save_pending(self, without: frozenset[str]) -> None:
        kept = [e for e in self.pending.all() if e.stream not in without and not e.intervened]
        if not kept:
            return
        rows = np.zeros(len(kept), self.layout.dtype())
        for row, experience in zip(rows, kept, strict=True):
            to_row(experience, row)
        rows["check"] = _checks(rows)
        try:
            atomic_write_bytes(self.run.pending_file, _npy(rows))
        except OSError as error:
            log.error("%d open decisions could not be kept (%s): their rewards will come too late.", len(kept), error)
        else:
            log.info("%d decisions wait for their rewards over the stop.", len(kept))


def _checks(rows: np.ndarray) -> np.ndarray:
    words = np.ascontiguousarray(rows).view(np.uint64).reshape(len(rows), -1)
    return checks_of(words, factors_of(words.shape[1]))


def _npy(rows: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()

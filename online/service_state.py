"""The state of a continuous run that outlives the process.

Completed experiences are always in a file, so they survive a kill. Pending decisions and the streams' last answers are
written when the run is stopped.
"""

from __future__ import annotations

import io
import json
import logging
import time
import tokenize

import numpy as np

from livegym.online.answer_cache import AnswerCache
from livegym.online.decision_log import DecisionLog
from livegym.online.experience import Layout, from_row, pending_dtype, to_row
from livegym.online.not_learned import NotLearned
from livegym.online.pending import Pending
from livegym.online.replay import ReplayWriter
from livegym.online.ring import MOST_SESSIONS, checks_of_rows
from livegym.rundir.run import Run
from livegym.schema import OnlineConfig
from livegym.utils.files import atomic_write_bytes, atomic_write_text, discard, read_first_line, strict_json
from livegym.utils.words import count

log = logging.getLogger(__name__)

UNREADABLE = (OSError, ValueError, EOFError, MemoryError, SyntaxError, tokenize.TokenError)
"""Exceptions that NumPy raises for a damaged file."""


STREAMS = 1000
"""Least number of streams that are remembered, even if fewer may be served at once."""


class ServiceState:
    """Replay buffer, decision log, pending decisions, last answers, and their clock: the s that the run was served."""

    def __init__(self, run: Run, layout: Layout, online: OnlineConfig) -> None:
        """Open or create the files. Raises UserError if the buffer has another layout, or cannot be opened."""
        self.run, self.layout = run, layout
        self.writer = ReplayWriter(run.replay_file, layout, online.buffer_capacity)
        self.log = DecisionLog(run.decisions, layout, online.log_decisions * 1_000_000)
        streams = max(STREAMS, online.max_streams)
        self.pending = Pending(online.pending_ttl_s, online.pending_capacity, self._session(), streams)
        self.pending.on_drop = self.log.add
        self.answer_cache = AnswerCache(streams)
        self.not_learned = NotLearned(run.not_learned_file)
        if self.writer.partial:
            log.warning("%d experiences were only partially written, and are dropped.", self.writer.partial)
        if len(self.writer):
            log.info("continuing with %d experiences of the %d added so far.", len(self.writer), self.writer.added)
        self._restore_pending()
        self._restore_answers()
        self._restore_parts()
        for file in (run.pending_file, run.answers_file, run.parts_file):
            discard(file)  # after a kill, they must not be restored a second time
        clocks = [e.clock for e in self.pending.all()]  # later than the buffer's if the buffer was not copied along
        self._start = time.monotonic() - max([self.writer.clock, *clocks])

    def _session(self) -> int:
        """Return how often the run was opened, including this time; also kept in a file, in case the buffer is lost."""
        file = self.run.sessions_file
        line = read_first_line(file)
        stored = int(line) if line.isdecimal() and len(line) < 8 else 0
        session = max(self.writer.sessions, stored + 1 if stored < MOST_SESSIONS else 0)
        try:
            atomic_write_text(file, f"{session}\n")
        except OSError as error:
            log.warning("%s cannot be written (%s). If you copy this run, copy its replay buffer too.", file, error)
        return session

    @property
    def clock(self) -> float:
        """s served, over all sessions; changes of the system time do not affect it."""
        return time.monotonic() - self._start

    def tick(self) -> None:
        """Store the clock for the reader, and drop decisions that have waited too long; called a few times a second."""
        self.writer.tell(self.clock)
        self.pending.expire(self.clock)

    def _restore_pending(self) -> None:
        file = self.run.pending_file
        if not file.exists():
            return
        try:
            rows = np.load(file, allow_pickle=False)
            if rows.dtype not in (pending_dtype(self.layout), self.layout.dtype()):  # the second: of earlier releases
                raise ValueError("it has another layout")
            intact = rows["check"] == checks_of_rows(rows)
            self.pending.restore([from_row(row) for row in rows[intact]], time.time())
        except UNREADABLE as error:
            log.warning("%s cannot be used (%r): the rewards of its decisions will be refused as late.", file, error)
            return
        if not intact.all():
            damaged = count((~intact).sum(), "decision")
            log.warning("%s: %s damaged; rewards for them will be refused as late.", file, damaged)
        log.info("waiting for a reward: %s.", count(len(self.pending), "decision"))

    def _restore_answers(self) -> None:
        file = self.run.answers_file
        if not file.exists():
            return
        try:
            self.answer_cache.restore(json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            log.warning("%s cannot be used (%r): a resent request gets a new decision.", file, error)

    def _restore_parts(self) -> None:
        file = self.run.parts_file
        if not file.exists():
            return
        try:
            self.pending.restore_parts(json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            log.warning("%s cannot be used (%r): parts of rewards that came before the stop are lost.", file, error)

    def save(self, without: frozenset[str] = frozenset()) -> None:
        """Write pending decisions and last answers for the next session; a failure is logged.

        `without`: streams whose decisions are not written. A decision that is not written is logged as incomplete.
        """
        self.tick()
        self._save_pending(without)
        parts = self.pending.parts()
        if parts:
            try:
                atomic_write_text(self.run.parts_file, strict_json(parts, indent=None))
            except OSError as error:
                log.error("parts of rewards could not be saved (%s): they are lost.", error)
        self.log.close()
        if len(self.answer_cache):
            try:
                text = strict_json(self.answer_cache.state(), indent=None)
                atomic_write_text(self.run.answers_file, text)
            except OSError as error:
                log.error("the last answers could not be saved (%s): a resent request gets a new decision.", error)

    def _save_pending(self, without: frozenset[str]) -> None:
        kept = []
        for e in self.pending.all():
            if e.stream in without:
                self.log.add(e)
            else:
                kept.append(e)
        if not kept:
            return
        rows = np.zeros(len(kept), pending_dtype(self.layout))
        for row, experience in zip(rows, kept, strict=True):
            to_row(experience, row)
            row["intervened"], row["learn"] = experience.intervened, experience.learn
        rows["check"] = checks_of_rows(rows)
        try:
            atomic_write_bytes(self.run.pending_file, _npy(rows))
        except OSError as error:
            message = "%d pending decisions could not be saved (%s): their rewards will be refused as late."
            log.error(message, len(kept), error)
        else:
            log.info("saved %s without a reward so far.", count(len(kept), "decision"))


def _npy(rows: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, rows)
    return file.getvalue()

"""Keeps a trainer alive: starts its process, reads its heartbeat, restarts it when it dies or hangs.

    watchdog = Watchdog(run, config)
    watchdog.start()
    watchdog.reading()        # any thread: the state of this moment, and the last numbers that the trainer told
    watchdog.stop()           # the trainer saves and ends; one that does not is killed

A trainer that has said nothing for `hang_timeout_s` hangs: it is killed, as nothing else surely ends it. A new one goes
on from the last good state, which is the newest checkpoint that verifies. One that dies again and again is given up
(`max_restarts` within ten minutes): serving goes on with the weights there are, the state says so, and somebody has to
ask for another one (`start_again`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import select
import signal
import subprocess
import threading
import time
from collections import deque
from typing import IO, Any

from livegym.cfg.typed import plain_dict
from livegym.projects.commands import PROGRAM, program
from livegym.rundir.run import Run
from livegym.schema.settled import SettledConfig
from livegym.utils.attempt import attempt
from livegym.utils.child import start_child
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

POLL_S = 0.1  # s between polls of process and heartbeat
WITHIN = 600.0  # s in which restarts are counted
PAUSE = 1.0  # s before a restart, doubled by each one of the last ten minutes
LONGEST_PAUSE = 30.0
CLOSING = 15.0  # s that a trainer gets to save and end
STARTING = 60.0  # s until the first sign of life, at most; libraries are loaded then
LINE = 65536  # bytes that are read at once
LOGGED = re.compile(r"\d\d:\d\d:\d\d (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)")  # as `utils.log` writes lines
MOMENTARY = ("loss", "entropy", "training_steps_per_second", "training_utilization", "agreement")


class Watchdog:
    """One run's trainer, whichever process that is."""

    def __init__(self, run: Run, config: SettledConfig) -> None:
        self._run, self._config = run, config
        self._reported: dict[str, Any] = {}  # what the trainer said last
        self._state, self._why = "starting", ""
        self._sent_at = time.monotonic()
        self._restarts: deque[float] = deque()
        self.restarts = 0
        self._process: subprocess.Popen[str] | None = None
        self._heartbeat, self._buffer = -1, b""  # descriptor, and what has come of a line
        self._end, self._again = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="trainer-watchdog", daemon=True)

    # any thread

    def reading(self) -> dict[str, Any]:
        """The truth of this moment: state, why, pid, restarts, age of the last sign of life (s), and what it told."""
        process = self._process
        alive = process is not None and process.poll() is None
        state = self._state
        if state in ("starting", "waiting", "training") and process is not None and not alive:
            state = "dead"  # noticed here before the watchdog looked
        reported = dict(self._reported)
        if state not in ("waiting", "training"):
            reported |= dict.fromkeys(MOMENTARY)  # what it last said of the moment is true no more
        return {
            **reported,
            "state": state,
            "why": self._why or self._reported.get("why", ""),
            "pid": process.pid if alive and process is not None else None,
            "restarts": self.restarts,
            "beat_age_s": round(time.monotonic() - self._sent_at, 2),
        }

    def start(self) -> None:
        """Starts the trainer. Raises OSError if no process can be made."""
        self._start()
        self._thread.start()

    def start_again(self) -> None:
        """Another trainer after the last one was given up, with as many restarts as at first.

        Raises UserError if it was not.
        """
        if self._state != "given up":
            raise UserError(f"the trainer is {self._state}: only one that was given up is started again by hand")
        self._again.set()

    def stop(self) -> None:
        """Ends the trainer, which saves first; returns when it has ended."""
        self._end.set()
        self._thread.join(timeout=5.0)
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            deadline = time.monotonic() + CLOSING
            while process.poll() is None and time.monotonic() < deadline:
                self._listen(POLL_S)
            self._kill()
        self._listen(0.0)
        self._close_heartbeat()
        self._state = "stopped"

    # the watchdog's thread

    def _watch(self) -> None:
        while not self._end.is_set():
            if not attempt("looking after the trainer", self._look):
                self._end.wait(PAUSE)

    def _look(self) -> None:
        self._listen(POLL_S)
        process = self._process
        if self._state == "given up" and self._again.is_set():
            self._again.clear()
            self._restarts.clear()
            log.info("another trainer is started, as was asked for.")
            self._why = ""
            self._start_another()
            return
        if process is None or self._state == "given up":
            self._end.wait(POLL_S)
            return
        status = process.poll()
        if status is not None:
            self._listen(0.0)  # its last words
            reported = self._reported.get("why") if self._reported.get("state") == "failed" else ""
            self._restart("dead", f"the trainer ended {_words(status)}" + (f" ({reported})" if reported else ""))
            return
        patience = self._config.online.hang_timeout_s
        patience = max(patience, STARTING) if self._state == "starting" else patience
        if time.monotonic() - self._sent_at > patience:
            self._kill()
            self._restart("hung", f"the trainer gave no sign of life for {patience:g} s, and was killed")

    def _restart(self, state: str, why: str) -> None:
        self._close_heartbeat()
        if self._end.is_set():
            return
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > WITHIN:
            self._restarts.popleft()
        self._state, self._why = state, why
        if len(self._restarts) >= self._config.online.max_restarts:
            self._again.clear()  # a second click on the button is about the one before
            self._state = "given up"
            self._why = f"{why}; restarted {len(self._restarts)} times in ten minutes, and not again"
            log.error(
                "%s. Serving goes on with the weights there are. To train again: the dashboard has a button",
                self._why,
            )
            return
        pause = min(LONGEST_PAUSE, PAUSE * 2 ** len(self._restarts))
        log.warning("%s; starting another in %g s from the last checkpoint.", why, pause)
        if self._end.wait(pause):
            return
        self._restarts.append(now)
        self._start_another()

    def _start_another(self) -> None:
        self.restarts += 1
        try:
            self._start()
        except OSError as error:
            log.error("no trainer can be started (%s)", error)
            self._sent_at = time.monotonic()

    def _start(self) -> None:
        reading, writing = os.pipe()
        after = int(self._reported.get("version", 0))  # what was told of is not given out again
        try:
            request = {
                "job": "trainer",
                "config": plain_dict(self._config),
                "run": str(self._run.path.absolute()),
                "heartbeat": writing,
                "after": after,
            }
            self._process, words = start_child(request, {PROGRAM: program()}, pass_fds=(writing,))
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._heartbeat, self._buffer = reading, b""
        self._state = "starting"
        self._sent_at = time.monotonic()
        threading.Thread(target=_pass_on, args=(words,), name="trainer-words", daemon=True).start()

    def _listen(self, timeout: float) -> None:
        """Takes what the trainer has told meanwhile."""
        if self._heartbeat < 0:
            return
        if not select.select([self._heartbeat], [], [], timeout)[0]:
            return
        try:
            data = os.read(self._heartbeat, LINE)
        except BlockingIOError:
            return
        if not data:
            self._end.wait(timeout)  # its end is closed: the process ends just now
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in [line for line in lines if line][-1:]:  # the newest counts
            self._reported = json.loads(line)
            self._sent_at = time.monotonic()
            if self._reported["state"] in ("waiting", "training"):
                self._state, self._why = self._reported["state"], ""

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()  # also ends one that is stopped
            process.wait()

    def _close_heartbeat(self) -> None:
        if self._heartbeat >= 0:
            os.close(self._heartbeat)
            self._heartbeat = -1


def _pass_on(words: IO[str]) -> None:
    """What the trainer says, into our log, to its end: or it would wait for ever to be read."""
    level = logging.INFO
    with words as lines:
        for line in lines:
            match = LOGGED.match(line)  # lines of a traceback are as grave as what they come after
            if match:
                level = logging.getLevelNamesMapping()[match[1]]
            elif line.startswith("Traceback"):
                level = logging.ERROR
            text = match[2] if match else line.rstrip()
            if text:
                log.log(level, "trainer: %s", text)


def _words(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    with contextlib.suppress(ValueError):
        return f"by {signal.Signals(-status).name}"
    return f"by signal {-status}"

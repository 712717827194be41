"""Supervises the trainer: starts its process, reads its heartbeat, and restarts it if it dies or hangs.

    watchdog = Watchdog(run, config)
    watchdog.start()
    watchdog.reading()        # any thread: the current state, and the last numbers that the trainer reported
    watchdog.stop()           # the trainer saves and ends, or is killed

A trainer that has sent no heartbeat for `hang_timeout_s` hangs: it is killed, because a hung process may ignore any
other signal. The new trainer resumes from the newest checkpoint that verifies. After `max_restarts` within ten minutes,
the watchdog gives up: serving continues with the newest weights, the status says so, and a user has to start another
trainer (`start_again`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
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
PAUSE = 1.0  # s before a restart; doubled for each restart in the last ten minutes
LONGEST_PAUSE = 30.0
CLOSING = 15.0  # s that a trainer gets to save and end
STARTING = 60.0  # s, the longest time to the first heartbeat: the trainer loads its libraries first
LINE = 65536  # bytes of one read
LOGGED = re.compile(r"\d\d:\d\d:\d\d (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)")  # a line that `utils.log` wrote
MOMENTARY = ("loss", "entropy", "kl", "training_steps_per_second", "training_utilization", "agreement")


class Watchdog:
    """Supervisor of one run's trainer; each restart is a new process."""

    def __init__(self, run: Run, config: SettledConfig) -> None:
        self._run, self._config = run, config
        self._reported: dict[str, Any] = {}  # the trainer's last report
        self._state, self._why = "starting", ""
        self._sent_at = time.monotonic()
        self._restarts: deque[float] = deque()
        self.restarts = 0
        self._process: subprocess.Popen[str] | None = None
        self._heartbeat, self._buffer = -1, b""  # file descriptor, and the incomplete last line
        self._end, self._again = threading.Event(), threading.Event()
        self._replacements: queue.SimpleQueue[tuple[Callable[[int], object], str]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._watch, name="trainer-watchdog", daemon=True)

    # called by any thread

    def reading(self) -> dict[str, Any]:
        """Return state, reason, pid, restarts, age of the last heartbeat in s, and the last reported numbers."""
        process = self._process
        alive = process is not None and process.poll() is None
        state = self._state
        if state in ("starting", "waiting", "training") and process is not None and not alive:
            state = "dead"  # the watchdog's thread has not noticed it yet
        reported = dict(self._reported)
        if state not in ("waiting", "training"):
            reported |= dict.fromkeys(MOMENTARY)  # momentary values are no longer true
        return {
            **reported,
            "state": state,
            "why": self._why or self._reported.get("why", ""),
            "pid": process.pid if alive and process is not None else None,
            "restarts": self.restarts,
            "beat_age_s": round(time.monotonic() - self._sent_at, 2),
        }

    def start(self) -> None:
        """Start the trainer. Raises OSError if no process can be created."""
        self._start()
        self._thread.start()

    def start_again(self) -> None:
        """Start another trainer after the watchdog has given up; the count of restarts begins again at 0.

        Raises UserError if the watchdog has not given up.
        """
        if self._state != "given up":
            raise UserError(
                f"the trainer is {self._state}: another one can be started by hand only after the watchdog has given up"
            )
        self._again.set()

    def replace(self, prepare: Callable[[int], object], why: str) -> None:
        """Kill the trainer, which then saves nothing more, and start another after `prepare(newest version)`.

        It does not count as a restart after a failure. If the watchdog has given up, only `prepare` is called.
        """
        self._replacements.put((prepare, why))

    def stop(self) -> None:
        """Let the trainer save and end, and kill it if it does not; return when it has ended."""
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

    # called by the watchdog's thread

    def _watch(self) -> None:
        while not self._end.is_set():
            if not attempt("supervising the trainer", self._poll):
                self._end.wait(PAUSE)

    def _poll(self) -> None:
        self._listen(POLL_S)
        process = self._process
        if self._state == "given up" and self._again.is_set():
            self._again.clear()
            self._restarts.clear()
            log.info("starting another trainer, as requested.")
            self._why = ""
            self._start_another()
            return
        if not self._replacements.empty():
            self._replace(*self._replacements.get())
            return
        if process is None or self._state == "given up":
            self._end.wait(POLL_S)
            return
        status = process.poll()
        if status is not None:
            self._listen(0.0)  # its last report
            reported = self._reported.get("why") if self._reported.get("state") == "failed" else ""
            self._restart("dead", f"the trainer ended {_how(status)}" + (f" ({reported})" if reported else ""))
            return
        patience = self._config.online.hang_timeout_s
        patience = max(patience, STARTING) if self._state == "starting" else patience
        if time.monotonic() - self._sent_at > patience:
            self._kill()
            self._restart("hung", f"the trainer sent no heartbeat for {patience:g} s, and was killed")

    def _replace(self, prepare: Callable[[int], object], why: str) -> None:
        log.warning("the trainer goes back: %s.", why)
        self._kill()
        self._listen(0.0)  # its last report
        prepare(int(self._reported.get("version", 0)))
        if self._state != "given up":
            self._close_heartbeat()
            self._start_another()

    def _restart(self, state: str, why: str) -> None:
        self._close_heartbeat()
        if self._end.is_set():
            return
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > WITHIN:
            self._restarts.popleft()
        self._state, self._why = state, why
        if len(self._restarts) >= self._config.online.max_restarts:
            self._again.clear()  # drop a second click on the button, which was meant for the previous trainer
            self._state = "given up"
            self._why = f"{why}; restarted {len(self._restarts)} times in ten minutes, which is the limit"
            log.error(
                "%s. Serving continues with the newest weights. To train again, use the button on the dashboard",
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
            log.error("cannot start a trainer (%s)", error)
            self._sent_at = time.monotonic()

    def _start(self) -> None:
        reading, writing = os.pipe()
        after = int(self._reported.get("version", 0))  # a version that was reported is not published again
        try:
            request = {
                "job": "trainer",
                "config": plain_dict(self._config),
                "run": str(self._run.path.absolute()),
                "heartbeat": writing,
                "after": after,
            }
            self._process, output = start_child(request, {PROGRAM: program()}, pass_fds=(writing,))
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._heartbeat, self._buffer = reading, b""
        self._state = "starting"
        self._sent_at = time.monotonic()
        threading.Thread(target=_pass_on, args=(output,), name="trainer-output", daemon=True).start()

    def _listen(self, timeout: float) -> None:
        """Wait for reports of the trainer for at most `timeout` s, and keep the newest."""
        if self._heartbeat < 0:
            return
        if not select.select([self._heartbeat], [], [], timeout)[0]:
            return
        try:
            data = os.read(self._heartbeat, LINE)
        except BlockingIOError:
            return
        if not data:
            self._end.wait(timeout)  # the trainer's end of the pipe is closed: the process is ending
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in [line for line in lines if line][-1:]:  # only the newest report counts
            self._reported = json.loads(line)
            self._sent_at = time.monotonic()
            if self._reported["state"] in ("waiting", "training"):
                self._state, self._why = self._reported["state"], ""

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.kill()  # SIGKILL also ends a suspended process
            process.wait()

    def _close_heartbeat(self) -> None:
        if self._heartbeat >= 0:
            os.close(self._heartbeat)
            self._heartbeat = -1


def _pass_on(output: IO[str]) -> None:
    """Log the trainer's output, to its end: a trainer whose pipe is full would block forever."""
    level = logging.INFO
    with output as lines:
        for line in lines:
            match = LOGGED.match(line)  # a line without a level, as in a traceback, has the level of the line before
            if match:
                level = logging.getLevelNamesMapping()[match[1]]
            elif line.startswith("Traceback"):
                level = logging.ERROR
            text = match[2] if match else line.rstrip()
            if text:
                log.log(level, "trainer: %s", text)


def _how(status: int) -> str:
    if status >= 0:
        return f"with status {status}"
    with contextlib.suppress(ValueError):
        return f"by {signal.Signals(-status).name}"
    return f"by signal {-status}"

"""One process of the trainer, as the watchdog sees it: its heartbeat, its output, and its end.

    process = TrainerProcess(run, config, after=0)     # starts to train at once
    spare = TrainerProcess(run, config, after=None)    # loads its libraries, and waits
    spare.take_over(after=17)                          # it trains now; its versions continue after 17

A trainer's libraries take seconds to load. A spare has loaded them, and so takes over at once when the trainer ends.
Until then it reads nothing of the run but a checkpoint, writes nothing, and has no part in the weight bus.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import select
import signal
import threading
import time
from typing import IO, Any

from livegym.cfg.typed import plain_dict
from livegym.projects.commands import PROGRAM, program
from livegym.rundir.run import Run
from livegym.schema.settled import SettledConfig
from livegym.utils.child import start_child
from livegym.utils.files import strict_json

log = logging.getLogger(__name__)

ANSWER_S = 3.0  # s that a spare gets to answer that it takes over
LINE = 65536  # bytes of one read
LOGGED = re.compile(r"\d\d:\d\d:\d\d (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)")  # a line that `utils.log` wrote


class TrainerProcess:
    """A trainer's process; one thread uses it, and any thread may ask for `alive` and `pid`."""

    def __init__(self, run: Run, config: SettledConfig, after: int | None) -> None:
        """Start it. `after`: its versions continue after this one; a spare has None. Raises OSError."""
        reading, writing = os.pipe()
        request = {
            "job": "trainer",
            "config": plain_dict(config),
            "run": str(run.path.absolute()),
            "heartbeat": writing,
            "after": after,
        }
        try:
            spare = after is None
            environment = {PROGRAM: program(), "MUJOCO_GL": "disabled"}  # it draws nothing, so MuJoCo loads no GLFW
            self._process, output = start_child(request, environment, (writing,), keep_input=spare)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._heartbeat, self._buffer = reading, b""
        self.started_at = self.sent_at = time.monotonic()  # monotonic s; `sent_at`: of the last report
        self.ready = False  # a spare: whether it has loaded its libraries
        threading.Thread(target=_pass_on, args=(output,), name="trainer-output", daemon=True).start()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def poll(self) -> int | None:
        """Return its exit status, negative if a signal ended it; None if it has not ended."""
        return self._process.poll()

    def listen(self, timeout: float) -> dict[str, Any] | None:
        """Wait for reports for at most `timeout` s; return the newest, or None if none has come."""
        if self._heartbeat < 0 or not select.select([self._heartbeat], [], [], timeout)[0]:
            return None
        try:
            data = os.read(self._heartbeat, LINE)
        except BlockingIOError:
            return None
        if not data:
            time.sleep(timeout)  # its end of the pipe is closed: the process is ending
            return None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in [line for line in lines if line][-1:]:  # only the newest report counts
            report: dict[str, Any] = json.loads(line)
            self.sent_at = time.monotonic()
            self.ready = report["state"] == "ready"
            return report
        return None

    def take_over(self, after: int) -> bool:
        """Let this spare train; return False if it does not answer within `ANSWER_S`, because it is dead or hangs.

        `after`: its versions continue after this one.
        """
        self.listen(0.0)
        if not self.ready or not self.alive:
            return False
        assert self._process.stdin is not None  # a spare has one, which is open until here
        try:
            self._process.stdin.write(strict_json({"after": after}, indent=None))
            self._process.stdin.close()
        except OSError:
            return False
        deadline = time.monotonic() + ANSWER_S
        while self.ready and self.alive and (left := deadline - time.monotonic()) > 0:
            self.listen(left)
        return self.alive and not self.ready

    def terminate(self) -> None:
        """Ask it to save and end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it at once, and return when it has ended."""
        if self.alive:
            self._process.kill()  # SIGKILL also ends a suspended process
            self._process.wait()
        self.close()

    def close(self) -> None:
        """Close the pipes to a process that has ended."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        if self._heartbeat >= 0:
            os.close(self._heartbeat)
            self._heartbeat = -1


def how_it_ended(status: int) -> str:
    """Return in words how a process with this exit status ended."""
    if status >= 0:
        return f"with status {status}"
    with contextlib.suppress(ValueError):
        return f"by {signal.Signals(-status).name}"
    return f"by signal {-status}"


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

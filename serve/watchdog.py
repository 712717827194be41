"""Supervises the trainer: starts its process, reads its heartbeat, and restarts it if it dies or hangs.

    watchdog = Watchdog(run, config)
    watchdog.start()
    watchdog.reading()        # any thread: the current state, and the last numbers that the trainer reported
    watchdog.stop()           # the trainer saves and ends, or is killed

A trainer that has sent no heartbeat for `hang_timeout_s` hangs: it is killed, because a hung process may ignore any
other signal. The new trainer resumes from the newest checkpoint that verifies. A trainer takes seconds to load its
libraries, so a spare one waits that has loaded them, and takes over at once; another spare is then started. The first
restart is immediate, and the watchdog pauses before further ones. After `max_restarts` within ten minutes, it gives up:
serving continues with the newest weights, the status says so, and a user has to start another trainer (`start_again`).
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from livegym.rundir.run import Run
from livegym.schema.settled import SettledConfig
from livegym.serve.trainer_process import TrainerProcess, how_it_ended
from livegym.utils.attempt import attempt
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

POLL_S = 0.1  # s between polls of process and heartbeat
WITHIN = 600.0  # s in which restarts are counted
PAUSE = 1.0  # s before the second restart in ten minutes; doubled for each further one
LONGEST_PAUSE = 30.0
CLOSING = 15.0  # s that a trainer gets to save and end
STARTING = 60.0  # s, the longest time to the first heartbeat: the trainer loads its libraries first
SPARE_AFTER = 5.0  # s that a trainer has trained or waited before a spare is started; doubled for each that failed
SPARE_LATEST = 600.0  # s, the longest of these times
LOADING = 600.0  # s that a spare gets to load its libraries; its priority is low
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
        self._process: TrainerProcess | None = None
        self._spare: TrainerProcess | None = None
        self._spare_at, self._spares_failed = math.inf, 0  # monotonic s of the start of the next spare
        self._end, self._again = threading.Event(), threading.Event()
        self._replacements: queue.SimpleQueue[tuple[Callable[[int], object], str]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._watch, name="trainer-watchdog", daemon=True)

    # called by any thread

    def reading(self) -> dict[str, Any]:
        """Return state, reason, pid, restarts, spare, age of the heartbeat in s, and the last numbers."""
        process, spare = self._process, self._spare
        alive = process is not None and process.alive
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
            "spare": spare is not None and spare.ready and spare.alive,
            "beat_age_s": round(time.monotonic() - self._sent_at, 2),
        }

    def start(self) -> None:
        """Start the trainer. Raises OSError if no process can be created."""
        self._begin(TrainerProcess(self._run, self._config, after=0))
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
        self._drop_spare()
        process = self._process
        if process is not None:
            process.terminate()
            deadline = time.monotonic() + CLOSING
            while process.alive and time.monotonic() < deadline:
                self._listen(POLL_S)
            self._listen(0.0)
            process.kill()
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
        self._supervise_spare()
        if process is None or self._state == "given up":
            self._end.wait(POLL_S)
            return
        status = process.poll()
        if status is not None:
            self._listen(0.0)  # its last report
            reported = self._reported.get("why") if self._reported.get("state") == "failed" else ""
            self._restart("dead", f"the trainer ended {how_it_ended(status)}" + (f" ({reported})" if reported else ""))
            return
        patience = self._config.online.hang_timeout_s
        patience = max(patience, STARTING) if self._state == "starting" else patience
        if time.monotonic() - self._sent_at > patience:
            process.kill()
            self._restart("hung", f"the trainer sent no heartbeat for {patience:g} s, and was killed")

    def _replace(self, prepare: Callable[[int], object], why: str) -> None:
        log.warning("the trainer goes back: %s.", why)
        self._listen(0.0)  # its last report
        if self._process is not None:
            self._process.kill()
        prepare(int(self._reported.get("version", 0)))
        if self._state != "given up":
            self._start_another()

    def _restart(self, state: str, why: str) -> None:
        if self._end.is_set():
            return
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > WITHIN:
            self._restarts.popleft()
        self._state, self._why = state, why
        if len(self._restarts) >= self._config.online.max_restarts:
            self._give_up()
            return
        pause = min(LONGEST_PAUSE, PAUSE * 2 ** (len(self._restarts) - 1)) if self._restarts else 0.0
        log.warning("%s; another continues%s from the last checkpoint.", why, f" in {pause:g} s" if pause else "")
        if self._end.wait(pause):
            return
        self._restarts.append(now)
        self._start_another()

    def _give_up(self) -> None:
        self._drop_spare()
        self._again.clear()  # drop a second click on the button, which was meant for the previous trainer
        self._state = "given up"
        self._why = f"{self._why}; restarted {len(self._restarts)} times in ten minutes, which is the limit"
        log.error(
            "%s. Serving continues with the newest weights. To train again, use the button on the dashboard",
            self._why,
        )

    def _start_another(self) -> None:
        self.restarts += 1
        if self._process is not None:
            self._process.close()
        after = int(self._reported.get("version", 0))  # a version that was reported is not published again
        spare, self._spare = self._spare, None
        if spare is not None and spare.take_over(after):
            self._begin(spare)
            return
        if spare is not None:
            spare.kill()
        try:
            self._begin(TrainerProcess(self._run, self._config, after))
        except OSError as error:
            log.error("cannot start a trainer (%s)", error)
            self._sent_at = time.monotonic()

    def _begin(self, process: TrainerProcess) -> None:
        self._process = process
        self._state = "starting"
        self._sent_at = time.monotonic()
        self._spare_at = math.inf

    def _listen(self, timeout: float) -> None:
        """Wait for reports of the trainer for at most `timeout` s, and keep the newest."""
        report = None if self._process is None else self._process.listen(timeout)
        if report is None:
            return
        self._sent_at = time.monotonic()
        if report["state"] == "starting":  # of a spare that takes over: it has no numbers yet
            return
        self._reported = report
        if report["state"] in ("waiting", "training"):
            if self._state == "starting":
                self._plan_spare()
            self._state, self._why = report["state"], ""

    def _plan_spare(self) -> None:
        delay = min(SPARE_LATEST, SPARE_AFTER * 2**self._spares_failed)
        self._spare_at = time.monotonic() + delay if self._config.online.spare_trainer else math.inf

    def _supervise_spare(self) -> None:
        """Start a spare if it is time; replace one that has ended, or that does not finish loading."""
        spare, now = self._spare, time.monotonic()
        if spare is None:
            if self._state in ("waiting", "training") and now >= self._spare_at:
                self._start_spare()
            return
        spare.listen(0.0)
        if spare.ready:
            self._spares_failed = 0
        if not spare.alive or (not spare.ready and now - spare.started_at > LOADING):
            log.debug("the spare trainer failed; another is started later.")
            self._spares_failed += not spare.ready
            self._drop_spare()
            self._plan_spare()

    def _start_spare(self) -> None:
        try:
            self._spare = TrainerProcess(self._run, self._config, after=None)
        except OSError as error:  # no memory or no processes left: not urgent
            log.debug("cannot start a spare trainer (%s)", error)
            self._spares_failed += 1
            self._plan_spare()

    def _drop_spare(self) -> None:
        """End the spare; it holds nothing, so it need not save."""
        if self._spare is not None:
            self._spare.kill()
            self._spare = None

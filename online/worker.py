"""The trainer's process, started by the serving process (`serve/watchdog.py`).

It is a process and not a thread, for two reasons. A process can be killed if it hangs; a thread cannot. And Python runs
one thread at a time, so a training thread would delay decisions; a process does not (`benchmarks/online.py` measures
both).

It takes the spec and the last good state from the run's newest checkpoint that verifies, and experience from the file
of the replay buffer. It publishes versions on the weight bus and writes checkpoints to `nn/`. To the given file
descriptor it writes one line of JSON after each update round, and at least once a second: its heartbeat. Its versions
continue after the given one, which is the last that an earlier trainer reported.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import torch

from livegym.cfg.typed import as_dict
from livegym.online.gates import layout_of, make_gate
from livegym.online.priorities import Priorities
from livegym.online.replay import ReplayReader
from livegym.online.saving import CheckpointWriter
from livegym.online.spare import wait_for_turn
from livegym.online.trainer import WINDOW, Trainer, rule_of
from livegym.rl.actor_critic import ActorCritic
from livegym.rl.algorithm import algorithm_of
from livegym.rl.spec import PolicySpec
from livegym.rundir.checkpoint import highest_version, meta_of, newest_usable
from livegym.rundir.lock import lock_holder
from livegym.rundir.run import Run, open_run
from livegym.schema.settled import SettledConfig
from livegym.utils.attempt import Attempts
from livegym.utils.errors import UserError
from livegym.utils.files import strict_json
from livegym.utils.parent import end_with_parent
from livegym.utils.signals import StopFlag
from livegym.weights.learner import WeightBus
from livegym.weights.publish import VersionFacts

log = logging.getLogger(__name__)

PULSE = 1.0  # longest time between two heartbeats, in s
PUBLISH = 0.05  # shortest time between two publications, in s
KNOWN_REWARDS = 1000  # last rewards whose mean is the score of a version
ENOUGH_REWARDS = 100  # rewards needed for a score
FAILURES = 5  # update rounds in a row that raised an exception, after which the process ends
ORPHAN_S = 15.0  # s after the end of the serving process until this one is killed, in case it hangs
SAVE_S = 5.0  # s of waiting for experience after which the newest version is saved
PAUSE = 0.5  # s after an update round that raised an exception


class Worker:
    """One trainer of one run."""

    def __init__(self, run: Run, config: SettledConfig, heartbeat: int, after: int) -> None:
        """Load the newest checkpoint and open the weight bus. Raises UserError if the run cannot be continued."""
        usable = newest_usable(run)
        meta = meta_of(usable.state) if usable is not None else None
        if usable is None or meta is None:
            raise UserError(f"{run.path}: no usable checkpoint for the trainer in {run.nn}")
        state = usable.state
        spec = PolicySpec.from_dict(state["spec"])
        rule = self._rule = config.online
        torch.manual_seed(config.seed)
        adapter = make_gate(config, rule.batch_size)
        layout = layout_of(spec, adapter)
        priorities = None
        if rule.priority_sampling:
            priorities = Priorities(run.priorities_file, rule.buffer_capacity, config.task.max_reward)
        reader = ReplayReader(run.replay_file, layout, rule.buffer_capacity, priorities)
        if math.isinf(reader.reward_limit):
            most = config.task.max_reward
            log.warning(
                "no limit for outliers is known yet; until it is, rewards up to task.max_reward=%g count.", most
            )
        network = algorithm_of(config.train).actor_critic(spec, config.train)
        learner = ActorCritic(spec, network, rule_of(rule, network), rule.learning_rate)
        learner.load_model(state["model"])
        self.trainer = Trainer(
            learner,
            reader,
            adapter.gate if adapter is not None else None,
            rule,
            config.seed + meta.version,
            config.task.max_reward,
        )
        if "online" in state:
            try:
                self.trainer.load_state(state)
            except (LookupError, TypeError, ValueError) as error:
                raise UserError(
                    f"{usable.path}: the trainer's state in it is invalid ({error!r}). Start a new run from its "
                    f"weights: checkpoint={usable.path}, without resume=true"
                ) from error
        elif "trusted_from" in state:
            self.trainer.counts.trusted_from = min(state["trusted_from"], reader.added)
        self.run = run
        self._heartbeat = heartbeat
        self._sent_at = 0.0
        self._parent = os.getppid()  # it changes when the serving process ends
        self.bus = WeightBus(PUBLISH if config.publishInterval else 0.0)
        served = reader.newest_version  # may be newer than the last checkpoint, after a full disk or a kill
        self.version = max(meta.version, highest_version(run), self.bus.highest_version(run), after, served)
        self.checkpoints = CheckpointWriter(run, spec, as_dict(config), meta.version, meta.best_score)
        self.failures = 0
        self.problem = ""  # why the trainer gave up
        self._state = "waiting"
        self._waits_since = time.monotonic()
        self._busy: deque[tuple[float, float]] = deque(maxlen=WINDOW)  # begin and end of each round, in monotonic s
        self._saved_at = self._began_at = self.version
        self.bus.open(run, spec, as_dict(config), learner.weights(), after=self.version)

    def serve(self, stop: StopFlag) -> None:
        """Train until a stop is requested or the trainer gives up; then save."""
        due, attempt = time.monotonic(), Attempts("an update round")
        self.send_heartbeat(self._state)
        while not stop.requested and not self._gives_up():
            start = time.monotonic()
            sound = attempt(self._turn)
            self.failures = 0 if sound else self.failures + 1
            took = time.monotonic() - start
            interval = self._rule.training_interval
            self.trainer.counts.overruns += interval > 0 and took > interval
            due = max(due + interval, time.monotonic()) if sound else time.monotonic() + PAUSE
            self._rest(stop, due)
        if self.version > self._began_at:  # otherwise these weights would be saved under the number of newer, lost ones
            self.save()
        self.bus.close(self.trainer.learner.weights())
        self.send_heartbeat("stopped" if stop.requested else "failed")

    def _gives_up(self) -> bool:
        if self.failures >= FAILURES:
            self.problem = f"{FAILURES} update rounds in a row failed; the log has the reason"
        elif self.trainer.divergence.stuck:
            self.problem = "it diverges even at the least learning rate: check rewards, observations and gate"
        return bool(self.problem)

    def _rest(self, stop: StopFlag, due: float) -> None:
        while not stop.requested and (left := due - time.monotonic()) > 0:
            stop.wait(min(left, PULSE))
            if time.monotonic() - self._sent_at >= PULSE:
                self.send_heartbeat(self._state)

    def _turn(self) -> None:
        start = time.monotonic()
        report = self.trainer.train()
        if report is None:
            self._wait()
            return
        self._state = "training"
        if report.batches or report.rolled_back:
            self._publish()
        if report.rolled_back:
            log.warning(
                "training diverged (critic loss %.3g): rolled back to the last good state, learning rate %.2g.",
                report.critic_loss,
                self.trainer.learning_rate,
            )
        self._busy.append((start, time.monotonic()))
        self.send_heartbeat(self._state)

    def _wait(self) -> None:
        """Wait for experience. If it takes long, save, so that a restart does not train on the same data again."""
        now = time.monotonic()
        if self._state == "training":
            self._state, self._waits_since = "waiting", now
        if self._saved_at < self.version and now - self._waits_since >= SAVE_S:
            self._saved_at = self.version
            self.save()
        if now - self._sent_at >= PULSE:
            self.send_heartbeat(self._state)
        if not self._rule.training_interval:
            time.sleep(0.01)  # do not poll the buffer without a pause

    def _publish(self) -> None:
        self.version += 1
        facts = VersionFacts(
            version=self.version,
            epoch=self.trainer.counts.trainings,
            frame=self.trainer.reader.added,
            score=self.score(),
        )
        self.bus.publish(self.trainer.learner.weights(), facts)
        if self.version - self._saved_at >= self._rule.checkpoint_versions:
            self._saved_at = self.version
            self.save()

    def save(self) -> bool:
        """Write a checkpoint of the newest version; return False if it was not written."""
        counts = self.trainer.counts
        if os.getppid() != self._parent and lock_holder(self.run.path) is not None:
            log.warning("another process has resumed the run; version %d of this trainer is not saved.", self.version)
            return False
        return self.checkpoints.save(
            self.trainer.state(), self.version, counts.trainings, self.trainer.reader.added, self.score()
        )

    def score(self) -> float | None:
        """Return the mean of the last rewards, without huge ones; None if there are too few."""
        rewards = self.trainer.reader.last_rewards(KNOWN_REWARDS)
        # one huge reward could otherwise be the best forever
        rewards = rewards[np.abs(rewards) <= self.trainer.reward_limit]
        return float(np.mean(rewards)) if len(rewards) >= ENOUGH_REWARDS else None

    def send_heartbeat(self, state: str) -> None:
        """Send a heartbeat. It never blocks: if the pipe is full or closed, the heartbeat is lost."""
        self._sent_at = time.monotonic()
        try:
            os.write(self._heartbeat, strict_json(self._reading(state), indent=None).encode())
        except BlockingIOError:
            return
        except OSError as error:
            log.debug("the heartbeat could not be sent (%s)", error)

    def _reading(self, state: str) -> dict[str, Any]:
        trainer, recent = self.trainer, self.trainer.recent
        counts = trainer.counts
        gated, agreed = (sum(pair[i] for pair in trainer.agreements) for i in (0, 1))
        mean = _mean([report.seconds for report in recent])
        per_second, busy = self._pace()
        return {
            "state": state,
            "why": self.problem or trainer.problem or self.checkpoints.problem or self._waits_for(state),
            "training_steps": counts.trainings,
            "total_batches_trained": counts.batches,
            "average_batch_size": _mean([report.samples for report in recent]),
            "average_loss": _mean([report.loss for report in recent]),
            "loss": _finite(recent[-1].loss) if recent else None,
            "entropy": _finite(recent[-1].entropy) if recent else None,
            "kl": _finite(recent[-1].kl) if recent else None,
            "training_steps_per_second": per_second,
            "average_training_time_ms": None if mean is None else 1000 * mean,
            "training_utilization": busy,
            "learning_rate": trainer.learning_rate,
            "version": self.version,
            "agreement": agreed / gated if gated else None,
            "overruns": counts.overruns,
            "rollbacks": counts.rollbacks,
            "skipped_batches": counts.skipped,
            "broken_rows": counts.broken,
            "outlier_rows": counts.outliers,
            "expired": trainer.expired(),
            "saved": self.checkpoints.saved,
        }

    def _waits_for(self, state: str) -> str:
        if state != "waiting":
            return ""
        if self.trainer.idle:
            return f"no experience has been completed for {self.trainer.counts.since} update rounds"
        if len(self.trainer.reader.usable(self.trainer.sieve)) < self._rule.min_batch_size:
            return f"fewer than {self._rule.min_batch_size} experiences can be trained on"
        return ""  # its first update round is about to begin

    def _pace(self) -> tuple[float | None, float | None]:
        """Return update rounds per second, and the fraction of time that they take; None before two rounds.

        The time of a round includes publishing and saving.
        """
        if len(self._busy) < 2:
            return None, None
        span = time.monotonic() - self._busy[0][0]
        return (len(self._busy) - 1) / span, min(1.0, sum(end - start for start, end in self._busy) / span)


def _mean(values: list[float]) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    return float(np.mean(finite)) if finite else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def run_worker(config: SettledConfig, folder: Path, heartbeat: int, after: int | None) -> int:
    """Run the trainer; return the exit status, which is 0 after a requested stop.

    `folder`: the run's directory. `heartbeat`: file descriptor for the heartbeat. `after`: versions continue after this
    one; None: this is a spare, which waits to take over. An unusable run is logged as an error.
    """
    os.set_blocking(heartbeat, False)
    torch.set_num_threads(1)
    with StopFlag() as stop:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the serving process, which ends this one
        end_with_parent(stop, patience=ORPHAN_S)
        if after is None:
            after = wait_for_turn(heartbeat, stop)
        if after is None:
            return 0
        try:
            worker = Worker(open_run(folder), config, heartbeat, after)
        except UserError as error:
            log.error("%s", error)
            return error.exit_code
        worker.serve(stop)
        return 0 if stop.requested else 1

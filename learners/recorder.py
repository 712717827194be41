"""Turns what another library trains into a run: directory, lock, checkpoints, curves and weight bus.

    with Recorder(simulation, actor, "my own PPO") as recorder:
        for _ in range(iterations):
            ...                                    # collect and update
            recorder.note({"losses/value": loss})  # a new policy version

`actor` is a function that returns the library's `Actor` (learners/actor.py). A test follows such a run as it follows
any other: over the bus on this machine, over files elsewhere. The weights are copied when a version is noted, so what
is saved and published is always a whole version, whenever the library stops.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from torch import Tensor

from livegym.cfg.overrides import typed_safely
from livegym.cfg.typed import as_dict, to_yaml
from livegym.learners.actor import Actor, Described, configuration, describe, refused
from livegym.learners.simulation import Simulation
from livegym.projects.commands import command
from livegym.rl.curves import write_curves
from livegym.rl.divergence import not_finite
from livegym.rl.hparams import begin_session, end_session
from livegym.rl.learner import Iteration, Learner
from livegym.rl.saver import Saver, SaveRule
from livegym.rl.scalars import ScalarWriter
from livegym.rl.spec import spec_of
from livegym.rundir.checkpoint import newest_usable
from livegym.rundir.lock import RunLock
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import Run, begin_run
from livegym.sim.recorder import StateRecorder
from livegym.tasks.env import Env
from livegym.utils.errors import UserError
from livegym.utils.log import file_log, log_before_setup
from livegym.utils.signals import StopFlag, unwinding
from livegym.utils.words import count
from livegym.weights.learner import BusObserver

log = logging.getLogger(__name__)


class _Elsewhere(Learner):
    """The last version that was noted, as the learner that the saver and the bus expect."""

    def __init__(self, env: Env, described: Described, learner: str) -> None:
        super().__init__(env, 0, StopFlag())
        self.described = described
        self._name = learner

    def policy_state(self) -> dict[str, Tensor]:
        """See `Learner`."""
        return self.described.weights

    def state(self) -> dict[str, Any]:
        """See `Learner`. The library keeps the rest of its state itself."""
        return {"model": self.described.weights, "learner": {}}

    def environment_state(self) -> dict[str, Any]:
        """Nothing: livegym does not resume this run."""
        return {}

    def improve(self) -> NoReturn:
        """Raises UserError, as the methods below."""
        raise UserError(f"{self._name} trains this policy, and livegym only records it.")

    def check_weights(self, state: dict[str, Any]) -> NoReturn:
        """See `improve`."""
        self.improve()

    def load_weights(self, state: dict[str, Any]) -> NoReturn:
        """See `improve`."""
        self.improve()

    def load_state(self, state: dict[str, Any]) -> NoReturn:
        """See `improve`."""
        self.improve()


class Recorder:
    """One run. It holds the lock of its directory until `close`; meanwhile SIGTERM and SIGHUP raise SystemExit."""

    def __init__(self, simulation: Simulation, actor: Callable[[], Actor], learner: str) -> None:
        """Describe the network, and create the run directory and the bus.

        `learner`: the library and its algorithm, for people. Raises UserError for an architecture that cannot be
        described, before anything is written.
        """
        self._simulation = simulation
        self._actor = actor
        self._spec = spec_of(simulation.env)
        described = describe(actor(), self._spec)
        config = dataclasses.replace(simulation.config, train=configuration(described, learner))
        self._learner = _Elsewhere(simulation.env, described, learner)
        content = as_dict(config)
        log_before_setup()
        text = to_yaml(content)
        provenance = Provenance(text, text, simulation.typed, list(sys.orig_argv))
        self.run: Run = begin_run(Path(config.runsDir), config.task.name, "train", provenance)
        rule = SaveRule(config.saveInterval, config.saveFrequency, config.keepLast, config.keepEvery)
        self._saver = Saver(self.run, self._learner, self._spec, content, rule)
        self._bus = BusObserver(config.publishInterval)
        simulation.begin()
        self._noted_at, self._stepped = time.perf_counter(), simulation.step_seconds
        with contextlib.ExitStack() as resources:
            resources.enter_context(RunLock(self.run))
            resources.enter_context(file_log(self.run.log_file))
            simulation.env.watch(StateRecorder(simulation.env.sim, self.run.unstable))
            self._writer = ScalarWriter(self.run.summaries)
            resources.callback(self._writer.close)
            begin_session(self._writer, self.run, content)
            self._bus.begin(self.run, self._learner, self._spec, content)
            resources.callback(self._bus.end, True)
            resources.enter_context(unwinding())
            self._resources = resources.pop_all()
        self._closed = False
        log.info("recording %s on %s; %s", learner, config.task.name, self.run.path)
        checkpoint = typed_safely("checkpoint", str(self.run.path))
        log.info("to watch it: %s", command("config=test_stream", "testGamesNum=0", checkpoint))

    @property
    def version(self) -> int:
        """The last policy version that was noted; 0 before the first."""
        return self._learner.version

    def note(self, losses: Mapping[str, float] | None = None) -> None:
        """A new policy version: publish it, and save it when that is due. `losses`: curves by their TensorBoard tags.

        Raises UserError if its weights are not finite, or if the architecture has changed.
        """
        learner = self._learner
        described = describe(self._actor(), self._spec)
        if described.keys != learner.described.keys:
            raise refused(
                f"an architecture that changes from {learner.described.keys} to {described.keys}", "one for each run"
            )
        broken = not_finite({"policy": described.weights})
        if broken is not None:
            raise self._diverged(broken)
        frames = self._simulation.frame - learner.frame
        learner.described = described
        learner.version += 1
        learner.epoch += 1
        learner.frame = self._simulation.frame
        iteration = self._iteration(frames, losses or {})
        write_curves(self._writer, iteration)
        if self._saver.after_iteration(iteration):
            self._writer.flush()
        self._bus.after_iteration(iteration)

    def _iteration(self, frames: int, losses: Mapping[str, float]) -> Iteration:
        s, learner = self._simulation, self._learner
        now = time.perf_counter()
        seconds, stepped = max(now - self._noted_at, 1e-9), s.step_seconds - self._stepped
        self._noted_at, self._stepped = now, s.step_seconds
        return Iteration(
            version=learner.version,
            epoch=learner.epoch,
            frame=learner.frame,
            frames=frames,
            seconds=seconds,
            step_seconds=stepped,
            update_seconds=max(seconds - stepped, 0.0),
            mean_return=statistics.fmean(s.returns) if s.returns else None,
            mean_length=statistics.fmean(s.lengths) if s.lengths else None,
            mean_is_full=len(s.returns) == s.returns.maxlen,
            losses=dict(losses),
            report=s.env.drain_report(),
        )

    def _diverged(self, broken: str) -> UserError:
        last = newest_usable(self.run)
        kept = f" The last good checkpoint is {last.path}." if last is not None else ""
        return UserError(
            f"version {self.version + 1} of the policy has NaN or Infinity in {broken}, so it is neither saved nor "
            f"published.{kept} Train again with a smaller learning rate, or with normalised observations.",
            exit_code=1,
        )

    def close(self, complete: bool = True) -> None:
        """Save and publish the last version, and release the lock. A second call does nothing.

        `complete`: whether the library trained to its end.
        """
        if self._closed:
            return
        self._closed = True
        with self._resources:
            if not self._saver.save():
                log.error("the last version (%d) could not be saved in %s", self.version, self.run.nn)
            end_session(self._writer, complete, self._saver.best_return, self._learner.frame)
            log.info("recorded %s in %s", count(self.version, "version"), self.run.path)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close(complete=kind is None)

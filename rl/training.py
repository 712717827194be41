"""A training run, from a checked configuration to the last checkpoint.

It is a new run, a new run from given weights, or the exact continuation of a run. It iterates, shows its progress, and
saves. Its directory is consistent, however the run ends.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from livegym.cfg.older_run import explained_for_run
from livegym.cfg.overrides import typed_safely
from livegym.cfg.saved import algorithm_in, resumed_config
from livegym.cfg.typed import as_dict, plain_dict, to_yaml
from livegym.projects import registry
from livegym.projects.commands import command
from livegym.rl.algorithm import algorithm_of
from livegym.rl.curves import write_curves
from livegym.rl.divergence import Diverged
from livegym.rl.hparams import begin_session, end_session
from livegym.rl.learner import Iteration, IterationAbandoned, Learner
from livegym.rl.observer import TrainingObserver
from livegym.rl.progress import Progress
from livegym.rl.saver import Saver, SaveRule
from livegym.rl.scalars import ScalarWriter
from livegym.rl.spec import PolicySpec, difference, spec_of
from livegym.rl.state import restore_learner
from livegym.rundir.checkpoint import (
    CheckpointError,
    clean_temporaries,
    highest_version,
    meta_of,
    newest_usable,
    read_env_state,
)
from livegym.rundir.lock import RunLock
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import Run, begin_run, open_run, record_resume
from livegym.rundir.select import read_complete
from livegym.schema.settled import SettledConfig, settled
from livegym.schema.train import TrainConfig, settings_class
from livegym.sim.recorder import StateRecorder
from livegym.tasks.build import make_env
from livegym.utils.errors import UserError
from livegym.utils.files import atomic_write_text, strict_json
from livegym.utils.log import console, file_log
from livegym.utils.seeding import seed_everything
from livegym.utils.signals import StopFlag
from livegym.utils.words import count

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Parent:
    """The checkpoint from which a training run starts."""

    run: Run | None
    file: Path
    newest: bool  # it was chosen as the newest of its run, not by name
    state: dict[str, Any]

    @property
    def version(self) -> int | None:
        """The checkpoint's policy version; None in a plain rl_games file."""
        meta = meta_of(self.state)
        return meta.version if meta else None

    def resumed(self, config: SettledConfig, given: list[str]) -> SettledConfig:
        """The configuration with which this run is resumed; `given` are the keys that the command line names.

        Raises UserError if it cannot be resumed, or if the command line contradicts it.
        """
        if self.run is None or "config" not in self.state:
            raise UserError(
                f"{self.file} is not part of a livegym run, so it cannot be resumed. "
                "Start a new run from its weights: leave resume=true out."
            )
        kind = "continuous" if config.mode == "continuous" else "train"
        if self.run.kind != kind:
            right = "config=continuous" if self.run.kind == "continuous" else "config=train_headless"
            raise UserError(
                f"resume=true: {self.run.path} is a {self.run.kind} run, which config={config.mode} cannot resume. "
                f"Use {right}, or start a new run from its weights: leave resume=true out."
            )
        resumed = settled(resumed_config(config, self.state["config"], given))
        if not resumed.train.trains:
            resumed.train.check(resumed.numEnvs)  # raises
        return resumed

    def check_fits(self, spec: PolicySpec, train: TrainConfig) -> None:
        """Raises UserError if task, algorithm, observation, action or control step of the weights differ."""
        if not self.state.get("spec"):
            return  # a plain rl_games file: only shapes can be checked
        saved = PolicySpec.from_dict(self.state["spec"])
        if saved.task != spec.task:
            raise UserError(
                f"{self.file} is a checkpoint of task {saved.task}, but this run trains {spec.task}. "
                f"Add task={saved.task}, or choose a checkpoint of {spec.task}."
            )
        differs = difference(spec, {}, saved, {})
        if differs is not None:
            raise UserError(f"{self.file} does not fit: {differs}.")
        algorithm = algorithm_in(self.state.get("config"))
        if algorithm in registry.names("algorithms") and not settings_class(algorithm).trains:
            raise UserError(
                f"{self.file}: another library trains this policy, so livegym cannot train it on. "
                "Allowed: a checkpoint that livegym trained. Leave checkpoint out, or continue in that library."
            )
        if algorithm != train.algorithm:
            raise UserError(
                f"{self.file} was trained with train.algorithm={algorithm}, but this run uses {train.algorithm}. "
                f"Choose settings of {algorithm}, such as train={algorithm}, or another checkpoint."
            )

    def reread(self) -> Parent:
        """Repeat the choice of the checkpoint under the run's lock: there may be a newer one by now."""
        usable = newest_usable(self.run) if self.newest and self.run is not None else None
        return self if usable is None else Parent(self.run, usable.path, True, usable.state)


def load_parent(config: SettledConfig, task: str | None) -> Parent | None:
    """The checkpoint that `checkpoint` names, read; None if it is null.

    Raises UserError if there is no usable one, or if only its policy file is there.
    """
    if config.checkpoint is None:
        return None
    selection, state = read_complete(config.checkpoint, Path(config.runsDir), task)
    if selection.note:
        log.warning("%s", selection.note)  # starting from an unexpected checkpoint is expensive
    run = open_run(selection.run) if selection.run is not None else None
    return Parent(run, selection.file, selection.follow == "newest", state)


def run_training(
    config: SettledConfig,
    provenance: Provenance,
    stop: StopFlag,
    parent: Parent | None,
    observers: Sequence[TrainingObserver] = (),
) -> int:
    """Train. Returns the exit status: 0, 128 + signal after a stop, or 1 if the last state could not be saved."""
    seed_everything(config.seed)
    torch.set_num_threads(config.train.torch_threads)
    torch.autograd.set_detect_anomaly(config.checks, check_nan=config.checks)
    with explained_if_resumed(config, provenance, parent):
        env = make_env(config.task, config.sim, config.physics, config.numEnvs, config.seed)
    max_iterations = config.maxIterations or config.train.max_iterations
    env.curriculum.follow_success()
    learner = algorithm_of(config.train).learner(env, config.train, max_iterations, config.device, stop)
    training = _Training(config, learner, stop, observers)
    try:
        if config.resume and parent is not None and parent.run is not None:
            return training.resume(parent.run, parent, provenance)
        return training.start(parent, provenance)
    finally:
        env.sim.close()


def explained_if_resumed(
    config: SettledConfig, provenance: Provenance, parent: Parent | None
) -> contextlib.AbstractContextManager[None]:
    """A context for making the environments of a run; see `explained_for_run`. It does nothing for a new run."""
    if not config.resume or parent is None:
        return contextlib.nullcontext()
    return explained_for_run(parent.file, config.task, provenance.overrides)


class _Training:
    """One training run, which holds the lock of its directory."""

    def __init__(
        self, config: SettledConfig, learner: Learner, stop: StopFlag, observers: Sequence[TrainingObserver]
    ) -> None:
        self.config = config
        self.learner = learner
        self.env = learner.env
        self.stop = stop
        self.observers = observers

    def start(self, parent: Parent | None, provenance: Provenance) -> int:
        """Start a new run, from the parent's weights and normaliser if there is one, once these are checked."""
        if parent is not None:
            parent.check_fits(spec_of(self.env), self.config.train)
            self.learner.load_weights(parent.state)
        run = begin_run(Path(self.config.runsDir), self.config.task.name, "train", provenance)
        with RunLock(run), file_log(run.log_file):
            if parent is not None:
                origin = {"file": str(parent.file.absolute()), "run_id": parent.run.run_id if parent.run else None}
                atomic_write_text(run.parent_file, strict_json({**origin, "version": parent.version}))
                log.info("starting from the weights of %s", parent.file)
            return self._run("training", self._saver(run))

    def resume(self, run: Run, parent: Parent, provenance: Provenance) -> int:
        """Resume the parent's run. Does nothing if its iterations are complete. Raises UserError if it is locked."""
        with RunLock(run), file_log(run.log_file):
            if provenance.job is not None:
                provenance.job.note_run(run)
            parent = parent.reread()
            clean_temporaries(run.nn)
            published = (observer.highest_version(run) for observer in self.observers)
            version = max(parent.version or 0, highest_version(run), *published)
            best_return = restore_learner(self.learner, parent.state, version)
            completed, total = self.learner.epoch, self.learner.max_iterations
            if completed >= total:
                log.info(
                    "%s has completed %s, and maxIterations=%d is the total, which includes them: nothing is left to "
                    "do. To continue: maxIterations=%d",
                    run.path,
                    count(completed, "iteration"),
                    total,
                    completed + 100,
                )
                return 0
            record_resume(run, provenance, to_yaml(plain_dict(self.config)))
            log.info("continuing from %s: version %d, epoch %d", parent.file, version, completed)
            self._restore_environments(run, parent)
            saver = self._saver(run)
            saver.best_return = best_return
            return self._run("resuming", saver)

    def _restore_environments(self, run: Run, parent: Parent) -> None:
        try:
            state = read_env_state(run, parent.version or 0)
            if state is None:
                log.warning("there is no environment state for version %s: new episodes begin.", parent.version)
                return
            self.learner.load_environment_state(state)
        except (ValueError, LookupError, TypeError, CheckpointError) as error:
            log.warning("the environment state cannot be used (%s): new episodes begin.", error)

    def _saver(self, run: Run) -> Saver:
        c = self.config
        self.env.watch(StateRecorder(self.env.sim, run.unstable))
        policy = SaveRule(c.saveInterval, c.saveFrequency, c.keepLast, c.keepEvery)
        return Saver(run, self.learner, spec_of(self.env), as_dict(c), policy)

    def _run(self, verb: str, saver: Saver) -> int:
        title = f"{verb} {self.config.task.name}, {count(self.env.num_envs, 'environment')}"
        log.info("%s; %s", title, saver.run.path)
        writer = ScalarWriter(saver.run.summaries, start_step=self.learner.frame)
        start, complete = time.monotonic(), False

        def end(observer: TrainingObserver) -> None:
            observer.end(complete)  # its value at the time of the call

        with contextlib.ExitStack() as resources:
            resources.callback(writer.close)
            begin_session(writer, saver.run, saver.config)
            resources.callback(lambda: end_session(writer, complete, saver.best_return, self.learner.frame))
            for observer in self.observers:
                observer.begin(saver.run, self.learner, saver.spec, saver.config)
                resources.callback(end, observer)
            with Progress(title, self.learner.max_iterations, saver.age, self.env.success_reason, console) as progress:
                complete = self._iterate(saver, writer, progress)
            return self._finish(saver, time.monotonic() - start)

    def _iterate(self, saver: Saver, writer: ScalarWriter, progress: Progress) -> bool:
        """Run the iterations. Returns whether the last one was completed."""

        def on_iteration(it: Iteration) -> None:
            write_curves(writer, it)
            if saver.after_iteration(it):
                writer.flush()
            progress.update(it)
            for observer in self.observers:
                observer.after_iteration(it)

        try:
            self.learner.train(on_iteration)
        except IterationAbandoned:
            saver.abandon_iteration()
            return False
        except Diverged as error:
            raise saver.with_restart(error) from error
        return True

    @property
    def _is_complete(self) -> bool:
        """Whether all iterations were done; a stop may be requested during the last one."""
        return self.learner.epoch >= self.learner.max_iterations

    def _finish(self, saver: Saver, seconds: float) -> int:
        """Save the last state, log the closing line, and return the exit status.

        A run that was stopped after its last iteration is complete. Its status is the signal's all the same, so that a
        sweep does not continue.
        """
        if not saver.save():
            log.error("the last state (epoch %d) could not be saved in %s", self.learner.epoch, saver.run.nn)
            return 1
        log.info(
            "%s after %s, %s, %.1f s; best mean return %s; %s",
            "finished" if self._is_complete else "stopped",
            count(self.learner.epoch, "iteration"),
            count(self.learner.frame, "frame"),
            seconds,
            "none, because too few episodes ended" if saver.best_return is None else f"{saver.best_return:.2f}",
            saver.run.path,
        )
        self._suggest(saver)
        return self.stop.exit_status

    def _suggest(self, saver: Saver) -> None:
        """The commands that a person types next: resume what was stopped, watch and test what was learned."""
        if not saver.saved_version:
            log.info("no iteration was completed, so there is nothing to resume.")
            return
        checkpoint = typed_safely("checkpoint", str(saver.run.path))
        if not self._is_complete:
            log.info("to resume: %s", command("resume=true", checkpoint))
        log.info("to watch it: %s", command("config=test_stream", "testGamesNum=0", checkpoint))
        log.info("to test it: %s", command("config=test", "testGamesNum=25", checkpoint))

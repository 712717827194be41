"""A training: from a checked configuration to the last checkpoint.

New run, new run from given weights, or the exact continuation of a run; then iterate, show, save, and leave a
consistent directory whatever ends it.
"""

from __future__ import annotations

import logging
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cfg.saved import resumed_config
from cfg.schema import RootConfig
from rl.agent import Iteration, IterationAbandoned, create_agent
from rl.checkpoint import clean_temporaries, highest_version, meta_of, read_checkpoint, read_env_state
from rl.curves import write_curves
from rl.progress import Progress
from rl.saver import SavePolicy, Saver
from rl.scalars import ScalarWriter
from rl.select import resolve_checkpoint
from rl.spec import spec_of
from rl.state import load_weights, restore_environment, restore_learner
from sim.recorder import StateRecorder
from tasks.build import make_env
from tasks.env import Env
from utils.errors import UserError
from utils.files import atomic_write_text, strict_json
from utils.lock import RunLock
from utils.log import add_run_file, console, remove_run_file
from utils.provenance import redact_arguments
from utils.run import Run, create_run, open_run, write_metadata
from utils.seeding import seed_everything
from utils.signals import StopFlag

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Provenance:
    """What explains a run later, written into its directory; see utils/run.py."""

    config: dict[str, Any]  # resolved, embedded in every checkpoint
    config_yaml: str
    unresolved_yaml: str
    overrides: list[str]
    argv: list[str]


@dataclass(frozen=True)
class Parent:
    """The checkpoint that a training starts from."""

    run: Run | None
    file: Path
    state: dict[str, Any]

    @property
    def version(self) -> int | None:
        """Its policy version; None in a plain rl_games file."""
        meta = meta_of(self.state)
        return meta.version if meta else None

    def resumed(self, config: RootConfig, provenance: Provenance, given: list[str]) -> RootConfig:
        """The configuration with which this run goes on; `given` are the keys that the command line names.

        Raises UserError where it cannot go on, or where the command line contradicts it.
        """
        if self.run is None or "config" not in self.state:
            raise UserError(
                f"{self.file} is not part of a livegym run, so there is nothing to resume. "
                "Start a new run from its weights: leave resume=true out."
            )
        return resumed_config(config, provenance.config, self.state["config"], given)

    def check_task(self, task: str) -> None:
        """Raises UserError where the weights are of another task."""
        meta = meta_of(self.state)
        if meta is not None and meta.task != task:
            raise UserError(
                f"{self.file} is of task {meta.task}, this run trains {task}. "
                f"Add task={meta.task}, or choose a checkpoint of {task}."
            )


def load_parent(config: RootConfig, task: str | None) -> Parent | None:
    """What `checkpoint` stands for, read; None where it is null. Raises UserError where nothing usable is there."""
    if config.checkpoint is None:
        return None
    selection = resolve_checkpoint(config.checkpoint, Path(config.runsDir), task)
    if selection.note:
        log.info("%s", selection.note)
    run = open_run(selection.run) if selection.run is not None else None
    return Parent(run, selection.file, read_checkpoint(selection.file))


def run_training(config: RootConfig, provenance: Provenance, stop: StopFlag, parent: Parent | None) -> int:
    """Trains; returns the exit status: 0, 128 + signal after a stop, 1 where the last state could not be saved."""
    assert config.seed is not None
    assert config.numEnvs is not None
    seed_everything(config.seed)
    torch.set_num_threads(config.train.torch_threads)
    env = make_env(config.task, config.sim, config.physics, config.numEnvs, config.seed)
    if config.resume and parent is not None and parent.run is not None:
        run = parent.run
        with RunLock(run):
            # only now does nobody else write: the checkpoint that was seen before may not be the newest any more
            parent = load_parent(config, None) or parent
            clean_temporaries(run.nn)
            return _Training(config, env, run, stop, provenance).continue_from(parent)
    if parent is not None:
        parent.check_task(config.task.name)
    run = create_run(Path(config.runsDir), config.task.name, "train")
    with RunLock(run):
        write_metadata(run, provenance.config_yaml, provenance.unresolved_yaml, provenance.overrides, provenance.argv)
        return _Training(config, env, run, stop, provenance).start(parent)


class _Training:
    """One training in one locked run directory."""

    def __init__(self, config: RootConfig, env: Env, run: Run, stop: StopFlag, provenance: Provenance) -> None:
        self.config, self.env, self.run, self.stop = config, env, run, stop
        self.argv = redact_arguments(provenance.argv)
        self.max_iterations = config.maxIterations or config.train.max_iterations
        self.spec = spec_of(env)
        self.agent = create_agent(env, config.train, self.max_iterations, config.device, stop)
        policy = SavePolicy(config.saveInterval, config.saveFrequency, config.keepLast, config.keepEvery)
        self.saver = Saver(run, self.agent, self.spec, provenance.config, policy)
        recorder = StateRecorder(env.sim, run.path / "unstable")
        env.watch(recorder)

    def start(self, parent: Parent | None) -> int:
        """A new run; from the parent's weights and normaliser where there is one."""
        if parent is not None:
            load_weights(self.agent, parent.state)
            origin = {"file": str(parent.file.absolute()), "run_id": parent.run.run_id if parent.run else None}
            atomic_write_text(self.run.parent_file, strict_json({**origin, "version": parent.version}))
            log.info("starting from the weights of %s", parent.file)
        return self._run(self._title("training"))

    def continue_from(self, parent: Parent) -> int:
        """The parent's run, from where it was."""
        version = max(parent.version or 0, highest_version(self.run.path))
        self.saver.best_return = restore_learner(self.agent, parent.state, version)
        self.saver.saved_version = version
        self._restore_environments(parent)
        log.info("resumed by: %s", shlex.join(self.argv))
        log.info("resuming %s at iteration %d (version %d)", self.run.path, self.agent.epoch_num, version)
        if self.agent.epoch_num >= self.max_iterations:
            raise UserError(
                f"{self.run.path} has done {self.agent.epoch_num} iterations of maxIterations={self.max_iterations}, "
                f"which is the total. To go on: maxIterations={self.agent.epoch_num + 100}"
            )
        return self._run(self._title("resuming"))

    def _restore_environments(self, parent: Parent) -> None:
        state = read_env_state(self.run, parent.version or 0)
        if state is None:
            log.warning("no environment state for version %s: episodes start anew.", parent.version)
            return
        try:
            restore_environment(self.agent, state)
        except ValueError as error:
            log.warning("the environment state does not fit (%s): episodes start anew.", error)

    def _title(self, verb: str) -> str:
        return f"{verb} {self.spec.task}, {self.env.num_envs} environments"

    def _run(self, title: str) -> int:
        handler = add_run_file(self.run.log_file)
        writer = ScalarWriter(self.run.summaries, start_step=self.agent.frame)
        try:
            log.info("%s; %s", title, self.run.path)
            return self._iterate(title, writer)
        finally:
            writer.close()
            self.env.sim.close()
            remove_run_file(handler)

    def _iterate(self, title: str, writer: ScalarWriter) -> int:
        success = self.env.task.success_reason
        start = time.monotonic()
        with Progress(title, self.max_iterations, self.saver.age, success, console) as progress:

            def on_iteration(it: Iteration) -> None:
                write_curves(writer, it)
                saved = self.saver.saved_version
                self.saver.after_iteration(it)
                if self.saver.saved_version != saved:
                    writer.flush()
                progress.update(it)

            try:
                self.agent.train(on_iteration)
            except IterationAbandoned:
                log.warning("the running iteration is too long to wait for and is dropped.")
        return self._finish(time.monotonic() - start)

    def _finish(self, seconds: float) -> int:
        """The last save, the closing line and the exit status."""
        if not self.saver.save():
            log.error("the last state (iteration %d) could not be saved in %s", self.agent.epoch_num, self.run.nn)
            return 1
        word = "stopped" if self.stop.requested else "finished"
        best = self.saver.best_return
        log.info(
            "%s after %d iterations, %s frames, %.1f s; best mean return %s; %s",
            word,
            self.agent.epoch_num,
            f"{self.agent.frame:,}",
            seconds,
            "none yet" if best is None else f"{best:.2f}",
            self.run.path,
        )
        return self.stop.exit_status

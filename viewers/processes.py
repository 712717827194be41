"""Watching a training: viewers as processes of their own, on the weight bus, so that the learner is not slowed.

    python train.py task=Ant watch=true              # the page, beside the training
    python train.py task=Ant viewer=true             # the window
    python train.py task=Ant trainVideoEvery=100     # a clip of one episode every 100 iterations, in the run's videos/
    python train.py task=Ant videoRecord=true        # clips of all episodes of a policy that follows the training

Each is an ordinary test of this run. It waits for the first weights, ends when the training does, also when that is
killed, and never keeps the training from anything: one that fails is reported, and the training goes on. The one that
makes clips has the lowest priority that the system knows.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
from dataclasses import replace
from typing import IO, Any

from livegym.cfg.typed import plain_dict
from livegym.projects.commands import PROGRAM, program
from livegym.rl.learner import Iteration, Learner
from livegym.rl.spec import PolicySpec
from livegym.rundir.run import Run
from livegym.schema import RootConfig
from livegym.utils.child import start_child
from livegym.utils.log import console
from livegym.utils.seeding import draw_seed

log = logging.getLogger(__name__)

CLOSING = 15.0  # s that a viewer process gets to end
TEST_ENVS = 4  # in a picture of all environments


class ViewerProcesses:
    """An observer of one training (`rl/observer.py`)."""

    def __init__(self, config: RootConfig) -> None:
        """Raises UserError if what is asked for cannot be had: no display, no encoder, a token too short."""
        self._config = config
        self._running: list[ViewerProcess] = []
        if config.viewer:
            from livegym.viewers.display import check_display

            check_display()
        if config.watch:
            from livegym.web.opening import address_of

            address_of(config)
        if config.trainVideoEvery or config.videoRecord:
            from livegym.viewers.video import check_video

            check_video()

    def highest_version(self, run: Run) -> int:
        """It gives out none."""
        return 0

    def begin(self, run: Run, learner: Learner, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Starts what was asked for; what cannot be started is said, and missed."""
        for name, config_of_it in configs_of(self._config, run).items():
            try:
                self._running.append(ViewerProcess(name, config_of_it, background=name == "video"))
            except OSError as error:
                log.warning("%s cannot be started (%s); the training goes on.", name, error)

    def after_iteration(self, it: Iteration) -> None:
        """Says where one of them has gone."""
        for child in list(self._running):
            if child.ended:
                self._running.remove(child)

    def end(self, complete: bool) -> None:
        """Ends them with the training."""
        for child in self._running:
            child.ask_to_end()
        for child in self._running:
            child.wait()


def configs_of(config: RootConfig, run: Run) -> dict[str, RootConfig]:
    """The configuration of each viewer process of a run, by name (viewer, watch, video): the training's, as a test."""
    test = replace(
        config,
        mode="test",
        checkpoint=str(run.path.absolute()),
        runsDir=os.path.abspath(config.runsDir),
        resume=False,
        testGamesNum=0,
        numEnvs=TEST_ENVS,
        seed=draw_seed(),
        logLevel="warning",
        viewer=False,
        watch=False,
        videoRecord=False,
    )
    found = {}
    if config.viewer:
        found["viewer"] = replace(test, viewer=True)
    if config.watch:
        found["watch"] = replace(test, watch=True)
    if config.trainVideoEvery or config.videoRecord:
        found["video"] = replace(
            test,
            videoRecord=True,
            videoEvery=config.trainVideoEvery,
            videoDir=config.videoDir or str(run.videos.absolute()),
            numEnvs=TEST_ENVS if config.videoEnv is None else config.videoEnv + 1,
        )
    return found


class ViewerProcess:
    """One process, whose words are passed on to the console."""

    def __init__(self, name: str, config: RootConfig, background: bool = False) -> None:
        """`background`: it gets what processor time nobody else wants."""
        self._name = name
        request = {"job": "test", "config": plain_dict(config)}
        self._process, words = start_child(request, {PROGRAM: program()})
        if background:
            with contextlib.suppress(OSError):  # not allowed here: then it shares the processor as any other
                os.setpriority(os.PRIO_PROCESS, self._process.pid, 19)
                if hasattr(os, "SCHED_IDLE"):
                    os.sched_setscheduler(self._process.pid, os.SCHED_IDLE, os.sched_param(0))
        self._ending = False
        self._said = threading.Thread(target=self._pass_on, args=(words,), name=name, daemon=True)
        self._said.start()

    def _pass_on(self, words: IO[str]) -> None:
        for line in words:  # to its end, or it would wait for ever to be read
            if not self._ending:
                with contextlib.suppress(OSError):  # this terminal is gone
                    console.print(f"{self._name}: {line.rstrip()}", markup=False, highlight=False, soft_wrap=True)

    @property
    def ended(self) -> bool:
        """Whether it has ended by itself; said once in the log."""
        status = self._process.poll()
        if status is None:
            return False
        log.warning("%s has ended (status %d); the training goes on.", self._name, status)
        return True

    def ask_to_end(self) -> None:
        """Asks it to end, as Ctrl+C does."""
        self._ending = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Until it has ended; one that does not is killed."""
        try:
            self._process.wait(CLOSING)
        except subprocess.TimeoutExpired:
            log.warning("%s does not end; killing it.", self._name)
            self._process.kill()
            self._process.wait()

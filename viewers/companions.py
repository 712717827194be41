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
import dataclasses
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from livegym.cfg.overrides import quoted
from livegym.rl.agent import Agent, Iteration
from livegym.rl.spec import PolicySpec
from livegym.rundir.run import Run
from livegym.schema import RootConfig
from livegym.utils.companion import PARENT
from livegym.utils.log import console
from livegym.utils.search_path import child_environment

log = logging.getLogger(__name__)

CLOSING = 15.0  # s that a companion gets to end
STREAM = ("streamPort", "streamBindAll", "streamReadOnly", "streamFps")
VIDEO = ("videoWidth", "videoHeight", "videoEpisodes", "videoSeconds", "videoEnv")
TEST_ENVS = 4  # in a picture of all environments


class Companions:
    """An observer of one training (`rl/observer.py`)."""

    def __init__(self, config: RootConfig) -> None:
        """Raises UserError where what is asked for cannot be had: no display, no encoder, a token too short."""
        self._config = config
        self._running: list[Companion] = []
        self._run: Path | None = None
        if config.viewer:
            from livegym.viewers.display import check_display

            check_display()
        if config.watch:
            from livegym.web.opening import access_of

            access_of(config)
        if config.trainVideoEvery or config.videoRecord:
            from livegym.viewers.video import check_video

            check_video()

    def highest_version(self, run: Run) -> int:
        """It gives out none."""
        return 0

    def begin(self, run: Run, agent: Agent, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Starts what was asked for; what cannot be started is said, and missed."""
        self._run = run.path
        for name, arguments in commands_of(self._config, run).items():
            try:
                self._running.append(Companion(name, arguments, background=name == "video"))
            except OSError as error:
                log.warning("%s cannot be started (%s); the training goes on.", name, error)

    def after_iteration(self, it: Iteration) -> None:
        """Says where one of them has gone."""
        for companion in list(self._running):
            if companion.ended:
                self._running.remove(companion)

    def end(self, complete: bool) -> None:
        """Ends them with the training, and says how to go on watching."""
        if self._running and self._run is not None:
            checkpoint = quoted("checkpoint", str(self._run))
            log.info("to go on watching: python train.py config=test_stream testGamesNum=0 %s", checkpoint)
        for companion in self._running:
            companion.ask_to_end()
        for companion in self._running:
            companion.wait()


def commands_of(config: RootConfig, run: Run) -> dict[str, list[str]]:
    """What train.py is given for each companion of a run, by name: viewer, watch, video."""
    common = [quoted("checkpoint", str(run.path.absolute())), quoted("runsDir", config.runsDir), "testGamesNum=0"]
    common += [f"sim={config.sim.engine}", f"sim.threads={config.sim.threads}"]  # as it learns
    common += [f"physics.{name}={_null(value)}" for name, value in dataclasses.asdict(config.physics).items()]
    play = f"playSpeed={config.playSpeed}"
    found = {}
    if config.viewer:
        found["viewer"] = ["config=test_viewer", play, *common]
    if config.watch:
        given = [f"{name}={getattr(config, name)}" for name in STREAM]
        given.append(f"streamHosts=[{','.join(config.streamHosts)}]")
        given += [] if config.streamToken is None else [quoted("streamToken", config.streamToken)]
        found["watch"] = ["config=test_stream", play, *given, *common]
    if config.trainVideoEvery or config.videoRecord:
        envs = TEST_ENVS if config.videoEnv is None else config.videoEnv + 1
        given = [f"{name}={_null(getattr(config, name))}" for name in VIDEO]
        given += [f"numEnvs={envs}", f"videoEvery={config.trainVideoEvery}"]
        given.append(quoted("videoDir", config.videoDir or str(run.videos.absolute())))
        found["video"] = ["config=test_record", *given, *common]
    return found


def _null(value: object) -> object:
    return "null" if value is None else value


class Companion:
    """One process, whose words are passed on to the console."""

    def __init__(self, name: str, arguments: list[str], background: bool = False) -> None:
        """`background`: it gets what processor time nobody else wants."""
        self._name = name
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "livegym", *arguments, "logLevel=warning"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl+C is for the training, which then ends it
            env={**child_environment(), PARENT: str(os.getpid())},
        )
        if background:
            with contextlib.suppress(OSError):  # not allowed here: then it shares the processor as any other
                os.setpriority(os.PRIO_PROCESS, self._process.pid, 19)
                if hasattr(os, "SCHED_IDLE"):
                    os.sched_setscheduler(self._process.pid, os.SCHED_IDLE, os.sched_param(0))
        self._ending = False
        self._said = threading.Thread(target=self._pass_on, name=name, daemon=True)
        self._said.start()

    def _pass_on(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:  # to its end, or it would wait for ever to be read
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

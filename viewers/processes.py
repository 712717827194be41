"""Viewers of a training run: child processes that follow the weight bus, so that they do not slow down the learner.

    python train.py task=Ant watch=true              # the page, beside the training run
    python train.py task=Ant viewer=true             # the window
    python train.py task=Ant trainVideoEvery=100     # a clip of one episode every 100 iterations, in the run's videos/
    python train.py task=Ant videoRecord=true        # clips of all episodes of a policy that follows the training run

Each is an ordinary test of this run. It waits for the first weights and ends when training ends, even if the learner is
killed. It never delays training: if a viewer fails, that is logged, and training continues. The process that records
clips has the lowest priority that the system offers.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from typing import IO, Any

from livegym.cfg.typed import plain_dict
from livegym.cfg.validate import TEST_ENVS
from livegym.projects.commands import PROGRAM, program
from livegym.rl.learner import Iteration, Learner
from livegym.rl.spec import PolicySpec
from livegym.rundir.run import Run
from livegym.schema import RootConfig
from livegym.utils.child import start_child
from livegym.utils.errors import UserError
from livegym.utils.log import console
from livegym.utils.priority import make_idle, make_lower
from livegym.utils.seeding import draw_seed
from livegym.web.opening import OPEN, PageAddress, announce, reserved, warn_of_typed_tokens

log = logging.getLogger(__name__)

CLOSING = 15.0  # s that a viewer process may take to end


class ViewerProcesses:
    """The observer of a training run (`rl/observer.py`) that starts and ends its viewers."""

    def __init__(self, config: RootConfig) -> None:
        """Raises UserError if a requested viewer is impossible: no display, encoder or port, a short token, no pool."""
        if config.poolEnvs >= TEST_ENVS and (config.viewer or config.watch):
            raise UserError(
                f"poolEnvs={config.poolEnvs}: a viewer of a training run shows {TEST_ENVS} environments, and the "
                f"newest version needs one. Allowed: 0 to {TEST_ENVS - 1}"
            )
        self._config = config
        self._page: PageAddress | None = None
        self._running: list[ViewerProcess] = []
        if config.viewer:
            from livegym.viewers.display import check_display

            check_display()
        if config.watch:
            self._page = reserved(config)
            warn_of_typed_tokens(sys.argv[1:])
            access = self._page.access
            if access.owner is not None:  # then the viewer process has its own token for other users, and prints it
                access = replace(access, token=None, owner=None)
                self._page = replace(self._page, access=access)
            self._config = replace(
                config,
                streamPort=self._page.port,
                streamToken=access.token or config.streamToken,
                streamSpectatorToken=access.spectator_token or OPEN,
            )
        if config.trainVideoEvery or config.videoRecord:
            from livegym.viewers.video import check_video

            check_video()

    def highest_version(self, run: Run) -> int:
        """Return 0, because this observer assigns no versions."""
        return 0

    def begin(self, run: Run, learner: Learner, spec: PolicySpec, config: dict[str, Any]) -> None:
        """Starts the requested viewers. A viewer that cannot be started is logged, and training continues."""
        if self._page is not None:  # now, because the process takes seconds to begin
            announce(self._page, "the page:", " (in a few seconds)")
        for name, config_of_it in configs_of(self._config, run).items():
            try:
                self._running.append(ViewerProcess(name, config_of_it, watched=name != "video"))
            except OSError as error:
                log.warning("%s cannot be started (%s); training continues.", name, error)

    def after_iteration(self, it: Iteration) -> None:
        """Logs each viewer that has ended."""
        for child in list(self._running):
            if child.ended:
                self._running.remove(child)

    def end(self, complete: bool) -> None:
        """Ends the viewers with the training run."""
        for child in self._running:
            child.ask_to_end()
        for child in self._running:
            child.wait()


def configs_of(config: RootConfig, run: Run) -> dict[str, RootConfig]:
    """The configurations of the viewers of a training run, by name (viewer, watch, video): its own, in test mode."""
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
    """A viewer process, whose output is passed on to the console."""

    def __init__(self, name: str, config: RootConfig, watched: bool) -> None:
        """`watched`: it has to keep real time. Otherwise it gets only processor time that no other process wants."""
        self._name = name
        request = {"job": "test", "config": plain_dict(config)}
        self._process, output = start_child(request, {PROGRAM: program()})
        (make_lower if watched else make_idle)(self._process.pid)
        self._ending = False
        self._reader = threading.Thread(target=self._pass_on, args=(output,), name=name, daemon=True)
        self._reader.start()

    def _pass_on(self, output: IO[str]) -> None:
        for line in output:  # to its end, because the process would block on a full pipe
            if not self._ending:
                with contextlib.suppress(OSError):  # this terminal is gone
                    console.print(f"{self._name}: {line.rstrip()}", markup=False, highlight=False, soft_wrap=True)

    @property
    def ended(self) -> bool:
        """True if the process has ended by itself; this logs a warning."""
        status = self._process.poll()
        if status is None:
            return False
        log.warning("%s has ended (status %d); training continues.", self._name, status)
        return True

    def ask_to_end(self) -> None:
        """Asks the process to end, as Ctrl+C does."""
        self._ending = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Waits until the process has ended; kills it if it does not end in time."""
        try:
            self._process.wait(CLOSING)
        except subprocess.TimeoutExpired:
            log.warning("%s did not end within %.0f s, so it is killed.", self._name, CLOSING)
            self._process.kill()
            self._process.wait()

"""Recordings of a test: a viewer of the control loop that hands states to the video thread.

`videoRecord=true` records from the first step on, a file for so many episodes or seconds; where somebody watches, the
"record" of their controls begins and ends one. A file is named by the version that acts when it begins:
`videos/version_120_0003.mp4`.
"""

from __future__ import annotations

import itertools
import re
import time
from pathlib import Path

from torch import Tensor

from livegym.live.swap import LivePolicy
from livegym.play.audience import Viewer
from livegym.play.controls import Controls
from livegym.play.play import Player
from livegym.play.requests import Pause, Restart
from livegym.play.world import World
from livegym.rundir.run import Run
from livegym.schema import RootConfig
from livegym.tasks.env import Step
from livegym.utils.errors import UserError
from livegym.viewers.video import VideoWriter, check_video

SHORT = 5.0  # s of a clip of a training, where videoSeconds is not given
RESTS = 25.0  # times as long as a clip took: drawing halves a training's speed on a machine that is fully used
MOST_TILES = 16  # environments in one picture: each costs about 10 ms where a CPU draws it


class Recorder(Viewer):
    """Clips of one environment, or of all in one picture."""

    def __init__(self, config: RootConfig, controls: Controls, watched: bool) -> None:
        """`watched`: somebody watches, so the loop keeps its clock and pictures may be left out; else none is.

        Raises UserError where there is no encoder or no OpenGL, or for an environment that there is not.
        """
        check_video()
        num_envs = config.numEnvs or 1
        if config.videoEnv is not None and config.videoEnv >= num_envs:
            raise UserError(
                f"videoEnv={config.videoEnv}: there are environments 0 to {num_envs - 1} (numEnvs={num_envs})."
            )
        if config.videoEnv is None and num_envs > MOST_TILES:
            raise UserError(
                f"videoEnv=null draws all {num_envs} environments, at most {MOST_TILES}. Give numEnvs or videoEnv."
            )
        self._config, self._controls, self._watched = config, controls, watched
        controls.recording = config.videoRecord
        self._by_hand = watched and not config.videoRecord
        self._shown = slice(None) if config.videoEnv is None else slice(config.videoEnv, config.videoEnv + 1)
        self._writer: VideoWriter | None = None
        self._errors: list[Exception] = []
        self._clip: tuple[int, int] | None = None  # steps and episodes of the open clip
        self._first: Tensor | None = None
        self._names = itertools.count(1)

    @property
    def failed(self) -> bool:
        """A clip could not be drawn or written."""
        return bool(self._errors) or (self._writer is not None and self._writer.error is not None)

    def begin(self, world: World, run: Run) -> None:
        """Records these environments from now on."""
        self._close_writer()
        self._first = None
        self._videos = Path(self._config.videoDir) if self._config.videoDir is not None else run.videos
        size = (self._config.videoHeight, self._config.videoWidth)
        sim = world.env.sim
        self._writer = VideoWriter(sim.model_xml(), sim.control_dt, size, block=not self._watched)
        self._longest = self._steps_of(sim.control_dt)

    def _steps_of(self, control_dt: float) -> int | None:
        seconds = self._config.videoSeconds
        return None if seconds is None else max(1, round(seconds / control_dt))

    def on_step(self, step: Step, player: Player) -> None:
        """One control step was made; where an episode ended in it, the next one's first state is seen already."""
        assert self._writer is not None
        if not self._controls.recording:
            self._end()
            return
        qpos = player.env.sim.qpos[self._shown].cpu()
        if self._clip is None:
            self._begin(player)
        else:
            steps, episodes = self._clip
            self._clip = steps + 1, episodes + self._ended(step)
            if self._full():
                self._end()
                self._first = qpos.clone()  # of the next clip, if another step is made
                return
        self._writer.add(qpos)

    def _ended(self, step: Step) -> int:
        if step.ended is None:
            return 0
        return len(step.ended.env_ids) if self._config.videoEnv is None else self._config.videoEnv in step.ended.env_ids

    def _full(self) -> bool:
        assert self._clip is not None
        steps, episodes = self._clip
        if self._by_hand:
            return False
        return steps >= self._longest if self._longest is not None else episodes >= self._config.videoEpisodes

    def _begin(self, player: Player) -> None:
        assert self._writer is not None
        actor = player.actor
        acting = str(actor.label) if isinstance(actor, LivePolicy) else "scripted"
        path = self._videos / clip_name(acting, next(self._names))
        self._writer.begin(path)
        if self._by_hand:
            self._controls.say(f"recording environment {_shown(self._config.videoEnv)} into {path}")
        self._clip = (0, 0)
        if self._first is not None:
            self._writer.add(self._first)
            self._clip, self._first = (1, 0), None

    def _end(self) -> None:
        if self._clip is not None and self._writer is not None:
            self._writer.end()
            self._clip = None

    def _close_writer(self) -> None:
        if self._writer is not None:
            self._end()
            self._writer.close()
            self._errors += [self._writer.error] if self._writer.error is not None else []
            self._writer = None

    def close(self) -> None:
        """Ends the open clip, and waits for what is still to be drawn."""
        self._close_writer()


class SparingRecorder(Recorder):
    """The beginning of one episode of every so-many-th version; in between the loop is paused, and costs little.

    For clips of a training: a policy that is learning is judged by its first seconds.
    """

    def __init__(self, config: RootConfig, controls: Controls) -> None:
        """See `Recorder`; the number is `config.videoEvery`."""
        super().__init__(config, controls, watched=False)
        self._due = 0  # version
        self._began = time.monotonic()  # the clip
        self._rests_until = 0.0

    def on_step(self, step: Step, player: Player) -> None:
        """One control step was made; after an episode, the loop rests until its time has come again."""
        super().on_step(step, player)
        if self._clip is None and isinstance(player.actor, LivePolicy):
            every = self._config.videoEvery
            self._due = (player.actor.acting.version // every + 1) * every
            self._first = None
            now = time.monotonic()
            self._rests_until = now + RESTS * (now - self._began)
            self._controls.pause(True)

    def _full(self) -> bool:
        assert self._clip is not None
        steps, episodes = self._clip
        return episodes > 0 or steps >= (self._longest or 0)

    def _steps_of(self, control_dt: float) -> int:
        return super()._steps_of(control_dt) or round(SHORT / control_dt)

    def on_rest(self, player: Player) -> None:
        """Begins a new episode where a version is due that acts by now, and the last clip was long enough ago."""
        rested = time.monotonic() >= self._rests_until
        if rested and isinstance(player.actor, LivePolicy) and player.actor.acting.version >= self._due:
            self._began = time.monotonic()
            self._controls.ask(Restart(None))
            self._controls.ask(Pause(False))


def _shown(env_id: int | None) -> str:
    return "all" if env_id is None else str(env_id)


def clip_name(label: str, number: int) -> Path:
    """The name of a clip that begins with this version; of a run that the test moved to, with the run's name."""
    return Path(f"version_{re.sub(r'[^A-Za-z0-9_.-]+', '_', label)}_{number:04d}.mp4")

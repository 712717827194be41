"""Records a test: a viewer of the control loop that passes states to the video thread.

`videoRecord=true` records from the first step on; each file holds `videoEpisodes` episodes or `videoSeconds` seconds.
If the test is watched, "record" in the viewer's controls starts and ends a file. A file is named after the version that
acts when it begins: `videos/version_120_0003.mp4`.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator
from pathlib import Path

from torch import Tensor

from livegym.live.swap import LivePolicy
from livegym.play.audience import Viewer
from livegym.play.control_requests import Pause, Restart
from livegym.play.controls import Controls
from livegym.play.play import Actor, Listener, Player
from livegym.play.world import World
from livegym.rundir.run import Run
from livegym.schema.watching import VideoKeys
from livegym.sim.lines import Lines
from livegym.tasks.env import Env, Step
from livegym.utils.errors import UserError
from livegym.viewers.look import drawn_xml
from livegym.viewers.video import VideoWriter, check_video

SHORT = 5.0  # s, length of a clip of a training run if videoSeconds is not given
RESTS = 25.0  # pause after a clip, in units of its recording time: drawing halves training speed on a busy machine
MOST_TILES = 16  # environments in one picture; each costs about 10 ms if a CPU draws it


def check_recording(keys: VideoKeys, num_envs: int) -> None:
    """Raises UserError if there is no encoder or no OpenGL, or if the environments cannot be recorded."""
    check_video()
    if keys.videoEnv is not None and keys.videoEnv >= num_envs:
        raise UserError(f"videoEnv={keys.videoEnv}: unknown. Allowed: 0 to {num_envs - 1} (numEnvs={num_envs}).")
    if keys.videoEnv is None and num_envs > MOST_TILES:
        raise UserError(
            f"videoEnv=null draws all {num_envs} environments, but at most {MOST_TILES} fit in a picture. "
            "Lower numEnvs, or choose one environment with videoEnv."
        )


class ClipRecorder(Viewer):
    """Records clips of each world of the test, of one environment or of all in one picture."""

    def __init__(self, keys: VideoKeys, controls: Controls, watched: bool) -> None:
        """`watched`: the test is also shown live, so the loop keeps its clock, and pictures may be dropped."""
        self._keys = keys
        self._controls = controls
        self._watched = watched
        self._names = itertools.count(1)
        self._reel: Reel | None = None
        self._failed = False  # in an earlier world

    @property
    def failed(self) -> bool:
        """True if a clip could not be drawn or written."""
        return self._failed or (self._reel is not None and self._reel.failed)

    def begin(self, world: World, run: Run) -> Listener:
        """Records these environments from now on."""
        self.close()
        kind = SampledReel if self._keys.videoEvery and not self._watched else Reel
        self._reel = kind(self._keys, self._controls, self._watched, self._names, world.env, run.videos)
        return self._reel

    def close(self) -> None:
        """Ends the open clip, and waits until all its pictures are drawn."""
        if self._reel is not None:
            self._reel.close()
            self._failed = self.failed
            self._reel = None


class Reel(Listener):
    """Records the clips of one world."""

    def __init__(
        self,
        keys: VideoKeys,
        controls: Controls,
        watched: bool,
        names: Iterator[int],
        env: Env,
        folder: Path,
    ) -> None:
        """`names`: the numbers of clips; `folder`: where they go, unless videoDir is given; see `ClipRecorder`."""
        self._keys = keys
        self._controls = controls
        self._names = names
        self._folder = folder if keys.videoDir is None else Path(keys.videoDir)
        self._by_hand = watched and not keys.videoRecord
        self._shown = list(range(env.num_envs)) if keys.videoEnv is None else [keys.videoEnv]
        self._longest = self._steps_of(env.sim.control_dt)
        size = (keys.videoHeight, keys.videoWidth)
        self._writer = VideoWriter(drawn_xml(env), env.sim.control_dt, size, block=not watched)
        self._clip: tuple[int, int] | None = None  # steps and episodes of the open clip
        self._first: tuple[Tensor, Lines] | None = None  # the first state of the next clip, if known already
        env.sim.show_lines(self, controls.recording)

    @property
    def failed(self) -> bool:
        """True if a clip could not be drawn or written; final after `close`."""
        return self._writer.error is not None

    def _steps_of(self, control_dt: float) -> int | None:
        seconds = self._keys.videoSeconds
        return None if seconds is None else max(1, round(seconds / control_dt))

    def on_step(self, step: Step, player: Player) -> None:
        """Called after each control step. If an episode ended in it, `qpos` is already the next one's first state."""
        sim = player.env.sim
        sim.show_lines(self, self._controls.recording)
        if not self._controls.recording:
            self._end()
            return
        qpos, lines = sim.qpos[self._shown].cpu(), sim.lines_of(self._shown).of(self._shown)
        if self._clip is None:
            self._begin(player.actor)
        else:
            steps, episodes = self._clip
            self._clip = steps + 1, episodes + self._ended(step)
            if self._is_full(*self._clip):
                self._end()
                self._first = qpos.clone(), lines  # of the next clip, if another step is made
                return
        self._writer.add(qpos, lines)

    def _ended(self, step: Step) -> int:
        if step.ended is None:
            return 0
        return len(step.ended.env_ids) if self._keys.videoEnv is None else self._keys.videoEnv in step.ended.env_ids

    def _is_full(self, steps: int, episodes: int) -> bool:
        if self._by_hand:
            return False
        return steps >= self._longest if self._longest is not None else episodes >= self._keys.videoEpisodes

    def _begin(self, actor: Actor) -> None:
        acting = str(actor.label) if isinstance(actor, LivePolicy) else "scripted"
        path = self._folder / clip_name(acting, next(self._names))
        self._writer.begin(path)
        if self._by_hand:
            self._controls.say(f"recording environment {_shown(self._keys.videoEnv)} into {path}")
        self._clip = (0, 0)
        if self._first is not None:
            self._writer.add(*self._first)
            self._clip, self._first = (1, 0), None

    def _end(self) -> None:
        if self._clip is not None:
            self._writer.end()
            self._clip = None

    def close(self) -> None:
        """Ends the open clip, and waits until all its pictures are drawn."""
        self._end()
        self._writer.close()


class SampledReel(Reel):
    """Records the beginning of one episode of every n-th version; in between, the loop is paused and costs little.

    This is for clips of a training run: the first seconds show how well a learning policy does. n is `videoEvery`.
    """

    _due = 0  # version
    _began = 0.0  # s, monotonic: the clip
    _rests_until = 0.0  # s, monotonic

    def _begin(self, actor: Actor) -> None:
        self._began = time.monotonic()
        super()._begin(actor)

    def on_step(self, step: Step, player: Player) -> None:
        """Called after each control step. After an episode, pauses the loop until the next clip is due."""
        super().on_step(step, player)
        if self._clip is None and isinstance(player.actor, LivePolicy):
            every = self._keys.videoEvery
            self._due = (player.actor.acting.version // every + 1) * every
            self._first = None
            now = time.monotonic()
            self._rests_until = now + RESTS * (now - self._began)
            self._controls.pause(True)

    def _is_full(self, steps: int, episodes: int) -> bool:
        return episodes > 0 or steps >= (self._longest or 0)

    def _steps_of(self, control_dt: float) -> int:
        return super()._steps_of(control_dt) or round(SHORT / control_dt)

    def on_rest(self, player: Player) -> None:
        """Begins a new episode if a version that is due acts by now, and the last clip was long enough ago."""
        rested = time.monotonic() >= self._rests_until
        if rested and isinstance(player.actor, LivePolicy) and player.actor.acting.version >= self._due:
            self._controls.ask(Restart(None))
            self._controls.ask(Pause(False))


def _shown(env_id: int | None) -> str:
    return "all" if env_id is None else str(env_id)


def clip_name(label: str, number: int) -> Path:
    """The name of a clip that begins with version `label`; that includes the run's name if the test changed runs."""
    return Path(f"version_{re.sub(r'[^A-Za-z0-9_.-]+', '_', label)}_{number:04d}.mp4")

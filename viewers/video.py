"""Records videos of environments in a thread beside the loop that steps them.

    check_video()                                        # before the run: checks for OpenGL and an encoder
    with VideoWriter(drawn_xml(env), env.sim.control_dt) as video:
        video.begin(run.path / "videos" / "episode.mp4")
        for _ in range(200):
            env.step(...)
            video.add(sim.qpos[:1])                      # one control step
        video.end()

If a CPU draws it, a picture costs 40 to 100 ms, many times a control step. So one thread owns the GL context and the
encoder, and the loop only puts copies of `qpos` on its queue. If QUEUE of them are waiting already, `block=True` waits
(for a recording, so that nothing is lost), and `block=False` drops the picture (for a test that is watched, whose loop
must not wait). Dropped pictures do not change the speed at which a file plays.

A clip that cannot be drawn or written ends early. That is logged once, the loop continues, and `error` has the cause.
"""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import mujoco
import numpy as np
from numpy.typing import ArrayLike

from livegym.sim.lines import NO_LINES, Lines
from livegym.utils.errors import UserError
from livegym.viewers.clip import FAULTS, Clip, check_encoder, exact_dt
from livegym.viewers.offscreen import Camera, Painter

log = logging.getLogger(__name__)

QUEUE = 32  # pictures that wait to be drawn, at most
CLOSE_TIMEOUT = 30.0  # s that close() waits until they are drawn


def check_video() -> None:
    """Checks for the encoder and draws a picture. Raises UserError with the command that installs what is missing."""
    check_encoder()
    with Painter("<mujoco/>", 16, 16) as painter:
        painter.draw(np.empty(0))


@dataclass(frozen=True)
class _Begin:
    path: Path


@dataclass(frozen=True)
class _Add:
    step: int
    qpos: np.ndarray  # (envs, nq) or (nq,)
    lines: Lines  # of these environments


@dataclass(frozen=True)
class _End:
    steps: int
    dropped: int


class VideoWriter:
    """Writes clips of one model, one after another. Call it from one thread only. A failed clip never raises."""

    def __init__(
        self,
        model_xml: str,
        control_dt: float,
        size: tuple[int, int] = (480, 640),
        block: bool = True,
        camera: Camera = None,
    ) -> None:
        """Starts the thread. control_dt: s; size: height, width in pixels, rounded up to even numbers for H.264."""
        height, width = (pixels + pixels % 2 for pixels in size)
        if (height, width) != tuple(size):
            log.info("videos are %d x %d pixels: H.264 needs even numbers", width, height)
        self._studio = _Studio(model_xml, exact_dt(control_dt), height, width, camera)
        self._block = block
        self._steps = 0  # of this clip, and of them those without a picture
        self._dropped = 0
        self._free_slots = threading.Semaphore(QUEUE)
        self._orders: queue.SimpleQueue[_Begin | _Add | _End | None] = queue.SimpleQueue()
        self._late = False  # what is not drawn yet is left out
        # no daemon: Python waits for it, because a process that ends while a thread draws crashes
        self._thread = threading.Thread(target=self._work, name="video", daemon=False)
        self._thread.start()

    @property
    def error(self) -> Exception | None:
        """The first error that ended a clip early; final after close()."""
        return self._studio.error

    @property
    def files(self) -> list[Path]:
        """The actual paths of the files that can be played; final after close()."""
        return list(self._studio.files)

    def begin(self, path: Path) -> None:
        """Closes the current clip and begins a new one in `path`, or in `path_2` and so on if it exists."""
        self.end()
        self._orders.put(_Begin(path))

    def add(self, qpos: ArrayLike, lines: Lines = NO_LINES) -> None:
        """Adds a control step: (nq,) or (envs, nq), an array or a CPU tensor, copied, with the lines of these envs.

        Full queue: see `block`.
        """
        if self._has_room():
            self._orders.put(_Add(self._steps, np.asarray(qpos).astype(float), lines))
        else:
            self._dropped += 1
        self._steps += 1

    def end(self) -> None:
        """Closes the clip once its waiting pictures are drawn; returns immediately."""
        self._orders.put(_End(self._steps, self._dropped))
        self._steps = self._dropped = 0

    def close(self) -> None:
        """Closes the clip and ends the thread.

        Waits up to CLOSE_TIMEOUT seconds until all pictures are drawn; those that are not by then are left out.
        """
        self.end()
        self._orders.put(None)
        self._thread.join(CLOSE_TIMEOUT)
        if self._thread.is_alive():
            log.warning("a video was not finished within %.0f s, so its end is missing", CLOSE_TIMEOUT)
            self._late = True
            self._thread.join(CLOSE_TIMEOUT)

    def _has_room(self) -> bool:
        if not self._block:
            return self._free_slots.acquire(blocking=False)
        while self._thread.is_alive():  # otherwise a bug ended it, which was reported
            if self._free_slots.acquire(timeout=1.0):
                return True
        return False

    def _next(self) -> _Begin | _Add | _End | None:
        """The next order; None if there will be none, also because the program ends without close()."""
        while threading.main_thread().is_alive():
            try:
                return self._orders.get(timeout=1.0)
            except queue.Empty:
                continue
        return None

    def _work(self) -> None:
        try:
            while (order := self._next()) is not None:
                if isinstance(order, _Add):
                    self._free_slots.release()
                    if self._late:
                        continue
                self._studio.obey(order)
        except BaseException as error:  # a bug: threading prints its traceback, and `error` shows that a clip failed
            self._studio.note(RuntimeError(f"the video thread ended: {error!r}"))
            raise
        finally:
            self._studio.close()

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class _Studio:
    """The video thread's painter, made with the first picture, and the clip that is being written."""

    def __init__(self, model_xml: str, dt: Fraction, height: int, width: int, camera: Camera) -> None:
        self.error: Exception | None = None
        self.files: list[Path] = []
        self._model_xml = model_xml
        self._dt = dt
        self._camera = camera
        self._size = height, width
        self._path: Path | None = None  # of the current clip; None if there is none, or if it failed
        self._painter: Painter | None = None
        self._clip: Clip | None = None

    def obey(self, order: _Begin | _Add | _End) -> None:
        """Executes an order; a fault ends the clip."""
        try:
            if isinstance(order, _Begin):
                self._path = order.path
            elif isinstance(order, _End):
                self._end(order)
            elif self._path is not None:
                self._add(order, self._path)
        except (*FAULTS, UserError, mujoco.FatalError) as error:
            self._fail(error)

    def _add(self, order: _Add, path: Path) -> None:
        self._painter = self._painter or Painter(self._model_xml, *self._size)
        picture = self._painter.draw(order.qpos, self._camera, order.lines)
        if self._clip is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._clip = Clip(path, self._dt, *self._size)
        self._clip.add(order.step, picture)

    def _end(self, order: _End) -> None:
        if self._clip is None:
            return
        self._clip.close()
        path = self._clip.path
        self._clip = None
        self._path = None
        self.files.append(path)
        log.info("wrote %s: %d control steps, %.1f s", path, order.steps, order.steps * self._dt)
        if order.dropped:
            log.warning("%s lacks %d pictures, which could not be drawn in time", path, order.dropped)

    def note(self, error: Exception) -> None:
        """Records an error; the first one is kept."""
        self.error = self.error or error

    def _fail(self, error: Exception) -> None:
        self.note(error)
        log.warning("the video %s ends early: %s", self._clip.path if self._clip else self._path, error)
        clip = self._clip
        self._clip = None
        self._path = None
        if clip is not None and clip.abandon():
            self.files.append(clip.path)

    def close(self) -> None:
        """Frees the GL context, and closes a clip that a bug left open."""
        if self._clip is not None:
            self._clip.abandon()
        if self._painter is not None:
            self._painter.close()

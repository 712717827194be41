"""Draws pictures for `/stream` off-screen, in a thread of its own, and only while a client requests them."""

from __future__ import annotations

import logging
import threading
import time

import simplejpeg

from livegym.play.world import World
from livegym.tasks.env import Env
from livegym.utils.attempt import attempt
from livegym.utils.errors import UserError
from livegym.utils.gl import choose_backend
from livegym.viewers.browser.frames import LatestFrame
from livegym.viewers.look import drawn_xml
from livegym.viewers.offscreen import Painter
from livegym.web.mjpeg import Frames

log = logging.getLogger(__name__)

FPS, QUALITY = 30.0, 80
MOST_TILES = 9  # environments in one picture
IDLE = 0.1  # s between two checks for a client


class FrameEncoder:
    """Encodes the newest frame as JPEG. The drawing thread owns the GL context."""

    def __init__(self, slot: LatestFrame, size: tuple[int, int]) -> None:
        """size: (height, width) pixels. If there is no off-screen GL, `frames.unavailable` has the reason."""
        self.frames = Frames()
        self._slot, self._size = slot, size
        self._env: Env | None = None  # the environments to draw
        self._over = False
        try:
            choose_backend()
        except UserError as error:
            self.frames.give_up(str(error))
        # no daemon: Python waits for it, because a process that ends while a thread draws crashes
        self._thread = threading.Thread(target=self._work, name="pictures", daemon=False)
        self._thread.start()

    def begin(self, world: World) -> None:
        """Draws the environments of `world` from now on."""
        self._env = world.env

    def close(self) -> None:
        """Ends the thread."""
        self._over = True
        self._thread.join(timeout=2.0)

    @property
    def _goes_on(self) -> bool:
        """Whether neither close() was called nor the program has ended without it."""
        return not self._over and threading.main_thread().is_alive()

    def _work(self) -> None:
        if not attempt("drawing pictures for /stream", self._run):
            self.frames.give_up("drawing them failed; the server's log has the error")
        self._slot.want("pictures", False)

    def _run(self) -> None:
        while self._goes_on:
            env = self._env
            wanted = self.frames.wanted and env is not None
            self._slot.want("pictures", wanted)
            if env is None or not wanted:
                time.sleep(IDLE)
                continue
            try:
                self._serve(env)
            except UserError as error:
                log.warning("no pictures at /stream: %s", error)
                self.frames.give_up(str(error))
                return

    def _serve(self, env: Env) -> None:
        """Draws environments until others must be drawn or no client requests pictures."""
        drawn = None
        with Painter(drawn_xml(env), *self._size) as painter:
            while self.frames.wanted and env is self._env and self._goes_on:
                start = time.monotonic()
                frame = self._slot.frame
                if frame is not None and frame is not drawn and frame.qpos.shape[1] == painter.model.nq:
                    qpos = frame.qpos[:MOST_TILES]
                    picture = painter.draw(qpos, lines=frame.lines.of(range(len(qpos))))
                    self.frames.publish(simplejpeg.encode_jpeg(picture, QUALITY))
                    drawn = frame
                time.sleep(max(0.005, 1 / FPS - (time.monotonic() - start)))

"""The 3D server, the views of its clients, and the thread that draws the newest frame for them."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any

import rich
import viser

from livegym.play.world import World
from livegym.sim.model import compiled, forget_meshes
from livegym.utils.attempt import attempt
from livegym.viewers.browser.client_cameras import ClientCamera
from livegym.viewers.browser.frames import Frame, LatestFrame
from livegym.viewers.browser.protocol import ViewSettings
from livegym.viewers.browser.scene import Scene
from livegym.viewers.look import drawn_xml
from livegym.viewers.view import View, follows_at_first
from livegym.web.viser_seam import expect_departures, port_of

SHOWN = 36  # environments in the scene, at most: the first ones
IDLE = 0.25  # s between two checks of the drawing thread while nothing happens
RATES = 120  # updates over which the rate is measured
DEFAULT = ViewSettings(View(), True)  # for clients that belong to no page


class SceneServer:
    """A viser server on loopback with one scene. Frames come from the control loop, and views from the pages."""

    def __init__(self, fps: int) -> None:
        """`fps`: updates per second, at most."""
        self.slot = LatestFrame(fps, SHOWN)
        self.hello: dict[str, Any] = {"scene": None, "bodies": [], "num_envs": 0, "follow": False}
        self.client_cameras: dict[int, ClientCamera] = {}  # client -> its view
        self.lag = 0.0  # s, age of the last frame when it was handed to viser
        self._period = 1.0 / fps
        self._scene: Scene | None = None
        self._frame: Frame | None = None  # the drawn one
        self._settings: dict[str, ViewSettings] = {}  # page -> its view
        self._pages: dict[int, str] = {}  # port from which a page's client connects -> page
        self._drawn: deque[float] = deque(maxlen=RATES)
        self._lock = threading.RLock()  # for the scene and its clients' cameras
        expect_departures()
        rich.get_console().quiet = True  # viser prints its own address there, which bypasses our token
        self.server = viser.ViserServer("127.0.0.1", 0, verbose=False)
        self.server.gui.configure_theme(show_logo=False, show_share_button=False)
        self.server.on_client_connect(self._joined)
        self.server.on_client_disconnect(self._left)
        self._over = False
        self._thread = threading.Thread(target=self._draw, name="scene", daemon=True)
        self._thread.start()

    @property
    def rate(self) -> float:
        """Recent updates per second."""
        drawn = list(self._drawn)
        if len(drawn) < 2 or time.monotonic() - drawn[-1] > 1.0:
            return 0.0
        return round((len(drawn) - 1) / (drawn[-1] - drawn[0]), 1)

    # the control loop's thread

    def begin(self, world: World) -> None:
        """Shows the environments of `world`, in place of any others."""
        model = compiled(drawn_xml(world.env))
        moving = [model.body(body).name for body in range(1, model.nbody) if model.body_weldid[body]]
        with self._lock:
            self.server.scene.reset()
            self.slot.clear()
            self._scene = Scene(self.server, model, min(world.env.num_envs, SHOWN))
            forget_meshes()
            for client in self.server.get_clients().values():
                self._open_camera(client)
            self.hello = {
                "scene": secrets.token_hex(8),  # unique, so a page that stays open also notices another test
                "bodies": [name for name in moving if name],
                "num_envs": self._scene.num_envs,
                "follow": follows_at_first(model),
            }

    def close(self) -> None:
        """Ends the thread and the server."""
        self._over = True
        self.slot.wake.set()
        self._thread.join(timeout=2.0)
        self.server.stop()

    # the gateway's thread

    def apply(self, page: str, settings: ViewSettings | None) -> None:
        """Sets the view of a page; None: the page is gone."""
        if settings is None:
            self._settings.pop(page, None)
            return
        self._settings[page] = settings
        with self._lock:
            for client_id, client_camera in self.client_cameras.items():
                if client_camera.page == page:
                    self.client_cameras[client_id].apply(settings)
        self.slot.wake.set()

    def opened(self, page: str, port: int) -> None:
        """A page's client is about to connect from this port."""
        self._pages[port] = page

    def closed(self, page: str, port: int) -> None:
        """The page's client on this port is gone."""
        self._pages.pop(port, None)

    # viser's threads

    def _joined(self, client: viser.ClientHandle) -> None:
        with self._lock:
            if client.client_id in self.server.get_clients():  # it may have left before this was called
                self._open_camera(client)
                self.slot.want(f"scene {client.client_id}", True)

    def _left(self, client: viser.ClientHandle) -> None:
        with self._lock:
            self.client_cameras.pop(client.client_id, None)
            self.slot.want(f"scene {client.client_id}", False)

    def _open_camera(self, client: viser.ClientHandle) -> None:
        port = port_of(self.server, client)
        if self._scene is None or port is None:
            return
        page = self._pages.get(port, "")
        self.client_cameras[client.client_id] = client_camera = ClientCamera(client, self._scene, page)
        # A new client's camera may be anywhere.
        client_camera.apply(replace(self._settings.get(page, DEFAULT), place_camera=True))

    # the drawing thread

    def _draw(self) -> None:
        while not self._over and not attempt("drawing the scene", self._draw_on):
            time.sleep(IDLE)

    def _draw_on(self) -> None:
        moving, last = False, time.monotonic()
        while not self._over:
            woken = self.slot.wake.wait(self._period if moving else IDLE)
            self.slot.wake.clear()
            if woken or moving:
                now = time.monotonic()
                moving = self._update(now - last)
                last = now
                left = self._period - (time.monotonic() - now)
                time.sleep(max(0.0, left))

    def _update(self, seconds: float) -> bool:
        """Draws the newest frame; returns True if a client has not seen all of it."""
        with self._lock:
            frame, scene = self.slot.frame, self._scene
            if frame is None or scene is None or not self.client_cameras:
                return False
            if frame is not self._frame:  # otherwise only a client's view has changed
                self._frame = frame
                scene.show(frame.qpos)
                self.lag = round(time.monotonic() - frame.time, 4)
                self._drawn.append(time.monotonic())
            for client_id, client_camera in list(self.client_cameras.items()):
                if not attempt(f"the view of client {client_id}", partial(client_camera.update, frame, seconds)):
                    del self.client_cameras[client_id]  # a client that cannot be served must not stop the others
            return any(client_camera.unfinished for client_camera in self.client_cameras.values())

"""Each client's own view of the shared scene: which environments are shown, the camera, contacts and lines.

The scene's root frame is placed separately for each client, so that the origin is the middle of the grid, the only
environment that is shown, or the robot that the camera follows. The user's camera turns around the origin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import viser

from livegym.viewers.browser.contacts import Contacts
from livegym.viewers.browser.frames import Frame
from livegym.viewers.browser.lines import ClientLines
from livegym.viewers.browser.protocol import ViewSettings
from livegym.viewers.browser.scene import ROOT, Scene
from livegym.viewers.framing import FOV
from livegym.viewers.view import View, aim, follows_at_first
from livegym.web.viser_seam import scale_for

GLIDE = 0.15  # s, time constant of the movement to another place
STILL = 1e-4  # m


@dataclass
class ClientCamera:
    """The view of one client of the 3D scene."""

    client: viser.ClientHandle
    scene: Scene
    page: str  # "": the client belongs to no page
    view: View = field(default_factory=View)
    place_camera: bool = False
    gliding: bool = False  # still moving to another place
    _shown: int | None = None  # the only environment that is shown
    _root: viser.FrameHandle | None = None
    _at: np.ndarray = field(default_factory=lambda: np.zeros(3))
    _contacts: Contacts | None = None
    _lines: ClientLines = field(init=False)

    def __post_init__(self) -> None:
        self._lines = ClientLines(self.client)

    @property
    def unfinished(self) -> bool:
        """Whether another update must follow, even if nothing has moved."""
        return self.gliding or self._lines.waiting

    def apply(self, settings: ViewSettings) -> None:
        """Sets the view from the next update on."""
        self.view = settings.view
        self.place_camera = self.place_camera or settings.place_camera

    def update(self, frame: Frame, seconds: float) -> None:
        """Updates the view after the scene has shown `frame`; `seconds` since the last update."""
        env_id = min(self.view.env_id, self.scene.num_envs - 1)
        self._hide_others(None if self.view.show_all else env_id)
        self.gliding = self._glide(-self._middle(env_id), seconds)
        if self.place_camera:
            self.place_camera = False
            self._put_camera(env_id)
        if self._contacts is None and (self.view.contacts or self.view.forces):
            self._contacts = Contacts(self.client, self.scene.model, 2 * self.scene.bounds.radius)
        if self._contacts is not None:
            self._contacts.show(frame, env_id, self.scene.offsets[env_id], self.view)
        others = range(self.scene.num_envs) if self.view.show_all else ()
        shown = [env_id, *(other for other in others if other != env_id)]
        self._lines.show(frame.lines, shown, self.scene.offsets[shown], seconds)

    def _middle(self, env_id: int) -> np.ndarray:
        """(3,) m: the point of the scene that must be at the origin."""
        if self.view.show_all and not self.view.follow:
            return np.zeros(3)  # the middle of the grid
        middle = self.scene.offsets[env_id].copy()
        if self.view.follow:
            middle = self.scene.positions[env_id, self.scene.tracked] - self.scene.bounds.center
        return middle

    def _glide(self, target: np.ndarray, seconds: float) -> bool:
        if self._root is None:
            self._at = target
            self._root = self.client.scene.add_frame(ROOT, show_axes=False, position=target)
        if np.abs(target - self._at).max() <= STILL:
            return False
        self._at = self._at + (target - self._at) * (1.0 - math.exp(-seconds / GLIDE))
        self._root.position = self._at
        return True

    def _hide_others(self, only: int | None) -> None:
        if only == self._shown:
            return
        self._shown = only
        for kind in self.scene.kinds:
            scales = np.ones((self.scene.num_envs, len(kind.frames)), np.float32)
            if only is not None:
                scales[np.arange(self.scene.num_envs) != only] = 0.0
            scale_for(self.client, kind.handle.name, scales.ravel())

    def _put_camera(self, env_id: int) -> None:
        scene = self.scene
        follow = self.view.follow
        view = View(show_all=self.view.show_all and not follow, follow=follow, preset=self.view.preset)
        put = aim(view, scene.bounds, scene.offsets, self.client.camera.aspect)
        middle = put.lookat + (scene.offsets[0] if view.show_all else 0.0)
        if follows_at_first(scene.model) and not (self.view.show_all or follow):  # it may have walked off
            middle = scene.positions[env_id, scene.tracked] - scene.offsets[env_id]
        azimuth, elevation = math.radians(put.azimuth), math.radians(put.elevation)
        forward = np.array(
            [math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth), math.sin(elevation)]
        )
        with self.client.atomic():
            self.client.camera.fov = math.radians(FOV)
            self.client.camera.position = middle - put.distance * forward
            self.client.camera.look_at = middle

"""Draws environments without a window.

    with Painter(drawn_xml(env), height=480, width=640) as painter:
        picture = painter.draw(sim.qpos[:4].numpy())     # (480, 640, 3) uint8: four environments side by side

Several environments share one picture as tiles, each with a camera of its own. So robots that walk off in different
directions all stay in sight, and each keeps its own floor and rails.

A picture depends only on `qpos`, lines and the nominal model: a randomised size or colour of one environment is not
visible. Shadows are coarser than MuJoCo's default, which saves time if a CPU draws them.
"""

from __future__ import annotations

import math
import threading
from types import TracebackType
from typing import TypeAlias

import mujoco
import numpy as np

from livegym.sim.lines import MOST, NO_LINES, Lines
from livegym.sim.model import compiled
from livegym.utils.errors import UserError, not_one_of
from livegym.utils.gl import make_context
from livegym.viewers import lines as drawn_lines
from livegym.viewers.framing import Aim, bounds_of
from livegym.viewers.view import View, aim, follows_at_first, tracked_body

SHADOW_MAP = 1024  # pixels along a side, at most; MuJoCo's default of 4096 takes most of the time of a picture
MAX_GEOMS = 10_000  # of one environment, without lines

Camera: TypeAlias = mujoco.MjvCamera | str | None
"""A camera, the name of a camera of the model, or None for `default_camera`."""


class Painter:
    """Draws states of one model. It must be made, used and closed in one thread, which owns its GL context."""

    def __init__(self, model_xml: str, height: int, width: int) -> None:
        """Compiles the model and makes a context for pictures of height x width pixels.

        Raises UserError if there is no off-screen GL, ValueError for an invalid model or size.
        """
        if height < 1 or width < 1:
            raise ValueError(f"a picture cannot have {width} x {height} pixels; give at least 1 x 1")
        self.model = compiled(model_xml)
        self.model.vis.global_.offheight, self.model.vis.global_.offwidth = height, width
        self.model.vis.quality.shadowsize = min(SHADOW_MAP, self.model.vis.quality.shadowsize)
        self._data = mujoco.MjData(self.model)
        self._scene = mujoco.MjvScene(self.model, MAX_GEOMS + MOST)
        self._option = mujoco.MjvOption()
        self._option.sitegroup[:] = 0  # sites mark positions of sensors; they are not objects
        self._default: mujoco.MjvCamera | None = None  # made with the first picture, which tells the shape of its tiles
        self._size = height, width
        self._thread = threading.get_ident()
        self._gl = make_context(width, height)
        self._gl.make_current()
        self._context: mujoco.MjrContext | None = self._drawing_context()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)

    def _drawing_context(self) -> mujoco.MjrContext:
        try:
            return mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except mujoco.FatalError as error:
            self._gl.free()
            raise UserError(
                f"no off-screen rendering here: OpenGL made a context, but cannot draw ({error})."
            ) from error

    def draw(self, qpos: np.ndarray, camera: Camera = None, lines: Lines = NO_LINES) -> np.ndarray:
        """(height, width, 3) uint8: one environment, qpos (nq,), or tiles of several, (envs, nq), row by row.

        lines: those of these environments, whose `envs` are indices into `qpos`.

        Raises UserError if the model has no camera of this name, ValueError if qpos has a wrong shape, and RuntimeError
        in another thread and after close().
        """
        rows = np.atleast_2d(qpos)
        if rows.ndim != 2 or rows.shape[1] != self.model.nq:
            raise ValueError(
                f"qpos has shape {np.shape(qpos)}; the model needs ({self.model.nq},) or (envs, {self.model.nq})"
            )
        context = self._current()
        parts = tiles(len(rows), *self._size)
        view_camera = self._camera(camera, parts[0].width / parts[0].height)
        whole = mujoco.MjrRect(0, 0, self._size[1], self._size[0])
        mujoco.mjr_rectangle(whole, 0, 0, 0, 1)
        self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = len(rows) == 1  # tiles would show each other's shadows
        for index, (row, tile) in enumerate(zip(rows, parts, strict=True)):
            self._set_pose(row)
            mujoco.mjv_updateScene(
                self.model, self._data, self._option, None, view_camera, mujoco.mjtCatBit.mjCAT_ALL, self._scene
            )
            drawn_lines.add_to(self._scene, lines.of([index]))
            mujoco.mjr_render(tile, self._scene, context)
        picture = np.empty((*self._size, 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, whole, context)
        return np.ascontiguousarray(picture[::-1])  # OpenGL's first row is at the bottom

    def _set_pose(self, row: np.ndarray) -> None:
        """Sets qpos and computes only what is drawn. The dynamics cost more, and warn of non-finite positions."""
        self._data.qpos[:] = row
        for follow in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_camlight, mujoco.mj_tendon):
            follow(self.model, self._data)

    def _current(self) -> mujoco.MjrContext:
        if self._context is None:
            raise RuntimeError("this Painter is closed")
        if threading.get_ident() != self._thread:
            raise RuntimeError("a Painter belongs to the thread that made it")  # the driver would crash the process
        self._gl.make_current()  # another Painter of this thread may have made its own current
        return self._context

    def _camera(self, camera: Camera, aspect: float) -> mujoco.MjvCamera:
        if camera is None:
            self._default = self._default or default_camera(self.model, aspect)
            return self._default
        if not isinstance(camera, str):
            return camera
        names = [self.model.camera(index).name for index in range(self.model.ncam)]
        if camera not in names:
            raise not_one_of("camera", camera, names)
        return _model_camera(names.index(camera))

    def close(self) -> None:
        """Frees the context. Raises RuntimeError in a thread that did not make it; a second call does nothing."""
        if self._context is not None:
            self._current().free()
            self._gl.free()
            self._context = None

    def __enter__(self) -> Painter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def default_camera(model: mujoco.MjModel, aspect: float) -> mujoco.MjvCamera:
    """The model's first camera that is fixed in the world or follows a body from outside.

    If the model has none: one that frames what moves in a picture whose width is `aspect` times its height, and that
    follows the only moving body if that is free.
    """
    onlookers = (model.cam_bodyid == 0) | (model.cam_mode != mujoco.mjtCamLight.mjCAMLIGHT_FIXED)
    if onlookers.any():
        return _model_camera(int(onlookers.argmax()))
    follow = follows_at_first(model)
    where = aim(View(show_all=False, follow=follow), bounds_of(model), np.zeros((1, 3)), aspect)
    return camera_at(where, tracked_body(model) if follow else -1)


def camera_at(where: Aim, followed: int = -1) -> mujoco.MjvCamera:
    """A camera at `where`, which follows the body `followed`, unless that is -1."""
    camera = mujoco.MjvCamera()
    put_camera(camera, where, followed)
    return camera


def put_camera(camera: mujoco.MjvCamera, where: Aim, followed: int) -> None:
    """Moves a camera to `where`; from then on it follows the body `followed`, unless that is -1."""
    camera.lookat[:], camera.distance = where.lookat, where.distance
    camera.azimuth, camera.elevation = where.azimuth, where.elevation
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE if followed < 0 else mujoco.mjtCamera.mjCAMERA_TRACKING
    camera.trackbodyid = followed


def _model_camera(index: int) -> mujoco.MjvCamera:
    camera = mujoco.MjvCamera()
    camera.type, camera.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, index
    return camera


def tiles(count: int, height: int, width: int) -> list[mujoco.MjrRect]:
    """`count` rectangles that divide a picture into rows and columns as equal as possible, from the top left."""
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    xs = [width * k // columns for k in range(columns + 1)]
    ys = [height - height * k // rows for k in range(rows + 1)]  # OpenGL's y points up
    places = (divmod(index, columns) for index in range(count))
    return [mujoco.MjrRect(xs[c], ys[r + 1], xs[c + 1] - xs[c], ys[r] - ys[r + 1]) for r, c in places]

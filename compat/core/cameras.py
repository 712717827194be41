"""Cameras of task code: pictures, depths and segmentation of one environment, drawn by MuJoCo.

    handle = add(env, CameraProperties(width=64, height=48))
    look_at(env.cameras[handle], eye, target)
    cameras.render(sim.envs)                         # all cameras, at the present state
    env.cameras[handle].image(ImageType.IMAGE_DEPTH) # (48, 64) float32

A camera looks along its x axis, with z up. A depth is minus the distance along the view direction, m, and minus
infinity for the sky. The number in a segmentation is that of the body, which is its actor's unless it was set; 0 for
the sky. Each picture is drawn with the environment's own model, so sizes that differ are seen.
"""

from __future__ import annotations

import atexit
import copy
import math
import struct
import weakref
import zlib
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
import torch

from livegym.compat.core import rotation
from livegym.compat.core.enums import CameraFollowMode, ImageType
from livegym.compat.core.record import Env
from livegym.compat.core.simulation_records import CameraProperties
from livegym.compat.core.vectors import Quat, Transform, Vec3
from livegym.utils.errors import UserError
from livegym.utils.gl import make_context

NEAREST, FURTHEST = 0.01, 1000.0
"""Planes (m) that a camera has at most: the depth buffer has 24 bits."""
MOST_GEOMS = 10_000
KINDS = (ImageType.IMAGE_COLOR, ImageType.IMAGE_DEPTH, ImageType.IMAGE_SEGMENTATION)


class CameraSensor:
    """One camera of an environment, and its last pictures."""

    def __init__(self, properties: CameraProperties) -> None:
        self.properties = copy.copy(properties)
        self.pose = Transform()  # in the environment's frame, or relative to the body
        self.body: int | None = None
        self.turns_with_body = True
        height, width = int(properties.height), int(properties.width)
        self.pictures = {
            ImageType.IMAGE_COLOR: torch.zeros(height, width, 4, dtype=torch.uint8),
            ImageType.IMAGE_DEPTH: torch.full((height, width), -math.inf),
            ImageType.IMAGE_SEGMENTATION: torch.zeros(height, width, dtype=torch.int32),
        }

    def picture(self, kind: int) -> torch.Tensor:
        """The tensor of one kind, which changes with each `render`. Raises UserError for kinds that are not drawn."""
        if int(kind) not in {int(each) for each in KINDS}:
            raise UserError(
                f"camera image of type {int(kind)}. Allowed: IMAGE_COLOR, IMAGE_DEPTH, IMAGE_SEGMENTATION. Optical "
                "flow is not drawn."
            )
        return self.pictures[ImageType(int(kind))]


def add(env: Env, properties: CameraProperties) -> int:
    """Add a camera to an environment; return its handle. Raises UserError for impossible sizes."""
    for name in ("width", "height"):
        if not 1 <= getattr(properties, name) <= 16_384:
            raise UserError(f"create_camera_sensor: {name}={getattr(properties, name)}. Allowed: 1 to 16384 pixels.")
    if not 0.0 < properties.horizontal_fov < 180.0:
        raise UserError(
            f"create_camera_sensor: horizontal_fov={properties.horizontal_fov}. Allowed: more than 0 and less than 180 "
            "degrees."
        )
    env.cameras.append(CameraSensor(properties))
    return len(env.cameras) - 1


def of(env: Env, handle: int) -> CameraSensor:
    """A camera of an environment. Raises UserError if there is none with that handle."""
    camera: CameraSensor | None = env.cameras[handle] if 0 <= handle < len(env.cameras) else None
    if camera is None:
        raise UserError(
            f"camera {handle} of environment {env.index}: it has made {len(env.cameras)}, and that one is destroyed or "
            "was never made. Use what create_camera_sensor returned."
        )
    return camera


def look_at(camera: CameraSensor, eye: Vec3, target: Vec3) -> None:
    """Put a camera to `eye`, looking at `target`, with the world's z as near to up as can be.

    Raises UserError if both are the same point.
    """
    forward = np.array([target.x - eye.x, target.y - eye.y, target.z - eye.z])
    length = float(np.linalg.norm(forward))
    if not length > 0:
        raise UserError(f"set_camera_location: position and target are the same point, {tuple(eye)}.")
    forward /= length
    up = np.array([0.0, 0.0, 1.0]) if abs(forward[2]) < 0.9999 else np.array([1.0, 0.0, 0.0])
    left = np.cross(up, forward)
    left /= np.linalg.norm(left)
    axes = np.stack([forward, left, np.cross(forward, left)], 1)
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, axes.reshape(-1))
    w, x, y, z = (float(number) for number in quat)
    place(camera, Transform(eye, Quat(x, y, z, w)))


def place(camera: CameraSensor, pose: Transform) -> None:
    """Put a camera to a pose in the environment's frame."""
    camera.pose, camera.body = copy.deepcopy(pose), None


def attach(env: Env, camera: CameraSensor, body: int, pose: Transform, mode: int) -> None:
    """Have a camera follow a body. Raises UserError if the environment has no such body."""
    if not 0 <= body < env.body_count:
        raise UserError(
            f"attach_camera_to_body: body {body}; environment {env.index} has {env.body_count} bodies. "
            "find_actor_rigid_body_handle gives the handle of a name."
        )
    camera.pose, camera.body = copy.deepcopy(pose), int(body)
    camera.turns_with_body = int(mode) == int(CameraFollowMode.FOLLOW_TRANSFORM)


def pose_of(env: Env, camera: CameraSensor) -> tuple[np.ndarray, np.ndarray]:
    """Position (3,) and wxyz quaternion (4,) of a camera in the environment's frame, at the present state."""
    p, r = camera.pose.p, camera.pose.r
    position, quat = np.array([p.x, p.y, p.z]), np.array([r.w, r.x, r.y, r.z])
    if camera.body is None:
        return position, quat
    engine = env.group.engine
    origin, turn = (engine.kinematics(name)[env.row, camera.body + 1] for name in ("xpos", "xquat"))
    if not camera.turns_with_body:
        return origin + position, quat
    return origin + rotation.rotate(turn, position), rotation.multiply(turn, quat)


class Cameras:
    """Draws the cameras of a simulation. It belongs to the thread that renders first, with its GL context."""

    def __init__(self, ground: Mapping[str, int]) -> None:
        """`ground`: the number in segmentations of each shape of the ground, by its geom's name."""
        self._ground = ground
        self._size = (0, 0)
        self._scenes: dict[int, tuple[mujoco.MjModel, mujoco.MjData, mujoco.MjvScene]] = {}  # by the group's engine
        self._contexts: dict[int, tuple[Any, mujoco.MjrContext]] = {}  # by the group's engine
        weakref.finalize(self, _free, self._contexts).atexit = False

    def render(self, envs: list[Env]) -> None:
        """Draw all cameras of all environments. Raises UserError if there is no off-screen OpenGL here."""
        for env in envs:
            if any(camera is not None for camera in env.cameras):
                self._render(env)

    def _render(self, env: Env) -> None:
        batch = env.group.engine.batch
        model, data, scene = self._scene(env)
        batch.get_model(env.row, model)
        batch.get_data(env.row, data)
        for follow in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_camlight, mujoco.mj_tendon):
            follow(model, data)
        option = mujoco.MjvOption()
        option.sitegroup[:] = 0
        camera = mujoco.MjvCamera()
        mujoco.mjv_updateScene(model, data, option, None, camera, mujoco.mjtCatBit.mjCAT_ALL, scene)
        numbers = _segmentation(env, model, self._ground)
        _paint(env, scene, model)
        for sensor in env.cameras:
            if sensor is not None:
                self._draw(env, sensor, scene, numbers)

    def _scene(self, env: Env) -> tuple[mujoco.MjModel, mujoco.MjData, mujoco.MjvScene]:
        """A model, its data and a scene, which all environments of a group use in turn: meshes are copied once."""
        key = id(env.group.engine)
        if key not in self._scenes:
            model = env.group.engine.batch.get_model(env.row)
            self._scenes[key] = model, mujoco.MjData(model), mujoco.MjvScene(model, MOST_GEOMS)
        return self._scenes[key]

    def _context(self, env: Env, width: int, height: int) -> mujoco.MjrContext:
        """A context for pictures of that size; its meshes are those of the group's model."""
        if width > self._size[1] or height > self._size[0]:
            _free(self._contexts)
            self._size = max(height, self._size[0]), max(width, self._size[1])
        key = id(env.group.engine)
        if key not in self._contexts:
            gl = make_context(self._size[1], self._size[0])
            if not self._contexts:
                atexit.register(_free, self._contexts)  # after MuJoCo's own, so it is called before it
            gl.make_current()
            model = env.group.engine.batch.get_model(env.row)
            model.vis.global_.offheight, model.vis.global_.offwidth = self._size
            model.vis.quality.offsamples = 0  # depths and numbers are those at the middle of a pixel
            self._contexts[key] = gl, mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        gl, context = self._contexts[key]
        gl.make_current()
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, context)
        return context

    def _draw(self, env: Env, sensor: CameraSensor, scene: mujoco.MjvScene, numbers: np.ndarray) -> None:
        height, width = int(sensor.properties.height), int(sensor.properties.width)
        context = self._context(env, width, height)
        near, far = _aim(scene, sensor, *pose_of(env, sensor))
        whole = mujoco.MjrRect(0, 0, width, height)
        colour, depth = np.empty((height, width, 3), np.uint8), np.empty((height, width), np.float32)
        scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = 0
        mujoco.mjr_render(whole, scene, context)
        mujoco.mjr_readPixels(colour, depth, whole, context)
        pictures = sensor.pictures
        rgba = pictures[ImageType.IMAGE_COLOR].numpy()
        rgba[..., :3], rgba[..., 3] = colour[::-1], 255
        pictures[ImageType.IMAGE_DEPTH].numpy()[:] = _metres(depth[::-1], near, far)
        scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = 1
        mujoco.mjr_render(whole, scene, context)
        mujoco.mjr_readPixels(colour, None, whole, context)
        ids = colour[::-1].astype(np.int64) @ np.array([1, 1 << 8, 1 << 16])
        of_id = np.zeros(scene.ngeom + 1, np.int32)
        for geom in (scene.geoms[number] for number in range(scene.ngeom)):
            if geom.segid >= 0 and geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                of_id[geom.segid + 1] = numbers[geom.objid]
        pictures[ImageType.IMAGE_SEGMENTATION].numpy()[:] = of_id[ids]


def _free(contexts: dict[int, tuple[Any, mujoco.MjrContext]]) -> None:
    """Free contexts before OpenGL's own modules end."""
    for gl, context in contexts.values():
        gl.make_current()
        context.free()
        gl.free()
    contexts.clear()


def _aim(scene: mujoco.MjvScene, sensor: CameraSensor, position: np.ndarray, quat: np.ndarray) -> tuple[float, float]:
    """Point a scene's camera; return the distances of its planes, m."""
    properties = sensor.properties
    near = max(NEAREST, float(properties.near_plane))
    far = max(2.0 * near, min(FURTHEST, float(properties.far_plane)))
    half_width = near * math.tan(math.radians(properties.horizontal_fov) / 2.0)
    half_height = half_width * properties.height / properties.width
    forward = rotation.rotate(quat, np.array([1.0, 0.0, 0.0]))
    for light in (scene.lights[number] for number in range(scene.nlight)):
        if light.headlight:
            light.pos[:], light.dir[:] = position, forward
    for eye in scene.camera:
        eye.pos[:] = position
        eye.forward[:] = forward
        eye.up[:] = rotation.rotate(quat, np.array([0.0, 0.0, 1.0]))
        eye.frustum_near, eye.frustum_far = near, far
        eye.frustum_bottom, eye.frustum_top = -half_height, half_height
        eye.frustum_center = 0.0
        eye.frustum_width = half_width
        eye.orthographic = 0
    return near, far


def _metres(depth: np.ndarray, near: float, far: float) -> np.ndarray:
    """Minus the distance along the view direction of values of the depth buffer, 0 near and 1 far."""
    with np.errstate(divide="ignore"):
        distance = near / (1.0 - depth.astype(np.float64) * (1.0 - near / far))
    return np.where(depth >= 1.0, -np.inf, -distance)


def _segmentation(env: Env, model: mujoco.MjModel, ground: Mapping[str, int]) -> np.ndarray:
    """(geoms,) the number of each geom in a segmentation."""
    of_body = [0]
    for actor in env.actors:
        of_body += [actor.segmentations.get(body, actor.segmentation) for body in range(len(actor.asset.bodies))]
    numbers = np.array(of_body, np.int32)[model.geom_bodyid]
    for name, number in ground.items():
        numbers[model.geom(name).id] = number
    return numbers


def _paint(env: Env, scene: mujoco.MjvScene, model: mujoco.MjModel) -> None:
    """Give the geoms of a scene the colours that were set for their bodies."""
    colours: dict[int, Vec3] = {}
    first = 1
    for actor in env.actors:
        colours.update((first + body, colour) for body, colour in actor.colours.items())
        first += len(actor.asset.bodies)
    for number in range(scene.ngeom if colours else 0):
        geom = scene.geoms[number]
        body = int(model.geom_bodyid[geom.objid]) if geom.objtype == mujoco.mjtObj.mjOBJ_GEOM else 0
        if body in colours:
            geom.rgba[:3] = list(colours[body])


def write_png(path: str, rgba: np.ndarray) -> None:
    """Write a picture (height, width, 4) uint8 as a PNG file."""
    height, width = rgba.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), rgba.reshape(height, -1)], 1)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")):
            file.write(struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content)))

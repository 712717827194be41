"""The model that viewers draw: the simulated one, with a floor, a sky, lights and a skin that only people see.

    model = compiled(drawn_xml(env))

What is simulated stays as it is: training never has these additions, and they change no field of the physics. What a
model brings of its own (lights, sky, a floor with a material) is kept, unless its task has `own_look = False`.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from livegym.sim.model import warnings_logged_once
from livegym.tasks.env import Env
from livegym.tasks.skin import Part
from livegym.viewers.framing import Bounds, bounds_of
from livegym.viewers.view import follows_at_first, tracked_body

OURS = "livegym/"  # prefix of names, so that they do not clash with the model's
HIDDEN = 3  # the group of collision shapes that a skin covers: not drawn, as in MuJoCo's own viewer
ZENITH, HORIZON = (0.36, 0.52, 0.72), (0.84, 0.89, 0.94)
TILES = (0.50, 0.55, 0.61), (0.55, 0.60, 0.66)
LINES = (0.43, 0.48, 0.54)
BELOW = 0.55  # a floor for a model without one: its depth below the middle, in heights of what moves
LIGHTS = (
    ((0.0, 0.0, -1.0), 0.46, True),
    ((-0.6, 0.35, -0.6), 0.32, False),
    ((0.7, 0.5, -0.4), 0.14, False),
)  # where each shines, its strength, and whether it casts shadows: one that is slanted makes flecks on the floor


def drawn_xml(env: Env) -> str:
    """The MJCF of what viewers draw of these environments."""
    return dressed(env.sim.model_xml(), env.task.own_look, env.task.skin())


def dressed(model_xml: str, own_look: bool = True, skin: tuple[Part, ...] = ()) -> str:
    """A model with livegym's look and a skin; `own_look`: keep the look that it brings."""
    with warnings_logged_once():
        spec = mujoco.MjSpec.from_string(model_xml)
        spec.compiler.balanceinertia = True  # an inertia that was just possible may not be once it is rounded
        model = spec.compile()
        bounds = bounds_of(model)
        if not own_look:
            _undress(spec)
        _cover(spec, skin)
        _light(spec, model, bounds)
        _ground(spec, bounds)
        spec.compile()
        return spec.to_xml()


def _undress(spec: mujoco.MjSpec) -> None:
    """Removes lights, cameras, skies and the materials of planes."""
    for element in [*spec.lights, *spec.cameras, *_skies(spec)]:
        spec.delete(element)
    for geom in _planes(spec):
        geom.material = ""


def _skies(spec: mujoco.MjSpec) -> list[mujoco.MjsTexture]:
    return [texture for texture in spec.textures if texture.type == mujoco.mjtTexture.mjTEXTURE_SKYBOX]


def _planes(spec: mujoco.MjSpec) -> list[mujoco.MjsGeom]:
    return [geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_PLANE]


def _cover(spec: mujoco.MjSpec, skin: tuple[Part, ...]) -> None:
    """Adds the parts, and hides the collision shapes of the bodies that have one."""
    for body in {part.body for part in skin}:
        for geom in spec.body(body).geoms:
            geom.group = HIDDEN
    for number, part in enumerate(skin):
        mesh = spec.add_mesh(name=f"{OURS}{part.body}_{number}", inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX)
        mesh.uservert = _around_balls(part).ravel()
        mesh.smoothnormal = True
        spec.body(part.body).add_geom(
            type=mujoco.mjtGeom.mjGEOM_MESH, meshname=mesh.name, material=_material(spec, part.rgb),
            rgba=[*part.rgb, 1], contype=0, conaffinity=0, mass=0, group=0,
        )  # fmt: skip


def _around_balls(part: Part) -> np.ndarray:
    """(P, 3) m: points on the surfaces of the balls, whose convex hull is the part."""
    return np.concatenate([np.array(ball[:3]) + ball[3] * _SPHERE for ball in part.balls])


def _sphere(count: int) -> np.ndarray:
    """(count, 3): about evenly spaced points on the unit sphere (a Fibonacci lattice)."""
    step = np.arange(count) + 0.5
    height = 1 - 2 * step / count
    turn = np.pi * (1 + math.sqrt(5)) * step
    across = np.sqrt(1 - height**2)
    return np.stack([across * np.cos(turn), across * np.sin(turn), height], axis=1)


_SPHERE = _sphere(100)


def _material(spec: mujoco.MjSpec, rgb: tuple[float, float, float]) -> str:
    """The name of the skin's material of a colour."""
    name = f"{OURS}skin {rgb}"
    if spec.material(name) is None:
        spec.add_material(name=name, rgba=[*rgb, 1], specular=0.3, shininess=0.45)
    return name


def _light(spec: mujoco.MjSpec, model: mujoco.MjModel, bounds: Bounds) -> None:
    """A sky and lights, if the model has none. Shadows go with a robot that may walk off."""
    if not _skies(spec):
        spec.add_texture(
            name=f"{OURS}sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
            rgb1=ZENITH, rgb2=HORIZON, width=256, height=1536,
        )  # fmt: skip
        spec.visual.rgba.haze = [*HORIZON, 1]
    if not spec.lights:
        spec.visual.headlight.ambient = [0.32, 0.33, 0.35]
        spec.visual.headlight.diffuse = [0.22, 0.22, 0.22]
        spec.visual.headlight.specular = [0.1, 0.1, 0.1]
        follows = follows_at_first(model)
        body = spec.bodies[tracked_body(model)] if follows else spec.worldbody
        middle = np.zeros(3) if follows else bounds.center
        for way, strength, shadow in LIGHTS:
            body.add_light(
                type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, dir=way, pos=middle - 3 * bounds.radius * np.array(way),
                mode=mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM if follows else mujoco.mjtCamLight.mjCAMLIGHT_FIXED,
                diffuse=np.full(3, strength), specular=np.full(3, 0.5 * strength), castshadow=shadow,
            )  # fmt: skip
        spec.stat.center = bounds.center
        spec.stat.extent = bounds.radius
        spec.visual.map.shadowclip = 1.5
        spec.visual.map.zfar = 15.0
        spec.visual.map.haze = 0.5


def _ground(spec: mujoco.MjSpec, bounds: Bounds) -> None:
    """An infinite floor with tiles about as large as a part of the robot, on planes that have no material."""
    bare = [geom for geom in _planes(spec) if not geom.material and geom.parent == spec.worldbody]
    if not _planes(spec):
        below = [0, 0, bounds.center[2] - BELOW * bounds.size[2]]
        bare = [spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, pos=below, contype=0, conaffinity=0)]
    if not bare:
        return
    spec.add_texture(
        name=f"{OURS}floor", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=TILES[0], rgb2=TILES[1], mark=mujoco.mjtMark.mjMARK_EDGE, markrgb=LINES, width=512, height=512,
    )  # fmt: skip
    tile = round_number(float(bounds.spacing.min()) / 3)
    floor = spec.add_material(name=f"{OURS}floor", texrepeat=np.full(2, 0.5 / tile), texuniform=True, specular=0)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = f"{OURS}floor"
    for geom in bare:
        geom.material = floor.name
        geom.size = [0, 0, 1]
        geom.rgba = [1, 1, 1, 1]


def round_number(size: float) -> float:
    """The largest of 1, 2 or 5 times a power of ten that is not above `size`."""
    size = max(size, 1e-6)
    power = 10.0 ** math.floor(math.log10(size))
    return power * max(step for step in (1, 2, 5) if step * power <= size * (1 + 1e-9))

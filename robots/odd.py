"""Find what looks wrong in a robot's model, a sentence each: units, ranges, masses, shapes, overlaps."""

from __future__ import annotations

import mujoco
import numpy as np

from livegym.compat.core.asset_model import listed
from livegym.robots.robot import HINGE, Robot, is_wheel
from livegym.utils.words import count

WIDEST = 8 * np.pi
"""rad; a hinge with a wider range may be in degrees."""
TALLEST, SMALLEST = 10.0, 0.02
"""m; a robot larger or smaller than this may be in millimetres or inches."""
HEAVIEST, LIGHTEST = 2000.0, 0.01
"""kg; a robot outside may be in grams."""
LARGEST_DENSITY = 20_000.0
"""kg/m^3; heavier than lead."""


def look(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray) -> list[str]:
    """Sentences about what is odd in a robot in its default pose `qpos` (nq,)."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    return [*_units(robot, model, data), *_joints(robot, model, qpos), *_bodies(robot, model), *_strength(robot, model)]


def _units(robot: Robot, model: mujoco.MjModel, data: mujoco.MjData) -> list[str]:
    found = []
    wide = [j for j in robot.driven if _width(model, j) > WIDEST]
    if wide:
        found.append(f"ranges wider than four turns: {listed(wide)}. Are they in degrees? URDF has radians")
    size = _size(robot, model, data)
    if not SMALLEST < size < TALLEST:
        unit = "millimetres" if size >= TALLEST else "other units than metres"
        found.append(f'it measures {size:.3g} m. Is it in {unit}? A mesh has a scale: scale="0.001 0.001 0.001"')
    mass = robot.mass(model)
    if not LIGHTEST < mass < HEAVIEST:
        found.append(f"it weighs {mass:.3g} kg. Are its masses in kg?")
    return found


def _width(model: mujoco.MjModel, joint: str) -> float:
    number = model.joint(joint).id
    low, high = model.jnt_range[number]
    return float(high - low) if model.jnt_limited[number] and model.jnt_type[number] == HINGE else 0.0


def _size(robot: Robot, model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """m, the diagonal of the box around all shapes of the robot."""
    own = np.isin(model.geom_bodyid, robot.bodies(model))
    reach = model.geom_rbound[own, None]
    return float(np.linalg.norm((data.geom_xpos[own] + reach).max(0) - (data.geom_xpos[own] - reach).min(0)))


def _joints(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray) -> list[str]:
    endless = [j for j in robot.limits if is_wheel(model, j)]
    outside = []
    for joint in robot.driven:
        number = model.joint(joint).id
        low, high = model.jnt_range[number]
        if model.jnt_limited[number] and not low <= 0 <= high:
            outside.append(f"{joint} ({low:.2f} to {high:.2f})")
    passive = [joint.name for joint in robot.spec.joints if joint.type == HINGE and joint.name not in robot.driven]
    return [
        *([f"no range, so driven by velocity, as a wheel: {listed(endless)}"] if endless else []),
        *([f"0 is outside the range: {listed(outside)}"] if outside else []),
        *([f"joints that nothing drives: {listed(passive)}"] if passive else []),
    ]


def _bodies(robot: Robot, model: mujoco.MjModel) -> list[str]:
    own = robot.bodies(model)
    shaped = set(model.body_weldid[model.geom_bodyid[robot.geoms(model)]].tolist())
    bare = [model.body(b).name for b in own if model.body_weldid[b] == b and b not in shaped]
    dense = [model.body(b).name for b in own if _density(model, b) > LARGEST_DENSITY]
    return [
        *([f"no collision shape: {listed(bare)}"] if bare else []),
        *([f"an inertia too small for its mass (denser than lead): {listed(dense)}"] if dense else []),
    ]


def _density(model: mujoco.MjModel, body: int) -> float:
    """kg/m^3 of the box that has the body's mass and inertia; 0 for what hardly weighs anything."""
    mass, moments = float(model.body_mass[body]), model.body_inertia[body]
    if mass < 0.01:
        return 0.0
    squares = 6.0 * (moments.sum() - 2.0 * moments) / mass
    return mass / float(np.sqrt(np.maximum(squares, 1e-12)).prod())


def _strength(robot: Robot, model: mujoco.MjModel) -> list[str]:
    unlimited = [joint for joint, limit in robot.limits.items() if limit.effort is None]
    if not unlimited:
        return []
    fast = [joint for joint in unlimited if robot.limits[joint].velocity is not None]
    dropped = f". The speed limit of {listed(fast)} is left out, because it needs one of torque" if fast else ""
    return [
        f"no effort limit: {listed(unlimited)}. Their motors have no limit of torque; add effort to their entry in "
        f"task.drives ({count(len(unlimited), 'joint')}){dropped}"
    ]


def overlaps(robot: Robot, model: mujoco.MjModel, qpos: np.ndarray) -> list[tuple[str, str]]:
    """Pairs of the robot's bodies that overlap in a pose, so that contacts would push them apart."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    robots = set(robot.bodies(model).tolist())
    pairs = set()
    for contact in data.contact:
        one, other = sorted(int(model.geom_bodyid[geom]) for geom in contact.geom)
        if {one, other} <= robots and contact.dist < 0:
            pairs.add((model.body(one).name, model.body(other).name))
    return sorted(pairs)

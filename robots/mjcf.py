"""An MJCF as a robot on a floor: what it has is kept; what it lacks is added, and listed.

Motors, whose control is a torque, become PD motors: a policy that stands says where its joints are wanted. Position and
velocity servos stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from livegym.compat.core.asset_model import listed
from livegym.robots.files import require_files
from livegym.robots.robot import FLAT, FREE, HINGE, SLIDE, Limit, Robot, free_name
from livegym.sim.drives import effort_of
from livegym.sim.model import compile_spec, load_spec
from livegym.utils.errors import UserError

SERVO_BIAS = mujoco.mjtBias.mjBIAS_AFFINE
IMPLICIT = (mujoco.mjtIntegrator.mjINT_IMPLICITFAST, mujoco.mjtIntegrator.mjINT_IMPLICIT)


def read(file: Path) -> Robot:
    """Read an MJCF. Raises UserError for one without joints, without actuators, or with several robots."""
    spec = load_spec(file)
    require_files(spec, file)
    moving = [joint for joint in spec.joints if joint.type in (HINGE, SLIDE)]
    if not moving:
        raise UserError(f"{file}: it has no joint that moves. Allowed: a robot with hinges or slides.")
    if not spec.actuators:
        raise UserError(
            f"{file}: it has {len(moving)} joints, but no actuators, so nothing can move it. Allowed: an MJCF with "
            'an <actuator> section, for example <motor name="knee" joint="knee" ctrlrange="-20 20"/>, or a URDF, '
            "whose joints get motors. Add one for each joint that has a motor."
        )
    base = _base(spec, file)
    base.name = base.name or free_name("base", [body.name for body in spec.bodies])
    _name(moving, spec.joints, "joint")
    _name(spec.bodies, spec.bodies, "body")
    _name(spec.actuators, spec.actuators, "actuator")
    _name([geom for geom in spec.geoms if geom.type in FLAT], spec.geoms, "ground")
    robot = Robot(file, "MJCF", spec, base.name)
    _float(robot, base)
    _sort_actuators(robot)
    return robot


def _name(elements: Sequence[Any], kind: Sequence[Any], wanted: str) -> None:
    """Give those elements of a kind that have no name one, because a task finds them by their names."""
    taken = {element.name for element in kind}
    for number, element in enumerate(elements):
        if not element.name:
            element.name = free_name(f"{wanted}{number}", taken)
            taken.add(element.name)


def _base(spec: mujoco.MjSpec, file: Path) -> mujoco.MjsBody:
    """The body of the robot itself: the only one below the world that joints belong to."""
    roots = [body for body in spec.worldbody.bodies if _moving_below(body)]
    if len(roots) != 1:
        names = ", ".join(body.name or "?" for body in roots)
        raise UserError(
            f"{file}: {len(roots)} bodies below the world have joints ({names}). Allowed: one robot, with one base. "
            "Remove the others."
        )
    return roots[0]


def _moving_below(body: mujoco.MjsBody) -> bool:
    return any(joint.type in (HINGE, SLIDE) for joint in body.joints) or any(_moving_below(b) for b in body.bodies)


def _float(robot: Robot, base: mujoco.MjsBody) -> None:
    """Give the base a free joint if it has none, and keyframes the base's place in the file."""
    joints = {joint.name for joint in robot.spec.joints}
    free = next((joint for joint in base.joints if joint.type == FREE), None)
    if free is not None:
        free.name = free.name or free_name("floating_base", joints)
        return
    if list(base.joints):
        names = ", ".join(joint.name for joint in base.joints)
        raise UserError(
            f"{robot.file}: its base {robot.base} moves by {names}. Allowed: a base that floats (<freejoint/>), or one "
            "without a joint, which gets one."
        )
    before = compile_spec(robot.spec, robot.file)
    base.add_freejoint(name=free_name("floating_base", joints))
    for key, row, speeds in zip(robot.spec.keys, before.key_qpos, before.key_qvel, strict=True):
        own = np.flatnonzero(before.body_rootid[before.jnt_bodyid] == before.body(robot.base).id)[0]
        place = np.concatenate((before.body(robot.base).pos, before.body(robot.base).quat))
        key.qpos = np.insert(row, before.jnt_qposadr[own], place)
        key.qvel = np.insert(speeds, before.jnt_dofadr[own], np.zeros(6))
    robot.changes.append(f"{robot.base} floats: a free joint was added")


def _sort_actuators(robot: Robot) -> None:
    """Which joints get a motor, which have a servo, and which actuators the task leaves alone."""
    kinds = {joint.name: joint.type for joint in robot.spec.joints}
    replaced: list[str] = []
    odd: list[str] = []
    for actuator in robot.spec.actuators:
        joint = actuator.target
        alone = sum(other.target == joint for other in robot.spec.actuators) == 1
        plain = actuator.dyntype == mujoco.mjtDyn.mjDYN_NONE and actuator.gaintype == mujoco.mjtGain.mjGAIN_FIXED
        single = actuator.trntype == mujoco.mjtTrn.mjTRN_JOINT and kinds.get(joint) in (HINGE, SLIDE) and alone
        if single and plain and actuator.biastype == SERVO_BIAS:
            if not _is_target(actuator):
                odd.append(actuator.name)
                robot.idle.append(actuator.name)
                continue
            robot.servos[joint] = actuator.name
            if actuator.biasprm[1] == 0:
                robot.speed_servos.add(joint)
        elif single and plain and actuator.biastype == mujoco.mjtBias.mjBIAS_NONE:
            robot.limits[joint] = Limit(effort_of(actuator, robot.spec.joint(joint)))
            replaced.append(actuator.name)
        else:
            robot.idle.append(actuator.name)
    if replaced:
        robot.changes.append(f"torque motors became PD motors, whose control is a target: {listed(replaced)}")
        _make_stable(robot)
    if odd:
        robot.odd.append(
            f"servos that the standing task leaves at 0: {listed(odd)}. Their control is no position and no velocity "
            "of their joint: it is multiplied by a gear, or by another gain than the joint's own value"
        )
    if robot.idle:
        robot.changes.append(f"actuators that the standing task leaves at 0: {listed(robot.idle)}")
    if not robot.limits and not robot.servos:
        raise UserError(
            f"{robot.file}: none of its actuators moves a single joint directly ({listed(robot.idle)}). Allowed: "
            "motors or servos on joints. A task for muscles and tendons: docs/new-task.md"
        )


def _is_target(servo: mujoco.MjsActuator) -> bool:
    """Whether a servo's control is the position or the velocity that its joint shall have."""
    own = servo.biasprm[1] or servo.biasprm[2]
    return bool(own < 0 and np.isclose(servo.gainprm[0], -own) and servo.biasprm[0] == 0 and servo.gear[0] == 1)


def _make_stable(robot: Robot) -> None:
    """The damping of a motor must be integrated implicitly: a light joint would swing up otherwise."""
    if robot.spec.option.integrator in IMPLICIT:
        return
    robot.spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    robot.changes.append("the integrator became implicitfast, so that the physics step carries the motors' damping")

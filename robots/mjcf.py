"""An MJCF as a robot on a floor: what it has is kept; what it lacks is added, and listed.

Motors, whose control is a torque, become PD motors: a policy that stands says where its joints are wanted. Position and
velocity servos stay as they are.
"""

from __future__ import annotations

from pathlib import Path

import mujoco

from livegym.compat.core.asset_model import listed
from livegym.robots.files import require_files
from livegym.robots.robot import FREE, HINGE, SLIDE, Limit, Robot
from livegym.sim.drives import effort_of
from livegym.sim.model import load_spec
from livegym.utils.errors import UserError

SERVO_BIAS = mujoco.mjtBias.mjBIAS_AFFINE


def read(file: Path) -> Robot:
    """Read an MJCF. Raises UserError for one without joints, without actuators, or with several robots."""
    spec = load_spec(file)
    require_files(spec, file)
    moving = [joint for joint in spec.joints if joint.type in (HINGE, SLIDE)]
    if not moving:
        raise UserError(f"{file}: it has no joint that moves. Allowed: a robot with hinges or slides.")
    for number, joint in enumerate(moving):
        joint.name = joint.name or f"joint{number}"
    if not spec.actuators:
        raise UserError(
            f"{file}: it has {len(moving)} joints, but no actuators, so nothing can move it. Allowed: an MJCF with "
            'an <actuator> section, for example <motor name="knee" joint="knee" ctrlrange="-20 20"/>, or a URDF, '
            "whose joints get motors. Add one for each joint that has a motor."
        )
    robot = Robot(file, "MJCF", spec, _base(spec, file))
    _float(robot)
    _sort_actuators(robot)
    return robot


def _base(spec: mujoco.MjSpec, file: Path) -> str:
    """The body of the robot itself: the only one below the world that joints belong to."""
    roots = [body for body in spec.worldbody.bodies if _moving_below(body)]
    if len(roots) != 1:
        names = ", ".join(body.name or "?" for body in roots)
        raise UserError(
            f"{file}: {len(roots)} bodies below the world have joints ({names}). Allowed: one robot, with one base. "
            "Remove the others."
        )
    base = roots[0]
    base.name = base.name or "base"
    return str(base.name)


def _moving_below(body: mujoco.MjsBody) -> bool:
    return any(joint.type in (HINGE, SLIDE) for joint in body.joints) or any(_moving_below(b) for b in body.bodies)


def _float(robot: Robot) -> None:
    base = robot.spec.body(robot.base)
    free = next((joint for joint in base.joints if joint.type == FREE), None)
    if free is not None:
        free.name = free.name or "floating_base"
        return
    if list(base.joints):
        names = ", ".join(joint.name for joint in base.joints)
        raise UserError(
            f"{robot.file}: its base {robot.base} moves by {names}. Allowed: a base that floats (<freejoint/>), or one "
            "without a joint, which gets one."
        )
    base.add_freejoint(name="floating_base")
    robot.changes.append(f"{robot.base} floats: a free joint was added")


def _sort_actuators(robot: Robot) -> None:
    """Which joints get a motor, which have a servo, and which actuators the task leaves alone."""
    kinds = {joint.name: joint.type for joint in robot.spec.joints}
    replaced = []
    for number, actuator in enumerate(robot.spec.actuators):
        actuator.name = actuator.name or f"actuator{number}"
        joint = actuator.target
        alone = sum(other.target == joint for other in robot.spec.actuators) == 1
        if actuator.trntype != mujoco.mjtTrn.mjTRN_JOINT or kinds.get(joint) not in (HINGE, SLIDE) or not alone:
            robot.idle.append(actuator.name)
        elif actuator.biastype == SERVO_BIAS and actuator.dyntype == mujoco.mjtDyn.mjDYN_NONE:
            robot.servos[joint] = actuator.name
        elif actuator.biastype == mujoco.mjtBias.mjBIAS_NONE and actuator.dyntype == mujoco.mjtDyn.mjDYN_NONE:
            robot.limits[joint] = Limit(effort_of(actuator, robot.spec.joint(joint)))
            replaced.append(actuator.name)
        else:
            robot.idle.append(actuator.name)
    if replaced:
        robot.changes.append(f"torque motors became PD motors, whose control is a target: {listed(replaced)}")
    if robot.idle:
        robot.changes.append(f"actuators that the standing task leaves at 0: {listed(robot.idle)}")
    if not robot.limits and not robot.servos:
        raise UserError(
            f"{robot.file}: none of its actuators moves a single joint directly ({listed(robot.idle)}). Allowed: "
            "motors or servos on joints. A task for muscles and tendons: docs/new-task.md"
        )

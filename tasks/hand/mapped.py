"""Builds a hand from a name map: a foreign model on our base joints, with sites and motors where the map says.

    spec, table = mapped_hand("allegro", "/where/it/is/allegro.urdf")

What the model says of shapes, masses and ranges stays. Added or replaced are: the base, which floats (gravity does not
act on the hand); a position servo for each joint; sites of tips, pads and the grasp point. The model's own actuators,
sensors and keyframes are left out. The hand's parts do not collide with each other, as those of the built-in hand.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import mujoco
import numpy as np

from livegym.sim.model import compile_spec, load_spec
from livegym.sim.urdf import load_urdf
from livegym.tasks.hand.map_file import HandMap, MappedControl, Motors, read_map
from livegym.tasks.hand.names import BASE_JOINTS
from livegym.tasks.hand.table import SLIDES, HandTable
from livegym.utils.errors import UserError, not_one_of

HINGE, SLIDE = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE
LIMITED = mujoco.mjtLimited.mjLIMITED_TRUE
SLIDE_MOTORS = Motors(stiffness=2000.0, damping=100.0, effort=60.0, joint_damping=20.0, armature=0.1)
TURN_MOTORS = Motors(stiffness=60.0, damping=3.0, effort=6.0, joint_damping=0.5, armature=0.01)
SLIDE_RANGE, TURN_RANGE = 0.5, 1.6
"""m and rad to either side. The base is that of the built-in hand (models/hand/defaults.xml)."""
BASE_MASS, BASE_INERTIA = 0.05, 1e-4
"""kg and kg m^2 of each body between the base joints."""
FIRM = (0.01, 1.0)
"""solref of joint limits, as of the built-in hand: they hold in steps of 5 ms."""
Range = tuple[float, float]
HAND_GROUP, WORLD_GROUP = 1, 2
"""Bits of collision: the hand's shapes touch those of the world, and not each other."""


def mapped_hand(source: str, asset: str | None) -> tuple[mujoco.MjSpec, HandTable]:
    """The model and the table of the hand that the map `source` describes; `asset` replaces the map's model.

    Raises UserError that names the key and the nearest name for each name that the model lacks, for joints that are
    neither driven nor held, and for values outside of the joints' ranges.
    """
    given = read_map(source)
    model = Path(asset) if asset is not None else given.model
    if not model.is_file():
        raise UserError(
            f"hand={source}: there is no model {model}. Give the path of {given.model.name}: asset=<path>"
            + ("." if asset is not None else ", or correct `model` in the map.")
        )
    foreign = load_urdf(model) if model.suffix.lower() == ".urdf" else load_spec(model, attached=True)
    spec = _on_base(given, foreign)
    ranges = _ranges(given, spec, compile_spec(spec, model))
    _refuse_values(given, ranges)
    _add_sites(given, spec)
    _add_motors(given, spec, ranges)
    table = HandTable(
        base_joints=BASE_JOINTS,
        finger_joints=tuple(ranges),
        drives={name: control.joints for name, control in given.controls.items()},
        fingers=tuple(given.fingers),
        links=tuple(finger.link for finger in given.fingers.values()),
        palm=given.palm,
        grasp=_vector(_axes(given) @ np.subtract(given.grasp, given.origin)),
        opened={name: control.opened for name, control in given.controls.items()},
    )
    _refuse_untouchable(given, compile_spec(spec, model))
    return spec, table


def _axes(given: HandMap) -> np.ndarray:
    """(3, 3) turns vectors of the palm's frame into the hand's: fingers along +x, the palm looks along -z."""
    x = np.array(given.along) / np.linalg.norm(given.along)
    z = -np.array(given.faces)
    z = z - z.dot(x) * x
    z /= np.linalg.norm(z)
    return np.stack([x, np.cross(z, x), z])


def _on_base(given: HandMap, foreign: mujoco.MjSpec) -> mujoco.MjSpec:
    """The palm, with all that is below it, on six base joints, as a model of its own."""
    palm = foreign.body(given.palm)
    if palm is None:
        raise not_one_of(f"hand={given.source}: palm", given.palm, _names(foreign.bodies))
    for element in (*foreign.actuators, *foreign.sensors, *foreign.keys, *palm.joints):
        foreign.delete(element)
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.modelname = f"hand_{given.palm}"
    body = spec.worldbody
    for number, name in enumerate(BASE_JOINTS):
        body = body.add_body(name=f"hand_{name.removeprefix('base_')}", gravcomp=1)
        body.explicitinertial = True
        body.mass, body.inertia = BASE_MASS, [BASE_INERTIA] * 3
        body.ipos = [0, 0, 0]
        slides = number < SLIDES
        joint = body.add_joint(name=name, type=SLIDE if slides else HINGE, axis=np.eye(3)[number % 3])
        reach = SLIDE_RANGE if slides else TURN_RANGE
        joint.range = [-reach, reach]
        _drive(spec, joint, (-reach, reach), SLIDE_MOTORS if slides else TURN_MOTORS)
    turn = np.empty(4)
    mujoco.mju_mat2Quat(turn, _axes(given).flatten())
    place = body.add_frame(pos=-_axes(given) @ given.origin, quat=turn)
    foreign.option = mujoco.MjSpec().option  # the physics is the task's
    foreign.njmax, foreign.nconmax = -1, -1
    foreign.default.name = "model-main"  # otherwise the saved model would have a default class without a name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that names may clash: they stay as they are on purpose
        place.attach_body(palm, "", "")
    palm = spec.body(given.palm)
    palm.pos, palm.quat = [0, 0, 0], [1, 0, 0, 0]
    palm.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
    for part in _below(palm):
        part.gravcomp = 1
        for geom in part.geoms:
            if geom.contype or geom.conaffinity:
                geom.contype, geom.conaffinity = HAND_GROUP, WORLD_GROUP
    return spec


def _below(body: mujoco.MjsBody) -> list[mujoco.MjsBody]:
    """A body, and all bodies below it, in the order of the model."""
    return [body, *(part for child in body.bodies for part in _below(child))]


def _ranges(given: HandMap, spec: mujoco.MjSpec, model: mujoco.MjModel) -> dict[str, Range]:
    """The ranges (rad, m) of the fingers' joints, in the order of the model; each must be driven or held."""
    joints = [joint for body in _below(spec.body(given.palm)) for joint in body.joints]
    found = {joint.name: _range(model, joint.name) for joint in joints}
    where = f"hand={given.source}"
    for name, control in given.controls.items():
        for joint in control.joints:
            if joint not in found:
                raise not_one_of(f"{where}: controls.{name}.joints", joint, found)
    for joint in given.held:
        if joint not in found:
            raise not_one_of(f"{where}: held", joint, found)
    driven = {joint for control in given.controls.values() for joint in control.joints}
    idle = [name for name in found if name not in driven and name not in given.held]
    if idle:
        raise UserError(
            f"{where}: joints below {given.palm} that are neither driven nor held: {', '.join(idle)}. Name each in a "
            "control, or list it under held."
        )
    for joint in joints:
        if joint.type not in (HINGE, SLIDE):
            raise UserError(f"{where}: {joint.name} is no hinge. Allowed: joints with one angle or one length.")
        if not found[joint.name][0] < found[joint.name][1]:
            raise UserError(
                f"{where}: {joint.name} has no range, so a control has no limits. Give it one in the model."
            )
    return found


def _range(model: mujoco.MjModel, joint: str) -> Range:
    low, high = model.joint(joint).range
    return float(low), float(high)


def _refuse_values(given: HandMap, ranges: dict[str, Range]) -> None:
    """Raises UserError if an open hand, or a joint that is held at 0, would be outside of the ranges."""
    where = f"hand={given.source}"
    for name in given.held:
        low, high = ranges[name]
        if not low <= 0 <= high:
            raise UserError(
                f"{where}: held: {name} has the range {low:.3g} to {high:.3g}, without 0. Drive it instead."
            )
    for name, control in given.controls.items():
        low, high = _limits(control, ranges)
        if not low < high:
            raise UserError(
                f"{where}: controls.{name}: its joints have no position in common ({low:.3g} to {high:.3g}). "
                "Change the factors, or drive them by several controls."
            )
        if not low <= control.opened <= high:
            raise UserError(f"{where}: controls.{name}.open={control.opened:g}. Allowed: {low:.3g} to {high:.3g} rad.")


def _limits(control: MappedControl, ranges: dict[str, Range]) -> Range:
    """The range that all joints of a control allow, rad."""
    bounds = [sorted(end / factor for end in ranges[name]) for name, factor in control.joints.items()]
    return max(low for low, _ in bounds), min(high for _, high in bounds)


def _add_sites(given: HandMap, spec: mujoco.MjSpec) -> None:
    below = _below(spec.body(given.palm))
    bodies = {body.name: body for body in below}
    _add_site(spec, bodies[given.palm], "grasp", given.grasp)
    for name, finger in given.fingers.items():
        if finger.link not in bodies:
            raise not_one_of(f"hand={given.source}: fingers.{name}.link", finger.link, _names(below))
        _add_site(spec, bodies[finger.link], f"{name}_tip", finger.tip)
        _add_site(spec, bodies[finger.link], f"{name}_pad", finger.pad)


def _add_site(spec: mujoco.MjSpec, body: mujoco.MjsBody, name: str, place: tuple[float, float, float]) -> None:
    if spec.site(name) is not None:
        raise UserError(f"model: it has a site {name} already, which the name map adds. Rename it in the model.")
    body.add_site(name=name, pos=place, size=[0.003] * 3, rgba=[0.2, 0.5, 0.9, 1])


def _add_motors(given: HandMap, spec: mujoco.MjSpec, ranges: dict[str, Range]) -> None:
    motors = {joint: control.motors for control in given.controls.values() for joint in control.joints}
    for name, reach in ranges.items():
        _drive(spec, spec.joint(name), reach, motors.get(name, given.motors))


def _drive(spec: mujoco.MjSpec, joint: mujoco.MjsJoint, reach: Range, motors: Motors) -> None:
    """A position servo of the joint's own name over its range (rad, m), and the joint's own damping and armature."""
    joint.limited = LIMITED
    joint.damping = [motors.joint_damping, 0, 0]
    joint.armature = motors.armature
    joint.frictionloss = 0
    joint.solref_limit = FIRM
    servo = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    servo.set_to_position(kp=motors.stiffness, kv=motors.damping)
    servo.ctrllimited, servo.ctrlrange = LIMITED, reach
    servo.forcelimited, servo.forcerange = LIMITED, [-motors.effort, motors.effort]


def _refuse_untouchable(given: HandMap, model: mujoco.MjModel) -> None:
    """Raises UserError for a finger whose contacts cannot be sensed, because nothing on its link collides."""
    for name, finger in given.fingers.items():
        body = model.body(finger.link)
        first, count = int(body.geomadr[0]), int(body.geomnum[0])
        if not any(model.geom_contype[first : first + count]):
            raise UserError(
                f"hand={given.source}: fingers.{name}.link={finger.link}: it has no shape that collides, so it "
                "cannot touch anything. Name the body that does."
            )


def _names(bodies: list[mujoco.MjsBody]) -> list[str]:
    return [body.name for body in bodies if body.name and body.name != "world"]


def _vector(values: np.ndarray) -> tuple[float, float, float]:
    x, y, z = map(float, values)
    return x, y, z

"""The hand's model: the built-in hand, or an MJCF of your own with the same names.

    python train.py task=BlindGrasping asset=my_hand.xml

Its first six joints are the base joints, which move it relative to the place that the task gives it. Looks, masses and
gains are free; the physics options are the task's. The pose of the open hand above the box, which BlindGrasping uses in
its rewards and for its easy starts, is set for the proportions of the built-in hand: another hand needs a name map,
which has numbers of its own (`tasks/hand/map_file.py`).
"""

from __future__ import annotations

from pathlib import Path

import mujoco
import torch

from livegym.sim.model import compile_spec, load_spec
from livegym.tasks.hand.names import OURS as TABLE
from livegym.tasks.hand.names import PALM_SITE
from livegym.utils.errors import UserError

OURS = Path(__file__).parent.parent / "models" / "hand" / "hand.xml"
NAMES = {
    "joint": TABLE.joints,
    "actuator": TABLE.joints,
    "body": (TABLE.palm, *TABLE.links),
    "site": (PALM_SITE, TABLE.grasp_site, *TABLE.tip_sites, *TABLE.pad_sites),
}
"""The names that a hand must have, by kind."""
PLURALS = {"body": "bodies"}


def hand_model(asset: str | None) -> Path:
    """The hand's MJCF. Raises UserError if the file cannot be read, or lacks something that tasks read or drive."""
    if asset is None:
        return OURS
    path = Path(asset)
    if not path.is_file():
        raise UserError(
            f"asset={asset}: there is no such file on this machine. Give the MJCF of the hand: task=<Task> "
            "asset=<path>; asset=null is the built-in hand."
        )
    spec = load_spec(path)
    elements = {"joint": spec.joints, "actuator": spec.actuators, "body": spec.bodies, "site": spec.sites}
    missing = []
    for kind, needed in NAMES.items():
        found = {element.name for element in elements[kind]}
        lacking = [name for name in needed if name not in found]
        missing += [f"{PLURALS.get(kind, f'{kind}s')}: {', '.join(lacking)}"] if lacking else []
    if missing:
        raise UserError(f"asset={asset} lacks " + "; ".join(missing) + ". The table of names is in docs/tasks.md.")
    model = compile_spec(spec, path)
    for name in TABLE.joints:
        problem = _actuator_problem(model, name)
        if problem:
            raise UserError(f"asset={asset}: {problem}. Try <position name={name!r} joint={name!r} inheritrange='1'/>")
    ranges = torch.tensor([[float(end) for end in model.actuator(name).ctrlrange] for name in TABLE.joints])
    for control, (low, high) in zip(TABLE.controls, TABLE.control_limits(ranges).tolist(), strict=True):
        if not low < high:
            raise UserError(
                f"asset={asset}: the joints that {control} drives have no position in common "
                f"({low:.3g} to {high:.3g}). Let their ranges overlap."
            )
    return path


def _actuator_problem(model: mujoco.MjModel, name: str) -> str:
    """The fault of a joint and of the actuator of its name, as text; '' if there is none."""
    joint, actuator = model.joint(name), model.actuator(name)
    if int(joint.type[0]) not in map(int, (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)):
        return f"joint {name} must be a hinge or a slide"
    if int(actuator.trntype[0]) != int(mujoco.mjtTrn.mjTRN_JOINT) or actuator.trnid[0] != joint.id:
        return f"actuator {name} must drive the joint of its own name"
    if actuator.gainprm[0] <= 0 or actuator.gainprm[0] != -actuator.biasprm[1]:
        return f"actuator {name} must be a position actuator"
    low, high = actuator.ctrlrange
    if not low < high:
        return f"actuator {name} has no control range"
    if joint.limited[0] and (low < joint.range[0] - 1e-6 or high > joint.range[1] + 1e-6):
        least, most = joint.range
        return f"actuator {name} has the range {low:.3g} to {high:.3g}, but its joint has {least:.3g} to {most:.3g}"
    return ""

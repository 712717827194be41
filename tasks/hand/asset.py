"""Which hand: ours, or an MJCF of one's own with the same names.

    python train.py task=BlindGrasping asset=my_hand.xml

Its base joints, the first six, say where it is relative to the place that the task gives it. How it looks, what it
weighs and how its joints are driven is its own affair; options of the physics are the task's. The open hand above the
box, from which BlindGrasping's rewards and easy starts take their poses, is written for our hand's proportions
(`tasks/blind_grasping.py`): another hand needs other numbers there.
"""

from __future__ import annotations

from pathlib import Path

from sim.model import compile_spec, load_spec
from tasks.hand.names import DISTAL_BODIES, GRASP_SITE, JOINTS, PAD_SITES, PALM, PALM_SITE, TIP_SITES
from utils.errors import UserError

OURS = Path(__file__).parent.parent / "models" / "hand" / "hand.xml"
NAMES = {
    "joint": JOINTS,
    "actuator": JOINTS,
    "body": (PALM, *DISTAL_BODIES),
    "site": (PALM_SITE, GRASP_SITE, *TIP_SITES, *PAD_SITES),
}
"""What a hand has to have, by kind."""
PLURALS = {"body": "bodies"}


def hand_model(asset: str | None) -> Path:
    """The hand's MJCF. Raises UserError where one's own cannot be read, or lacks something that tasks read or drive."""
    if asset is None:
        return OURS
    path = Path(asset)
    if not path.is_file():
        raise UserError(
            f"asset={asset}: there is no such file on this machine. Give the MJCF of the hand: asset=<path>; "
            "asset=null is our own hand."
        )
    spec = load_spec(path)
    there = {"joint": spec.joints, "actuator": spec.actuators, "body": spec.bodies, "site": spec.sites}
    missing = []
    for kind, needed in NAMES.items():
        found = {thing.name for thing in there[kind]}
        lacking = [name for name in needed if name not in found]
        missing += [f"{PLURALS.get(kind, f'{kind}s')}: {', '.join(lacking)}"] if lacking else []
    if missing:
        raise UserError(f"asset={asset} lacks " + "; ".join(missing) + ". The table of names is in docs/tasks.md.")
    model = compile_spec(spec, path)
    for name in JOINTS:
        low, high = model.actuator(name).ctrlrange
        if not low < high:
            raise UserError(
                f"asset={asset}: actuator {name} has no range of control. Give it one: ctrlrange, or inheritrange=1 on "
                "a position actuator."
            )
    return path

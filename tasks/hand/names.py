"""The hand's names, in one table: joints, actuators, links, sites, and which control drives which joints.

Your own hand (`asset=path.xml`) must have these names. Joints come in this order in every observation.
"""

from __future__ import annotations

import torch
from torch import Tensor

FINGERS = ("thumb", "index", "middle", "ring", "little")

BASE_JOINTS = ("base_x", "base_y", "base_z", "base_roll", "base_pitch", "base_yaw")
"""Three slides (m) and three hinges (rad), relative to the place that the task gives the hand."""

FINGER_JOINTS = (
    "thumb_rotation", "thumb_mcp", "thumb_pip", "thumb_dip",
    "index_spread", "index_mcp", "index_pip", "index_dip",
    "middle_spread", "middle_mcp", "middle_pip", "middle_dip",
    "ring_spread", "ring_mcp", "ring_pip", "ring_dip",
    "little_spread", "little_mcp", "little_pip", "little_dip",
)  # fmt: skip
"""rad; spreads turn a finger sideways, the others close it."""

JOINTS = BASE_JOINTS + FINGER_JOINTS
"""The 26 joints; each has a position actuator of the same name."""

BASE_CONTROLS = BASE_JOINTS

FINGER_COUPLING: dict[str, dict[str, float]] = {
    "thumb_rotation": {"thumb_rotation": 1.0},
    "thumb_mcp": {"thumb_mcp": 1.0},
    "thumb_distal": {"thumb_pip": 1.0, "thumb_dip": 1.0},
    "finger_spread": {"index_spread": 1.0, "ring_spread": -1.0, "little_spread": -2.0},
    "index_mcp": {"index_mcp": 1.0},
    "index_distal": {"index_pip": 1.0, "index_dip": 1.0},
    "middle_mcp": {"middle_mcp": 1.0},
    "middle_distal": {"middle_pip": 1.0, "middle_dip": 1.0},
    "ring_mcp": {"ring_mcp": 1.0},
    "ring_distal": {"ring_pip": 1.0, "ring_dip": 1.0},
    "little_mcp": {"little_mcp": 1.0},
    "little_distal": {"little_pip": 1.0, "little_dip": 1.0},
}
"""Control -> the joints that it drives, each with a factor: as in a human hand, some joints move together.

The middle finger does not spread. One control spreads the others, the outermost twice as far.
"""

FINGER_CONTROLS = tuple(FINGER_COUPLING)
CONTROLS = BASE_CONTROLS + FINGER_CONTROLS
"""The 18 controls, which a policy or a rule sets."""

TIP_SITES = tuple(f"{finger}_tip" for finger in FINGERS)
PAD_SITES = tuple(f"{finger}_pad" for finger in FINGERS)
PALM = "palm"
PALM_SITE = "palm"
GRASP_SITE = "grasp"
"""The place for the centre of an object before the hand grasps it: between thumb and fingers, below the palm."""
DISTAL_BODIES = tuple(f"{finger}_distal" for finger in FINGERS)
"""The bodies whose contact forces are sensed."""


def coupling() -> Tensor:
    """(18, 26) the matrix that turns targets of the controls into targets of the joints."""
    matrix = torch.zeros(len(CONTROLS), len(JOINTS))
    for name in BASE_CONTROLS:
        matrix[CONTROLS.index(name), JOINTS.index(name)] = 1.0
    for name, joints in FINGER_COUPLING.items():
        for joint, factor in joints.items():
            matrix[CONTROLS.index(name), JOINTS.index(joint)] = factor
    return matrix


def control_limits(joint_range: Tensor) -> Tensor:
    """(26, 2) limits of the joints -> (18, 2) limits of the controls: what all joints of a control allow."""
    limits = torch.empty(len(CONTROLS), 2)
    for row, drives in enumerate(coupling()):
        bounds = [joint_range[column] / drives[column] for column in drives.nonzero().flatten()]
        low = max(float(bound.min()) for bound in bounds)
        high = min(float(bound.max()) for bound in bounds)
        limits[row] = torch.tensor([low, high])
    return limits

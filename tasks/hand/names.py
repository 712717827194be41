"""The names of the built-in hand, in one table: joints, links, sites, which control drives which joints, and its pose.

An MJCF of your own with these names can take its place (`asset=path.xml`); a hand with other names needs a name map
(`hand=map.yaml`).
"""

from __future__ import annotations

from livegym.tasks.hand.table import HandTable

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

PALM_SITE = "palm"
OPEN_HAND = {"thumb_rotation": 1.5, "thumb_mcp": -0.2, "thumb_distal": 0.2, "finger_spread": 0.0}
"""Controls of an open hand that is about to grasp, rad. The next two are those of the fingers' joints."""
OPEN_MCP, OPEN_DISTAL = 0.9, 0.3

OURS = HandTable(
    base_joints=BASE_JOINTS,
    finger_joints=FINGER_JOINTS,
    drives=FINGER_COUPLING,
    fingers=FINGERS,
    links=tuple(f"{finger}_distal" for finger in FINGERS),
    palm="palm",
    grasp=(0.012, 0.02, -0.105),  # where the model has its site
    opened={name: OPEN_MCP if name.endswith("_mcp") else OPEN_DISTAL for name in FINGER_COUPLING} | OPEN_HAND,
)
"""The built-in hand: 26 joints, 18 controls. Its site `grasp` lies between thumb and fingers, below the palm."""

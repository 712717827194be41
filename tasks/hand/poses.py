"""Poses of the built-in hand, as values of its 18 controls."""

from __future__ import annotations

import torch
from torch import Tensor

from livegym.tasks.hand.names import BASE_JOINTS, FINGER_CONTROLS

OPEN_HAND = {"thumb_rotation": 1.5, "thumb_mcp": -0.2, "thumb_distal": 0.2, "finger_spread": 0.0}
"""Controls of an open hand that is about to grasp, rad. The next two are those of the fingers' joints."""
OPEN_MCP, OPEN_DISTAL = 0.9, 0.3
READY_SLIDES = {"base_x": -0.012, "base_y": -0.02, "base_z": -0.32}  # m


def ready_pose() -> Tensor:
    """(18,) m and rad: the open hand, level, with its grasp point at the box's nominal place."""
    values = dict.fromkeys(BASE_JOINTS, 0.0) | READY_SLIDES
    return torch.cat([torch.tensor([values[name] for name in BASE_JOINTS]), open_hand()])


def open_hand() -> Tensor:
    """(12,) rad: the finger controls of a hand that is about to grasp."""
    values = {name: OPEN_MCP if name.endswith("_mcp") else OPEN_DISTAL for name in FINGER_CONTROLS} | OPEN_HAND
    return torch.tensor([values[name] for name in FINGER_CONTROLS])

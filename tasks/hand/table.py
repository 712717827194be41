"""The table of a hand: the names of its parts in its model, and which control drives which joints.

    table = OURS                                  # tasks/hand/names.py; a name map makes one of another hand
    targets @ table.coupling()                    # (N, controls) -> (N, joints)
    table.ready_pose((0.0, 0.0, -0.425))          # (controls,) open, with the grasp point there

Tasks read the names of a hand from its table alone, so another hand can take the place of the built-in one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

SLIDES = 3
"""The first base joints are slides (m); all other joints are in rad."""


@dataclass(frozen=True)
class HandTable:
    """Names of a hand in its model; joints and controls come in this order in every observation and action.

    Each joint has a position actuator of its own name.
    """

    base_joints: tuple[str, ...]  # three slides, three hinges: relative to the place that the task gives the hand
    finger_joints: tuple[str, ...]
    drives: Mapping[str, Mapping[str, float]]  # finger control -> the joints that it drives, each with a factor
    fingers: tuple[str, ...]  # the thumb first; the sites <finger>_tip and <finger>_pad are theirs
    links: tuple[str, ...]  # the bodies whose contact forces are sensed, one for each finger
    palm: str  # a body
    grasp: tuple[float, float, float]  # m, from the hand's place to its grasp point, with the base joints at 0
    opened: Mapping[str, float]  # finger control -> rad, in a hand that is about to grasp
    grasp_site: str = "grasp"

    @property
    def joints(self) -> tuple[str, ...]:
        """All joints, those of the base first."""
        return self.base_joints + self.finger_joints

    @property
    def finger_controls(self) -> tuple[str, ...]:
        """The controls of the fingers."""
        return tuple(self.drives)

    @property
    def controls(self) -> tuple[str, ...]:
        """All controls, which a policy or a rule sets: one for each base joint, then those of the fingers."""
        return self.base_joints + self.finger_controls

    @property
    def tip_sites(self) -> tuple[str, ...]:
        """The site at the end of each finger."""
        return tuple(f"{finger}_tip" for finger in self.fingers)

    @property
    def pad_sites(self) -> tuple[str, ...]:
        """The site in the middle of each fingerpad."""
        return tuple(f"{finger}_pad" for finger in self.fingers)

    def coupling(self) -> Tensor:
        """(controls, joints) the matrix that turns targets of the controls into targets of the joints."""
        matrix = torch.zeros(len(self.controls), len(self.joints))
        for name in self.base_joints:
            matrix[self.controls.index(name), self.joints.index(name)] = 1.0
        for name, joints in self.drives.items():
            for joint, factor in joints.items():
                matrix[self.controls.index(name), self.joints.index(joint)] = factor
        return matrix

    def control_limits(self, joint_range: Tensor) -> Tensor:
        """(joints, 2) limits of the joints -> (controls, 2) limits of the controls: what all of its joints allow."""
        limits = torch.empty(len(self.controls), 2)
        for row, drives in enumerate(self.coupling()):
            bounds = [joint_range[column] / drives[column] for column in drives.nonzero().flatten()]
            low = max(float(bound.min()) for bound in bounds)
            high = min(float(bound.max()) for bound in bounds)
            limits[row] = torch.tensor([low, high])
        return limits

    def open_hand(self) -> Tensor:
        """(finger controls,) rad: a hand that is about to grasp."""
        return torch.tensor([self.opened[name] for name in self.finger_controls])

    def ready_pose(self, place: tuple[float, float, float]) -> Tensor:
        """(controls,) m and rad: the open hand, level, with its grasp point at `place`, m from the hand's place."""
        slides = [there - here for there, here in zip(place, self.grasp, strict=True)]
        turns = [0.0] * (len(self.base_joints) - SLIDES)
        return torch.cat([torch.tensor(slides + turns), self.open_hand()])

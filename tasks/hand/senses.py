"""The senses of the hand, as named observation blocks (also listed in `docs/tasks.md`).

    self.senses = HandSenses(sim, threshold=0.1)      # in bind()
    blocks = self.senses.blocks()                     # in observe(): name -> (N, width)

Positions in m, angles in rad, forces in N; `_w` in the world, `_h` in the frame of the palm.
"""

from __future__ import annotations

from itertools import combinations

from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.hand.table import HandTable
from livegym.utils.spatial import conjugate, into_frame, length, multiply


class HandSenses:
    """Reads the state of a hand from a simulator, from which it requests the fields."""

    def __init__(self, sim: Simulator, table: HandTable, threshold: float) -> None:
        """`threshold` is the force in N above which a fingertip counts as touching. Called before `sim.start()`."""
        sim.require("qpos", "qvel", "body_pos_w", "body_quat_w", "site_pos_w")
        sim.require_contact(*table.links)
        self.sim, self.threshold = sim, threshold
        self.table = table
        self.base_q, self.finger_q = sim.qpos_ids(table.base_joints), sim.qpos_ids(table.finger_joints)
        self.joint_q = self.base_q + self.finger_q  # in the order of the table
        self.base_v, self.finger_v = sim.qvel_ids(table.base_joints), sim.qvel_ids(table.finger_joints)
        self.tips, self.pads = sim.site_ids(table.tip_sites), sim.site_ids(table.pad_sites)
        self.palm, self.distal = sim.body_ids([table.palm])[0], sim.body_ids(table.links)
        pairs = list(combinations(range(len(table.fingers)), 2))  # (thumb, index), (thumb, middle), ...
        self.first, self.second = [a for a, _ in pairs], [b for _, b in pairs]

    @property
    def palm_pos_w(self) -> Tensor:
        """(N, 3) m, position of the palm."""
        return self.sim.body_pos_w[:, self.palm]

    @property
    def palm_quat_w(self) -> Tensor:
        """(N, 4) rotation of the palm, w, x, y, z."""
        return self.sim.body_quat_w[:, self.palm]

    @property
    def pads_w(self) -> Tensor:
        """(N, fingers, 3) m: the middle of each fingerpad."""
        return self.sim.site_pos_w[:, self.pads]

    @property
    def forces_w(self) -> Tensor:
        """(N, fingers, 3) N: net contact force on each distal link."""
        return self.sim.contact_force_w(self.table.links)

    @property
    def touching(self) -> Tensor:
        """(N, fingers) bool: the contact force on the distal link is above the threshold."""
        return length(self.forces_w) > self.threshold

    def in_hand(self, points_w: Tensor) -> Tensor:
        """(N, k, 3) points in the world -> the same points in the palm's frame."""
        return into_frame(points_w, self.palm_pos_w[:, None], self.palm_quat_w[:, None])

    def blocks(self) -> dict[str, Tensor]:
        """Name -> (N, width):

        base_position: the six base joints, m and rad, relative to the hand's place in the task
        base_velocity: velocities of the six base joints, m/s and rad/s
        finger_position: the finger joints, rad
        finger_velocity: velocities of the finger joints, rad/s
        hand_position_w: the palm's origin in the world, m
        hand_rotation_w: the palm's rotation in the world, quaternion w, x, y, z
        fingertips_w: positions of the fingertips in the world, m, thumb first
        fingertips_h: `fingertips_w` in the palm's frame
        fingerpads_w: positions of the fingerpads' centres in the world, m
        fingerpads_h: `fingerpads_w` in the palm's frame
        finger_rotations_w: rotations of the distal links (and their tips and pads) in the world, w, x, y, z
        finger_rotations_h: `finger_rotations_w` in the palm's frame
        contact_forces_w: net contact force on each distal link, N, world axes
        contacts: 1 for each finger whose contact force is above `contact_threshold`, otherwise 0
        pad_distances: distance between the fingerpads of each pair of fingers, m
        """
        sim, pads = self.sim, self.pads_w
        tips, rotations = sim.site_pos_w[:, self.tips], sim.body_quat_w[:, self.distal]
        return {
            "base_position": sim.qpos[:, self.base_q],
            "base_velocity": sim.qvel[:, self.base_v],
            "finger_position": sim.qpos[:, self.finger_q],
            "finger_velocity": sim.qvel[:, self.finger_v],
            "hand_position_w": self.palm_pos_w,
            "hand_rotation_w": self.palm_quat_w,
            "fingertips_w": tips.flatten(1),
            "fingertips_h": self.in_hand(tips).flatten(1),
            "fingerpads_w": pads.flatten(1),
            "fingerpads_h": self.in_hand(pads).flatten(1),
            "finger_rotations_w": rotations.flatten(1),
            "finger_rotations_h": multiply(conjugate(self.palm_quat_w)[:, None], rotations).flatten(1),
            "contact_forces_w": self.forces_w.flatten(1),
            "contacts": self.touching.float(),
            "pad_distances": length(pads[:, self.first] - pads[:, self.second]),
        }

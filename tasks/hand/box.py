"""A box beside a hand: state for rewards, terminations and a critic, which the hand's own senses do not have.

self.box = BesideHand(sim, self.hand.senses, "box")     # in bind()
self.box.fingers_on() >= 2                              # (N,) bool
"""

from __future__ import annotations

from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.hand.senses import HandSenses
from livegym.utils.spatial import into_frame, length

GROUND = "world"


class BesideHand:
    """A free box, and the contacts of hand, box and ground."""

    def __init__(self, sim: Simulator, senses: HandSenses, name: str) -> None:
        """`name` is that of its body, its free joint and its geom. Called before `sim.start()`."""
        self.sim = sim
        self.senses = senses
        self.name = name
        self.q = sim.qpos_ids([name])
        self.body = sim.body_ids([name])[0]
        self.geom = sim.geom_ids([name])[0]
        sim.require("body_vel_w")
        self.links, self.near_ground = senses.table.links, (*senses.table.links, senses.table.palm)
        sim.require_contact(*self.links, against=name)
        sim.require_contact(*self.near_ground, against=GROUND)
        self.nominal = sim.default_qpos[self.q[:3]].to(sim.device)  # (3,) m, nominal place; z is its half height

    @property
    def pos_w(self) -> Tensor:
        """(N, 3) m, position of its centre."""
        return self.sim.body_pos_w[:, self.body]

    @property
    def vel_w(self) -> Tensor:
        """(N, 6) its velocity, linear m/s, then angular rad/s."""
        return self.sim.body_vel_w[:, self.body]

    def half_height(self, env_ids: Tensor) -> Tensor:
        """(n,) m, half the height of the boxes of environments (n,)."""
        return self.sim.model_value("geom_size")[env_ids, self.geom, 2].float()

    def forces(self) -> Tensor:
        """(N, fingers) N, contact forces of the box on each fingertip."""
        return length(self.sim.contact_force_w(self.links, against=self.name))

    def ground_forces(self) -> Tensor:
        """(N, fingers + 1) N, contact forces of the ground on each fingertip and the palm."""
        return length(self.sim.contact_force_w(self.near_ground, against=GROUND))

    def touched(self) -> Tensor:
        """(N, fingers) bool: each finger touches the box."""
        return self.forces() > self.senses.threshold

    def fingers_on(self) -> Tensor:
        """(N,) how many fingers touch it, including the thumb."""
        return self.touched().sum(1).float()

    def pad_gaps(self) -> Tensor:
        """(N, fingers) m, from each fingerpad to the box, taken as a sphere with its nominal half height as radius."""
        return (length(self.senses.pads_w - self.pos_w[:, None]) - self.nominal[2]).clamp(min=0.0)

    def height(self, up: float) -> Tensor:
        """(N,) height of its centre: 0 on the ground, 1 at `up` m."""
        return (self.pos_w[:, 2] - self.nominal[2]) / (up - self.nominal[2])

    def blocks(self) -> dict[str, Tensor]:
        """Name -> (N, width), for a critic only:

        box_position_w: position of the box's centre in the world, m
        box_position_h: `box_position_w` in the palm's frame
        box_rotation_w: rotation of the box in the world, quaternion w, x, y, z
        box_velocity_w: velocity of the box, linear m/s, then angular rad/s, world axes
        box_contacts: 1 for each finger that touches the box
        """
        return {
            "box_position_w": self.pos_w,
            "box_position_h": into_frame(self.pos_w, self.senses.palm_pos_w, self.senses.palm_quat_w),
            "box_rotation_w": self.sim.body_quat_w[:, self.body],
            "box_velocity_w": self.vel_w,
            "box_contacts": self.touched().float(),
        }

"""Stander: stand on the floor, upright and still, and stay up when pushed.

The policy moves the targets of the motors about the default pose, and senses what a robot can measure: the direction of
gravity, the base's turning rate, its joints, and its own last action. The critic also sees height and velocity of the
base. An episode fails if the robot is too low or too tilted: its height is that of the centre of its trunk, its tilt
that of the base against the default pose. The motors themselves (gains, limits, delay) are `task.drives` in the yaml;
they follow their targets in every physics step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from livegym.schema.keydoc import key
from livegym.sim.base import Simulator
from livegym.tasks import shared_terms as terms
from livegym.tasks.base import Box, Task
from livegym.utils.spatial import from_rotation_vector, multiply

MOTORS: dict[str, str] = {"joint": "motor"}
"""Joint -> its actuator, in the order of the policy's actions: give them the order of the robot's driver."""
WHEELS: tuple[str, ...] = ()
"""Joints among them whose target is a velocity."""
BASE = "base"
FLOATING = "floating_base"
MIDDLE = "trunk_middle"
"""The site whose height counts."""
KEYFRAME = "default"
JOINTS = tuple(MOTORS)
BENDING = tuple(joint for joint in JOINTS if joint not in WHEELS)


@dataclass(frozen=True)
class StanderParams:
    """The parameters of Stander."""

    stand_height: float = key(0.5, "height of the trunk when it stands", unit="m", above=0)
    fall_height: float = key(0.3, "height of the trunk below which the episode fails", unit="m")
    max_tilt: float = key(1.0, "tilt of the base above which the episode fails", unit="rad", above=0)
    action_scale: float = key(0.5, "change of a joint's target at action 1", unit="rad or m", above=0)
    wheel_speed: float = key(10.0, "target of a wheel at action 1", unit="rad/s", above=0)
    start_drop: float = key(0.02, "height above the floor from which it starts", unit="m", low=0)
    start_bend: float = key(
        0.1, "at the start: largest distance of a joint from the default pose", unit="rad or m", low=0
    )
    start_tilt: float = key(0.1, "at the start: largest roll and pitch", unit="rad", low=0)
    start_speed: float = key(0.2, "at the start: largest velocity along each axis", unit="m/s and rad/s", low=0)


class Stander(Task):
    """Stand, upright and still, and stay up when pushed."""

    Params = StanderParams
    params: StanderParams

    @property
    def action_spec(self) -> Box:
        """One number for each motor."""
        return Box(len(JOINTS))

    def model_path(self) -> Path:
        """The robot on its floor."""
        return Path(__file__).parent / "models" / "stander.xml"

    def bind(self, sim: Simulator) -> None:
        """Find joints and motors by their names, and create buffers for the last action and its change."""
        sim.require("site_pos_w", "body_quat_w", "body_vel_w", "actuator_force")
        self.sim = sim
        (self.base,) = sim.body_ids([BASE])
        (self.middle,) = sim.site_ids([MIDDLE])
        self.motors = sim.actuator_ids(list(MOTORS.values()))
        self.joints_q = sim.qpos_ids(JOINTS)
        self.joints_v = sim.qvel_ids(JOINTS)
        self.bending_q = sim.qpos_ids(BENDING)
        self.base_q = sim.qpos_ids([FLOATING])
        self.base_v = sim.qvel_ids([FLOATING])
        self.default = sim.keyframe_qpos(KEYFRAME)
        self.wheel = torch.tensor([joint in WHEELS for joint in JOINTS], device=sim.device)
        self.up = -terms.gravity_in_base(self.default[self.base_q[3:]])  # an axis of the base
        self.neutral = torch.where(self.wheel, 0.0, self.default[self.joints_q])  # targets at action 0
        self.last = self.buffer(sim, "last_action", len(JOINTS))
        self.change = self.buffer(sim, "change", len(JOINTS))

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Near the default pose, a little above the floor, tilted and moving a little."""
        p, n = self.params, len(env_ids)

        def uniform(width: int) -> Tensor:
            return 2.0 * torch.rand(n, width, generator=rng, device=env_ids.device) - 1.0

        qpos = self.default.repeat(n, 1)
        qpos[:, self.bending_q] += p.start_bend * uniform(len(BENDING))
        qpos[:, self.base_q[2]] += p.start_drop
        tilt = torch.cat([p.start_tilt * uniform(2), torch.zeros(n, 1, device=env_ids.device)], 1)
        qpos[:, self.base_q[3:]] = multiply(from_rotation_vector(tilt), qpos[:, self.base_q[3:]])
        qvel = torch.zeros(n, self.sim.qvel.shape[1], device=env_ids.device)
        qvel[:, self.base_v] = p.start_speed * uniform(6)
        return qpos, qvel

    def control(self, action: Tensor) -> Tensor:
        """(N, motors) in [-1, 1] -> targets: positions about the default pose, and velocities of wheels."""
        p = self.params
        self.change.copy_(action - self.last)
        self.last.copy_(action)
        scale = torch.where(self.wheel, p.wheel_speed, p.action_scale)
        controls = torch.zeros_like(self.sim.ctrl)
        controls[:, self.motors] = self.neutral + scale * action
        return controls

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Named blocks:

        gravity: its direction as the base feels it
        turning_rate: of the base, about its own axes, rad/s
        joint_position: distance of each joint that is no wheel from the default pose, rad or m
        joint_velocity: of all joints, rad/s or m/s
        last_action: of the step before
        height: of the trunk, m, for the critic only
        base_velocity: along the base's own axes, m/s, for the critic only
        """
        quat, velocity = state.body_quat_w[:, self.base], state.body_vel_w[:, self.base]
        return {
            "gravity": terms.gravity_in_base(quat),
            "turning_rate": terms.in_base(quat, velocity[:, 3:]),
            "joint_position": state.qpos[:, self.bending_q] - self.default[self.bending_q],
            "joint_velocity": state.qvel[:, self.joints_v],
            "last_action": self.last,
            "height": state.site_pos_w[:, self.middle, 2:],
            "base_velocity": terms.in_base(quat, velocity[:, :3]),
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Named terms without weights:

        height: 1 at `stand_height`, 0.37 a quarter of it away
        upright: cosine of the base's tilt against the default pose
        still: 1 at rest, 0.37 at a speed of 0.5 m/s
        pose: 1 in the default pose, exp(-mean square distance of the joints / 0.5 rad^2)
        energy: mechanical power of the motors, W
        smooth: mean square change of the action
        fell: 1 in the step that ends the episode in failure
        """
        p = self.params
        bend = state.qpos[:, self.bending_q] - self.default[self.bending_q]
        return {
            "height": terms.bell(state.site_pos_w[:, self.middle, 2], p.stand_height, 0.25 * p.stand_height),
            "upright": terms.upright(state.body_quat_w[:, self.base], self.up),
            "still": terms.bell(state.body_vel_w[:, self.base, :3].norm(dim=1), 0.0, 0.5),
            "pose": terms.closeness(bend.square().sum(1) / max(1, len(BENDING)), 2.0),
            "energy": terms.power(state.actuator_force[:, self.motors], state.qvel[:, self.joints_v]),
            "smooth": self.change.square().mean(1),
            "fell": self.outcome(self.terminate(state))[1],
        }

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Reasons to end:

        fell: the trunk is too low, or the base too tilted
        """
        p = self.params
        low = state.site_pos_w[:, self.middle, 2] < p.fall_height
        return {"fell": low | (terms.upright(state.body_quat_w[:, self.base], self.up) < math.cos(p.max_tilt))}

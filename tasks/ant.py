"""Ant: run forward on four legs.

Gymnasium's Ant-v5, on the same model file that gymnasium ships, so that results can be compared: eight hip and ankle
torques, 20 control steps a second (frame skip 5), 1,000 steps. It senses everything except its position on the ground:
joint positions, velocities, and the external forces on each body, clipped to +-1. The episode ends when the torso
leaves the band of healthy heights.

Reward per step: `forward` is the torso's speed along x (m/s); `healthy` is 1 while the height is in the band;
`control` is the summed squared action, `contact` the summed squared clipped force, both weighted negatively.

Two things differ from gymnasium. Positions are those at the control step, whereas gymnasium reads a body position that
is one physics step behind. Contact forces are those at the start of the last physics step. Everything else is equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from livegym.schema.keydoc import key
from livegym.sim.base import Simulator
from livegym.tasks.base import Box, Task

START_QPOS = (0.0, 0.0, 0.75, 1.0) + (0.0,) * 11
"""The model's reference pose (m, wxyz, rad), from which gymnasium starts too."""


@dataclass(frozen=True)
class AntParams:
    """The parameters of Ant."""

    healthy_height_min: float = key(0.2, "height of the torso below which the episode ends", unit="m")
    healthy_height_max: float = key(1.0, "height of the torso above which the episode ends", unit="m")
    contact_force_clip: float = key(
        1.0, "observed contact forces are clipped at this, as in gymnasium", unit="N and Nm"
    )
    start_noise: float = key(
        0.1, "at the start: half width of the uniform noise on positions, standard deviation of that on velocities"
    )


class Ant(Task):
    """Run forward on four legs (Gymnasium Ant-v5: 1,000 steps at 20 Hz, eight torques)."""

    Params = AntParams
    params: AntParams
    own_look = False

    @property
    def action_spec(self) -> Box:
        """Torques of hips and ankles, as fractions of the model's control range."""
        return Box(8)

    def model_path(self) -> Path:
        """The file in the installed gymnasium package, which is found without importing it."""
        spec = find_spec("gymnasium")
        if spec is None or spec.origin is None:
            raise FileNotFoundError("task=Ant uses the model that gymnasium ships: pip install gymnasium")
        return Path(spec.origin).parent / "envs" / "mujoco" / "assets" / "ant.xml"

    def bind(self, sim: Simulator) -> None:
        """Request the external forces, and create a buffer for the torso's position before the step."""
        sim.require("qpos", "qvel", "cfrc_ext")
        self.sim = sim
        self.start_qpos = torch.tensor(START_QPOS, device=sim.device)
        self.x_before = self.buffer(sim, "x_before")  # (N,) m

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """The standing pose, with noise on every coordinate."""
        noise = self.params.start_noise
        n, device = len(env_ids), env_ids.device
        uniform = 2 * torch.rand(n, 15, generator=rng, device=device) - 1
        return self.start_qpos + noise * uniform, noise * torch.randn(n, 14, generator=rng, device=device)

    def control(self, action: Tensor) -> Tensor:
        """(N, 8) in [-1, 1] -> the model's controls, which have that range."""
        self.x_before.copy_(self.sim.qpos[:, 0])
        return action

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Named blocks:

        pose: height of the torso in m, its rotation (wxyz), and the joints' angles in rad
        velocity: of the torso in m/s and rad/s, and of the joints in rad/s
        external_force: torque and force on each body but the world, clipped
        """
        return {
            "pose": state.qpos[:, 2:],
            "velocity": state.qvel,
            "external_force": self._clipped_forces(state),
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Run, stay healthy, spend little, tread lightly:

        forward: speed of the torso along x, in m/s
        healthy: 1 while the height of the torso is in the band
        control: sum of the squared actions
        contact: sum of the squared clipped forces
        """
        return {
            "forward": (state.qpos[:, 0] - self.x_before) / state.control_dt,
            "healthy": (~self._unhealthy(state)).float(),
            "control": action.square().sum(1),
            "contact": self._clipped_forces(state).square().sum(1),
        }

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Reasons to end:

        unhealthy: the torso is too low or too high
        """
        return {"unhealthy": self._unhealthy(state)}

    def at_risk(self, state: Simulator) -> Tensor:
        """True if the torso is more than 0.22 m above the lower limit: from below, no jump reaches the upper one soon.

        A torso that lies on the ground is at the height of its radius, 0.25 m.
        """
        return state.qpos[:, 2] > self.params.healthy_height_min + 0.22

    def _clipped_forces(self, state: Simulator) -> Tensor:  # (N, 78)
        clip = self.params.contact_force_clip
        return state.cfrc_ext[:, 1:].flatten(1).clamp(-clip, clip)

    def _unhealthy(self, state: Simulator) -> Tensor:  # (N,) bool
        height = state.qpos[:, 2]
        return (height < self.params.healthy_height_min) | (height > self.params.healthy_height_max)

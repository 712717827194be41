"""Gymnasium's MuJoCo environments as benchmark tasks: same models, observations, rewards, terminations and resets.

They are not in the task registry, because they are not meant for training. They compute what a peer's step computes, so
that both sides of a comparison do the same work.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from livegym.schema import ObservationGroups, PhysicsConfig, SimConfig, TaskConfig
from livegym.sim import create
from livegym.sim.base import Simulator
from livegym.tasks.ant import Ant, AntParams
from livegym.tasks.base import Box, Task
from livegym.tasks.env import Env

ASSETS = Path(find_spec("gymnasium").origin).parent / "envs" / "mujoco" / "assets"


@dataclass(frozen=True)
class NoParams:
    """A task without parameters."""


class GymnasiumTask(Task):
    """A task without parameters on one of Gymnasium's models."""

    Params = NoParams
    model: ClassVar[str]  # file name
    actions: ClassVar[int]

    @property
    def action_spec(self) -> Box:
        """One action for each motor of the model."""
        return Box(self.actions)

    def model_path(self) -> Path:
        """The path of Gymnasium's model."""
        return ASSETS / self.model


class HalfCheetah(GymnasiumTask):
    """HalfCheetah-v5: run forward. There is no termination."""

    model = "half_cheetah.xml"
    actions = 6  # torques

    def bind(self, sim: Simulator) -> None:
        """Allocates the previous position."""
        self.sim = sim
        self.x_before = self.buffer(sim, "x_before")

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws uniform positions and normal velocities."""
        n = len(env_ids)
        return 0.1 * (2 * torch.rand(n, 9, generator=rng) - 1), 0.1 * torch.randn(n, 9, generator=rng)

    def control(self, action: Tensor) -> Tensor:
        """Uses the actions as torques."""
        self.x_before.copy_(self.sim.qpos[:, 0])
        return action

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Returns 17 numbers."""
        return {"pose": state.qpos[:, 1:], "velocity": state.qvel}

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Rewards speed, and penalises control effort."""
        return {
            "forward": (state.qpos[:, 0] - self.x_before) / state.control_dt,
            "control": action.square().sum(1),
        }

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Defines no terminations."""
        return {}


class InvertedPendulum(GymnasiumTask):
    """InvertedPendulum-v5: a model of Cartpole's size."""

    model = "inverted_pendulum.xml"
    actions = 1  # a force; the peer's range is +-3, ours +-1

    def bind(self, sim: Simulator) -> None:
        """Does nothing, because the task needs only positions and velocities."""

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draws states that are nearly upright."""
        noise = 0.01 * (2 * torch.rand(len(env_ids), 4, generator=rng) - 1)
        return noise[:, :2], noise[:, 2:]

    def control(self, action: Tensor) -> Tensor:
        """Scales the actions to the model's range."""
        return 3 * action

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Returns 4 numbers."""
        return {"pose": state.qpos, "velocity": state.qvel}

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Gives 1 per step while the pole is upright."""
        return {"upright": (state.qpos[:, 1].abs() <= 0.2).float()}

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Ends the episode if the pole is more than 0.2 rad from upright."""
        return {"fell": state.qpos[:, 1].abs() > 0.2}


class Humanoid(GymnasiumTask):
    """Humanoid-v5: run forward without falling."""

    model = "humanoid.xml"
    actions = 17  # torques; the peer's range is +-0.4, ours +-1

    def bind(self, sim: Simulator) -> None:
        """Binds inertias, velocities and external forces of all bodies, and the gears of the motors."""
        sim.require("cinert", "cvel", "cfrc_ext")
        self.sim = sim
        model = sim.world.model
        self.torso_centre = model.body_ipos[1].tolist()  # m
        self.gear = torch.tensor(model.actuator_gear[:, 0], dtype=torch.float32)  # (17,), in the order of the motors
        self.start = torch.cat([sim.default_qpos, torch.zeros(model.nv)])
        self.x_before = self.buffer(sim, "x_before")  # (N,) m, of the centre of mass

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Sets the model's pose with uniform noise."""
        state = self.start + 0.01 * (2 * torch.rand(len(env_ids), len(self.start), generator=rng) - 1)
        return state[:, :24], state[:, 24:]

    def control(self, action: Tensor) -> Tensor:
        """Scales the actions to the model's range."""
        self.x_before.copy_(self._centre(self.sim))
        return 0.4 * action

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Returns 348 numbers. Each joint has one motor, so its actuator force is gear times control."""
        return {
            "pose": state.qpos[:, 2:],
            "velocity": state.qvel,
            "inertia": state.cinert[:, 1:].flatten(1),
            "spatial_velocity": state.cvel[:, 1:].flatten(1),
            "actuator_force": state.ctrl * self.gear,
            "external_force": state.cfrc_ext[:, 1:].flatten(1),
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Rewards speed and staying upright, and penalises control effort and contact forces."""
        return {
            "forward": (self._centre(state) - self.x_before) / state.control_dt,
            "healthy": (~self._unhealthy(state)).float(),
            "control": (0.4 * action).square().sum(1),
            "contact": (5e-7 * state.cfrc_ext.square().sum((1, 2))).clamp(max=10.0),
        }

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Ends the episode if the torso is too low or too high."""
        return {"unhealthy": self._unhealthy(state)}

    def _centre(self, state: Simulator) -> Tensor:
        """(N,) m: x of the centre of mass. cinert holds the torso's mass times its offset from the centre of mass."""
        w, x, y, z = state.qpos[:, 3:7].unbind(1)
        dx, _, dz = self.torso_centre  # in the torso's frame
        torso_x = state.qpos[:, 0] + (1 - 2 * (y * y + z * z)) * dx + 2 * (x * z + w * y) * dz
        return torso_x - state.cinert[:, 1, 6] / state.cinert[:, 1, 9]

    def _unhealthy(self, state: Simulator) -> Tensor:
        height = state.qpos[:, 2]
        return (height < 1.0) | (height > 2.0)


@dataclass(frozen=True)
class Bench:
    """One environment, with its settings and the peer's name for it."""

    task: type[Task]
    params: object
    peer: str
    decimation: int
    steps: int  # per episode
    timestep: float  # s
    policy: tuple[str, ...]
    rewards: dict[str, float]
    terminations: dict[str, bool]
    num_envs: int


BENCHES = {
    "ant": Bench(
        Ant, AntParams(), "Ant-v5", 5, 1000, 0.01, ("pose", "velocity", "external_force"),
        {"forward": 1.0, "healthy": 1.0, "control": -0.5, "contact": -5e-4}, {"unhealthy": True}, 128,
    ),
    "halfcheetah": Bench(
        HalfCheetah, NoParams(), "HalfCheetah-v5", 5, 1000, 0.01, ("pose", "velocity"),
        {"forward": 1.0, "control": -0.1}, {}, 128,
    ),
    "humanoid": Bench(
        Humanoid, NoParams(), "Humanoid-v5", 5, 1000, 0.003,
        ("pose", "velocity", "inertia", "spatial_velocity", "actuator_force", "external_force"),
        {"forward": 1.25, "healthy": 5.0, "control": -0.1, "contact": -1.0}, {"unhealthy": True}, 128,
    ),
    "pendulum": Bench(
        InvertedPendulum, NoParams(), "InvertedPendulum-v5", 2, 1000, 0.02, ("pose", "velocity"),
        {"upright": 1.0}, {"fell": True}, 512,
    ),
}  # fmt: skip


def make(name: str, num_envs: int | None = None, threads: int = 0) -> Env:
    """The Env of one benchmark."""
    b = BENCHES[name]
    n = num_envs or b.num_envs
    config = TaskConfig(
        name=name,
        num_envs=n,
        episode_length_s=b.steps * b.timestep * b.decimation,
        decimation=b.decimation,
        observations=ObservationGroups(list(b.policy)),
        noise={},
        rewards=b.rewards,
        terminations=b.terminations,
        params=b.params,
    )
    task = b.task(b.params)
    sim = create(SimConfig("mujoco", threads), PhysicsConfig(), task.model_path(), n, b.decimation)
    return Env(task, sim, config, seed=0)

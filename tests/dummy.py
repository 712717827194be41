"""A world small enough to compute by hand: it counts.

State of an environment: qpos = [episode number, step in the episode]. Each step adds the control to `qvel` and one to
the step. A task on it can be made to end, to reward and to break at chosen steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from livegym.schema import ObservationGroups, TaskConfig
from livegym.sim.base import Simulator, Snapshot
from livegym.tasks.base import ActionSpec, Box, Task
from livegym.tasks.env import Env


class CountingSim(Simulator):
    """N counters; `qvel` (N, 1) sums the controls."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.dt, self.decimation, self.control_dt = 0.05, 2, 0.1
        self.qpos, self.qvel = torch.zeros(num_envs, 2), torch.zeros(num_envs, 1)
        self.ctrl = torch.zeros(num_envs, 1)
        self.unstable = torch.zeros(num_envs, dtype=torch.bool)

    def start(self) -> None:
        pass

    def step(self) -> None:
        self.qpos[:, 1] += 1
        self.qvel += self.ctrl

    def reset(self, env_ids: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        self.qpos[env_ids, 0] += 1  # the next episode
        self.qpos[env_ids, 1] = 0
        self.qvel[env_ids] = qvel

    def snapshot(self, env_ids: Tensor) -> Snapshot:
        return Snapshot(env_ids, {"qpos": self.qpos[env_ids].clone(), "qvel": self.qvel[env_ids].clone()})

    def restore(self, snapshot: Snapshot, env_ids: Tensor | None = None) -> None:
        ids = snapshot.env_ids if env_ids is None else env_ids
        self.qpos[ids], self.qvel[ids] = snapshot.arrays["qpos"], snapshot.arrays["qvel"]

    def model_xml(self) -> str:
        return "<mujoco/>"

    def _not_here(self, *args, **kwargs):
        raise NotImplementedError

    require = require_contact = forward = randomize = apply_randomization = _not_here
    sensor = contact_force_w = body_ids = _not_here


@dataclass(frozen=True)
class CountingParams:
    fail_at: int = 10**6  # step at which `failed` holds
    reward_per_step: float = 1.0


class Counting(Task):
    """Count to the end."""

    Params = CountingParams
    spec: ActionSpec = Box(1)

    @property
    def action_spec(self) -> ActionSpec:
        return self.spec

    def model_path(self) -> Path:
        return Path("none.xml")

    def bind(self, sim: Simulator) -> None:
        self.sim = sim
        self.steps_seen = self.buffer(sim, "steps_seen")

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(env_ids), 2), torch.rand(len(env_ids), 1, generator=rng)

    def control(self, action: Tensor) -> Tensor:
        self.steps_seen += 1
        return action.reshape(self.sim.num_envs, -1)[:, :1].float()

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        return {"episode": state.qpos[:, :1], "step": state.qpos[:, 1:]}

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        ones = torch.ones(state.num_envs)
        return {"alive": ones * self.params.reward_per_step, "step_number": state.qpos[:, 1].clone()}

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        return {"failed": state.qpos[:, 1] >= self.params.fail_at}


def counting_config(length: int, **changes) -> TaskConfig:
    """A configuration whose episodes last `length` steps."""
    values = {
        "name": "Counting",
        "num_envs": 2,
        "episode_length_s": 0.1 * length,
        "decimation": 2,
        "observations": ObservationGroups(policy=["episode", "step"]),
        "noise": {},
        "rewards": {"alive": 1.0, "step_number": 0.0},
        "terminations": {"failed": True},
        "params": CountingParams(),
    }
    return TaskConfig(**{**values, **changes})


def counting_env(num_envs: int = 2, length: int = 5, seed: int = 0, task: type[Counting] = Counting, **changes) -> Env:
    """An Env of counters."""
    config = counting_config(length, **changes)
    return Env(task(config.params), CountingSim(num_envs), config, seed)

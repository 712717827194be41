"""Untouched tasks of other people's checkouts behind livegym's interface; skipped if there is no checkout.

ISAACGYMENVS=<folder> LEGGED_GYM=<folder> name them. The hashes of the files that run are printed (pytest -s).
"""

from __future__ import annotations

import pytest
import torch

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.projects import record
from livegym.tasks.build import make_env
from tests.isaac_toys import foreign, needs_isaacgym, project

pytestmark = [pytest.mark.slow, needs_isaacgym]

N = 8
ISAACGYMENVS = {  # observations and actions of each task
    "Cartpole": (4, 1),
    "Ant": (60, 8),
    "Humanoid": (108, 21),
    "Anymal": (48, 12),
    "AnymalTerrain": (188, 12),
    "Quadcopter": (21, 12),
    "Ingenuity": (13, 6),
    "BallBalance": (24, 3),
    "HumanoidAMP": (105, 28),
}


def stepped(folder, task: str, *overrides: str, steps: int = 100, reach: float = 1.0):
    """Environments of a task after random actions; every number must be finite, and no environment unstable."""
    with project(folder):
        config = to_typed(compose([f"task={task}", *overrides]))
        print(record.record(config.task.name)["files"])
        env = make_env(config.task, config.sim, config.physics, N, seed=0)
        env.reset()
        for _ in range(steps):
            step = env.step(reach * (2 * torch.rand(N, env.task.action_spec.size) - 1))
            assert torch.isfinite(step.obs["policy"]).all()
            assert torch.isfinite(step.reward).all()
            assert not (step.terminated & step.truncated).any()
    assert env.drain_report().unstable == 0
    return env


@pytest.mark.parametrize("name", ISAACGYMENVS)
def test_tasks_of_isaacgymenvs_step_as_they_are(name):
    env = stepped(foreign("IsaacGymEnvs", "ISAACGYMENVS"), f"isaacgymenvs:{name}")
    assert (env.layout.width("policy"), env.task.action_spec.size) == ISAACGYMENVS[name]


@pytest.mark.parametrize(("name", "dt"), [("a1", 0.02), ("anymal_c_flat", 0.02)])
def test_tasks_of_legged_gym_step_as_they_are(name, dt):
    plane = "task.params.terrain.mesh_type=plane"
    env = stepped(foreign("legged_gym", "LEGGED_GYM"), f"legged_gym:{name}", plane, reach=0.2)  # 1 in its units
    assert env.task.action_spec.size == 12
    assert env.sim.control_dt == pytest.approx(dt)
    assert set(env.reason_names) == {"unstable", "terminated", "time_limit"}

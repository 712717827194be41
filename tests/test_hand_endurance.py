"""A million physics steps of random targets: nothing explodes, and no joint is forced far out of its range."""

from __future__ import annotations

import pytest
import torch

from livegym.schema import PhysicsConfig, SimConfig
from livegym.sim import create
from livegym.tasks.hand.asset import OURS
from livegym.tasks.hand.names import OURS as TABLE

SCENE = OURS.with_name("blind_grasping.xml")
ENVS, DECIMATION = 16, 4
HELD = 12  # control steps for which a target stays: long enough to come there
BEYOND = 0.4  # m or rad beyond a limit, for a moment, where the base's 60 N crush a finger against the ground


@pytest.mark.parametrize("steps", [20_000, pytest.param(1_000_000, marks=[pytest.mark.slow, pytest.mark.full])])
def test_nothing_explodes_under_random_targets_beside_the_box(steps):
    sim = create(SimConfig(engine="mujoco"), PhysicsConfig(), SCENE, ENVS, DECIMATION, {"hand": OURS})
    sim.start()
    rng = torch.Generator().manual_seed(0)
    joints, columns = sim.qpos_ids(TABLE.joints), sim.actuator_ids(TABLE.joints)
    low, high = sim.ctrl_range[columns].T
    beyond = fastest = 0.0
    for step in range(steps // (ENVS * DECIMATION)):
        if step % HELD == 0:
            sim.ctrl[:, columns] = low + (high - low) * torch.rand(ENVS, len(TABLE.joints), generator=rng)
        sim.step()
        assert not sim.unstable.any()
        angles = sim.qpos[:, joints]
        beyond = max(beyond, (low - angles).max().item(), (angles - high).max().item())
        fastest = max(fastest, sim.qvel.abs().max().item())
    print(f"{steps} steps: at most {beyond:.3f} beyond a limit, fastest {fastest:.0f} m/s or rad/s")
    assert beyond < BEYOND
    assert not sim.batch.warning.any()

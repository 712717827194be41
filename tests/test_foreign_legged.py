"""legged_gym, untouched: robots stand at zero action, and what is randomised is in the model.

    LEGGED_GYM=<checkout> pytest -s -m full tests/test_foreign_legged.py

Skipped if there is no checkout. The hashes of the files that run are printed.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from livegym.projects import executed
from tests.isaac_toys import foreign, made, needs_isaacgym, project

pytestmark = [pytest.mark.slow, pytest.mark.full, needs_isaacgym]

N = 64
PLANE = ("task.params.terrain.mesh_type=plane", "task.params.terrain.curriculum=false")
QUIET = "task.params.domain_rand.push_robots=false"
ROBOTS = {  # name, and what is changed
    "a1 plane": ("a1", PLANE),
    "a1 rough": ("a1", ()),
    "anymal_c plane": ("anymal_c_flat", ()),
    "anymal_c rough": ("anymal_c_rough", ()),
    "anymal_b plane": ("anymal_b", PLANE),
    "anymal_b rough": ("anymal_b", ()),
}


@pytest.fixture(autouse=True, scope="module")
def checkout():
    """The checkout is the project; afterwards, its files' hashes are printed."""
    folder = foreign("legged_gym", "LEGGED_GYM")
    with project(folder):
        yield folder
    for name, digest in executed.below(folder).items():
        print(f"{digest}  {name}")


@pytest.mark.parametrize("case", ROBOTS)
def test_robots_stand_for_4_s_at_zero_action(case):
    name, overrides = ROBOTS[case]
    env = made(*overrides, QUIET, task=f"legged_gym:{name}", num_envs=N)
    foreign_env = env._loaded.env
    env.reset()
    fallen, above = torch.zeros(N, dtype=torch.bool), []
    for k in range(200):
        step = env.step(env.zero_action())
        fallen |= step.terminated
        if k >= 150:
            above.append(_above_ground(foreign_env))
    mean = torch.stack(above).mean(0)
    print(f"{case}: fallen {int(fallen.sum())} of {N}; trunk {mean[~fallen].mean():.3f} m above the ground")
    assert env.drain_report().unstable == 0
    assert (~fallen).float().mean() >= 0.95
    assert mean[~fallen].mean().item() == pytest.approx(foreign_env.cfg.rewards.base_height_target, abs=0.04)
    if "plane" in case:
        assert not fallen.any()
        speed = foreign_env.root_states[:, 7:10].norm(dim=1)
        assert speed.max() < 0.1


def _above_ground(env) -> torch.Tensor:
    """(N,) m: the height of the trunk above the ground under it."""
    if env.cfg.terrain.mesh_type == "plane":
        return env.root_states[:, 2].clone()
    cells = ((env.root_states[:, :2] + env.terrain.cfg.border_size) / env.terrain.cfg.horizontal_scale).round().long()
    heights = env.height_samples[cells[:, 0], cells[:, 1]] * env.terrain.cfg.vertical_scale
    return env.root_states[:, 2] - heights


@pytest.mark.parametrize("name", ["a1", "anymal_c_flat"])
def test_friction_and_mass_that_were_drawn_are_in_the_model(name):
    drawn = "task.params.domain_rand"
    ranges = (f"{drawn}.friction_range=[0.5,1.25]", f"{drawn}.added_mass_range=[-1.0,2.0]")
    mass = f"{drawn}.randomize_base_mass=true"
    env = made(*(PLANE if name == "a1" else ()), *ranges, mass, task=f"legged_gym:{name}", num_envs=N)
    foreign_env, model, found = env._loaded.env, env.sim.engine.model, env.sim.engine.snapshot()
    shapes = np.flatnonzero((model.geom_bodyid > 0) & (model.geom_contype > 0))
    friction = found["model/geom_friction"][:, shapes, 0]
    own = foreign_env.friction_coeffs.view(N, 1).numpy()
    assert friction == pytest.approx(np.repeat((own + 1.0) / 2, len(shapes), 1), abs=1e-5)  # with the ground's 1
    assert 0.5 <= own.min() < 0.7
    assert 1.05 < own.max() <= 1.25
    trunk = 1 + int(np.argmax(model.body_mass[1:]))
    added = found["model/body_mass"][:, trunk]
    handle = foreign_env.gym.get_actor_rigid_body_properties
    said = [handle(env_handle, 0)[0].mass for env_handle in foreign_env.envs]
    assert added == pytest.approx(np.array(said), abs=1e-5)
    assert len(np.unique(added)) == N
    assert 2.5 < np.ptp(added) <= 3.0
    still = made(*(PLANE if name == "a1" else ()), mass.replace("true", "false"), task=f"legged_gym:{name}", num_envs=2)
    bare = still._loaded.env.gym.get_actor_rigid_body_properties(still._loaded.env.envs[0], 0)[0].mass
    assert bare - 1.0 <= added.min() < bare - 0.8
    assert bare + 1.8 < added.max() <= bare + 2.0


@pytest.mark.parametrize("name", ["a1", "anymal_c_flat"])
def test_a_push_sets_the_speed_in_the_model(name):
    overrides = ("task.params.domain_rand.push_interval_s=0.2", "task.params.domain_rand.max_push_vel_xy=2.0")
    env = made(*(PLANE if name == "a1" else ()), *overrides, task=f"legged_gym:{name}", num_envs=N)
    env.reset()
    foreign_env = env._loaded.env
    steps_to_push = int(foreign_env.cfg.domain_rand.push_interval)
    assert steps_to_push == 10
    while foreign_env.common_step_counter % steps_to_push != steps_to_push - 1:
        env.step(env.zero_action())
    before = env.sim.qvel[:, :2]
    env.step(env.zero_action())
    pushed = env.sim.qvel[:, :2]
    assert torch.allclose(pushed, foreign_env.root_states[:, 7:9], atol=0.05)  # of the trunk's origin, of its centre
    assert (pushed.abs() <= 2.05).all()
    assert pushed.std() > 0.8  # uniform in [-2, 2]: 1.15
    assert (pushed - before).norm(dim=1).median() > 0.5
    place = env.sim.qpos[:, :2]
    env.step(env.zero_action())
    moved = (env.sim.qpos[:, :2] - place) / env.sim.control_dt
    assert torch.nn.functional.cosine_similarity(moved, pushed).median() > 0.9

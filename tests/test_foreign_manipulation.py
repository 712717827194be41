"""IsaacGymEnvs' hands and arms, untouched: several actors, URDF with meshes, tendons, Jacobians, scaled objects.

    ISAACGYMENVS=<checkout> pytest -s -m full tests/test_foreign_manipulation.py

Skipped if there is no checkout. The hashes of the files that run are printed.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from livegym.compat.core import sensors
from livegym.tasks.env import Env
from tests.foreign_runs import play_at_random, print_hashes
from tests.isaac_toys import foreign, made, needs_isaacgym, project

pytestmark = [pytest.mark.slow, pytest.mark.full, needs_isaacgym]

N, STEPS = 64, 1000
TASKS = {  # task -> observations, actions, actors of an environment
    "FrankaCabinet": (23, 9, 18),
    "FrankaCubeStack": (19, 7, 5),
    "AllegroHand": (88, 16, 3),
    "ShadowHand": (211, 20, 3),
    "Trifinger": (41, 9, 5),
}
CUBOIDS = {"AllegroKuka": (117, 23, 4), "AllegroKukaTwoArmsLSTM": (196, 46, 5)}
"""Their environments have cuboids of different sizes. Likewise: observations, actions, actors."""


@pytest.fixture(scope="module")
def checkout():
    """The folder of the checkout."""
    return foreign("IsaacGymEnvs", "ISAACGYMENVS")


@pytest.mark.parametrize("name", TASKS)
def test_nothing_becomes_unstable_and_velocities_agree_with_jacobians(name, checkout):
    observations, actions, actors = TASKS[name]
    with project(checkout):
        env = made_with(name, observations, actions)
        assert len(env.sim.engine.layout.actors) == actors
        stays_stable(name, env, checkout)
    agree(env)


@pytest.mark.parametrize("name", CUBOIDS)
def test_cuboids_of_different_sizes_share_one_engine(name, checkout):
    observations, actions, actors = CUBOIDS[name]
    with project(checkout):
        env = made_with(name, observations, actions)
        (group,) = env._loaded.env.sim.groups
        engine = group.engine
        assert (len(engine.layout.actors), engine.sizes) == (actors, N)
        sizes_are_those_of_the_files(group)
        stays_stable(name, env, checkout)
    sizes_are_those_of_the_files(group)


def made_with(name: str, observations: int, actions: int) -> Env:
    """The environments of a task, whose observations and actions are as many as upstream's."""
    env = made("sim.threads=1", task=f"isaacgymenvs:{name}", num_envs=N)
    assert (env.layout.width("policy"), env.task.action_spec.size) == (observations, actions)
    return env


def stays_stable(name: str, env: Env, checkout) -> None:
    """Random actions make no environment unstable, and all rewards are finite."""

    def check(step) -> None:
        assert torch.isfinite(step.reward).all()

    cost = play_at_random(env, STEPS, check)
    report = env.drain_report()
    print(f"{name}: {cost:.0f} us of processor time per environment step, {report.episodes} episodes")
    print_hashes(checkout)
    assert report.unstable == 0


def sizes_are_those_of_the_files(group) -> None:
    """Each environment's shapes have the sizes of its own files, and no cuboid is that of another environment."""
    for env in group.envs:
        model = group.engine.batch.get_model(env.row)
        for actor, slot in zip(env.actors, group.engine.layout.actors, strict=True):
            shapes = np.array(actor.asset.shapes, int)
            np.testing.assert_array_equal(model.geom_size[slot.geoms], actor.asset.model.geom_size[shapes])
    (handle,) = {actor.handle for env in group.envs for actor in env.actors if actor.name == "object"}
    half = group.engine.per_env("geom_size")[:, group.engine.layout.actors[handle].geoms]
    assert len({row.tobytes() for row in half}) == N


def agree(env) -> None:
    """The Jacobian of every articulation on a fixed base, times the velocities, is what the body tensor says."""
    engine = env.sim.engine
    states = env._loaded.env.sim.tensors.acquire("body")
    env._loaded.env.sim.tensors.refresh("body")
    bodies = states.numpy().reshape(N, -1, 13)
    moving = [slot for slot in engine.layout.actors if slot.qvel < 0 and slot.dofs.stop > slot.dofs.start]
    assert moving
    for slot in moving:
        rates = engine.qvel[:, sensors.columns(engine, slot)]
        found = np.einsum("nlij,nj->nli", sensors.jacobian(engine, slot), rates)
        expected = bodies[:, slot.bodies.start : slot.bodies.stop - 1, 7:]
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["FrankaCabinet", "Trifinger"])
def test_they_train(name, checkout, tmp_path):
    from tests.processes import run, runs

    done = run(
        tmp_path, "config=train_headless", f"task=isaacgymenvs:{name}", f"projectDir={checkout}", "numEnvs=16",
        "maxIterations=2",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert list((runs(tmp_path, "train")[-1] / "nn").glob("*.pth"))

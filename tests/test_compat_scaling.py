"""Actors of another size than their asset: geometry, mass and inertia, and what cannot be scaled."""

from __future__ import annotations

import numpy as np
import pytest

from livegym.compat.core import properties, scaling
from livegym.compat.core.asset import box, capsule, sphere
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, PlaneParams, Vec3
from livegym.utils.errors import UserError
from tests import compat_scenes as scenes

FACTORS = (1.0, 1.5, 0.5)


def scaled(asset, factors=FACTORS) -> Sim:
    """An actor of each size above the ground."""
    sim = Sim(scenes.params())
    sim.ground.plane = PlaneParams()
    sim.ground.plane.normal = Vec3(0, 0, 1)
    for factor in factors:
        scaling.scale(sim.add_env(Vec3(), Vec3(), 1).add(asset, scenes.pose(z=0.3), "thing", 0, 0), factor)
    return sim


@pytest.mark.parametrize("asset", [box(0.2, 0.2, 0.2, AssetOptions()), sphere(0.1), capsule(0.1, 0.3)])
def test_a_scaled_actor_rests_higher_and_weighs_its_cube(asset):
    sim = scaled(asset)
    contact = sim.tensors.acquire("contact")
    for _ in range(150):
        sim.simulate()
    np.testing.assert_allclose(sim.engine.qpos[:, 2], 0.1 * np.array(FACTORS), atol=2e-3)
    sim.tensors.refresh("contact")
    weight = asset.model.body_mass[1] * np.array(FACTORS) ** 3 * 9.81
    np.testing.assert_allclose(contact[:, 2].numpy(), weight, rtol=0.02)
    first, large = (properties.get_bodies(env.actors[0])[0] for env in sim.envs[:2])
    assert large.inertia.x.x == pytest.approx(first.inertia.x.x * 1.5**5, rel=1e-6)
    assert sim.envs[1].actors[0].scale == 1.5


def test_a_second_scale_replaces_the_first_and_1_is_nothing():
    sim = scaled(sphere(0.1))
    actor = sim.envs[1].actors[0]
    scaling.scale(actor, 2.0)
    assert properties.get_bodies(actor)[0].mass == pytest.approx(
        8 * properties.get_bodies(sim.envs[0].actors[0])[0].mass
    )
    assert sim.envs[0].actors[0].body_properties is None


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan")])
def test_absurd_scales_are_refused(factor):
    with pytest.raises(UserError, match="larger than 0 is expected"):
        scaled(sphere(0.1), (factor,))


def test_what_environments_share_is_not_scaled(tmp_path):
    with pytest.raises(UserError, match=r"set_actor_scale\(2\) of thing: it has DOFs \(hip, knee\)"):
        scaled(scenes.asset(tmp_path, scenes.WALKER), (2.0,))
    mesh = """<mujoco><asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset>
    <worldbody><body><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""
    with pytest.raises(UserError, match="meshes as shapes"):
        scaled(scenes.asset(tmp_path, mesh), (2.0,))
    sim = scaled(sphere(0.1))
    sim.compile()
    with pytest.raises(UserError, match=r"set_actor_scale\(3\) of thing after prepare_sim"):
        scaling.scale(sim.envs[0].actors[0], 3.0)

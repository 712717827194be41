"""Actors of another size than their asset: geometry, mass and inertia, and what cannot be scaled."""

from __future__ import annotations

import numpy as np
import pytest

from livegym.compat.core import properties, scaling
from livegym.compat.core.asset import AssetModel, box, capsule, load_asset, sphere
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, PlaneParams, Quat, Vec3
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


BLOCK = """<robot name="block"><link name="block">
  <collision><geometry><box size="{x} {y} {z}"/></geometry></collision>
  <inertial><density value="400"/></inertial></link></robot>"""
SIZES = ((0.1, 0.1, 0.1), (0.2, 0.1, 0.06), (0.1, 0.3, 0.04))


def block(folder, size) -> AssetModel:
    """A box of a file of its own, (x, y, z) m."""
    file = folder / f"block_{size[0]}_{size[1]}_{size[2]}.urdf"
    file.write_text(BLOCK.format(x=size[0], y=size[1], z=size[2]))
    return load_asset(str(folder), file.name, AssetOptions())


def fallen(assets, seconds: float) -> Sim:
    """Each asset in an environment of its own falls on a plate of several shapes, turned a little."""
    plate = box(1.0, 1.0, 0.1, fixed())
    sim = Sim(scenes.params())
    for asset in assets:
        env = sim.add_env(Vec3(), Vec3(), 1)
        env.add(plate, scenes.pose(z=0.05), "plate", 0, 0)
        at = scenes.pose(z=0.3)
        at.r = Quat.from_euler_zyx(0.3, 0.2, 0.1)
        env.add(asset, at, "block", 0, 0)
    for _ in range(round(seconds / 0.01)):
        sim.simulate()
    return sim


def fixed() -> AssetOptions:
    options = AssetOptions()
    options.fix_base_link = True
    return options


def test_assets_of_one_box_may_have_other_sizes_in_each_environment(tmp_path):
    """AllegroKuka draws its cuboids so. Each moves as it does in a simulation of its own."""
    assets = [block(tmp_path, size) for size in SIZES]
    sim = fallen(assets, 0.4)
    masses = sim.engine.mass(2)
    np.testing.assert_allclose(masses, [400.0 * np.prod(size) for size in SIZES], rtol=1e-6)
    for number, asset in enumerate(assets):
        alone = fallen([asset], 0.4).engine
        np.testing.assert_allclose(sim.engine.qpos[number], alone.qpos[0], atol=1e-6)
        np.testing.assert_allclose(sim.engine.qvel[number], alone.qvel[0], atol=1e-4)
    assert abs(sim.engine.qvel).max() > 0.1  # it was in motion, so inertias counted

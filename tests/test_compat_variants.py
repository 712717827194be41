"""Environments of other sizes in one batch, with properties of their own: each is what it would be alone.

Environments 0 and 2 have one size, 1 and 3 another, and one of them has other properties. Of whatever make-up it is the
first one, the others must not get its properties.
"""

from __future__ import annotations

import logging
import os

import numpy as np
import pytest

from livegym.compat.core import attractors, properties, scene, tendons
from livegym.compat.core.asset import AssetModel, box, load_asset
from livegym.compat.core.drives import EFFORT, POS
from livegym.compat.core.enums import AXIS_ALL
from livegym.compat.core.fields import SIZES, SPRINGS
from livegym.compat.core.makeup import make_ups
from livegym.compat.core.scene import MANY, Sim
from livegym.compat.core.values import AssetOptions, AttractorProperties, PlaneParams, Vec3
from tests import compat_scenes as scenes

EDGES = (0.2, 0.3, 0.2, 0.3)
HAND = """
<mujoco>
  <worldbody>
    <body name="palm">
      <inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
      <geom type="box" size="0.2 0.2 0.02"/>
      <body name="a">
        <joint name="a" type="slide" axis="1 0 0" range="-1 1"/>
        <geom type="sphere" size="0.05" mass="0.3" pos="0.01 0 0.2"/>
        <body name="b">
          <joint name="b" type="hinge" axis="0 1 0" range="-90 90"/>
          <geom type="sphere" size="0.05" mass="0.2" pos="0.02 0 0.4"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon>
    <fixed name="t" limited="true" range="-0.05 0.05" stiffness="2" damping="0.5">
      <joint joint="a" coef="1"/><joint joint="b" coef="-2"/>
    </fixed>
  </tendon>
</mujoco>
"""


@pytest.fixture
def hand(tmp_path) -> AssetModel:
    """A hand of two links on a fixed palm, with a tendon."""
    (tmp_path / "hand.xml").write_text(HAND)
    return load_asset(str(tmp_path), "hand.xml", AssetOptions(fix_base_link=True))


def gains(sim, env) -> None:
    props = properties.get_dofs(env.actors[0])
    props["driveMode"], props["stiffness"], props["damping"], props["effort"] = POS, 300.0, 7.0, 5.0
    properties.set_dofs(sim, env.actors[0], props)


def passive(sim, env) -> None:
    props = properties.get_dofs(env.actors[0])
    props["driveMode"], props["damping"], props["friction"] = EFFORT, 7.0, 0.5
    properties.set_dofs(sim, env.actors[0], props)


def springs(sim, env) -> None:
    records = tendons.get(env.actors[0])
    records[0].fixed_spring_rest_length, records[0].limit_stiffness, records[0].fixed_lower_limit = 0.02, 40.0, -0.02
    tendons.put(sim, env.actors[0], records)


def surface(sim, env) -> None:
    records = properties.get_shapes(env.actors[1])
    records[0].friction, records[0].restitution = 0.3, 0.8
    properties.set_shapes(sim, env.actors[1], records)


def mass(sim, env) -> None:
    records = properties.get_bodies(env.actors[1])
    records[0].mass *= 3.0
    properties.set_bodies(sim, env.actors[1], records, True)


def apart(sim, env) -> None:
    """Hand and box do not collide."""
    for actor in env.actors:
        actor.filter = 1


def nothing(sim, env) -> None:
    """Sizes differ, and all that follows from them."""


CHANGES = (gains, passive, springs, surface, mass, apart, nothing)


def made(hand: AssetModel, edges, change, changed, attracted: bool = False) -> Sim:
    """A hand and a box of each size; `changed` are the environments with other properties."""
    sim = Sim(scenes.params())
    sim.ground.plane = PlaneParams(normal=Vec3(0.0, 0.0, 1.0))
    for number, edge in enumerate(edges):
        env = sim.add_env(Vec3(), Vec3(), 1)
        env.add(hand, scenes.pose(z=1.0), "hand", 0, 0)
        env.add(box(edge, edge, 0.2, AssetOptions(linear_damping=0.3)), scenes.pose(x=0.1, z=1.15), "box", 0, 0)
        if number in changed:
            change(sim, env)
        if attracted:
            attractor = AttractorProperties(axes=AXIS_ALL, stiffness=500.0, damping=40.0, rigid_handle=3)
            attractor.target = scenes.pose(z=1.2)
            attractors.add(env, attractor)
    return sim


def run(sim: Sim) -> np.ndarray:
    for _ in range(30):
        sim.simulate()
    return sim.engine.qpos


@pytest.mark.parametrize(
    ("change", "changed", "attracted"),
    [
        *((change, changed, False) for change in CHANGES for changed in (0, 1, 3)),
        *((change, 1, True) for change in (gains, springs, apart, nothing)),
    ],
)
def test_each_environment_is_what_it_would_be_alone(hand, change, changed, attracted):
    sim = made(hand, EDGES, change, {changed}, attracted)
    assert (len(sim.groups), sim.engine.sizes) == (1, 2)
    models, before = [scenes.model_arrays(sim, row) for row in range(4)], sim.engine.qpos.copy()
    after = run(sim)
    assert np.abs(after - before).max(1).min() > 0.01
    for row, edge in enumerate(EDGES):
        alone = made(hand, [edge], change, {0} if row == changed else set(), attracted)
        for name, own in scenes.model_arrays(alone, 0).items():
            np.testing.assert_array_equal(models[row][name], own, f"{name} of environment {row}")
        np.testing.assert_array_equal(after[row], run(alone)[0])


def test_a_size_is_kept_without_its_meshes(hand):
    """512 sizes are 512 compilations, but not 512 copies of the hand."""
    sim = made(hand, EDGES, nothing, set())
    sizes = make_ups(sim)[0].others[0][1]
    assert set(sizes.fields) <= SIZES | SPRINGS
    assert sizes.fields["bvh_aabb"].shape == (int(sim.engine.model.body_bvhnum.sum()), 6)
    assert sim.engine.as_compiled("body_mass").shape == (4, sim.engine.model.nbody)
    assert sim.engine.as_compiled("qpos0").shape == (4, sim.engine.model.nq)


def test_a_robot_that_drives_meet_otherwise_is_an_engine_of_its_own(tmp_path):
    """A slide of 2 kg on a free base of 1 or 10 kg: 2 / 3 and 20 / 12 kg, with the same dof_M0 of 2 kg."""
    sim = Sim(scenes.params())
    for number, weight in enumerate((1.0, 10.0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = scenes.SLIDER.format(mass=2.0).replace('mass="1"', f'mass="{weight}"')
        sim.add_env(Vec3(), Vec3(), 1).add(scenes.asset(folder, text), scenes.pose(z=1.0), "slider", 0, 0)
    assert [group.engine.model.dof_M0[6] for group in sim.groups] == [2.0, 2.0]
    met = [make_up.compiled.mobility[0, 0] for make_up in make_ups(sim)]
    np.testing.assert_allclose(met, [2.0 / 3.0, 20.0 / 12.0])


def test_more_engines_than_one_can_mean_are_a_warning_that_says_why(caplog):
    with caplog.at_level(logging.INFO):
        attracted_apart(2).compile()
        attracted_apart(MANY + 1).compile()
    few, many = caplog.records
    assert (few.levelname, many.levelname) == ("INFO", "WARNING")
    assert "2 environments have 2 make-ups" in few.getMessage()
    assert many.getMessage().endswith("They differ in: attractors")


def attracted_apart(count: int) -> Sim:
    """Each environment has its target at another place, which a constraint cannot have by environment."""
    sim = Sim(scenes.params())
    for number in range(count):
        env = sim.add_env(Vec3(), Vec3(), 1)
        env.add(box(0.1, 0.1, 0.1, AssetOptions()), scenes.pose(), "box", 0, 0)
        attractor = AttractorProperties(axes=AXIS_ALL, stiffness=500.0, damping=40.0, rigid_handle=0)
        attractor.target = scenes.pose(z=0.01 * number)
        attractors.add(env, attractor)
    return sim


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_threads_are_the_processors_that_the_process_may_use(monkeypatch):
    monkeypatch.setattr(scene, "_THREADS", [0])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 7})
    asset = box(0.1, 0.1, 0.1, AssetOptions())
    assert [scenes.scene(asset, count).engine.batch.nthread for count in (4, 2)] == [3, 2]  # no more than environments

"""Drives of light links: their effort limit, and how hard limits and contacts are for them."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch

from livegym.compat.core import properties, weights
from livegym.compat.core.drives import POS
from tests import compat_scenes as scenes

H = 0.01


@pytest.mark.parametrize("target", [3.5, 5.0, 30.0, -30.0])
def test_a_limited_drive_of_a_light_link_has_its_force_at_the_limit_by_scaled_gains(tmp_path, target):
    mass, kp, kd, limit = 0.01, 1e4, 10.0, 200.0
    sim = scenes.scene(scenes.asset(tmp_path, scenes.SLIDER.format(mass=mass), fix_base_link=True), 1)
    props = properties.get_dofs(sim.envs[0].actors[0])
    props["driveMode"], props["stiffness"], props["damping"], props["effort"] = POS, kp, kd, limit
    props["hasLimits"], props["armature"], props["velocity"] = False, 0.0, 0.0
    properties.set_dofs(sim, sim.envs[0].actors[0], props)
    engine = sim.engine
    engine.drives.set_targets(POS, np.full((1, 1), target))
    sim.simulate()
    expected = np.sign(target) * H * limit / mass  # it starts at rest, and needs more than its limit
    assert engine.drives.scale[0, 0] < 1.0
    assert engine.qvel[0, 0] == pytest.approx(expected, rel=0.03)


def test_a_strong_drive_does_not_push_a_light_link_through_its_limit(tmp_path):
    """A finger of 10 g under 10 N m: a constant force gave 1e5 rad/s in one substep, through the soft limit."""
    light = scenes.SLIDER.replace('axis="1 0 0"', 'axis="1 0 0" range="0 0.1" limited="true"').format(mass=1e-5)
    sim = scenes.scene(scenes.asset(tmp_path, light, fix_base_link=True), 1)
    props = properties.get_dofs(sim.envs[0].actors[0])
    props["driveMode"], props["stiffness"], props["damping"], props["effort"] = POS, 1e3, 51.0, 10.0
    properties.set_dofs(sim, sim.envs[0].actors[0], props)
    engine = sim.engine
    force = sim.tensors.acquire("dof_force")
    for start, target in ((0.101, 2.0), (-0.001, -1.0)):
        engine.drives.set_targets(POS, np.full((1, 1), target))
        engine.qpos[:] = start
        for _ in range(30):
            sim.simulate()
            assert abs(engine.qvel[0, 0]) < 0.5
            assert -0.02 < engine.qpos[0, 0] < 0.12
        sim.tensors.refresh("dof_force")
        drive = 1e3 * (target - engine.qpos[0, 0]) - 51.0 * engine.qvel[0, 0]
        assert abs(engine.drives.scale[0, 0] * drive) == pytest.approx(10.0, rel=0.03)
    assert torch.isfinite(force).all()


def test_a_fixed_base_is_drawn_where_its_actor_stands(tmp_path):
    """A hand above the ground was drawn at the origin, in the ground."""
    robot = scenes.asset(tmp_path, scenes.SLIDER.format(mass=1.0), fix_base_link=True)
    sim = scenes.scene(robot, 2, at=scenes.pose(0.1, -0.2, 0.5))
    model = mujoco.MjModel.from_xml_string(sim.engine.model_xml())
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.xpos[1], [0.1, -0.2, 0.5])
    np.testing.assert_allclose(data.xpos[1:], sim.engine.kinematics("xpos")[0, 1:])


def test_weights_of_constraints_are_those_of_mujoco_but_with_the_armature_of_drives(tmp_path):
    walker = scenes.WALKER.replace('<body name="torso">', '<body name="torso"><freejoint/>')
    model = mujoco.MjModel.from_xml_string(walker)
    plain = model.dof_invweight0.copy(), model.body_invweight0.copy()
    weights.write(model)
    np.testing.assert_allclose(model.dof_invweight0, plain[0], rtol=1e-9)
    np.testing.assert_allclose(model.body_invweight0, plain[1], rtol=1e-9)
    light = scenes.asset(tmp_path, scenes.SLIDER.format(mass=0.01), fix_base_link=True)
    sim = scenes.scene(light, 3)
    props = properties.get_dofs(sim.envs[0].actors[0])
    props["driveMode"], props["stiffness"], props["armature"] = POS, 1e4, 0.0
    for env in sim.envs:
        properties.set_dofs(sim, env.actors[0], props)
    assert sim.engine.model.dof_invweight0[0] == pytest.approx(1.0 / (0.01 + 1.0))  # h^2 kp = 1
    records = properties.get_bodies(sim.envs[1].actors[0])
    records[1].mass = 0.02
    properties.set_bodies(sim, sim.envs[1].actors[0], records, True)
    sim.simulate()
    weight = sim.engine.batch.expand("dof_invweight0")
    np.testing.assert_allclose(weight[:, 0] * 1.01, [1.0, 0.5, 1.0])  # by the same ratio as before

"""Model fields that differ between environments, and what must follow them."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
import torch
from sim_worlds import (
    FALLING,
    FLOOR,
    PENDULUM,
    STACKED,
    make,
)


@pytest.fixture(params=["mujoco", "reference"])
def engine(request):
    return request.param


def test_stacked_boxes_rest_at_the_height_of_their_size(engine, tmp_path):
    sim = make(STACKED, tmp_path, engine, decimation=50)
    sim.require("body_pos_w")
    sim.start()
    size, mass = sim.randomize("geom_size"), sim.randomize("body_mass")
    low, high = sim.body_ids(["low", "high"])
    halves = torch.tensor([[0.05, 0.1], [0.3, 0.2], [0.15, 0.25]]).double()
    size[:, 1], size[:, 2] = halves[:, 0, None], halves[:, 1, None]
    mass[:, high] *= torch.tensor([0.5, 1.0, 2.0])
    sim.apply_randomization(torch.arange(3))
    qpos = sim.default_qpos.repeat(3, 1)
    qpos[:, 2], qpos[:, 9] = halves[:, 0], 2 * halves[:, 0] + halves[:, 1] + 0.01
    sim.reset(torch.arange(3), qpos, torch.zeros(3, sim.qvel.shape[1]))
    for _ in range(8):
        sim.step()
    expected = torch.stack([halves[:, 0], 2 * halves[:, 0] + halves[:, 1]], 1).float()
    torch.testing.assert_close(sim.body_pos_w[:, [low, high], 2], expected, rtol=0, atol=0.004)


def test_a_body_of_several_geoms_rests_at_the_height_of_its_size(engine, tmp_path):
    # several geoms a body: collisions go through its bounding volume hierarchy
    parts = "".join(f'<geom type="{{t}}" pos="{where}" size=".1 .1 .1"/>' for where in ("0 0 0", ".5 0 0", "0 .5 0"))
    bodies = "".join(
        f'<body name="{n}" pos="0 0 {z}"><freejoint/>{parts.format(t=t)}</body>'
        for n, z, t in (("low", 0.4, "box"), ("high", 0.9, "sphere"))
    )
    sim = make(f"<mujoco><worldbody>{FLOOR}{bodies}</worldbody></mujoco>", tmp_path, engine, decimation=50)
    sim.require("body_pos_w")
    sim.start()
    low, high = torch.tensor([0.1, 0.2, 0.05]).double(), torch.tensor([0.1, 0.05, 0.2]).double()
    size = sim.randomize("geom_size")
    size[:, 1:4], size[:, 4:] = low[:, None, None], high[:, None, None]
    sim.apply_randomization(torch.arange(3))
    qpos = sim.default_qpos.repeat(3, 1)
    qpos[:, 2], qpos[:, 9] = low + 0.005, 2 * low + high + 0.01
    sim.reset(torch.arange(3), qpos, torch.zeros(3, 12))
    for _ in range(8):
        sim.step()
    expected = torch.stack([low, 2 * low + high], 1).float()
    torch.testing.assert_close(sim.body_pos_w[:, 1:, 2], expected, rtol=0, atol=0.004)


@pytest.mark.parametrize(
    ("kind", "size"),
    [
        ("sphere", (0.3,)),
        ("capsule", (0.1, 0.4)),
        ("cylinder", (0.2, 0.3)),
        ("ellipsoid", (0.1, 0.3, 0.2)),
        ("box", (0.1, 0.3, 0.2)),
    ],
)
def test_bounding_volumes_follow_the_size(engine, tmp_path, kind, size):
    def world(*sizes):
        geom = f'<geom type="{kind}" size="{" ".join(map(str, sizes))}"/>'
        return f"<mujoco><worldbody><body><freejoint/>{geom}</body></worldbody></mujoco>"

    compiled = mujoco.MjModel.from_xml_string(world(*size))
    sim = make(world(*(0.05 for _ in size)), tmp_path, engine)
    sim.start()
    sim.randomize("geom_size")[1, 0, : len(size)] = torch.tensor(size).double()
    sim.apply_randomization(torch.tensor([1]))
    model = sim.batch.get_model(1) if engine == "mujoco" else sim.models[1]
    np.testing.assert_allclose(model.geom_rbound, compiled.geom_rbound)
    np.testing.assert_allclose(model.geom_aabb, compiled.geom_aabb, atol=1e-12)


def test_a_changed_mass_brings_its_inertia_unless_that_is_randomised_too(engine, tmp_path):
    sim = make(PENDULUM, tmp_path, engine)
    sim.start()
    bob = sim.body_ids(["bob"])[0]
    before = torch.from_numpy(sim.world.model.body_inertia.copy())
    sim.randomize("body_mass")[1, bob] *= 3
    sim.apply_randomization(torch.arange(3))
    torch.testing.assert_close(
        sim.model_fields["body_inertia"][:, bob] / before[bob], torch.tensor([1.0, 3, 1]).double()[:, None].repeat(1, 3)
    )
    sim.randomize("body_inertia")[2, bob] *= 5
    sim.apply_randomization(torch.arange(3))
    assert sim.model_fields["body_inertia"][2, bob, 0] == pytest.approx(5 * before[bob, 0].item())


def test_randomised_gravity_is_each_environments_own(engine, tmp_path):
    sim = make(FALLING, tmp_path, engine)
    sim.start()
    sim.randomize("opt.gravity")[:, 2] = torch.tensor([-1.0, -2.0, -4.0])
    sim.apply_randomization(torch.arange(3))
    sim.step()
    assert sim.qvel[:, 2].tolist() == pytest.approx([-0.004, -0.008, -0.016], rel=1e-5)


@pytest.mark.parametrize("heights", [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]])
def test_a_reset_puts_a_mocap_body_where_its_own_model_has_it(engine, tmp_path, heights):
    world = '<body name="target" mocap="true" pos="0 0 1"><geom size=".1" contype="0"/></body>'
    sim = make(PENDULUM.replace("<worldbody>", f"<worldbody>{world}"), tmp_path, engine)
    sim.require("body_pos_w")
    sim.start()
    target = sim.body_ids(["target"])[0]
    if heights[1] != 1.0:
        sim.randomize("body_pos")[:, target, 2] = torch.tensor(heights).double()
        sim.apply_randomization(torch.arange(3))
    sim.reset(torch.arange(3), torch.zeros(3, 1), torch.zeros(3, 1))
    assert sim.body_pos_w[:, target, 2].tolist() == heights

"""The fast CPU engine against the slow one, at several numbers of threads, and what only it can get wrong."""

from __future__ import annotations

import logging
import warnings

import mujoco
import pytest
import torch
from sim_worlds import (
    ANT,
    BUSY,
    FALLING,
    FLOOR,
    differing,
    drive,
    make,
    make_busy,
    readings,
)

from livegym.sim.model import STAGE_NONE, STAGE_POS, STAGE_VEL


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def assert_same_readings(fast, slow):
    """Fields agree to float32 rounding, and none of them is trivially zero in any environment."""
    for name, expected in readings(slow).items():
        if name != "unstable":
            assert (expected.abs().flatten(1).sum(1) > 0).all(), f"{name} is zero: the comparison shows nothing"
        torch.testing.assert_close(fast.fields[name], expected, rtol=2e-6, atol=2e-6, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("integrator", ["euler", "rk4", "implicitfast"])
def test_every_field_equals_the_reference_engines(tmp_path, integrator):
    fast, slow = (make_busy(tmp_path, engine=e, integrator=integrator) for e in ("mujoco", "reference"))
    drive(fast, 60)  # the box is on the floor
    drive(slow, 60)
    assert_same_readings(fast, slow)
    assert torch.equal(fast.qpos, slow.qpos)
    assert (fast.cfrc_ext[:, fast.body_ids(["box"])[0]].abs().sum(1) > 1).all()
    fast.qpos[1, 0] += 0.4
    slow.qpos[1, 0] += 0.4
    fast.forward(torch.tensor([1]))
    slow.forward(torch.tensor([1]))
    assert_same_readings(fast, slow)


def test_every_field_equals_the_reference_engines_on_ant(tmp_path):
    sims = []
    for engine in ("mujoco", "reference"):
        sim = make(ANT, tmp_path, engine=engine, envs=4, decimation=5)
        sim.require("body_pos_w", "body_quat_w", "body_vel_w", "cfrc_ext")
        sim.require_contact("torso", "front_left_leg")
        sim.start()
        drive(sim, 40)
        sims.append(sim)
    fast, slow = sims
    assert torch.equal(fast.qpos, slow.qpos)
    assert slow.cfrc_ext.abs().sum() > 0
    for name, expected in readings(slow).items():
        torch.testing.assert_close(fast.fields[name], expected, rtol=2e-6, atol=2e-6)


def test_results_do_not_depend_on_threads(tmp_path):
    results = []
    for threads in (1, 2, 3):
        sim = make_busy(tmp_path, envs=7, threads=threads)
        drive(sim, 40, seed=3)
        results.append(readings(sim))
        sim.close()
    assert differing(results[0], results[1]) == differing(results[0], results[2]) == []
    assert len({tuple(row.tolist()) for row in results[0]["qpos"]}) == 7


@pytest.mark.parametrize(
    ("fields", "stage"),
    [
        (("qpos", "cfrc_ext", "sensor:hand_acc"), STAGE_NONE),
        (("body_pos_w",), STAGE_POS),
        (("sensor:hand_pos",), STAGE_POS),
        (("site_pos_w", "sensor:hand_gyro"), STAGE_VEL),
        (("body_vel_w",), STAGE_VEL),
    ],
)
def test_no_more_is_computed_than_the_fields_need(tmp_path, fields, stage):
    sim = make(BUSY, tmp_path)
    sim.require(*fields)
    sim.require_contact("box")
    sim.start()
    assert sim.world.stage == stage


def test_fields_are_refreshed_in_place(tmp_path):
    sim = make_busy(tmp_path)
    kept_tensors = {name: (values, values.data_ptr()) for name, values in sim.fields.items()}
    drive(sim, 3)
    sim.restore(sim.snapshot(torch.arange(3)))
    assert all(sim.fields[name] is values and values.data_ptr() == at for name, (values, at) in kept_tensors.items())
    assert sim.contact_force_w(["box", "arm"]).data_ptr() == kept_tensors["contact_force_w"][1]


def test_numbers_beyond_float32_are_flagged_without_noise(tmp_path):
    sim = make_busy(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.qvel[0, :2] = 3e38
        sim.forward(torch.tensor([0]))
        drive(sim, 3)
    assert sim.unstable.tolist() == [True, False, False]


def test_a_state_that_is_not_finite_is_flagged_where_no_counter_rose(tmp_path):
    # a Runge-Kutta step can end there: MuJoCo checks the next one, which another policy decision precedes
    sim = make_busy(tmp_path)

    def step(ids, **how):
        sim.batch.bind("qvel")[1, 0] = float("inf")
        sim.batch.bind("qvel")[1, 1] = float("-inf")

    sim.batch.__dict__["step"] = step
    sim.step()
    assert sim.unstable.tolist() == [False, True, False]


def test_an_error_inside_mujoco_is_one_environments_matter(tmp_path, caplog):
    # ten boxes touch the floor in one environment; the memory suffices for few contacts only
    boxes = "".join(f'<body pos="{i} 0 3"><freejoint/><geom type="box" size=".1 .1 .1"/></body>' for i in range(10))
    text = f'<mujoco><size memory="60K"/><worldbody>{FLOOR}{boxes}</worldbody></mujoco>'
    sim = make(text, tmp_path)
    sim.start()
    qpos = sim.default_qpos.repeat(3, 1)
    qpos[1, 2::7] = 0.1
    sim.reset(torch.arange(3), qpos, torch.zeros(3, 60))
    with caplog.at_level(logging.WARNING):
        sim.step()
        sim.step()
    assert sim.unstable.tolist() == [False, True, False]
    assert (sim.qpos[[0, 2], 2] < 3).all()
    assert caplog.text.count("out of memory") == 1


def test_other_warnings_of_mujoco_are_logged_once(tmp_path, caplog):
    sim = make(FALLING, tmp_path)
    sim.start()
    counts = sim.batch.warning
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            before = counts[:, :, 1].copy()
            counts[1, int(mujoco.mjtWarning.mjWARN_INERTIA), 1] += 1
            sim._report(counts[:, :, 1] > before)
    assert caplog.text.count("logged once") == 1
    assert "environment 1" in caplog.text

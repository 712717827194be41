"""The promises of `sim.base.Simulator`, held by every engine."""

from __future__ import annotations

import math

import pytest
import torch
from sim_worlds import (
    ANT,
    FALLING,
    PENDULUM,
    STACKED,
    busy_states,
    differing,
    drive,
    make,
    make_busy,
    readings,
)

from livegym.schema import PhysicsConfig, SimConfig
from livegym.sim import create

G = 9.81
NAN = float("nan")


@pytest.fixture(params=["mujoco", "reference"])
def engine(request):
    return request.param


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# hand-computed physics


def test_free_fall_velocity(engine, tmp_path):
    sim = make(FALLING, tmp_path, engine, decimation=5)
    sim.require("body_vel_w")
    sim.start()
    for _ in range(20):
        sim.step()
    time = 20 * sim.control_dt
    assert time == pytest.approx(0.2)
    velocity = sim.body_vel_w[:, sim.body_ids(["box"])[0]]
    torch.testing.assert_close(velocity[0], torch.tensor([0, 0, -G * time, 0, 0, 0]), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(sim.qvel, velocity, rtol=1e-5, atol=1e-6)


def test_contact_force_is_what_holds_the_body_itself(engine, tmp_path):
    sim = make(STACKED, tmp_path, engine, envs=1, decimation=10)
    sim.require_contact("low", "high", "parent", "child")
    sim.start()
    for _ in range(60):
        sim.step()
    force = sim.contact_force_w(["low", "high", "parent", "child"])[0]
    torch.testing.assert_close(force[0], torch.tensor([0, 0, 1 * G]), rtol=0, atol=0.02)  # floor up, upper box down
    torch.testing.assert_close(force[1], torch.tensor([0, 0, 2 * G]), rtol=0, atol=0.02)
    assert force[2:, 2].sum().item() == pytest.approx(4 * G, abs=0.1)
    assert 0 < force[2, 2] < 2 * G  # without its child
    torch.testing.assert_close(sim.contact_force_w(["child", "low"])[0], force[[3, 0]])


def test_contact_force_of_one_body_on_another(engine, tmp_path):
    sim = make(STACKED, tmp_path, engine, envs=1, decimation=10)
    sim.require_contact("low", "high", against="world")
    sim.require_contact("high")
    sim.require_contact("low", against="high")
    sim.start()
    for _ in range(60):
        sim.step()
    floor = sim.contact_force_w(["low", "high"], against="world")[0]
    torch.testing.assert_close(floor, torch.tensor([[0, 0, 3 * G], [0, 0, 0]]), rtol=0, atol=0.02)
    upper = sim.contact_force_w(["low"], against="high")[0, 0]
    torch.testing.assert_close(upper, torch.tensor([0, 0, -2 * G]), rtol=0, atol=0.02)
    torch.testing.assert_close(sim.contact_force_w(["high"])[0, 0], -upper)
    with pytest.raises(AttributeError, match=r"require_contact\('low'\) before"):
        sim.contact_force_w(["low"])
    with pytest.raises(AttributeError, match=r"require_contact\('high', against='low'\) before"):
        sim.contact_force_w(["high"], against="low")
    with pytest.raises(ValueError, match=r"body hihg: unknown.*high"):
        sim.contact_force_w(["low"], against="hihg")


def test_kinematic_fields_are_current_after_reset_and_step(engine, tmp_path):
    sim = make(PENDULUM, tmp_path, engine)
    sim.require("body_pos_w", "body_quat_w", "body_vel_w")
    sim.start()
    bob = sim.body_ids(["bob"])[0]

    def check():
        angle, rate = sim.qpos[:, 0].double(), sim.qvel[:, 0].double()
        zero = torch.zeros_like(angle)
        where = torch.stack([-angle.sin(), zero, -angle.cos()], 1)
        velocity = torch.stack([-angle.cos() * rate, zero, angle.sin() * rate, zero, rate, zero], 1)
        turn = torch.stack([(angle / 2).cos(), zero, (angle / 2).sin(), zero], 1)
        torch.testing.assert_close(sim.body_pos_w[:, bob], where.float())
        torch.testing.assert_close(sim.body_vel_w[:, bob], velocity.float())
        torch.testing.assert_close(sim.body_quat_w[:, bob], turn.float())

    check()
    sim.reset(torch.tensor([0, 2]), torch.tensor([[0.5], [-0.9]]), torch.tensor([[1.0], [2.0]]))
    assert sim.qpos[:, 0].tolist() == pytest.approx([0.5, 0, -0.9])
    check()
    sim.ctrl[:] = torch.tensor([[0.1], [2.0], [-3.0]])
    for _ in range(5):
        sim.step()
    assert sim.qvel[:, 0].abs().min() > 0.01
    check()


# resets, forward, snapshots


def test_partial_reset_leaves_the_others_bit_identical(engine, tmp_path):
    sim, other = make_busy(tmp_path, engine=engine), make_busy(tmp_path, engine=engine)
    drive(sim, 30)
    drive(other, 30)
    before = readings(sim)
    qpos, qvel = busy_states(sim)
    sim.reset(torch.tensor([1]), qpos[1:2], qvel[1:2])
    assert differing(before, readings(sim), [0, 2]) == []
    assert "body_pos_w" in differing(before, readings(sim), [1])
    drive(sim, 10, seed=1)
    drive(other, 10, seed=1)
    assert differing(readings(other), readings(sim), [0, 2]) == []


def test_a_reset_environment_continues_like_a_new_one(engine, tmp_path):
    sim, new = make_busy(tmp_path, engine=engine), make_busy(tmp_path, engine=engine)
    drive(sim, 30)
    sim.reset(torch.arange(3), *busy_states(sim))
    assert differing(readings(new), readings(sim)) == []
    drive(sim, 5)
    drive(new, 5)
    assert differing(readings(new), readings(sim)) == []


def test_forces_are_zero_after_reset_and_kept_by_forward(engine, tmp_path):
    sim = make_busy(tmp_path, engine=engine)
    drive(sim, 60)
    forces = ("cfrc_ext", "contact_force_w", "actuator_force", "sensor:hand_acc")
    before = readings(sim)
    assert all(before[name].abs().sum() > 0 for name in forces)
    sim.qpos[1, 0] += 0.5
    sim.forward(torch.tensor([0, 1]))
    after = readings(sim)
    assert differing(before, after, [0, 2]) == []
    assert set(differing(before, after)).isdisjoint(forces)
    assert "body_pos_w" in differing(before, after)
    sim.reset(torch.tensor([0]), *(x[:1] for x in busy_states(sim)))
    assert all(sim.fields[name][0].abs().sum() == 0 for name in (*forces, "ctrl"))
    assert all(sim.fields[name][1].abs().sum() > 0 for name in ("sensor:hand_acc", "ctrl"))


def test_forward_takes_over_only_what_was_written(engine, tmp_path):
    sim, untouched = make_busy(tmp_path, engine=engine), make_busy(tmp_path, engine=engine)
    drive(sim, 10)
    drive(untouched, 10)
    sim.forward(torch.arange(3))  # float32 must not round the states
    sim.qvel[2, 0] = 1.25
    sim.forward(torch.tensor([2]))
    drive(sim, 1, seed=2)
    drive(untouched, 1, seed=2)
    assert differing(readings(untouched), readings(sim), [0, 1]) == []
    assert sim.qvel[2, 0] == pytest.approx(1.25, abs=0.2)


@pytest.mark.parametrize("randomised", [False, True])
def test_snapshot_and_restore_are_bit_exact(engine, tmp_path, randomised):
    sim = make_busy(tmp_path, engine=engine)
    if randomised:
        for field, factors in (("body_mass", (1.0, 1.5, 0.7)), ("geom_size", (1.0, 1.2, 0.9))):
            values = sim.randomize(field)
            values *= torch.tensor(factors).double().reshape(3, *[1] * (values.ndim - 1))
        sim.apply_randomization(torch.arange(3))
    drive(sim, 30)
    saved = sim.snapshot(torch.arange(3))
    at_save = readings(sim)
    drive(sim, 20, seed=1)
    expected = readings(sim)
    if randomised:
        sim.randomize("body_mass")[:] *= 2
        sim.randomize("dof_damping")[:] = 3  # not randomised at the time of the snapshot
        sim.apply_randomization(torch.arange(3))
    drive(sim, 7)
    sim.restore(saved)
    assert differing(at_save, readings(sim)) == []
    drive(sim, 20, seed=1)
    assert differing(expected, readings(sim)) == []
    assert expected["contact_force_w"].abs().sum() > 0


def test_restore_into_other_ids_and_into_another_simulator(engine, tmp_path):
    sim = make_busy(tmp_path, engine=engine)
    sim.randomize("body_mass")[2] *= 1.7
    sim.apply_randomization(torch.tensor([2]))
    drive(sim, 30)
    saved = sim.snapshot(torch.tensor([2, 0]))
    small = make_busy(tmp_path, engine=engine, envs=2)
    small.restore(saved, torch.tensor([0, 1]))
    sim.restore(saved, torch.tensor([1, 0]))
    sim.ctrl[:] = 0.5
    small.ctrl[:] = 0.5
    for _ in range(10):
        sim.step()
        small.step()
    got = readings(sim)
    assert all(torch.equal(got[name][1], got[name][2]) for name in got)
    assert all(torch.equal(got[name][[2, 0]], values) for name, values in readings(small).items())
    assert not torch.equal(got["qpos"][0], got["qpos"][1])


# instability


def test_nan_is_flagged_alone_written_nowhere_and_mended_by_reset(engine, tmp_path, capfd):
    sim, sound = make_busy(tmp_path, engine=engine), make_busy(tmp_path, engine=engine)
    drive(sim, 5)
    drive(sound, 5)
    sim.qpos[1, 0] = NAN
    sim.forward(torch.tensor([1]))
    for seed in (1, 2):
        drive(sim, 2, seed)
        drive(sound, 2, seed)
        assert sim.unstable.tolist() == [False, True, False]
    assert differing(readings(sound), readings(sim), [0, 2]) == []
    assert not sim.qpos[1].isfinite().all()  # not healed
    qpos, qvel = busy_states(sim)
    for one in (sim, sound):
        one.reset(torch.tensor([1]), qpos[1:2], qvel[1:2])
        drive(one, 5, seed=3)
    assert differing(readings(sound), readings(sim)) == []
    assert not sim.unstable.any()
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("field", "value"), [("qvel", NAN), ("qvel", 1e12), ("qpos", math.inf), ("ctrl", NAN)])
def test_every_way_out_of_the_finite_numbers_is_flagged(engine, tmp_path, field, value):
    sim = make_busy(tmp_path, engine=engine)
    getattr(sim, field)[2, 1] = value
    if field != "ctrl":
        sim.forward(torch.tensor([2]))
    sim.step()
    assert sim.unstable.tolist() == [False, False, True]


def test_an_unstable_environment_stands_still_until_it_is_set_anew(engine, tmp_path):
    sim = make_busy(tmp_path, engine=engine)
    sim.qvel[1, 1] = 1e12
    sim.forward(torch.tensor([1]))
    sim.step()
    assert sim.unstable.tolist() == [False, True, False]
    broken, saved = readings(sim), sim.snapshot(torch.tensor([1]))
    drive(sim, 2)
    assert set(differing(broken, readings(sim), [1])) == {"ctrl"}
    sim.reset(torch.tensor([1]), *(x[1:2] for x in busy_states(sim)))
    drive(sim, 2)
    assert not sim.unstable.any()
    sim.restore(saved)
    assert sim.unstable.tolist() == [False, True, False]
    sim.step()
    assert differing(broken, readings(sim), [1]) == []
    sim.qpos[1], sim.qvel[1] = (x[1] for x in busy_states(sim))
    sim.forward(torch.tensor([1]))
    assert not sim.unstable.any()
    drive(sim, 2)
    assert "qpos" in differing(broken, readings(sim), [1])


def test_all_environments_may_be_unstable(engine, tmp_path):
    sim = make_busy(tmp_path, engine=engine)
    sim.qvel[:] = NAN
    sim.forward(torch.arange(3))
    sim.step()
    sim.step()
    assert sim.unstable.all()
    sim.reset(torch.arange(3), *busy_states(sim))
    sim.step()
    assert not sim.unstable.any()


def test_ant_starts_and_steps(engine):
    sim = create(SimConfig(engine=engine, threads=1), PhysicsConfig(), ANT, 2, 5)
    sim.require("body_pos_w")
    sim.start()
    assert sim.control_dt == pytest.approx(0.05)
    assert sim.body_pos_w[:, sim.body_ids(["torso"])[0], 2].tolist() == [0.75, 0.75]
    sim.step()
    assert (sim.qpos[:, 2] != 0.75).all()
    sim.close()

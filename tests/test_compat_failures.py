"""An environment that MuJoCo refuses to step, or whose numbers are bad, concerns no other."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from livegym.compat.core import properties
from livegym.compat.core.asset import sphere
from livegym.compat.core.drives import POS
from livegym.compat.core.engine import Engine
from livegym.compat.foreign.sim import ForeignSim
from tests import compat_scenes as scenes

NO_INTEGRATOR = 99
"""MuJoCo raises an error in each environment whose option says so."""


def legs(folder, effort: float, substeps: int = 3):
    """Four walkers that fall, with driven legs; an effort limit makes the engine check each substep."""
    sim = scenes.scene(scenes.asset(folder, scenes.WALKER), 4, substeps=substeps)
    for env in sim.envs:
        props = properties.get_dofs(env.actors[0])
        props["driveMode"], props["stiffness"], props["damping"], props["effort"] = POS, 80.0, 1.0, effort
        properties.set_dofs(sim, env.actors[0], props)
    sim.engine.drives.set_targets(POS, np.linspace(-1, 1, 8).reshape(4, 2))
    return sim


@pytest.mark.parametrize("effort", [0.0, 2.0])
def test_only_the_environments_that_fail_stop(tmp_path, effort):
    sim, sound = legs(tmp_path, effort), legs(tmp_path, effort)
    engine = sim.engine
    assert engine.drives.limited == (effort > 0)
    before = engine.qpos.copy()
    engine.expand("opt.integrator")[[1, 3]] = NO_INTEGRATOR
    for _ in range(4):
        sim.simulate()
        sound.simulate()
    np.testing.assert_array_equal(engine.qpos[[0, 2]], sound.engine.qpos[[0, 2]])
    np.testing.assert_array_equal(engine.qvel[[0, 2]], sound.engine.qvel[[0, 2]])
    np.testing.assert_array_equal(engine.qpos[[1, 3]], before[[1, 3]])
    assert engine.faults().tolist() == [0, 4, 0, 4]
    assert not sound.engine.faults().any()


def test_a_failure_in_a_late_round_stops_that_environment_alone(tmp_path, monkeypatch):
    """The drive of environment 1 is stepped again from the same state, and MuJoCo refuses the second time."""
    sim, sound = legs(tmp_path, 2.0, substeps=1), legs(tmp_path, 2.0, substeps=1)
    engine = sim.engine
    before = engine.qpos.copy()
    change, rounds = engine.drives._change_sides, []

    def broken_then(*given):
        wrong = change(*given)
        rounds.append(wrong.tolist())
        engine.expand("opt.integrator")[1] = NO_INTEGRATOR
        return wrong

    monkeypatch.setattr(engine.drives, "_change_sides", broken_then)
    sim.simulate()
    sound.simulate()
    assert 1 in rounds[0]
    assert 1 not in rounds[1]
    np.testing.assert_array_equal(engine.qpos[[0, 2, 3]], sound.engine.qpos[[0, 2, 3]])
    np.testing.assert_array_equal(engine.qpos[1], before[1])


def test_bodies_of_an_environment_that_fails_can_be_read(tmp_path):
    sim = legs(tmp_path, 0.0)
    body = sim.tensors.acquire("body")
    sim.engine.expand("opt.integrator")[2] = NO_INTEGRATOR
    sim.simulate()
    sim.tensors.refresh("body")
    rows = body.view(4, 3, 13)
    assert (rows[[0, 1, 3], 0, 7:].abs().sum(1) > 0.1).all()
    assert not rows[2, :, 7:].any()


def test_a_failure_is_said_once_not_in_each_step(tmp_path, caplog):
    sim = legs(tmp_path, 2.0)
    sim.engine.expand("opt.integrator")[1] = NO_INTEGRATOR
    with caplog.at_level(logging.WARNING, logger=Engine.__module__):
        for _ in range(3):
            sim.simulate()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "keep their state" in said[0]


def test_a_task_sees_which_environments_failed(tmp_path):
    sim = legs(tmp_path, 2.0)
    seen = ForeignSim(sim, 4, sim.params.dt)
    for failing in ([], [3], []):
        sim.engine.expand("opt.integrator")[:] = 0
        sim.engine.expand("opt.integrator")[failing] = NO_INTEGRATOR
        sim.simulate()
        seen.find_unstable({})
        assert seen.unstable.nonzero().reshape(-1).tolist() == failing
    sim.engine.qpos[0, 2] = np.nan
    seen.find_unstable({})
    assert seen.unstable.tolist() == [True, False, False, False]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_environment_whose_state_was_no_number_is_sound_after_its_reset(tmp_path, monkeypatch, bad):
    """A reset writes positions and velocities; the solver's first guess was still no number, and failed for ever."""
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log there
    sim = scenes.scene(sphere(0.1), 2, at=scenes.pose(z=0.099), ground=True)
    engine = sim.engine
    for _ in range(3):
        sim.simulate()
    rests = engine.qpos.copy(), engine.qvel.copy()
    engine.qvel[1, 2] = bad
    with np.errstate(all="ignore"):
        sim.simulate()
    assert engine.finite().tolist() == [True, False]
    failed = engine.faults().copy()
    assert failed[0] == 0
    assert failed[1] > 0
    engine.qpos[:], engine.qvel[:] = rests
    for _ in range(100):
        sim.simulate()
    assert engine.faults().tolist() == failed.tolist()
    np.testing.assert_allclose(engine.qpos[1], engine.qpos[0], atol=1e-9)

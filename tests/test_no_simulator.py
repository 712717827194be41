"""sim=none: no bodies, the task's own time, exact snapshots, and a clear word to whoever asks for bodies."""

from __future__ import annotations

import math

import mujoco
import pytest
import torch

from livegym.cfg.saved import resumed_config, with_run_config
from livegym.cfg.typed import as_dict
from livegym.schema import PhysicsConfig, SimConfig
from livegym.sim import create
from livegym.sim.base import APPLIED, NoModel
from livegym.sim.recorder import StateRecorder
from livegym.tasks.build import make_env
from livegym.utils.errors import UserError

NONE = SimConfig(engine="none")


def make(envs=3, decimation=1, controls=2):
    sim = create(NONE, PhysicsConfig(), NoModel(15.0, controls), envs, decimation)
    sim.require("qpos", "qvel")
    sim.start()
    return sim


def test_states_are_empty_controls_as_wide_as_asked_and_time_is_the_tasks():
    sim = make(envs=3, decimation=5)
    assert (tuple(sim.qpos.shape), tuple(sim.qvel.shape), tuple(sim.ctrl.shape)) == ((3, 0), (3, 0), (3, 2))
    assert (sim.control_dt, sim.dt, sim.decimation) == (15.0, 3.0, 5)
    assert (tuple(sim.default_qpos.shape), tuple(sim.ctrl_range.shape)) == ((0,), (2, 2))


def test_a_step_counts_and_keeps_the_controls():
    sim = make()
    sim.ctrl[:] = torch.tensor([[399.0, 1.0], [3.0, 0.0], [5.0, 1.0]])
    sim.step()
    sim.step()
    sim.reset(torch.tensor([1]), torch.zeros(1, 0), torch.zeros(1, 0))
    sim.step()
    assert sim.steps.tolist() == [3, 1, 3]
    assert sim.ctrl.tolist() == [[399.0, 1.0], [0.0, 0.0], [5.0, 1.0]]


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_controls_that_are_no_numbers_are_flagged_alone_until_the_environment_is_set_anew(value):
    sim = make()
    sim.ctrl[1, 0] = value
    sim.step()
    sim.ctrl[1, 0] = 0.0
    sim.step()
    assert sim.unstable.tolist() == [False, True, False]
    assert sim.steps.tolist() == [2, 0, 2]  # it stands still
    sim.reset(torch.tensor([1]), torch.zeros(1, 0), torch.zeros(1, 0))
    assert not sim.unstable.any()
    sim.ctrl[0, 0] = value
    sim.step()
    sim.forward(torch.tensor([0]))
    assert not sim.unstable.any()


def test_a_snapshot_is_a_copy_and_comes_back_bit_for_bit_also_elsewhere():
    sim = make()
    sim.ctrl[:] = torch.rand(3, 2)
    sim.ctrl[2, 1] = math.nan
    sim.step()
    saved = sim.snapshot(torch.tensor([2, 0]))
    kept = {name: value.clone() for name, value in saved.arrays.items()}
    sim.reset(torch.arange(3), torch.zeros(3, 0), torch.zeros(3, 0))
    assert all(torch.equal(saved.arrays[name].nan_to_num(), kept[name].nan_to_num()) for name in kept)
    other = make(envs=2)
    other.restore(saved, torch.tensor([1, 0]))
    assert other.unstable.tolist() == [False, True]
    assert other.steps.tolist() == [1, 0]
    assert torch.equal(other.ctrl[0], kept["ctrl"][1])
    with pytest.raises(ValueError, match="another simulator"):
        make(controls=1).restore(saved, torch.tensor([0, 1]))


@pytest.mark.parametrize(
    "ask",
    [
        lambda sim: sim.require("body_pos_w"),
        lambda sim: sim.require(APPLIED),
        lambda sim: sim.require_contact("palm"),
        lambda sim: sim.randomize("body_mass"),
        lambda sim: sim.apply_randomization(torch.arange(1)),
        lambda sim: sim.model_value("geom_size"),
        lambda sim: sim.sensor("touch"),
        lambda sim: sim.contact_force_w(["palm"]),
        lambda sim: sim.body_ids(["palm"]),
        lambda sim: sim.site_ids(["palm"]),
        lambda sim: sim.geom_ids(["palm"]),
        lambda sim: sim.actuator_ids(["palm"]),
        lambda sim: sim.qpos_ids(["palm"]),
        lambda sim: sim.qvel_ids(["palm"]),
    ],
)
def test_whatever_asks_for_bodies_is_refused(ask):
    with pytest.raises(UserError, match="sim=none has no bodies"):
        ask(make())


def test_fields_of_bodies_are_not_there():
    with pytest.raises(AttributeError, match="body_pos_w: sim=none has no bodies"):
        _ = make().body_pos_w
    assert [make().names("body"), make().geom_shapes(), make().geom_body_ids()] == [[], [], []]


def test_its_model_opens_and_its_last_states_can_be_recorded(tmp_path):
    sim = make()
    assert mujoco.MjModel.from_xml_string(sim.model_xml()).nbody == 1  # the world itself
    recorder = StateRecorder(sim, tmp_path, length=2)
    recorder.push()
    assert len(recorder.dump(torch.tensor([1]), 7)) == 1


@pytest.mark.parametrize(
    ("engine", "model", "parts"),
    [
        ("none", "ant.xml", ["sim=none", "ant.xml", "Allowed: mujoco, reference"]),
        ("mujoco", NoModel(1.0, 1), ["sim=mujoco", "Allowed: none"]),
        ("non", NoModel(1.0, 1), ["sim.engine=non", "Did you mean none?"]),
    ],
)
def test_an_engine_that_does_not_fit_is_refused(engine, model, parts):
    with pytest.raises(UserError) as error:
        create(SimConfig(engine=engine), PhysicsConfig(), model, 1, 1)
    assert all(part in str(error.value) for part in parts)


def test_physics_settings_are_refused_where_there_is_no_physics():
    with pytest.raises(UserError, match=r"physics\.substeps=2"):
        create(NONE, PhysicsConfig(substeps=2), NoModel(1.0, 1), 1, 1)


def test_the_task_chooses_it_by_itself_and_what_is_typed_wins(config):
    assert config("task=Territory").sim.engine == "none"
    assert config("task=Territory", "sim.threads=2").sim.engine == "none"
    assert config("task=Territory", "sim=reference").sim.engine == "reference"  # and is refused by `validate`
    assert config("task=Ant").sim.engine == "mujoco"


def test_a_mass_of_no_body_is_refused_and_noise_is_not(config):
    mass = "task.randomization.m={what: mass, names: ['*'], range: [0.5, 2.0]}"
    c = config("task=Territory", mass)
    with pytest.raises(UserError, match=r"task\.randomization\.m\.names: no body"):
        make_env(c.task, c.sim, c.physics, 1, 0)
    noisy = "task.randomization.n={what: observation_noise, range: [0.5, 2.0]}"
    c = config("task=Territory", noisy, "task.noise.minerals=0.1")
    make_env(c.task, c.sim, c.physics, 1, 0).step(torch.zeros(1, 2, dtype=torch.int64))


def test_a_runs_task_brings_its_engine_along(config):
    saved, session = as_dict(config("task=Territory", "numEnvs=8")), config("config=test", "checkpoint=x")
    assert session.sim.engine == "mujoco"
    found = with_run_config(session, saved, None, ["checkpoint=x"])
    assert (found.task.name, found.sim.engine) == ("Territory", "none")
    resumed = resumed_config(config("checkpoint=x", "resume=true"), saved, ["checkpoint", "resume"])
    assert resumed.sim.engine == "none"


@pytest.mark.parametrize(
    ("typed", "parts"),
    [
        ("sim=reference", ["sim=reference", "Allowed: none"]),
        ("physics=fast", ["physics.integrator=euler"]),
        ("watch=true", ["watch=true", "no bodies"]),
        ("viewer=true", ["viewer=true"]),
    ],
)
def test_what_a_run_without_bodies_cannot_have_is_refused_in_its_test(config, typed, parts):
    saved = as_dict(config("task=Territory", "numEnvs=8"))
    with pytest.raises(UserError) as error:
        with_run_config(config("config=test", "checkpoint=x", typed), saved, None, [typed])
    assert all(part in str(error.value) for part in parts)

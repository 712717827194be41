"""The walkers, toys in the layout of legged_gym: configuration by classes, resets in the step, torques in Python."""

from __future__ import annotations

import hashlib
import logging
import sys

import numpy as np
import pytest
import torch

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.projects import executed, record
from livegym.utils.errors import UserError
from tests.isaac_toys import WALKERS, copied, fresh_modules, made, needs_isaacgym, project, walkers  # noqa: F401

pytestmark = [needs_isaacgym, pytest.mark.usefixtures("walkers")]

HOUND = "walkers:hound"
N = 6
PLAIN = ("task.params.domain_rand.friction_range=[1,1]", "task.params.domain_rand.added_mass_range=[0,0]")


def test_the_classes_become_keys_of_the_task_and_of_the_learner():
    config = to_typed(compose([f"task={HOUND}", "task.params.control.action_scale=0.25"]))
    assert (config.task.num_envs, config.task.decimation, config.task.episode_length_s) == (64, 4, 1.0)
    assert config.task.params.control.action_scale == 0.25
    assert config.task.params.init_state.angles.rear_left == 0.3
    assert (config.train.horizon_length, config.train.num_minibatches, config.train.tau) == (16, 2, 0.95)
    assert config.train.network.separate
    with pytest.raises(UserError, match=r"Did you mean task\.params\.control\.damping"):
        compose([f"task={HOUND}", "task.params.control.dampin=1"])


def test_the_interface_is_measured():
    env = made(task=HOUND, num_envs=N)
    assert (env.layout.width("policy"), env.layout.width("privileged")) == (17, 18)
    assert env.sim.control_dt == pytest.approx(0.02)
    assert (env.sim.decimation, env.max_length, env.task.action_spec.size) == (4, 50, 4)
    assert env._loaded.reach == 3.0  # it clips actions there, so livegym's 1 is its 3


def test_changes_reach_the_environment_and_not_the_next_one():
    changed = made("task.params.control.stiffness=11", "task.params.domain_rand.friction_range=[0.7,0.7]", task=HOUND)
    assert changed._loaded.env.cfg.control.stiffness == 11
    assert changed._loaded.env.friction.unique().tolist() == [pytest.approx(0.7)]
    assert made(task=HOUND)._loaded.env.cfg.control.stiffness == 30.0


def test_an_episode_ends_in_the_step_that_begins_the_next_one():
    env = made(*PLAIN, task=HOUND, num_envs=N)
    env.reset()
    steps = [env.step(env.zero_action()) for _ in range(110)]
    ended = [index for index, step in enumerate(steps) if step.ended is not None]
    assert ended == [50, 101]  # it stands, and upstream's limit of 50 lets 51 steps pass
    last = steps[50]
    assert last.truncated.all()
    assert not last.terminated.any()
    assert last.ended.lengths.tolist() == [51] * N
    assert torch.equal(last.final_obs["policy"], steps[49].obs["policy"])  # the last one is not known
    assert torch.equal(last.final_obs["privileged"], steps[49].obs["privileged"])
    assert (last.obs["policy"][:, 6:10].abs() <= 0.1001).all()  # hips at the start of an episode
    returns = torch.stack([step.reward for step in steps[:51]]).double().sum(0)
    assert torch.allclose(last.ended.returns, returns)
    report = env.drain_report()
    assert report.metric_mean["progress"] == pytest.approx(np.mean(report.return_mean), rel=1e-5)
    assert report.metric_episodes == 2 * N


def test_friction_and_mass_are_in_the_model():
    env = made(task=HOUND, num_envs=N)
    foreign, found = env._loaded.env, env.sim.engine.snapshot()
    model = env.sim.engine.model
    trunk = next(index for index in range(model.nbody) if model.body(index).name.endswith("trunk"))
    mass = found["model/body_mass"][:, trunk]
    assert mass == pytest.approx(4.0 + foreign.added_mass[:, 0].numpy(), abs=1e-5)
    assert len(set(mass.round(5))) == N
    shapes = np.flatnonzero(model.geom_bodyid >= trunk)
    mean = (1.0 + foreign.friction.numpy()) / 2  # with the ground's 1
    assert found["model/geom_friction"][:, shapes, 0] == pytest.approx(np.repeat(mean, len(shapes), 1), abs=1e-5)


def test_a_push_of_the_task_sets_the_speed_of_the_trunk():
    pushes = ("task.params.domain_rand.max_push_vel=1", "task.params.domain_rand.push_interval=10")
    env, still = made(*PLAIN, *pushes, task=HOUND, num_envs=N), made(*PLAIN, task=HOUND, num_envs=N)
    for each in (env, still):
        for _ in range(9):  # the tenth, with the one that measured
            each.step(each.zero_action())
    moved = env.sim.qvel[:, :2]
    assert torch.allclose(moved, env._loaded.env.root_states[:, 7:9], atol=1e-6)
    assert moved.norm(dim=1).min() > 0.01
    assert (moved.abs() <= 1.0).all()
    assert still.sim.qvel[:, :2].norm(dim=1).max() < 0.01


def test_uneven_ground_is_in_the_model_and_carries():
    env = made(task="walkers:hound_rough", num_envs=N)
    assert env.sim.engine.model.nhfield == 1
    env.reset()
    steps = [env.step(env.zero_action()) for _ in range(40)]
    assert not any(step.terminated.any() for step in steps)
    assert env.sim.qpos[:, 2].std() > 1e-4  # each stands on other ground


def test_a_state_is_restored_exactly_in_environments_of_another_seed():
    env, other = made(task=HOUND, num_envs=N), made(task=HOUND, num_envs=N, seed=5)
    assert not torch.equal(env._loaded.env.friction, other._loaded.env.friction)
    for _ in range(7):
        env.step(env.zero_action() + 0.3)
    other.load_state_dict(env.state_dict())
    assert torch.equal(env._loaded.env.friction, other._loaded.env.friction)
    for _ in range(5):
        mine, its = (each.step(each.zero_action() - 0.2) for each in (env, other))
        assert torch.equal(mine.obs["privileged"], its.obs["privileged"])
        assert torch.equal(mine.reward, its.reward)


def test_what_was_drawn_is_saved_unless_the_number_of_environments_is_a_size_of_theirs():
    assert "friction" in made(task=HOUND, num_envs=N).state_dict()["foreign"]
    for size in (4, 5, 9, 17):  # DOFs, bodies, shapes, observations
        assert "friction" not in made(task=HOUND, num_envs=size).state_dict()["foreign"]


def test_a_file_is_announced_before_it_runs_and_each_one_is_recorded(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    folder = copied(tmp_path, WALKERS)
    (folder / "walkers" / "broken.py").write_text("raise RuntimeError('ran')\n")
    config = folder / "walkers" / "envs" / "hound" / "hound_config.py"
    config.write_text("import walkers.broken\n" + config.read_text())
    with fresh_modules("walkers"), project(folder), pytest.raises(UserError, match="RuntimeError: ran"):
        compose([f"task={HOUND}"])
    announced = [line.split()[3].rstrip(",") for line in caplog.messages if line.startswith("running foreign code")]
    names = ["__init__", "envs/__init__", "utils/__init__", "utils/task_registry", "envs/hound/hound"]
    names += ["envs/hound/hound_config", "broken"]
    assert announced == [str(folder / "walkers" / f"{name}.py") for name in names]
    assert executed.below(folder)["walkers/broken.py"] == hashlib.sha256(b"raise RuntimeError('ran')\n").hexdigest()
    assert not list(folder.rglob("__pycache__"))


def test_a_change_in_any_file_that_ran_is_told(tmp_path, caplog):
    folder = copied(tmp_path, WALKERS)
    with fresh_modules("walkers"), project(folder):
        made(task=HOUND, num_envs=2)
        before = record.record("walkers-hound")
    files = {file.relative_to(folder).as_posix() for file in folder.rglob("*.py")}
    assert before["files"].keys() == files
    executed._digests.clear()  # as in another process
    base = folder / "walkers" / "utils" / "task_registry.py"
    base.write_text(base.read_text() + "# changed\n")
    (folder / "walkers" / "envs" / "hound" / "hound_config.py").unlink()
    with project(folder):
        record.remember_change("walkers-hound", before)
    assert "walkers/utils/task_registry.py has changed since this run was made" in caplog.text
    assert "it is not there any more" in caplog.text
    assert len(caplog.messages) == 2


def test_another_package_of_the_same_name_is_refused(tmp_path):
    made(task=HOUND, num_envs=2)
    with project(copied(tmp_path, WALKERS)), pytest.raises(UserError, match="the name walkers is taken by <module"):
        compose([f"task={HOUND}"])
    assert sys.modules["walkers"].__file__ == str(WALKERS / "walkers" / "__init__.py")

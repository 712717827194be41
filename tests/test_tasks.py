"""Cartpole by hand-computed numbers, Ant beside Gymnasium's Ant-v5."""

from __future__ import annotations

import math

import gymnasium
import mujoco
import numpy as np
import pytest
import torch

from livegym.schema.keys import Schema
from livegym.tasks import TASKS
from livegym.tasks.build import make_env


def make(config, *overrides, num_envs=1):
    c = config(*overrides)
    return make_env(c.task, c.sim, c.physics, num_envs, 0)


def set_state(env, qpos, qvel):
    ids = torch.arange(env.num_envs)
    env.sim.reset(ids, torch.tensor([qpos] * env.num_envs).float(), torch.tensor([qvel] * env.num_envs).float())


@pytest.mark.parametrize("name", list(TASKS))
def test_every_parameter_says_what_it_means(name):
    params = TASKS[name].Params
    assert [key.path for key in Schema(params).keys(params).values() if not key.doc.help] == []


def test_cartpole_rewards_are_the_documented_sums(config):
    env = make(config, "task=Cartpole")
    set_state(env, [0.5, 0.3], [1.5, -2.0])
    terms = env.task.reward(env.sim, env.zero_action())
    assert {k: v.item() for k, v in terms.items()} == pytest.approx(
        {"upright": 1 - 0.09, "cart_speed": 1.5, "pole_speed": 2.0, "fell": 0.0, "off_track": 0.0}
    )
    assert env.terms.weighted(terms).sum().item() == pytest.approx(0.91 - 0.015 - 0.01)


@pytest.mark.parametrize(
    ("qpos", "reason"), [([0.0, 1.6], "fell"), ([-3.1, 0.0], "off_track"), ([2.9, 1.5], None), ([0.0, -1.6], "fell")]
)
def test_cartpole_ends_at_its_limits(config, qpos, reason):
    env = make(config, "task=Cartpole")
    set_state(env, qpos, [0.0, 0.0])
    assert [name for name, holds in env.task.terminate(env.sim).items() if holds.item()] == ([reason] if reason else [])


def test_cartpole_moves_as_newton_says(config):
    """A small push on a cart with an upright pole, by the equations of motion."""
    env = make(config, "task=Cartpole", "task.params.max_push=1.0")
    set_state(env, [0.0, 0.0], [0.0, 0.0])
    env.step(torch.ones(1, 1))
    # capsule of 1 kg, radius r, cylinder length 1: inertia about its own middle from MuJoCo's compiled model
    model = mujoco.MjModel.from_xml_path(str(env.task.model_path()))
    inertia = model.body_inertia[2].max()
    mass, half, total = 1.0, 0.5, 2.0
    # upright, at rest: [M+m, m h; m h, I + m h^2] [x''; th''] = [F; 0]
    matrix = np.array([[total, mass * half], [mass * half, inertia + mass * half**2]])
    acceleration = np.linalg.solve(matrix, np.array([1.0, 0.0]))
    assert env.sim.qvel[0].tolist() == pytest.approx((acceleration * env.sim.control_dt).tolist(), rel=0.01)


def test_cartpole_lasts_500_steps(config):
    assert make(config, "task=Cartpole").max_length == 500


@pytest.fixture
def gym_ant():
    env = gymnasium.make("Ant-v5").unwrapped
    env.reset(seed=0)
    yield env
    env.close()


def ant_pair(config, gym_ant, integrator: str, heights=(0.6,)):
    """Both at the same state: dropped near the ground with bent legs, so that feet touch."""
    env = make(config, "task=Ant", f"physics.integrator={integrator}")
    gym_ant.model.opt.integrator = {"euler": 0, "rk4": 1}[integrator]
    qpos = [0.3, -0.2, *heights, 1.0, 0.0, 0.0, 0.0, 0.1, 0.9, -0.1, -0.9, 0.1, -0.9, 0.0, 0.9]
    qvel = [0.5, 0.0, -0.5, *[0.1] * 11]
    set_state(env, qpos, qvel)
    gym_ant.set_state(np.array(qpos, dtype=np.float32).astype(float), np.array(qvel, dtype=np.float32).astype(float))
    return env


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_ant_gives_gymnasiums_observation_and_reward(config, gym_ant, integrator):
    env = ant_pair(config, gym_ant, integrator)
    rng = np.random.default_rng(0)
    touched = False
    for _ in range(20):
        action = rng.uniform(-1, 1, 8).astype(np.float32)
        x_before = gym_ant.data.qpos[0]
        gym_obs, _, their_end, _, info = gym_ant.step(action)
        step = env.step(torch.from_numpy(action)[None])
        own_obs = step.final_obs["policy"][0].numpy()
        np.testing.assert_allclose(own_obs[:27], gym_obs[:27], atol=2e-4)  # pose and velocity
        if integrator == "euler":  # where the last substep's forces are at one moment, not at four
            np.testing.assert_allclose(own_obs[27:], gym_obs[27:], atol=2e-4)
        touched |= bool(np.abs(own_obs[27:]).max() > 0.5)
        terms = env.drain_report().term_step_mean  # of this one step
        assert terms["healthy"] == info["reward_survive"]
        assert terms["control"] == pytest.approx(info["reward_ctrl"], abs=1e-5)
        if integrator == "euler":
            assert terms["contact"] == pytest.approx(info["reward_contact"], abs=1e-5)
        # gymnasium reads a body position that is one physics step behind; qpos is not
        speed = (gym_ant.data.qpos[0] - x_before) / gym_ant.dt
        assert terms["forward"] == pytest.approx(speed, abs=5e-3)
        assert bool(step.terminated[0]) == their_end
        if their_end:
            break
    assert touched, "no foot touched the ground: the comparison of forces was of zeros"


@pytest.mark.parametrize(("height", "ended"), [(0.19, True), (0.21, False), (0.99, False), (1.01, True)])
def test_ant_ends_outside_the_band_of_heights(config, height, ended):
    env = make(config, "task=Ant")
    set_state(env, [0, 0, height, 1, 0, 0, 0] + [0] * 8, [0] * 14)
    assert env.task.terminate(env.sim)["unhealthy"].item() is ended


def test_ant_starts_where_gymnasium_starts(config, gym_ant):
    env = make(config, "task=Ant", num_envs=4000)
    qpos, qvel = env.sim.qpos, env.sim.qvel
    offsets = qpos - torch.from_numpy(gym_ant.init_qpos).float()
    assert offsets.abs().max().item() <= 0.1 + 1e-6
    assert offsets.std().item() == pytest.approx(0.2 / math.sqrt(12), rel=0.02)
    assert qvel.std().item() == pytest.approx(0.1, rel=0.02)
    assert env.layout.width("policy") == gym_ant.observation_space.shape[0]
    assert env.max_length == 1000

"""Foreign environments behind livegym's interface: resets, time limits, statistics, state, faults."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from livegym.sim.recorder import StateRecorder
from livegym.utils.errors import UserError
from tests.isaac_toys import made, needs_isaacgym, toys  # noqa: F401 - a fixture

pytestmark = [needs_isaacgym, pytest.mark.usefixtures("toys")]

UNSTABLE, TERMINATED, TIME_LIMIT = range(3)
N = 8


def actions(env, steps: int, seed: int = 0) -> list[torch.Tensor]:
    """Random actions in [-1, 1]."""
    generator = torch.Generator().manual_seed(seed)
    return [2 * torch.rand(env.num_envs, env.task.action_spec.size, generator=generator) - 1 for _ in range(steps)]


def test_the_interface_is_measured_from_the_environment():
    env = made()
    assert env.layout.describe("policy") == [("observation", 3)]
    assert env.layout.width("privileged") == 0
    assert env.task.action_spec.size == 1
    assert env.sim.control_dt == pytest.approx(0.02)
    assert env.reason_names == ("unstable", "terminated", "time_limit")
    assert env.success_reason is None
    assert env.zero_action().shape == (N, 1)
    assert env.sim.qpos.shape == (N, 1)
    assert "<mujoco" in env.sim.model_xml()
    assert made(task="SwingSlow").sim.control_dt == pytest.approx(0.06)


def test_a_time_limit_is_truncation_and_the_reset_comes_in_the_next_step():
    env = made()
    env.reset()
    steps = [env.step(env.zero_action()) for _ in range(81)]
    ended = [index for index, step in enumerate(steps) if step.ended is not None]
    assert ended == [39, 79]
    last = steps[39]
    assert last.truncated.all()
    assert not last.terminated.any()
    assert torch.equal(last.obs["policy"], last.final_obs["policy"])
    assert last.ended.lengths.tolist() == [40] * N
    assert last.ended.reasons.tolist() == [TIME_LIMIT] * N
    returns = torch.stack([step.reward for step in steps[:40]]).double().sum(0)
    assert torch.allclose(last.ended.returns, returns)
    assert not torch.equal(steps[40].obs["policy"], last.obs["policy"])
    assert (steps[40].obs["policy"][:, 2].abs() <= 0.05).all()  # a start state: |speed| <= 0.5 rad/s


def test_a_failure_is_termination():
    env = made("task.params.env.maxTorque=200", "task.params.env.damping=0")
    env.reset()
    step = next(s for s in (env.step(torch.ones(N, 1)) for _ in range(40)) if s.ended is not None)
    assert step.terminated.any()
    assert not (step.terminated & step.truncated).any()
    assert set(step.ended.reasons.tolist()) == {TERMINATED}


def test_restart_drops_the_statistics_of_these_environments_only():
    env = made()
    obs = env.reset()
    for _ in range(10):
        obs = env.step(env.zero_action()).obs
    env.restart(torch.tensor([1, 4]), obs)
    steps = [env.step(env.zero_action()) for _ in range(40)]
    ended = {index: step.ended for index, step in enumerate(steps) if step.ended is not None}
    assert {index: one.env_ids.tolist() for index, one in ended.items()} == {29: [0, 2, 3, 5, 6, 7], 39: [1, 4]}
    assert all(one.lengths.tolist() == [40] * len(one.env_ids) for one in ended.values())


def test_what_is_overridden_reaches_the_task_and_what_refers_to_it():
    env = made("task.params.env.maxTorque=2.5")
    assert env._loaded.env.cfg["env"]["maxTorque"] == 2.5
    assert env._loaded.env.cfg["env"]["torqueRatio"] == 2.5
    assert env._loaded.env.cfg["env"]["numEnvs"] == N


def test_equal_seeds_give_equal_environments():
    first, second = (_trace(made(seed=seed)) for seed in (3, 3))
    assert torch.equal(first, second)
    assert not torch.equal(first, _trace(made(seed=4)))


def _trace(env) -> torch.Tensor:
    env.reset()
    return torch.stack([env.step(action).obs["policy"] for action in actions(env, 5)])


def test_two_environments_do_not_share_a_simulation():
    first = made()
    first.reset()
    second = made(num_envs=3)
    before = first.sim.qpos
    for action in actions(second, 5):
        second.step(action)
    assert second.sim.num_envs == 3
    assert torch.equal(first.sim.qpos, before)
    assert sys.modules["toys.tasks.vectorised"].EXISTING_SIM is None


def test_the_state_is_restored_exactly():
    env = made(task="Crawl")
    env.reset()
    for action in actions(env, 20):
        env.step(action)
    state = env.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state["sim"].values())
    after = _run(env)
    env.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(after, _run(env), strict=True))
    other = made(task="Crawl", seed=9)
    other.load_state_dict(state)
    assert all(torch.equal(a, b) for a, b in zip(after, _run(other), strict=True))


def _run(env) -> list[torch.Tensor]:
    steps = [env.step(action) for action in actions(env, 10, seed=1)]
    return [*(step.obs["policy"] for step in steps), *(step.reward for step in steps), env.sim.qpos]


def test_a_state_of_another_task_or_number_is_refused():
    state = made().state_dict()
    with pytest.raises(ValueError, match="another model"):
        made(task="Crawl").load_state_dict(state)
    with pytest.raises(ValueError, match="8 environments does not fit 3"):
        made(num_envs=3).load_state_dict(state)


def test_observations_that_are_not_numbers_end_the_episode_as_unstable(caplog):
    env = made()
    env.reset()
    env.step(env.zero_action())
    foreign = env._loaded.env
    sound = foreign.observe

    def broken() -> None:
        sound()
        foreign.obs_buf[2] = float("nan")

    foreign.observe = broken
    step = env.step(env.zero_action())
    foreign.observe = sound
    assert step.ended.env_ids.tolist() == [2]
    assert step.ended.reasons.tolist() == [UNSTABLE]
    assert all(torch.isfinite(value).all() for value in (*step.obs.values(), *step.final_obs.values(), step.reward))
    assert "toys-Swing" in caplog.text
    assert torch.isfinite(env.step(env.zero_action()).obs["policy"]).all()
    assert env.drain_report().unstable == 1


def test_a_state_that_is_not_finite_is_reported_and_begins_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log there
    env = made(task="Crawl")
    env.reset()
    env.step(env.zero_action())
    env.sim._engine.qvel[5, 0] = float("nan")
    env.sim._engine.moved(np.array([5]))
    step = env.step(env.zero_action())
    assert step.ended.env_ids.tolist() == [5]
    assert step.ended.reasons.tolist() == [UNSTABLE]
    steps = [env.step(env.zero_action()) for _ in range(5)]
    assert all(torch.isfinite(step.obs["policy"]).all() for step in steps)
    assert all(step.ended is None or 5 not in step.ended.env_ids for step in steps[1:])


def test_a_push_moves_one_body_of_one_environment():
    env, alone = made(task="Crawl"), made(task="Crawl")
    env.reset()
    env.step(env.zero_action())
    alone.load_state_dict(env.state_dict())
    body = env.sim.body_ids([next(name for name in _bodies(env) if name.endswith("block"))])[0]

    def push(sim) -> None:
        sim.xfrc_applied[3, body, 1] = 50.0

    env.step(env.zero_action(), push)
    alone.step(alone.zero_action())
    moved = (env.sim.qvel - alone.sim.qvel).abs().amax(1) > 0.01
    assert moved.nonzero().flatten().tolist() == [3]
    env.sim.xfrc_applied.zero_()
    with pytest.raises(ValueError, match="there is no body"):
        env.sim.body_ids(["nothing"])


def _bodies(env) -> list[str]:
    model = env.sim._engine.model
    return [model.body(index).name for index in range(model.nbody)]


def test_files_that_the_constructor_writes_go_into_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    env = made()
    assert os.listdir(tmp_path) == []
    env.watch(StateRecorder(env.sim, tmp_path / "run" / "unstable"))
    assert (tmp_path / "run" / "foreign_files" / "toy.txt").read_text() == "Swing"
    assert not Path(env._loaded.files).exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("physics.substeps=2", "physics.substeps=2: task=toys:Swing sets its own physics"),
        ("task.noise.observation=0.1", r"task.noise={'observation': 0.1}: task=toys:Swing is foreign code"),
        ("task.episode_length_s=2", r"Allowed: 0\.8\. .* set task\.params\.env\.episodeLength, which is 40"),
        ("task.decimation=2", r"task\.decimation=2: .* by itself\. Allowed: 1\. Leave it out; its own keys are"),
        ("task.observations.privileged=[observation]", "task.observations=.* decides what is observed by itself"),
        ("task.terminations.terminated=false", "task.terminations={'terminated': False}: .* what ends an episode"),
        ("task.randomize=false", "task.randomize=False: task=toys:Swing is foreign code, which decides whether"),
        ("task.params.env.numEnvs=5", "numEnvs=5: .* as numEnvs says, which is 8. Leave it out, and type numEnvs=5"),
        ("sim=reference", "sim=reference: task=toys:Swing runs over isaacgym on MuJoCo"),
    ],
)
def test_keys_that_foreign_code_does_not_read_are_refused(override, message):
    with pytest.raises(UserError, match=message):
        made(override)


def test_keys_that_say_what_upstream_says_are_no_mistake():
    """A run's configuration names every key, and follows the parameters with which the run was made."""
    made("task.episode_length_s=0.8", "task.decimation=1", "task.randomize=true", "task.rewards.reward=0.5")
    made("task.params.env.episodeLength=100", "task.episode_length_s=2.0")


def test_a_report_of_episodes_is_a_mean_whatever_its_shape():
    env = made()
    env.reset()
    foreign = env._loaded.env
    said = {"each": torch.arange(8.0), "one": torch.tensor(2.0), "number": 3, "array": np.array([1.0, 2.0])}
    foreign.extras["episode"] = {**said, "none": torch.zeros(0), "text": "a", "unequal": [[1], 2], "nan": float("nan")}
    for _ in range(40):
        env.step(env.zero_action())
    report = env.drain_report()
    assert report.metric_mean == {"each": 3.5, "one": 2.0, "number": 3.0, "array": 1.5}
    assert report.metric_episodes == 8
    assert env.max_length == 40


def test_an_error_in_foreign_code_names_the_task():
    with pytest.raises(UserError, match=r"task=toys:Swing of projectDir=.* failed in its first step \(TypeError"):
        made("task.params.env.maxTorque=much")
    with pytest.raises(UserError, match=r"absent\.urdf: no such file"):
        made("task.params.env.asset.file=absent.urdf")

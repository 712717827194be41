"""BlindGrasping: its stages, how it ends, what it may know, and that the whole of it can be done."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
import torch
from scripted_grasp import action, closed_pose, towards

from livegym.tasks.blind_grasping import BOX_FROM_HAND, BlindGrasping, raised
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.tasks.hand.names import OPEN_HAND, OURS
from livegym.tasks.hand.stages import lasted, next_stage


@pytest.fixture
def make(config):
    def build(num_envs: int = 2, seed: int = 0, **params) -> Env:
        c = config("task=BlindGrasping", "task.curriculum=null", "task.randomize=false")
        task = dataclasses.replace(c.task, params=dataclasses.replace(c.task.params, **params))
        env = make_env(task, c.sim, c.physics, num_envs, seed)
        env.reset()
        return env

    return build


def endings_of(env: Env, act, steps: int) -> tuple[Counter, list[int]]:
    """Why and after how many steps episodes ended: one pass over so many steps with `act(env)`."""
    reasons, lengths = Counter(), []
    for _ in range(steps):
        ended = env.step(act(env)).ended
        if ended is not None:
            reasons.update(env.reason_names[r] for r in ended.reasons.tolist())
            lengths += ended.lengths.tolist()
    return reasons, lengths


def still(env: Env) -> torch.Tensor:
    return env.zero_action()


def control(env: Env, **values) -> torch.Tensor:
    """An action that moves only these controls, each as fast as given, -1 to 1."""
    moved = env.zero_action()
    for name, value in values.items():
        moved[:, OURS.controls.index(name)] = value
    return moved


def test_stages_go_forwards_one_at_a_time_and_the_last_is_not_left():
    stage = torch.tensor([0, 0, 1, 1, 2])
    done = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 1, 0], [1, 0, 1], [1, 1, 1]]).bool()
    assert next_stage(stage, done).tolist() == [1, 0, 2, 1, 2]


@pytest.mark.slow
def test_a_scripted_policy_succeeds_from_the_full_range_of_starts(make):
    env = make(num_envs=48)
    reasons, _ = endings_of(env, action, 260)
    assert reasons["success"] / reasons.total() >= 0.75
    assert not reasons["hit_ground"] + reasons["pre_grasp_failed"]
    report = env.drain_report()
    assert report.metric_mean["reached_grasp"] == 1.0
    assert report.metric_mean["stage"] == pytest.approx(1.0 + report.metric_mean["reached_lift"])
    assert report.term_episode_mean["success"] == pytest.approx(300.0 * reasons["success"] / reasons.total())
    assert report.term_episode_mean["stage_entered"] == pytest.approx(10.0 * report.metric_mean["stage"])  # once each


def test_starts_are_within_their_ranges_and_everywhere_in_them(make):
    env = make(num_envs=400)
    task = env.task
    box, hand = env.sim.qpos[:, task.box.q], env.sim.qpos[:, task.hand.senses.base_q]
    for values, limit in ((box[:, :2], 0.02), (hand[:, :3], 0.2), (hand[:, 3:], 0.785)):
        assert 0.97 * limit < values.abs().max() <= limit
    assert (box[:, 2] == 0.025).all()
    spread = (task.hand.targets - task.hand.middle) / task.hand.range
    assert spread[:, 6:].min() < -0.48
    assert spread[:, 6:].max() > 0.48


@pytest.mark.slow
def test_waiting_fails_before_the_grasp_after_four_seconds(make):
    reasons, lengths = endings_of(make(), still, 205)
    assert reasons == {"pre_grasp_failed": 2}
    assert lengths == [200, 200]  # 4 s


def test_an_open_hand_above_the_box_fails_to_touch_after_three_seconds(make):
    env = make(easy_start=1.0)
    reasons, lengths = endings_of(env, still, 160)
    assert reasons == {"contact_failed": 2}
    assert all(150 <= length <= 154 for length in lengths)  # 3 s, after a few steps in the pre-grasp


def test_a_hand_that_is_driven_into_the_ground_has_hit_it(make):
    reasons, _ = endings_of(make(), lambda env: control(env, base_z=-1.0), 60)
    assert set(reasons) == {"hit_ground"}


def test_a_box_that_is_pushed_away_is_too_far(make):
    env = make(easy_start=1.0)
    qpos = env.sim.qpos.clone()
    qpos[1, env.task.box.q[0]] = 0.151
    env.sim.reset(torch.arange(2), qpos, torch.zeros_like(env.sim.qvel))
    step = env.step(env.zero_action())
    assert [env.reason_names[r] for r in step.ended.reasons.tolist()] == ["box_too_far"]
    assert step.ended.env_ids.tolist() == [1]


def test_letting_go_loses_the_grasp(make):
    env = make(num_envs=1)
    while not env.task.held[0] > 0.1:
        assert env.step(action(env)).ended is None
    let_go = env.task.hand.targets.clone()
    let_go[:, 6:] = OURS.open_hand()
    at = env.episode_length[0].item()
    reasons, lengths = endings_of(env, lambda env: towards(env, let_go), 60)
    assert reasons == {"grasp_lost": 1}
    assert 25 <= lengths[0] - at <= 50  # the hand opens, and half a second


def test_holding_counts_only_up_high_with_two_fingers_and_without_a_break(make):
    env = make(num_envs=1)
    while env.task.held[0] < 0.5:
        assert env.step(action(env)).ended is None
    assert env.task.box.pos_w[0, 2] > 0.2
    assert env.task.box.fingers_on()[0] >= 2
    low = closed_pose(-0.25)  # the box at about 0.1 m
    for _ in range(20):
        assert env.step(towards(env, low[None])).ended is None
    assert env.task.held[0] == 0


def test_the_policy_does_not_see_the_box(make):
    """Wherever the box is, as long as nothing touches it, what the policy sees is the same, bit for bit."""
    env, other = make(num_envs=4), make(num_envs=4)
    qpos = other.sim.qpos.clone()
    qpos[:, other.task.box.q[:2]] += torch.tensor([0.05, -0.04])
    other.sim.reset(torch.arange(4), qpos, torch.zeros_like(other.sim.qvel))
    for _ in range(20):
        step, other_step = env.step(control(env, base_z=0.5)), other.step(control(other, base_z=0.5))
        assert torch.equal(step.obs["policy"], other_step.obs["policy"])
    assert not torch.equal(step.obs["privileged"], other_step.obs["privileged"])


def test_a_gripped_box_is_felt_by_the_fingers_that_hold_it(make):
    env = make(num_envs=1)
    while env.task.held[0] < 0.5:
        env.step(action(env))
    blocks = env.task.observe(env.sim)
    by_fingers = blocks["contact_forces_w"].reshape(5, 3)
    assert by_fingers[0, 0] < -1.0  # the box pushes the thumb back,
    assert by_fingers[1:, 0].sum() > 1.0  # and the fingers forth
    assert (blocks["contacts"] == blocks["box_contacts"]).all()
    assert blocks["contact_duration"].max() > 0.4
    assert blocks["progress"][0, 0] > 0.7


def test_the_ready_pose_is_one_that_the_hand_can_take_and_from_which_it_may_grasp(make):
    assert set(OPEN_HAND) <= set(OURS.finger_controls)
    env = make(num_envs=1)
    ready = OURS.ready_pose(BOX_FROM_HAND)
    low, high = env.task.hand.pipeline.limits.T
    assert ((low <= ready) & (ready <= high)).all()
    qpos = env.task.hand.put(env.sim.qpos.clone(), torch.tensor([0]), ready[None])
    env.sim.reset(torch.tensor([0]), qpos, torch.zeros_like(env.sim.qvel))
    assert env.task.reached().all()
    assert env.task.distance().item() < 0.005


def test_only_reasons_that_end_an_episode_are_paid_for_and_once(make, config):
    c = config("task=BlindGrasping", "task.curriculum=null", "task.terminations.pre_grasp_failed=false")
    env = make_env(c.task, c.sim, c.physics, 2, 0)
    env.reset()
    for _ in range(230):
        env.step(still(env))
    assert env.drain_report().term_step_mean["failure"] == 0.0
    env = make(num_envs=2)
    endings_of(env, still, 205)
    assert env.drain_report().term_episode_mean["failure"] == pytest.approx(-5.0)


def test_the_first_centimetres_are_worth_most():
    worth = raised(torch.tensor([-0.1, 0.0, 0.25, 0.5, 1.0, 2.0]))
    expected = [0.0, 0.0, 0.125 + 0.5 * 0.6439, 0.25 + 0.5 * 0.8808, 1.0, 1.0]  # (1 - e^-1) / (1 - e^-4), ...
    assert worth.tolist() == pytest.approx(expected, abs=1e-4)


def test_a_timer_of_a_tenth_of_a_second_is_full_after_five_steps():
    timer = torch.zeros(1)
    full = []
    for _ in range(6):
        timer = timer + 0.02
        full.append(lasted(timer, 0.1, 0.02).item())
    assert full == [False, False, False, False, True, True]
    assert not lasted(torch.zeros(1), 0.005, 0.02)  # nothing has lasted yet, however short it has to be


def test_box_turns_where_it_is_asked_to(make):
    env = make(num_envs=200, box_turn=1.0)
    quat = env.sim.qpos[:, env.task.box.q[3:]]
    torch.testing.assert_close(quat.norm(dim=1), torch.ones(200))
    angle = 2 * torch.atan2(quat[:, 3], quat[:, 0])
    assert angle.min() < -0.95
    assert 0.95 < angle.max() <= 1.0


def test_a_larger_box_begins_on_the_ground_not_in_it(config):
    larger = "task.randomization.box_size.range=[1.3,1.3]"
    c = config("task=BlindGrasping", "task.curriculum=null", larger)
    env = make_env(c.task, c.sim, c.physics, 2, 0)
    env.reset()
    assert env.sim.qpos[:, env.task.box.q[2]].tolist() == pytest.approx([0.0325] * 2)
    assert isinstance(env.task, BlindGrasping)
    for _ in range(10):
        env.step(env.zero_action())
    assert env.sim.qpos[:, env.task.box.q[2]].tolist() == pytest.approx([0.0325] * 2, abs=1e-3)

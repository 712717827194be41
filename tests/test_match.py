"""Matches: rows and environments, Push, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from livegym.contract import environments, random_action
from livegym.learners.environment import make_env
from livegym.play.play import Player, ScriptedActor, quotas
from livegym.play.results import Results
from livegym.schema import RandomizationConfig
from livegym.tasks.base import NO_WINNER
from livegym.tasks.matches import REFUSED, check_match
from livegym.tasks.rows import by_env, by_row, rows_of_envs
from livegym.utils.errors import UserError

PAGE = Path(__file__).parent.parent / "docs" / "matches.md"


def placed(env, red, blue, steps=0):
    """Puts the discs of all environments at (x, y) in m, at rest, `steps` control steps after the start."""
    qpos = torch.tensor([[*red, *blue]]).repeat(env.num_envs, 1)
    env.sim.reset(torch.arange(env.num_envs), qpos, torch.zeros_like(qpos))
    env.task.steps[:] = steps


def test_rows_of_environments_lie_together():
    assert rows_of_envs(torch.tensor([0, 2]), 2).tolist() == [0, 1, 4, 5]
    assert by_row(torch.tensor([7, 9]), 2).tolist() == [7, 7, 9, 9]
    assert by_env(torch.tensor([False, True, False, False]), 2).tolist() == [True, False]


def test_with_one_seat_rows_are_environments_and_nothing_is_copied():
    value = torch.tensor([3, 1])
    assert rows_of_envs(value, 1) is value
    assert by_row(value, 1) is value
    assert by_env(value, 1) is value


def test_a_policy_has_a_row_for_each_seat_and_an_episode_ends_for_both():
    env = environments("Push", num_envs=3)
    assert env.zero_action().shape == (6, 2)
    assert env.reset()["policy"].shape == (6, 9)
    placed(env, (-1.0, 0.0), (0.5, 0.0))
    env.task.steps[1] = 120  # after 6 s, and one step more, the ring of environment 1 has 0.6 m: red is outside
    step = env.step(env.zero_action())
    assert step.terminated.tolist() == [False, False, True, True, False, False]
    assert step.ended.env_ids.tolist() == [1]
    assert step.ended.winners.tolist() == [1]
    assert step.ended.returns.tolist() == pytest.approx([0.0])


def test_the_winner_gets_one_and_the_loser_minus_one():
    env = environments("Push", num_envs=1)
    env.reset()
    placed(env, (0.0, 0.5), (1.31, 0.0))
    terms = env.task.reward(env.sim, env.zero_action())
    assert terms["won"].tolist() == [1.0, -1.0]
    assert terms["nearer"].tolist() == pytest.approx([0.81, -0.81])


def test_both_outside_in_one_step_is_a_draw():
    env = environments("Push", num_envs=1)
    env.reset()
    placed(env, (-1.31, 0.0), (1.31, 0.0))
    assert env.task.winner(env.sim).tolist() == [NO_WINNER]
    assert env.step(env.zero_action()).ended.winners.tolist() == [NO_WINNER]


def test_the_ring_shrinks_from_its_first_radius_to_the_last():
    env = environments("Push", num_envs=1)
    env.reset()
    for steps, radius in ((0, 1.3), (100, 0.725), (200, 0.15), (205, 0.15)):
        env.task.steps[:] = steps
        assert env.blocks()["ring_radius"].flatten().tolist() == pytest.approx([radius, radius])


def test_exchanged_seats_see_get_and_do_the_same():
    """Half a turn of the world exchanges the seats, so observations, rewards and the next state are exchanged too."""
    env, mirrored = environments("Push", num_envs=8), environments("Push", num_envs=8)
    env.reset(), mirrored.reset()
    rng = torch.Generator().manual_seed(5)
    place, speed = (0.1 * torch.rand(8, 2, 2, generator=rng) - 0.05 for _ in range(2))
    place[:, :, 0] += torch.tensor([-0.25, 0.25])  # 0.4 to 0.6 m apart, while discs touch at 0.4 m
    speed[:, :, 0] += torch.tensor([0.5, -0.5])
    everything = torch.arange(8)
    env.sim.reset(everything, place.flatten(1), speed.flatten(1))
    mirrored.sim.reset(everything, -place.flip(1).flatten(1), -speed.flip(1).flatten(1))
    for _ in range(20):
        action = random_action(env, rng)
        one = env.step(action)
        assert one.ended is None  # new starts would not be exchanged
        other = mirrored.step(action.view(8, 2, 2).flip(1).flatten(0, 1))
        exchanged = other.final_obs["policy"].view(8, 2, -1).flip(1).flatten(0, 1)
        torch.testing.assert_close(one.final_obs["policy"], exchanged, atol=1e-5, rtol=0)
        torch.testing.assert_close(one.reward, other.reward.view(8, 2).flip(1).flatten(), atol=1e-5, rtol=0)


def test_delayed_actions_stay_with_their_seat():
    schedule = {"late": RandomizationConfig(what="action_delay", range=[1.0, 1.0])}
    env = environments("Push", num_envs=2, randomize=True, randomization=schedule)
    env.reset()
    action = torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8]])
    assert env.advance(action).eq(0).all()
    assert env.advance(torch.zeros(4, 2)).tolist() == action.tolist()


def test_a_test_counts_worlds_and_their_winners():
    env = environments("Push", num_envs=4)
    actor = ScriptedActor(env, "random", seed=3)
    results = Results({})
    results.begin(env.reason_names, env.success_reason, env.task.seat_names)

    class Count:
        def on_step(self, step, player):
            for index in range(0 if step.ended is None else len(step.ended.env_ids)):
                if player.counts(int(step.ended.env_ids[index])):
                    results.add(step.ended, index, [1], 1)

    player = Player(env, actor, quotas(10, 4))
    player.attach(Count())
    player.run(lambda: False)
    written = results.to_dict()
    assert written["episode_count"] == 10
    assert sum(written["winners"].values()) == 10
    assert set(written["winners"]) == {"red", "blue", "draw"}
    assert all(episode["winner"] in written["winners"] for episode in written["episodes"])
    assert written["return_mean"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_match_cannot_do_is_refused_by_name(what):
    name, why, instead = REFUSED[what]
    with pytest.raises(UserError, match=re.escape(f"{name}: not with Push, which is a match: {why}")):
        check_match("Push", 2, what)
    check_match("Cartpole", 1, what)
    assert f"| {name} | refused: {why} | {instead} |" in PAGE.read_text()


def test_other_learners_are_refused():
    with pytest.raises(UserError, match="other libraries and Gymnasium: not with Push"):
        make_env("Push", 2)

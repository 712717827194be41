"""What is told of episodes: exact over all of them, in the report, in TensorBoard and on the display."""

from __future__ import annotations

import pytest
import torch

from livegym.rl.curves import scalars
from livegym.rl.learner import Iteration
from livegym.rl.progress import EpisodeTally
from livegym.tasks.stats import EpisodeSummary
from livegym.utils.errors import UserError
from tests.dummy import Counting, CountingParams, counting_env


class Telling(Counting):
    """Tells its number and how many steps it saw."""

    success_reason = "failed"

    def episode_metrics(self, state):
        return {"episode": state.qpos[:, 0], "steps": state.qpos[:, 1]}


def report_of(reasons: dict[str, int], **metrics: float) -> EpisodeSummary:
    episodes = sum(reasons.values())
    return EpisodeSummary(episodes=episodes, reason_counts=reasons, metric_mean=metrics, metric_episodes=episodes)


def test_metrics_are_means_over_the_ended_episodes_only():
    env = counting_env(num_envs=3, length=5, task=Telling, params=CountingParams(fail_at=4))
    env.reset()
    start = env.sim.qpos[:, 0].clone()
    env.sim.qpos[0, 1] = 2  # the first environment is two steps ahead
    for _ in range(4):
        env.step(torch.zeros(3, 1))
    report = env.drain_report()
    assert report.episodes == 3
    assert report.metric_mean["steps"] == 4.0
    assert report.metric_mean["episode"] == pytest.approx(start.mean().item())
    env.step(torch.zeros(3, 1))
    assert env.drain_report().metric_mean == {}  # none ended


def test_an_environment_that_left_the_finite_numbers_tells_nothing():
    env = counting_env(num_envs=2, length=5, task=Telling)
    env.reset()
    env.sim.qpos[0, 1], env.sim.unstable[0] = 1e6, True
    env.step(torch.zeros(2, 1))
    env.sim.unstable[0] = False
    for _ in range(4):
        env.step(torch.zeros(2, 1))
    report = env.drain_report()
    assert (report.episodes, report.metric_episodes) == (2, 1)
    assert report.metric_mean["steps"] == 5.0


def test_a_metric_of_the_wrong_shape_is_named():
    class Wide(Telling):
        """One number too many."""

        def episode_metrics(self, state):
            return {"wide": state.qpos}

    with pytest.raises(UserError, match="episode metric 'wide' has shape"):
        counting_env(task=Wide)


def test_curves_have_rates_metrics_and_the_level():
    report = report_of({"success": 3, "time_limit": 1}, stage=1.5)
    report.level = 0.25
    values = scalars(Iteration(1, 1, 10, 10, 1.0, 0.5, 0.5, None, None, False, {}, report))
    assert values["ends/success"] == 0.75
    assert values["ends/time_limit"] == 0.25
    assert values["episodes/stage"] == 1.5
    assert values["curriculum/level"] == 0.25


def test_the_display_counts_every_episode_since_it_last_was_looked_at():
    tally = EpisodeTally("success")
    assert tally.take() == {}
    tally.add(report_of({"success": 1, "lost": 0, "time_limit": 0}, stage=2.0))
    tally.add(report_of({"success": 0, "lost": 3, "time_limit": 0}, stage=1.0))
    shown = {"episodes": "4", "success": "25 %", "ends": "lost 75 %, success 25 %", "metrics": "stage 1.25"}
    assert tally.take() == shown
    tally.add(EpisodeSummary())  # an iteration in which none ended
    assert tally.take() == shown
    tally.add(report_of({"success": 1, "lost": 0, "time_limit": 0}, stage=2.0))
    assert tally.take() == {"episodes": "1", "success": "100 %", "ends": "success 100 %", "metrics": "stage 2.00"}

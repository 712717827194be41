"""A policy whose mean is scaled learns as one does whose actions are not, and the factor travels with its weights."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from livegym.cfg.compose import compose
from livegym.rl.algorithm import algorithm_of
from livegym.rl.algorithms.ppo.settings import NetworkConfig, PPOConfig
from livegym.rl.spec import shapes_of, spec_of
from livegym.tasks.base import Discrete
from livegym.utils.errors import UserError
from tests.dummy import counting_env
from tests.test_learning import TINY, learner_of, trained, with_spec

TRAIN = dataclasses.replace(TINY, learning_rate=1e-4, bounds_loss_coef=0.0)


def scaled(factor: float) -> PPOConfig:
    return dataclasses.replace(
        TRAIN, network=NetworkConfig(units=[8], mean_scale=factor, initial_log_std=math.log(factor))
    )


def agent_after(train: PPOConfig, iterations: int = 2):
    learner = learner_of(train, iterations, seed=3, num_envs=4)
    trained(learner)
    return learner.agent


def network(train: PPOConfig):
    return algorithm_of(train).network(spec_of(counting_env()), train, 2)


def test_actions_a_quarter_as_large_are_learned_with_the_same_weights():
    """Rewards do not depend on actions here. So only the density of actions could make the weights differ."""
    plain, quarter = agent_after(scaled(1.0)).model.state_dict(), agent_after(scaled(0.25)).model.state_dict()
    assert quarter.pop("a2c_network.mu_act.factor") == 0.25
    less = plain.pop("a2c_network.sigma") - quarter.pop("a2c_network.sigma")
    assert less.tolist() == pytest.approx([math.log(4)])
    assert plain.keys() == quarter.keys()
    assert all(torch.allclose(plain[name], quarter[name], atol=1e-6) for name in plain)


def test_the_mean_is_the_output_of_the_last_layer_times_the_factor():
    plain, quarter = network(TRAIN), network(scaled(0.25))
    quarter.module.load_state_dict(plain.module.state_dict(), strict=False)
    obs = torch.randn(2, 2)
    assert torch.equal(quarter(obs).mean, 0.25 * plain(obs).mean)


def test_the_factor_comes_with_the_weights():
    quarter, half = network(scaled(0.25)), network(scaled(0.5))
    half.module.load_state_dict(quarter.module.state_dict(), strict=True)
    obs = torch.randn(2, 2)
    assert torch.equal(half(obs).mean, quarter(obs).mean)
    assert shapes_of(half.module.state_dict()) != shapes_of(network(TRAIN).module.state_dict())


def test_without_a_factor_the_network_is_that_of_older_runs():
    assert not any("mu_act" in name for name in network(TRAIN).module.state_dict())


def test_choices_are_not_scaled():
    train = dataclasses.replace(TRAIN, network=NetworkConfig(units=[8], mean_scale=0.25))
    env = counting_env(task=with_spec(Discrete(3)))
    assert not any("factor" in name for name in algorithm_of(train).network(spec_of(env), train, 2).module.state_dict())


@pytest.mark.parametrize(("when", "changes"), [("mini_epoch", 2), ("minibatch", 4)])
def test_the_learning_rate_adapts_after_each_mini_epoch_or_minibatch(when, changes):
    """The threshold is out of reach, so each change multiplies the rate by 1.5."""
    train = dataclasses.replace(TRAIN, kl_threshold=1e3, lr_update=when)
    assert agent_after(train, iterations=1).last_lr == pytest.approx(1e-4 * 1.5**changes)


def test_lr_update_without_an_adaptive_rate_is_said_to_have_no_effect():
    assert "lr_update" in dataclasses.replace(TRAIN, lr_schedule="constant").unused()


@pytest.mark.parametrize("factor", [0.0, -1.0, 101.0])
def test_a_factor_out_of_range_is_refused(factor):
    with pytest.raises(UserError, match=r"train\.network\.mean_scale"):
        compose([f"train.network.mean_scale={factor}"])

"""The check of an exported file: what differs from the policy and its task is found out, and named."""

from __future__ import annotations

import pytest
import torch

from livegym.deploy import verify as verifying
from livegym.deploy.export import controller_of
from livegym.deploy.plan import Wanted
from livegym.deploy.verify import Differs, verify
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.tasks.env import Env
from tests import saved_policies as saved
from tests.test_export import CHANGES, ENVS, Hoist, as_module, exported, hoist


class Hidden(Hoist):
    """A task that remembers something where nobody finds it."""

    calls = 0

    def control(self, action):
        self.calls += 1
        return super().control(action) + self.calls


def test_a_graph_that_computes_something_else_is_found_out(config):
    with pytest.raises(Differs, match=r"controls differs by .*Nothing was written.*exportParts=policy"):
        exported(config, hoist(config, Hidden), Wanted("controls"))


def cartpoles(config, **changes) -> Env:
    """Plain environments; nothing ends an episode, as with a good policy."""
    return hoist(config, terminations=dict.fromkeys(config("task=Cartpole").task.terminations, False), **changes)


def checked_with(config, env: Env, wanted: Wanted, spoil) -> None:
    """Check a graph whose values `spoil(given, outputs)` changes, from its second control step on."""
    train, spec = config("task=Cartpole").train, spec_of(env)
    policy = Policy(spec, train, ENVS, "cpu")
    policy.load(saved.random_weights(policy))
    controller = controller_of(policy.state(), spec, train, env, wanted)
    right, calls = as_module(controller), []

    def run(given):
        given = {name: value.clone() for name, value in given.items()}
        outputs = right(given)
        calls.append(None)
        return spoil(right, given, outputs) if len(calls) > 1 else outputs

    verify(run, controller, policy, env, seed=1)


def test_a_graph_that_begins_later_episodes_wrongly_is_found_out_if_none_ends(config):
    def never_begins(right, given, outputs):
        in_episodes = len(given["steps"]) == ENVS
        return right({**given, "steps": given["steps"].clamp(min=1)}) if in_episodes else outputs

    wanted = Wanted("policy", sensor_delays=True)
    checked_with(config, cartpoles(config, **CHANGES), wanted, lambda right, given, outputs: outputs)
    with pytest.raises(Differs, match="actions differs by"):
        checked_with(config, cartpoles(config, **CHANGES), wanted, never_begins)


def test_a_state_that_differs_is_found_out_by_its_name(config):
    def forgets(right, given, outputs):
        return {**outputs, "next_leaning": torch.zeros_like(outputs["next_leaning"])}

    with pytest.raises(Differs, match="next_leaning differs by"):
        checked_with(config, cartpoles(config), Wanted("task"), forgets)


def test_random_observations_are_compared_with_the_policy_itself(config):
    """Without environments there is no other comparison; the module may be wrong as the graph is."""
    train, spec = config("task=Cartpole").train, saved.spec_for(config("task=Cartpole"))
    policy = Policy(spec, train, ENVS, "cpu")
    policy.load(saved.random_weights(policy))
    controller = controller_of(policy.state(), spec, train, None, Wanted("policy"))
    assert verify(as_module(controller), controller, policy, None, seed=1).random < 1e-5
    next(value for name, value in controller.network_module.named_parameters() if "mu.bias" in name).add_(1e-3)
    with pytest.raises(Differs, match="actions differs by"):
        verify(as_module(controller), controller, policy, None, seed=1)


def test_random_observations_are_as_wide_as_the_normaliser_clips(config):
    train, spec = config("task=Cartpole").train, saved.spec_for(config("task=Cartpole"))
    policy = Policy(spec, train, ENVS, "cpu")
    model = saved.random_weights(policy)
    model["running_mean_std.running_var"][1] = 1e4
    model["running_mean_std.running_mean"][1] = 5e4
    controller = controller_of(model, spec, train, None, Wanted("policy"))
    controller.shapes |= {"counter": ((2,), torch.int32), "timer": ((), torch.float64)}
    drawn = verifying._drawn(controller, torch.Generator().manual_seed(0))
    assert drawn["obs"][:, 1].std() == pytest.approx(1000.0, rel=0.1)  # 10 standard deviations of 100
    assert drawn["obs"][:, 1].mean() == pytest.approx(5e4, rel=0.01)
    assert {name: value.dtype for name, value in drawn.items()} == {
        n: kind for n, (_, kind) in controller.shapes.items()
    }

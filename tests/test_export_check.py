"""The check of an exported file: what differs from the policy and its task is found out, and named."""

from __future__ import annotations

import pytest
import torch

from livegym.deploy import verify as verifying
from livegym.deploy.agreement import Agreement, Differs
from livegym.deploy.export import controller_of
from livegym.deploy.plan import Wanted
from livegym.deploy.verify import verify
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
    assert verify(as_module(controller), controller, policy, None, seed=1).random < 1
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


def judged(name: str, got: torch.Tensor, expected: torch.Tensor, usual: torch.Tensor):
    """What the judgement of one value in episodes says, beside ten usual values of its output for random inputs."""
    agreement = Agreement()
    agreement.in_episodes(name, got, expected)
    agreement.random(name, usual, usual)
    return agreement.judged(steps=1)


@pytest.mark.parametrize(
    ("name", "expected", "usual", "differs", "allowed"),
    [
        ("actions", [0.5], [1.0], 0.9e-5, 1e-5),
        ("actions", [1e-4], [1e-4], 0.9e-5, 1e-5),
        ("controls", [500.0], [500.0], 4e-3, 1e-6 + 5e-3),
        ("controls", [0.1], [500.0], 4e-3, 1e-6 + 5e-3),  # a small push of a strong motor
        ("controls", [0.0], [0.0], 0.9e-6, 1e-6),
        ("controls", [1e-3], [1e-3], 0.9e-6, 1e-6 + 1e-8),
        ("controls", [1e4], [1.0], 0.09, 1e-6 + 0.1),
    ],
)
def test_a_difference_is_judged_by_the_size_of_its_output(name, expected, usual, differs, allowed):
    value, others = torch.tensor([expected], dtype=torch.float64), torch.tensor([usual] * 10, dtype=torch.float64)
    checked = judged(name, value + differs, value, others)
    assert checked.in_episodes == pytest.approx(differs / allowed, rel=1e-6)
    assert checked.random == 0
    with pytest.raises(Differs, match=rf"{name} differs by .* in column 0"):
        judged(name, value - 1.01 * allowed, value, others)


def test_a_large_column_does_not_excuse_a_small_one():
    """The target of a wheel is 20 rad/s, that of a hip 0.3 rad, which is wrong by 1e-4."""
    usual = torch.tensor([[20.0, 0.3]] * 10)
    judged("controls", torch.tensor([[20.0001, 0.3]]), usual[:1], usual)
    with pytest.raises(
        Differs, match=r"controls differs by 1\.0e-04 in column 1, where 0\.3 is expected; allowed: 4\.0e-06"
    ):
        judged("controls", torch.tensor([[20.0, 0.3001]]), usual[:1], usual)


def test_a_huge_value_does_not_excuse_the_others_of_its_column():
    usual = torch.tensor([[1.0]] * 9 + [[1e6]])
    with pytest.raises(Differs, match="controls differs"):
        judged("controls", torch.tensor([[1.001]]), torch.tensor([[1.0]]), usual)


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (torch.tensor([[True]]), torch.tensor([[False]])),
        (torch.tensor([3]), torch.tensor([2])),
        (torch.tensor([[float("nan")]]), torch.tensor([[float("nan")]])),
        (torch.tensor([[float("inf")]]), torch.tensor([[float("inf")]])),
        (torch.tensor([[float("inf")]]), torch.tensor([[1.0]])),
    ],
)
def test_what_must_be_equal_and_what_is_no_number_is_refused(got, expected):
    with pytest.raises(Differs, match="next_memory differs by"):
        judged("next_memory", got, expected, expected)


def test_controls_carry_the_rounding_of_actions_and_no_more(config):
    """Errors of 1e-7 of an action are rounding, as ONNX Runtime has it; 1e-4 are none."""
    env = cartpoles(config)

    def rounded(size):
        def spoil(right, given, outputs):
            generator = torch.Generator().manual_seed(1)
            noise = size * (2 * torch.rand(outputs["controls"].shape, generator=generator) - 1)
            return {**outputs, "controls": outputs["controls"] + noise}

        return spoil

    checked_with(config, env, Wanted("controls"), rounded(1e-7 * env.task.params.max_push))
    with pytest.raises(Differs, match="controls differs by"):
        checked_with(config, cartpoles(config), Wanted("controls"), rounded(1e-4 * env.task.params.max_push))

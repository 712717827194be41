"""The live policy: exchanged between two steps, never half, never by another's dice."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from livegym.live.swap import LivePolicy
from livegym.live.transition import SwapRule
from livegym.play.play import Player, ScriptedActor, quotas
from livegym.play.report import Reporter
from livegym.play.results import EPISODES_KEPT, Results, VersionTrace
from livegym.rl.algorithms.ppo.settings import NetworkConfig, PPOConfig, RecurrentConfig
from livegym.rl.distribution import Distribution
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, shape_hash
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.tasks.stats import FinishedEpisodes
from livegym.utils.errors import UserError
from livegym.utils.moments import Moments
from livegym.weights.candidate import Candidate, SwapEvent
from tests.dummy import CountingParams, counting_env

TRAIN = PPOConfig(network=NetworkConfig(units=[4]), max_iterations=1)
RECURRENT = dataclasses.replace(TRAIN, network=NetworkConfig(units=[4], recurrent=RecurrentConfig(units=3)))


ONE = Box(1)


def spec_with(action=ONE, observations=(("episode", 1), ("step", 1)), task="Counting") -> PolicySpec:
    return PolicySpec(task, observations, (), action, 0.1)


def policy_of(spec=None, train=TRAIN, num_envs=2) -> Policy:
    return Policy(spec or spec_with(), train, num_envs, "cpu")


def candidate(version: int, spec=None, train=TRAIN, bias: float = 0.0, **changes) -> Candidate:
    """Weights whose mean action is `bias`, whatever is observed."""
    spec = spec or spec_with()
    model = policy_of(spec, train).state()
    for name in ("a2c_network.mu.weight", "a2c_network.mu.bias"):
        if name in model:
            model[name].fill_(bias if name.endswith("bias") else 0.0)
    values = {"model": model, "spec": spec, "run_id": "r", "version": version, "epoch": version, "score": None}
    return Candidate(**{**values, "file": Path(f"v{version}.pth"), **changes})


def live_of(first=None, train=TRAIN, stochastic=False, num_envs=2, spec=None, **rule) -> LivePolicy:
    first = first or candidate(1, spec, train)
    return LivePolicy(lambda: policy_of(spec, train, num_envs), first, stochastic, 0, SwapRule(**rule))


OBS = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def test_a_prepared_version_acts_only_after_it_was_adopted():
    live = live_of(candidate(1, bias=0.25))
    live.prepare(candidate(2, bias=-0.5))
    assert live.act(OBS).flatten().tolist() == [0.25, 0.25]
    event = live.adopt()
    assert (event.version, event.accepted) == (2, True)
    assert live.act(OBS).flatten().tolist() == [-0.5, -0.5]
    assert live.adopt() is None
    live.prepare(candidate(3, bias=0.75))  # the old model is the standby now
    assert live.act(OBS).flatten().tolist() == [-0.5, -0.5]


@pytest.mark.parametrize(
    ("other", "parts"),
    [
        (spec_with(observations=(("episode", 1), ("step", 1), ("speed", 2))), ["observation", "speed 2", "2 columns"]),
        (spec_with(observations=(("step", 1), ("episode", 1))), ["observation", "step 1, episode 1"]),
        (spec_with(action=Box(2)), ["action", "size=2", "size=1"]),
        (spec_with(task="Other"), ["Other", "Counting"]),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line_and_the_old_policy_continues(other, parts):
    live = live_of(candidate(1, bias=0.25))
    with pytest.raises(UserError) as error:
        live.prepare(candidate(2, other, bias=1.0))
    assert all(part in str(error.value) for part in parts), str(error.value)
    assert "\n" not in str(error.value)
    assert live.adopt() is None
    assert live.act(OBS).flatten().tolist() == [0.25, 0.25]


def test_another_hidden_size_and_a_missing_normaliser_are_refused_by_name():
    live = live_of()
    wide = dataclasses.replace(TRAIN, network=NetworkConfig(units=[5]))
    with pytest.raises(UserError, match=r"actor_mlp.0.weight is torch.float32\[5, 2\], expected torch.float32\[4, 2\]"):
        live.prepare(candidate(2, train=wide))
    bare = candidate(2, train=dataclasses.replace(TRAIN, normalize_input=False))
    with pytest.raises(UserError, match=r"lacks running_mean_std.running_mean"):
        live.prepare(bare)


def test_the_shape_hash_changes_with_what_must_fit_and_with_nothing_else():
    spec, model = spec_with(), policy_of().state()
    base = shape_hash(spec, model)
    assert base == shape_hash(spec, {k: v + 1 for k, v in model.items()})
    others = [
        shape_hash(spec_with(action=Box(2)), model),
        shape_hash(spec_with(observations=(("step", 1), ("episode", 1))), model),
        shape_hash(spec, {k: v.double() for k, v in model.items()}),
        shape_hash(spec, policy_of(train=dataclasses.replace(TRAIN, network=NetworkConfig(units=[5]))).state()),
    ]
    assert len({base, *others}) == 5


def test_deterministic_play_repeats_itself_and_stochastic_play_draws_from_its_own_dice():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    live, dice = live_of(), live_of(stochastic=True)
    same = {tuple(live.act(OBS).flatten().tolist()) for _ in range(20)}
    drawn = {tuple(dice.act(OBS).flatten().tolist()) for _ in range(20)}
    assert len(same) == 1
    assert len(drawn) == 20
    assert torch.equal(torch.rand(1), expected)  # nobody touched the global generator


def test_acting_changes_neither_the_observation_nor_the_normaliser():
    live = live_of(candidate(1))
    obs, before = OBS.clone(), live._acting.slot.policy.state()
    for _ in range(50):
        live.act(obs)
    assert torch.equal(obs, OBS)
    assert all(torch.equal(before[k], v) for k, v in live._acting.slot.policy.state().items())


def test_memory_continues_over_a_swap_and_is_forgotten_at_an_episodes_start():
    spec = spec_with()
    live = live_of(candidate(1, spec, RECURRENT), RECURRENT, spec=spec)
    live.act(OBS)
    live.act(OBS)
    before = [m.clone() for m in live._acting.slot.memory]
    assert all(m.abs().sum() > 0 for m in before)
    live.prepare(candidate(2, spec, RECURRENT))
    live.adopt()
    assert all(torch.equal(a, b) for a, b in zip(before, live._acting.slot.memory, strict=True))
    live.forget(torch.tensor([1]))
    for memory, old in zip(live._acting.slot.memory, before, strict=True):
        assert torch.equal(memory[:, 0], old[:, 0])
        assert memory[:, 1].abs().sum() == 0


@pytest.mark.parametrize("action", [Discrete(3), MultiDiscrete((2, 3))])
def test_choices_are_the_most_likely_or_drawn_with_their_probabilities(action):
    policy = policy_of(spec_with(action=action), num_envs=4000)
    logits = [torch.log(torch.tensor([0.7, 0.2, 0.1][:n])).expand(4000, n) for n in getattr(action, "nvec", (3,))]
    out = Distribution(None, None, tuple(logits), isinstance(action, Discrete), ())
    assert out.mode().reshape(4000, -1).unique().tolist() == [0]
    draws = out.sample(torch.Generator().manual_seed(0)).reshape(4000, -1)[:, -1]
    assert (draws == 0).float().mean().item() == pytest.approx(0.7, abs=0.03)
    assert policy(torch.zeros(4000, 2)).mode().shape == out.mode().shape


def test_a_box_is_drawn_with_its_mean_and_deviation():
    out = Distribution(torch.full((50_000, 1), 2.0), torch.full((50_000, 1), math.log(0.5)), (), False, ())
    draws = out.sample(torch.Generator().manual_seed(0))
    assert draws.mean().item() == pytest.approx(2.0, abs=0.01)
    assert draws.std().item() == pytest.approx(0.5, abs=0.01)


def test_quotas_are_as_equal_as_can_be():
    assert quotas(25, 4) == [7, 6, 6, 6]
    assert quotas(2, 4) == [1, 1, 0, 0]
    assert sum(quotas(1000, 7)) == 1000


def recorded(env, player_quota, tmp_path, actor=None):
    results = Results({"task": "Counting"})
    actor = actor or ScriptedActor(env, "zero", 0)
    reporter = Reporter(results, tmp_path / "results.json", endless=player_quota is None)
    counting = reporter.begin(env, actor if isinstance(actor, LivePolicy) else None)
    results.begin(env.reason_names, "failed")  # this world calls failing a success
    player = Player(env, actor, player_quota)
    player.attach(counting)
    player.run(lambda: False)
    return results, reporter


def test_exactly_the_asked_number_of_episodes_is_played_by_quota(tmp_path):
    env = counting_env(num_envs=4, length=6, params=CountingParams(fail_at=3))
    results, _ = recorded(env, quotas(25, 4), tmp_path)
    assert results.returns.count == 25
    assert [sum(e["env"] == i for e in results.episodes) for i in range(4)] == [7, 6, 6, 6]
    assert results.reasons == {"failed": 25}
    assert results.success_rate == 1.0  # this world calls failing a success


def test_short_episodes_are_not_favoured(tmp_path):
    """One environment ends every step, the others after ten: counting first come, first served would see short ones."""
    env = counting_env(num_envs=2, length=10)
    limit = env.max_length
    original = env.task.terminate
    env.task.terminate = lambda state: {"failed": original(state)["failed"] | torch.tensor([True, False])}
    results, _ = recorded(env, quotas(20, 2), tmp_path)
    lengths = sorted(e["length"] for e in results.episodes)
    assert lengths == [1] * 10 + [limit] * 10


class SwapsAt(ScriptedActor):
    """Version 1 acts from the first step on, version 2 from step number `at`."""

    at = 3
    steps = 0

    def adopt(self):
        self.steps += 1
        return SwapEvent.of(candidate(2), True) if self.steps == self.at else None

    def take_changes(self):
        return {1: [([0, 1], 1)], self.at: [([0, 1], 2)]}.get(self.steps, [])


def test_every_episode_names_the_versions_that_acted_in_it(tmp_path):
    env = counting_env(num_envs=2, length=5)
    actor = SwapsAt(env, "zero", 0)
    results, reporter = recorded(env, quotas(4, 2), tmp_path, actor)
    assert [e["versions"] for e in results.episodes] == [[1, 2], [1, 2], [2], [2]]
    # two of five steps by version 1: the episodes count for version 2
    assert {version: m.count for version, m in results.by_version.items()} == {2: 4}
    assert reporter.write()


def test_an_episode_counts_for_whoever_acted_longest():
    trace = VersionTrace(1, version=1)
    trace.change(0, 2, 7)
    assert trace.close(0, 10) == ([1, 2], 1)
    trace.change(0, 3, 0)  # before the first step: version 2 has not acted
    assert trace.close(0, 4) == ([3], 3)


def test_the_list_is_cut_but_the_means_are_over_all():
    results = Results({"task": "t"})
    results.begin(("failed",), None)
    for value in range(EPISODES_KEPT + 5):
        ends = FinishedEpisodes(
            torch.tensor([0]), torch.tensor([float(value)]), torch.tensor([1]), torch.tensor([0]), torch.ones(1)
        )
        results.add(ends, 0, [1], 1)
    data = results.to_dict()
    assert len(data["episodes"]) == EPISODES_KEPT
    assert data["episode_count"] == EPISODES_KEPT + 5
    assert data["return_mean"] == pytest.approx((EPISODES_KEPT + 4) / 2)
    assert data["success_rate"] is None


def test_the_standard_error_by_hand():
    moments = Moments()
    assert moments.stderr is None
    for value in (1.0, 2.0, 3.0, 6.0):
        moments.add(value)
    # mean 3, squared deviations 4 + 1 + 0 + 9 = 14, variance 14 / 3, over 4
    assert (moments.mean, moments.stderr) == pytest.approx((3.0, math.sqrt(14 / 3 / 4)))


@pytest.mark.parametrize("kind", ["zero", "random"])
def test_a_task_can_be_tried_without_a_policy(kind, tmp_path):
    env = counting_env()
    actor = ScriptedActor(env, kind, seed=0)
    actions = torch.cat([actor.act(OBS) for _ in range(100)])
    assert actions.abs().max().item() <= 1.0
    assert (actions == 0).all().item() is (kind == "zero")
    assert recorded(env, quotas(3, 2), tmp_path, actor)[0].returns.count == 3


def test_the_world_is_not_touched_by_a_swap():
    """Two plays with the same first version; one swaps to equal weights in the middle: nothing differs."""

    def play(swap: bool):
        env = counting_env(num_envs=2, length=50, seed=5)
        live = live_of(candidate(1, bias=0.25))
        obs, seen = env.reset(), []
        for k in range(20):
            if swap and k == 10:
                live.prepare(candidate(2, bias=0.25))
            live.adopt()
            step = env.step(live.act(obs["policy"]))
            obs = step.obs
            seen += [obs["policy"].clone(), env.sim.qvel.clone(), env.episode_length.clone()]
        return seen, live.acting.version

    plain, v1 = play(False)
    swapped, v2 = play(True)
    assert (v1, v2) == (1, 2)
    assert all(torch.equal(a, b) for a, b in zip(plain, swapped, strict=True))

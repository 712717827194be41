"""How new weights take over: at once, at each episode's start, or by blending; and how one goes back."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from livegym.live.model_slot import SPACED, ModelSlot, PolicySnapshot, SnapshotHistory
from livegym.live.swap import LivePolicy
from livegym.live.transition import SwapRule, mixed_mode, mixed_sample
from livegym.play.play import quotas
from livegym.play.results import VersionTrace
from livegym.rl.distribution import Distribution
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.rundir.checkpoint import read_checkpoint
from livegym.schema import PhysicsConfig
from livegym.tasks.base import Discrete, MultiDiscrete
from livegym.tasks.build import make_env
from livegym.utils.errors import UserError
from tests.dummy import counting_env
from tests.test_live import OBS, RECURRENT, candidate, live_of, policy_of, recorded, spec_with

KEPT = Path(__file__).parent.parent / "docs" / "policies" / "BlindGrasping.pth"
BOTH = torch.tensor([0, 1])


def means(live):
    return live.act(OBS).flatten().tolist()


def box(mean, log_std=-20.0, n=4):
    return Distribution(torch.full((n, 1), mean), torch.full((n, 1), log_std), (), False, ())


def logits(*columns):
    """Probabilities of each choice -> what a policy would say, in one environment."""
    return tuple(torch.log(torch.tensor([column])) for column in columns)


# -- mixtures, by hand


def test_means_are_mixed_by_each_environments_share():
    mixed = mixed_mode(box(1.0), box(-3.0), torch.tensor([0.0, 0.25, 0.5, 1.0]))
    assert mixed.flatten().tolist() == [1.0, 0.0, -1.0, -3.0]


def test_choices_are_the_most_likely_of_the_mixed_probabilities():
    # old (0.6, 0.4, 0), new (0, 0.45, 0.55): at 0.5 the middle one has 0.425 where the others have 0.3 and 0.275,
    # although it is the favourite of neither
    old = Distribution(None, None, logits([0.6, 0.4, 1e-9]), True, ())
    new = Distribution(None, None, logits([1e-9, 0.45, 0.55]), True, ())
    chosen = [mixed_mode(old, new, torch.tensor([share])).item() for share in (0.0, 0.1, 0.5, 0.9, 1.0)]
    assert chosen == [0, 0, 1, 2, 2]


def test_several_choices_are_mixed_each_for_itself():
    old = Distribution(None, None, logits([0.9, 0.1], [0.8, 0.2]), False, ())
    new = Distribution(None, None, logits([0.3, 0.7], [0.45, 0.55]), False, ())
    # first: 0.6 and 0.4; second: 0.625 and 0.375
    assert mixed_mode(old, new, torch.tensor([0.5])).tolist() == [[0, 0]]
    # at 0.9: 0.36 and 0.64; 0.485 and 0.515
    assert mixed_mode(old, new, torch.tensor([0.9])).tolist() == [[1, 1]]


def test_stochastic_play_draws_who_acts():
    n = 40_000
    rng = torch.Generator().manual_seed(0)
    drawn = mixed_sample(box(1.0, n=n), box(-3.0, n=n), torch.full((n,), 0.3), rng).flatten()
    by_new = (drawn < 0).float().mean().item()
    assert by_new == pytest.approx(0.3, abs=0.01)  # standard error 0.0023
    assert set(drawn.round().tolist()) == {1.0, -3.0}  # one or the other, never something between


@pytest.mark.parametrize("action", [Discrete(2), MultiDiscrete((2, 2))])
def test_stochastic_choices_have_the_mixed_probabilities(action):
    n, heads = 40_000, 1 if isinstance(action, Discrete) else 2
    old, new = (
        Distribution(None, None, tuple(torch.log(torch.tensor(p)).expand(n, 2) for _ in range(heads)), heads == 1, ())
        for p in ([0.9, 0.1], [0.2, 0.8])
    )
    drawn = mixed_sample(old, new, torch.full((n,), 0.25), torch.Generator().manual_seed(1)).reshape(n, heads)
    assert drawn[:, -1].float().mean().item() == pytest.approx(0.75 * 0.1 + 0.25 * 0.8, abs=0.01)


# -- taking over


def test_a_blend_ramps_from_the_old_to_the_new_policy_and_then_only_that_acts():
    live = live_of(candidate(1, bias=0.0), how="blend", blend_steps=4)
    live.prepare(candidate(2, bias=1.0))
    assert live.adopt().version == 2
    assert [means(live)[0] for _ in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    assert not live.swapping


def test_a_version_that_arrives_during_a_blend_waits_and_only_the_newest_waits():
    live = live_of(candidate(1, bias=0.0), how="blend", blend_steps=3)
    live.prepare(candidate(2, bias=1.0))
    live.adopt()
    for version in (3, 4, 5):
        means(live)
        live.prepare(candidate(version, bias=float(version)))
        if live.swapping:
            assert live.adopt() is None
    assert live.adopt().version == 5
    assert live.newest.version == 5


def test_at_a_reset_each_environment_changes_for_itself():
    live = live_of(candidate(1, bias=0.25), how="reset")
    means(live)  # both episodes have begun
    live.prepare(candidate(2, bias=0.5))
    assert live.adopt().version == 2
    assert live.take_changes() == []
    assert means(live) == [0.25, 0.25]
    live.forget(torch.tensor([1]))
    assert live.take_changes() == [([1], 2)]
    assert means(live) == [0.25, 0.5]
    live.forget(torch.tensor([0]))
    assert live.take_changes() == [([0], 2)]
    assert means(live) == [0.5, 0.5]
    assert not live.swapping


def test_at_a_reset_an_episode_that_has_just_begun_is_the_new_ones():
    live = live_of(candidate(1, bias=0.25), how="reset")
    means(live)
    live.forget(torch.tensor([0]))
    live.prepare(candidate(2, bias=0.5))
    live.adopt()
    assert means(live) == [0.5, 0.25]


def test_the_least_time_between_swaps(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("livegym.live.swap.time.monotonic", lambda: now[0])
    live = live_of(candidate(1), min_interval=10.0)
    live.prepare(candidate(2))
    assert live.adopt().version == 2  # the first one has none before it
    live.prepare(candidate(3))
    now[0] = 109.9
    live.prepare(candidate(4))
    assert live.adopt() is None
    now[0] = 110.0
    assert live.adopt().version == 4
    live.prepare(candidate(5))
    now[0] = 119.9
    assert live.adopt() is None


@pytest.mark.parametrize("how", ["now", "blend", "reset"])
def test_memory_is_carried_over_and_both_remember_while_both_act(how):
    spec = spec_with()
    live = live_of(candidate(1, spec, RECURRENT), RECURRENT, spec=spec, how=how, blend_steps=3)
    live.act(OBS)
    before = [m.clone() for m in live._acting.slot.memory]
    live.prepare(candidate(2, spec, RECURRENT))
    live.adopt()
    assert all(torch.equal(a, b) for a, b in zip(before, live._acting.slot.memory, strict=True))
    if how != "now":
        live.act(OBS)
        live.forget(torch.tensor([1]))
        for acting in (live._acting, live._transition.leaving):
            assert all(m[:, 1].abs().sum() == 0 and m[:, 0].abs().sum() > 0 for m in acting.slot.memory)


@pytest.mark.slow
def test_three_models_are_never_out_of_hand():
    """Whatever the order of preparing, adopting, acting, rolling back: every model has exactly one owner."""
    live = live_of(candidate(1), how="blend", blend_steps=2, history=4)
    rng = torch.Generator().manual_seed(0)
    for version in range(2, 200):
        if torch.rand(1, generator=rng) < 0.5:
            live.prepare(candidate(version, bias=float(version)))
        if torch.rand(1, generator=rng) < 0.1 and len(live.history) > 1:
            try:
                live.rollback()
            except UserError:  # the acting one is the oldest
                live.follow()
        live.adopt()
        live.act(OBS)
        loaded = [live._acting, *live._ready, *([live._transition.leaving] if live.swapping else [])]
        slots = [*live._free, *(one.slot for one in loaded)]
        assert len({id(slot) for slot in slots}) == len(slots) == 3
        assert len(live._ready) <= 1


# -- going back


def test_rollback_goes_to_the_version_before_and_stays_until_following_again():
    live = live_of(candidate(1, bias=1.0), history=3)
    for version in (2, 3):
        live.prepare(candidate(version, bias=float(version)))
        live.adopt()
    live.rollback()
    event = live.adopt()
    assert (event.version, event.reason) == (2, "rolled back")
    assert means(live) == [2.0, 2.0]
    live.prepare(candidate(4, bias=4.0))
    assert live.adopt() is None
    live.rollback()
    assert live.adopt().version == 1
    live.follow()
    assert live.adopt().version == 4
    live.rollback(2)
    assert live.adopt().version == 2
    with pytest.raises(UserError, match=r"version 9 is not kept. Kept: .*2, .*4"):
        live.rollback(9)


def test_a_rollback_in_the_middle_of_a_swap_takes_over_at_once_and_is_named():
    live = live_of(candidate(1, bias=0.25), how="reset", history=4)
    means(live)
    live.prepare(candidate(2, bias=0.5))
    live.adopt()
    live.take_changes()
    live.forget(torch.tensor([1]))
    live.take_changes()
    live.rollback(1)
    event = live.adopt()
    assert (event.version, event.source, event.load_ms) == (1, "history", 0.0)
    assert live.take_changes() == [([0, 1], 1)]
    assert means(live) == [0.25, 0.25]


def test_two_roll_backs_before_a_step_go_back_twice():
    live = live_of(candidate(1), history=4)
    for version in (2, 3):
        live.prepare(candidate(version))
        live.adopt()
    live.rollback()
    live.rollback()
    assert [live.adopt().version, live.adopt().version] == [2, 1]


def test_an_episode_that_begins_during_a_blend_names_both():
    live = live_of(candidate(1), how="blend", blend_steps=4)
    trace = VersionTrace(2, 1)
    lengths = [7, 7]

    def report():
        for env_ids, label in live.take_changes():
            for env_id in env_ids:
                trace.change(env_id, label, lengths[env_id])

    live.prepare(candidate(2))
    live.adopt()
    report()
    live.act(OBS)
    lengths[:] = [8, 8]
    assert trace.close(0, 8) == ([1, 2], 1)
    live.forget(torch.tensor([0]))
    lengths[0] = 0
    report()
    for length in range(1, 6):
        live.act(OBS)
        lengths[0] = length
        report()
    assert trace.close(0, 5) == ([1, 2], 2)
    assert trace.close(1, 12) == ([1, 2], 1)


def test_every_environment_whose_episode_begins_before_one_step_of_a_blend_names_both():
    """Two calls of `forget` before a step: somebody restarts one environment just when another one's episode ended."""
    live = live_of(candidate(1), how="blend", blend_steps=4)
    live.prepare(candidate(2))
    live.adopt()
    live.act(OBS)
    live.take_changes()
    live.forget(torch.tensor([0]))
    live.forget(torch.tensor([1]))
    assert live.take_changes() == [([0], 1), ([1], 1)]
    live.act(OBS)
    assert live.take_changes() == [([0, 1], 2)]


def test_a_blend_continues_as_it_began_though_the_rule_changes():
    live = live_of(candidate(1, bias=0.0), how="blend", blend_steps=4)
    live.prepare(candidate(2, bias=1.0))
    live.adopt()
    assert means(live)[0] == 0.25
    live.set_rule("blend", 100)
    live.adopt()
    assert [means(live)[0] for _ in range(3)] == [0.5, 0.75, 1.0]


def test_a_version_that_takes_over_as_a_comparison_ends_is_named_last():
    live = live_of(candidate(1), history=3)
    live.prepare(candidate(2))
    live.adopt()
    live.compare(2, 1)
    live.adopt()
    live.take_changes()
    live.end_comparison()
    live.prepare(candidate(3))
    assert live.adopt().version == 3
    assert live.take_changes() == [([0, 1], 2), ([0, 1], 3)]


def test_a_pinned_policy_stays():
    live = live_of(candidate(1, bias=1.0))
    live.pin()
    live.prepare(candidate(2, bias=2.0))
    assert live.adopt() is None
    assert means(live) == [1.0, 1.0]
    live.follow()
    assert live.adopt().version == 2


def test_the_history_has_copies_returns_and_no_more_than_its_size():
    live = live_of(candidate(1), history=2)
    for version in (2, 3):
        offered = candidate(version, bias=float(version))
        live.prepare(offered)
        offered.model["a2c_network.mu.bias"].fill_(99.0)  # the source reads its next one
        live.adopt()
    live.history.note(3, 10.0)
    live.history.note(3, 20.0)
    live.history.note(1, 5.0)  # no longer kept
    assert [(kept.label, kept.returns.count) for kept in live.history] == [(2, 0), (3, 2)]
    live.rollback()
    live.adopt()
    assert means(live) == [2.0, 2.0]


def test_the_history_spans_the_test_with_the_first_and_the_best_version():
    """An hour at one version a second: of about 1, 2, 5, 10, 30 minutes ago there is one."""
    now = [0.0]
    history = SnapshotHistory(8, spaced=SPACED, clock=lambda: now[0])
    any_version = candidate(1)
    for version in range(1, 3601):
        now[0] = float(version)
        score = 1000.0 if version == 777 else float(version % 50)
        history.add(PolicySnapshot(version, dataclasses.replace(any_version, version=version, score=score)))
    assert len(history) == 8 + SPACED
    assert history.labels == sorted(history.labels)
    assert history.labels[-8:] == list(range(3593, 3601))
    assert history.labels[0] == 1
    assert history.best == 777
    assert 777 in history.labels
    ages = [3600 - label for label in history.labels]
    for wanted in (60, 120, 300, 600, 1800):
        assert min(abs(age - wanted) / wanted for age in ages) < 0.45, (wanted, ages)


def test_a_version_that_acts_again_keeps_its_place_in_the_history():
    now = [0.0]
    history = SnapshotHistory(2, spaced=4, clock=lambda: now[0])
    for version in (1, 2, 3, 4, 2):
        now[0] += 1.0
        history.add(PolicySnapshot(version, candidate(version)))
        history.note(version, 10.0 * version)
    assert history.labels == [1, 2, 3, 4]
    assert history.get(2).returns.count == 2
    assert history.get(2).since == 2.0


def test_each_version_of_the_pool_takes_one_forward_pass(monkeypatch):
    live = live_of(candidate(1, bias=0.1), num_envs=6, history=4, pool_envs=5)
    live.prepare(candidate(2, bias=0.2))
    live.adopt()
    for env_id in range(1, 6):
        live.cast(env_id, 1 if env_id < 4 else 2)
    live.adopt()
    passes = []
    think = ModelSlot.think
    monkeypatch.setattr(ModelSlot, "think", lambda slot, obs: passes.append(slot) or think(slot, obs))
    actions = live.act(torch.zeros(6, 2)).flatten().tolist()
    assert actions == pytest.approx([0.2, 0.1, 0.1, 0.1, 0.2, 0.2])
    assert len(passes) == 3  # the acting version, and two in the pool


def test_a_version_is_not_compared_with_itself():
    live = live_of(candidate(1), history=4)
    with pytest.raises(UserError, match=r"version 1 cannot be compared with itself\. Allowed: two different versions"):
        live.compare(1, 1)


def test_without_a_history_nothing_is_kept_and_it_reports_it():
    live = live_of(candidate(1))
    with pytest.raises(UserError, match=r"no version before the acting one is kept\. .*historySize=0"):
        live.rollback()


# -- versions beside each other


def test_older_versions_act_beside_the_newest_one(tmp_path):
    live = live_of(candidate(1, bias=0.1), num_envs=3, history=4, pool_envs=1)
    live.prepare(candidate(2, bias=0.2))
    live.adopt()
    assert live.take_changes() == [([0, 1, 2], 2)]
    obs = torch.zeros(3, 2)
    assert live.act(obs).flatten().tolist() == pytest.approx([0.2, 0.2, 0.2])
    live.forget(torch.tensor([2]))
    assert live.take_changes() == [([2], 1)]
    assert live.act(obs).flatten().tolist() == pytest.approx([0.2, 0.2, 0.1])
    live.prepare(candidate(3, bias=0.3))
    live.adopt()
    assert live.take_changes() == [([0, 1], 3)]
    live.cast(2, 2)
    live.adopt()
    assert live.act(obs).flatten().tolist() == pytest.approx([0.3, 0.3, 0.2])
    for _ in range(5):  # it is not drawn anew before it is released
        live.forget(torch.tensor([2]))
    assert live.pool.labels == {2: 2}
    live.release(2)
    live.adopt()
    drawn = set()
    for _ in range(40):
        live.forget(torch.tensor([2]))
        drawn.add(live.pool.labels[2])
    assert drawn == {1, 2}  # never the newest
    with pytest.raises(UserError, match=r"environment 0 does not belong to the pool\. The pool's environments: 2"):
        live.cast(0, 2)
    with pytest.raises(UserError, match="version 9 is not kept"):
        live.cast(2, 9)


def test_returns_are_counted_for_the_version_that_acted_in_each_environment(tmp_path):
    env = counting_env(num_envs=3, length=5)
    live = live_of(candidate(1), num_envs=3, history=4, pool_envs=1)
    live.prepare(candidate(2))
    results, _ = recorded(env, quotas(9, 3), tmp_path, live)
    versions = {index: [e["versions"] for e in results.episodes if e["env"] == index] for index in range(3)}
    assert versions == {0: [[2]] * 3, 1: [[2]] * 3, 2: [[2], [1], [1]]}
    assert {version: m.count for version, m in results.by_version.items()} == {2: 7, 1: 2}
    assert {kept.label: kept.returns.count for kept in live.history} == {1: 2, 2: 7}


def test_somebody_has_to_play_the_newest_one():
    with pytest.raises(UserError, match="poolEnvs=2: must be less than numEnvs=2"):
        live_of(candidate(1), history=2, pool_envs=2)
    with pytest.raises(UserError, match="poolEnvs=1: needs historySize=2 or more, but historySize=1"):
        live_of(candidate(1), history=1, pool_envs=1)


# -- nothing else changes


HAND = ("task=BlindGrasping", "task.curriculum.level=1", "task.randomization.late.range=[1,2]")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "swap_at", "kept"),
    [(("task=Cartpole",), 12, False), (("task=Ant",), 12, False), (HAND, 60, True), (("task=Territory",), 9, False)],
    ids=["Cartpole", "Ant", "BlindGrasping", "Territory"],
)
@pytest.mark.parametrize("how", ["now", "blend", "reset"])
def test_state_generators_and_counters_are_those_of_a_run_without_the_swap(config, typed, swap_at, kept, how):
    """Bit for bit, up to the first action that another version chose; with equal weights, to the end.

    `kept`: the documents' policy plays, because only a trained one goes through the stages.
    """
    torch.manual_seed(0)  # of the untrained policies
    given = config("config=test", *typed)
    length = swap_at + 18

    def play(swap_to: float | None):
        env = make_env(given.task, given.sim, PhysicsConfig(), 4, seed=3)
        spec = spec_of(env)
        first = candidate(1, spec, given.train)
        if kept:
            first = dataclasses.replace(first, model=read_checkpoint(KEPT)["model"])
        live = LivePolicy(lambda: Policy(spec, given.train, 4, "cpu"), first, True, 0, SwapRule(how, blend_steps=5))
        obs, states, acted = env.reset()["policy"], [], []
        for k in range(length):
            if swap_to is not None and k == swap_at:
                model = {name: value.clone() for name, value in first.model.items()}
                for name, bias in model.items():
                    if name.endswith(".bias") and (".mu." in name or ".logits." in name):
                        bias += swap_to * (1 + torch.arange(len(bias)))
                live.prepare(dataclasses.replace(first, model=model, version=2))
            live.adopt()
            states.append(env.state_dict())
            acted.append(live.act(obs))
            step = env.step(acted[-1])
            if step.ended is not None:
                live.forget(step.ended.env_ids)
            obs = step.obs["policy"]
        return states, acted

    plain, swapped = play(None), play(0.5)
    changed = next(k for k in range(length) if not torch.equal(plain[1][k], swapped[1][k]))
    assert changed >= swap_at
    for k in range(changed + 1):
        assert _equal(plain[0][k], swapped[0][k]), k
    assert not _equal(plain[0][changed + 1], swapped[0][changed + 1])  # so the comparison sees a difference
    _check_buffers_in_use(given.task.name, plain[0][swap_at])
    if how == "now":
        assert changed == swap_at
        assert all(_equal(a, b) for a, b in zip(plain[0], play(0.0)[0], strict=True))


def _check_buffers_in_use(task: str, state) -> None:
    """The buffers that a swap must leave alone hold something when it comes."""
    if task == "BlindGrasping":
        assert len(state["task"]["stage"].unique()) > 1
        assert (state["task"]["time_in_stage"] > 0).any()
        assert state["env"]["task.randomization.late/values"].flatten().unique().tolist() == [1.0, 2.0]  # steps
        assert state["env"]["last_actions"].abs().sum(dim=(1, 2)).min() > 0
    if task == "Territory":
        assert (state["task"]["tick"] > 0).any()
        assert (state["task"]["errand"][..., 2] > 0).any()  # steps for which a worker stays stunned


def _equal(a, b) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def test_a_policy_loads_by_copying_so_that_the_source_may_continue():
    policy, offered = policy_of(), candidate(2, bias=0.5)
    policy.load(offered.model)
    offered.model["a2c_network.mu.bias"].fill_(7.0)
    assert policy(OBS).mode().flatten().tolist() == [0.5, 0.5]

"""swapGuard: a new version has to show, unseen, that it is not worse."""

from __future__ import annotations

import queue

import numpy as np
import pytest
import torch

from livegym.play.swap_guard import GuardRule, SwapGuard, lower_bound
from livegym.play.watch import Watcher
from livegym.rl.policy import Misfit, Policy
from livegym.utils.errors import UserError
from tests.dummy import CountingParams, counting_env
from tests.test_live import candidate, live_of, policy_of, spec_with
from tests.test_sources import Offers


def test_the_bound_by_hand():
    same = np.full(10, 5.0)
    assert lower_bound(same + 1, same, 0.95) == pytest.approx(1.0)  # nothing varies: the difference itself
    rng = np.random.default_rng(1)
    new, old = rng.normal(1.0, 1.0, 400), rng.normal(0.0, 1.0, 400)
    # the normal approximation: difference - 1.645 * sqrt(var / n + var / n)
    expected = new.mean() - old.mean() - 1.645 * np.sqrt(new.var() / 400 + old.var() / 400)
    assert lower_bound(new, old, 0.95) == pytest.approx(expected, abs=0.02)


def guard_of(margin=0.0, episodes=6):
    """A world that rewards the action itself, three steps an episode: a policy's return is three times its bias."""
    env = counting_env(num_envs=2, length=3, params=CountingParams())
    env.task.reward = lambda state, action: {"alive": action[:, 0], "step_number": torch.zeros(2)}
    return SwapGuard(env, policy_of(), GuardRule(episodes, margin, 0.9), stochastic=False)


def test_a_better_version_passes_and_a_worse_one_is_refused_with_its_numbers():
    live, guard = live_of(candidate(1, bias=0.25)), guard_of()
    guard.judge(candidate(2, bias=0.5), live, lambda: False)
    with pytest.raises(UserError, match=r"swapGuard: mean return 0.375 against 0.75 .* 6 shadow episodes"):
        guard.judge(candidate(3, bias=0.125), live, lambda: False)


def test_a_tie_passes_also_without_a_margin():
    guard_of().judge(candidate(2, bias=0.25), live_of(candidate(1, bias=0.25)), lambda: False)


def test_a_version_may_be_worse_by_the_margin():
    live = live_of(candidate(1, bias=0.25))
    guard_of(margin=0.4).judge(candidate(2, bias=0.125), live, lambda: False)
    with pytest.raises(UserError, match=r"margin 0\.3"):
        guard_of(margin=0.3).judge(candidate(2, bias=0.125), live, lambda: False)


def test_what_does_not_fit_is_refused_before_it_plays():
    live, asked = live_of(candidate(1, bias=0.25)), []
    with pytest.raises(Misfit, match="does not fit"):
        live.prepare(candidate(2, spec=spec_with(task="Other")), asked.append)
    assert asked == []


def test_what_the_guard_refuses_changes_nothing():
    live, guard = live_of(candidate(1, bias=0.25)), guard_of()
    live.prepare(candidate(2, bias=0.5))

    def judge(offered):
        guard.judge(offered, live, lambda: False)
        return True

    with pytest.raises(UserError, match="swapGuard"):
        live.prepare(candidate(3, bias=0.125), judge)
    assert live.newest.version == 2
    assert live.adopt().version == 2


def test_a_version_is_compared_with_the_acting_one_once_on_its_way(monkeypatch):
    """It was, up to four times: for a new world, by the guard, as its spare model was loaded, and to be made ready."""
    live, guard, checked = live_of(candidate(1, bias=0.25)), guard_of(), []
    check = Policy.check
    monkeypatch.setattr(Policy, "check", lambda *given: checked.append(1) or check(*given))
    watcher = Watcher(live, Offers(candidate(2, bias=0.5)), queue.SimpleQueue(), guard, lambda offered: None)
    watcher.poll()
    assert live.adopt().version == 2
    assert len(checked) == 1


def test_the_status_says_what_is_tested_how_far_it_is_and_how_the_last_one_ended():
    live, guard = live_of(candidate(1, bias=0.25)), guard_of()
    assert guard.status == (None, 0, 0, "")
    seen = []

    def ended():
        seen.append(guard.status)
        return False

    guard.judge(candidate(2, bias=0.5), live, ended)
    assert {status.judging for status in seen} == {2}
    assert {status.expected for status in seen} == {12}  # six episodes of each version
    played = [status.played for status in seen]
    assert (played[0], played) == (0, sorted(played))
    assert max(played) >= 8
    assert guard.status.judging is None
    assert guard.status.last.startswith("passed version 2: mean return ")
    with pytest.raises(UserError):
        guard.judge(candidate(3, bias=0.125), live, lambda: False)
    assert guard.status.last.startswith("refused version 3: mean return ")


def test_a_stop_ends_shadow_episodes():
    guard_of(episodes=10**6).judge(candidate(2), live_of(), lambda: True)


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "low", "high"), [(100, 0.08, 0.22), (110, 0.55, 0.75), (90, 0.0, 0.01)])
def test_how_often_equal_better_and_worse_versions_pass_is_what_the_documents_say(mean, low, high):
    """20 episodes, returns that spread by 20 %, confidence 0.9; a t test would let 10 % and 62 % pass."""
    rng = np.random.default_rng(0)
    passed = [lower_bound(rng.normal(mean, 20, 20), rng.normal(100, 20, 20), 0.9) >= 0 for _ in range(200)]
    assert low <= np.mean(passed) <= high


def test_returns_that_are_no_numbers_do_not_pass():
    assert not lower_bound(np.array([np.nan, 1.0]), np.array([1.0, 1.0]), 0.9) >= 0

"""Which versions go live: judged by logged decisions, by what was earned, and by a challenger beside the champion."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from livegym.live.model_slot import ModelSlot, load
from livegym.live.swap import PolicyStep
from livegym.online import champion as module
from livegym.online.champion import ENOUGH, STREAK, Champion
from livegym.online.champion_rule import ChampionRule, Decisions, Hooks
from livegym.online.decider import Decider, StreamSlots
from livegym.online.experience import Layout
from livegym.online.judge import BLOCK, Judge
from livegym.online.outcomes import Outcome, Outcomes
from livegym.online.replay import ReplayReader
from livegym.online.service import Service
from livegym.online.service_state import ServiceState
from livegym.online.stream_requests import Instead, Observed, Rewarded
from livegym.online.trial import Trial, both
from livegym.rl.algorithm import algorithm_of
from livegym.rundir.run import create_run
from livegym.schema import OnlineConfig
from livegym.tasks.base import Box, Discrete
from tests.experiences import pending
from tests.test_live import TRAIN, candidate, live_of, policy_of, spec_with

BANDIT = dataclasses.replace(TRAIN, gamma=0.0)
RULE = ChampionRule(rows=800, interval=0.0, confidence=0.99, kl=0.5, share=0.0, challenge=math.inf, max_rollbacks=3)
BEST = 0.5  # the action that earns most; a version earns the less, the further its bias is from it
STREAMS = "abcd"
OUTLIER = 1e4


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(module, "COST", 0.0)
    monkeypatch.setattr(module, "REVIEW_S", 0.0)


class World:
    """Four streams of one-step episodes: the reward of an action is minus its squared distance from the best one."""

    def __init__(self, path, bias=BEST, train=BANDIT, **rule) -> None:
        torch.manual_seed(0)  # of the critics: what another test has drawn must not decide about a version
        self.train, self.best, self.rng = train, BEST, np.random.default_rng(0)
        self.live = live_of(candidate(1, train=train, bias=bias), train, stochastic=True, num_envs=4, history=3)
        run, online = create_run(path, "Counting", "continuous"), OnlineConfig()
        layout = Layout.of(2, Box(1))
        memory = ServiceState(run, layout, online)
        self.decider = Decider(self.live, None, StreamSlots(4, 60.0), spec_with())
        self.outcomes = Outcomes(train.gamma, 100, 1000)
        self.service = Service(self.decider, memory, outcomes=self.outcomes)
        self.reader = ReplayReader(run.replay_file, layout, online.buffer_capacity)
        self.set_back: list[tuple[int, str]] = []
        judge = Judge(algorithm_of(train).actor_critic(spec_with(), train), RULE.confidence)
        hooks = Hooks(lambda weights, why: self.set_back.append((weights.version, why)), self._challenge)
        decisions = Decisions(lambda: self.reader.added, self._rows)
        self.champion = Champion(
            self.live, judge, decisions, self.outcomes, dataclasses.replace(RULE, **rule), hooks
        )  # fmt: skip
        self.versions = itertools.count(2)

    def _rows(self, count):
        rows = self.reader.fresh(max(0, self.reader.added - count))
        return rows[np.abs(rows["reward"]) < OUTLIER]

    def _challenge(self, offered) -> None:
        if offered is None:
            self.decider.trial = self.outcomes.challenger = None
            return
        self.outcomes.challenger = offered.version
        slot = load(ModelSlot(policy_of(train=self.train, num_envs=4)), offered)
        self.decider.trial = Trial(slot, 0.5, self.train.gamma != 0, seed=0, streams=100)

    def play(self, decisions: int) -> None:
        """Each stream makes so many decisions; after each one, the champion looks at what was earned."""
        for _ in range(decisions):
            self.live.adopt()
            obs = self.rng.normal(size=2).astype(np.float32)
            made = self.service.answer([Observed(stream, obs=obs) for stream in STREAMS], 0.0)
            for decision in made:
                reward = -float((decision.proposed[0] - self.best) ** 2)
                self.service.answer([Rewarded(decision.stream, decision.decision, reward, done=True)], 0.0)
            self.champion.review()

    def offer(self, bias: float) -> str:
        """Offers a version, as the watching thread does; returns what becomes of it."""
        made = candidate(next(self.versions), train=self.train, bias=bias)
        self.live.prepare(made, lambda offered: self.champion.judge(offered, self.live, lambda: False))
        self.live.adopt()
        return self.champion.reading()["state"]

    @property
    def bias(self) -> float:
        """The mean action of the version that acts."""
        return float(self.live.weights()[1]["a2c_network.mu.bias"])


@pytest.fixture
def world(tmp_path):
    return lambda **settings: World(tmp_path, **settings)


@pytest.mark.parametrize("train", [BANDIT, TRAIN], ids=["discount 0", "discount 0.99"])
def test_a_worse_version_is_refused_and_a_better_one_goes_live(world, train):
    here = world(bias=0.0, train=train)
    here.play(200)
    assert here.offer(-0.5) == "refused"
    assert here.live.acting.version == 1
    reading = here.champion.reading()
    assert reading["gain_high"] < 0
    assert reading["why"].startswith("worse than the acting version: ")
    assert here.offer(0.5) == "live"
    assert here.live.acting.version == 3
    reading = here.champion.reading()
    assert (reading["judged"], reading["refused"], reading["not_judged"]) == (2, 1, 0)
    assert reading["kl"] == pytest.approx(0.125)  # two normal distributions of variance 1, 0.5 apart
    assert reading["gain_low"] > 0


def test_without_enough_data_a_version_goes_live_within_the_bound_and_is_not_judged(world):
    here = world()
    assert here.offer(-0.2) == "not judged"  # there is no decision yet
    here.play(2)
    assert here.offer(-0.4) == "not judged"
    assert "too few effective samples" in here.champion.reading()["why"]
    assert here.offer(2.0) == "refused"  # its KL is 2.88
    assert "more than online.adopt_kl=0.5" in here.champion.reading()["why"]
    assert here.live.acting.version == 3
    assert here.champion.reading()["not_judged"] == 2


def test_a_version_that_is_far_away_goes_live_only_if_it_is_better(world):
    here = world(bias=-1.0)
    here.play(200)
    assert here.offer(0.3) == "live"  # KL 0.85
    assert here.offer(-0.8) == "refused"


def test_how_far_a_version_is_away_is_known_even_if_clients_did_something_else_each_time(world):
    """There is no reward to judge by, so only its KL speaks against it: it was the mean of nothing."""
    here = world(kl=0.5)
    for _ in range(5):
        made = here.service.answer([Observed(stream, obs=np.zeros(2, np.float32)) for stream in STREAMS], 0.0)
        for each in made:
            done = Rewarded(each.stream, each.decision, -1.0, done=True, instead=Instead(np.array([9.0]), None))
            here.service.answer([done], 0.0)
    assert here.offer(50.0) == "refused"
    assert "more than online.adopt_kl=0.5" in here.champion.reading()["why"]
    assert here.offer(0.4) == "not judged"


@pytest.mark.parametrize("name", ["a2c_network.mu.weight", "a2c_network.value.weight"])
def test_a_version_whose_outputs_are_not_finite_is_refused(world, name):
    """Its weights are finite, so it fits; what comes out of them is not."""
    here = world()
    here.play(50)
    made = candidate(2, train=BANDIT, bias=BEST)
    made.model["a2c_network.actor_mlp.0.bias"][:] = 100.0
    made.model[name][:] = torch.tensor([3e38, -3e38, 3e38, -3e38])
    assert not here.champion.judge(made, here.live, lambda: False)
    assert "its KL to the acting version is inf" in here.champion.reading()["why"]


def test_the_same_version_is_not_judged_twice_by_the_same_decisions(world):
    here = world()
    here.play(50)
    made = candidate(2, train=BANDIT, bias=-1.0)
    for _ in range(5):
        assert not here.champion.judge(made, here.live, lambda: False)
    assert here.champion.reading()["refused"] == 1


def test_while_a_version_is_pinned_nothing_is_judged(world):
    here = world()
    here.play(100)
    here.live.pin("somebody")
    here.live.adopt()
    assert here.offer(0.45) is None
    here.live.follow()
    here.live.adopt()
    assert here.champion.arrived == 2
    assert here.offer(3.0) == "not judged"  # a person wants the newest one, however far away it is
    here.play(100)
    assert here.offer(-3.0) == "refused"


@pytest.mark.slow
def test_good_versions_are_refused_at_most_at_the_nominal_rate(capsys):
    """Acting 0.3 and candidate 0.7 earn the same. At confidence 0.9, a twentieth of them may be refused."""
    judge = Judge(algorithm_of(BANDIT).actor_critic(spec_with(), BANDIT), confidence=0.9)
    acting, offered = (candidate(1, train=BANDIT, bias=bias).model for bias in (0.3, 0.7))
    rng, tries, refused, known = np.random.default_rng(1), 1000, 0, 0
    rows = np.zeros(400, Layout.of(2, Box(1)).dtype())
    rows["stream"] = [STREAMS[i % 4].encode() for i in range(len(rows))]
    for _ in range(tries):
        noise = rng.normal(size=(len(rows), 1))
        rows["proposed"] = 0.3 + noise
        rows["log_prob"] = (-0.5 * noise**2 - 0.5 * np.log(2 * np.pi))[:, 0]
        rows["executed"], rows["executed_log_prob"] = rows["proposed"], rows["log_prob"]
        rows["reward"] = -((rows["proposed"][:, 0] - BEST) ** 2)
        finding = judge.view(rows, acting).compare(offered, acting)
        refused += finding.worse
        known += finding.gain.known
    with capsys.disabled():
        print(f" {refused} of {tries} equally good versions refused, nominal {0.05 * tries:.0f}", end="")
    assert known > 0.95 * tries  # the others were not judged
    assert 0 < refused / tries <= 0.05 + 2 * (0.05 * 0.95 / tries) ** 0.5


@pytest.mark.slow
def test_a_decline_in_small_steps_ends_at_the_stable_version(world):
    """A trainer that is spoiled slowly: each version is a little worse than the one that acts."""
    here, biases = world(max_rollbacks=100), []
    here.play(60)
    for _ in range(100):
        here.offer(here.bias - 0.1)  # KL 0.005
        biases.append(here.bias)
        here.play(5)
    reading = here.champion.reading()
    assert min(biases) > BEST - 0.6
    assert reading["refused"] > 80
    assert reading["rolled_back"] > 0
    assert here.live.acting.version == reading["stable"] or here.bias > BEST - 0.4


def test_a_version_is_compared_with_the_stable_one_too(world):
    here = world()
    here.play(100)
    here.live.prepare(candidate(2, train=BANDIT, bias=-0.3))  # many steps, none of which the judge could find
    here.live.adopt()
    here.play(1)
    assert here.offer(-0.3) == "refused"
    assert here.champion.reading()["why"].startswith("worse than the stable version")


def test_if_a_version_earns_less_than_the_stable_one_it_is_rolled_back_and_the_trainer_too(world):
    here = world(train=TRAIN)
    here.play(ENOUGH)
    assert here.champion.reading()["stable"] == 1
    assert here.champion._live.prepare(candidate(2, train=TRAIN, bias=-1.0)) is None  # the judge did not see it
    here.play(3 * ENOUGH)
    reading = here.champion.reading()
    assert here.live.acting.version == 1
    assert (here.bias, here.live.pinned, here.live.acting.source) == (BEST, False, "stable")
    assert (reading["rolled_back"], reading["started_over"], reading["alarm"]) == (1, 1, False)
    assert [version for version, _ in here.set_back] == [1]
    rows = here.reader.fresh(0)
    assert set(rows["version"][-8:]) == {1}  # decisions after an automatic rollback are trained on
    assert here.offer(BEST) == "live"


def test_a_rollback_is_counted_once_it_is_told_which_version_it_was_and_why(world):
    """Another thread reads meanwhile: an event that saw only the count named the wrong version."""
    here, seen = world(train=TRAIN), []
    here.play(ENOUGH)
    say, prepare = here.champion.said.say, here.live.prepare
    here.champion.said.say = lambda **said: (seen.append(here.champion.reading()), say(**said))
    here.live.prepare = lambda *offered: (seen.append(here.champion.reading()), prepare(*offered))[1]
    here.live.prepare(candidate(2, train=TRAIN, bias=-2.0))
    here.play(ENOUGH)
    told = [(reading["rolled_back"], reading.get("version"), reading.get("state")) for reading in seen[1:]]
    assert told == [(0, None, None), (1, 2, "rolled back")]


def test_a_version_that_begins_to_act_after_the_outcomes_of_a_review_does_not_become_the_stable_one(world):
    """One-step episodes in four streams: a review comes after every eighth turn, with 32 outcomes."""
    here = world(bias=-2.0, train=TRAIN)
    here.play(8)
    for version, bias, turns in ((2, BEST, 7), (3, -2.0, 1)):  # 28 good outcomes, and 4 bad ones
        here.live.prepare(candidate(version, train=TRAIN, bias=bias))
        here.play(turns)
    assert here.live.acting.version == 3
    assert here.champion.reading()["stable"] == 2
    here.play(8)
    reading = here.champion.reading()
    assert (reading["rolled_back"], reading["stable"]) == (1, 2)
    here.play(1)
    assert (here.live.acting.version, here.bias) == (2, BEST)


def test_late_rewards_of_a_version_that_was_rolled_back_do_not_measure_the_stable_one(world):
    here = world(train=TRAIN)
    here.play(8)
    here.live.prepare(candidate(2, train=TRAIN, bias=-2.0))
    here.live.adopt()
    obs = np.zeros(2, np.float32)
    late = here.service.answer([Observed(stream, obs=obs) for stream in STREAMS], 0.0)
    for stream in STREAMS:
        here.service.end([stream])
    here.play(8)
    assert here.champion.reading()["rolled_back"] == 1
    for decision in late:
        here.service.answer([Rewarded(decision.stream, decision.decision, -1e6, done=True)], 0.0)
    here.play(8)  # the stable version is measured now
    here.live.prepare(candidate(3, train=TRAIN, bias=-2.0))
    here.play(17)
    assert here.champion.reading()["rolled_back"] == 2  # beside a mean of -1e5, it would have looked good


def test_if_the_environment_has_changed_there_is_one_rollback_and_not_a_series(world):
    here = world(train=TRAIN)
    here.play(ENOUGH)
    here.offer(0.45)
    here.best = 2.5
    here.play(20 * ENOUGH)
    assert here.champion.reading()["rolled_back"] <= 1
    for bias in (0.9, 1.3, 1.7):  # it follows
        here.play(200)
        assert here.offer(bias) == "live"


def test_with_discount_0_a_change_of_the_environment_is_no_reason_for_a_rollback(world):
    here = world()
    here.play(3 * BLOCK * ENOUGH // len(STREAMS))
    here.offer(0.55)
    here.best = 2.5
    here.play(5 * BLOCK * ENOUGH // len(STREAMS))
    assert here.champion.reading()["rolled_back"] == 0
    assert here.live.acting.version == 2


def spoil(world, times: int) -> None:
    """So many versions of a spoiled trainer."""
    for _ in range(times):
        world.play(1)
        world.offer(-3.0)


def test_a_spoiled_trainer_is_set_back_and_after_too_many_times_there_is_an_alarm_until_a_person_ends_it(world):
    here = world(max_rollbacks=2)
    here.play(100)
    spoil(here, 2 * STREAK)
    assert [version for version, _ in here.set_back] == [1, 1]
    assert f"{STREAK} versions in a row were refused" in here.set_back[0][1]
    assert not here.champion.reading()["alarm"]
    spoil(here, 3 * STREAK)
    reading = here.champion.reading()
    assert reading["alarm"]
    assert reading["alarm_why"].startswith("the trainer was set back 2 times within ten minutes, which is the limit. ")
    assert (len(here.set_back), here.live.acting.version) == (2, 1)
    here.play(1)
    assert here.offer(BEST) == "refused"  # as good as the champion, but nobody has looked
    here.champion.allow()
    here.champion.review()
    assert not here.champion.reading()["alarm"]
    here.play(1)
    assert here.offer(BEST) == "live"


def test_a_person_who_ends_the_alarm_need_not_wait_for_a_decision(world):
    """The streams are idle: the version that was refused during the alarm is judged again by the same decisions."""
    here = world(max_rollbacks=0)
    here.play(100)
    spoil(here, STREAK)
    made = candidate(next(here.versions), train=BANDIT, bias=BEST)
    assert not here.champion.judge(made, here.live, lambda: False)
    assert here.champion.reading()["alarm"]
    here.champion.allow()
    here.champion.review()
    assert here.champion.judge(made, here.live, lambda: False)


def test_a_newest_decision_that_nobody_judges_by_does_not_renew_the_others(world):
    """Its reward is an outlier. The first refusal seemed to be of an empty buffer, so the trainer went back."""
    here = world()
    here.play(100)
    for number in range(STREAK):
        (made,) = here.service.answer([Observed("a", obs=np.zeros(2, np.float32))], 0.0)
        reward = 2 * OUTLIER if not number else -1.0
        here.service.answer([Rewarded("a", made.decision, reward, done=True)], 0.0)
        here.offer(-0.5)  # worse, and not so far away that its KL refuses it
    assert here.champion.reading()["refused"] == STREAK
    assert here.set_back == []


def test_an_alarm_ends_if_a_version_is_better(world):
    here = world(bias=0.0, max_rollbacks=0)
    here.play(200)
    spoil(here, STREAK)
    assert here.champion.reading()["alarm"]
    here.play(1)
    assert here.offer(0.4) == "live"
    assert not here.champion.reading()["alarm"]


def test_a_challenger_acts_in_a_share_of_the_streams_and_is_then_refused_or_goes_live(world):
    here = world(share=0.5, kl=100.0)
    here.play(2)  # too few to judge by: only the challenge tells
    assert here.offer(-1.0) == "challenger"
    assert here.champion.reading()["challenger"] == 2
    here.play(2)
    assert here.offer(0.4) == "challenger"  # another one has to wait
    assert here.champion.reading()["version"] == 2
    here.play(30 * BLOCK)
    reading = here.champion.reading()
    assert (reading["state"], reading["refused"], reading["challenger"]) == ("refused", 1, None)
    assert (here.live.acting.version, here.decider.trial) == (1, None)
    rows = here.reader.fresh(0)
    share = (rows["version"] == 2).sum() / (rows["number"] < rows["number"][rows["version"] == 2].max()).sum()
    assert 0.35 < share < 0.65
    for version, bias in ((1, BEST), (2, -1.0)):  # each decision has the propensity of the version that made it
        some = rows[rows["version"] == version]
        expected = -0.5 * (some["proposed"][:, 0] - bias) ** 2 - 0.5 * np.log(2 * np.pi)
        assert some["log_prob"] == pytest.approx(expected, abs=1e-5)
    assert here.offer(BEST) == "challenger"
    here.play(30 * BLOCK)
    assert here.champion.reading()["state"] == "live"
    assert here.live.acting.version == 4


@pytest.mark.parametrize(
    ("train", "bias", "becomes"),
    [(BANDIT, -2.0, "refused"), (TRAIN, 0.45, "live")],
    ids=["discount 0", "discount 0.99"],
)
def test_late_rewards_of_an_earlier_challenger_say_nothing_about_the_present_one(
    world, train, bias, becomes, monkeypatch
):
    """With a discount they were the present challenger's, and without one the champion's: a bad one looked good."""
    for name in ("outcomes", "trial"):
        monkeypatch.setattr(f"livegym.online.{name}.BLOCK", 2)
    here = world(train=train, share=0.5, kl=100.0, rows=1)  # too few to judge by: only the challenge tells
    here.play(2)
    assert here.offer(-2.0) == "challenger"
    here.play(1)
    late = []
    for _ in range(60):
        late += here.service.answer([Observed(stream, obs=np.zeros(2, np.float32)) for stream in STREAMS], 0.0)
        here.service.end(STREAMS)
    here.play(50)
    assert (here.champion.reading()["state"], here.champion._lost) == ("refused", 2)
    assert here.offer(bias) == "challenger"
    for decision in late:
        if decision.version == 2:
            here.service.answer([Rewarded(decision.stream, decision.decision, -100.0, done=True)], 0.0)
    here.play(50)
    assert (here.champion.reading()["version"], here.champion.reading()["state"]) == (3, becomes)


def test_a_challenge_that_gets_no_outcomes_ends_at_its_limit_and_newer_versions_need_not_wait_for_ever(world):
    """A discount, and streams whose episodes never end: no outcome will ever come."""
    here = world(train=TRAIN, share=0.5, kl=100.0, challenge=3600.0)
    now = [1000.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.time, "monotonic", lambda: now[0])
        for _ in range(3):  # never the end of an episode
            here.service.answer([Observed(stream, obs=np.zeros(2, np.float32)) for stream in STREAMS], 0.0)
        here.service.answer([Rewarded("a", 2**32 + 1, 0.0)], 0.0)
        assert here.offer(0.4) == "challenger"
        now[0] += 3599.0
        here.champion.review()
        assert here.offer(0.45) == "challenger"  # a newer version waits
        assert here.champion.reading()["challenger"] == 2
        now[0] += 1.0
        here.champion.review()
        reading = here.champion.reading()
        assert (reading["challenger"], reading["state"]) == (None, "not judged")
        assert reading["why"] == "too few outcomes within online.challenge_limit_s=3600: 0 and 0 outcomes"
        here.live.adopt()
        assert here.live.acting.version == 2
        assert here.offer(0.45) == "challenger"
        assert here.champion.reading()["challenger"] == 4


def test_the_acting_version_is_compared_with_the_stable_one_during_a_challenge_too(world):
    """There is nearly always a challenge, so it was never compared."""
    here = world(train=TRAIN, share=0.5, kl=100.0)
    here.play(8)
    here.live.prepare(candidate(next(here.versions), train=TRAIN, bias=-2.0))  # a decline that the judge did not see
    here.live.adopt()
    assert here.offer(-2.0) == "challenger"
    here.play(24)
    reading = here.champion.reading()
    assert (reading["rolled_back"], reading["stable"], reading["challenger"]) == (1, 1, None)
    assert here.live.acting.version == 1
    assert here.champion.said.of(3)["why"].startswith("the champion of its trial, version 2 was rolled back to 1")
    assert here.decider.trial is None


@pytest.mark.parametrize("ended_by", ["the limit", "a person", "a pin"])
def test_after_a_rollback_versions_do_not_wait_for_ever_for_outcomes_that_do_not_come(world, ended_by):
    """The clients that have episodes leave."""
    here, now = world(train=TRAIN, challenge=3600.0), [1000.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.time, "monotonic", lambda: now[0])
        here.champion._review_due = 0.0
        here.play(8)
        here.live.prepare(candidate(next(here.versions), train=TRAIN, bias=-2.0))
        here.play(8)
        here.live.adopt()
        reading = here.champion.reading()
        assert (reading["state"], reading["measuring"], here.live.acting.version) == ("rolled back", True, 1)
        assert reading["why"].endswith(". Versions go live again after 30 new outcomes of version 1")
        assert here.offer(0.45) == "rolled back"
        now[0] += 3599.0
        here.champion.review()
        assert here.champion.reading()["measuring"]
        now[0] += ended_by == "the limit"
        if ended_by == "a person":
            here.champion.allow()
        elif ended_by == "a pin":
            here.live.pin("somebody")
            here.live.adopt()
        here.champion.review()
        assert not here.champion.reading()["measuring"]
        here.live.follow()
        here.live.adopt()
        here.offer(0.45)
        assert here.live.acting.version == 4
        here.best = 2.5  # the environment has changed, and no version earns what the stable one once did
        here.play(24)
        reading = here.champion.reading()
        assert (reading["rolled_back"], reading["stable"], here.live.acting.version) == (1, 4, 4)


def loaded(version=2, num_envs=4):
    return load(ModelSlot(policy_of(num_envs=num_envs)), candidate(version, bias=1.0))


def test_the_challenger_keeps_a_unit_and_changes_streams():
    names = [f"stream-{i}" for i in range(200)]
    trial = Trial(loaded(), 0.2, episodic=True, seed=0, streams=1000)
    assert not any(trial.acts_in(name) for name in names)  # their episodes began before the challenge
    trial.forget(names)
    first = [trial.acts_in(name) for name in names]
    assert first == [trial.acts_in(name) for name in names]
    assert 20 <= sum(first) <= 60
    trial.forget(names)
    assert [trial.acts_in(name) for name in names] != first
    blocks = Trial(loaded(), 0.5, episodic=False, seed=0, streams=1000)
    chosen = np.array([blocks.acts_in("north") for _ in range(40 * BLOCK)]).reshape(40, BLOCK)
    assert (chosen == chosen[:, :1]).all()
    assert 8 <= chosen[:, 0].sum() <= 32


@pytest.mark.parametrize("episodic", [True, False])
def test_a_challenge_keeps_the_units_of_so_many_streams_and_no_more(episodic):
    trial = Trial(loaded(), 0.5, episodic=episodic, seed=0, streams=3)
    for i in range(1000):
        trial.acts_in(f"stream-{i}")
        trial.forget([f"stream-{i}"])
    assert list(trial._units) == ["stream-997", "stream-998", "stream-999"]


@pytest.mark.parametrize("action", [Box(2), Discrete(3)])
def test_one_step_of_two_versions(action):
    spec = spec_with(action)
    torch.manual_seed(0)
    obs = torch.randn(4, 2)
    steps = []
    for seed in (1, 2):
        policy = policy_of(spec, num_envs=4)
        policy.copy({name: value + 0.3 * seed for name, value in policy.state().items()})
        out = policy(obs)
        steps.append(PolicyStep(out.mode(), out))
    champion, challenger = steps
    step = both(champion, challenger, torch.tensor([1, 3]))
    mine, theirs = (s.distribution.log_prob(s.action) for s in (champion, challenger))
    got = step.distribution.log_prob(step.action)
    assert got.tolist() == pytest.approx(torch.stack([mine[0], theirs[1], mine[2], theirs[3]]).tolist())


def test_kl_of_two_distributions():
    one, other = (policy_of(spec_with(Box(2))), policy_of(spec_with(Box(2))))
    obs = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
    other.copy({name: value + 0.1 for name, value in other.state().items()})
    p, q = one(obs), other(obs)
    assert p.kl(p).abs().max() < 1e-5
    rng = torch.Generator().manual_seed(1)
    samples = torch.stack([(lambda a: p.log_prob(a) - q.log_prob(a))(p.sample(rng)) for _ in range(400)])
    assert float(p.kl(q).mean()) == pytest.approx(float(samples.mean()), rel=0.1)
    discrete = policy_of(spec_with(Discrete(3)))(obs)
    flat = dataclasses.replace(discrete, logits=(torch.zeros(500, 3),))
    assert discrete.kl(flat) == pytest.approx(np.log(3) - discrete.entropy().numpy(), abs=1e-5)


def test_an_outcome_is_a_block_or_an_episode_without_interventions(world):
    here = world(train=TRAIN)
    here.champion.review = lambda: None
    here.play(3)
    assert len(here.outcomes.take()) == 3 * len(STREAMS)
    here.live.pin()
    here.play(2)
    assert here.outcomes.take() == []


@pytest.mark.parametrize("discount", [0.0, 0.99])
def test_an_outcome_tells_which_version_made_all_of_its_decisions(discount):
    outcomes = Outcomes(discount, streams=10, pending=100)
    for stream, versions in (("north", (1, 1)), ("south", (1, 2))):
        outcomes.end(stream)
        for i in range(BLOCK):
            made = pending(i, stream, version=versions[i >= 12])
            outcomes.decided(made)
            outcomes.earned(made.rewarded(0.5))
        outcomes.end(stream)
    value = 0.5 if discount == 0 else 10.0
    assert outcomes.take() == [Outcome(value, False, 1), Outcome(value, False, None)]

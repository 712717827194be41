"""Decisions for streams, and what becomes of their rewards: joined, kept, refused, never mixed up."""

from __future__ import annotations

import dataclasses
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from livegym.live.model_slot import ModelSlot, load
from livegym.live.swap import LivePolicy
from livegym.online.decider import Decider, StreamObservation, StreamSlots
from livegym.online.experience import Decision, Layout, Verdict
from livegym.online.gate import Judgement
from livegym.online.gates import GateAdapter, GateInput, layout_of, make_gate, raw_rows
from livegym.online.pending import SESSION
from livegym.online.replay import ReplayReader
from livegym.online.service import Service
from livegym.online.service_counters import VERSIONS
from livegym.online.service_state import ServiceState
from livegym.online.stream_requests import Accepted, Observed, Refusal, Rewarded
from livegym.online.trial import Trial
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.rundir.run import create_run
from livegym.schema import OnlineConfig
from livegym.serve.running import first_state
from livegym.serve.simulator import BuiltIn, streams_of
from livegym.serve.status import Status
from livegym.serve.streams import features_of, reward_of
from livegym.serve.watchdog import Watchdog
from livegym.tasks.base import Box
from livegym.tasks.build import make_env
from livegym.weights.candidate import Candidate
from tests.dummy import counting_env
from tests.experiences import complete
from tests.online_status import full_status
from tests.test_live import candidate, live_of, policy_of, spec_with

LAYOUT = Layout.of(2, Box(1))
GATED = Layout.of(2, Box(1), seen=2)


class Sign:
    """A gate that sends what is positive, expects the action's own value, and does 0.25 instead."""

    name = "sign"

    def __init__(self, fallback: bool = True, fails: bool = False) -> None:
        self.fallback, self.fails = fallback, fails

    def evaluate(self, seen, action, confidence):
        if self.fails:
            raise RuntimeError("a bug in somebody's gate")
        verdict = np.where(action[:, 0] > 0, Verdict.SEND, Verdict.WAIT).astype(np.int8)
        instead = np.full_like(action, 0.25) if self.fallback else None
        return Judgement(verdict, action[:, 0], {"value": action[:, 0], "seen": seen[:, 0]}, instead)


class Setting:
    """One service on a run of its own."""

    def __init__(self, path, live, gate=None, what=GateInput.OBS, **online) -> None:
        self.run, self.online = create_run(path, "Counting", "continuous"), OnlineConfig(**online)
        self.layout = GATED if gate else LAYOUT
        self.adapter = gate and GateAdapter(gate, 2, "float32", lambda env: env.sim.qpos.numpy(), what)
        self.live = live
        self.begin()

    def begin(self, own=()) -> None:
        self.memory = ServiceState(self.run, self.layout, self.online)
        decider = Decider(self.live, self.adapter, StreamSlots(self.live.num_envs, 60.0), spec_with())
        self.service = Service(decider, self.memory, own=own)

    def ask(self, *requests, clock=0.0):
        return [reported(answer) for answer in self.service.answer(list(requests), clock)]

    def rows(self):
        return ReplayReader(self.run.replay_file, self.layout, self.online.buffer_capacity).fresh(0)


def reported(answer):
    """What a client is told: of a decision its plain values."""
    return SimpleNamespace(**answer.to_plain()) if isinstance(answer, Decision) else answer


@pytest.fixture
def setting(tmp_path):
    made = []

    def make(gate=None, bias=0.5, stochastic=False, num_envs=4, **online):
        live = live_of(candidate(1, bias=bias), stochastic=stochastic, num_envs=num_envs, history=3)
        made.append(Setting(tmp_path, live, gate, **online))
        return made[-1]

    return make


def seen(stream, number, second=0.0, **more):
    return Observed(stream, obs=np.array([number, second], np.float32), **more)


def test_a_decision_says_what_was_chosen_by_whom_and_what_the_gate_said(setting):
    (answer,) = setting(Sign()).ask(seen("a", 3))
    assert answer.proposed == answer.executed == pytest.approx([0.5])
    assert (answer.verdict, answer.version, answer.decision, answer.previous) == ("SEND", 1, SESSION + 1, None)
    assert (answer.expected, answer.components) == (0.5, {"value": 0.5, "seen": 3.0})
    assert answer.confidence == 1.0  # the likeliest action


def test_after_a_wait_the_fallback_is_executed(setting):
    here = setting(Sign(), bias=-0.5)
    (answer,) = here.ask(seen("a", 3))
    assert (answer.verdict, answer.proposed, answer.executed) == ("WAIT", [-0.5], [0.25])
    here.ask(Rewarded("a", answer.decision, 1.0, done=True))
    (row,) = here.rows()
    assert row["log_prob"] == pytest.approx(-0.5 * math.log(2 * math.pi))
    assert row["executed_log_prob"] == pytest.approx(-0.5 * (0.75**2 + math.log(2 * math.pi)))  # as if it were drawn
    assert (row["proposed"], row["executed"], row["held"], row["verdict"]) == (-0.5, 0.25, False, Verdict.WAIT)


def test_a_choice_that_the_gate_has_done_is_certain_whatever_the_policy_says(config, tmp_path):
    """An action out of 400 x 2 that is blocked: the queen rests."""
    c = config("config=continuous", "task=Territory", "seed=0")
    env = make_env(c.task, c.sim, c.physics, 2, 0)
    spec, adapter = spec_of(env), make_gate(c, 2)
    first = Candidate(first_state(c, spec, None)["model"], spec, "run", 1, 0, None, None)
    live = LivePolicy(lambda: Policy(spec, c.train, 2, "cpu"), first, True, 0)
    decider = Decider(live, adapter, StreamSlots(2, 60.0), spec)
    found = set()
    obs = env.reset()["policy"].numpy()
    raw = raw_rows(env)
    for k in range(50):
        observations = [StreamObservation(name, obs[i], raw[i], raw[i]) for i, name in enumerate("ab")]
        for e in decider.decide(observations, 0.0, [2 * k, 2 * k + 1]):
            found.add(e.verdict)
            forced = not np.array_equal(e.executed, e.proposed)
            assert e.executed_log_prob == (0.0 if forced else e.log_prob)
            assert e.verdict is Verdict.WAIT or not forced
            assert e.log_prob < -3.0
    assert found == {Verdict.SEND, Verdict.WAIT}


def test_a_policy_that_proposes_no_number_does_nothing_and_is_reported_once(setting, caplog):
    here = setting(Sign(), bias=math.nan)
    answers = here.ask(seen("a", 1), seen("b", 1)) + here.ask(seen("a", 2))
    for answer in answers:
        assert (answer.proposed, answer.executed, answer.confidence) == ([0.0], None, 0.0)
    assert [r.message for r in caplog.records if r.levelname == "ERROR"] == [
        "version 1 proposes non-finite actions or log-probabilities; they are not executed."
    ]
    here.ask(Rewarded("b", answers[1].decision, 1.0, done=True))
    assert (len(here.rows()), here.service.tally.excluded) == (0, 1)


def test_a_gate_without_a_fallback_holds(setting):
    here = setting(Sign(fallback=False), bias=-0.5)
    (answer,) = here.ask(seen("a", 3))
    assert (answer.verdict, answer.executed) == ("WAIT", None)
    here.ask(Rewarded("a", answer.decision, 1.0, done=True))
    assert here.rows()["held"].tolist() == [True]


def test_a_gate_that_fails_lets_nothing_through_and_nothing_is_learned_from_it(setting, caplog):
    here = setting(Sign(fails=True))
    (answer,) = here.ask(seen("a", 3))
    assert (answer.verdict, answer.executed, answer.expected) == ("WAIT", None, None)
    assert "the gate failed" in caplog.text
    assert here.ask(Rewarded("a", answer.decision, 1.0, done=True)) == [Accepted("a", answer.decision)]
    assert (len(here.rows()), here.service.decider.failures) == (0, 1)


def test_without_a_gate_nothing_is_stored_as_if_it_had_been_gated(setting):
    here = setting()
    (answer,) = here.ask(seen("a", 3))
    assert (answer.verdict, answer.expected, answer.components) == ("OFF", None, {})
    here.ask(Rewarded("a", answer.decision, 1.0, done=True))
    (row,) = here.rows()
    assert (row["verdict"], math.isnan(row["expected"])) == (Verdict.OFF, True)


def test_every_reward_joins_the_action_that_earned_it(setting):
    """The reward is the action's own value: 500 steps of three streams, over ends of episodes and a restart."""
    here, waiting = setting(stochastic=True), {}
    rng = np.random.default_rng(0)
    for step in range(500):
        if step == 250:
            here.memory.save()
            here.begin()
        for stream in "abc":
            done = bool(rng.random() < 0.1)
            (answer,) = here.ask(seen(stream, step, reward=waiting.pop(stream, None), done=done, sequence=step))
            assert answer is None or answer.previous is None
            if answer is not None:
                waiting[stream] = answer.executed[0]
    rows = here.rows()
    assert len(rows) > 1200
    assert (rows["reward"] == rows["executed"][:, 0].clip(-1, 1)).all()  # clients do what is within the bounds
    assert (rows["next_obs"][:, 0] == rows["obs"][:, 0] + 1).all()
    assert 0.05 < rows["done"].mean() < 0.15


def test_the_same_question_gets_the_same_answer_and_a_late_one_is_refused(setting):
    here = setting(stochastic=True)
    (first,) = here.ask(seen("a", 3, sequence=5))
    assert here.ask(seen("a", 3, sequence=5)) == [first]
    (late,) = here.ask(seen("a", 3, sequence=4))
    assert (late.kind, str(late)) == (
        "out_of_order",
        "sequence 4 of stream 'a' came after 5. Allowed: 5 again, or greater",
    )
    assert (len(here.memory.pending), here.service.tally.decisions) == (1, 1)


@pytest.mark.parametrize(
    ("reward", "kind"),
    [(Rewarded("a", SESSION + 9, 1.0), "unknown"), (Rewarded("b", SESSION + 1, 1.0), "unknown"),
     (Rewarded("a", SESSION + 1, math.nan), "invalid"), (Rewarded("a", 5, 1.0), "late")],
)  # fmt: skip
def test_a_reward_that_makes_no_sense_is_refused(setting, reward, kind):
    here = setting()
    here.ask(seen("a", 3))
    (answer,) = here.ask(reward)
    assert isinstance(answer, Refusal)
    assert (answer.kind, len(here.memory.pending)) == (kind, 1)


def test_a_reward_for_nothing_is_reported(setting):
    (answer,) = setting().ask(seen("a", 1, reward=1.0))
    assert answer.previous == "the stream has no pending decision to which this reward belongs"


def test_the_version_is_that_of_the_forward_pass(setting):
    here = setting()
    (first,) = here.ask(seen("a", 1))
    here.live.prepare(candidate(2, bias=0.75))
    (second,) = here.ask(seen("a", 2, reward=0.0))
    here.live.adopt()
    (third,) = here.ask(seen("a", 3, reward=0.0))
    assert [answer.version for answer in (first, second, third)] == [1, 1, 2]
    assert [answer.proposed[0] for answer in (first, second, third)] == pytest.approx([0.5, 0.5, 0.75])
    assert here.rows()["version"].tolist() == [1, 1]


def test_what_people_pinned_or_rolled_back_is_served_and_never_learned_from(setting):
    here = setting()
    here.live.prepare(candidate(2, bias=0.75))
    here.live.adopt()
    for act in (here.live.pin, lambda: here.live.rollback(None)):
        act()
        here.live.adopt()
        here.ask(seen("a", 1, reward=None))
        here.ask(seen("a", 2, reward=1.0, done=True))
    assert (len(here.rows()), here.service.tally.intervened) == (0, 2)
    here.live.follow()
    here.live.adopt()
    here.ask(seen("a", 3))
    here.ask(seen("a", 4, reward=1.0, done=True))
    assert here.rows()["obs"][:, 0].tolist() == [3.0]


def test_a_time_limit_ends_an_episode_and_is_no_end_for_what_is_learned(setting):
    here = setting()
    here.ask(seen("a", 1))
    assert here.ask(seen("a", 2, reward=1.0, truncated=True)) == [None]
    here.ask(seen("a", 3))
    assert here.ask(seen("a", 4, reward=1.0, done=True, truncated=True)) == [None]
    here.ask(seen("a", 5))
    rows = here.rows()
    assert [(*row["obs"][:1], *row["next_obs"][:1], row["done"]) for row in rows] == [(1, 2, False), (3, 4, True)]


def test_returns_and_lengths_of_each_streams_episodes_are_reported(setting):
    """a earns 1 + 2 and 4; an end that follows nothing is none; a late reward counts in its own one."""
    here = setting()
    episodes = here.service.tally.episodes
    here.ask(seen("a", 1), seen("b", 1))
    here.ask(seen("a", 2, reward=1.0), seen("b", 2, reward=8.0))
    here.ask(seen("a", 3, reward=2.0, truncated=True))
    here.ask(seen("a", 4, done=True))
    (answer,) = here.ask(seen("a", 5))
    here.ask(Rewarded("a", answer.decision, 4.0, done=True))
    assert (episodes.ended, list(episodes.returns), list(episodes.lengths)) == (2, [3.0, 4.0], [2, 1])
    (late,) = here.ask(seen("a", 6))
    here.ask(seen("a", 7, done=True))
    assert episodes.ended == 2
    here.ask(Rewarded("a", late.decision, 16.0))
    here.ask(seen("a", 8))
    here.ask(seen("a", 9, reward=32.0, done=True))
    assert (episodes.returns[2:], episodes.lengths[2:], episodes.ended) == ([16.0, 32.0], [1, 1], 4)


def test_what_is_blended_is_never_learned_from(tmp_path):
    live = live_of(candidate(1), num_envs=2, how="blend", blend_steps=3)
    here = Setting(tmp_path, live)
    live.prepare(candidate(2, bias=1.0))
    live.adopt()
    for step in range(6):
        here.ask(seen("a", step, reward=0.0 if step else None))
    assert here.rows()["obs"][:, 0].tolist() == [3.0, 4.0]  # the last one waits


def test_more_streams_than_there_is_room_for_are_refused_until_one_has_left(setting):
    here = setting(num_envs=2)
    answers = here.ask(seen("a", 1), seen("b", 1))
    assert {answer.verdict for answer in answers} == {"OFF"}
    (refused,) = here.ask(seen("c", 1), clock=1.0)
    assert refused.kind == "too_many_streams"
    assert "online.max_streams" in str(refused)
    here.ask(seen("b", 2), clock=50.0)
    (answer,) = here.ask(seen("c", 1), clock=61.0)  # `a` was not seen for a minute
    assert answer.stream == "c"
    assert here.service.decider.slots.streams == ["b", "c"]


def test_the_simulators_streams_are_not_for_clients(setting):
    here = setting()
    env = counting_env(2)
    here.begin(own=streams_of(env))
    simulator = BuiltIn(env, here.service, 0.0)
    simulator.step(0.0)
    (refused,) = here.ask(seen("counting-0", 1))
    assert "belongs to the built-in simulator" in str(refused)
    assert here.ask(seen("mine", 1))[0].verdict == "OFF"


@pytest.mark.parametrize("what", [GateInput.RAW, GateInput.STATE])
def test_a_gate_that_judges_by_what_clients_do_not_send_serves_none(setting, what):
    here = setting(gate=Sign(), what=what)
    (refused,) = here.ask(seen("mine", 1))
    assert refused.kind == "invalid"
    assert f"the gate sign needs {what.value}, which clients do not send. Allowed: gate=off" in str(refused)
    assert here.service.tally.decisions == 0


def test_the_built_in_simulators_rewards_are_those_of_its_own_steps(setting):
    """`step_number` of the counting world is the reward: it is the number of the next observation."""
    here = setting(num_envs=2)
    env = counting_env(2, length=5, rewards={"alive": 0.0, "step_number": 1.0})
    simulator = BuiltIn(env, here.service, 0.0)
    for _ in range(23):
        simulator.step(0.0)
    rows = here.rows()
    assert len(rows) == 46
    assert (rows["reward"] == rows["next_obs"][:, 1]).all()
    assert (rows["next_obs"][:, 1] == rows["obs"][:, 1] + 1).all()  # also over the ends of episodes
    assert not rows["done"].any()  # a time limit is no end
    assert set(rows["stream"].tolist()) == {b"counting-0", b"counting-1"}
    terms, rewards = here.service.tally.terms, here.service.tally.rewards  # one for each decision, of the same ones
    assert [sum(each.values()) for each in terms] == list(rewards)


@pytest.mark.parametrize("broken", [lambda env: 1 / 0, lambda env: np.zeros((1, 7))], ids=["raises", "shape"])
def test_a_gate_that_cannot_observe_the_simulator_fails_as_one_that_cannot_judge(setting, broken):
    here = setting(gate=Sign(), num_envs=2)
    whole = here.adapter
    simulator = BuiltIn(counting_env(2), here.service, 0.0)
    here.service.decider.adapter = dataclasses.replace(whole, observe=broken)
    simulator.step(0.0)
    assert here.service.decider.failures == 1
    assert here.service.tally.verdicts == {"OFF": 0, "SEND": 0, "WAIT": 2}
    assert [made.decision.action for made in here.service.tally.last.values()] == [None, None]
    assert not len(here.rows())
    here.service.decider.adapter = whole
    simulator.step(0.0)
    assert here.service.tally.verdicts["SEND"] == 2
    assert len(here.rows()) == 2


def test_the_rewards_of_an_old_version_that_acts_again_are_kept(setting):
    """After a rollback it is older than all others."""
    here = setting()
    for version in (*range(2, VERSIONS + 100), 1, 1):
        here.service.tally.earned(complete(version=version), 1.0)
    kept = here.service.tally.by_version
    assert (len(kept), kept[1].count, min(set(kept) - {1})) == (VERSIONS, 2, 101)


def test_a_trial_may_end_at_any_moment(setting):
    """The watching thread ends it while the serving thread forgets an episode."""

    class Ending(Decider):
        @property
        def trial(self):
            left, self._left = self._left, None
            return left

        @trial.setter
        def trial(self, trial):
            self._left = trial

    here = setting()
    decider = Ending(here.live, None, StreamSlots(4, 60.0), spec_with())
    decider.trial = Trial(load(ModelSlot(policy_of(num_envs=4)), candidate(2)), 0.5, True, seed=0, streams=10)
    decider.forget(["a"])
    assert decider.trial is None


def test_a_stop_keeps_what_is_complete_and_what_waits(setting):
    """100 experiences, 20 decisions without a reward; after a restart those rewards still join."""
    here = setting(num_envs=30)
    open_ones = {}
    for k in range(120):
        (answer,) = here.ask(seen("ab"[k % 2], k))
        here.memory.pending.followed(answer.stream, np.full(2, k, np.float32))
        if k < 100:
            here.ask(Rewarded(answer.stream, answer.decision, float(k)))
        else:
            open_ones[answer.decision] = (answer.stream, float(k))
    assert (here.memory.writer.added, len(here.memory.pending)) == (100, 20)
    here.memory.save()
    here.begin()
    assert (len(here.memory.writer), len(here.memory.pending)) == (100, 20)
    for decision, (stream, reward) in open_ones.items():
        assert here.ask(Rewarded(stream, decision, reward)) == [Accepted(stream, decision)]
    rows = here.rows()
    assert len(rows) == 120
    assert rows["reward"].tolist() == [float(k) for k in range(120)]


def test_a_question_whose_answer_was_lost_in_a_stop_finds_the_decision_that_was_made(setting):
    """And its reward, which had come with it, is not counted again: rows stay those of what happened."""
    here = setting(stochastic=True)
    here.ask(seen("a", 1, sequence=1))
    (lost,) = here.ask(seen("a", 2, sequence=2, reward=7.0))
    here.memory.save()
    here.begin()
    assert here.ask(seen("a", 2, sequence=2, reward=7.0)) == [lost]
    (refused,) = here.ask(seen("a", 1, sequence=1))
    assert refused.kind == "out_of_order"
    here.ask(seen("a", 3, sequence=3, reward=8.0))
    assert [(*row["obs"][:1], *row["next_obs"][:1], row["reward"]) for row in here.rows()] == [(1, 2, 7), (2, 3, 8)]
    assert here.service.tally.decisions == 1


def test_an_end_that_was_noted_before_a_stop_is_not_noted_twice(setting):
    here = setting()
    here.ask(seen("a", 1, sequence=1))
    assert here.ask(seen("a", 2, sequence=2, reward=1.0, done=True)) == [None]
    here.memory.save()
    here.begin()
    assert here.ask(seen("a", 2, sequence=2, reward=1.0, done=True)) == [None]
    assert len(here.rows()) == 1


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[",
        "[{}]",
        "7",
        '[{"stream": "a", "sequence": 1, "answer": {}, "raw": null}]',
        "[" * 100_000,
        '[{"stream": "a", "sequence": Infinity, "answer": null, "raw": null}]',
    ],
)
def test_answers_that_cannot_be_read_are_left_with_a_report(setting, caplog, content):
    here = setting()
    here.run.answers_file.write_text(content)
    here.begin()
    assert "a resent request gets a new decision" in caplog.text
    assert not here.run.answers_file.exists()
    assert here.ask(seen("a", 1, sequence=1))[0].verdict == "OFF"


def test_rewards_that_the_task_computes_join_also_over_a_stop(config, tmp_path):
    """Territory, whose reward needs the raw observation before and after."""
    c = config("config=continuous", "task=Territory", "simulator=external", "gate=off", "seed=0")
    env = make_env(c.task, c.sim, c.physics, 1, 0)
    env.reset()
    spec, run = spec_of(env), create_run(tmp_path, "Territory", "continuous")
    first = Candidate(first_state(c, spec, None)["model"], spec, "run", 1, 0, None, None)
    live = LivePolicy(lambda: Policy(spec, c.train, 4, "cpu"), first, True, 0)

    def begin():
        memory = ServiceState(run, layout_of(spec, None), c.online)
        decider = Decider(live, None, StreamSlots(4, 60.0), spec)
        return Service(decider, memory, features_of(env), reward_of(env)), memory

    service, memory = begin()
    (answer,) = service.answer([Observed("north", raw=raw_rows(env)[0], sequence=1)], 0.0)
    step = env.step(torch.tensor([answer.action.tolist()]))
    memory.save()
    service, memory = begin()
    service.answer([Observed("north", raw=raw_rows(env)[0], sequence=2)], 0.0)
    (row,) = ReplayReader(run.replay_file, layout_of(spec, None), c.online.buffer_capacity).fresh(0)
    assert (row["decision"], row["reward"]) == (answer.decision, pytest.approx(float(step.reward[0]), abs=1e-6))


def test_a_question_without_a_number_does_not_make_older_numbers_new(setting):
    here = setting()
    (first,) = here.ask(seen("a", 1, sequence=5))
    here.ask(seen("a", 2))
    assert here.ask(seen("a", 1, sequence=3))[0].kind == "out_of_order"
    assert here.ask(seen("a", 1, sequence=5)) == [first]


def test_damaged_decisions_are_given_up_one_by_one_and_the_buffer_stays(setting, caplog):
    """One flipped bit in the clock of the first of three: the run's own clock must not follow it."""
    here = setting()
    answers = here.ask(seen("a", 1), seen("b", 1), seen("c", 1))
    here.memory.save()
    rows = np.load(here.run.pending_file)
    rows["clock"][0] = 1e156
    np.save(here.run.pending_file, rows)
    here.begin()
    assert "1 decision damaged" in caplog.text
    assert [e.decision for e in here.memory.pending.all()] == [a.decision for a in answers[1:]]
    here.memory.tick()
    here.begin()  # the buffer can still be read
    assert here.memory.clock < 60


def test_what_a_smaller_capacity_gives_up_at_the_start_is_not_called_lost(setting):
    here = setting(num_envs=8)
    here.ask(*(seen(name, 1) for name in "abcdef"))
    here.memory.save()
    here.online = dataclasses.replace(here.online, pending_capacity=2)
    here.begin()
    status = Status({"capacity": 10}, here.service, None)
    status.refresh()
    buffer = status._made["buffer"]
    assert (buffer["pending"], buffer["expired_pending"], buffer["lost"]) == (2, 4, 0)


def test_how_long_a_silence_is_unusual_depends_on_the_streams(setting, monkeypatch):
    here, now = setting(), [1000.0]
    monkeypatch.setattr("livegym.online.service_counters.time.monotonic", lambda: now[0])
    status = Status({"capacity": 10}, here.service, None)

    def limit() -> float:
        status.refresh()
        return status._made["decisions"]["idle_limit_s"]

    assert limit() == 20.0
    for wait, expected in ((0.0, 20.0), (1.0, 20.0), (30.0, 46.5), (30.0, 90.0), (3600.0, 90.0), (30.0, 90.0)):
        now[0] += wait
        here.ask(*(seen(name, 1) for name in "abc"))
        assert limit() == expected


def test_the_first_observation_of_an_episode_completes_no_decision(setting):
    """A client that was killed and started again: its robot stands somewhere else."""
    here = setting()
    here.ask(seen("a", 1), seen("b", 1))
    here.ask(seen("a", 2, reward=1.0))
    (killed,) = here.ask(seen("a", 9, first=True, reward=5.0))
    assert killed.previous == "an episode begins here, so no decision of it has this reward"
    assert (here.service.tally.episodes.broken_off, here.service.tally.episodes.ended) == (1, 0)
    here.ask(seen("a", 10, reward=3.0), seen("b", 2, reward=4.0))
    rows = here.rows()
    assert rows["reward"].tolist() == [1.0, 3.0, 4.0]
    assert rows["next_obs"][:, 0].tolist() == [2.0, 10.0, 2.0]
    here.ask(seen("a", 11, reward=1.0, done=True))
    (answer,) = here.ask(seen("a", 0, first=True))  # an episode that had an end did not break off
    assert (answer.previous, here.service.tally.episodes.broken_off, here.service.tally.episodes.ended) == (None, 1, 1)


def test_no_reward_is_computed_over_a_break(config, tmp_path):
    """Territory computes the reward from two observations."""
    c = config("config=continuous", "task=Territory", "gate=off", "seed=0", "numEnvs=1")
    env = make_env(c.task, c.sim, c.physics, 1, 0)
    spec = spec_of(env)
    first = Candidate(first_state(c, spec, None)["model"], spec, "run", 1, 0, None, None)
    live = LivePolicy(lambda: Policy(spec, c.train, 2, "cpu"), first, True, 0)
    memory = ServiceState(create_run(tmp_path, "Territory", "continuous"), layout_of(spec, None), c.online)
    service = Service(Decider(live, None, StreamSlots(2, 60.0), spec), memory, features_of(env), reward_of(env))
    env.reset()
    raw = raw_rows(env)[0]
    service.answer([Observed("north", raw=raw)], 0.0)
    service.answer([Observed("north", raw=raw, first=True)], 0.0)
    assert (memory.writer.added, len(memory.pending)) == (0, 2)
    service.answer([Observed("north", raw=raw)], 0.0)
    assert (memory.writer.added, len(memory.pending)) == (1, 2)


def test_a_count_of_sessions_that_cannot_be_is_not_believed(setting):
    here = setting()
    here.run.sessions_file.write_text("9999999\n")
    here.begin()
    assert here.ask(seen("a", 1))[0].decision < 2**53


def test_a_computed_reward_is_that_of_the_action_that_was_done_and_of_its_own_step(setting):
    """2.5 was drawn, 1 is done. What was followed already, by an end, is not judged by the next episode."""
    here = setting(bias=2.5)
    here.service = Service(
        here.service.decider, here.memory, lambda rows: rows, lambda before, action, after: (float(action[0]), {})
    )

    def shown(first, **more):
        return Observed("a", raw=np.array([first, 0.0], np.float32), **more)

    (answer,) = here.ask(shown(1))
    assert (answer.proposed, answer.executed) == ([2.5], [1.0])
    here.ask(shown(2))
    assert here.rows()["reward"].tolist() == [1.0]
    here.service.answer_cache.restore([])
    here.ask(shown(3, done=True))  # nobody knows what came before it any more
    here.ask(shown(4))
    assert len(here.rows()) == 1


def test_a_status_tells_when_what_decides_renewed_it(setting, monkeypatch):
    """Read while a gate hangs, it stands still; while a run ends, it does not."""
    here = setting()
    fixed = {**dict.fromkeys(("task", "title", "run", "simulator", "gate"), ""), "playSpeed": 1.0, "capacity": 10}
    status = Status(fixed, here.service, Watchdog(here.run, None))
    status.refresh()
    made = status.reading()["refreshed"]
    real = time.time
    monkeypatch.setattr("livegym.serve.status.time.time", lambda: real() + 30)
    reading = status.reading()
    assert reading["refreshed"] == made
    assert reading["now"] > made + 29
    status.end_serving()
    assert status.reading()["refreshed"] > made + 29


def test_as_many_streams_as_are_served_are_remembered(setting):
    here = setting(max_streams=1300)
    for k in range(1200):
        here.service.answer_cache.note(seen(f"s{k}", 1, sequence=k), None)
    assert len(here.service.answer_cache) == 1200


def test_after_a_kill_the_rewards_of_open_decisions_are_late_and_counted(setting):
    here = setting()
    (answer,) = here.ask(seen("a", 1))
    here.begin()  # nothing was saved
    (refused,) = here.ask(Rewarded("a", answer.decision, 1.0))
    assert (refused.kind, here.memory.pending.refused) == ("late", {"late": 1})
    assert "before a restart" in str(refused)
    (again,) = here.ask(seen("a", 2))
    assert again.decision == 2 * SESSION + 1


def test_decisions_that_wait_too_long_are_given_up_by_time_served(setting, monkeypatch):
    here = setting(pending_ttl_s=10.0)
    (answer,) = here.ask(seen("a", 1), clock=5.0)
    monkeypatch.setattr("time.time", lambda: 1e12)  # the clock on the wall jumps
    assert here.memory.pending.expire(14.0) == 0
    assert here.memory.pending.expire(15.1) == 1
    (refused,) = here.ask(Rewarded("a", answer.decision, 1.0))
    assert refused.kind == "late"


def test_whoever_finds_no_room_changes_nothing_and_takes_nothing_from_those_beside_it(setting):
    here = setting(num_envs=2)
    here.ask(seen("a", 1), seen("b", 1))
    known, crowded = here.ask(seen("a", 2, reward=1.0), seen("c", 2, reward=1.0), clock=1.0)
    assert (known.stream, known.previous, crowded.kind) == ("a", None, "too_many_streams")
    assert (len(here.rows()), here.service.decider.slots.streams) == (1, ["b", "a"])
    later = here.ask(seen("a", 3), seen("c", 3), clock=61.0)  # b has been idle for long enough
    assert [answer.stream for answer in later] == ["a", "c"]


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00{'descr': [(", b"\x93NUMPY", b"something else"])
def test_open_decisions_that_cannot_be_read_are_given_up_with_a_report(setting, caplog, content):
    here = setting()
    here.ask(seen("a", 1))
    here.memory.save()
    here.run.pending_file.write_bytes(content)
    here.begin()
    assert "cannot be used" in caplog.text
    assert (len(here.memory.pending), here.run.pending_file.exists()) == (0, False)


def test_without_its_buffer_a_run_gives_no_id_twice_and_its_clock_continues(setting):
    here = setting()
    here.memory.writer.tell(500.0)
    here.begin()
    (old,) = here.ask(seen("a", 1), clock=here.memory.clock)
    here.memory.save()
    here.run.replay_file.unlink()  # as rsync --exclude leaves it
    here.begin()
    (new,) = here.ask(seen("b", 1), clock=here.memory.clock)
    assert new.decision // SESSION == old.decision // SESSION + 1
    assert here.memory.clock >= 500.0
    assert here.ask(Rewarded("a", old.decision, 1.0)) == [Accepted("a", old.decision)]
    (late,) = here.ask(Rewarded("b", old.decision, 1.0))
    assert late.kind == "late"


class Deaf:
    """A watchdog whose trainer has told nothing."""

    def reading(self):
        return {"state": "starting"}


def test_the_status_has_just_the_fields_that_pages_and_metrics_are_tested_with(setting):
    here = setting()
    fixed = {
        "task": "Counting",
        "run": "a",
        "simulator": "external",
        "gate": "off",
        "playSpeed": 1.0,
        "capacity": 10,
        "title": "Counting",
    }
    status = Status(fixed, here.service, Deaf())
    status.refresh()
    found, known = status.reading(), full_status()
    assert set(found) == set(known)
    for part in ("serving", "decisions", "buffer", "rewards"):
        assert set(found[part]) == set(known[part])


def test_one_stream_too_many_takes_nothing_from_the_others_of_its_message(setting):
    here = setting(num_envs=2)
    here.ask(seen("a", 1), seen("b", 1))
    refused, answer = here.ask(seen("c", 1), seen("a", 2, reward=0.5), clock=1.0)
    assert (refused.kind, answer.stream) == ("too_many_streams", "a")
    assert here.rows()["reward"].tolist() == [0.5]


def test_the_status_tells_what_happened(setting):
    state = {"state": "training", "restarts": 0}
    fixed = {**dict.fromkeys(("task", "title", "run", "simulator", "gate", "playSpeed"), "x"), "capacity": 10}
    status = Status(fixed, setting().service, SimpleNamespace(reading=lambda: state.copy()))
    for restarts in (0, 1, 1):
        state["restarts"] = restarts
        status.refresh()
        status.notice(status.reading())
    assert [event["text"] for event in status.reading()["events"]] == ["another trainer took over"]


def test_episodes_that_ended_and_returns_that_are_known_are_counted_apart(setting):
    """The first episode after a restart has no return; the page showed a dash and an empty plot."""
    here = setting()
    fixed = {**dict.fromkeys(("task", "title", "run", "simulator", "gate", "playSpeed"), "x"), "capacity": 10}
    status = Status(fixed, here.service, SimpleNamespace(reading=dict))
    episodes, shown = here.service.tally.episodes, []
    for decision in (7, 8):
        episodes.decided("a", decision)
        episodes.earned("a", decision, 3.0)
        episodes.end("a")
        status.refresh()
        shown.append([status.reading()["episodes"][name] for name in ("ended", "returns", "return_mean")])
    assert shown == [[1, 0, None], [2, 1, 3.0]]


def test_the_status_tells_each_streams_share_and_reward(setting):
    here = setting()
    status = Status(
        dict.fromkeys(("task", "title", "run", "simulator", "gate", "playSpeed"), "x") | {"capacity": 10},
        here.service,
        SimpleNamespace(reading=dict),
        not_learned=lambda: {"b"},
    )
    here.ask(seen("a", 1), seen("b", 1))
    here.ask(seen("a", 2, reward=1.0))
    here.ask(seen("a", 3, reward=2.0), seen("b", 3, reward=-1.0))
    status.refresh()
    made = status.reading()
    told = {"experiences", "share", "reward_mean", "rewards", "per_second", "seen", "learned"}
    assert set(made["by_stream"]["a"]) == told
    shown = {name: list(numbers.values())[:4] for name, numbers in made["by_stream"].items()}
    assert shown == {"a": [2, 0.6667, 1.5, 2], "b": [1, 0.3333, -1.0, 1]}
    assert [numbers["learned"] for numbers in made["by_stream"].values()] == [True, False]
    assert made["by_stream"]["a"]["per_second"] > 0
    last = here.service.tally.last
    fast, slow = [0.1] * 16, [60.0] * 16
    for stream, intervals, rate in (("a", [*fast, 3600.0, *fast], 10.0), ("b", [*fast, *slow], 32 / (1.6 + 960.0))):
        last[stream] = last[stream]._replace(intervals=tuple(intervals))
        status.refresh()  # a pause is left out; of a stream that has become slower, nothing is
        assert status.reading()["by_stream"][stream]["per_second"] == pytest.approx(rate, rel=1e-5)
    assert status.stream_rewards("a")["reward"] == [1.0, 2.0]
    assert status.stream_rewards("c") is None
    (version,) = made["versions"].values()
    assert (version["rewards"], version["reward_mean"], version["state"]) == (3, 0.666667, None)
    assert made["buffer"]["largest_share"] == pytest.approx(2 / 3)
    assert (made["decisions"]["logged"], made["decisions"]["not_logged"]) == (3, 0)


def test_a_stalled_loop_and_a_trainer_that_is_gone_are_trouble(setting, monkeypatch):
    reading = {"state": "training"}
    status = Status({"capacity": 10}, setting().service, SimpleNamespace(reading=lambda: reading))
    status.refresh()
    assert status.trouble() is None
    for state, why in (("dead", "killed by signal 9"), ("given up", ""), ("hung", "")):
        reading = {"state": state, "why": why}
        assert status.trouble() == f"the trainer is {state}" + (f": {why}" if why else "")
    reading = {"state": "waiting"}
    assert status.trouble() is None  # an idle stream is no trouble
    now = time.monotonic()
    monkeypatch.setattr("livegym.serve.status.time.monotonic", lambda: now + 7)
    assert status.trouble() == "the decision loop has not responded for 7 s"
    status.end_serving()
    assert status.trouble() is None

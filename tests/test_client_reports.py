"""What clients may say of a decision beside its reward: what they did instead, parts, episodes, what not to learn."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from livegym.online.experience import UNKNOWN, Layout, Verdict, chosen_actions, to_row
from livegym.online.judge import Judge
from livegym.online.not_learned import NotLearned
from livegym.online.outcomes import Outcomes
from livegym.online.rewards import combine, later_rewards
from livegym.online.ring import checks_of_rows
from livegym.online.run_log import decisions_of
from livegym.online.stream_requests import Accepted, Instead, Observed, Rewarded
from livegym.online.trial import Trial
from livegym.rl.algorithm import algorithm_of
from livegym.schema import OnlineConfig
from livegym.serve.messages import Description
from livegym.serve.protocol import MessageRefused, Reader, answers_of
from livegym.serve.simulator import BuiltIn
from livegym.tasks.base import Discrete
from livegym.tasks.stream_task import ActionUnits
from livegym.utils.errors import UserError
from tests.dummy import counting_env
from tests.experiences import pending
from tests.online_fixtures import SPEC
from tests.test_champion import loaded
from tests.test_decision_log import save_checkpoint
from tests.test_live import spec_with
from tests.test_service import seen
from tests.test_service import setting as setting

pytest_plugins = ["online_fixtures"]

ROOT = Path(__file__).parent.parent

CHOICES = Layout(obs=2, action=1, discrete=True, seen=3)


def instead(number, log_prob=None):
    return Instead(np.array([number], np.float32), log_prob)


# where an episode begins


def test_a_client_that_comes_back_does_not_join_two_episodes(setting):
    """One was killed as it was about to fall; another one starts at rest, and does not say that an episode begins."""
    here = setting()
    (falling,) = here.ask(seen("a", 2.39, source="connection 1"))
    (rested,) = here.ask(seen("a", 0, source="connection 2"))
    here.ask(seen("a", 1, source="connection 2", reward=0.5))
    (row,) = here.rows()
    assert (row["decision"], row["obs"][0], row["next_obs"][0]) == (rested.decision, 0.0, 1.0)
    assert here.service.tally.episodes.broken_off == 1
    assert here.ask(Rewarded("a", falling.decision, -1.0, done=True)) == [Accepted("a", falling.decision)]
    assert here.rows()["done"].tolist() == [False, True]  # the end of the old episode was told after all


@pytest.mark.parametrize(
    "resumed",
    [
        {"sequence": 6},
        {"continues": True},
        {"reward": 0.5},
        {"source": "connection 1"},
    ],
    ids=str,
)
def test_a_client_that_goes_on_keeps_its_decision(setting, resumed):
    here = setting()
    (made,) = here.ask(seen("a", 1, sequence=5, source="connection 1"))
    (answer,) = here.ask(seen("a", 2, **{"source": "connection 2", **resumed}))
    assert answer.previous is None
    if "reward" not in resumed:
        here.ask(Rewarded("a", made.decision, 0.5))
    (row,) = here.rows()
    assert (row["obs"][0], row["next_obs"][0], row["reward"]) == (1.0, 2.0, 0.5)
    assert here.service.tally.episodes.broken_off == 0


@pytest.mark.parametrize(("sequence", "joined"), [(6, True), (9, False), (None, False)])
def test_over_a_stop_of_the_server_an_episode_goes_on_only_if_its_sequence_does(setting, sequence, joined):
    here = setting()
    (made,) = here.ask(seen("a", 1, sequence=5, source="connection 1"))
    here.memory.save()
    here.begin()
    here.ask(seen("a", 2, sequence=sequence, source="connection 1"))  # connections are counted anew
    here.ask(Rewarded("a", made.decision, 0.5))
    assert len(here.rows()) == joined
    assert here.service.tally.episodes.broken_off == (not joined)


def test_what_an_episode_without_an_end_earned_is_not_counted_in_the_next(setting):
    here = setting()
    outcomes = outcomes_in(here)
    here.ask(seen("a", 1))
    here.ask(seen("a", 2, reward=100.0))
    here.ask(seen("a", 0, first=True))
    here.ask(seen("a", 1, reward=1.0, done=True))
    assert [outcome.value for outcome in outcomes.take()] == [1.0]


def outcomes_in(setting):
    setting.service._outcomes = Outcomes(discount=0.9, streams=10, pending=10)
    return setting.service._outcomes


def test_the_late_end_of_an_episode_that_was_broken_off_ends_that_one_and_not_the_present_one(setting):
    here = setting()
    outcomes = outcomes_in(here)
    here.ask(seen("a", 1))
    (broken,) = here.ask(seen("a", 2, reward=3.0))
    here.ask(seen("a", 0, first=True))
    here.ask(seen("a", 1, reward=2.0))
    here.ask(Rewarded("a", broken.decision, -1.0, done=True))
    assert [outcome.value for outcome in outcomes.take()] == [2.0]
    here.ask(seen("a", 2, reward=2.0, done=True))
    assert [outcome.value for outcome in outcomes.take()] == [4.0]
    episodes = here.service.tally.episodes
    assert (episodes.returns, episodes.lengths, episodes.broken_off) == ([2.0, 4.0], [2, 2], 1)


def test_an_end_that_comes_twice_ends_one_episode(setting):
    """With the last part of the reward, which comes when the next episode runs already."""
    here = setting()
    outcomes = outcomes_in(here)
    (made,) = here.ask(seen("a", 1))
    here.ask(Rewarded("a", made.decision, 1.0, part=0, done=True))
    here.ask(seen("a", 0))
    here.ask(seen("a", 1, reward=5.0))
    here.ask(Rewarded("a", made.decision, 1.0, done=True))
    here.ask(seen("a", 2, reward=5.0, done=True))
    assert [outcome.value for outcome in outcomes.take()] == [2.0, 10.0]
    assert here.service.tally.episodes.returns == [2.0, 10.0]


def test_an_episode_is_broken_off_even_if_its_last_decision_no_longer_waits(setting):
    """The client dies, and comes back when its decision has been dropped."""
    here = setting(pending_ttl_s=60.0)
    trial = here.service.decider.trial = Trial(loaded(), 0.5, episodic=True, seed=0, streams=10)
    here.ask(seen("a", 1))
    here.ask(seen("a", 2, reward=100.0))
    here.memory.pending.expire(61.0)
    here.ask(seen("a", 0, first=True), clock=61.0)
    here.ask(seen("a", 1, reward=1.0, done=True), clock=61.0)
    episodes = here.service.tally.episodes
    assert (episodes.returns, episodes.broken_off, episodes.ended) == ([1.0], 1, 1)
    assert trial._units["a"] == (2, 0)  # another unit has begun with each episode


def test_a_return_whose_beginning_was_before_a_restart_is_unknown(setting):
    here = setting()
    here.ask(seen("a", 1, sequence=1))
    here.ask(seen("a", 2, sequence=2, reward=10.0))
    here.memory.save()
    here.begin()
    outcomes = outcomes_in(here)
    here.ask(seen("a", 3, sequence=3, reward=10.0))
    here.ask(seen("a", 4, sequence=4, reward=1.0, done=True))
    here.ask(seen("a", 0, sequence=5))
    here.ask(seen("a", 1, sequence=6, reward=7.0, done=True))
    assert [outcome.value for outcome in outcomes.take()] == [7.0]
    episodes = here.service.tally.episodes
    assert (episodes.returns, episodes.ended) == ([7.0], 2)


# what a client did instead


def test_what_the_client_did_is_stored_with_its_probability(setting):
    here = setting()  # proposes 0.5
    here.ask(seen("a", 1))
    here.ask(seen("a", 2, reward=1.0, instead=instead(-0.25, log_prob=-0.75)))
    (answer,) = here.ask(seen("a", 3, reward=2.0, instead=instead(0.75)))
    here.ask(Rewarded("a", answer.decision, 3.0, done=True, instead=instead(0.5)))  # as it was told
    rows = here.rows()
    assert rows["proposed"].tolist() == [[0.5]] * 3
    assert rows["executed"].tolist() == [[-0.25], [0.75], [0.5]]
    assert rows["executed_log_prob"][0] == -0.75
    assert rows["executed_log_prob"][1] == UNKNOWN
    assert rows["executed_log_prob"][2] == rows["log_prob"][2]


def row_of(**changes):
    row = np.zeros(1, CHOICES.dtype())
    e = dataclasses.replace(pending(3, **{"verdict": Verdict.OFF, **changes}), reward=2.0, next_obs=np.zeros(2))
    to_row(e, row[0])
    return row


def test_without_a_probability_only_the_value_learns_from_it():
    """The policy does not: no ratio is known. The value learns what follows the proposal, as after a gate's WAIT."""
    rows = np.concatenate([row_of(), row_of(executed=np.array([7]), executed_log_prob=UNKNOWN)])
    samples = combine(rows, None, OnlineConfig())
    assert samples.index.tolist() == [0, 1]
    assert samples.policy.tolist() == [True, False]
    assert samples.value.tolist() == [True, True]
    assert samples.action.tolist() == [[3], [3]]
    assert samples.log_prob.tolist() == [-0.75, -0.5]
    assert samples.reward.tolist() == [2.0, 2.0]


def test_with_a_probability_both_learn_from_what_was_done():
    rows = row_of(executed=np.array([7]), executed_log_prob=-1.5, verdict=Verdict.SEND, expected=9.0)
    samples = combine(rows, None, OnlineConfig())
    assert (samples.action.tolist(), samples.log_prob.tolist()) == ([[7]], [-1.5])
    assert (samples.policy.tolist(), samples.value.tolist()) == ([True], [True])
    assert later_rewards(rows, OnlineConfig(), gated=True).tolist() == [2.0]  # the gate expected 9 of the proposal
    action, log_prob = chosen_actions(rows)  # of the decisions that follow others, and of estimates
    assert (action.tolist(), log_prob.tolist()) == ([[7]], [-1.5])


def test_a_version_is_not_judged_by_what_clients_did(config):
    c = config("task=Cartpole")
    spec = dataclasses.replace(SPEC, action=Discrete(10), observations=(("x", 2),))
    network = algorithm_of(c.train).actor_critic(spec, c.train)
    known = row_of(executed=np.array([7]), executed_log_prob=-1.5)
    unknown = row_of(executed=np.array([7]), executed_log_prob=UNKNOWN)
    view = Judge(network, 0.99).view(np.concatenate([known, unknown]), dict(network.module.state_dict()))
    assert view._of(view._known[0].model).estimate.samples == 1


def test_the_reward_that_a_task_computes_is_that_of_what_was_done(setting):
    here = setting()
    here.service._features = lambda raw: raw
    here.service._reward_of = lambda before, action, after: (float(action[0]), {"it": float(action[0])})
    raw = np.zeros(2, np.float32)
    here.ask(Observed("a", raw=raw))
    here.ask(Observed("a", raw=raw, instead=instead(-0.25)))
    assert here.rows()["reward"].tolist() == [-0.25]


# rewards in parts


def test_parts_of_a_reward_add_up_and_each_counts_once(setting):
    here = setting()
    (made,) = here.ask(seen("a", 1))
    here.ask(seen("a", 2, reward=1.0, part=0))
    again = [here.ask(Rewarded("a", made.decision, 2.0, part=1))[0] for _ in range(3)]
    assert again[0] == Accepted("a", made.decision)
    assert [answer.kind for answer in again[1:]] == ["duplicate"] * 2
    assert not len(here.rows())
    here.memory.save()
    here.begin()
    assert here.ask(Rewarded("a", made.decision, 2.0, part=1))[0].kind == "duplicate"  # over a restart, too
    assert here.ask(Rewarded("a", made.decision, 4.0)) == [Accepted("a", made.decision)]
    assert here.rows()["reward"].tolist() == [7.0]
    assert here.ask(Rewarded("a", made.decision, 4.0))[0].kind == "duplicate"


def test_a_task_that_computes_its_reward_takes_late_parts_too(setting):
    """The reward that the task computes is one part; the client that told a part says what the last one is."""
    here = setting()
    here.service._features = lambda raw: raw
    here.service._reward_of = lambda before, action, after: (10.0, {"it": 10.0})
    raw = np.zeros(2, np.float32)
    (one,) = here.ask(Observed("a", raw=raw))
    here.ask(Rewarded("a", one.decision, 1.0, part=0))
    (two,) = here.ask(Observed("a", raw=raw, sequence=5))
    (three,) = here.ask(Observed("a", raw=raw, sequence=6, part=0))  # what is computed here is a part
    here.ask(Observed("a", raw=raw, sequence=6, part=0))  # resent
    here.ask(Observed("a", raw=raw, sequence=7))  # the third one's is whole
    for late, value in ((one, 0.5), (two, 0.25)):
        assert here.ask(Rewarded("a", late.decision, value)) == [Accepted("a", late.decision)]
    assert here.ask(Rewarded("a", three.decision, 1.0))[0].kind == "duplicate"
    assert here.memory.pending.refused["duplicate"] == 1
    assert dict(zip(here.rows()["decision"].tolist(), here.rows()["reward"].tolist(), strict=True)) == {
        three.decision: 10.0,
        one.decision: 11.5,
        two.decision: 10.25,
    }


def test_what_is_computed_is_no_part_of_an_episode_that_has_ended(setting):
    """The client was told that it had sent a part twice which it had never sent."""
    here = setting()
    here.service._features = lambda raw: raw
    here.service._reward_of = lambda before, action, after: (10.0, {"it": 10.0})
    raw = np.zeros(2, np.float32)
    (made,) = here.ask(Observed("a", raw=raw))
    here.ask(Rewarded("a", made.decision, 1.0, part=0))
    here.ask(Observed("a", raw=raw, done=True))
    (first,) = here.ask(Observed("a", raw=raw))  # of the next episode
    assert (first.previous, here.memory.pending.refused["duplicate"]) == (None, 0)
    here.ask(Rewarded("a", made.decision, 0.5))
    assert here.rows()["reward"].tolist() == [11.5]


# what is not learned from


def test_what_is_not_to_be_learned_from_is_logged_only(setting):
    here = setting()
    here.ask(seen("a", 1, learn=False))
    (second,) = here.ask(seen("a", 2, reward=1.0))
    here.ask(Rewarded("a", second.decision, 2.0, done=True, learn=False))
    assert not len(here.rows())
    assert (here.service.tally.excluded, here.memory.log.added) == (2, 2)
    assert here.service.tally.intervened == 0  # nobody interfered


def test_what_is_not_learned_from_waits_for_its_reward_over_a_stop_too(setting):
    """It was refused as late, and the decision log kept it incomplete for ever."""
    here = setting()
    save_checkpoint(here.run, spec_with(), {"weight": torch.zeros(1)})
    here.live.pin("somebody")
    here.live.adopt()
    (pinned,) = here.ask(seen("pinned", 1))
    here.live.follow()
    here.live.adopt()
    (unlearned,) = here.ask(seen("unlearned", 2, learn=False))
    (usual,) = here.ask(seen("usual", 3))
    here.memory.save()
    data = decisions_of(here.run)
    assert [bool(data.of([name]).intervened[0]) for name in ("pinned", "unlearned", "usual")] == [True, True, False]
    here.begin()
    for made in (pinned, unlearned, usual):
        told = Rewarded(made.stream, made.decision, 1.5, done=True)
        assert here.ask(told) == [Accepted(made.stream, made.decision)]
    assert here.rows()["stream"].tolist() == [b"usual"]
    assert here.service.tally.excluded == 2
    data = decisions_of(here.run)
    assert (data.reward.tolist(), data.complete.all(), len(data)) == ([1.5] * 3, True, 3)
    assert [bool(data.of([name]).intervened[0]) for name in ("pinned", "unlearned", "usual")] == [True, True, False]


def test_decisions_that_an_earlier_release_saved_are_accepted(setting):
    """Its rows had no flags, because it saved none that are excluded."""
    here = setting()
    (made,) = here.ask(seen("a", 1))
    here.memory.save()
    rows = np.load(here.run.pending_file)
    old = np.zeros(len(rows), here.layout.dtype())
    for name in old.dtype.names:
        old[name] = rows[name]
    old["check"] = checks_of_rows(old)
    np.save(here.run.pending_file, old)
    here.begin()
    assert here.ask(Rewarded("a", made.decision, 1.0, done=True)) == [Accepted("a", made.decision)]
    assert len(here.rows()) == 1


def test_a_stream_can_be_switched_off_over_a_restart(setting):
    here = setting()
    here.service.not_learned.set("a", learn=False)
    here.begin()
    for stream in "ab":
        (made,) = here.ask(seen(stream, 1))
        here.ask(Rewarded(stream, made.decision, 1.0, done=True))
    here.service.not_learned.set("a", learn=True)
    (made,) = here.ask(seen("a", 1))
    here.ask(Rewarded("a", made.decision, 5.0, done=True))
    assert [(row["stream"], row["reward"]) for row in here.rows()] == [(b"b", 1.0), (b"a", 5.0)]


@pytest.mark.parametrize("content", ["", "{", '"ab"', '{"a": 1}', "[1]", "null", "[" * 100_000])
def test_with_a_damaged_file_of_switches_nothing_is_learned_until_a_person_has_looked(tmp_path, content):
    """To learn from a stream that was switched off cannot be undone."""
    (tmp_path / "off.json").write_text(content)
    with pytest.raises(UserError, match="Write the list, or delete the file to learn from all streams"):
        NotLearned(tmp_path / "off.json")


def test_the_switch_is_also_that_of_the_built_in_simulators_streams(setting):
    here = setting(num_envs=2)
    simulator = BuiltIn(counting_env(2), here.service, 0.0)
    here.service.not_learned.set("counting-0", learn=False)
    simulator.step(0.0)
    assert here.rows()["stream"].tolist() == [b"counting-1"]
    here.service.not_learned.set("counting-0", learn=True)
    simulator.step(0.0)
    assert here.rows()["stream"].tolist()[1:] == [b"counting-0", b"counting-1"]


# how it is written in a message

PUSH = Reader(Description(SPEC, {}, ActionUnits((1.0,), (2.0,))))  # a push from -1 to 3
CHOICE = Reader(Description(dataclasses.replace(SPEC, action=Discrete(3)), {}, ActionUnits((5.0,), (1.0,))))


def observation(reader, **more):
    item = ", ".join(f'"{name}": {value}' for name, value in more.items())
    text = f'{{"v": 1, "type": "observe", "observations": [{{"stream": "a", "obs": [0, 0, 0, 0], {item}}}]}}'
    (request,) = reader.read(text).requests
    return request


def test_an_action_is_read_and_told_in_the_units_of_the_client():
    read = observation(PUSH, executed="[2]", executed_log_prob=-1)
    assert read.instead.action == pytest.approx([0.5])
    assert read.instead.log_prob == pytest.approx(-1 + math.log(2))  # twice as dense on half the length
    assert observation(CHOICE, executed="[7]").instead.action.tolist() == [2]
    assert observation(CHOICE, executed="[7]").instead.log_prob is None
    assert observation(CHOICE, executed="[7]", executed_log_prob=0).instead.log_prob == 0
    assert observation(PUSH, executed="[2]", executed_log_prob=3).instead.log_prob > 3  # a density may exceed 1
    decision = pending(proposed=np.array([-2.0]), executed=np.array([0.5]))
    (told,) = answers_of([read], [decision], ActionUnits((1.0,), (2.0,)))
    assert (told["proposed"], told["executed"]) == ([-3.0], [2.0])
    assert Description(SPEC, {}, ActionUnits((1.0,), (2.0,))).to_dict()["action"]["high"] == [3.0]


@pytest.mark.parametrize(
    ("reader", "more", "field", "expected"),
    [
        (PUSH, {"executed": "[3.5]"}, "executed.0", "a number from -1 to 3"),
        (CHOICE, {"executed": "[8]"}, "executed.0", "a number from 5 to 7"),
        (CHOICE, {"executed": "[6.5]"}, "executed.0", "a whole number from 5 to 7"),
        (PUSH, {"executed": "[1, 1]"}, "executed", "a list of 1, each a number from -1 to 3"),
        (PUSH, {"executed_log_prob": -1}, "executed", "the action as well"),
        (CHOICE, {"executed": "[7]", "executed_log_prob": 0.1}, "executed_log_prob", "at most 0"),
        (PUSH, {"episode": '"start"'}, "episode", '"begin" or "continue"'),
        (PUSH, {"episode": '"continue"', "first": "true"}, "episode", "no `first`"),
        (PUSH, {"part": -1}, "part", "a whole number from 0 to "),
        (PUSH, {"learn": 0}, "learn", "true or false"),
    ],
    ids=lambda value: "reader" if isinstance(value, Reader) else str(value),
)
def test_what_makes_no_sense_is_refused_by_name(reader, more, field, expected):
    with pytest.raises(MessageRefused) as refused:
        observation(reader, **more)
    assert refused.value.details["field"] == f"observations.0.{field}"
    assert expected in refused.value.details["expected"]


def test_first_and_episode_say_the_same():
    assert observation(PUSH, first="true").first
    assert observation(PUSH, episode='"begin"').first
    assert observation(PUSH, episode='"continue"').continues
    assert not observation(PUSH, learn="false").learn


def test_a_client_switches_a_stream_and_reads_which_ones_are_off(serve, tmp_path):
    served = serve(not_learned=NotLearned(tmp_path / "off.json"))
    with served.http() as http:
        answer = http.post("/learning", json={"v": 1, "id": 3, "stream": "a", "learn": False}).json()
        assert answer == {"v": 1, "type": "learning", "id": 3, "not_learned": ["a"]}
        assert http.get("/learning").json()["not_learned"] == ["a"]
        refused = http.post("/learning", json={"v": 1, "stream": "a", "learn": "no"})
        assert (refused.status_code, refused.json()["field"]) == (422, "learn")
        assert http.post("/learning", json={"v": 1, "stream": "a", "learn": True}).json()["not_learned"] == []


@pytest.mark.parametrize(("query", "sources"), [("?client=robot", 1), ("", 2)])
def test_http_requests_of_one_name_or_address_have_one_source(serve, query, sources):
    served = serve()
    for address in ("127.0.0.1", "127.0.0.1", "127.0.0.2"):
        with served.http(transport=httpx.HTTPTransport(local_address=address)) as http:
            http.post(f"/observe{query}", json={"v": 1, "observations": [{"stream": "a", "obs": [0, 0, 0, 0]}]})
    assert (len(served.loop.sources), len(set(served.loop.sources))) == (3, sources)
    told = " ".join((ROOT / "docs" / "protocol.md").read_text().split())
    assert "All HTTP requests without `?client=` from one address count as one connection" in told

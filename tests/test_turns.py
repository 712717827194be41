"""One turn of the decision loop: messages that wait share a forward pass, and each gets the answer it would alone."""

from __future__ import annotations

from itertools import zip_longest
from types import SimpleNamespace

import numpy as np
import pytest

from livegym.online.stream_requests import Accepted, Refusal, Rewarded
from livegym.serve.backlog import ROWS, Backlog
from livegym.serve.inbox import Asked, Inbox
from livegym.serve.loop import Loop
from livegym.serve.status import Status
from livegym.utils.signals import StopFlag
from tests.test_live import candidate, live_of
from tests.test_service import Setting, Sign, reported, seen

STREAMS = "abcdefgh"


class Counted:
    """Counts the forward passes of a live policy, and the rows that each decides on."""

    def __init__(self, live) -> None:
        self.passes, self._decide = [], live.decide
        live.decide = self

    def __call__(self, obs):
        self.passes.append(len(obs))
        return self._decide(obs)


def live():
    """A policy whose action depends on the observation."""
    first = candidate(1, bias=0.2)
    first.model["a2c_network.mu.weight"].fill_(0.3)
    return live_of(first, num_envs=len(STREAMS), history=3)


@pytest.fixture
def settings(tmp_path):
    """settings(...) -> two services alike, each on a run of its own."""

    def make(gate=None, **online):
        return [Setting(tmp_path / name, live(), gate, **online) for name in ("one", "other")]

    return make


def of(*requests, client="") -> Asked:
    return Asked(list(requests), (client,))


def backlog_of(*messages) -> Backlog:
    backlog = Backlog()
    backlog.add(messages)
    return backlog


def run_loop(setting, inbox, stop) -> None:
    """Answer what comes into the inbox until a stop is requested."""
    fixed = {**dict.fromkeys(("task", "title", "run", "simulator", "gate"), ""), "playSpeed": 1.0, "capacity": 10}
    status = Status(fixed, setting.service, SimpleNamespace(reading=lambda: {"state": "starting"}))
    nothing = SimpleNamespace(update=lambda reading: None)
    Loop(setting.service, setting.memory, None, inbox, status).run(stop, nothing, nothing)


def turn(setting, messages, clients=()) -> list:
    """What the loop answers to messages that wait together: a list each, or an exception. `clients`: who sent them."""
    inbox, stop = Inbox(), StopFlag()
    futures = [inbox.ask(requests, (client,)) for requests, client in zip_longest(messages, clients, fillvalue="")]
    for future in futures:
        future.add_done_callback(lambda _: stop.request() if all(f.done() for f in futures) else None)
    run_loop(setting, inbox, stop)
    return [future.exception() or [reported(answer) for answer in future.result()] for future in futures]


def test_all_streams_that_ask_in_one_turn_share_a_forward_pass(settings):
    here, _ = settings()
    counted = Counted(here.live)
    answers = turn(here, [[seen("a", 1), seen("b", 2)], *([seen(stream, 3)] for stream in "cdefgh")])
    assert counted.passes == [8]
    assert [[answer.stream for answer in each] for each in answers] == [["a", "b"], *([s] for s in "cdefgh")]
    assert len({answer.decision for each in answers for answer in each}) == 8


def test_two_observations_of_a_stream_are_decided_in_order(settings):
    here, _ = settings()
    counted = Counted(here.live)
    first, other, second = turn(here, [[seen("a", 1)], [seen("b", 1)], [seen("a", 2, reward=0.5)]])
    assert len(counted.passes) == 2
    assert first[0].decision < second[0].decision
    (row,) = here.rows()
    assert (row["decision"], row["reward"], row["next_obs"][0]) == (first[0].decision, 0.5, 2.0)
    assert other[0].stream == "b"


def test_a_reward_of_a_stream_waits_for_its_observation_and_that_of_another_does_not():
    a, b = of(seen("a", 1)), of(seen("b", 1))
    reward_b, reward_c = (of(Rewarded(stream, 1, 0.0)) for stream in "bc")
    backlog = backlog_of(a, b, reward_c, reward_b)
    assert backlog.turn() == [[reward_c], [a, b]]
    assert backlog.turn() == [[reward_b]]
    assert not backlog
    assert backlog.turn() == []


def test_an_observation_is_in_the_turn_of_the_reward_before_it():
    rewards, observation = [of(Rewarded("a", k, 0.0)) for k in (1, 2)], of(seen("a", 1))
    assert backlog_of(*rewards, observation).turn() == [[rewards[0]], [rewards[1]], [observation]]


def test_who_sends_many_observations_at_once_waits_for_them_and_nobody_else_does():
    greedy = [of(seen("a", k), seen("b", k)) for k in range(8)]
    honest, after_b = of(seen("c", 1)), of(seen("b", 9), seen("d", 1))
    backlog = backlog_of(*greedy, after_b, honest)
    assert backlog.turn() == [[greedy[0], honest]]
    backlog.add([last := of(seen("d", 2))])
    assert [backlog.turn() for _ in range(9)] == [[[each]] for each in [*greedy[1:], after_b, last]]  # d too, in order


def greedily(client: str, messages: int, rows: int) -> list[Asked]:
    """Messages of a client that has new streams in each."""
    return [of(*(seen(f"{client}-{k}-{i}", k) for i in range(rows)), client=client) for k in range(messages)]


def test_what_others_have_sent_before_does_not_delay_a_client_that_asks_little():
    backlog = backlog_of(*(each for k in range(4) for each in greedily(f"greedy {k}", 50, 8)))
    for k in range(20):
        backlog.add([honest := of(seen("honest", k), client="honest")])
        turns = [*backlog.turn(), *backlog.turn()]
        assert any(honest in together for together in turns)
        assert max(sum(len(asked.requests) for asked in together) for together in turns) <= ROWS


@pytest.mark.slow
def test_who_sends_large_messages_gets_no_larger_share():
    large, small = greedily("large", 40, 2 * ROWS), greedily("small", 40 * 2 * ROWS, 1)
    backlog, rows = backlog_of(*large, *small), {"large": 0, "small": 0}
    for _ in range(60):
        turn = [asked for together in backlog.turn() for asked in together]
        assert len(turn) == 1 or sum(len(asked.requests) for asked in turn) <= ROWS
        for asked in turn:
            rows[asked.share[0]] += len(asked.requests)
    assert abs(rows["large"] - rows["small"]) <= 3 * ROWS
    assert min(rows.values()) > 10 * ROWS


def test_rewards_are_as_many_in_a_turn_as_observations():
    many = [of(*(Rewarded("a", k, 0.0) for _ in range(ROWS)), client="many") for k in range(3)]
    backlog = backlog_of(*many)
    backlog.add([honest := of(seen("b", 1), client="honest")])
    assert backlog.turn() == [[honest]]
    assert [backlog.turn() for _ in range(3)] == [[[each]] for each in many]


def message(rng, k: int, last: dict[str, int]) -> list:
    """A message as clients send them, some of them wrongly."""
    streams = rng.choice(list(STREAMS), rng.integers(1, 4), replace=False)
    if rng.random() < 0.25:
        known = [Rewarded(stream, last.get(stream, 1), float(k)) for stream in streams]
        return [*known, Rewarded("a", 7, 1.0)] if rng.random() < 0.3 else known
    return [
        seen(
            str(stream), float(rng.normal()), sequence=int(k + rng.integers(-2, 2)) if rng.random() < 0.7 else None,
            reward=float(k) if rng.random() < 0.5 else None, done=bool(rng.random() < 0.1),
        )
        for stream in streams
    ]  # fmt: skip


def order_of(messages, clients) -> list[int]:
    """Indices of messages that wait together, in the order in which the loop answers them."""
    waiting = [of(*requests, client=client) for requests, client in zip(messages, clients, strict=True)]
    index, backlog = {id(asked): k for k, asked in enumerate(waiting)}, backlog_of(*waiting)
    order = []
    while backlog:
        order += [index[id(asked)] for together in backlog.turn() for asked in together]
    return order


@pytest.mark.slow
@pytest.mark.parametrize("gate", [None, Sign()])
@pytest.mark.parametrize("seed", range(5))
def test_a_turn_gives_the_answers_that_one_message_after_the_other_gets(settings, gate, seed):
    together, alone = settings(gate, max_streams=6)
    rng, last = np.random.default_rng(seed), dict[str, int]()
    passes, reordered = Counted(together.live).passes, 0
    for k in range(40):
        messages = [message(rng, k, last) for _ in range(rng.integers(1, 9))]
        expected = [None] * len(messages)
        clients = [str(client) for client in rng.integers(0, 3, len(messages))]
        order = order_of(messages, clients)
        reordered += order != sorted(order)
        for index in order:
            expected[index] = alone.ask(*messages[index], clock=together.memory.clock)
        found = turn(together, messages, clients)
        for answers, right in zip(found, expected, strict=True):
            assert [told(answer) for answer in answers] == [told(answer) for answer in right]
        for answer in (answer for answers in found for answer in answers):
            if isinstance(answer, SimpleNamespace):
                last[answer.stream] = answer.decision
    assert max(passes) > 3
    assert reordered > 5
    mine, other = together.rows(), alone.rows()
    assert len(mine) > 50
    order, other_order = np.argsort(mine["decision"]), np.argsort(other["decision"])
    for name in ("obs", "next_obs", "reward", "done", "executed", "log_prob", "verdict"):
        np.testing.assert_allclose(mine[name][order], other[name][other_order], rtol=1e-5)


def told(answer) -> tuple:
    """An answer to compare; numbers of another batch may differ in the last digit."""
    if isinstance(answer, (Refusal, Accepted)):
        return type(answer).__name__, str(answer)
    if answer is None:
        return ("ended",)
    plain = dict(vars(answer))
    return tuple(sorted((name, repr(rounded(value))) for name, value in plain.items()))


def rounded(value):
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return {name: rounded(each) for name, each in value.items()} if isinstance(value, dict) else value


class Picky(Sign):
    """A gate that cannot judge what it sees of one stream."""

    def evaluate(self, seen, action, confidence):
        if (seen[:, 0] == 666).any():
            raise RuntimeError("666")
        return super().evaluate(seen, action, confidence)


def test_a_stream_on_which_the_gate_fails_does_not_stop_the_others(settings):
    here, _ = settings(Picky())
    answers = turn(here, [[seen("a", 1)], [seen("b", 666)], [seen("c", 1)]])
    assert [each[0].executed is None for each in answers] == [False, True, False]
    assert answers[1][0].verdict == "WAIT"  # the others depend on what the policy draws
    assert here.service.tally.intervened == 1


def test_a_message_that_fails_fails_alone(settings, caplog):
    """Its observation completes a decision, but is no number: a task's features may give that."""
    here, _ = settings()
    turn(here, [[seen("a", 1)], [seen("b", 1)]])
    failed, answered = turn(here, [[seen("a", np.nan)], [seen("b", 2, reward=1.0)]])
    assert isinstance(failed, RuntimeError)
    assert "the server failed to decide" in str(failed)
    assert answered[0].stream == "b"
    assert "answering a client failed" in caplog.text


def test_a_policy_that_fails_on_one_message_decides_on_the_others(settings):
    here, _ = settings()
    decide = here.live.decide

    def fails(obs):
        if (obs == 13).any():
            raise RuntimeError("13")
        return decide(obs)

    here.live.decide = fails
    answers = turn(here, [[seen("a", 1)], [seen("b", 2)], [seen("c", 13)]])
    assert [type(each) for each in answers] == [list, list, RuntimeError]

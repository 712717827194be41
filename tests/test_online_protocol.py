"""What messages may say, whose streams are whose, and the way of questions through the inbox."""

from __future__ import annotations

import json
import math
import re
import threading
from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.online.experience import Decision, Verdict
from livegym.online.stream_requests import Accepted, Observed, Refusal, Rewarded
from livegym.rl.spec import PolicySpec
from livegym.serve.allowed import in_full
from livegym.serve.inbox import Busy, Closed, Inbox
from livegym.serve.leases import LEASE_S, StreamLeases
from livegym.serve.messages import LARGEST, STATUS, DecisionAnswer, Description, LearningMessage
from livegym.serve.protocol import MessageRefused, Reader, answers_of, text_of
from livegym.tasks.base import MultiDiscrete
from livegym.tasks.stream_task import RawField
from tests.online_fixtures import GRID, SPEC, decision_of
from tests.patience import PATIENCE_S

PLAIN, RAW = Reader(Description(SPEC)), Reader(Description(SPEC, GRID))
MINERALS = [[0, 0.5, 1], [0.25, 0, 0]]


def observe_message(**fields):
    return json.dumps({"v": 1, "type": "observe", "observations": [{"stream": "a", "obs": [1, 2, 3, 4], **fields}]})


def raw(**fields):
    content = {"minerals": MINERALS, "energy": 12.5, **fields}
    return json.dumps({"v": 1, "type": "observe", "observations": [{"stream": "a", "raw": content}]})


def refusal(reader, text):
    with pytest.raises(MessageRefused) as caught:
        reader.read(text)
    return caught.value


def test_an_observation_is_a_row_of_float32():
    (request,) = PLAIN.read(observe_message(sequence=3, reward=-0.5, done=True)).requests
    assert isinstance(request, Observed)
    assert (request.stream, request.raw, request.sequence, request.reward, request.done) == ("a", None, 3, -0.5, True)
    assert request.obs.dtype == np.float32
    assert request.obs.tolist() == [1, 2, 3, 4]


def test_raw_fields_are_packed_in_the_order_of_the_task_whatever_the_order_of_the_message():
    item = '{"stream":"a","raw":{"energy":7,"minerals":[[1,0,0],[0,0,0]]}}'
    shuffled = f'{{"v":1,"type":"observe","observations":[{item}]}}'
    (first,), (second,) = RAW.read(raw()).requests, RAW.read(shuffled).requests
    assert first.obs is None
    assert first.raw.tolist() == [0, 0.5, 1, 0.25, 0, 0, 12.5]
    assert second.raw.tolist() == [1, 0, 0, 0, 0, 0, 7]


def test_rewards_of_several_streams_come_in_one_message():
    text = (
        '{"v":1,"type":"reward","id":9,"rewards":[{"stream":"a","decision":4,"reward":1},'
        '{"stream":"b","decision":2,"reward":-2.5,"done":true},{"stream":"a","decision":3,"reward":0}]}'
    )
    message = PLAIN.read(text)
    assert message.requests == [Rewarded("a", 4, 1.0), Rewarded("b", 2, -2.5, True), Rewarded("a", 3, 0.0)]
    assert message.streams == ["a", "b"]
    assert message.id == 9


WRONG = {
    "no json": ("{", "malformed", "message", "text"),
    "a list": ("[]", "malformed", "message", "a list of 0"),
    "no type": ('{"v":1}', "malformed", "type", "nothing"),
    "another type": ('{"v":1,"type":"stop"}', "malformed", "type", '"stop"'),
    "another version": (observe_message().replace('"v": 1', '"v": 2'), "malformed", "v", "2"),
    "no version": (observe_message().replace('"v": 1, ', ""), "malformed", "v", "nothing"),
    "nested deeply": (observe_message(obs="X").replace('"X"', "[" * 20_000), "malformed", "message", "text"),
    "too short": (observe_message(obs=[1, 2, 3]), "invalid", "observations.0.obs", "a list of 3"),
    "too long": (observe_message(obs=[0] * 5), "invalid", "observations.0.obs", "a list of 5"),
    "nested": (observe_message(obs=[[1], 2, 3, 4]), "invalid", "observations.0.obs.0", "a list of 1"),
    "NaN": (observe_message(obs=[1, math.nan, 3, 4]), "invalid", "observations.0.obs.1", "NaN"),
    "Infinity": (observe_message(obs=[-math.inf, 2, 3, 4]), "invalid", "observations.0.obs.0", "Infinity"),
    "1e999": (observe_message(obs=[0, 0, 0, 5]).replace("5", "1e999"), "invalid", "observations.0.obs.3", "Infinity"),
    "beyond float32": (observe_message(obs=[0, 0, 0, 1e39]), "invalid", "observations.0.obs.3", "1e+39"),
    "of many digits": (observe_message(obs=[0, 0, 0, 10**400]), "invalid", "observations.0.obs.3", f"1{'0' * 59}..."),
    "a text": (observe_message(obs=["1", 2, 3, 4]), "invalid", "observations.0.obs.0", '"1"'),
    "true": (observe_message(obs=[True, 2, 3, 4]), "invalid", "observations.0.obs.0", "true"),
    "null": (observe_message(obs=[None, 2, 3, 4]), "invalid", "observations.0.obs.0", "null"),
    "an object": (observe_message(obs={}), "invalid", "observations.0.obs", "an object"),
    "NaN as reward": (observe_message(reward=math.nan), "invalid", "observations.0.reward", "NaN"),
    "a fraction": (observe_message(sequence=1.5), "invalid", "observations.0.sequence", "1.5"),
    "below 0": (observe_message(sequence=-1), "invalid", "observations.0.sequence", "-1"),
    "inexact": (observe_message(sequence=2**53), "invalid", "observations.0.sequence", str(2**53)),
    "a path": (observe_message(stream="../a"), "invalid", "observations.0.stream", '"../a"'),
    "a line's end": (observe_message(stream="a\n"), "invalid", "observations.0.stream", r'"a\n"'),
    "no name": (observe_message(stream=""), "invalid", "observations.0.stream", '""'),
    "a word for a truth": (observe_message(done="yes"), "invalid", "observations.0.done", '"yes"'),
    "raw": (observe_message(raw={}), "invalid", "observations.0.raw", "an unknown field"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_its_field_and_value(name):
    text, kind, field, shown = WRONG[name]
    refused = refusal(PLAIN, text)
    assert (refused.kind, refused.details["field"], refused.details["given"]) == (kind, field, shown)
    assert refused.message.startswith(f"{field}: given {shown}; expected {refused.details['expected']}. ")
    assert len(refused.message) < 500


GRID_SHAPE = "lists of 2 x 3 numbers, shape [2, 3]"
RAW_WRONG = {
    "a row too few": (raw(minerals=MINERALS[:1]), "minerals", "a list of 1", GRID_SHAPE),
    "a short row": (raw(minerals=[[0, 0, 0], [0, 0]]), "minerals.1", "a list of 2", GRID_SHAPE),
    "flat": (raw(minerals=[0] * 6), "minerals.0", "0", GRID_SHAPE),
    "a number": (raw(minerals=1), "minerals", "1", GRID_SHAPE),
    "a list": (raw(energy=[1]), "energy", "a list of 1", "one number, shape []"),
    "above": (raw(minerals=[[0, 0, 0], [0, 0, 1.5]]), "minerals.1.2", "1.5", "a number from 0 to 1"),
    "below": (raw(energy=-1), "energy", "-1", "a number from 0 to 200"),
    "NaN": (raw(energy=math.nan), "energy", "NaN", "a number from 0 to 200"),
    "misspelt": (raw(enery=1), "enery", "an unknown field", "one of minerals, energy"),
}  # fmt: skip


@pytest.mark.parametrize("name", RAW_WRONG)
def test_raw_fields_are_held_to_shape_and_range(name):
    text, field, shown, expected = RAW_WRONG[name]
    refused = refusal(RAW, text)
    assert refused.kind == "invalid"
    assert refused.details == {"field": f"observations.0.raw.{field}", "given": shown, "expected": expected}


def refused_by(read, content):
    """The refusal of a message; None if it is read."""
    try:
        read(json.dumps(content).encode())
    except MessageRefused as refused:
        return refused
    return None


ANYTHING = [
    None, True, "x", "\ud800", -1, 1.5, 2**53, 10**30, 1e39, math.nan, [], [None], [[1.0]], [0.5] * 9, {}, {"a": 1},
]  # fmt: skip
CHOOSING = Reader(Description(PolicySpec("Choosing", (("x", 4),), (), MultiDiscrete((3, 5)), 1.0)))


@pytest.mark.parametrize("reader", [PLAIN, RAW, CHOOSING], ids=["plain", "raw", "choosing"])
@pytest.mark.parametrize("kind", ["observe", "reward", "learning"])
def test_each_refusal_says_field_value_what_is_allowed_and_what_to_do_in_our_words(reader, kind):
    """pydantic's own are like "List should have at least 1 item after validation, not 0"."""
    items = {"observe": "observations", "reward": "rewards"}.get(kind)
    schema = {"observe": reader.observe_schema, "reward": reader.reward_schema, "learning": LearningMessage}[kind]
    read = {"observe": reader.observations, "reward": reader.rewards, "learning": reader.learning}[kind]
    fields = [(name,) for name in schema.model_fields]
    if items is not None:
        item = schema.model_fields[items].annotation.__args__[0]
        fields += [(items, name) for name in item.model_fields]
        fields += [(items, "raw", raw) for raw in reader.description.raw_fields if kind == "observe"]
    first = {"stream": "a", "obs": [0, 0, 0, 0], "decision": 1, "reward": 0}
    told = set()
    for path in fields:
        for value in ANYTHING:
            content = {"v": 1, items or "learn": [dict(first)] if items else True, "stream": "a"}
            if path[0] == items and len(path) > 1:
                inner = content[items][0] if len(path) == 2 else content[items][0].setdefault("raw", {})
                inner[path[-1]] = value
            else:
                content[path[0]] = value
            if items:
                content.pop("stream")
            refused = refused_by(read, content)
            if refused is not None:
                told.add((refused.details["field"], refused.details["expected"]))
                assert refused.kind in ("malformed", "invalid", "oversized")
                assert refused.message.startswith(f"{refused.details['field']}: given ")
                assert not re.search(r"nput|hould|alidat|alue error|at (most|least) \d+ item", refused.message)
                assert refused.message.rstrip().endswith((".", "?"))
    assert len(told) > 3
    if items:
        assert (items, f"a list of 1 to 64 {items}") in told


def test_what_is_no_json_is_told_by_its_place_and_an_empty_list_by_what_is_allowed():
    assert refusal(PLAIN, '{"v": 1,\n "type"}').details["expected"] == "JSON, which it is not at line 2, column 8"
    empty = refusal(PLAIN, '{"v": 1, "type": "reward", "rewards": []}')
    assert empty.message.startswith("rewards: given a list of 0; expected a list of 1 to 64 rewards. GET /online/v1/")
    executed = refusal(CHOOSING, observe_message(executed=[1])).details
    assert executed["expected"] == "a list of 2, each a whole number from 0 to 2 or a whole number from 0 to 4"


def test_a_near_name_is_suggested():
    assert "Did you mean reward?" in refusal(PLAIN, observe_message(rewrad=1)).message
    assert "Did you mean energy?" in refusal(RAW, raw(enery=1)).message


def test_the_other_kind_of_observation_is_told_apart_from_none():
    plain = '{"v": 1, "type": "observe", "observations": [{"stream": "a", "obs": [1]}]}'
    refused = refusal(RAW, plain)
    assert refused.message.startswith("observations.0.raw: given obs; expected raw, which this task takes")
    assert refusal(PLAIN, plain.replace('"obs"', '"raw"')).details["expected"] == "obs, which this task takes"


def test_fields_may_have_any_name_and_no_bounds():
    odd = {"json": RawField((), -math.inf, math.inf, "J"), "model_dump": RawField((2,), 0, math.inf, "m")}
    reader = Reader(Description(SPEC, odd))
    text = '{"v":1,"type":"observe","observations":[{"stream":"a","raw":{"json":-5,"model_dump":[1,2]}}]}'
    assert reader.read(text).requests[0].raw.tolist() == [-5, 1, 2]
    assert refusal(reader, text.replace("-5", "1e39")).kind == "invalid"
    assert reader.description.to_dict()["observation"]["fields"]["json"] == {
        "shape": [], "low": None, "high": None, "help": "J",
    }  # fmt: skip


def test_sizes_are_bounded():
    def many(n):
        items = [{"stream": f"s{i}", "obs": [0, 0, 0, 0]} for i in range(n)]
        return json.dumps({"v": 1, "type": "observe", "observations": items})

    assert len(PLAIN.read(many(64)).requests) == 64
    assert refusal(PLAIN, many(65)).kind == "oversized"
    assert refusal(PLAIN, many(0)).kind == "invalid"
    assert refusal(PLAIN, " " * 65_537).kind == "oversized"


def test_a_stream_comes_once_in_a_message():
    twice = {"v": 1, "type": "observe", "observations": [{"stream": "a", "obs": [0, 0, 0, 0]}] * 2}
    assert "stream 'a' twice" in refusal(PLAIN, json.dumps(twice)).message


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from(["stream", "obs", "raw", "sequence", "reward", "done", "decision"])
ITEMS = st.lists(st.dictionaries(FIELDS | st.text(max_size=9), VALUES, max_size=5) | VALUES, max_size=3)
HEADS = st.sampled_from([{"type": "observe"}, {"type": "reward"}, {}, {"v": 1, "type": "observe", "id": 1}])


@settings(max_examples=300, deadline=None)
@given(HEADS, st.sampled_from(["observations", "rewards"]), ITEMS | VALUES, st.booleans())
def test_whatever_comes_is_read_or_refused_with_a_kind_of_the_table(head, key, items, with_raw):
    try:
        outcome = (RAW if with_raw else PLAIN).read(json.dumps({"v": 1, **head, key: items}))
    except MessageRefused as refused:
        outcome = refused
    if isinstance(outcome, MessageRefused):
        assert outcome.kind in STATUS
        assert json.loads(outcome.text())["type"] == "error"
    else:
        rows = [r.obs if r.obs is not None else r.raw for r in outcome.requests if isinstance(r, Observed)]
        assert all(np.isfinite(row).all() for row in rows)


def test_answers_are_strict_json_in_order():
    requests = [Observed("a"), Observed("b"), Rewarded("c", 3, 1.0), Rewarded("d", 4, 1.0)]
    parts = {"survival": np.float64(1)}
    waits = {"verdict": Verdict.WAIT, "held": True, "expected": math.nan, "confidence": 0.25}
    decision = decision_of("a", 1, np.float32(0.5), components=parts, **waits)
    answers = [decision, None, Accepted("c", 3), Refusal("late", "too late")]
    content = json.loads(text_of(5, answers_of(requests, answers)))
    assert (content["v"], content["id"], content["type"]) == (1, 5, "answers")
    assert content["answers"] == [
        {
            "type": "decision", "stream": "a", "decision": 1, "proposed": [0.5], "executed": None, "verdict": "WAIT",
            "expected": None, "components": {"survival": 1.0}, "confidence": 0.25, "version": 7, "previous": None,
        },
        {"type": "ended", "stream": "b"},
        {"type": "accepted", "stream": "c", "decision": 3},
        {"type": "error", "stream": "d", "kind": "late", "message": "too late"},
    ]  # fmt: skip


@pytest.mark.parametrize("action", [np.array([0.1, 2.5], np.float32), np.array([3, 399])], ids=["drawn", "chosen"])
@pytest.mark.parametrize("held", [False, True])
def test_a_decision_is_answered_alike_after_a_restart_in_the_words_that_are_documented(action, held):
    """Also its bytes: a choice is a whole number, and what was drawn is told within its bounds."""
    made = decision_of("a", 1, 0.0, proposed=action, executed=action, held=held, components={"survival": 0.1})
    (answer,) = answers_of([Observed("a")], [made])
    assert set(answer) == set(DecisionAnswer.model_fields)
    done = [np.float32(0.1).item(), 1.0] if action.dtype.kind == "f" else [3, 399]
    assert answer["executed"] == (None if held else done)
    kept = json.loads(json.dumps(made.to_plain()))
    (again,) = answers_of([Observed("a")], [Decision.from_plain(kept)])
    assert text_of(1, [again]) == text_of(1, [answer])


def test_the_description_says_what_to_send():
    plain, with_raw = PLAIN.description.to_dict(), RAW.description.to_dict()
    assert plain["observation"] == {"kind": "obs", "width": 4, "blocks": [["cart", 2], ["pole", 2]]}
    assert plain["action"] == {"type": "Box", "size": 1, "low": -1.0, "high": 1.0}
    assert (plain["v"], plain["task"], plain["control_dt"]) == (1, "Cartpole", 1 / 60)
    energy = {"shape": [], "low": 0.0, "high": 200.0, "help": "units"}
    assert with_raw["observation"]["fields"]["energy"] == energy
    assert pytest.approx(3.4028235e38) == LARGEST


class TestClaims:
    @pytest.fixture
    def now(self):
        return [0.0]

    @pytest.fixture
    def leases(self, now):
        return StreamLeases(max_streams=2, clock=lambda: now[0])

    def test_a_stream_is_its_first_owners_until_that_leaves(self, leases):
        leases.connect("a")
        assert leases.take("a", ["north"]) == ["north"]
        leases.check("a", ["north"])
        for other in ("b", None):
            with pytest.raises(MessageRefused, match="stream 'north' belongs to another client"):
                leases.check(other, ["north"])
        leases.leave("a")
        leases.check("b", ["north"])

    def test_a_lease_ends_and_each_request_renews_it(self, leases, now):
        leases.take("a", ["north"])
        leases.lease("a")
        now[0] = LEASE_S - 1
        leases.lease("a")
        now[0] = LEASE_S + 1
        with pytest.raises(MessageRefused):
            leases.check("b", ["north"])
        now[0] = 2 * LEASE_S
        leases.check("b", ["north"])

    def test_a_connection_outlives_its_lease(self, leases, now):
        leases.connect("a")
        leases.lease("a")
        leases.take("a", ["north"])
        now[0] = 10 * LEASE_S
        with pytest.raises(MessageRefused):
            leases.check("b", ["north"])

    def test_streams_are_counted_and_can_be_given_back(self, leases):
        leases.connect("a")
        leases.take("a", ["north", "south"])
        with pytest.raises(MessageRefused) as caught:
            leases.check("b", ["east"])
        assert caught.value.kind == "too_many_streams"
        leases.check("a", ["north"])  # its own are no new ones
        assert "Close clients that you do not need, or set online.max_streams to more" in str(caught.value)
        leases.give_back("b", ["south"])  # not b's
        with pytest.raises(MessageRefused):
            leases.check("b", ["east"])
        leases.give_back("a", ["south"])
        leases.check("b", ["east"])

    def test_a_client_of_this_machine_has_all_streams_until_another_one_comes(self):
        leases = StreamLeases(max_streams=4)
        for owner in ("a", "b"):
            leases.connect(owner)
        leases.check("a", "1234")
        leases.take("b", "x")
        with pytest.raises(MessageRefused, match=r"0 streams of this client are in use and 3 more .* at most 2 are"):
            leases.check("a", "123")
        leases.take("a", "12")
        leases.check("a", "12")  # its own are no new ones
        leases.check("c", "3")
        with pytest.raises(MessageRefused, match="2 streams of this client are in use and 1 more"):
            leases.check("a", "3")
        leases.leave("b")
        leases.check("a", "34")

    def test_the_streams_of_an_address_are_those_taken_from_it(self):
        leases = StreamLeases(max_streams=4)
        leases.connect("a")
        leases.take("a", "12", "192.0.2.1")
        leases.take("a", "1x", "192.0.2.2")
        leases.check("b", "3", "192.0.2.1")
        for who in ("a", "b", None):
            with pytest.raises(MessageRefused, match="at most"):
                leases.check(who, "34", "192.0.2.1")
        leases.give_back("a", "1")
        leases.check("b", "34", "192.0.2.1")
        leases.leave("a")
        with pytest.raises(MessageRefused, match=r"0 streams of your address .* at most 3 are"):
            leases.check("b", "3456", "192.0.2.1")

    def test_a_client_that_got_no_stream_is_forgotten_with_its_last_answer(self, leases):
        for name in ("a", "b"):
            leases.take(name, ["north"])
            leases.lease(name)
        leases.answered("a", ["north"], set())
        assert list(leases._until) == ["b"]
        new = leases.take("b", ["north"])
        leases.answered("b", [], set())
        assert leases._until
        leases.answered("b", new, {"north"})
        assert (leases._owners, list(leases._until)) == ({"north": "b"}, ["b"])
        assert not leases._asking

    def test_leases_end_in_the_order_of_the_last_requests(self, leases, now):
        for now[0], name in enumerate("abca"):
            leases.take(name, [name] if len(leases._owners) < 2 else [])
            leases.lease(name)
        now[0] = LEASE_S + 1
        leases.check("d", ["b"])
        assert (list(leases._until), leases._owners) == (["c", "a"], {"a": "a"})

    def test_a_client_without_a_name_keeps_nothing(self, leases):
        assert leases.take(None, ["north"]) == []
        leases.check("b", ["north"])


class TestInbox:
    def test_answers_come_in_order(self):
        inbox = Inbox()
        futures = [inbox.ask([Observed("a"), Observed("b")]), inbox.ask([Rewarded("a", 1, 2.0)])]
        first, second = inbox.take(0)
        first.answer([None, Refusal("invalid", "no")])
        second.answer([Accepted("a", 1)])
        assert [type(answer) for answer in futures[0].result(0)] == [type(None), Refusal]
        assert futures[1].result(0) == [Accepted("a", 1)]
        assert inbox.take(0) == []
        with pytest.raises(ValueError, match="1 answers to 2 requests"):
            first.answer([None])

    def test_it_is_bounded_and_all_or_nothing(self):
        inbox = Inbox(capacity=3)
        inbox.ask([Observed("a"), Observed("b")])
        with pytest.raises(Busy, match="2 requests are waiting already; at most 3 may wait"):
            inbox.ask([Observed("c"), Observed("d")])
        inbox.ask([Observed("c")])
        assert (inbox.asked, inbox.busy, inbox.most_waiting) == (3, 1, 3)

    def test_what_was_taken_waits_until_it_is_answered(self):
        """Otherwise the loop, which takes all at once and answers a message of each stream in a turn, is no limit."""
        inbox = Inbox(capacity=3)
        inbox.ask([Observed("a"), Observed("b")])
        inbox.ask([Observed("c")])
        both, one = inbox.take(0)
        with pytest.raises(Busy, match="3 requests are waiting already; at most 3 may wait"):
            inbox.ask([Observed("d")])
        both.answer([None, None])
        inbox.ask([Observed("d"), Observed("e")])
        one.fail(RuntimeError("the loop failed"))
        inbox.ask([Observed("f")])
        with pytest.raises(Busy):
            inbox.ask([Observed("g")])
        assert inbox.most_waiting == 3

    def test_a_question_wakes_whoever_waits_and_so_does_the_end(self):
        inbox, taken, woken = Inbox(), [], threading.Event()

        def loop():
            while batch := inbox.take(60):
                taken.append(batch)
                woken.set()

        thread = threading.Thread(target=loop)
        thread.start()
        inbox.ask([Observed("a")])
        assert woken.wait(PATIENCE_S)
        inbox.close()
        thread.join(PATIENCE_S)  # would take 60 s
        assert not thread.is_alive()
        assert len(taken) == 1

    def test_its_end_fails_what_waits_and_what_was_taken_and_never_overwrites_an_answer(self):
        inbox = Inbox()
        futures = [inbox.ask([Observed(name)]) for name in "abc"]
        first, second, _ = inbox.take(0)
        first.answer([None])
        late = inbox.ask([Observed("d")])
        inbox.close()
        inbox.close()
        assert futures[0].result(0) == [None]
        for future in [*futures[1:], late]:
            assert isinstance(future.exception(0), Closed)
        second.answer([None])  # too late, and no harm
        first.fail(RuntimeError())
        with pytest.raises(Closed):
            inbox.ask([Observed("e")])

    def test_nobody_can_cancel_a_question(self):
        inbox = Inbox()
        future: Future = inbox.ask([Observed("a")])
        assert not future.cancel()
        inbox.take(0)[0].answer([None])
        assert future.result(0) == [None]

    def test_many_threads_lose_nothing(self):
        inbox, results = Inbox(), []

        def client(name):
            for i in range(200):
                (answer,) = inbox.ask([Rewarded(name, i, 0.0)]).result(PATIENCE_S)
                results.append(answer)

        threads = [threading.Thread(target=client, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        answered = 0
        while answered < 800:
            for asked in inbox.take(30):
                answered += 1
                asked.answer([Accepted(r.stream, r.decision) for r in asked.requests])
        for thread in threads:
            thread.join(PATIENCE_S)
        assert sorted((a.stream, a.decision) for a in results) == [(name, i) for name in "abcd" for i in range(200)]


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (1_000_000, "1000000"), (1234567.0, "1234567"), (np.int64(-2), "-2"), (np.float32(0.1), "0.1"),
     (0.1234567, "0.1234567"), (-1e300, "-1e+300")],
)  # fmt: skip
def test_a_bound_is_written_with_all_of_its_digits(value, text):
    """What was called allowed was refused: 1234570 of at most 1234567."""
    assert in_full(value) == text
    assert float(text) == pytest.approx(float(value), rel=1e-7)


def test_a_bound_is_allowed_as_it_is_written():
    reader = Reader(Description(SPEC, {"mass": RawField((), 0.0, 1234567.0, "kg")}))
    assert refusal(reader, weighs(2e6)).details["expected"] == "a number from 0 to 1234567"
    assert reader.read(weighs(1234567)).requests[0].raw.tolist() == [1234567]


def weighs(mass):
    return json.dumps({"v": 1, "type": "observe", "observations": [{"stream": "a", "raw": {"mass": mass}}]})

"""What the page of a continuous run is told, and what it may ask for, over real sockets without a browser."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import socket
import threading
import time

import numpy as np
import pytest
import websockets.sync.client
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus

from livegym.serve import dashboard as module
from livegym.serve.dashboard import MAX_MESSAGE
from livegym.web.pages import REFUSALS, UNKNOWN, PageMessageError
from tests.online_status import Script, dashboards, picture_of
from tests.patience import PATIENCE_S, until
from tests.web_fixtures import client_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.sampled_from(["version", "stream", "on", "name", "other"])
READ_ONLY = "this page is read-only (streamReadOnly)"
EVIL = "http://evil.example"


class Line:
    """A page's WebSocket without a page."""

    def __init__(self, gateway, **settings) -> None:
        quiet = {"proxy": None, "max_size": None, "max_queue": None, "ping_interval": None, "close_timeout": 1}
        self.socket = websockets.sync.client.connect(f"ws://127.0.0.1:{gateway.port}/ws", **(quiet | settings))
        self.hello, self.state, self.points, self.messages = {}, {}, [], []

    def read(self) -> dict:
        """One message, which must be strict JSON each second one is due."""
        message = json.loads(self.socket.recv(PATIENCE_S), parse_constant=pytest.fail)
        self.messages.append(message)
        self.hello = message.get("hello", self.hello)
        self.state |= message.get("state", {})
        self.points += message.get("points", [])
        return message

    def until(self, holds) -> dict:
        """Reads up to the first message for which `holds(message)`."""
        until(lambda: holds(self.read()), lambda: str(self.messages[-3:]), pause=lambda: None)
        return self.messages[-1]

    def ask(self, what, **more) -> str | None:
        """The reason why it is not done, None if it is."""
        self.socket.send(json.dumps({"do": what, **more}))
        message = self.until(lambda m: "answer" in m or "refused" in m)
        return message["refused"] if "refused" in message else message["answer"]["refused"]

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def opened(script):
    with dashboards(script) as opened:
        yield opened


def test_a_page_is_told_everything_once_and_then_what_has_changed(script, opened):
    script.fill(3)
    with Line(opened()) as line:
        first = line.read()
        assert first["hello"]["picture"] == "picture.js"
        assert first["hello"]["read_only"] is False
        assert {**first["state"], "pages": None} == {**script.status, "pages": None, "you": "operator 1"}
        assert [point["seq"] for point in first["points"]] == [1, 2, 3]
        script.change(decisions={"total": 1235})
        script.add(time.time(), 4)
        line.until(lambda m: m["points"])
        assert line.state["decisions"]["total"] == 1235
        assert [point["seq"] for point in line.points] == [1, 2, 3, 4]
        later = [name for message in line.messages[1:] for name in message["state"]]
        assert set(later) == {"now", "refreshed", "decisions"}
        assert all("hello" not in message for message in line.messages[1:])


def test_something_comes_each_second_with_the_clock_of_the_server_even_if_there_is_no_news(script, opened):
    with Line(opened()) as line:
        line.read()
        second, third = line.read(), line.read()
    assert second["state"] == third["state"] == {}
    assert third["clock"] - second["clock"] > 0.5
    assert third["clock"] <= time.time()


def test_numbers_that_are_not_finite_become_null_and_numpy_plain(script, opened):
    script.change(trainer={"loss": math.nan, "average_loss": -math.inf}, rewards={"mean": np.float32(0.5)})
    script.history.add({"t": 1.0, "loss": math.nan})
    gateway = opened()
    with Line(gateway) as line:
        line.read()
        assert line.state["trainer"]["loss"] is None
        assert line.state["trainer"]["average_loss"] is None
        assert line.state["rewards"]["mean"] == 0.5
        assert line.points[0]["loss"] is None
    with client_of(gateway) as client:
        assert json.loads(client.get("/stats").text, parse_constant=pytest.fail)["trainer"]["loss"] is None
        assert "NaN" not in client.get("/metrics").text


def test_requests_are_passed_on_and_the_reason_of_a_refusal_is_reported(script, opened):
    with Line(opened()) as line:
        assert line.ask("pin") is None
        assert line.ask("rollback", version=39) is None
        assert line.ask("rollback", version="other run:3") is None
        script.refusal = "version 38 is no longer kept"
        assert line.ask("rollback", version=38) == "version 38 is no longer kept"
        assert line.ask("back") == "version 38 is no longer kept"
    assert script.asked == [
        {"do": "pin", "version": None},
        {"do": "rollback", "version": 39},
        {"do": "rollback", "version": "other run:3"},
        {"do": "rollback", "version": 38},
        {"do": "back", "version": None},
    ]


@pytest.mark.parametrize(
    "text",
    [
        "", "not JSON", "[]", "{}", '{"do": "stop"}', '{"do": "pin", "more": 1}', '{"do": ["pin"]}',
        '{"do": "rollback"}', '{"do": "rollback", "version": 1.5}', '{"do": "rollback", "version": true}',
        '{"do": "rollback", "version": NaN}',
        '{"do": "rollback", "version": "' + "x" * 300 + '"}', '{"do": "pin"}' + " " * MAX_MESSAGE, "[" * 900,
        '{"do": "rollback", "version": "\\ud800"}', b'{"do": "pin"}',
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_in_few_words_and_changes_nothing(script, opened, text):
    with Line(opened()) as line:
        line.socket.send(text)
        refused = line.until(lambda m: "refused" in m)["refused"]
        assert 0 < len(refused) < 500
        assert line.ask("follow") is None  # the line is as good as before
    assert script.asked == [{"do": "follow", "version": None}]


def test_who_only_says_what_makes_no_sense_is_cut_off(opened):
    gateway = opened()
    with Line(gateway) as line:
        for _ in range(REFUSALS):
            line.socket.send("nonsense")
        with pytest.raises(ConnectionClosed) as closed:
            line.until(lambda message: False)
        assert closed.value.rcvd.code == 1008
    assert gateway.dashboard.refused == REFUSALS


def test_read_only_pages_see_and_take_no_orders(script, opened):
    gateway = opened(read_only=True)
    with Line(gateway) as line:
        line.read()
        assert line.hello["read_only"] is True
        for what in ("pin", "follow", "back"):
            assert line.ask(what) == READ_ONLY
        assert line.ask("rollback", version=39) == READ_ONLY
    with client_of(gateway) as client:
        assert client.get("/online/picture", params={"stream": "north"}).status_code == 200
    assert script.asked == []


def test_foreign_pages_and_hosts_get_nothing(script, opened):
    gateway = opened()
    for headers in ({"Origin": EVIL}, {"Origin": "null"}, {"Host": "evil.example"}):
        with client_of(gateway) as client:
            for path in ("/", "/online/picture?stream=north", "/stats"):
                assert client.get(path, headers=headers).status_code in (403, 421)
        with pytest.raises(InvalidStatus) as refused:
            Line(gateway, additional_headers=headers) if "Origin" in headers else host_line(gateway)
        assert refused.value.response.status_code in (403, 421)
    with Line(gateway, additional_headers={"Origin": f"http://127.0.0.1:{gateway.port}"}) as line:
        assert line.ask("pin") is None
    assert len(script.asked) == 1
    assert script.pictures == 0


def host_line(gateway):
    """A WebSocket that asks for another host's name at this address."""
    sock = socket.create_connection(("127.0.0.1", gateway.port))
    return websockets.sync.client.connect("ws://evil.example/ws", sock=sock, proxy=None)


def test_a_token_is_asked_for(opened):
    gateway = opened(token="0123456789")
    with client_of(gateway) as client:
        for path in ("/", "/page.js", "/picture.js", "/online/picture?stream=north"):
            assert client.get(path).status_code == 401
            assert client.get(path, headers={"Authorization": "Bearer 0123456789"}).status_code == 200
    with pytest.raises(InvalidStatus):
        Line(gateway)


def test_pictures_are_strict_json_of_one_stream(script, opened):
    with client_of(opened()) as client:
        answer = client.get("/online/picture", params={"stream": "south"})
        assert answer.json() == picture_of("south")
        missing = client.get("/online/picture", params={"stream": "atlantis"})
        assert missing.status_code == 404
        assert "atlantis" in missing.json()["detail"]
        assert client.get("/online/picture").status_code == 422
        assert client.get("/online/picture", params={"stream": "x" * 300}).status_code == 422
        script.picture = None
        assert client.post("/online/picture", params={"stream": "south"}).status_code == 405
    with client_of(opened(picture=False)) as client:
        assert client.get("/online/picture", params={"stream": "south"}).status_code == 404


def test_pages_bring_all_they_need(opened):
    """Nothing is fetched from elsewhere, and each file has its type."""
    types = {"/": "html", "/base.css": "css", "/page.css": "css", "/page.js": "javascript"}
    types |= {"/plots.js": "javascript", "/picture.js": "javascript"}
    with client_of(opened()) as client:
        for path, kind in types.items():
            answer = client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith(f"text/{kind}")
            links = answer.text.replace("http://www.w3.org/2000/svg", "").replace('replace("http"', "")
            assert "http:" not in links
            assert "https:" not in links
            assert "innerHTML" not in links


def narrow(gateway):
    """A connection that takes a few kB before somebody reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", gateway.port))
    return sock


@pytest.mark.slow
def test_pages_that_do_not_read_hold_up_nobody_and_get_the_newest_later(script, opened):
    """What the kernel and the server keep for them is full after a message or two of 100 kB."""
    gateway, first = opened(), lambda message: message["state"].get("streams", [""])[0]
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(Line(gateway, max_queue=1, sock=narrow(gateway))) for _ in range(3)]
        line = stack.enter_context(Line(gateway))
        for number in range(12):
            script.change(streams=[f"{number}:{secrets.token_hex(100)}" for _ in range(1000)])
            line.until(lambda message, number=number: first(message).startswith(f"{number}:"))
        assert line.ask("pin") is None
        for late in slow:
            late.until(lambda message: first(message).startswith("11:"))
            assert len([message for message in late.messages if first(message)]) < 12


def test_an_order_that_takes_long_holds_up_neither_its_page_nor_others(script, opened, monkeypatch):
    monkeypatch.setattr(module, "CONTROL_S", 0.5)
    over = threading.Event()
    gateway = opened()
    script.control = lambda request, who: over.wait(PATIENCE_S) and None
    gateway.dashboard._control = script.control
    try:
        with Line(gateway) as line, Line(gateway) as other:
            assert "no answer within 0.5 s" in line.ask("back")
            script.change(decisions={"total": 5000})
            for each in (line, other):
                each.until(lambda m: m["state"].get("decisions", {}).get("total") == 5000)
    finally:
        over.set()


def test_a_picture_that_takes_long_holds_up_no_page(script, opened):
    over, asked = threading.Event(), threading.Event()

    def picture(stream):
        asked.set()
        over.wait(PATIENCE_S)
        return picture_of(stream)

    script.picture = picture
    gateway = opened()

    def get():
        with client_of(gateway, timeout=PATIENCE_S) as client:
            client.get("/online/picture", params={"stream": "north"})

    thread = threading.Thread(target=get)
    thread.start()
    try:
        assert asked.wait(PATIENCE_S)
        with Line(gateway) as line:
            script.change(decisions={"total": 6000})
            line.until(lambda m: m["state"].get("decisions", {}).get("total") == 6000)
    finally:
        over.set()
        thread.join()


def test_open_pages_are_counted_and_those_that_vanish_are_not(script, opened):
    gateway = opened()
    with Line(gateway) as line:
        with Line(gateway) as other:
            line.until(lambda m: m["state"].get("pages") == 2)
            other.socket.socket.close()  # no goodbye
        line.until(lambda m: m["state"].get("pages") == 1)
    until(lambda: gateway.dashboard.open == 0)


@pytest.mark.slow
def test_the_first_page_after_a_million_points_is_small(script, opened):
    for _ in range(1_000_000):
        script.history.add({"t": 1_700_000_000.12, "loss": 0.123456, "reward": -0.654321, "size": 10_000})
    with Line(opened()) as line:
        size = len(line.socket.recv(10))
        assert size < 200_000


def why_refused(text: str) -> str:
    try:
        module._request_of(text)
    except PageMessageError as error:
        return str(error)
    return ""


@given(st.sampled_from(["pin", "rollback", "learn", "name", "x"]) | VALUES, st.dictionaries(FIELDS, VALUES))
@settings(max_examples=200, deadline=None)
def test_a_refusal_is_in_our_words(do, fields):
    why = why_refused(json.dumps({**fields, "do": do}))
    assert UNKNOWN not in why
    assert not any(words in why for words in ("Input should", "Field required", "Extra inputs", "should have"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"do": "rollback", "version": 1.5}', "request: version: given 1.5; expected a whole number or text"),
        ('{"do": "learn", "on": 1}', "request: on: given 1; expected true or false"),
        ('{"do": "x"}', 'request: do: given "x"; allowed are '),
        ('{"do": "pin", "who": 1}', "request: who: unknown; leave it out"),
        ('{"do": "pin",}', 'not JSON at line 1, column 14; expected an object with "do"'),
    ],
)
def test_a_refusal_names_the_field_what_was_given_and_what_is_allowed(text, why):
    assert why_refused(text).startswith(why)

"""What one turn of the server's event loop does: which requests begin in it, and how an answer is written."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter

import pytest
from starlette.responses import PlainTextResponse

from livegym.web.accepting import Accepting
from livegym.web.access import Access
from livegym.web.gateway import Gateway
from livegym.web.server import REQUESTS, GatheredAnswer
from tests.patience import PATIENCE_S, until
from tests.web_fixtures import raw_socket

SETTLES_S = 0.3  # in which what was sent over loopback has certainly arrived


class Turns:
    """A gateway that notes in which turn of its event loop each request begins, and can be held up."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.begun: list[str] = []  # their numbers, in order
        self.turns: list[int] = []
        self._turn = 0
        self._holds, self._go = threading.Event(), threading.Event()
        gateway.answer("GET", "/held", self._held)
        gateway.answer("GET", "/noted", self._noted)
        gateway.start()

    async def _held(self, scope, receive, send) -> None:
        """Holds the event loop up until `let_go`; from here on its turns are counted."""
        self._counting = asyncio.get_running_loop().create_task(self._count())
        self._holds.set()
        self._go.wait(PATIENCE_S)
        await PlainTextResponse("held")(scope, receive, send)

    async def _count(self) -> None:
        while True:
            self._turn += 1
            await asyncio.sleep(0)

    async def _noted(self, scope, receive, send) -> None:
        self.begun.append(scope["query_string"].decode())
        self.turns.append(self._turn)
        await PlainTextResponse("noted")(scope, receive, send)

    def hold(self, connection: socket.socket) -> None:
        """Hold the event loop up by a request over a connection."""
        self.ask(connection, "", path="/held")
        assert self._holds.wait(PATIENCE_S)

    def let_go(self) -> None:
        """Let the event loop go on, when all that was sent has arrived."""
        time.sleep(SETTLES_S)
        self._go.set()

    def ask(self, connection: socket.socket, *names: str, path: str = "/noted") -> None:
        """Send requests over one connection, all at once."""
        head = f"HTTP/1.1\r\nHost: 127.0.0.1:{self.gateway.port}\r\n\r\n"
        connection.sendall("".join(f"GET {path}?{name} {head}" for name in names).encode())


@pytest.fixture
def turns():
    gateway = Gateway(Access(None, False), "127.0.0.1", 0)
    try:
        yield Turns(gateway)
    finally:
        gateway.stop()


@pytest.fixture
def connect(turns):
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(raw_socket(turns.gateway))


def test_few_requests_begin_in_one_turn_however_many_have_arrived(turns, connect):
    crowd = [connect() for _ in range(12)]
    for connection in crowd:
        turns.ask(connection, "first")  # so that all of them are accepted
    until(lambda: len(turns.begun) == len(crowd))
    turns.hold(connect())
    turns.turns.clear()
    for connection in crowd:
        turns.ask(connection, "second")
    turns.let_go()
    until(lambda: len(turns.turns) == len(crowd))
    assert max(Counter(turns.turns).values()) == REQUESTS


def test_a_connection_that_was_admitted_does_not_wait_for_all_new_ones(turns, connect):
    known, holder = connect(), connect()
    turns.ask(known, "before")
    until(lambda: turns.begun == ["before"])
    turns.hold(holder)
    for number in range(20):
        turns.ask(connect(), f"new-{number}")
    time.sleep(SETTLES_S)
    turns.ask(known, "known")
    turns.let_go()
    until(lambda: len(turns.begun) == 22)
    assert turns.begun.index("known") < 12  # the new ones are accepted first, 8 in a turn, and then half of the turns


def test_requests_that_came_at_once_over_one_connection_wait_like_those_of_others(turns, connect):
    many, one = connect(), connect()
    for connection in (many, one):
        turns.ask(connection, "before")
    until(lambda: len(turns.begun) == 2)
    turns.hold(connect())
    turns.ask(many, *(f"many-{number}" for number in range(6)))
    time.sleep(SETTLES_S)
    turns.ask(one, "one")
    turns.let_go()
    until(lambda: len(turns.begun) == 9)
    assert turns.begun.index("one") < 5
    assert [name for name in turns.begun if name.startswith("many")] == [f"many-{number}" for number in range(6)]


def test_a_request_whose_client_has_left_takes_no_turn_away(turns, connect):
    left, stays = connect(), connect()
    for connection in (left, stays):
        turns.ask(connection, "before")
    until(lambda: len(turns.begun) == 2)
    turns.ask(left, "left")
    left.close()
    turns.ask(stays, "stays")
    until(lambda: "stays" in turns.begun)


def test_a_head_that_comes_in_pieces_is_one_request(turns, connect):
    connection = connect()
    for piece in (b"GET /noted?pie", b"ces HTTP/1.1\r\n", f"Host: 127.0.0.1:{turns.gateway.port}\r\n\r\n".encode()):
        connection.sendall(piece)
        time.sleep(0.05)
    until(lambda: turns.begun == ["pieces"])
    assert b"200 OK" in connection.recv(4096)


def test_while_much_waits_no_connection_is_accepted():
    async def drive() -> tuple[int, int]:
        made, crowded = [], [True]

        def make() -> asyncio.Protocol:
            made.append(1)
            return asyncio.Protocol()

        with socket.create_server(("127.0.0.1", 0)) as listener:
            accepting = Accepting(listener, make, lambda: crowded[0])
            accepting.start()
            with socket.create_connection(listener.getsockname()):
                await asyncio.sleep(0.1)
                before = len(made)
                crowded[0] = False
                while not made:
                    await asyncio.sleep(0.01)
            accepting.stop()
        return before, len(made)

    assert asyncio.run(asyncio.wait_for(drive(), PATIENCE_S)) == (0, 1)


def test_the_head_of_an_answer_goes_out_with_its_body_if_that_follows_at_once():
    class Written(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            self.data: list[bytes] = []

        def write(self, data) -> None:
            self.data.append(bytes(data))

        def close(self) -> None:
            self.data.append(b"closed")

    async def drive() -> list[list[bytes]]:
        loop, found = asyncio.get_running_loop(), []
        for pieces in ((b"head ", b"body", b""), (b"head",), (b"head", None, b"body")):
            written = Written()
            answer = GatheredAnswer(written, loop)
            for piece in pieces:
                if piece is None:
                    await asyncio.sleep(0)
                else:
                    answer.write(piece)
            answer.close()
            await asyncio.sleep(0)
            found.append(written.data)
        return found

    assert asyncio.run(drive()) == [
        [b"head body", b"", b"closed"],
        [b"head", b"closed"],
        [b"head", b"body", b"closed"],
    ]


def test_a_head_without_a_body_is_not_kept_back(turns, connect):
    body = threading.Event()

    async def slow(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        while not body.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.body", "body": b"body"})

    turns.gateway.answer("GET", "/slow", slow)
    connection = connect()
    turns.ask(connection, "", path="/slow")
    head = connection.recv(4096)
    body.set()
    assert (head[:15], head[-4:], connection.recv(4096)) == (b"HTTP/1.1 200 OK", b"\r\n\r\n", b"body")


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(turns, connect):
    connection = connect()
    head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1:{turns.gateway.port}\r\nContent-Length: 6\r\n"
    connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
    assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
    connection.sendall(b"next=/")
    assert connection.recv(4096).startswith(b"HTTP/1.1 303 ")


def test_a_path_that_is_answered_past_the_routes_has_the_checks_and_headers_of_all(turns, connect):
    connection = connect()
    turns.ask(connection, "checked")
    assert b"content-security-policy: default-src" in connection.recv(4096)
    connection.sendall(b"GET /noted HTTP/1.1\r\nHost: other.example\r\n\r\n")
    assert connection.recv(4096).startswith(b"HTTP/1.1 421 ")
    assert turns.begun == ["checked"]

"""The port, the bounds on connections, and the end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import logging
import os
import socket
import threading
from collections import Counter

import pytest
import websockets.asyncio.client
import websockets.exceptions
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from starlette.requests import HTTPConnection

from livegym.utils.errors import UserError
from livegym.web import accepting, middleware, places, server
from livegym.web.accepting import ACCEPTS
from livegym.web.access import Access, Role
from livegym.web.gateway import Gateway
from livegym.web.listen import listen, reachable_host
from livegym.web.mjpeg import Frames, stream_router
from livegym.web.waiting_room import WaitingRoom
from tests.patience import until
from tests.web_fixtures import TOKEN, client_of, complaints, raw_socket, scene_socket

pytest_plugins = ["web_fixtures"]


@pytest.fixture
def resources():
    with socket.create_server(("127.0.0.1", 0)) as holder:
        yield holder.getsockname()[1]


def gone(connection):
    """Whether the other side has ended the connection; waits for it or for more data, at most 5 s."""
    try:
        return connection.recv(4096) == b""
    except ConnectionResetError:
        return True


def test_a_taken_port_is_reported_with_its_holder_and_the_next_one_is_used(resources, caplog):
    gateway = Gateway(Access(TOKEN, False), "127.0.0.1", resources)
    gateway.stop()
    (record,) = complaints(caplog)
    assert gateway.port > resources
    assert f"streamPort={resources} is in use by" in record.getMessage()
    assert f"(pid {os.getpid()}); using port {gateway.port} instead" in record.getMessage()
    assert gateway.url == f"http://127.0.0.1:{gateway.port}/?token=a%20token%2Fwith%2Bsigns"


def test_no_port_is_an_error_that_names_the_key(resources):
    with pytest.raises(UserError, match=rf"streamPort={resources}: in use by .*\(pid {os.getpid()}\)"):
        listen("127.0.0.1", resources, tries=1)
    with pytest.raises(UserError, match=r"streamPort=58080: cannot listen on 192\.0\.2\.1"):
        listen("192.0.2.1", 58080)


def test_a_restart_gets_the_same_port_at_once(open_gateway, caplog):
    first = open_gateway()
    with client_of(first) as client:
        client.get("/healthz")
        first.stop()
    second = open_gateway(port=first.port)
    with client_of(second) as client:
        assert client.get("/healthz").status_code == 200
    assert second.port == first.port
    assert not complaints(caplog)


def test_the_address_of_a_server_on_all_interfaces_is_one_that_others_can_use():
    assert reachable_host("127.0.0.1") == "127.0.0.1"
    assert reachable_host("0.0.0.0") not in ("0.0.0.0", "")


def test_stats_are_strict_json_and_metrics_what_prometheus_reads(open_gateway):
    readings = [
        ("livegym_swaps_total", "Swaps.", "counter", [({"source": "bus"}, 3)]),
        ("livegym_fps", "Pictures per second.", "gauge", [({}, float("nan"))]),
    ]
    gateway = open_gateway(stats=lambda: {"reward": float("nan")}, metrics=lambda: readings)
    with client_of(gateway) as client:
        assert json.loads(client.get("/stats").text, parse_constant=pytest.fail) == {"reward": None}
        answer = client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'livegym_swaps_total{source="bus"} 3.0' in answer.text
    assert "# TYPE livegym_fps gauge\nlivegym_fps NaN" in answer.text


def test_300_silent_sockets_stop_nobody(open_gateway, monkeypatch):
    monkeypatch.setattr(server, "MAX_WAITING", 64)
    gateway = open_gateway()
    silent = [raw_socket(gateway) for _ in range(300)]
    with client_of(gateway) as client:
        assert client.get("/healthz").status_code == 200
    first = silent[: 300 - server.MAX_WAITING]
    assert all(gone(connection) for connection in first)
    for connection in silent:
        connection.close()


def test_a_connection_that_was_used_is_kept_while_strangers_come(open_gateway, monkeypatch):
    monkeypatch.setattr(server, "MAX_WAITING", 8)
    gateway = open_gateway(TOKEN)

    def port_of(client):
        answer = client.get("/stats", headers={"authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
        return answer.extensions["network_stream"].get_extra_info("client_addr")[1]

    with client_of(gateway) as client, contextlib.ExitStack() as stack:
        used = port_of(client)
        for _ in range(50):
            stack.enter_context(raw_socket(gateway))
        with client_of(gateway) as later:
            assert port_of(later) != used  # it came after them, so they have been accepted
        assert port_of(client) == used


def test_of_those_who_wait_the_oldest_of_the_fullest_address_goes():
    sent_away = []
    room = WaitingRoom(3)
    for name, address in (("early", "a"), ("b1", "b"), ("b2", "b"), ("b3", "b"), ("b4", "b")):
        room.enter(name, address, lambda name=name: sent_away.append(name))
    assert sent_away == ["b1", "b2"]
    for name in ("early", "b1", "b3", "b4", "b4"):
        room.exit(name)
    assert len(room) == 0


def test_few_connections_are_accepted_in_one_turn_of_the_loop(monkeypatch):
    """Otherwise nobody is served while somebody connects and disconnects as fast as possible."""
    turns, made, without_delay = [0], Counter(), []

    class Counted(server.Connection):
        def connection_made(self, transport):
            if not made:
                self.loop.call_soon(self._turn)
            made[turns[0]] += 1
            accepted = transport.get_extra_info("socket")
            without_delay.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0)
            super().connection_made(transport)

        def _turn(self):
            turns[0] += 1
            if made.total() < 100:
                self.loop.call_soon(self._turn)

    monkeypatch.setattr(server, "Connection", Counted)
    gateway = Gateway(Access(None, False), "127.0.0.1", 0)
    with contextlib.ExitStack() as stack:
        for _ in range(100):  # they wait in the kernel's queue
            stack.enter_context(raw_socket(gateway))
        stack.callback(gateway.stop)
        gateway.start()
        until(lambda: made.total() == 100)
    assert max(made.values()) == ACCEPTS
    assert all(without_delay)  # otherwise each answer on a kept connection takes 40 ms


def test_more_connections_than_the_rate_are_accepted_a_little_later(monkeypatch):
    monkeypatch.setattr(accepting, "RATE", (100.0, 5.0))
    gateway = Gateway(Access(None, False), "127.0.0.1", 0)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(raw_socket(gateway))
        stack.callback(gateway.stop)
        gateway.start()
        with client_of(gateway) as client:
            assert client.get("/healthz").status_code == 200


def test_without_a_file_to_spare_connections_wait(open_gateway, monkeypatch, caplog):
    monkeypatch.setattr(accepting, "EXHAUSTED_S", 0.01)
    gateway = open_gateway()
    listener, failures = gateway._server._listener, []

    class Exhausted:
        def __getattr__(self, name):
            return getattr(listener, name)

        def accept(self):
            if len(failures) < 3:
                failures.append(1)
                raise OSError(errno.EMFILE, "Too many open files")
            return listener.accept()

    gateway._server._accepting._listener = Exhausted()
    with client_of(gateway) as client:
        assert client.get("/healthz").status_code == 200
    assert "cannot accept a connection (Too many open files)" in caplog.text


@pytest.mark.parametrize("token", [TOKEN, None])
def test_bodies_that_do_not_come_take_the_place_of_nobody(open_gateway, monkeypatch, token):
    monkeypatch.setattr(middleware, "MAX_SLOW", 8)
    monkeypatch.setattr(places, "REQUESTS", 8)
    monkeypatch.setattr(places, "STRANGERS", 8)
    gateway = open_gateway(token)
    path = "/login" if token else "/stats"
    slow = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n".encode()
    known = {"authorization": f"Bearer {TOKEN}"}
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(raw_socket(gateway)) for _ in range(50)]
        for connection in sockets:
            connection.sendall(slow)
        assert b" 408 " in sockets[0].recv(4096)
        with client_of(gateway) as client:
            assert client.get("/healthz").status_code == 200
            assert client.get("/stats", headers=known).status_code == 200
            if token:
                assert client.post("/login", data={"token": token}).status_code == 303


@pytest.mark.parametrize("message", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET"])
def test_who_does_not_finish_a_request_is_dropped(open_gateway, monkeypatch, message):
    monkeypatch.setattr(server, "HEAD_S", 0.3)
    with raw_socket(open_gateway()) as connection:
        connection.sendall(message)
        while not gone(connection):
            pass


def test_a_websocket_that_is_silent_stays(open_scene, monkeypatch):
    monkeypatch.setattr(server, "HEAD_S", 0.05)
    gateway, _ = open_scene()

    async def use():
        async with scene_socket(gateway) as client:
            await asyncio.sleep(0.2)
            await client.ping()

    asyncio.run(use())


def test_more_sockets_than_can_be_served_are_told_to_come_back_and_requests_have_places_of_their_own(
    open_scene, monkeypatch
):
    monkeypatch.setattr(places, "SOCKETS", 1)
    monkeypatch.setattr(places, "REQUESTS", 1)
    gateway, _ = open_scene()

    async def use():
        async with scene_socket(gateway):
            with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
                await scene_socket(gateway)
            answer = refused.value.response
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            with client_of(gateway) as client:
                assert client.get("/stats").status_code == 200
        until(lambda: not gateway.places.taken)
        async with scene_socket(gateway):
            pass

    asyncio.run(use())


def connection_from(address, path="/stats", kind="http"):
    """A connection as the server sees it."""
    return HTTPConnection({"type": kind, "path": path, "headers": [], "client": (address, 1), "query_string": b""})


def test_one_address_and_all_spectators_get_a_share_of_the_places(monkeypatch):
    monkeypatch.setattr(places, "REQUESTS", 8)
    free = places.Places()
    near, far, further = (connection_from(address) for address in ("127.0.0.1", "192.0.2.1", "192.0.2.2"))
    results = [free.take(far, Role.OPERATOR) for _ in range(8)]
    assert [result.status_code for result in results[6:]] == [503, 503]
    assert results[:6] == [None] * 6
    assert [free.take(further, Role.OPERATOR) for _ in range(2)] == [None, None]
    assert free.take(near, Role.OPERATOR) is not None  # they are all taken
    assert free.take(connection_from("192.0.2.1", "/ws", "websocket"), Role.OPERATOR) is None  # sockets have their own
    free = places.Places()
    assert [free.take(near, Role.SPECTATOR) is None for _ in range(8)] == [True] * 4 + [False] * 4
    assert [free.take(near, Role.OPERATOR) for _ in range(4)] == [None] * 4
    for role in Role:
        for _ in range(4):
            free.give_back(near, role)
    assert not free.taken


def test_a_path_may_have_more_websockets_than_the_others(monkeypatch):
    monkeypatch.setattr(places, "SOCKETS", 1)
    free = places.Places()
    free.allow("/clients", 3)
    for path, most in (("/clients", 3), ("/ws", 1), ("/scene/ws", 1)):
        socket = connection_from("127.0.0.1", path, "websocket")
        assert [free.take(socket, Role.OPERATOR) is None for _ in range(4)] == [k < most for k in range(4)]


def test_who_asks_faster_than_the_rate_that_was_set_waits_and_no_one_else(open_gateway):
    gateway = open_gateway(TOKEN, spectators="spectators-0123", rate=0.5)
    with client_of(gateway, headers={"authorization": f"Bearer {TOKEN}"}) as client:
        assert client.get("/stats").status_code == 200
        answer = client.get("/stats")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert "streamRate" in answer.text
        assert client.get("/stats", headers={"authorization": "Bearer spectators-0123"}).status_code == 200
        assert client.get("/healthz", headers={"authorization": ""}).status_code == 200


def test_garbage_and_cut_connections_leave_no_trace(open_gateway, caplog):
    caplog.set_level(logging.WARNING)
    gateway = open_gateway()
    for message in (
        b"\x16\x03\x01\x02\x00",
        b"GET /\r\n\r\n",
        b"GET " + b"a" * 100_000,
        b"\r\n" * 50,
        b"POST / HTTP/1.1\r\n",
    ):
        with raw_socket(gateway) as connection:
            connection.sendall(message)
    with raw_socket(gateway) as connection:
        connection.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\ntoken=")
    with client_of(gateway) as client:
        assert client.get("/healthz").status_code == 200
    assert not complaints(caplog)


@pytest.mark.parametrize("size", [1, 32 * 1024])
def test_an_application_that_is_just_sending_when_a_client_breaks_off_is_not_blamed(open_gateway, caplog, size):
    router = APIRouter()

    @router.websocket("/flood")
    async def flood(websocket: WebSocket) -> None:
        await websocket.accept()
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                await websocket.send_bytes(bytes(size))
                await asyncio.sleep(0)

    gateway = open_gateway(routers=[router])

    async def use():
        url = f"ws://127.0.0.1:{gateway.port}/flood"
        async with websockets.asyncio.client.connect(url, proxy=None, max_size=None) as client:
            await client.recv()
            client.protocol.send_text(b"\xff\xfe")
            client.transport.write(b"".join(client.protocol.data_to_send()))
            while True:
                await client.recv()

    for _ in range(5):
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            asyncio.run(use())
    assert not complaints(caplog)


def test_stop_ends_clients_that_do_not_read(open_scene, caplog):
    frames = Frames()
    gateway, _ = open_scene()
    gateway.app.include_router(stream_router(frames))
    request = f"GET /stream HTTP/1.1\r\nHost: localhost:{gateway.port}\r\n\r\n".encode()
    with raw_socket(gateway) as stream, raw_socket(gateway) as silent:
        stream.sendall(request)
        assert b"200 OK" in stream.recv(4096)
        until(lambda: frames.wanted)
        frames.publish(b"x" * 10_000_000)

        async def use():
            async with scene_socket(gateway) as client:
                await asyncio.to_thread(gateway.stop)
                await client.wait_closed()

        asyncio.run(use())
        assert gone(silent)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.slow
def test_2000_clients_come_and_go_and_leave_nothing(open_scene):
    gateway, _ = open_scene()
    request = f"GET /stats HTTP/1.1\r\nHost: localhost:{gateway.port}\r\n\r\n".encode()

    async def come_and_go(number):
        if number % 4:
            with raw_socket(gateway) as connection:
                connection.sendall(request if number % 2 else request[:9])
        else:
            async with scene_socket(gateway) as client:
                if number % 8:
                    client.transport.abort()

    async def cycles(count):
        for number in range(count):
            await come_and_go(number)

    def resources():
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    asyncio.run(cycles(200))
    threads, descriptors = resources()
    asyncio.run(cycles(2000))
    few = 10  # the pool of threads may have grown a little
    until(lambda: resources()[1] <= descriptors + few, lambda: str(resources()))
    assert resources()[0] <= threads + few
    with client_of(gateway) as client:
        assert client.get("/healthz").status_code == 200

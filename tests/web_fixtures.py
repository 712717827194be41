"""Doors on loopback for the tests of `web`, and clients that ask them."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading

import httpx
import msgspec
import pytest
import viser
import websockets.asyncio.client
import zstandard

from livegym.web.access import Access
from livegym.web.gateway import Gateway
from livegym.web.scene_proxy import SceneProxy
from tests.patience import PATIENCE_S

TOKEN = "a token/with+signs"
PROTOCOL = f"viser-v{viser.__version__}"


def complaints(caplog) -> list[logging.LogRecord]:
    """What was logged as a warning or worse: other tests may have set the level to debug."""
    return [record for record in caplog.records if record.levelno >= logging.WARNING]


@contextlib.contextmanager
def doors():
    """A function that opens doors, which are closed after the block."""
    with contextlib.ExitStack() as stack:

        def opened(
            token=None, read_only=False, hosts=None, port=0, routers=(), spectators=None, rate=None, owner=None, **more
        ):
            access = Access(token, read_only, hosts, spectators, owner, rate)
            gateway = Gateway(access, "127.0.0.1", port, **more)
            stack.callback(gateway.stop)
            for router in routers:
                gateway.app.include_router(router)
            gateway.start()
            return gateway

        yield opened


@pytest.fixture
def open_gateway():
    """open_gateway(token=..., spectators=..., read_only=...): a gateway that serves; closed after the test."""
    with doors() as opened:
        yield opened


@pytest.fixture(scope="module")
def scene():
    """A viser server with one box, whose position tests move."""
    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    server.box = server.scene.add_box("/box", dimensions=(1.0, 1.0, 1.0))
    yield server
    server.stop()


@pytest.fixture
def open_scene(open_gateway, scene):
    """open_scene(): a door with the proxy of `scene` on it, and the proxy."""

    def opened(on_open=lambda page, port: None, on_close=lambda page, port: None, **access):
        proxy = SceneProxy(scene, on_open, on_close)
        return open_gateway(routers=[proxy.router], **access), proxy

    return opened


def client_of(gateway, **settings):
    """An HTTP client that follows no redirects."""
    return httpx.Client(base_url=f"http://127.0.0.1:{gateway.port}", trust_env=False, **settings)


def scene_socket(gateway, query="", **settings):
    """A client as viser's page opens it: `async with scene_socket(door) as socket`."""
    url = f"ws://127.0.0.1:{gateway.port}/scene/ws{query}"
    return websockets.asyncio.client.connect(url, subprotocols=[PROTOCOL], proxy=None, max_size=None, **settings)


def raw_socket(gateway):
    """A TCP connection that has said nothing yet."""
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE_S)


@contextlib.contextmanager
def moving(step):
    """Calls step(1), step(2), ... 100 times a second, from a thread, until the end of the block."""
    done = threading.Event()

    def drive():
        count = 0
        while not done.wait(0.01):
            count += 1
            step(count)

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def messages_in(frame):
    """The messages in one of viser's frames."""
    size = int.from_bytes(frame[8:16], "little")
    return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(frame[16 : 16 + size]))["messages"]


def positions_in(frame):
    """Positions (x, y, z) of all position messages in one of viser's frames."""
    return [m["position"] for m in messages_in(frame) if m["type"] == "SetPositionMessage"]

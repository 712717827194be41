"""viser behind the door: what passes, what does not, and clients that stall, lie or leave."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import threading

import msgspec
import numpy as np
import pytest
import viser
import websockets.asyncio.client
import websockets.exceptions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from viser import _messages as viser_messages

from livegym.web import scene_proxy
from livegym.web.rates import TokenBucket
from livegym.web.scene_messages import Filter, Unreadable, ViewerCameraMessage
from tests.patience import PATIENCE_S, until
from tests.web_fixtures import PROTOCOL, client_of, complaints, doors, moving, positions_in, raw_socket, scene_socket

pytest_plugins = ["web_fixtures"]

CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": [1.0, 0.0, 0.0, 0.0],
    "position": [1, 2.5, 3],  # JavaScript writes whole numbers as integers
    "fov": 1.0,
    "near": 0.01,
    "far": 1000,
    "image_height": 480,
    "image_width": 640,
    "look_at": [0.0, 0.0, 0.0],
    "up_direction": [0, 0, 1],
}
CLICK = {
    "type": "SceneNodeClickMessage",
    "name": "/box",
    "instance_index": None,
    "ray_origin": [0.0, 0.0, 0.0],
    "ray_direction": [1.0, 0.0, 0.0],
    "screen_pos": [0.5, 0.5],
    "modifier": None,
    "owner": "",
}
POINTER = {
    "type": "ScenePointerMessage",
    "event_type": "click",
    "ray_origin": [0.0, 0.0, 0.0],
    "ray_direction": [1.0, 0.0, 0.0],
    "screen_pos": [[0.5, 0.5]],
    "modifier": None,
}
DRAG = {
    "type": "SceneNodeDragMessage",
    "phase": "start",
    "name": "/box",
    "instance_index": 3,
    "start_position": [0.0, 0.0, 0.0],
    "start_screen_pos": [0.5, 0.5],
    "end_position": [0.0, 0.0, 0.0],
    "end_screen_pos": [0.5, 0.5],
    "button": "left",
    "modifier": "shift",
    "owner": "",
}
encode = msgspec.msgpack.encode


@pytest.fixture(scope="module")
def open_to_all(scene):
    with doors() as opened:
        yield opened(routers=[scene_proxy.SceneProxy(scene).router])


def two_types(first, second):
    """A map with two entries "type", of which a reader may take either."""
    raw = encode(first)
    return bytes([raw[0] + 1]) + raw[1:] + encode("type") + encode(second)


def closing_code(gateway, *messages):
    """The code with which the door ends a client that sends `messages`."""

    async def use():
        async with scene_socket(gateway) as client:
            for message in messages:
                await client.send(message)
            await client.wait_closed()
            return client.close_code

    return asyncio.run(use())


def heard(scene, gateway, *messages):
    """Names of the messages that viser hears when a client sends these and then its camera."""
    names, done = [], threading.Event()

    def handler(kind):
        def handle(client, message):
            names.append(kind.__name__)
            if kind is viser_messages.ViewerCameraMessage and message.image_width == 7:
                done.set()

        return handle

    handlers = {kind: handler(kind) for kind in viser_messages.Message.get_subclasses()}
    for kind, handle in handlers.items():
        scene._websock_server.register_handler(kind, handle)

    async def use():
        async with scene_socket(gateway) as client:
            for message in messages:
                await client.send(message)
            await client.send(encode(CAMERA | {"image_width": 7}))
            assert await asyncio.to_thread(done.wait, PATIENCE_S)

    try:
        asyncio.run(use())
    finally:
        for kind, handle in handlers.items():
            scene._websock_server.unregister_handler(kind, handle)
    return names[:-1]


def test_the_message_has_the_fields_of_visers_own():
    viser_fields = viser_messages.ViewerCameraMessage.__dataclass_fields__
    assert set(ViewerCameraMessage.__struct_fields__) == set(viser_fields)


def test_visers_page_is_served_once_fetched_and_kept_by_browsers(open_scene):
    gateway, _ = open_scene()
    with client_of(gateway) as client:
        zipped = client.get("/scene/?page=a")
        plain = client.get("/scene", headers={"accept-encoding": "identity"})
        assert zipped.headers["content-encoding"] == "gzip"
        assert zipped.text == plain.text
        assert "<title>Viser</title>" in plain.text
        again = client.get("/scene/", headers={"if-none-match": zipped.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_only_where_somebody_looks_from_reaches_viser(scene, open_scene):
    gateway, proxy = open_scene()
    assert heard(scene, gateway, *map(encode, [CLICK, CAMERA, POINTER, DRAG])) == [CAMERA["type"]]
    assert proxy.dropped == 3


def test_nothing_else_reaches_viser(scene, open_scene, monkeypatch):
    tunnels = []
    monkeypatch.setattr(scene, "request_share_url", lambda: tunnels.append(1))
    gateway, proxy = open_scene()
    others = {kind.__name__ for kind in viser_messages.Message.get_subclasses()} - {CAMERA["type"]}
    assert {"ShareUrlRequest", "FileTransferStartUpload", "GuiUpdateMessage", "CommandTriggerMessage"} <= others
    messages = [encode({"type": name}) for name in sorted(others)]
    assert heard(scene, gateway, *messages) == []
    assert proxy.dropped == len(others)
    assert tunnels == []


def test_viser_itself_takes_nobody_who_did_not_come_through_the_gateway(open_gateway, monkeypatch):
    """It listens without a token on loopback, where any page in a browser of this machine could reach it."""
    tunnels = []
    monkeypatch.setattr(viser.ViserServer, "request_share_url", lambda server: tunnels.append(server))
    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    open_gateway(routers=[scene_proxy.SceneProxy(server).router])

    async def use():
        url = f"ws://127.0.0.1:{server.get_port()}/"
        async with websockets.asyncio.client.connect(url, subprotocols=[PROTOCOL], proxy=None) as client:
            with contextlib.suppress(websockets.exceptions.ConnectionClosed):
                for _ in range(10):  # with more than fit into its queue, viser would wait for our goodbye behind them
                    await client.send(encode({"type": "ShareUrlRequest"}))
            await client.wait_closed()
            return client.close_code

    assert [asyncio.run(use()) for _ in range(5)] == [1008] * 5
    server.stop()
    assert tunnels == []


@pytest.mark.parametrize("secret", [False, True])
def test_another_user_who_takes_the_proxys_port_or_finds_the_secret_gets_no_scene(open_scene, scene, caplog, secret):
    """Every user may bind any address of loopback, and so the port of a connection that the proxy has open."""
    gateway, _ = open_scene()
    headers = {scene_proxy.SECRET_HEADER: scene_proxy._SECRET} if secret else {}

    async def use():
        async with scene_socket(gateway) as browser:
            await browser.recv()
            (own,) = scene_proxy._DIALLED
            with socket.socket() as stranger:
                stranger.bind(("127.0.0.1", 0) if secret else ("127.0.0.2", own[1]))
                stranger.connect(("127.0.0.1", scene.get_port()))
                url = f"ws://127.0.0.1:{scene.get_port()}/"
                connected = websockets.asyncio.client.connect(
                    url, sock=stranger, subprotocols=[PROTOCOL], additional_headers=headers, proxy=None
                )
                async with connected as client:
                    with contextlib.suppress(websockets.exceptions.ConnectionClosed):
                        for _ in range(40):
                            await client.send(b"nonsense")
                    with pytest.raises(websockets.exceptions.ConnectionClosed):
                        await client.recv()
                    return client.close_code

    assert asyncio.run(use()) == 1008
    assert not complaints(caplog)


def test_viser_takes_no_uploads(open_scene, scene):
    gateway, _ = open_scene()

    async def use():
        async with scene_socket(gateway) as browser:
            await browser.send(encode(CAMERA))
            await asyncio.to_thread(until, scene.get_clients)
            return [set(client._websock_connection._incoming_handlers) for client in scene.get_clients().values()]

    assert asyncio.run(use()) == [{viser_messages.ViewerCameraMessage}]


def test_a_camera_without_a_height_is_no_camera(open_to_all):
    """Whoever divides by it would end the drawing for everybody."""
    for name in ("image_height", "image_width"):
        with pytest.raises(Unreadable):
            Filter().passed(encode({**CAMERA, name: 0}))


@pytest.mark.parametrize(
    ("first", "second"), [("ViewerCameraMessage", "ShareUrlRequest"), ("ShareUrlRequest", "ViewerCameraMessage")]
)
def test_a_second_type_in_the_same_map_smuggles_nothing(first, second):
    smuggled = two_types({**CAMERA, "type": first}, second)
    assert msgspec.msgpack.decode(smuggled)["type"] == second
    try:
        passed = Filter().passed(smuggled)
    except Unreadable:
        passed = None
    assert passed is None or b"ShareUrlRequest" not in passed


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("text", 1003),
        (b"", 1007),
        (b"\xc1", 1007),
        (b"\x91" * 60_000, 1007),
        (encode([1, 2]), 1007),
        (encode({"type": 1}), 1007),
        (encode(CAMERA | {"more": 1}), 1007),
        (encode(CAMERA | {"fov": float("nan")}), 1007),
        (encode(CAMERA | {"position": [1, 2]}), 1007),
        (encode({"type": "ViewerCameraMessage"}), 1007),
        (encode(CAMERA) + b"\0", 1007),
        (b"x" * 70_000, 1009),
    ],
)
def test_what_visers_client_does_not_send_ends_the_connection(scene, open_to_all, message, code, caplog):
    caplog.set_level(logging.WARNING)
    assert closing_code(open_to_all, message) == code
    assert not complaints(caplog)


def test_text_that_is_none_ends_the_connection_quietly(open_to_all, caplog):
    async def use():
        async with scene_socket(open_to_all) as client:
            client.protocol.send_text(b"\xff\xfe")
            client.transport.write(b"".join(client.protocol.data_to_send()))
            await client.wait_closed()
            return client.close_code

    assert asyncio.run(use()) == 1007
    assert not complaints(caplog)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=200),
        st.dictionaries(st.text(max_size=5), st.integers(0, 9)).map(encode),
        st.fixed_dictionaries(
            {}, optional={k: st.one_of(st.just(v), st.none(), st.floats(), st.text()) for k, v in CLICK.items()}
        ).map(encode),
    )
)
def test_the_filter_gives_a_message_or_nothing_or_unreadable(raw):
    try:
        passed = Filter().passed(raw)
    except Unreadable:
        return
    assert passed is None or viser_messages.Message.deserialize(passed)


@pytest.mark.slow
def test_whatever_is_sent_others_continue(scene, open_to_all, caplog):
    caplog.set_level(logging.WARNING)

    async def garbage(raw):
        async with scene_socket(open_to_all) as client:
            await client.send(raw)
            if isinstance(raw, bytes):
                client.transport.write(raw)  # no frame at all
            client.transport.close()

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.one_of(st.binary(max_size=100), st.text(max_size=20)))
    def disturb(raw):
        asyncio.run(garbage(raw))

    async def look():
        async with scene_socket(open_to_all) as client:
            await asyncio.to_thread(disturb)
            scene.box.position = (5.0, 0.0, 0.0)
            while not any(position == [5.0, 0.0, 0.0] for position in positions_in(await client.recv())):
                pass

    asyncio.run(look())
    assert not complaints(caplog)


def test_who_leaves_while_it_is_let_in_leaves_no_trace(open_to_all, caplog):
    caplog.set_level(logging.WARNING)
    lines = [
        "GET /scene/ws HTTP/1.1",
        f"Host: localhost:{open_to_all.port}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"Sec-WebSocket-Protocol: {PROTOCOL}",
    ]
    for number in range(60):
        with raw_socket(open_to_all) as connection:
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            if number % 2:  # a reset instead of a goodbye
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with client_of(open_to_all) as client:
        assert client.get("/healthz").status_code == 200
    assert not complaints(caplog)


def test_a_flood_is_thinned_and_a_long_one_ended(open_scene, monkeypatch):
    monkeypatch.setattr(scene_proxy, "MESSAGES", (0.0, 5.0))
    monkeypatch.setattr(scene_proxy, "ABUSE", (0.0, 20.0))
    gateway, proxy = open_scene()
    assert closing_code(gateway, *[encode(CAMERA)] * 21) == 1008
    assert proxy.dropped == 15


def test_a_bucket_fills_with_time():
    now = [0.0]
    bucket = TokenBucket(rate=2.0, burst=3.0, clock=lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] = 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]
    now[0] = 100.0
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


def test_a_page_gets_its_viser_client_number(scene, open_scene):
    reported, ports = [], []
    gateway, _ = open_scene(
        on_open=lambda page, port: reported.append(("open", page, port)),
        on_close=lambda page, port: reported.append(("close", page, port)),
    )
    websock = scene._websock_server
    websock.on_client_connect(
        lambda client: ports.append((websock._live_connections[client.client_id].remote_address[1], list(reported)))
    )

    async def use():
        async with scene_socket(gateway, "?page=a-B_9") as client:
            await client.recv()
            while not ports:
                await asyncio.sleep(0.01)
        while len(reported) < 2:
            await asyncio.sleep(0.01)

    asyncio.run(use())
    ((port, reported_before),) = ports
    assert reported_before == [("open", "a-B_9", port)]  # before viser knew
    assert reported == [("open", "a-B_9", port), ("close", "a-B_9", port)]


@pytest.mark.parametrize("page", ["", "a/b", "x" * 65, "%C3%A4", "a%0a"])
def test_a_page_with_another_name_is_refused(open_to_all, page):
    async def use():
        async with scene_socket(open_to_all, f"?page={page}"):
            pass

    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        asyncio.run(use())
    assert refused.value.response.status_code == 400


def test_without_viser_the_scene_is_not_there(open_gateway):
    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    gateway = open_gateway(routers=[scene_proxy.SceneProxy(server).router])
    server.stop()
    with client_of(gateway) as client:
        assert client.get("/scene/").status_code == 502
    with pytest.raises(websockets.exceptions.InvalidStatus) as refused:
        asyncio.run(scene_socket(gateway).__aenter__())
    assert refused.value.response.status_code == 502


def test_visers_end_and_its_reason_reach_the_page(open_to_all):
    async def use():
        url = f"ws://127.0.0.1:{open_to_all.port}/scene"
        async with websockets.asyncio.client.connect(url, subprotocols=["viser-v0.0.0"], proxy=None) as client:
            await client.wait_closed()
            return client.close_code, client.close_reason

    code, reason = asyncio.run(use())
    assert code == 1002
    assert reason.startswith("Version mismatch")


def test_when_viser_stops_its_clients_are_notified(open_gateway):
    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    gateway = open_gateway(routers=[scene_proxy.SceneProxy(server).router])

    async def use():
        async with scene_socket(gateway) as client:
            await client.recv()
            await asyncio.to_thread(server.stop)
            await client.wait_closed()
            return client.close_code

    assert asyncio.run(use()) in (1001, 1011)


def test_a_client_that_stalls_holds_up_nobody_and_comes_back_to_the_present(scene, open_to_all):
    """While one client reads 2 MB the other reads nothing, and then has little to catch up with."""
    places = np.random.default_rng(0).random((2000, 3), dtype=np.float32)
    axes = scene.scene.add_batched_axes("/axes", np.tile([1.0, 0.0, 0.0, 0.0], (len(places), 1)), places)

    def step(count):
        with scene.atomic():
            axes.batched_positions = places + count
            scene.box.position = (float(count), 0.0, 0.0)

    def newest(frame):
        return max((position[0] for position in positions_in(frame)), default=0.0)

    async def use():
        settings = {"max_queue": 1, "ping_interval": None, "close_timeout": 0.1}
        async with scene_socket(open_to_all, **settings) as live, scene_socket(open_to_all, **settings) as stalled:
            stalled.transport.pause_reading()
            seen, read = [0.0], 0
            while read < 2_000_000:
                frame = await live.recv()
                seen, read = [*seen, newest(frame)], read + len(frame)
            stalled.transport.resume_reading()
            shown, caught_up = 0.0, 0
            while shown < max(seen):
                frame = await stalled.recv()
                shown, caught_up = newest(frame), caught_up + len(frame)
            return seen, caught_up

    with moving(step):
        seen, caught_up = asyncio.run(use())
    axes.remove()
    assert len(set(seen)) > 50
    assert caught_up < 600_000  # some 350,000, of which the client's kernel holds 130,000

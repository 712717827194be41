"""Pictures at /stream."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from livegym.web.mjpeg import MAX_CLIENTS, Frames, stream_router
from tests.patience import PATIENCE_S, until
from tests.web_fixtures import client_of, doors

pytest_plugins = ["web_fixtures"]


@pytest.fixture(scope="module")
def frames():
    return Frames()


@pytest.fixture(scope="module")
def gateway(frames):
    with doors() as opened:
        yield opened(routers=[stream_router(frames)])


def parts_of(chunks, count):
    """The first `count` pictures in a multipart body."""
    data = b""
    while data.count(b"\r\n--frame\r\n") < count:
        data += next(chunks)
    return [part.partition(b"\r\n\r\n")[2] for part in data.split(b"\r\n--frame\r\n")[:count]]


def test_a_client_gets_each_picture_whole_and_at_once(gateway, frames):
    assert not frames.wanted
    with client_of(gateway) as client, client.stream("GET", "/stream?fps=60") as answer:
        assert answer.headers["content-type"] == "multipart/x-mixed-replace; boundary=frame"
        chunks = answer.iter_raw()
        until(lambda: frames.wanted)
        frames.publish(b"one")
        assert parts_of(chunks, 1) == [b"one"]
        frames.publish(b"two--frame")
        assert parts_of(chunks, 1) == [b"two--frame"]
    until(lambda: not frames.wanted)


def test_a_slow_client_gets_the_newest_and_no_queue(gateway, frames):
    with client_of(gateway) as client, client.stream("GET", "/stream?fps=60") as answer:
        chunks = answer.iter_raw()
        until(lambda: frames.wanted)
        frames.publish(b"first")
        parts_of(chunks, 1)
        for number in range(1000):
            frames.publish(b"%04d" % number * 25_000)  # 100 kB
        until(lambda: frames._newest is not None and frames._newest.startswith(b"0999"))
        shown = parts_of(chunks, 1)[0][:4]
        while shown != b"0999":
            skipped, shown = shown, parts_of(chunks, 1)[0][:4]
            assert int(shown) > int(skipped)


def test_a_picture_of_yesterday_is_not_shown(gateway, frames):
    frames.publish(b"nobody looks")
    with client_of(gateway) as client, client.stream("GET", "/stream"):
        until(lambda: frames.wanted)
        frames.publish(b"old")
        until(lambda: frames._newest == b"old")
    until(lambda: not frames.wanted)
    assert frames._newest is None


@pytest.mark.parametrize("fps", ["0", "61", "-1", "nan", "inf", "1e400", "x", "", "1" * 5000])
def test_a_rate_out_of_range_is_an_error(gateway, fps):
    with client_of(gateway) as client:
        answer = client.get("/stream", params={"fps": fps})
    assert answer.status_code == 400
    assert "1 to 60" in answer.text


def test_why_there_are_no_pictures_is_reported(gateway, frames, monkeypatch):
    monkeypatch.setattr(frames, "unavailable", "EGL is missing")
    with client_of(gateway) as client:
        answer = client.get("/stream")
    assert (answer.status_code, answer.text) == (503, "No pictures: EGL is missing\n")


def test_a_ninth_client_is_told_to_wait(gateway, frames):
    with client_of(gateway) as client:
        open_streams = [client.send(client.build_request("GET", "/stream"), stream=True) for _ in range(MAX_CLIENTS)]
        until(lambda: frames.viewers == MAX_CLIENTS)
        assert client.get("/stream").status_code == 503
        for stream in open_streams:
            stream.close()
        until(lambda: not frames.wanted)


def test_of_many_that_come_together_eight_get_a_place(gateway, frames):
    """Their places were counted when their first picture was waited for, by when all of them had been let in."""

    def ask(client: httpx.Client) -> None:
        with client.stream("GET", "/stream") as answer:
            answers.append(answer.status_code)
            done.wait(PATIENCE_S)

    answers: list[int] = []
    done = threading.Event()
    with client_of(gateway) as client, ThreadPoolExecutor(20) as pool:
        for _ in range(20):
            pool.submit(ask, client)
        until(lambda: len(answers) == 20)
        done.set()
    assert sorted(answers) == [200] * MAX_CLIENTS + [503] * 12
    until(lambda: not frames.wanted)


def test_publish_after_the_end_is_no_error(open_gateway):
    frames = Frames()
    gateway = open_gateway(routers=[stream_router(frames)])
    with client_of(gateway) as client, client.stream("GET", "/stream"):
        until(lambda: frames.wanted)
    gateway.stop()
    frames.publish(b"too late")

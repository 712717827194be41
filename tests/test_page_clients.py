"""Many who watch one test: each sees what it chose, and nobody is held up by another."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from tests.page_fixtures import (
    Line,
    OwnBrowser,
    Served,
    at_rest,
    browser,
    change,
    changed,
    needs_chromium,
    open_page,
    picture,
    scene_client,
    text,
    wait,
)
from tests.patience import until

__all__ = ["browser", "open_page"]
pytestmark = [pytest.mark.slow, needs_chromium]
MANY = 50


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Two carts that play on."""
    carts = ("task=Cartpole", "agent=random", "testGamesNum=0", "numEnvs=2", "streamFps=10")
    with Served(tmp_path_factory.mktemp("clients"), *carts) as server, Line(server) as line:
        line.until(lambda state: state.get("phase") == "playing")
        line.socket.close()
        until(lambda: server.stats()["clients"] == 0)
        yield server
        assert server.end() == 0
        assert "Traceback" not in server.text


def watched(server):
    """(open pages, clients of the scene)"""
    stats = server.stats()
    return stats["clients"], stats["scene_clients"]


def pause(server, on):
    with Line(server) as line:
        line.ask("pause", on=on)
        line.until(lambda state: state.get("paused") is on)


@pytest.fixture(autouse=True)
def _playing(server):
    pause(server, False)


def continues(server, line, frames):
    """The test plays in real time and both of a client's connections get what is new."""
    for _ in range(5):
        assert frames.recv(20)
    episodes = line.drain()["episodes"]
    line.until(lambda state: state["episodes"] > episodes and state["real_time"])
    assert server.stats()["fps"] > 0


def test_each_page_has_a_camera_of_its_own(server, open_page):
    pause(server, True)
    with Line(server) as line:
        one, two = open_page(server.url), open_page(server.url)
        first, second = at_rest(one), at_rest(two)
        assert change(first, second) == 0
        one.click("#env-next")
        one.click("[data-camera=top]")
        changed(one, first)
        assert (text(one, "#env"), text(two, "#env")) == ("env 1", "env 0")
        two.wait_for_timeout(500)
        assert change(second, picture(two)) == 0
        two.uncheck("#all")
        changed(two, second)
        assert one.is_checked("#all")
        one.click("#pause")
        line.until(lambda state: not state["paused"])
        wait(two, lambda: "× real" in text(two, "#rate"))
        seen = {text(two, "#rate"), *two.locator("#foot").all_text_contents()}
        assert "3 watching" in str(seen)


def test_clients_that_never_read_hold_up_nobody(server):
    """Each stops reading after a message or two, as a browser does that has no time."""
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(Line(server, max_queue=1))
            stack.enter_context(contextlib.closing(scene_client(server, max_queue=1)))
        line = stack.enter_context(Line(server))
        frames = stack.enter_context(contextlib.closing(scene_client(server)))
        until(lambda: watched(server) == (5, 5))
        for _ in range(3):
            continues(server, line, frames)
    until(lambda: watched(server) == (0, 0))


def test_a_browser_that_is_stopped_holds_up_nobody_and_one_that_is_killed_is_gone(server, tmp_path):
    with OwnBrowser(server.url, tmp_path) as alone:
        until(lambda: watched(server) == (1, 1), lambda: str(watched(server)))
        with Line(server) as line, contextlib.closing(scene_client(server)) as frames:
            alone.send(signal.SIGSTOP)
            for _ in range(3):
                continues(server, line, frames)
            alone.send(signal.SIGKILL)
            until(lambda: watched(server) == (1, 1), lambda: str(watched(server)))
            continues(server, line, frames)
    until(lambda: watched(server) == (0, 0))


def resources(server):
    """(threads, open files) of the server."""
    process = Path(f"/proc/{server.process.pid}")
    threads = int((process / "status").read_text().partition("Threads:")[2].split()[0])
    return threads, len(os.listdir(process / "fd"))


def crowd(server):
    """Many come, are all told and shown something, and leave."""
    with contextlib.ExitStack() as stack:
        lines, scenes = [], []
        for _ in range(MANY):
            lines.append(stack.enter_context(Line(server)))
            scenes.append(stack.enter_context(contextlib.closing(scene_client(server))))
        until(lambda: watched(server) == (MANY, MANY), lambda: str(watched(server)))
        for line, frames in zip(lines, scenes, strict=True):
            line.until(lambda state: state["clients"] == MANY)
            assert line.hello["num_envs"] == 2
            assert frames.recv(20)
    until(lambda: watched(server) == (0, 0), lambda: str(watched(server)))


def test_fifty_clients_are_all_served_and_leave_nothing(server):
    pause(server, True)
    crowd(server)  # pools of threads grow to their size
    pause(server, False)
    until(lambda: watched(server) == (0, 0))
    threads, files = resources(server)
    crowd(server)
    few = 5
    until(lambda: resources(server)[1] <= files + few, lambda: str(resources(server)))
    assert resources(server)[0] <= threads + few

"""From the first address to the last page: ports, restarts, waiting, ends."""

from __future__ import annotations

import json
import signal
import socket

import pytest

from tests.page_fixtures import (
    TRAINING,
    Served,
    browser,
    changed,
    needs_chromium,
    open_page,
    paused,
    picture,
    text,
    wait,
    wait_scene,
)
from tests.patience import PATIENCE_S
from tests.processes import Running, runs

__all__ = ["browser", "open_page"]
pytestmark = [pytest.mark.slow, needs_chromium]
CARTS = ("task=Cartpole", "agent=random", "testGamesNum=0", "streamFps=5", "numEnvs=2")


def ends_well(server, cwd, status=None, signum=signal.SIGINT):
    """The test ends as it should: results, and no complaint."""
    assert (server.end(signum) if status is None else server.process.wait(PATIENCE_S)) == 0
    found = json.loads((runs(cwd, "test")[-1] / "results.json").read_text())
    assert found["task"] == "Cartpole"
    for word in ("Traceback", "ERROR", "Exception"):
        assert word not in server.text


def test_a_taken_port_is_reported_and_the_address_names_the_next(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with Served(tmp_path, *CARTS, f"streamPort={port}") as server:
            assert server.port > port
            assert f"using port {server.port} instead" in server.text
            assert server.stats()["clients"] == 0
            ends_well(server, tmp_path)


def test_a_page_left_open_continues_with_the_next_test_at_its_port(tmp_path, open_page):
    """It knew a scene by its number alone, which another test counts from 1 as well."""
    with Served(tmp_path, *CARTS, name="first") as server:
        paused(server)
        page, port = open_page(server.url), server.port
        carts = picture(page)
        ends_well(server, tmp_path)
    wait(page, lambda: text(page, "#connection") == "reconnecting")
    other = ("task=Ant", "agent=zero", "testGamesNum=0", "numEnvs=1", "streamFps=5")
    with Served(tmp_path, *other, f"streamPort={port}", name="second") as server:
        assert server.port == port
        wait(page, lambda: text(page, "#task") == "Ant")
        paused(server)
        changed(page, carts)
        assert server.end(signal.SIGTERM) == 0
        assert "Traceback" not in server.text


def test_a_page_left_open_asks_for_the_token_that_the_next_test_wants(tmp_path, open_page):
    with Served(tmp_path, *CARTS, name="first") as server:
        page, port = open_page(server.url, playing=False), server.port
        wait(page, lambda: text(page, "#connection") == "live")
        ends_well(server, tmp_path, signum=signal.SIGTERM)
    with Served(tmp_path, *CARTS, f"streamPort={port}", "streamToken=0123456789", name="second") as server:
        page.wait_for_selector("#token", timeout=1000 * PATIENCE_S)
        page.fill("#token", "0123456789")
        page.click("button")
        wait(page, lambda: text(page, "#connection") == "live")


def test_a_page_shows_what_is_waited_for_and_comes_alive_with_a_training(tmp_path, open_page):
    """While there were no environments it chose number -1, and kept it."""
    with Served(tmp_path, "testGamesNum=0", "checkpoint=latest", "numEnvs=2", "streamFps=5") as server:
        page = open_page(server.url, playing=False)
        wait(page, lambda: "waiting for a policy" in text(page, "#curtain-text"))
        assert page.is_visible("#curtain")
        assert server.stats()["phase"] == "waiting"
        with Running(tmp_path, *TRAINING, name="training"):
            wait_scene(page)
        assert not page.is_visible("#curtain")
        assert (text(page, "#task"), text(page, "#env")) == ("Cartpole", "env 0")
        page.click("#env-next")
        assert text(page, "#env") == "env 1"
        assert server.stats()["refused_messages"] == 0
        assert page.console_errors == []


def test_a_test_that_ends_by_itself_lets_its_page_go(tmp_path, open_page):
    carts = [a for a in CARTS if not a.startswith("testGamesNum")]
    with Served(tmp_path, *carts, "testGamesNum=4", "playSpeed=0.0625") as server:
        paused(server)
        page = open_page(server.url, playing=False)
        wait(page, lambda: page.get_attribute("body", "data-phase") == "playing")
        page.select_option("#speed", label="max")
        page.click("#pause")
        ends_well(server, tmp_path, status=0)
        wait(page, lambda: text(page, "#connection") == "reconnecting")
        assert text(page, "#task") == "Cartpole"  # what was last known stays

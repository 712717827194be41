"""Who may open the page, where other machines reach it; and where its token is not to be found."""

from __future__ import annotations

import re

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.page_fixtures import Line, Served, badges, browser, needs_chromium, open_page, scene_client, text, wait
from tests.patience import until
from tests.processes import Running, runs

__all__ = ["browser", "open_page"]
pytestmark = [pytest.mark.slow, needs_chromium]
CARTS = ("task=Cartpole", "agent=random", "testGamesNum=0", "numEnvs=2", "streamFps=5", "streamBindAll=true")
GIVEN = "a-token-0123"


def files_with(cwd, token):
    """Files below the run directories in which the token stands."""
    until(lambda: any((cwd / "runs").rglob("train.log")))
    return [path for path in (cwd / "runs").rglob("*") if path.is_file() and token.encode() in path.read_bytes()]


def status(address, **settings):
    return httpx.get(address, trust_env=False, **settings).status_code


def refused(connect, server):
    with pytest.raises(InvalidStatus) as answer:
        connect(server)
    return answer.value.response.status_code


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A test that whoever has the generated token may watch and control."""
    cwd = tmp_path_factory.mktemp("guarded")
    with Served(cwd, *CARTS) as server:
        server.cwd, server.token = cwd, server.url.partition("?token=")[2]
        assert len(server.token) >= 12
        yield server


def test_the_address_without_its_token_asks_for_it(guarded, open_page):
    assert "security: streamBindAll=true lets anyone with the token watch and control" in guarded.text
    assert status(guarded.bare) == 401
    page = open_page(guarded.bare, playing=False)
    page.fill("#token", "wrong")
    page.click("button")
    assert "That token is wrong." in text(page, "form")
    page.fill("#token", guarded.token)
    page.click("button")
    wait(page, lambda: text(page, "#connection") == "live")
    wait(page, lambda: guarded.stats()["scene_clients"] == 1)


def test_the_address_with_it_opens_and_loses_it(guarded, open_page):
    page = open_page(guarded.url, playing=False)
    wait(page, lambda: text(page, "#connection") == "live")
    assert "token" not in page.url
    assert page.evaluate("document.cookie") == ""  # scripts cannot read it
    page.reload()
    wait(page, lambda: text(page, "#connection") == "live")


def test_nobody_connects_without_it(guarded):
    assert refused(Line, guarded) == 401
    assert refused(scene_client, guarded) == 401
    for path in ("stats", "metrics", "stream", "page.js", "scene/"):
        assert status(f"{guarded.bare}{path}") == 401


def test_a_generated_token_is_in_no_file(guarded):
    for url in (guarded.url, guarded.spectators_url):
        assert files_with(guarded.cwd, url.partition("?token=")[2]) == []


def test_an_operator_controls_and_a_spectator_only_looks(guarded, open_page):
    operator, spectator = (open_page(url, playing=False) for url in (guarded.url, guarded.spectators_url))
    for page in (operator, spectator):
        wait(page, lambda page=page: page.get_attribute("body", "data-phase") == "playing")
    assert spectator.get_attribute("body", "data-read-only") == "true"
    assert operator.get_attribute("body", "data-read-only") == "false"
    wait(spectator, lambda: text(spectator, "#you").startswith("spectator "))
    assert not spectator.is_visible("#pause")
    operator.on("dialog", lambda dialog: dialog.accept("Ada"))
    operator.click("#you")
    wait(operator, lambda: text(operator, "#you") == "Ada")
    operator.click("#pause")
    wait(operator, lambda: badges(operator, by=True) == ["paused by you"])
    wait(spectator, lambda: badges(spectator, by=True) == ["paused by Ada", "read only"])
    spectator.keyboard.press(" ")
    wait(spectator, lambda: "the spectators' token; operators have another one" in text(spectator, "#notice"))
    spectator.click("[data-camera=side]")
    assert spectator.get_attribute("[data-camera=side]", "aria-pressed") == "true"
    operator.click("#pause")
    wait(spectator, lambda: badges(spectator) == ["read only"])


def test_who_may_only_look_cannot_touch_and_a_given_token_is_in_no_file(tmp_path, open_page):
    with Served(tmp_path, *CARTS, "streamReadOnly=true", f"streamToken={GIVEN}") as server:
        page = open_page(server.url)
        assert page.get_attribute("body", "data-read-only") == "true"
        assert page.locator("#badges").text_content() == "read only"
        controls = page.locator(".control")
        assert controls.count() > 5
        assert not any(controls.nth(i).is_visible() for i in range(controls.count()))
        page.keyboard.press(" ")
        page.keyboard.press("r")
        with Line(server, additional_headers={"authorization": f"Bearer {GIVEN}"}) as line:
            line.ask("pause", on=True)
            line.ask("push", env_id=0, body="pole", force=[1.0, 0.0, 0.0], seconds=1.0)
            line.ask("view", env_id=1)
            line.until(lambda state: len(line.refused) == 2)
            assert set(line.refused) == {"this page is read-only (streamReadOnly)"}
            played = line.drain()["episodes"]
            assert not line.until(lambda state: state["episodes"] > played)["paused"]
        assert "security: streamBindAll=true lets anyone with the token watch this" in server.text
        assert server.end() == 0
    assert files_with(tmp_path, GIVEN) == []


def test_the_token_of_a_training_that_is_watched_is_in_no_file(tmp_path):
    watched = ("task=Cartpole", "numEnvs=32", "train.horizon_length=8", "maxIterations=100000", "watch=true")
    with Running(tmp_path, *watched, "streamPort=0", "streamBindAll=true", f"streamToken={GIVEN}") as training:
        training.wait_for("watch at http")
        told, served = (re.search(rf"{words} (\S+)", training.text)[1] for words in ("the page:", "watch at"))
        assert told == served  # the port was free, and the token is the same
        assert training.end() == 130
        assert "Traceback" not in training.text
    assert len(runs(tmp_path)) == 1
    assert files_with(tmp_path, GIVEN) == []

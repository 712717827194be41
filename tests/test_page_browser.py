"""The page's hands and eyes, in a real browser on a real test."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.page_fixtures import (
    Line,
    Served,
    at_rest,
    badges,
    browser,
    change,
    changed,
    needs_chromium,
    new_page,
    open_page,
    paused,
    picture,
    text,
    wait,
    wait_scene,
)
from tests.patience import PATIENCE_S, until
from tests.processes import TRAIN

__all__ = ["browser", "open_page"]
pytestmark = [pytest.mark.slow, needs_chromium]
PLAIN = ("task=Cartpole", "agent=random", "testGamesNum=0", "streamFps=10")
POLICY = TRAIN.parent / "docs" / "policies" / "BlindGrasping.pth"


@pytest.fixture(scope="module")
def watched(tmp_path_factory, browser):
    """A page on a test with four carts, and what a second page would be told of it."""
    with Served(tmp_path_factory.mktemp("watched"), *PLAIN) as server:
        paused(server)
        page = new_page(browser)
        page.goto(server.url)
        wait_scene(page)
        with Line(server) as line:
            yield SimpleNamespace(server=server, page=page, line=line)
        assert page.console_errors == []
        page.context.close()


@pytest.fixture
def fresh(watched):
    """The same, paused at the first step of all episodes and seen as at first."""
    page, line = watched.page, watched.line
    line.ask("pause", on=True)
    line.ask("speed", factor=1.0)
    line.ask("step")
    until(lambda: any(lengths(line)))  # so that zeros are those of this reset
    line.until(lambda state: state["paused"])
    line.ask("restart", env_id=None)
    reach(line, [0, 0, 0, 0])
    page.evaluate("document.activeElement.blur()")
    page.check("#all")
    while text(page, "#env") != "env 0":
        page.click("#env-before")
    page.click("[data-camera=three-quarter]")
    page.mouse.move(5, 5)
    return watched


def lengths(line):
    """Of the open episodes, by a page that is opened for it: on their own they are no news to one that is."""
    with Line(line.server) as other:
        return other.until(lambda state: "lengths" in state)["lengths"]


def reach(line, expected):
    """Waits until the open episodes are so long."""
    until(lambda: lengths(line) == expected, lambda: str(lengths(line)))


def test_the_scene_moves_while_it_plays_and_stands_still_while_paused(fresh):
    page, line = fresh.page, fresh.line
    still = at_rest(page)
    page.click("#pause")
    changed_to = line.until(lambda state: not state["paused"] and state["real_time"])
    assert changed_to["speed"] == 1.0
    wait(page, lambda: change(still, picture(page)) > 0.001)
    wait(page, lambda: "× real" in text(page, "#rate"))
    page.click("#pause")
    line.until(lambda state: state["paused"])
    wait(page, lambda: text(page, "#rate") == "paused")
    assert badges(page) == ["paused"]
    at = lengths(line)

    def still_for_a_second() -> bool:  # a busy machine draws the last frame late
        before = picture(page)
        page.wait_for_timeout(1000)
        return change(before, picture(page)) == 0

    wait(page, still_for_a_second)
    assert lengths(line) == at


def test_step_is_one_control_step_by_button_and_by_key_also_with_the_scene_in_focus(fresh):
    page, line = fresh.page, fresh.line
    page.click("#step")
    reach(line, [1, 1, 1, 1])
    page.keyboard.press(".")
    reach(line, [2, 2, 2, 2])
    page.mouse.click(280, 300)
    assert page.evaluate("document.activeElement.tagName") == "IFRAME"
    page.keyboard.press(".")
    reach(line, [3, 3, 3, 3])
    page.keyboard.press("]")
    wait(page, lambda: text(page, "#env") == "env 1")
    page.keyboard.press("r")
    reach(line, [3, 0, 3, 3])
    page.keyboard.press(" ")
    wait(page, lambda: text(page, "#pause") == "Pause")
    page.keyboard.press(" ")
    wait(page, lambda: text(page, "#pause") == "Resume")


def test_reset_begins_the_chosen_environment_or_all_anew(fresh):
    page, line = fresh.page, fresh.line
    page.click("#step")
    reach(line, [1, 1, 1, 1])
    page.click("#env-before")
    wait(page, lambda: text(page, "#env") == "env 3")
    page.click("#restart")
    reach(line, [1, 1, 1, 0])
    page.click("#restart-all")
    reach(line, [0, 0, 0, 0])


def test_the_environment_all_or_one_and_the_camera_change_the_picture(fresh):
    page, line = fresh.page, fresh.line
    for made in range(1, 6):
        page.click("#step")
        reach(line, [made] * 4)
    views = [at_rest(page)]
    page.uncheck("#all")
    views.append(changed(page, views[-1]))
    page.click("#env-next")
    assert text(page, "#env") == "env 1"
    views.append(changed(page, views[-1]))
    page.keyboard.press("[")
    again = changed(page, views[2])
    assert change(views[1], again) < change(views[1], views[2]) / 2  # the scene glides, to within 0.1 mm
    page.keyboard.press("a")
    assert change(views[0], changed(page, again)) < change(views[0], again) / 2
    views = views[:1]
    for name in ("front", "side", "top"):
        page.click(f"[data-camera={name}]")
        views.append(changed(page, views[-1]))
    page.keyboard.press("2")
    assert change(views[1], changed(page, views[-1])) == 0


def test_the_speed_is_chosen_by_the_list_and_by_keys(fresh):
    page, line = fresh.page, fresh.line
    page.select_option("#speed", label="1/2×")
    line.until(lambda state: state["speed"] == 0.5)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("-")
    line.until(lambda state: state["speed"] == 0.25)
    wait(page, lambda: page.input_value("#speed") == "0.25")
    page.keyboard.press("+")
    line.until(lambda state: state["speed"] == 0.5)
    page.select_option("#speed", label="max")
    line.until(lambda state: state["speed"] is None)


def test_episodes_are_plotted_and_one_with_a_push_does_not_count(fresh):
    page, line = fresh.page, fresh.line
    before = line.drain()["episodes"]
    page.select_option("#body", "pole")
    page.fill("#force", "3")
    page.click("[data-push='1,0,0']")
    line.ask("pause", on=False)
    line.until(lambda state: state["episodes"] >= before + 4 and len(line.of("terms")) >= 3)
    pushed = [episode["env"] for episode in line.of("episode") if not episode["counts"]]
    assert pushed == [0]
    wait(page, lambda: page.locator("#plot-return circle[opacity='0.75']").count() >= 4)
    assert page.locator("#plot-return circle[opacity='0.25']").count() == 1
    wait(page, lambda: page.locator("#plot-terms path").count() >= 1)
    page.select_option("#span", label="the whole test")
    assert page.locator("#plot-return circle").count() >= 5
    page.evaluate("document.activeElement.blur()")
    assert page.locator("#reasons .bar").count() == len(line.state["reasons"])
    assert "no swap yet" in text(page, "#plot-swaps")


def test_a_push_on_no_such_environment_is_reported_on_every_page(fresh):
    fresh.line.ask("push", env_id=99, body="pole", force=[1.0, 0.0, 0.0], seconds=0.1)
    wait(fresh.page, lambda: "environment 99" in text(fresh.page, "#notice"))
    assert fresh.page.is_visible("#notice")


def test_the_help_takes_the_keys_while_it_is_open(fresh):
    page, line = fresh.page, fresh.line
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press(".")
    page.keyboard.press("Escape")
    assert not page.is_visible("#keys")
    page.click("#help")
    page.click("#keys button")
    assert not page.is_visible("#keys")
    page.wait_for_timeout(500)
    assert lengths(line) == [0, 0, 0, 0]


def test_colours_survive_a_reload(watched, open_page):
    page = open_page(watched.server.url, playing=False)
    wait(page, lambda: page.get_attribute("html", "data-theme") == "light")
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "dark"
    page.reload()
    wait(page, lambda: page.get_attribute("html", "data-theme") == "dark")
    wait(page, lambda: "darkMode" in (page.get_attribute("#scene iframe", "src", timeout=1000 * PATIENCE_S)))


def contacts_in_sight(page, line) -> np.ndarray:
    """The picture with contact points, at a moment at which there are some that no finger hides."""
    for _ in range(30):
        plain = at_rest(page)
        page.check("#contacts")
        page.wait_for_timeout(1000)  # the points come with the next message
        points = at_rest(page)
        if change(plain, points) > 0:
            return points
        page.uncheck("#contacts")
        line.ask("pause", on=False)
        page.wait_for_timeout(700)
        line.ask("pause", on=True)
    raise AssertionError("no contact point was seen at 30 moments")


def test_a_grasp_shows_its_contacts_and_their_forces(tmp_path, open_page):
    asked = ("task=BlindGrasping", f"checkpoint={POLICY}", "testGamesNum=0", "numEnvs=1", "streamFps=10")
    with Served(tmp_path, *asked) as server, Line(server) as line:
        line.until(lambda state: "lengths" in state)
        until(lambda: lengths(line)[0] > 60)
        line.ask("pause", on=True)
        page = open_page(server.url)
        assert text(page, "#task") == "BlindGrasping"
        assert "version 411" in text(page, "#weights")
        points = contacts_in_sight(page, line)
        page.keyboard.press("v")
        wait(page, lambda: change(points, picture(page)) > 0)
        assert page.console_errors == []

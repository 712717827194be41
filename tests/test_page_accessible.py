"""The pages under the accessibility checker axe: light and dark, desktop and phone; and the game by keys alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from livegym.rl.spec import PolicySpec
from livegym.tasks.base import Discrete
from tests.accessibility import assert_accessible
from tests.online_fixtures import Choosing
from tests.online_status import Script, dashboards, running
from tests.page_fixtures import Served, browser, needs_chromium, new_page, text, wait
from tests.web_fixtures import TOKEN

__all__ = ["browser"]
pytest_plugins = ["web_fixtures", "online_fixtures"]
pytestmark = [pytest.mark.slow, needs_chromium]
ROOT = Path(__file__).parent.parent
SCREENS = {"desktop": (1300, 900), "phone": (390, 844)}
looks = pytest.mark.parametrize("scheme", ["light", "dark"])
screens = pytest.mark.parametrize("screen", SCREENS)


@pytest.fixture
def opened(browser):
    """opened(url, scheme, screen): a page; closed after the test."""
    contexts = []

    def page_at(url, scheme="light", screen="desktop"):
        width, height = SCREENS[screen]
        page = new_page(browser, browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme))
        contexts.append(page.context)
        page.goto(url)
        return page

    yield page_at
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def doors():
    """Opens dashboards of a scripted continuous run with everything in it: faults, an alarm, a pinned version."""
    script = Script()
    script.fill(60)
    script.change(
        trainer={"state": "dead", "why": "killed by signal 9", "beat_age_s": 14.0},
        champion={"alarm": True, "alarm_why": "the trainer was set back 3 times within ten minutes"},
    )
    with dashboards(script) as open_one, running(script):
        yield open_one


@pytest.fixture(scope="module")
def dashboard(doors):
    return doors()


@pytest.fixture(scope="module")
def spectators(doors):
    return doors(read_only=True)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A test that is served as a page."""
    policy = ROOT / "docs" / "policies" / "BlindGrasping.pth"
    asked = (f"checkpoint={policy}", "testGamesNum=0", "numEnvs=2", "streamFps=2")
    with Served(tmp_path_factory.mktemp("accessible"), *asked) as server:
        yield server


@looks
@screens
def test_the_dashboard(dashboard, opened, scheme, screen):
    page = opened(dashboard.url, scheme, screen)
    wait(page, lambda: text(page, "#connection") == "live")
    wait(page, lambda: page.locator("#streams td.name button").count() == 3)
    wait(page, lambda: page.locator("#plot-reward path.line").count() == 2)
    assert_accessible(page)
    page.click("#streams td.name button")
    assert_accessible(page)


@looks
def test_the_dashboard_of_a_spectator(spectators, opened, scheme):
    page = opened(spectators.url, scheme)
    wait(page, lambda: text(page, "#connection") == "live")
    wait(page, lambda: page.locator("#versions tbody tr").count() > 1)
    assert page.locator("[role=grid]").count() == 0  # nothing in it takes the focus
    assert_accessible(page)


@looks
@screens
def test_the_question_before_a_rollback(dashboard, opened, scheme, screen):
    page = opened(dashboard.url, scheme, screen)
    wait(page, lambda: text(page, "#connection") == "live")
    page.locator("#versions button[aria-disabled=false]").first.click()
    page.wait_for_selector("dialog[open]")
    assert_accessible(page)


@looks
@screens
def test_the_page_of_a_test(live, opened, scheme, screen):
    page = opened(live.url, scheme, screen)
    wait(page, lambda: page.get_attribute("body", "data-phase") == "playing")
    assert_accessible(page)


@looks
def test_the_form_that_asks_for_a_token(serve, opened, scheme):
    page = opened(f"{serve(token=TOKEN).address}/online/v1/docs", scheme)
    assert_accessible(page)
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]")
    assert_accessible(page)


def game(serve):
    """The address of the browser's game, and its server."""
    served = serve(
        kind=Choosing, spec=PolicySpec("Spaces", (("observation", 3),), (), Discrete(3), 1.0),
        page=ROOT / "examples" / "browser_game",
    )  # fmt: skip
    return served, f"{served.address}/page/"


@looks
@screens
def test_the_game_in_a_browser(serve, opened, scheme, screen):
    _, address = game(serve)
    page = opened(address, scheme, screen)
    wait(page, lambda: "balls, caught" in text(page, "#score"))
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= SCREENS[screen][0]
    assert page.console_errors == []


def test_the_game_is_slowed_down_by_keys_alone(serve, opened):
    served, address = game(serve)
    page = opened(address)
    wait(page, lambda: len(served.loop.ended_episodes) > 3)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "slow"
    assert page.locator("#slow").evaluate("e => e.matches(':focus-visible')")
    page.keyboard.press("Space")
    assert page.is_checked("#slow")

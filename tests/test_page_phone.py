"""The page on a phone: what is seen at once, what a thumb can hit, and that nothing is wider than the screen."""

from __future__ import annotations

import pytest

from tests.page_fixtures import Line, Served, browser, needs_chromium, new_page, paused, wait_scene
from tests.processes import TRAIN

__all__ = ["browser"]
pytestmark = [pytest.mark.slow, needs_chromium]
PHONE = {"width": 390, "height": 844}
THUMB = 40  # CSS pixels
POLICY = TRAIN.parent / "docs" / "policies" / "BlindGrasping.pth"
BOXES = """selector => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility()).map(e => {
  const { left, right, top, bottom } = e.getBoundingClientRect();
  return { left, right, top, bottom, name: e.id || e.textContent.trim() };
})"""
TICKS = "async ([low, high]) => (await import('./plots.js')).ticks(low, high)"


@pytest.fixture(scope="module")
def page(tmp_path_factory, browser):
    """A phone that shows a grasping hand."""
    asked = (f"checkpoint={POLICY}", "testGamesNum=0", "numEnvs=2", "streamFps=10")
    with Served(tmp_path_factory.mktemp("phone"), *asked) as server:
        with Line(server) as line:
            line.until(lambda state: state.get("episodes"))
        paused(server)
        context = browser.new_context(viewport=PHONE, device_scale_factor=3, is_mobile=True, has_touch=True)
        page = new_page(browser, context)
        page.goto(server.url)
        wait_scene(page)
        yield page
        assert page.console_errors == []
        context.close()


def boxes(page, selector: str) -> list[dict]:
    return page.evaluate(BOXES, selector)


def test_version_age_level_return_and_success_are_seen_without_scrolling(page):
    names = page.locator("#numbers dt").all_text_contents()
    assert names == ["version", "age", "level", "return", "success"]
    shown = page.locator("#numbers dd").all_text_contents()
    assert (shown[0], shown[2]) == ("411", "1.00")
    (stage,) = boxes(page, "#stage")
    assert all(box["left"] >= 0 and box["right"] <= 390 for box in boxes(page, "#numbers dd"))
    assert all(box["bottom"] <= stage["top"] for box in boxes(page, "#numbers"))
    assert stage["bottom"] <= PHONE["height"]
    assert stage["bottom"] - stage["top"] >= PHONE["height"] / 2


def test_a_thumb_hits_every_control(page):
    controls = boxes(page, "button, select, label, input:not([type=checkbox])")
    assert len(controls) > 25
    low = [c for c in controls if c["bottom"] - c["top"] < THUMB or c["right"] - c["left"] < THUMB]
    assert low == []


def test_nothing_is_wider_than_the_screen(page):
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    wide = [box for box in boxes(page, "body *") if box["right"] > PHONE["width"] + 0.5 or box["left"] < -0.5]
    assert wide == []
    page.click("#help")
    wide = [box for box in boxes(page, "#keys, #keys *") if box["right"] > PHONE["width"]]
    page.click("#keys button")
    assert wide == []


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (499.44, 500.56, ["499.6", "499.8", "500", "500.2", "500.4"]),
        (-35.1, 569, ["0", "200", "400"]),
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 1_200_000, ["0", "200k", "400k", "600k", "800k", "1000k", "1200k"]),
    ],
)
def test_ticks_are_round(page, low, high, labels):
    assert [label for _, label in page.evaluate(TICKS, [low, high])] == labels


@pytest.mark.parametrize("width", [1e-9, 3e-5, 0.7, 12.0, 640.0, 9e4, 3e8])
@pytest.mark.parametrize("low", [0.0, -1.5, 499.0, 123_456.0])
def test_no_two_ticks_have_one_label(page, low, width):
    if abs(low) > 1e9 * width:
        pytest.skip("less than the rounding of numbers")
    found = page.evaluate(TICKS, [low, low + width])
    labels = [label for _, label in found]
    assert 3 <= len(found) <= 9
    assert len(set(labels)) == len(labels)
    assert all(low - width * 1e-6 <= value <= low + width * (1 + 1e-6) for value, _ in found)

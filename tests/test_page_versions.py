"""A page beside a training that runs: swaps, pins, older versions, two at once."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from tests.page_fixtures import TRAINING, Line, Served, badges, browser, needs_chromium, new_page, text, wait
from tests.processes import Running

__all__ = ["browser"]
pytestmark = [pytest.mark.slow, needs_chromium]
FOLLOWING = ("testGamesNum=0", "checkpoint=latest", "numEnvs=3", "streamFps=2")


@pytest.fixture(scope="module")
def beside(tmp_path_factory, browser):
    """A page on a test that follows a training."""
    cwd = tmp_path_factory.mktemp("beside")
    with Running(cwd, *TRAINING, "publishInterval=1", name="training"), Served(cwd, *FOLLOWING) as server:
        page = new_page(browser)
        page.goto(server.url)
        with Line(server) as line:
            line.until(lambda state: state.get("policy"))
            yield SimpleNamespace(page=page, line=line)
        assert page.console_errors == []
        page.context.close()


def acting(line):
    return line.drain()["policy"]["version"]


def label(page, element):
    """The version that is chosen in a list."""
    return int(page.locator(f"{element} option:checked").text_content())


def test_swaps_are_reported_and_marked(beside):
    page, line = beside.page, beside.line
    first = acting(line)
    line.until(lambda state: state["policy"]["version"] > first)
    wait(page, lambda: f"version {acting(line)}" in text(page, "#weights"))
    assert re.search(r" · weights (just made|.* old)$", text(page, "#weights"))
    wait(page, lambda: page.locator("#plot-swaps rect").count() >= 1)
    assert page.locator("#versions tbody tr.acting").count() == 1


def test_a_pinned_version_stays_while_the_training_continues(beside):
    page, line = beside.page, beside.line
    page.click("#pin")
    line.until(lambda state: state["policy"]["pinned"])
    kept, newest = line.state["policy"]["version"], line.state["policy"]["newest"]
    wait(page, lambda: "pinned" in badges(page))
    line.until(lambda state: state["policy"]["newest"] > max(newest, kept) + 1)
    assert acting(line) == kept


def test_older_versions_come_back_by_button_and_from_the_table_and_the_newest_by_following(beside):
    page, line = beside.page, beside.line
    line.ask("follow")
    line.until(lambda state: not state["policy"]["pinned"])  # what the tests before left is over
    line.until(lambda state: len(state["policy"]["history"]) > 2)  # one to go back to and an older one
    line.ask("pin")
    before = line.until(lambda state: state["policy"]["pinned"])["policy"]["version"]
    wait(page, lambda: page.locator("#versions tbody tr").count() > 2)
    page.click("#back")
    older = line.until(lambda state: state["policy"]["version"] < before)["policy"]
    assert (older["pinned"], older["source"]) == (True, "history")
    last = page.locator("#versions tbody tr").last
    oldest = int(last.locator("td").first.text_content())
    last.locator("button").click()
    line.until(lambda state: state["policy"]["version"] == oldest)
    wait(page, lambda: f"version {oldest} " in text(page, "#weights"))
    page.click("#follow-policy")
    line.until(lambda state: state["policy"]["version"] > before and not state["policy"]["pinned"])
    wait(page, lambda: "pinned" not in badges(page))


def test_two_versions_are_compared_by_environment(beside):
    page, line = beside.page, beside.line
    line.ask("pin")
    line.until(lambda state: state["policy"]["pinned"] and len(state["policy"]["history"]) > 1)
    wait(page, lambda: page.locator("#first option").count() > 1 and "pinned" in badges(page))
    page.select_option("#first", index=0)
    page.select_option("#second", index=page.locator("#second option").count() - 1)
    first, second = label(page, "#first"), label(page, "#second")
    assert first != second
    page.click("#compare")
    line.until(lambda state: state["comparing"] == [first, second])
    line.until(lambda state: state["labels"] == [first, second, first])
    wait(page, lambda: f"A {first} | B {second}" in badges(page))
    wait(page, lambda: text(page, "#env") == f"env 0 · {first}")
    page.click("#env-next")
    assert text(page, "#env") == f"env 1 · {second}"
    wait(page, lambda: text(page, "#compare") == "End comparison")
    page.click("#compare")
    line.until(lambda state: state["comparing"] is None and len(set(state["labels"])) == 1)
    wait(page, lambda: badges(page) == ["pinned"])
    page.click("#env-before")
    line.ask("follow")


def test_how_new_weights_take_over_is_chosen(beside):
    page, line = beside.page, beside.line
    line.ask("follow")
    line.until(lambda state: not state["policy"]["pinned"])
    assert not page.is_visible("#blend-label")
    page.select_option("#how", "blend")
    line.until(lambda state: state["policy"]["how"] == "blend")
    wait(page, lambda: page.is_visible("#blend-label"))
    page.fill("#blend", "0.5")
    page.keyboard.press("Enter")
    line.until(lambda state: state["policy"]["blend_steps"] == round(0.5 / state["control_dt"]))
    line.until(lambda state: state["policy"]["swapping"])
    page.select_option("#how", "now")
    line.until(lambda state: state["policy"]["how"] == "now")

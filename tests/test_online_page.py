"""The page of a continuous run in a real browser: numbers that change, faults that are shown, requests, the picture."""

from __future__ import annotations

import itertools
import re
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tests.online_status import Script, dashboards, running
from tests.page_fixtures import browser, needs_chromium, new_page, text, wait
from tests.page_fixtures import pixels as pixels_of

__all__ = ["browser"]
pytestmark = [pytest.mark.slow, needs_chromium]
EXPECTED_COMPLAINTS = ("ERR_CONNECTION_REFUSED", "WebSocket connection", "ERR_CONNECTION_RESET", "ERR_INCOMPLETE")
HOSTILE = "<img src=x onerror=alert(1)>"


def shown_at(browser, url, size=None, scheme="light"):
    """A page that is live; `page.said` holds what its console complained of."""
    page = new_page(browser)
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(size or {"width": 1300, "height": 900})
    page.goto(url)
    wait(page, lambda: text(page, "#connection") == "live")
    return page


@pytest.fixture
def shown(browser):
    """A script that goes on, the door, and a page of it; no complaint of its console but of connections."""
    script = Script()
    script.fill(60)
    with dashboards(script) as opened, running(script):
        gateway = opened()
        page = shown_at(browser, gateway.url)
        yield SimpleNamespace(script=script, gateway=gateway, page=page, opened=opened, browser=browser)
        assert [text for text in page.console_errors if not any(word in text for word in EXPECTED_COMPLAINTS)] == []
        page.context.close()


def fact(page, card, name):
    """The number beside a name in a card."""
    return page.locator(f"#{card} dt", has_text=name).first.locator("xpath=following-sibling::dd[1]").text_content()


def number(text_):
    return int(text_.replace(",", ""))


def pixels(page):
    """The territory's picture, (height, width, 3)."""
    return pixels_of(page, "#picture-canvas")


def drawn(page):
    wait(page, lambda: "workers" in text(page, "#picture-text"), lambda: text(page, "#picture-text"))
    return pixels(page)


def test_numbers_appear_change_and_grow_old(shown):
    page = shown.page
    assert text(page, "#task") == "Territory"
    assert text(page, "#phase") == "serving"
    assert text(page, "#trainer-state") == "trainer: training"
    assert "version 41 · " in text(page, "#serving")
    assert fact(page, "trainer", "step time") == "41.0 ms"
    assert fact(page, "trainer", "gate agrees") == "93 %"
    assert fact(page, "latency", "p99") == "2.40 ms"
    assert fact(page, "buffer", "no reward") == "7"
    assert fact(page, "refused", "duplicate") == "6"
    assert text(page, "#completed") == "completed1,100 of 10,000"
    assert page.locator("#components .meter").count() == 5
    assert "−0.080" in text(page, "#components")
    before = number(fact(page, "decisions", "made"))
    wait(page, lambda: number(fact(page, "decisions", "made")) > before + 3)
    age = int(text(page, "#serving").split()[3])
    wait(page, lambda: int(text(page, "#serving").split()[3]) > age + 1)
    assert page.is_hidden("#faults")
    assert page.get_attribute("body", "data-fresh") == "yes"


def test_plots_are_drawn_and_get_new_points(shown):
    page = shown.page
    for name, paths in {"loss": 1, "gate": 2, "reward": 2, "latency": 1, "fill": 2, "busy": 1}.items():
        wait(page, lambda name=name, paths=paths: page.locator(f"#plot-{name} path.line").count() == paths)
    line = page.locator("#plot-loss path.line").get_attribute("d")
    assert line.count("L") > 30
    wait(page, lambda: page.locator("#plot-loss path.line").get_attribute("d").count("L") > line.count("L"))
    assert "gate agrees 0." in page.get_attribute("#plot-gate", "aria-label")


def test_numbers_that_are_not_known_are_dashes_and_gaps(shown):
    unknown = {"loss": None, "training_utilization": None, "agreement": None}
    shown.script.change(trainer={"state": "waiting", "why": "8 experiences are needed, there are 3", **unknown})
    page = shown.page
    wait(page, lambda: text(page, "#trainer-state") == "trainer: waiting")
    assert fact(page, "trainer", "loss") == "–"
    assert text(page, "#utilization") == "busy–"
    assert "there are 3" in text(page, "#trainer-why")


@pytest.mark.parametrize("state", ["dead", "hung", "given up"])
def test_a_trainer_that_is_gone_is_reported_and_its_age_continues(shown, state):
    page = shown.page
    shown.script.change(trainer={"state": state, "why": "killed by signal 9", "beat_age_s": 14.0})
    wait(page, lambda: text(page, "#trainer-state") == f"trainer: {state}")
    assert "killed by signal 9" in text(page, "#faults")
    assert "Version 41 continues to decide" in text(page, "#faults")
    assert state in text(page, "#spoken")
    assert "stale" in page.get_attribute("#trainer", "class")
    assert page.get_attribute("body", "data-fresh") == "yes"  # what decides is alive
    shown.script.change(trainer={"state": "training", "why": ""})
    wait(page, lambda: page.is_hidden("#faults"))


def test_a_trainer_that_was_given_up_is_started_again_by_a_button(shown):
    page = shown.page
    assert page.is_hidden("#train")
    shown.script.change(trainer={"state": "given up", "why": "it diverges"})
    wait(page, lambda: page.is_visible("#train"))
    page.click("#train")
    wait(page, lambda: shown.script.asked == [{"do": "train", "version": None}], lambda: str(shown.script.asked))
    shown.script.change(trainer={"state": "starting", "why": ""})
    wait(page, lambda: page.is_hidden("#train"))


def test_what_became_of_the_newest_version_is_shown_and_an_alarm_can_be_ended(shown):
    page, script = shown.page, shown.script
    assert text(page, "#judgement").startswith("version 41: live (0.52 [0.47, 0.57] against 0.5")
    assert fact(page, "champion", "refused") == "4"
    assert page.locator("#versions tbody tr").nth(1).text_content().startswith("40stable")
    assert page.is_hidden("#allow")
    why = "the trainer was set back 3 times within ten minutes"
    script.change(champion={"state": "refused", "alarm": True, "alarm_why": why})
    wait(page, lambda: page.is_visible("#allow"))
    assert f"No new version goes live: {why}. Version 41" in text(page, "#faults")
    page.click("#allow")
    wait(page, lambda: script.asked == [{"do": "allow", "version": None}], lambda: str(script.asked))
    script.change(champion={"alarm": False})
    wait(page, lambda: page.is_hidden("#allow"))
    script.change(champion={"state": "rolled back", "measuring": True})  # no version goes live either
    wait(page, lambda: page.is_visible("#allow"))


def test_without_a_gate_there_is_no_card_of_it(shown):
    page = shown.page
    assert page.is_visible("#gate")
    shown.script.change(gate="off")
    wait(page, lambda: page.is_hidden("#gate"))


def test_a_server_that_stops_is_reported_at_once_and_one_that_comes_back_is_found(shown):
    page, port = shown.page, shown.gateway.port
    shown.gateway.stop()
    wait(page, lambda: text(page, "#connection") == "reconnecting")
    assert page.get_attribute("body", "data-fresh") == "no"
    assert "No connection to the server" in text(page, "#faults")
    assert page.locator("#trainer").evaluate("e => getComputedStyle(e).filter") == "grayscale(1)"
    wait(page, lambda: "5 s old" in text(page, "#faults"), lambda: text(page, "#faults"))
    page.click("#pin")
    assert "not connected" in text(page, "#notice")
    shown.script.change(serving={"version": 77, "age_s": 1.0})
    shown.opened(port=port)
    wait(page, lambda: text(page, "#connection") == "live")
    wait(page, lambda: "version 77" in text(page, "#serving"))
    assert page.get_attribute("body", "data-fresh") == "yes"
    assert page.is_hidden("#faults")
    assert shown.script.asked == []


def test_a_server_that_says_nothing_and_a_status_that_nobody_renews_are_told_apart(browser, monkeypatch):
    script = Script()
    with dashboards(script) as opened:
        gateway = opened()
        page = shown_at(browser, gateway.url)  # nobody changes the status
        wait(page, lambda: "the decision loop is not responding" in text(page, "#faults"))
        assert text(page, "#connection") == "live"
        assert page.get_attribute("body", "data-fresh") == "no"
        monkeypatch.setattr("livegym.serve.dashboard.BEAT", 1e9)
        wait(page, lambda: "connected but sends nothing" in text(page, "#faults"))
        assert text(page, "#connection") == "no data"
        wait(page, lambda: text(page, "#connection") == "reconnecting" or gateway.dashboard.open != 1)
        monkeypatch.setattr("livegym.serve.dashboard.BEAT", 1.0)
        with running(script):
            wait(page, lambda: page.get_attribute("body", "data-fresh") == "yes")
        page.context.close()


def test_a_stream_that_falls_silent_is_reported(shown, browser):
    script = Script()
    with dashboards(script) as opened, running(script):
        idle = itertools.count(15)
        script.step = lambda number: script.change(decisions={"idle_s": next(idle) / 4 + 15})  # nobody asks it anything
        page = shown_at(browser, opened().url)
        wait(page, lambda: "No observation has come for" in text(page, "#faults"))
        assert page.get_attribute("body", "data-fresh") == "yes"
        assert "none for" in text(page, "#idle")
        page.context.close()


def test_a_slow_stream_is_not_reported_as_silent(shown, browser):
    """It asks every 30 s, so half a minute without a decision is nothing unusual."""
    script = Script()
    with dashboards(script) as opened, running(script):
        script.step = lambda number: script.change(decisions={"idle_s": 28.0, "idle_limit_s": 90.0})
        page = shown_at(browser, opened().url)
        wait(page, lambda: "none for" in text(page, "#idle"))
        assert "No observation" not in text(page, "#faults")
        script.step = lambda number: script.change(decisions={"idle_s": 91.0, "idle_limit_s": 90.0})
        wait(page, lambda: "No observation has come for" in text(page, "#faults"))
        page.context.close()


def test_orders_reach_the_run_and_refusals_are_shown(shown):
    page, script = shown.page, shown.script
    page.click("#pin")
    wait(page, lambda: script.asked == [{"do": "pin", "version": None}])
    script.change(serving={"pinned": True}, decisions={"interfered": 3})
    wait(page, lambda: page.locator("#badges span").all_text_contents() == ["pinned", "3 interfered"])
    assert page.get_attribute("#pin", "aria-pressed") == "true"
    page.click("#follow")
    page.click("#back")
    page.click("#confirm-yes")
    page.locator("#versions tbody button").nth(1).focus()
    page.keyboard.press("Enter")
    page.click("#confirm-yes")
    wait(page, lambda: len(script.asked) == 4)
    assert script.asked[1:] == [
        {"do": "follow", "version": None},
        {"do": "back", "version": None},
        {"do": "rollback", "version": 40},
    ]
    script.refusal = f"version 38 is no longer kept {HOSTILE}"
    page.locator("#versions tbody button").last.click()
    page.click("#confirm-yes")
    wait(page, lambda: text(page, "#notice") == f"rollback refused: version 38 is no longer kept {HOSTILE}")
    assert page.is_visible("#notice")


def test_the_acting_version_cannot_be_rolled_back_to_and_the_list_follows(shown):
    page = shown.page
    rows = page.locator("#versions tbody tr")
    assert rows.all_text_contents()[0].startswith("41serving, newest")
    assert rows.first.locator("button").get_attribute("aria-disabled") == "true"
    shown.script.change(serving={"version": 39, "newest": 42, "history": [39, 40, 41, 42]})
    wait(page, lambda: rows.all_text_contents()[0].startswith("42newest"))
    assert rows.last.locator("button").get_attribute("aria-disabled") == "true"


HEARD_AND_SEEN = """() => {
  const button = document.activeElement;
  const heard = button.getAttribute("aria-describedby").split(" ").map(id => document.getElementById(id).textContent);
  return [heard, [...button.closest("tr").querySelectorAll("td")].map(cell => cell.textContent)];
}"""
"""What describes the focused button of a version, and the cells of its row; at once, because the age changes."""


def test_the_versions_are_one_stop_of_the_tab_key_and_arrow_keys_choose(shown):
    """Twenty buttons were twenty stops."""
    page, script = shown.page, shown.script
    wait(page, lambda: page.locator("#versions tbody tr").count() == 4)
    label = "document.activeElement.getAttribute('aria-label')"
    page.focus("#versions-list")
    page.keyboard.press("Tab")
    reached = [page.evaluate(label)]  # the newest that may be pressed
    for key in ("ArrowDown", "PageDown", "ArrowUp", "Control+Home", "ArrowUp", "Control+End"):
        page.keyboard.press(key)
        reached.append(page.evaluate(label))
    assert reached == [f"roll back to version {version} and pin it" for version in (40, 39, 38, 39, 41, 41, 38)]
    page.keyboard.press("Control+Home")
    page.keyboard.press("Enter")  # the acting version: the button keeps the focus, and does nothing
    assert page.is_hidden("#confirm")
    page.keyboard.press("ArrowDown")
    assert page.locator("#versions tbody button[tabindex='0']").count() == 1
    heard, cells = page.evaluate(HEARD_AND_SEEN)
    assert heard == cells[1:4]
    assert "0.4" in heard[1]  # its reward
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.matches('#versions *')")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(label) == reached[0]
    page.keyboard.press("Enter")
    page.click("#confirm-yes")
    wait(page, lambda: script.asked == [{"do": "rollback", "version": 40}])


def test_the_list_of_versions_stays_where_it_is_under_a_pointer(shown):
    """A new version each second moved each button away, or made it anew, between press and release."""
    page, script = shown.page, shown.script
    rows = page.locator("#versions tbody tr")
    rows.nth(2).locator("button").hover()
    page.mouse.down()
    for version in range(42, 46):
        script.change(serving={"version": version, "newest": version, "history": list(range(version - 3, version + 1))})
        wait(page, lambda version=version: f"version {version} " in text(page, "#serving"))
    assert rows.nth(2).locator("td").first.text_content() == "39"
    assert "waits while you choose" in text(page, "#versions-note")
    page.mouse.up()
    page.click("#confirm-yes")
    wait(page, lambda: script.asked == [{"do": "rollback", "version": 39}])
    page.mouse.move(5, 400)
    wait(page, lambda: rows.first.text_content().startswith("45serving, newest"))
    assert rows.count() == 4


def test_read_only_pages_have_no_buttons(shown, browser):
    page = shown_at(browser, shown.opened(read_only=True).url)
    wait(page, lambda: "read only" in page.locator("#badges span").all_text_contents())
    assert page.is_hidden("#pin")
    assert page.locator("#versions button:visible").count() == 0
    assert fact(page, "trainer", "steps") == "820"
    page.context.close()


def test_the_territory_is_drawn_and_changes_with_its_stream_and_with_time(shown):
    page = shown.page
    first = drawn(page)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 20
    shown_text = text(page, "#picture-text")
    assert "19 workers, 4 protectors, 4 mineral fields; queen at row" in shown_text
    page.select_option("#stream", "south")
    wait(page, lambda: "Territory south" in page.get_attribute("#picture-canvas", "aria-label"))
    second = pixels(page)
    assert (np.abs(first - second).max(axis=2) > 24).mean() > 0.01
    assert page.locator("#streams td.name button[aria-pressed=true]").text_content() == "south"
    page.click("#streams td.name button:has-text('east')")
    wait(page, lambda: "Territory east" in page.get_attribute("#picture-canvas", "aria-label"))
    assert page.input_value("#stream") == "east"
    before = text(page, "#picture-text")
    wait(page, lambda: text(page, "#picture-text") != before)  # another decision


def test_pictures_are_fetched_at_most_twice_a_second_and_only_while_they_are_seen(shown):
    page, script = shown.page, shown.script
    drawn(page)
    before = script.pictures
    page.wait_for_timeout(3000)
    assert 1 <= script.pictures - before <= 7
    page.set_viewport_size({"width": 390, "height": 500})
    page.evaluate("scrollTo(0, 0)")

    def none_in_a_while():
        before = script.pictures
        page.wait_for_timeout(1500)
        return script.pictures == before

    wait(page, none_in_a_while, lambda: f"{script.pictures} pictures")


def test_a_task_without_a_picture_has_none(shown, browser):
    page = shown_at(browser, shown.opened(picture=False).url)
    assert page.is_hidden("#picture")
    wait(page, lambda: page.locator("#streams td.name").all_text_contents() == ["east", "north", "south"])
    page.context.close()


def test_text_of_the_server_is_text(shown):
    page = shown.page
    shown.script.change(
        title=HOSTILE, run=HOSTILE, streams=["north", HOSTILE], trainer={"state": "dead", "why": HOSTILE},
        rewards={"components": {HOSTILE: 1.0}}, buffer={"refused": {HOSTILE: 1}}, serving={"history": [HOSTILE]},
    )  # fmt: skip
    wait(page, lambda: text(page, "#task") == HOSTILE)
    wait(page, lambda: HOSTILE in text(page, "#faults"))
    for place in ("#run", "#trainer-why", "#streams", "#components", "#refused", "#versions"):
        assert HOSTILE in text(page, place)
    assert page.locator("img").count() == 0


def test_the_first_row_tells_what_matters(shown, browser):
    page, script = shown.page, shown.script
    assert (text(page, "#reward-name"), text(page, "#big-reward")) == ("Return of an episode", "+104")
    assert text(page, "#reward-text") == "mean of the last 32 episodes; +0.520 a decision"
    assert page.is_visible("#plot-return")
    assert text(page, "#big-version") == "41"
    assert (text(page, "#big-send"), text(page, "#big-latency")) == ("81 %", "2.40 ms")
    assert "no trend yet" in text(page, "#trend")  # the script has a minute of points
    other = Script()
    for second in range(3600, 0, -1):  # 0.1 for half an hour, then 0.5
        earned = 0.1 if second > 1800 else 0.5
        other.history.add({"t": time.time() - second, "reward": 0.7, "return": earned})
    with dashboards(other) as opened, running(other):
        other.step = lambda number: other.change()
        page = shown_at(browser, opened().url)
        wait(page, lambda: "better by 0.400" in text(page, "#trend"), lambda: text(page, "#trend"))
        assert "min ago): +0.100" in text(page, "#trend")
        page.context.close()
    page = shown.page
    script.change(episodes={"ended": 64, "returns": 0, "return_mean": None})  # after a restart; or without episodes
    wait(page, lambda: text(page, "#big-reward") == "+0.520", lambda: text(page, "#big-reward"))
    assert text(page, "#reward-name") == "Reward of a decision"
    wait(page, lambda: page.is_hidden("#returns"))
    assert page.is_hidden("#reward-text")
    script.change(champion={"state": "refused", "version": 42}, serving={"newest": 42})
    wait(page, lambda: "newest 42, which was refused" in text(page, "#version-age"))


def test_what_happened_is_listed_and_marked_in_the_plots(shown):
    page, script = shown.page, shown.script
    wait(page, lambda: page.locator("#events li").count() == 2)
    first = page.locator("#events li").first
    # the newest comes first; its kind is a word, not only a colour
    assert "problem: version 40 was rolled back to 39: it earned less" in first.text_content()
    assert first.get_attribute("class") == "bad"
    marks = page.locator("#plot-return .mark")
    wait(page, lambda: marks.count() == 2)
    places = [float(marks.nth(i).get_attribute("x1")) for i in (0, 1)]
    assert places == sorted(places)
    assert "notice: another trainer took over" in marks.first.text_content()
    heard = page.locator("[data-of=plot-return] .event")
    page.focus("#plot-return")
    page.keyboard.press("Home")  # a minute ago
    assert heard.count() == 0
    for _ in range(60):
        page.keyboard.press("ArrowRight")
        if "another trainer took over" in " ".join(heard.all_text_contents()):
            break
    assert "notice: another trainer took over" in " ".join(heard.all_text_contents())
    page.keyboard.press("Escape")
    assert heard.count() == 0
    script.change(events=[])
    wait(page, lambda: page.is_visible("#no-events"))
    wait(page, lambda: marks.count() == 0)


def test_a_plots_values_are_read_under_the_pointer_and_by_keys(shown):
    page = shown.page
    legend = page.locator("[data-of=plot-loss]")
    wait(page, lambda: page.locator("#plot-loss path.line").count() == 1)
    assert "at " not in legend.text_content()
    page.hover("#plot-loss", position={"x": 60, "y": 60})
    wait(page, lambda: " at" in legend.text_content().replace("at", " at"))
    first = float(legend.text_content().split()[1].rstrip("at"))
    assert first > 0.8  # the loss falls from 1.2 to 0.8 within this minute
    page.mouse.move(5, 5)
    wait(page, lambda: page.locator("#plot-loss .cursor").count() == 0)
    page.focus("#plot-loss")
    page.keyboard.press("Home")
    assert page.locator("#plot-loss .cursor").count() == 1
    at = legend.locator(".at").text_content()
    page.keyboard.press("ArrowRight")
    assert legend.locator(".at").text_content() != at
    page.keyboard.press("Escape")
    assert page.locator("#plot-loss .cursor").count() == 0


def test_hours_are_drawn_with_clock_times_and_survive_a_reload(browser):
    script = Script()
    for second in range(3 * 3600, 0, -1):
        script.add(time.time() - second, second)
    with dashboards(script) as opened, running(script):
        page = shown_at(browser, opened().url)
        for _ in range(2):
            page.select_option("#span", "600")
            least = page.locator("#plot-loss path.line").get_attribute("d").count("L") + 300
            page.select_option("#span", "21600")
            wait(page, lambda least=least: page.locator("#plot-loss path.line").get_attribute("d").count("L") > least)
            labels = page.locator("#plot-loss text").all_text_contents()
            # A label each two hours; one near an end is left out, so at some times of the day there are only two.
            assert sum(re.fullmatch(r"\d\d:(00|30)", label) is not None for label in labels) >= 2
            page.reload()
            wait(page, lambda: text(page, "#connection") == "live")
        page.context.close()


def test_an_outlier_does_not_flatten_a_plot(browser):
    script = Script()
    for second in range(300, 0, -1):
        script.history.add({"t": time.time() - second, "latency_p99": 900.0 if second > 290 else 2.0 + second % 2})
    with dashboards(script) as opened, running(script):
        script.step = lambda number: script.change()
        page = shown_at(browser, opened().url)
        wait(page, lambda: "up to 900" in page.locator("[data-of=plot-latency]").text_content())
        labels = [float(label) for label in page.locator("#plot-latency text").all_text_contents() if ":" not in label]
        assert max(labels) <= 4.0
        page.context.close()


def test_a_rollback_asks_first_and_can_be_cancelled(shown):
    page, script = shown.page, shown.script
    row = page.locator("#versions tbody tr").nth(3)
    assert "refused−0.20 [−0.30, −0.10]" in row.text_content()
    row.locator("button").click()
    assert "Roll back to version 38?" in text(page, "#confirm-title")
    assert page.evaluate("document.activeElement.textContent") == "Cancel"
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('body, dialog *')")
    page.keyboard.press("Escape")
    assert page.is_hidden("#confirm")
    page.locator("#versions tbody tr").nth(2).locator("button").click()
    assert "It earned +0.390 in 100 decisions. Version 41 acts now." in text(page, "#confirm-text")
    page.keyboard.press("Enter")  # on Cancel
    wait(page, lambda: page.is_hidden("#confirm"))
    assert script.asked == []


def test_streams_are_sorted_opened_and_switched(shown):
    page, script = shown.page, shown.script
    names = page.locator("#streams td.name")
    page.click("#streams th[data-by=reward] button")
    page.mouse.move(5, 5)
    wait(page, lambda: names.all_text_contents() == ["north", "south", "east"])  # of east, no reward is known
    assert page.get_attribute("#streams th[data-by=reward]", "aria-sort") == "descending"
    row = page.locator("#streams tr[data-stream=east]")
    assert "3 min" in row.text_content()
    row.locator("td.control button").click()
    wait(page, lambda: script.asked == [{"do": "learn", "stream": "east", "on": True}], lambda: str(script.asked))
    page.locator("#streams tr[data-stream=north] td.name button").focus()
    page.keyboard.press("Enter")
    wait(page, lambda: page.is_visible("#one"))
    assert text(page, "#one-title") == "Stream north"
    wait(page, lambda: page.locator("#plot-one path.line").count() == 1)
    assert page.locator("#plot-one path.line").get_attribute("d").count("L") == 59
    page.click("#one-close")
    assert page.is_hidden("#one")


def test_targets_are_large_enough_and_no_text_is_small(shown):
    """WCAG 2.2, 2.5.8: 24 px."""
    page = shown.page
    wait(page, lambda: page.locator("#streams td.name button").count() == 3)
    sizes = page.evaluate(
        "[...document.querySelectorAll('button, select, input')].filter((e) => e.checkVisibility())"
        ".map((e) => [e.id || e.textContent, e.getBoundingClientRect().width, e.getBoundingClientRect().height])"
    )
    assert [size for size in sizes if min(size[1:]) < 24] == []
    small = page.evaluate(
        "[...document.querySelectorAll('body *')].filter((e) => e.checkVisibility() && e.textContent.trim())"
        ".filter((e) => parseFloat(getComputedStyle(e).fontSize) < 12).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert small == []


def test_a_phone_has_what_matters_first(shown, browser):
    page = shown_at(browser, shown.gateway.url, {"width": 390, "height": 844})
    names = ("overview", "plot-reward", "versions", "streams", "trainer")
    tops = [page.locator(f"#{name}").bounding_box()["y"] for name in names]
    assert tops == sorted(tops)
    box = page.locator("#overview").bounding_box()
    assert box["y"] + box["height"] < 844
    page.context.close()


def luminance(colour):
    """Of `rgb(r, g, b)`, as WCAG 2 has it."""
    parts = np.array([float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(page, selector, behind=".card"):
    colours = [
        page.locator(selector).first.evaluate("e => getComputedStyle(e).color"),
        page.locator(behind).first.evaluate("e => getComputedStyle(e).backgroundColor"),
    ]
    dark, light = sorted(map(luminance, colours))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_can_be_read(shown, browser, scheme):
    page = shown_at(browser, shown.gateway.url, scheme=scheme)
    assert page.get_attribute("html", "data-theme") == scheme
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (luminance(back) > 0.5) == (scheme == "light")
    for selector in ("#trainer dt", "#trainer dd", "#trainer-state", "#picture-legend", "#picture-text", "h2 small"):
        assert contrast(page, selector) >= 4.5, selector
    first = drawn(page)
    page.click("#theme")
    other = {"light": "dark", "dark": "light"}[scheme]
    assert page.get_attribute("html", "data-theme") == other
    assert np.abs(pixels(page).mean() - first.mean()) > 60  # the picture has changed its colours too
    page.reload()
    assert page.get_attribute("html", "data-theme") == other
    page.context.close()


@pytest.mark.parametrize("width", [320, 390, 760, 1000, 1900])
def test_nothing_is_wider_than_the_screen(shown, browser, width):
    shown.script.change(
        run="a_run_with_quite_a_long_name_20260102_120000", trainer={"state": "dead", "why": "w" * 150},
        streams=["north", "s" * 120], rewards={"components": {"c" * 80: -1.0}}, serving={"pinned": True},
        decisions={"total": 10**12, "latency_ms": {"p50": 12345.6, "p99": 123456.7, "max": 1234567.8}},
    )  # fmt: skip
    page = shown_at(browser, shown.gateway.url, {"width": width, "height": 800})
    wait(page, lambda: "dead" in text(page, "#trainer-state"))
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.context.close()


def test_everything_can_be_reached_by_keys(shown):
    page = shown.page
    wait(page, lambda: page.locator("#streams td.name button").count() == 3)
    page.evaluate("document.activeElement.blur()")
    reached = []
    for _ in range(50):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    for place in ("theme", "stream", "follow", "pin", "back", "Roll back", "north", "south"):
        assert place in reached
    page.focus("#theme")
    assert page.locator("#theme").evaluate("e => e.matches(':focus-visible')")

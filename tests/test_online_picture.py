"""A task's picture: the file that is served, and what the dashboard does with one that is no good."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from livegym.tasks.territory import Territory
from livegym.tasks.territory.params import TerritoryParams
from livegym.utils.errors import UserError
from livegym.web.pages import SHARED, page_files
from tests.online_status import TERRITORY, Script, dashboards, running
from tests.page_fixtures import browser, needs_chromium, new_page, text, wait

__all__ = ["browser"]
ROOT = Path(__file__).parent.parent
GOOD = """
export const title = "Square";
export const draw = (canvas, data, theme) => {
  const g = canvas.getContext("2d");
  g.fillStyle = theme.bad;
  g.fillRect(0, 0, canvas.width, canvas.height);
};
export const describe = (data) => `a square of ${data.stream}`;
"""
BAD = {
    "a syntax error": ("export const title = ;", "cannot be loaded"),
    "an export that is missing": ("export const title = 'x'; export const draw = () => {};", "no function describe"),
    "an import from elsewhere": ("import 'https://example.org/x.js';" + GOOD, "cannot be loaded"),
    "drawing that throws": (GOOD.replace("const g", "throw new Error('no ink'); const g"), "no ink"),
    "describing that throws null": (GOOD.replace("`a square of ${data.stream}`", "{ throw null; }"), "null"),
    "a legend that is none": (GOOD + "export const legend = [['x', 1]];", "its legend is not a list of [words, draw]"),
}


@pytest.fixture
def pond(tmp_path, monkeypatch):
    """pond(script): the path of the picture of a task of somebody's, whose module is in a folder of its own."""
    folder = tmp_path / "tasks"
    folder.mkdir()
    (tmp_path / "outside.js").write_text(GOOD)
    (folder / "pond.js").write_text(GOOD)
    (folder / "pond.txt").write_text(GOOD)
    (folder / "link.js").symlink_to(tmp_path / "outside.js")
    (folder / "pictures").mkdir()
    (folder / "pictures" / "pond.js").write_text(GOOD)
    module = types.ModuleType("pond_of_a_test")
    module.__file__ = str(folder / "pond.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def path(script: str | None) -> Path | None:
        named = {"__module__": module.__name__, "picture_script": script}
        return type("Pond", (Territory,), named)(TerritoryParams()).picture_path()

    return path


def test_the_script_lies_beside_the_class_that_names_it(pond, tmp_path):
    assert pond("pond.js") == tmp_path / "tasks" / "pond.js"
    assert pond("pictures/pond.js") == tmp_path / "tasks" / "pictures" / "pond.js"
    assert pond(None) is None
    assert Territory(TerritoryParams()).picture_path() == TERRITORY
    inherited = type("Heir", (Territory,), {"__module__": "pond_of_a_test"})
    assert inherited(TerritoryParams()).picture_path() == TERRITORY


@pytest.mark.parametrize("script", ["gone.js", "../outside.js", "link.js", "pond.txt", "", "/etc/passwd", "pictures"])
def test_a_script_that_is_not_a_javascript_file_of_the_task_is_refused(pond, script):
    with pytest.raises(UserError, match=r"picture_script=.*Allowed: the path of a .js file in or below .*/tasks"):
        pond(script)


def test_pages_have_files_of_their_own_names():
    shared = {file.name for file in SHARED.iterdir()}
    for page in (ROOT / "serve" / "page", ROOT / "viewers" / "browser" / "page"):
        own = {file.name for file in page.iterdir()}
        assert own & shared == set()
        assert "picture.js" not in own | shared  # a task's
        assert set(page_files(page)) == {"/", *(f"/{name}" for name in own | shared)}


def opened_at(browser, url):
    page = new_page(browser)
    page.set_viewport_size({"width": 1300, "height": 900})  # the picture can be seen
    page.goto(url)
    wait(page, lambda: text(page, "#connection") == "live")
    return page


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(("source", "message"), BAD.values(), ids=BAD)
def test_a_picture_that_fails_is_reported_and_the_page_continues(browser, tmp_path, source, message):
    script, module = Script(), tmp_path / "picture.js"
    module.write_text(source)
    with dashboards(script) as opened, running(script):
        page = opened_at(browser, opened(drawn_by=module).url)
        wait(page, lambda: page.is_visible("#notice"))
        assert message in text(page, "#notice")
        assert text(page, "#picture-text").startswith("No picture: ")
        assert page.is_visible("#picture-text")
        assert any("pageerror" not in text for text in page.console_errors)  # for whoever writes the picture
        before = text(page, "#decisions")
        wait(page, lambda: text(page, "#decisions") != before)
        page.click("#theme")
        page.click("#pin")
        wait(page, lambda: script.asked == [{"do": "pin", "version": None}])
        assert not any(text.startswith("pageerror") for text in page.console_errors)
        page.context.close()


@pytest.mark.slow
@needs_chromium
def test_a_page_that_stays_open_draws_what_another_server_brings(browser, tmp_path):
    script, module = Script(), tmp_path / "picture.js"
    module.write_text(GOOD)
    with dashboards(script) as opened, running(script):
        first = opened()
        page = opened_at(browser, first.url)
        wait(page, lambda: "workers" in text(page, "#picture-text"))
        first.stop()
        wait(page, lambda: text(page, "#connection") == "reconnecting")
        second = opened(port=first.port, drawn_by=module)
        wait(page, lambda: text(page, "#picture-title") == "Square")
        wait(page, lambda: text(page, "#picture-text") == "a square of north")
        assert page.locator("#picture-legend li").count() == 0
        second.stop()
        wait(page, lambda: text(page, "#connection") == "reconnecting")
        opened(port=first.port, picture=False)
        wait(page, lambda: page.is_hidden("#picture"))
        page.context.close()

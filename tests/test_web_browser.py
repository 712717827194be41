"""A real browser at the door."""

from __future__ import annotations

import shutil

import pytest
from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from tests.page_fixtures import wait
from tests.web_fixtures import TOKEN

pytest_plugins = ["web_fixtures", "online_fixtures"]
CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]

ASIDE = """
async () => {
  const frame = document.createElement("iframe");
  const socket = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/scene/ws?page=here`;
  frame.src = `/scene/?websocket=${encodeURIComponent(socket)}`;
  document.body.replaceChildren(frame);
}
"""


@pytest.fixture
def tab():
    """A tab, with what its console said."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader"]
        )
        page = browser.new_page()
        page.console_errors = []
        page.on("console", lambda message: page.console_errors.append(message.text))
        page.on("pageerror", lambda error: page.console_errors.append(f"pageerror: {error}"))
        yield page
        browser.close()


def complaints(tab):
    """What the browser refused or failed to do."""
    return [
        text
        for text in tab.console_errors
        if "Content Security Policy" in text or "pageerror" in text or "Failed to" in text
    ]


@pytest.mark.parametrize("path", ["/scene/", "/scene"])
def test_visers_page_connects_through_the_gateway(open_scene, scene, tab, path):
    gateway, _ = open_scene(token=TOKEN)
    tab.goto(gateway.url.replace("/?", f"{path}?"))
    assert "token" not in tab.url
    wait(tab, scene.get_clients)
    (client,) = scene.get_clients().values()
    wait(tab, lambda: client.camera.image_height > 0)
    tab.wait_for_timeout(1000)  # what is loaded last
    assert complaints(tab) == []


def test_the_form_lets_in_and_a_frame_is_told_from_others(open_scene, scene, tab):
    opened = []
    gateway, _ = open_scene(token=TOKEN, on_open=lambda page, port: opened.append(page))
    tab.goto(f"http://localhost:{gateway.port}/stats")
    tab.fill("#token", "wrong")
    tab.click("button")
    assert "That token is wrong." in tab.inner_text("form")
    tab.fill("#token", TOKEN)
    tab.click("button")
    tab.wait_for_url("**/stats")
    assert tab.inner_text("body").strip() == "{}"
    tab.evaluate(ASIDE)
    wait(tab, scene.get_clients)
    assert opened == ["here"]
    assert [text for text in complaints(tab) if "401" not in text and "404" not in text] == []  # no icon


def test_the_link_works_from_another_site_and_after_a_reload(open_gateway, tab):
    """As from a chat or a mail: `localhost` and `127.0.0.1` are different sites."""
    gateway = open_gateway(TOKEN)
    link = gateway.url.replace("127.0.0.1", "localhost").replace("/?", "/stats?")
    router = APIRouter()
    router.add_api_route("/chat", lambda: HTMLResponse(f'<a href="{link}">look</a>'), methods=["GET"])
    chat = open_gateway(routers=[router])
    tab.goto(f"{chat.url}chat")
    tab.click("a")
    tab.wait_for_url("**/stats")
    for _ in range(2):
        assert tab.inner_text("body").strip() == "{}"
        tab.reload()


def test_the_documentation_and_the_form_obey_the_policy(serve, tab):
    served = serve(token=TOKEN)
    tab.goto(f"{served.address}/online/v1/docs")
    assert tab.evaluate("getComputedStyle(document.body).display") == "grid"  # the form's style is applied
    tab.fill("#token", TOKEN)
    tab.click("button")
    tab.wait_for_selector(".opblock")
    tab.click(".opblock-summary")
    tab.wait_for_selector(".opblock-body")
    assert [text for text in complaints(tab) if "401" not in text] == []

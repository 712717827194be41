"""Tests that are served as a page, in processes of their own; real browsers that look, and clients that only talk."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest
import websockets.sync.client
from PIL import Image

from tests.patience import PATIENCE_S, until
from tests.processes import Running
from tests.web_fixtures import PROTOCOL, messages_in
from tools.page_pictures import ARGUMENTS

CHROMIUM = shutil.which("chromium")
SIZE = {"width": 960, "height": 600}
TRAINING = ("task=Cartpole", "numEnvs=32", "train.horizon_length=8", "maxIterations=100000", "saveInterval=1000")
CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (3.0, 3.0, 3.0), "look_at": (0.0, 0.0, 0.0),
    "up_direction": (0.0, 0.0, 1.0), "fov": 0.8, "near": 0.01, "far": 1000.0, "image_height": 480, "image_width": 640,
}  # fmt: skip
FEW = 5e-5  # of all pixels
COVERED = """visibility => document.querySelectorAll(".over, #curtain").forEach(
  e => e.style.setProperty("visibility", visibility, "important"))"""
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


class Served(Running):
    """`config=test_stream` in the background, at a free port."""

    def __init__(self, cwd: Path, *arguments: str, name: str = "test") -> None:
        port = () if any(a.startswith("streamPort=") for a in arguments) else ("streamPort=0",)
        super().__init__(cwd, "config=test_stream", *port, *arguments, name=name)

    @property
    def url(self) -> str:
        """What the program printed, on loopback; waits for it."""
        self.wait_for("watch at http")
        return "http://127.0.0.1" + re.search(r"watch at http://[^:]+(:\S+)", self.text)[1]

    @property
    def spectators_url(self) -> str:
        """The same for spectators."""
        return "http://127.0.0.1" + re.search(r"for spectators, .*: http://[^:]+(:\S+)", self.text)[1]

    @property
    def port(self) -> int:
        return int(re.search(r":(\d+)/", self.url)[1])

    @property
    def bare(self) -> str:
        """The address without the token."""
        return self.url.partition("?")[0]

    def stats(self) -> dict:
        return httpx.get(self.url.replace(self.bare, f"{self.bare}stats"), trust_env=False).json()


class Line:
    """A page's WebSocket without a page: what it was told so far, newest last."""

    def __init__(self, server: Served, **settings) -> None:
        self.server, self.page = server, secrets.token_hex(8)
        url = f"ws://127.0.0.1:{server.port}/ws?page={self.page}"
        # A test that looks at the page for a while reads nothing here: no pings of its own, and a queue without a
        # bound, so that the server's are answered.
        quiet = {"proxy": None, "max_size": None, "max_queue": None, "ping_interval": None, "close_timeout": 1}
        self.socket = websockets.sync.client.connect(url, **(quiet | settings))
        self.hello: dict = {}
        self.state: dict = {}
        self.points: list = []
        self.refused: list[str] = []
        self.messages: list[dict] = []

    def ask(self, what: str, **more) -> None:
        self.say(json.dumps({"do": what, **more}))

    def say(self, text: str | bytes) -> None:
        self.socket.send(text)

    def read(self, timeout: float = 0.5) -> bool:
        """Takes one message; False if none came, or none will."""
        try:
            message = json.loads(self.socket.recv(timeout))
        except (TimeoutError, websockets.ConnectionClosed):
            return False
        self.messages.append(message)
        self.hello = message.get("hello", self.hello)
        self.state |= message["state"]
        self.points += message.get("points", [])
        self.refused += [message["refused"]] if "refused" in message else []
        return True

    def drain(self) -> dict:
        """Everything that has come; the state."""
        while self.read(0.05):  # less than from one message to the next
            pass
        return self.state

    def until(self, holds) -> dict:
        """Reads until `holds(state)`; the state."""
        until(lambda: self.state and holds(self.state), lambda: str(self.state), pause=self.read)
        return self.state

    def of(self, kind: str) -> list[dict]:
        """Values of points of one kind."""
        return [values for _, found, values in self.points if found == kind]

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()


def scene_client(server: Served, page: str = "", **settings):
    """A connected client of the 3D scene, which has said where it looks from."""
    url = f"ws://127.0.0.1:{server.port}/scene/ws" + (f"?page={page}" if page else "")
    client = websockets.sync.client.connect(
        url, subprotocols=[PROTOCOL], proxy=None, max_size=None, ping_interval=None, close_timeout=1, **settings
    )
    client.send(msgspec.msgpack.encode(CAMERA))
    return client


class SceneLine:
    """A client of the viser server itself, past the gateway."""

    def __init__(self, scene_server, page: str = "") -> None:
        url = f"ws://127.0.0.1:{scene_server.server.get_port()}/"
        self.socket = websockets.sync.client.connect(url, subprotocols=[PROTOCOL], proxy=None, max_size=None)
        scene_server.opened(page, self.socket.socket.getsockname()[1])
        self.socket.send(msgspec.msgpack.encode(CAMERA))

    def messages(self, quiet: float = 0.3) -> list[dict]:
        """All that come until nothing has come for `quiet` s."""
        found = []
        with contextlib.suppress(TimeoutError):
            while True:
                found += messages_in(self.socket.recv(quiet))
        return found

    def updates(self) -> set[tuple[str, str]]:
        """(node, field) of all updates."""
        return {(message["name"], field) for message in self.messages() for field in message.get("updates", ())}

    def __enter__(self) -> SceneLine:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.close()


class OwnBrowser:
    """A browser that is nobody's but the test's: its processes can be stopped and killed."""

    def __init__(self, url: str, profile: Path) -> None:
        flags = [*ARGUMENTS, "--headless=new", "--no-first-run", f"--user-data-dir={profile}", "--window-size=900,500"]
        self._process = subprocess.Popen(
            [CHROMIUM, *flags, url], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def send(self, signum: int) -> None:
        """To all of its processes."""
        os.killpg(self._process.pid, signum)

    def __enter__(self) -> OwnBrowser:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.send(signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def chromium():
    """A browser."""
    driver = pytest.importorskip("playwright.sync_api").sync_playwright().start()
    browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
    try:
        yield browser
    finally:
        browser.close()
        driver.stop()


@pytest.fixture(scope="module")
def browser():
    """One browser for the module."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def open_page(browser):
    """open_page(url): a page in cookies of its own; `page.said` holds what its console complained of."""
    contexts = []

    def opened(url, playing=True):
        page = new_page(browser)
        contexts.append(page.context)
        page.goto(url)
        if playing:
            wait_scene(page)
        return page

    yield opened
    for context in contexts:
        context.close()


def new_page(browser, context=None):
    """An empty page with cookies of its own, on a small desktop unless another context is given."""
    page = (context or browser.new_context(viewport=SIZE, color_scheme="light")).new_page()
    page.set_default_timeout(1000 * PATIENCE_S)  # ms
    page.console_errors = []
    page.on("console", lambda m: page.console_errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: page.console_errors.append(f"pageerror: {error}"))
    return page


def wait(page, holds, what=lambda: "") -> None:
    """Lets the browser run until `holds()`."""
    until(holds, lambda: f"{what()}; the console: {page.console_errors}", pause=lambda: page.wait_for_timeout(100))


def wait_scene(page) -> None:
    """Until the page plays and its scene is drawn."""
    wait(page, lambda: page.get_attribute("body", "data-phase") == "playing")
    page.wait_for_selector("#scene iframe")
    page.frame_locator("#scene iframe").locator("canvas").first.wait_for()
    wait(page, lambda: colours(picture(page)) > 20, lambda: "nothing is drawn")


def text(page, selector: str) -> str:
    return page.locator(selector).text_content()


def badges(page, by=False) -> list[str]:
    """The unusual states; with `by`, including who brought them about."""
    found = page.locator("#badges span").all_text_contents()
    return found if by else [badge.partition(" by ")[0] for badge in found]


def picture(page) -> np.ndarray:
    """The scene alone, without what lies on it, (height, width, 3)."""
    page.evaluate(COVERED, "hidden")
    try:
        return _pixels(page.locator("#scene"))
    finally:
        page.evaluate(COVERED, "")


def pixels(page, selector: str) -> np.ndarray:
    """What one element looks like, (height, width, 3)."""
    page.locator(selector).scroll_into_view_if_needed()
    return _pixels(page.locator(selector))


def _pixels(element) -> np.ndarray:
    """A screenshot as it is: with `caret="hide"`, the default, a style is inserted, which the pages' policy forbids."""
    return np.asarray(Image.open(io.BytesIO(element.screenshot(caret="initial"))).convert("RGB")).astype(int)


def colours(image: np.ndarray) -> int:
    """How many there are: an empty scene has few."""
    return len(np.unique(image.reshape(-1, 3), axis=0))


def change(first: np.ndarray, second: np.ndarray) -> float:
    """The part of the pixels that is visibly another; a few on edges are not."""
    part = float((np.abs(first - second).max(axis=2) > 24).mean())
    return part if part > FEW else 0.0


def changed(page, before: np.ndarray) -> np.ndarray:
    """The picture at rest, once it is another than `before`."""
    wait(page, lambda: change(before, picture(page)) > 0, lambda: "the picture stays")
    return at_rest(page)


def paused(server: Served) -> None:
    """Pauses the test before anybody looks."""
    with Line(server) as line:
        line.ask("pause", on=True)
        line.until(lambda state: state.get("paused"))


def at_rest(page) -> np.ndarray:
    """The picture, once two in a row are the same."""
    pictures = [picture(page)]

    def same():
        page.wait_for_timeout(300)
        pictures.append(picture(page))
        return change(pictures[-2], pictures[-1]) == 0

    wait(page, same, lambda: "the picture never comes to rest")
    return pictures[-1]


__all__ = [name for name in dir() if not name.startswith("_")]

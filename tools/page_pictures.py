"""Draws the documents' pictures of the pages, from programs that are really running.

    python -m tools.page_pictures page docs/images/page.png              # a training run and its page
    python -m tools.page_pictures phone docs/images/phone.png            # the same on a phone
    python -m tools.page_pictures dashboard docs/images/dashboard.png    # continuous training

Each starts the program in an empty directory, lets it run for a while, opens its page in Chromium, and ends it. The
browser is opened late, because without a graphics card it takes the processor time of the training run. More arguments
replace the program's own: `python -m tools.page_pictures page ant.png --seconds 20 task=Ant`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
POLICY = ROOT / "docs" / "policies" / "BlindGrasping.pth"
ADDRESS = re.compile(r"(http://\S+)")
TRAINING = ["task=BlindGrasping", f"checkpoint={POLICY}", "numEnvs=128", "seed=1"]
ARGUMENTS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
STARTING_S, LOADING_S, ENDING_S = 120.0, 8.0, 30.0


@dataclass(frozen=True)
class Picture:
    """A program, how long it runs before its page is opened, and the screen on which the page is shown."""

    fixed: list[str]  # arguments that are always given
    default: list[str]  # arguments if there are no others
    seconds: float
    size: tuple[int, int]  # CSS pixels
    scale: float  # device pixels for each
    ready: str  # a selector; there is something to see once it matches


# few updates, because the browser draws without a graphics card
WATCHED = ["watch=true", "streamPort=0", "streamFps=10"]
SCENE = "body[data-phase=playing] #scene iframe"
PICTURES = {
    "page": Picture(WATCHED, TRAINING, 100.0, (1360, 850), 1.0, SCENE),
    "phone": Picture(WATCHED, TRAINING, 100.0, (390, 844), 3.0, SCENE),
    "dashboard": Picture(
        ["config=continuous", "streamPort=0"],
        ["task=Territory", "playSpeed=0", "online.training_interval=0"],
        150.0,
        (1400, 1130),
        1.0,
        ".plot svg path",
    ),
}


def main() -> None:
    """Draws one picture. Raises SystemExit if the program or the page does not start."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=PICTURES)
    parser.add_argument("out", type=Path, help="a .png")
    parser.add_argument("--seconds", type=float, help="for which it runs before its page is opened")
    parser.add_argument("--dark", action="store_true", help="the dark theme")
    options, others = parser.parse_known_args()
    picture = PICTURES[options.picture]
    seconds = picture.seconds if options.seconds is None else options.seconds
    with tempfile.TemporaryDirectory(prefix="livegym-picture-") as folder:
        program = Program([*picture.fixed, *(others or picture.default)], Path(folder))
        try:
            address = program.address()
            time.sleep(seconds)
            shoot(address, picture, options.dark, options.out.resolve())
        finally:
            program.end()


class Program:
    """A livegym command in the background."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    def address(self) -> str:
        """The address of its page, once it is printed and answers. Raises SystemExit if it does not."""
        deadline = time.monotonic() + STARTING_S
        while time.monotonic() < deadline and (self._process.poll() is None or self._reader.is_alive()):
            for line in list(self._lines):
                if (found := ADDRESS.search(line)) and _answers(found[1]):
                    return found[1]
            time.sleep(0.2)
        raise SystemExit("no page was started; the program said:\n" + "".join(self._lines))

    def end(self) -> None:
        """Ends it as Ctrl+C does; kills it if that takes too long."""
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()


def _answers(address: str) -> bool:
    """True if a server is there; a training run prints the address before its page is ready."""
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


def shoot(address: str, picture: Picture, dark: bool, out: Path) -> None:
    """Writes what a browser shows at `address`. Raises SystemExit if there is no Chromium."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("this needs Chromium: sudo apt-get install chromium")
    phone = picture.size[0] < picture.size[1]
    screen: dict[str, Any] = {
        "viewport": {"width": picture.size[0], "height": picture.size[1]},
        "device_scale_factor": picture.scale,
        "color_scheme": "dark" if dark else "light",
        "is_mobile": phone,
        "has_touch": phone,
    }
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        page = browser.new_context(**screen).new_page()
        page.set_default_timeout(1000 * STARTING_S)
        page.goto(address)
        page.wait_for_selector(picture.ready, state="attached")
        page.wait_for_timeout(1000 * LOADING_S)
        page.screenshot(path=str(out), caret="initial")  # the other one inserts a style, which is forbidden
        browser.close()


if __name__ == "__main__":
    main()

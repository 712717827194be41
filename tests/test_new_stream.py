"""docs/new-stream.md, followed literally: its files are made in a new project, its commands are run there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.page_fixtures import browser, colours, needs_chromium, new_page, pixels, text, wait
from tests.patience import PATIENCE_S, until
from tests.processes import Running

__all__ = ["browser"]

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "new-stream.md").read_text()
FILES = re.findall(r"`([\w/]+\.(?:py|js|yaml))`[^\n]*(?:\n[^\n]+)*\n\n```\w+\n(.*?)```", TEXT, re.S)
COMMANDS = [shlex.split(line.split("  #")[0]) for line in re.findall(r"^(?:livegym|python) .*$", TEXT, re.M)]
CURL = re.search(r"^curl .*?'$", TEXT, re.M | re.S)[0]


def test_the_page_has_the_files_that_a_stream_needs():
    assert [name for name, _ in FILES] == [
        "tasks/tank.py",
        "tasks/tank.js",
        "cfg/task/Tank.yaml",
        "cfg/train/TankPPO.yaml",
        "gates/dry.py",
    ]


@pytest.fixture(scope="module")
def followed(tmp_path_factory) -> Path:
    """A new project with the page's files."""
    folder = tmp_path_factory.mktemp("projects")
    subprocess.run([sys.executable, str(ROOT / "train.py"), "new", "plant"], cwd=folder, check=True)
    for name, content in FILES:
        (folder / "plant" / name).parent.mkdir(exist_ok=True)
        (folder / "plant" / name).write_text(content)
    return folder / "plant"


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_its_commands_run(followed, command):
    program, *arguments = command
    if "config=continuous" not in arguments:
        script = [str(ROOT / "train.py")] if program == "livegym" else []
        env = {**os.environ, "PYTHONPATH": str(ROOT)} if program == "python" else None  # there livegym is installed
        done = subprocess.run(
            [sys.executable, *script, *arguments],
            cwd=followed,
            env=env,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return
    with Running(followed, *arguments, "streamPort=0") as serving:
        serving.wait_for("dashboard at")
        url = re.search(r"dashboard at (\S+)", serving.text)[1]

        def status() -> dict:
            with urllib.request.urlopen(f"{url}stats", timeout=PATIENCE_S) as answer:
                return json.load(answer)

        if "simulator=external" in arguments:
            answer = subprocess.run(
                ["bash", "-c", CURL.replace("http://127.0.0.1:58080/", url)],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )
            assert json.loads(answer.stdout)["answers"][0]["type"] == "decision", answer.stdout
        else:
            until(lambda: status()["serving"]["version"] > 50, lambda: f"{status()}\n{serving.text}", serving.process)
            found = status()
            assert found["gate"] == ("dry" if "gate=dry" in arguments else "cost")
            assert found["decisions"]["gate_failures"] == 0
            assert found["decisions"]["send"] > 0
        assert serving.end() == 0


@pytest.mark.slow
@needs_chromium
def test_its_picture_is_drawn_on_the_dashboard_of_a_project_that_is_named(followed, browser):
    arguments = ("config=continuous", "task=Tank", f"projectDir={followed}", "playSpeed=0", "streamPort=0")
    with Running(followed.parent, *arguments) as serving:
        serving.wait_for("dashboard at")
        page = new_page(browser)
        page.set_viewport_size({"width": 1300, "height": 900})  # the picture can be seen
        page.goto(re.search(r"dashboard at (\S+)", serving.text)[1])
        wait(page, lambda: "is the mark. Pump" in text(page, "#picture-text"), lambda: text(page, "#picture-text"))
        assert text(page, "#picture-title") == "Tank"
        assert page.locator("#picture-legend li").all_text_contents() == ["level", "mark"]
        box = page.locator("#picture-canvas").bounding_box()
        assert box["width"] / box["height"] == pytest.approx(1.5, rel=0.02)
        assert colours(pixels(page, "#picture-canvas")) >= 3  # water, mark, and the card behind
        assert page.console_errors == []
        page.context.close()
        assert serving.end() == 0

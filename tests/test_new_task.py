"""docs/new-task.md, followed literally: its files are those of `livegym new`, its commands are run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from livegym.projects.new import TEMPLATE
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "new-task.md").read_text()
FILES = re.findall(r"`([\w/]+\.(?:py|xml|yaml))`[^\n]*(?:\n[^`\n]+)*\n\n```\w+\n(.*?)```", TEXT, re.S)
COMMANDS = [line.split("  #")[0].split() for line in TEXT.split("```text\n")[1].split("```")[0].splitlines()]


def test_the_page_shows_the_files_that_a_new_project_has():
    assert sorted(name for name, _ in FILES) == [
        "cfg/task/Slider.yaml",
        "cfg/train/SliderPPO.yaml",
        "tasks/models/slider.xml",
        "tasks/slider.py",
    ]
    for name, text in FILES:
        assert (TEMPLATE / name).read_text() == text, name


@pytest.mark.slow
def test_whoever_follows_it_has_a_task_that_learns(tmp_path):
    here = tmp_path
    for program, *arguments in COMMANDS:
        if program == "cd":
            here = here / arguments[0]
            continue
        command = [sys.executable, *([str(ROOT / "train.py")] if program == "livegym" else []), *arguments]
        env = {"PYTHONPATH": str(ROOT)} if program == "python" else {}  # there livegym is installed
        done = subprocess.run(
            command, cwd=here, env={**os.environ, **env}, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
    tested = max(here.glob("runs/Slider_test_*/results.json"), key=lambda file: file.stat().st_mtime)
    assert json.loads(tested.read_text())["success_rate"] > 0.9

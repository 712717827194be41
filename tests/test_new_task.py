"""docs/new-task.md, followed literally: its files are made in a copy of the project, its commands are run there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_house import ROOMS

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "new-task.md").read_text()
FILES = re.findall(r"`([\w/]+\.(?:py|xml|yaml))`[^\n]*(?:\n[^`\n]+)*\n\n```\w+\n(.*?)```", TEXT, re.S)
COMMANDS = [line.split("  #")[0].split() for line in TEXT.split("```text\n")[1].split("```")[0].splitlines()]


def test_the_page_has_the_files_that_a_task_needs():
    assert sorted(name for name, _ in FILES) == [
        "cfg/task/Slider.yaml",
        "cfg/train/SliderPPO.yaml",
        "tasks/__init__.py",
        "tasks/models/slider.xml",
        "tasks/slider.py",
    ]


@pytest.mark.slow
def test_whoever_follows_it_has_a_task_that_learns(tmp_path):
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        if name.startswith(("tests/", "train.py", "pyproject", "livegym/", *(f"{room}/" for room in ROOMS))):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    for name, text in FILES:
        if name != "tasks/__init__.py":
            (tmp_path / name).write_text(text)
            continue
        imported, entry = text.splitlines()
        table = (tmp_path / name).read_text()
        table = table.replace("\n\nTASKS", f"\n{imported}\n\nTASKS").replace("] = {\n", f"] = {{\n{entry}\n")
        (tmp_path / name).write_text(table)
    for python, *arguments in COMMANDS:
        assert python == "python"
        done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    tested = max(tmp_path.glob("runs/Slider_test_*/results.json"), key=lambda file: file.stat().st_mtime)
    assert json.loads(tested.read_text())["success_rate"] > 0.9

"""docs/new-stream.md, followed literally: its files are made in a copy of the project, its commands are run there."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.processes import Running, until

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "new-stream.md").read_text()
FILES = re.findall(r"`([\w/]+\.(?:py|yaml))`[^\n]*(?:\n[^\n]+)*\n\n```\w+\n(.*?)```", TEXT, re.S)
COMMANDS = [shlex.split(line.split("  #")[0]) for line in re.findall(r"^python .*$", TEXT, re.M)]
CURL = re.search(r"^curl .*?'$", TEXT, re.M | re.S)[0]


def test_the_page_has_the_files_that_a_stream_needs():
    assert [name for name, _ in FILES] == [
        "tasks/tank.py", "tasks/__init__.py", "cfg/task/Tank.yaml", "cfg/train/TankPPO.yaml", "online/gates.py",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def followed(tmp_path_factory) -> Path:
    """A copy of the project with the page's files."""
    copy = tmp_path_factory.mktemp("project")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        if not name.startswith(("docs/", "benchmarks/")) and (ROOT / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    for name, text in FILES:
        file = copy / name
        if name == "tasks/__init__.py":
            imported, entry = text.splitlines()
            table = file.read_text()
            text = table.replace("\n\nTASKS", f"\n{imported}\n\nTASKS").replace("] = {\n", f"] = {{\n{entry}\n")
        elif name == "online/gates.py":
            more = re.findall(r"`(from online\.\w+ import \w+)`", TEXT)
            assert len(more) == 2
            text = file.read_text().replace(
                "from livegym.online.look_ahead", "\n".join([*more, "from livegym.online.look_ahead"])
            )
            text += "\n\n" + dict(FILES)[name]
        file.write_text(text)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_its_commands_run(followed, command):
    python, *arguments = command
    assert python == "python"
    if "config=continuous" not in arguments:
        done = subprocess.run([sys.executable, *arguments], cwd=followed, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return
    with Running(followed, *arguments[1:], "streamPort=0", script=followed / "train.py") as serving:
        serving.wait_for("dashboard at", 90)
        url = re.search(r"dashboard at (\S+)", serving.text)[1]

        def status() -> dict:
            with urllib.request.urlopen(f"{url}stats", timeout=20) as answer:
                return json.load(answer)

        if "simulator=external" in arguments:
            answer = subprocess.run(
                ["bash", "-c", CURL.replace("http://127.0.0.1:58080/", url)], capture_output=True, text=True, timeout=60
            )
            assert json.loads(answer.stdout)["answers"][0]["type"] == "decision", answer.stdout
        else:
            until(lambda: status()["serving"]["version"] > 50, 90, lambda: f"{status()}\n{serving.text}", serving)
            found = status()
            assert found["gate"] == ("dry" if "gate=dry" in arguments else "cost")
            assert found["decisions"]["gate_failures"] == 0
            assert found["decisions"]["send"] > 0
        assert serving.end(timeout=60) == 0

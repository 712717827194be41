"""The Dockerfile without Docker: its lines are carried out in folders of their own, in an empty environment."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import ROOT, Environment, tracked_copy
from tests.patience import PATIENCE_S
from tests.processes import runs


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


class Image:
    """A folder that stands for the root of the image, with an environment that sees the libraries of this one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment = Environment(root / "environment")
        pip = self.environment.bin / "pip"  # this one's, for that environment
        pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {self.environment.python} "$@"\n')
        pip.chmod(0o755)
        self.cwd = root

    def carry_out(self, name: str, rest: str) -> str:
        """Carries out one line of the Dockerfile; returns what it printed."""
        if name == "WORKDIR":
            self.cwd = self.root / rest.lstrip("/")
            self.cwd.mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            assert rest == ". ."
            tracked_copy(self.cwd)
        elif name == "RUN":
            return self.run(["sh", "-c", rest])
        elif name == "CMD":
            return self.run(json.loads(rest))
        else:
            assert name in ("FROM", "EXPOSE")
        return ""

    def run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.cwd, env=self.environment.variables, timeout=3 * PATIENCE_S, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout


@pytest.mark.slow
def test_its_lines_install_livegym_and_its_command_trains(tmp_path):
    image = Image(tmp_path)
    said = {(name, rest): image.carry_out(name, rest) for name, rest in instructions()}
    assert "Successfully installed livegym" in next(text for (_, rest), text in said.items() if "pip" in rest)
    assert "Cartpole" in said["RUN", "livegym --list-tasks"]
    assert image.cwd == tmp_path / "data"
    (run_dir,) = runs(image.cwd)
    assert "finished after" in (run_dir / "train.log").read_text()


def test_its_interpreter_is_one_that_livegym_supports_and_its_port_that_of_the_pages():
    lines = dict(instructions())
    assert re.fullmatch(r"python:3\.(1[1-9])-slim", lines["FROM"])
    default = re.search(
        r"streamPort: int = key\(\s*(\d+)", "".join(p.read_text() for p in (ROOT / "schema").glob("*.py"))
    )
    assert lines["EXPOSE"] == default[1]


def test_the_image_has_no_runs_and_no_environment_of_the_checkout():
    ignored = set((ROOT / ".dockerignore").read_text().split())
    assert {".git", ".venv", "runs"} <= ignored
    left = [name for name in os.listdir(ROOT) if name not in ignored]
    assert "setup.py" in left

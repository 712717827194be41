"""The programs in the documents about policies and Gymnasium run as they stand there, and so does the notebook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from livegym.rundir.run import create_run, point_latest
from tests.test_load_policy import OBS, save

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "gymnasium.ipynb"


def programs(name: str) -> list[str]:
    """The blocks of Python in a document."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / name).read_text(), re.M | re.S)


@pytest.mark.slow
def test_the_programs_about_gymnasium_run(capsys):
    known: dict = {}
    for program in programs("gymnasium.md"):
        exec(program, known)
    assert len(programs("gymnasium.md")) == 3
    assert known["infos"]["final_info"]["reason"].tolist() == ["time_limit"] * 4
    assert known["last"].shape == (4,)
    assert capsys.readouterr().out.startswith("['time_limit' 'time_limit' 'time_limit' 'time_limit']\n{")


def test_the_programs_about_policies_run(tmp_path, monkeypatch):
    run = create_run(tmp_path / "runs", "Kettle", "train")
    point_latest(run.path.parent, "train", run)
    save(run, 1, bias=0.25)
    monkeypatch.chdir(tmp_path)
    acted: list[np.ndarray] = []
    robot = SimpleNamespace(runs=lambda: len(acted) < 3, observe=lambda: OBS[0], act=acted.append)
    known = {"obs": OBS, "robot": robot}
    for program in programs("load-policy.md"):
        exec(program, known)
    assert known["action"].tolist() == [[0.25, 0.25]] * 2
    assert [action.tolist() for action in acted] == [[0.25, 0.25]] * 3


@pytest.mark.slow
def test_the_notebook_runs(monkeypatch):
    """Its cells are plain Python, so no notebook server is needed."""
    monkeypatch.chdir(NOTEBOOK.parent)
    monkeypatch.setenv("MPLBACKEND", "agg")
    known: dict = {}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    for cell in cells:
        exec("".join(cell["source"]), known)
    assert known["episodes"] >= 1
    assert known["picture"].shape == (240, 320, 3)

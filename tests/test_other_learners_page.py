"""The Python of docs/other-learners.md, run with fewer steps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from torch import nn

from livegym.learners.recorder import Recorder
from livegym.rundir.checkpoint import newest_usable
from livegym.rundir.run import open_run
from tests.processes import runs

TEXT = (Path(__file__).parent.parent / "docs" / "other-learners.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.S)


def block(library: str, **smaller: str) -> str:
    """The only block that imports a module, with numbers replaced that it must have."""
    (found,) = (text for text in BLOCKS if f"livegym.learners.{library} import" in text)
    for old, new in smaller.items():
        assert old.removeprefix("n") in found
        found = found.replace(old.removeprefix("n"), new)
    return found


def version(folder: Path) -> int:
    (made,) = runs(folder)
    return newest_usable(open_run(made)).state["livegym"]["version"]


def test_stable_baselines3(tmp_path, monkeypatch):
    pytest.importorskip("stable_baselines3", reason="needs the extra sb3")
    monkeypatch.chdir(tmp_path)
    exec(block("sb3", n300_000="64", n64="2", n512="16"), {})
    assert version(tmp_path) == 1


def test_rsl_rl(tmp_path, monkeypatch):
    pytest.importorskip("rsl_rl", reason="needs the extra rsl_rl")
    import copy

    from examples.train_rsl_rl import SETTINGS

    monkeypatch.chdir(tmp_path)
    exec(block("rsl_rl", n512="4", n100="1"), {"settings": copy.deepcopy(SETTINGS)})
    assert version(tmp_path) == 1


def test_a_program_of_your_own(tmp_path, monkeypatch):
    """`model`, `iterations` and `loss` are the reader's own."""
    import torch

    monkeypatch.chdir(tmp_path)
    model = nn.Module()
    model.actor, model.log_std = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), torch.zeros(1)
    names = {"model": model, "iterations": 2, "loss": 0.5}
    exec(block("recorder", n256="2"), names)
    assert isinstance(names["recorder"], Recorder)
    assert version(tmp_path) == 2

"""The tables of docs/runs.md name every number that a training run and a test write, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from livegym.play.curves import TestCurves
from livegym.rl.curves import scalars
from livegym.rl.learner import Iteration
from livegym.tasks.stats import EpisodeSummary
from livegym.weights.candidate import SwapEvent
from tests.processes import SMALL, results, run, runs

TEXT = (Path(__file__).parent.parent / "docs" / "runs.md").read_text()
NAMED = ("reward_terms_episode", "reward_terms", "ends", "episodes")
"""Groups of tags whose last part is a name that the task defines."""


def documented(heading: str) -> set[str]:
    """The first column of the table below a heading, with placeholders as `<>`."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return {re.sub(r"<\w+>", "<>", name) for name in re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its two header lines."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def generic(tag: str) -> str:
    """A tag with `<>` in place of a name that the task defines."""
    group, _, name = tag.partition("/")
    return f"{group}/<>" if name and group in NAMED else tag


def keys_of(value: Any, prefix: str = "") -> set[str]:
    """The paths of all values: `<>` stands for names and versions, `[]` for the items of a list."""
    if isinstance(value, dict):
        named = prefix in ("reasons", "by_version")
        paths = ((f"{prefix}." if prefix else "") + ("<>" if named else key) for key in value)
        return set().union(*(keys_of(inner, path) for inner, path in zip(value.values(), paths, strict=True)))
    if isinstance(value, list):
        return set().union(*(keys_of(item, f"{prefix}[]") for item in value))
    return {prefix}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a short training run of Cartpole and a test of it."""
    folder = tmp_path_factory.mktemp("played")
    trained = run(folder, *SMALL, "config=train_headless", "maxIterations=8", "seed=0")
    assert trained.returncode == 0, trained.stdout
    tested = run(folder, "config=test", "checkpoint=latest", "testGamesNum=2")
    assert tested.returncode == 0, tested.stdout
    return folder


def test_every_tag_of_a_training_run_is_documented(played):
    (path,) = runs(played)
    accumulator = EventAccumulator(str(path / "summaries"))
    accumulator.Reload()
    written = {generic(tag) for tag in accumulator.Tags()["scalars"]}
    ends = {"episodes": 1, "reason_counts": {"reached": 1}, "success_reason": "reached"}
    report = EpisodeSummary(metric_mean={"stage": 1.0}, level=0.5, **ends)  # of other tasks
    match = EpisodeSummary(wins=(1, 0), **ends)
    others = {
        generic(tag)
        for kind in (report, match)
        for tag in scalars(Iteration(1, 1, 1, 1, 1.0, 1.0, 1.0, None, None, False, {}, kind))
    }
    assert {"rewards/step", "ends/<>", "losses/a_loss"} <= written
    assert written | others == documented("TensorBoard curves of a training run")


def test_every_tag_of_a_test_is_documented(tmp_path):
    written = TestCurves(tmp_path)
    written.add({"return": 1.0, "length": 2.0, "success": 1.0, "level": 1.0})
    written.close(acting=1)
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert set(accumulator.Tags()["scalars"]) == documented("TensorBoard curves of a test")


def test_every_key_of_the_results_is_documented(played):
    found = results(played)
    assert found["episode_count"] == 2
    swap = SwapEvent(0.0, "bus", "run", "", 1, 1, 1.0, True, "", 0.0)
    assert keys_of({**found, "swaps": [swap.to_dict()]}) == documented("The results of a test")


def test_every_number_has_a_meaning():
    for heading in ("TensorBoard curves of a training run", "The results of a test"):
        assert [row for row in rows(heading) if len(row) != 3 or len(row[2]) < 5] == []

"""Whatever a runs directory looks like, a selector finds a usable checkpoint or says why not, and touches nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from livegym.rundir.select import read_selected
from livegym.utils.errors import UserError
from tests.checkpoint_samples import new_run, put

WHENS = ("20250930_235959", "20251001_000000", "20260109_120000")
CONTENTS = st.one_of(
    st.just(()), st.just((1,)), st.just((2, 9, 10)), st.sampled_from(["garbage", "empty file", "no nn", "directory"])
)
RUN = st.tuples(st.sampled_from(WHENS), st.sampled_from(["Ant", "Cartpole"]), st.sampled_from(["train", "test"]))
NAMES = [f"{task}_{kind}_{when}" for task in ("Ant", "Cartpole") for kind in ("train", "test") for when in WHENS]
TARGETS = st.sampled_from([*NAMES, "gone", "latest_train", "latest_test", ".", "..", "/", "/nowhere"])
LINK = st.one_of(st.none(), st.tuples(st.sampled_from(["link", "twin", "both", "file", "directory"]), TARGETS))
SELECTOR = st.one_of(
    st.sampled_from(["latest", "latest_train", "latest_test", "best", "Ant", "2025", "train", ".", "..", "/", ""]),
    st.sampled_from(NAMES),
    st.sampled_from(["runs/latest_train", "runs/latest_train/nn", "runs/latest_train/nn/best.pth"]),
    st.text(alphabet="abc/.\\~%\n\x00*[ é", max_size=12),
)


def make_run(runs: Path, identity: tuple[str, str, str], content: object) -> None:
    when, task, kind = identity
    versions = content if isinstance(content, tuple) and kind == "train" else ()
    run = new_run(runs, when, task=task, kind=kind, versions=versions)
    if content == "no nn":
        shutil.rmtree(run.nn, ignore_errors=True)
    elif kind == "train" and content in ("garbage", "empty file"):
        put(run.path, f"{task}_v3_ep3.pth", b"not a checkpoint" if content == "garbage" else b"")
    elif kind == "train" and content == "directory":
        (run.nn / f"{task}_v3_ep3.pth").mkdir()


def point(runs: Path, name: str, link: tuple[str, str] | None) -> None:
    if link is None:
        return
    how, target = link
    if how in ("link", "both"):
        (runs / name).symlink_to(target)
    if how in ("twin", "both"):
        (runs / f"{name}.txt").write_text(f"{target}\n")
    if how == "file":
        (runs / name).write_text(target)
    if how == "directory":
        (runs / name).mkdir()


def picture(root: Path) -> list[tuple[str, str, int]]:
    """Every name below `root`, with where links point and how large files are."""
    found = []
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder) / name
            target = os.readlink(path) if path.is_symlink() else ""
            found.append((str(path), target, 0 if path.is_dir() else path.lstat().st_size))
    return sorted(found)


@pytest.mark.slow
@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(RUN, CONTENTS, max_size=4), LINK, LINK, SELECTOR, st.sampled_from([None, "Ant", "Cartpole"]))
def test_every_state_gives_a_usable_file_or_a_reason(runs_made, train_link, test_link, selector, task):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        runs = root / "runs"
        runs.mkdir()
        for identity, content in runs_made.items():
            make_run(runs, identity, content)
        point(runs, "latest_train", train_link)
        point(runs, "latest_test", test_link)
        before = picture(root)
        here = Path.cwd()
        os.chdir(root)
        try:
            found, reason = read_selected(selector, runs, task), ""
        except UserError as error:
            found, reason = None, str(error)
        finally:
            os.chdir(here)
        assert picture(root) == before
        if found is None:
            assert reason.strip()
            return
        selection, state = found
        assert state["model"]
        assert selection.file.name.endswith(".pth")
        if task is not None and selector in ("latest", "latest_train"):
            assert selection.run.name.startswith(f"{task}_train_")

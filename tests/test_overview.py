"""config=runs: the table, pins, deleting with care, curves."""

from __future__ import annotations

import io
import os
import re

import pytest
from rich.console import Console

from livegym.rl.scalars import ScalarWriter
from livegym.rundir.lock import RunLock
from livegym.rundir.overview import facts_of, find_run, manage_runs, runs_table
from livegym.rundir.run import create_run, list_runs, point_latest, read_latest
from livegym.utils.errors import UserError
from tests.checkpoint_samples import new_run


@pytest.fixture
def runs(tmp_path):
    """Two trainings with checkpoints and curves, and a test."""
    folder = tmp_path / "runs"
    old = new_run(folder, "20260101_000000", versions=(1, 2))
    new = new_run(folder, "20260102_000000", versions=(7,))
    create_run(folder, "Ant", "test")
    point_latest(folder, "train", new)
    for run, slope in ((old, 1.0), (new, 2.0)):
        writer = ScalarWriter(run.summaries)
        for frame in range(10):
            writer.add_scalar("rewards/step", slope * frame, 100 * frame)
        writer.close()
    return folder


@pytest.fixture
def manage(runs, config):
    def run(*overrides):
        out = io.StringIO()
        status = manage_runs(config("config=runs", f"runsDir={runs}", *overrides), None, Console(file=out, width=200))
        return status, out.getvalue()

    return run


def names(runs, kind=None):
    return [run.name for run in list_runs(runs, kind)]


def test_the_table_tells_of_every_run(manage, runs):
    status, text = manage()
    assert status == 0
    assert all(name in text for name in names(runs))
    assert "3 runs" in text
    _, text = manage("runsSelect=_train_20260102")
    assert "1 runs" in text


def test_a_live_run_is_reported_as_live_and_never_deleted(manage, runs):
    run = list_runs(runs, "train")[0]
    with RunLock(run):
        assert facts_of(run).live
        with pytest.raises(UserError, match=f"live.*{os.getpid()}"):
            manage(f"runsDelete={run.name}")
    assert run.path.exists()
    assert not facts_of(run).live


def test_a_protected_run_is_kept_until_its_protection_is_removed(manage, runs):
    name = names(runs, "train")[1]
    manage(f"runsPin={name}")
    assert "protected" in manage()[1]
    with pytest.raises(UserError, match="protected"):
        manage(f"runsDelete={name}")
    manage(f"runsPin={name}")
    assert manage(f"runsDelete={name}")[0] == 0
    assert name not in names(runs)


def test_deleting_the_latest_run_points_latest_at_the_one_before_and_then_at_nothing(manage, runs):
    newest, oldest = names(runs, "train")
    manage(f"runsDelete={newest}")
    assert read_latest(runs, "train").name == oldest
    manage(f"runsDelete={oldest}")
    assert read_latest(runs, "train") is None
    assert not os.path.lexists(runs / "latest_train")
    assert [p.name for p in runs.iterdir() if p.name.startswith(".")] == []


def test_an_ambiguous_or_unknown_name_deletes_nothing(manage, runs):
    before = names(runs)
    for name, message in (("Ant_train", "matches 2 runs"), ("Nope", "no such run")):
        with pytest.raises(UserError, match=message):
            manage(f"runsDelete={name}")
    assert names(runs) == before
    exact = find_run(list_runs(runs), "runsPin", before[0])
    assert exact.name == before[0]


def test_curves_of_the_chosen_runs_are_drawn(manage, runs, tmp_path):
    picture = tmp_path / "curves.png"
    assert manage(f"runsPlot={picture}")[0] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="rewards/step"):
        manage(f"runsPlot={picture}", "runsTag=rewards/stepp")
    with pytest.raises(UserError, match="cannot be written"):
        manage(f"runsPlot={tmp_path / 'no' / 'such.png'}")
    with pytest.raises(UserError, match=r"one of \.png, \.svg, \.pdf"):
        manage("runsPlot=curves")


def test_a_selection_of_nothing_is_reported_as_such(manage, runs):
    for extra in ([], ["runsPlot=curves.png"]):
        with pytest.raises(UserError, match=f"runsSelect=Antt_train: no run.*{names(runs)[0]}"):
            manage("runsSelect=Antt_train", *extra)


def test_a_row_of_the_table_fits_eighty_columns(runs):
    out = io.StringIO()
    console = Console(file=out, width=80)
    console.print(runs_table([facts_of(run) for run in list_runs(runs)], runs))
    for name in names(runs):
        assert re.search(rf"^ ?{name} .*MiB *$", out.getvalue(), re.MULTILINE), out.getvalue()


def test_without_a_runs_directory_it_reports_it(config, tmp_path):
    with pytest.raises(UserError, match="there is no directory"):
        manage_runs(config("config=runs", f"runsDir={tmp_path / 'none'}"), None, Console(file=io.StringIO()))

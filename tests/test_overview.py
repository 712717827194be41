"""config=runs: the table, pins, deleting with care, curves."""

from __future__ import annotations

import io
import os
import re
import shutil

import pytest
from rich.console import Console

from livegym.compare.comparison import compare
from livegym.compare.differences import differences
from livegym.compare.groups import lines_of
from livegym.compare.overview import facts_of, find_run, manage_runs, runs_table
from livegym.rl.scalars import ScalarWriter
from livegym.rundir.lock import RunLock
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
    assert "1 run\n" in text


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
    console.print(runs_table([facts_of(run) for run in list_runs(runs)], 80))
    for name in names(runs):
        assert re.search(rf"^ ?{name} .*MiB *$", out.getvalue(), re.MULTILINE), out.getvalue()


@pytest.fixture
def sweep(tmp_path):
    """Runs as `-m seed=1,2 train.tau=0.9,0.95` makes them; their curves are seed * frame."""
    place = tmp_path / "sweep"
    for number, (tau, seed) in enumerate([("0.9", 1), ("0.9", 2), ("0.95", 1), ("0.95", 2)]):
        run = new_run(place, f"2026010{number + 1}_000000", versions=(1,))
        (run.path / "overrides.yaml").write_text(f'- "task=Ant"\n- "seed={seed}"\n- "train.tau={tau}"\n')
        (run.path / "config.yaml").write_text(f"seed: {seed}\ntrain: {{tau: {tau}}}\n")
        writer = ScalarWriter(run.summaries)
        for frame in (0, 100, 200):
            writer.add_scalar("rewards/step", float(seed * frame), frame)
        writer.close()
    return place


def test_the_table_says_what_was_typed_differently(sweep):
    runs = list_runs(sweep)
    named = {run.name: settings for run, settings in differences(runs).items()}
    assert named["Ant_train_20260102_000000"] == {"seed": "2", "train.tau": "0.9"}
    (runs[0].path / "overrides.yaml").write_text("[]\n")
    (runs[0].path / "config.yaml").write_text("seed: 42\ntrain: {tau: 0.95}\n")  # a default, which nobody typed
    assert differences(runs)[runs[0]] == {"seed": "42", "train.tau": "0.95"}
    shutil.rmtree(runs[0].path)
    (runs[1].path / "config.yaml").unlink()  # such as a copy in progress
    assert differences(runs[1:])[runs[1]] == {"seed": "1", "train.tau": "0.95"}


def test_a_piped_table_has_one_line_for_each_run_with_its_whole_name(sweep, config):
    out = io.StringIO()
    manage_runs(config("config=runs", f"runsDir={sweep}"), None, Console(file=out, width=40))
    for run in list_runs(sweep):
        assert re.search(rf"^ {run.name} .*MiB .*seed=[12] train\.tau=0\.95?", out.getvalue(), re.MULTILINE)


def test_in_a_narrow_terminal_the_differences_are_below_the_name(sweep):
    out = io.StringIO()
    Console(file=out, width=80).print(runs_table([facts_of(run) for run in list_runs(sweep)], 80))
    assert re.search(r"^ Ant_train_20260102_000000 .*MiB *\n +seed=2 train\.tau=0\.9 *$", out.getvalue(), re.MULTILINE)


def drawn(runs):
    """The lines of a plot of these runs."""
    groups = compare(sorted(runs, key=lambda run: run.name)).groups
    return [line for group in groups for line in lines_of(group, lambda outcome: outcome.curves.get("rewards/step"))]


def test_seeds_are_one_line_with_a_band_and_the_legend_names_the_rest(sweep):
    runs = list_runs(sweep)
    lines = drawn(runs)
    assert [line.label for line in lines] == ["train.tau=0.9, 2 seeds", "train.tau=0.95, 2 seeds"]
    assert lines[0].x.tolist() == [0, 100, 200]
    assert (lines[0].mean.tolist(), lines[0].low.tolist()) == ([0, 150, 300], [0, 100, 200])
    alone = [run for run in runs if run.name != "Ant_train_20260102_000000"]
    lines = drawn(alone)
    assert [line.label for line in lines] == ["seed=1 train.tau=0.9", "train.tau=0.95, 2 seeds"]
    assert lines[0].low is None


def test_runs_that_were_typed_alike_stay_apart(runs):
    trained = list_runs(runs, "train")
    assert sorted(line.label for line in drawn(trained)) == sorted(names(runs, "train"))


def test_without_a_runs_directory_it_reports_it(config, tmp_path):
    with pytest.raises(UserError, match="there is no directory"):
        manage_runs(config("config=runs", f"runsDir={tmp_path / 'none'}"), None, Console(file=io.StringIO()))

"""config=report: which runs are meant, their numbers, groups with intervals, the files."""

from __future__ import annotations

import csv
import errno
import io
import os
import re
import shutil
import sys

import numpy as np
import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from livegym.cfg import cli, jobs
from livegym.compare.chosen import choose
from livegym.compare.comparison import compare, panels_of
from livegym.compare.curves import read_curves
from livegym.compare.groups import SECONDS, Interval, interval, lines_of, too_short
from livegym.compare.outcome import RETURN, outcome_of
from livegym.compare.report import print_tables, report
from livegym.compare.table import clock, groups_table, runs_table
from livegym.rl.scalars import ScalarWriter
from livegym.rundir.lock import RunLock
from livegym.rundir.run import Run, create_run, list_runs, open_run, point_latest
from livegym.rundir.sweep import JobRecord, read_jobs
from livegym.utils import files
from livegym.utils.errors import UserError
from tests.checkpoint_samples import new_run, save


def train(folder, when: str, slope: float, typed: tuple[str, ...] = (), task: str = "Ant", frames: int = 5) -> Run:
    """A run with the curve slope * frame at 0, 100, ..."""
    run = new_run(folder, when, task=task)
    (run.path / "overrides.yaml").write_text("".join(f'- "{argument}"\n' for argument in typed) or "[]\n")
    (run.path / "config.yaml").write_text("seed: 42\nmaxIterations: 5\ntrain: {tau: 0.95}\n")
    writer = ScalarWriter(run.summaries)
    for step in range(frames):
        writer.add_scalar(RETURN, slope * 100 * step, 100 * step)
        writer.add_scalar("info/epochs", step + 1, 100 * step)
        writer.add_scalar("success/step", step / 10, 100 * step)
    writer.close()
    return run


@pytest.fixture
def folder(tmp_path):
    """Two seeds of two settings, and the record of their sweep."""
    runs = tmp_path / "runs"
    number = 0
    for tau in ("0.9", "0.95"):
        for seed in (1, 2):
            number += 1
            typed = [f"seed={seed}", f"train.tau={tau}"]
            record = JobRecord(runs / "sweeps" / "one", number, typed)
            record.begin()
            record.note_run(train(runs, f"2026010{number}_000000", number, tuple(typed)))
            record.end(0, 400.0 * number)
    return runs


@pytest.fixture
def written(folder, config, tmp_path):
    """Runs config=report; returns its output, and its folder."""

    def run(*overrides: str, place="report"):
        out = io.StringIO()
        keys = (f"runsDir={folder}", f"reportDir={tmp_path / place}", *overrides)
        assert report(config("config=report", *keys), None, Console(file=out, width=200)) == 0
        return out.getvalue(), tmp_path / place

    return run


def names(runs) -> list[str]:
    return [run.name[-15:-7] for run in runs]


def test_curves_are_those_that_tensorboard_shows(tmp_path):
    """Across a resume, whose session marker discards what a killed session had written beyond it."""
    run = new_run(tmp_path, "20260101_000000")
    for start, steps in ((0, (0, 100, 200, 300)), (150, (200, 250))):
        writer = ScalarWriter(run.summaries, start_step=start)
        for step in steps:
            writer.add_scalar("a", start + step, step)
            writer.add_scalar("b", -step, step)
        writer.close()
    accumulator = EventAccumulator(str(run.summaries))
    accumulator.Reload()
    curves, problem = read_curves(run)
    assert problem == ""
    for tag in ("a", "b"):
        shown = accumulator.Scalars(tag)
        assert curves[tag].frames.tolist() == [e.step for e in shown]
        assert curves[tag].values.tolist() == [e.value for e in shown]
    assert curves["a"].frames.tolist() == [0, 100, 200, 250]
    assert (np.diff(curves["a"].seconds) >= 0).all()


def test_what_a_damaged_event_file_still_holds_is_used_and_the_damage_is_reported(folder):
    run = list_runs(folder)[0]
    (file,) = run.summaries.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])  # as a copy in progress
    curves, problem = read_curves(run)
    assert (len(curves[RETURN].frames), len(curves["success/step"].frames), problem) == (5, 4, "")
    file.write_bytes(whole[:200] + b"\xff" * 40 + whole[240:])
    assert "is damaged" in "; ".join(outcome_of(run).notes)


def test_the_outcome_of_a_training_run(folder):
    run = list_runs(folder)[-1]
    outcome = outcome_of(run)
    assert (outcome.final, outcome.best, outcome.frames, outcome.notes) == (400, 400, 400, ())
    assert outcome.success == pytest.approx(0.4)  # the last tenth of five points is one
    save(run.path, 3, reward=123.5)
    assert outcome_of(run).best == 400  # the last return, which is not saved yet
    save(run.path, 4, reward=1234.5)
    assert outcome_of(run).best == 1234.5  # as the log and checkpoint=best say
    with RunLock(run):
        assert outcome_of(run).notes == ("live",)


def test_what_is_missing_in_a_run_is_noted(folder, tmp_path):
    early = train(folder, "20260201_000000", 1.0, frames=2)
    assert outcome_of(early).notes == ("ended after 2 of 5 iterations",)
    assert outcome_of(new_run(folder, "20260202_000000")).notes == ("no curves",)
    assert outcome_of(create_run(folder, "Ant", "test")).notes == ("a test without readable results",)
    shutil.rmtree(early.path)
    assert outcome_of(early).notes == ("its directory does not exist",)


def test_a_test_is_compared_by_its_results(folder):
    test = create_run(folder, "Ant", "test")
    test.results_file.write_text('{"return_mean": 7.5, "success_rate": 0.25, "episode_count": 8}')
    outcome = outcome_of(test)
    assert (outcome.final, outcome.success, outcome.best) == (7.5, 0.25, None)
    assert outcome.notes == ("a test of 8 episodes: no curves",)


def test_the_interval_is_the_percentile_bootstrap_of_the_mean():
    assert interval([5.0]) == Interval(5.0)
    assert interval([0.0, 100.0]) == Interval(50.0, 0.0, 100.0)  # a quarter of the resamples are one value twice
    many = interval(list(np.random.default_rng(3).normal(10, 2, 50)))
    half = 1.96 * 2 / 50**0.5  # of the normal distribution
    assert many.low == pytest.approx(many.mean - half, abs=0.15)
    assert many.high == pytest.approx(many.mean + half, abs=0.15)


def test_groups_have_the_mean_over_seeds_on_both_axes(folder):
    groups = compare(list_runs(folder)[::-1]).groups
    assert [group.label for group in groups] == ["train.tau=0.9, 2 seeds", "train.tau=0.95, 2 seeds"]
    (line,) = lines_of(groups[0], lambda o: o.curves.get(RETURN))
    assert line.x.tolist() == [0, 100, 200, 300, 400]
    assert line.mean.tolist() == [0, 150, 300, 450, 600]
    assert (line.low.tolist()[-1], line.high.tolist()[-1]) == (400, 800)
    (line,) = lines_of(groups[0], lambda o: o.curves.get(RETURN), SECONDS)
    assert (np.diff(line.x) >= 0).all()


def test_a_run_that_ended_early_does_not_cut_the_mean_of_the_others(folder):
    train(folder, "20260201_000000", 9.0, ("seed=3", "train.tau=0.9"), frames=2)
    (group, _) = compare(list_runs(folder)[::-1]).groups
    assert names(o.run for o in too_short(group)) == ["20260201"]
    mean, apart = lines_of(group, lambda o: o.curves.get(RETURN))
    assert mean.label == "train.tau=0.9, 2 seeds"
    assert mean.x[-1] == 400
    assert apart.label.startswith("train.tau=0.9, Ant_train_20260201")
    rows = {row.name[-15:-7]: row.notes for row in compare(list_runs(folder)).rows}
    assert "not averaged" in rows["20260201"]


def test_each_task_has_a_panel_of_its_own(folder):
    train(folder, "20260201_000000", 9.0, task="Cartpole")
    panels = panels_of(compare(list_runs(folder)[::-1]), lambda o: o.curves.get(RETURN))
    assert [(panel.title, len(panel.lines)) for panel in panels] == [("Ant", 2), ("Cartpole", 1)]


def test_runs_are_chosen_by_name_part_pattern_directory_sweep_and_list(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    newest = list_runs(folder)[0]
    every = ["20260101", "20260102", "20260103", "20260104"]
    point_latest(folder, "train", newest)
    create_run(folder, "Ant", "test")
    assert names(choose([], folder).runs) == every
    for name in (newest.name, "0104_", f"runs/{newest.name}", str(newest.path), "latest", "Ant_train_*4_000000"):
        assert names(choose([name], folder).runs) == ["20260104"], name
    assert names(choose(["*0102_*", newest.name, "*_train_*"], folder).runs) == ["20260102", "20260104", *every[::2]]
    assert names(choose(["runs"], folder).runs) == every
    assert names(choose(["runs/Ant_train*"], folder).runs) == every
    for name in ("runs/sweeps/one", "sweeps/one", "one"):
        chosen = choose([name], folder)
        assert (names(chosen.runs), chosen.missing) == (every, [])
        assert chosen.sweep.resolve() == folder / "sweeps" / "one"


def test_a_name_that_means_no_run_or_several_is_an_error(folder):
    with pytest.raises(UserError, match=r"matches 4 runs.*'runs=\*Ant\*'"):
        choose(["Ant"], folder)
    with pytest.raises(UserError, match=r"no such run\. Allowed: Ant_train_20260104_000000"):
        choose(["Humanoid"], folder)
    with pytest.raises(UserError, match="matches no run"):
        choose(["Humanoid*"], folder)
    with pytest.raises(UserError, match="no training run of Humanoid"):
        choose([], folder, "Humanoid")
    for name in ("a" * 300, "a" * 300 + "/b", "nul\0"):  # no path can be so
        with pytest.raises(UserError, match="no such run"):
            choose([name], folder)


def test_runs_of_two_machines_may_have_the_same_name(tmp_path):
    runs = [train(tmp_path / f"machine{i}", "20260101_000000", i, (f"train.tau=0.{i}",)) for i in (1, 2)]
    assert [row.differs for row in compare(runs).rows] == ["train.tau=0.1", "train.tau=0.2"]
    assert [group.name for group in compare(runs).groups] == ["train.tau=0.1", "train.tau=0.2"]


def test_a_record_of_settings_that_is_no_list_counts_as_unreadable(folder):
    runs = list_runs(folder)
    (runs[0].path / "overrides.yaml").write_text("5\n")
    assert compare(runs).rows[0].differs == "seed=42 train.tau=0.95"


def test_a_sweep_is_found_where_it_was_copied_to_and_says_what_is_missing(folder, tmp_path):
    failed = JobRecord(folder / "sweeps" / "one", 5, ["seed=x", "streamToken=verysecret"])
    failed.begin()
    failed.end(2, None)
    shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(folder)
    shutil.rmtree(tmp_path / "copy" / "Ant_train_20260102_000000")
    chosen = choose([str(tmp_path / "copy" / "sweeps" / "one")], folder)
    assert names(chosen.runs) == ["20260101", "20260103", "20260104"]
    gone, without = chosen.missing
    assert "Ant_train_20260102_000000 (seed=2 train.tau=0.9) no longer exists" in gone
    assert "job 5 (seed=x streamToken=***) has no run; its exit status: 2" in without
    jobs = read_jobs(tmp_path / "copy" / "sweeps" / "one")
    assert [(job.number, job.status, job.objective) for job in jobs][-2:] == [(4, 0, 1600.0), (5, 2, None)]


def test_a_failed_job_has_no_objective_however_high_its_returns_were(tmp_path, monkeypatch):
    def job(cfg) -> int:
        jobs.current_record().note_run(train(tmp_path / "runs", f"2026010{cfg.seed}_000000", 1.0))
        return 0 if cfg.seed == 1 else 1

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train.py", "-m", "seed=1,2"])
    assert cli.run(job) == 1
    (sweep,) = (tmp_path / "runs" / "sweeps").iterdir()
    assert [(job.status, job.objective) for job in read_jobs(sweep)] == [(0, 400.0), (1, None)]


@pytest.mark.slow
def test_the_report_has_a_table_pictures_and_one_file_that_needs_nothing_else(written, folder):
    text, place = written()
    for run in list_runs(folder):
        assert re.search(rf"^ {run.name} .*seed=[12] train\.tau=0\.95? *$", text, re.MULTILINE)
    assert re.search(r"^ train\.tau=0\.9 +2 seeds +600 \[400, 800\]", text, re.MULTILINE)
    assert f"report: {place / 'report.html'}" in text
    html = (place / "report.html").read_text()
    assert html.count('src="data:image/png;base64,') == 3  # by frames, by time, success
    assert re.findall(r'(?:src|href)="(?!data:)|https?://|<script|@import|url\(', html) == []
    assert all(run.name in html for run in list_runs(folder))
    for name in ("return", "return_by_time", "success"):
        assert (place / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (place / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    svg = (place / "return.svg").read_text()
    assert "<svg" in svg
    rows = list(csv.DictReader((place / "runs.csv").open()))
    assert (rows[0]["run"], float(rows[0]["final"])) == ("Ant_train_20260101_000000", 400.0)


def test_a_report_escapes_what_was_typed(folder, written):
    train(folder, "20260201_000000", 1.0, ("seed=3", "train.tau=<script>alert(1)</script>"))
    _, place = written()
    assert "<script" not in (place / "report.html").read_text()


def test_the_report_says_what_it_could_not_draw(folder, written):
    new_run(folder, "20260201_000000")
    shutil.rmtree(folder / "Ant_train_20260102_000000")
    text, place = written("runs=[one,Ant_train_20260201_000000]")
    assert re.search(r"Ant_train_20260201_000000 .*no curves", text)
    assert "left out: Ant_train_20260102_000000 (seed=2 train.tau=0.9) no longer exists" in text
    assert "no longer exists" in (place / "report.html").read_text()


def test_a_report_without_any_curve_is_still_written(written, folder):
    test = create_run(folder, "Ant", "test")
    test.results_file.write_text('{"return_mean": 7.5, "episode_count": 8}')
    text, place = written(f"runs={test.name}")
    assert "a test of 8 episodes" in text
    assert sorted(p.name for p in place.iterdir()) == ["report.html", "runs.csv"]


@pytest.mark.slow
def test_reports_go_to_the_sweep_or_to_a_directory_of_their_own(folder, config):
    for chosen, pattern in (("one", "sweeps/one/report/report.html"), ("Ant*", "reports/*/report.html")):
        keys = (f"runsDir={folder}", f"runs={chosen}")
        report(config("config=report", *keys), None, Console(file=io.StringIO()))
        assert len(list(folder.glob(pattern))) == 1


def test_a_report_that_cannot_be_written_or_has_no_such_curve_is_an_error(written, folder, config, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"cannot be written.*reportDir="):
        written(place="file")
    of_nobody = config("config=report", f"runsDir={folder}", 'reportDir="~nobody_here/\0"')
    with pytest.raises(UserError, match=r"cannot be written.*reportDir="):
        report(of_nobody, None, Console(file=io.StringIO()))
    with pytest.raises(UserError, match=r"runsTag=rewards/stepp: none of 4 runs has this curve.*rewards/step"):
        written("runsTag=rewards/stepp")


@pytest.mark.slow
def test_on_a_full_disk_nothing_of_a_new_report_stays_and_an_old_one_stays_whole(written, tmp_path, monkeypatch):
    _, old = written()
    before = {file.name: file.read_bytes() for file in old.iterdir()}
    _fail_at(monkeypatch, "return.svg")
    for place in ("report", "new/deep/report"):
        with pytest.raises(UserError, match="No space left on device"):
            written("runsTag=rewards/step", place=place)
    assert not (tmp_path / "new").exists()
    after = {file.name: file.read_bytes() for file in old.iterdir()}
    assert after == before  # the same curves are the same pictures


def _fail_at(monkeypatch, name: str) -> None:
    """From now on, the disk is full when the file `name` is written."""
    stage = files.stage_bytes

    def full(path, data):
        if path.name == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return stage(path, data)

    monkeypatch.setattr(files, "stage_bytes", full)


def test_in_eighty_columns_the_names_are_whole_and_nothing_is_lost(folder):
    train(folder, "20260201_000000", 1e6, ("seed=3", "train.tau=0.9"), task="BlindGrasping")
    rows = compare(list_runs(folder)).rows
    out = io.StringIO()
    Console(file=out, width=80).print(runs_table(rows, 80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for row in rows:
        assert re.search(rf"^ {row.name} ", text, re.MULTILINE)
        assert all(number in text for number in row.numbers)
        assert row.differs in text


def test_in_eighty_columns_the_settings_of_a_group_are_whole_too(folder):
    out = io.StringIO()
    groups = [("task.rewards.upright=2.5 train.learning_rate=3e-4", "8 seeds", "44.66 [24.56, 64.77]", "1 [0, 2]", "–")]
    Console(file=out, width=80).print(groups_table(groups))
    assert "".join(line[1:30].strip() for line in out.getvalue().splitlines()[3:-1]).startswith(
        "task.rewards.upright=2.5"
    )
    assert all(part in out.getvalue() for part in ("8 seeds", "44.66 [24.56, 64.77]", "1 [0, 2]", "3e-4"))


def test_a_piped_table_has_one_line_for_each_run(folder):
    out = io.StringIO()
    print_tables(compare(list_runs(folder)), Console(file=out, width=30))
    assert len(re.findall(r"^ Ant_train_\d{8}_000000 .*train\.tau=\S+ *$", out.getvalue(), re.MULTILINE)) == 4


def test_a_list_of_texts_may_be_typed_as_one_text(config):
    for typed, value in (
        ("runs=Ant_*", ["Ant_*"]),
        ("runs=20260102_120008", ["20260102_120008"]),
        ("runs=[20260102_120008,a]", ["20260102_120008", "a"]),
        ("runs=[a,b]", ["a", "b"]),
        ('runs="/tmp/a b"', ["/tmp/a b"]),
        ("runs=runs/sweeps/20260102_120008_000123", ["runs/sweeps/20260102_120008_000123"]),
    ):
        assert config("config=report", typed).runs == value
    assert config("streamHosts=robot.lab").streamHosts == ["robot.lab"]
    with pytest.raises(UserError, match="runs=null"):
        config("config=report", "runs=null")


def test_durations():
    assert [clock(s) for s in (0.04, 59.9, 59.96, 3723)] == ["0.0 s", "59.9 s", "0:01:00", "1:02:03"]


def test_a_run_that_cannot_be_read_has_a_note(folder, monkeypatch):
    run = list_runs(folder)[0]
    if os.geteuid() == 0:  # to whom every file is readable
        monkeypatch.setattr(type(run.summaries), "iterdir", _refused)
    else:
        run.summaries.chmod(0)
    assert "its curves cannot be read (Permission denied)" in outcome_of(open_run(run.path)).notes


def _refused(path):
    raise PermissionError(13, "Permission denied")

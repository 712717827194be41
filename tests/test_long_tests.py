"""Tests that run for hours: results that survive a kill, curves, and a terminal that stays readable."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from livegym.play import curves, results_file, status_log
from livegym.play.report import Reporter
from livegym.play.results import Results
from livegym.play.results_file import ResultsFile
from livegym.play.status_log import StatusLog
from livegym.tasks.stats import FinishedEpisodes
from livegym.utils.log import ROUTINE, setup_logging
from livegym.weights.candidate import SwapEvent
from tests.patience import until
from tests.processes import SMALL, Running, results, run, scalars


class Clock:
    """Stands in for `time.monotonic` in one module."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    for module in (curves, results_file, status_log):
        monkeypatch.setattr(module, "time", clock)
    return clock


def collected() -> Results:
    found = Results({"task": "Counting"})
    found.begin(("failed", "solved"), "solved")
    return found


def episode(value: float, reason: int = 0) -> FinishedEpisodes:
    ended = (torch.tensor([0]), torch.tensor([value]), torch.tensor([7]), torch.tensor([reason]))
    return FinishedEpisodes(*ended, levels=torch.ones(1))


def swap(version: int, accepted: bool = True, run: str = "first") -> SwapEvent:
    return SwapEvent(0.0, "bus", run, "", version, version, 1.0, accepted, "", 0.3)


def written(path: Path) -> dict | None:
    for thread in threading.enumerate():
        if thread.name == "results":
            thread.join()
    return json.loads(path.read_text()) if path.exists() else None


def test_the_file_is_written_within_a_minute_of_a_change_and_only_then(tmp_path, clock):
    found = collected()
    file = ResultsFile(found, tmp_path / "results.json")
    clock.now = 1000.0
    file.refresh()
    assert written(tmp_path / "results.json") is None  # nothing has happened yet
    found.add(episode(3.0), 0, [1], 1)
    file.refresh()
    first = written(tmp_path / "results.json")
    assert (first["episode_count"], first["ended"]) == (1, False)
    found.add(episode(5.0), 0, [2], 2)
    clock.now += results_file.WRITE_INTERVAL - 1
    file.refresh()
    assert written(tmp_path / "results.json") == first
    clock.now += 1
    file.refresh()
    assert written(tmp_path / "results.json")["return_mean"] == 4.0
    assert file.write()
    assert written(tmp_path / "results.json")["ended"] is True
    assert results_file.WRITE_INTERVAL < 60


def test_a_copy_of_the_results_does_not_change_any_more():
    found = collected()
    found.add(episode(3.0), 0, [1], 1)
    found.note(swap(2))
    before = found.copy()
    text = json.dumps(before.to_dict())
    found.add(episode(9.0, reason=1), 0, [1], 1)
    found.note(swap(3, accepted=False))
    assert json.dumps(before.to_dict()) == text
    assert (before.adopted, before.refused, found.refused) == (1, 0, 1)


def test_a_full_disk_is_one_warning_until_it_has_room_again(tmp_path, clock, caplog):
    found = collected()
    file = ResultsFile(found, tmp_path / "missing" / "results.json")
    for minute in range(1, 4):
        clock.now = 60.0 * minute
        found.add(episode(1.0), 0, [1], 1)
        file.refresh()
        written(tmp_path / "x")
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert not file.write()
    (tmp_path / "missing").mkdir()
    assert file.write()


def test_an_hour_at_one_version_a_second_takes_fewer_than_150_lines(clock, caplog):
    caplog.set_level(logging.INFO)
    found = collected()
    status = StatusLog(found)
    lines = []
    for second in range(7200):
        clock.now = float(second)
        found.note(swap(second))
        status.refresh(second)
        if second in (3599, 7199):
            lines.append(len(caplog.records))
    assert 60 < lines[0] < 120
    assert lines[1] - lines[0] < 30
    assert caplog.records[0].getMessage() == "no episode has ended yet; acting: version 10 (11 swaps)"


def test_the_status_comes_only_if_something_has_changed(clock, caplog):
    caplog.set_level(logging.INFO)
    found = collected()
    status = StatusLog(found)
    clock.now = 100.0
    status.refresh(1)
    assert caplog.records == []
    found.add(episode(2.5), 0, [1], 1)
    found.note(swap(2, accepted=False))
    status.refresh(1)
    clock.now = 200.0
    status.refresh(1)
    assert [r.getMessage() for r in caplog.records] == [
        "1 episode, mean return 2.50; of the last 1: 2.50; acting: version 1 (1 refused)"
    ]


def test_the_terminal_shows_the_first_swap_of_each_run_and_the_log_all(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    reporter = Reporter(collected(), tmp_path / "results.json", endless=True)
    for event in (swap(1), swap(2), swap(3), swap(4, run="second"), swap(5, run="second")):
        reporter.note_swap(event)
    shown = [getattr(record, "routine", False) for record in caplog.records]
    assert shown == [False, True, True, False, True]


@pytest.mark.parametrize(("level", "expected"), [("info", ["rare"]), ("debug", ["rare", "often"])])
def test_routine_events_reach_the_terminal_only_with_debug(level, expected, capsys):
    setup_logging(level)
    log = logging.getLogger("livegym.test")
    log.info("rare")
    log.info("often", extra=ROUTINE)
    text = capsys.readouterr().err
    assert [word for word in ("rare", "often") if word in text] == expected


def test_curves_of_a_test_are_means_over_the_episodes_since_the_last_point(tmp_path, clock):
    reporter = Reporter(collected(), tmp_path / "results.json", True, tmp_path / "summaries")
    reporter.refresh(1)
    reporter.note_episode(episode(1.0), 0, [1], 1)
    reporter.note_episode(episode(2.0, reason=1), 0, [1], 1)
    clock.now = curves.POINT_INTERVAL
    reporter.refresh(3)
    clock.now *= 2
    reporter.refresh(4)  # no episode ended
    reporter.note_episode(episode(7.0, reason=1), 0, [5], 5)
    reporter.refresh("second: 5")
    reporter.write()
    folder = tmp_path / "summaries"
    assert scalars(folder, "test/return") == [(3, 1.5), (5, 7.0)]
    assert scalars(folder, "test/success") == [(3, 0.5), (5, 1.0)]
    assert scalars(folder, "test/length") == [(3, 7.0), (5, 7.0)]
    assert scalars(folder, "test/episodes") == [(3, 2.0), (5, 1.0)]


def test_curves_that_cannot_be_written_are_one_warning_and_the_test_continues(tmp_path, clock, caplog):
    reporter = Reporter(collected(), tmp_path / "results.json", True, tmp_path / "gone" / "summaries")
    for point in (1, 2, 3):
        clock.now = point * curves.POINT_INTERVAL
        reporter.note_episode(episode(1.0), 0, [1], 1)
        reporter.refresh(1)
    assert sum("TensorBoard curves cannot be written" in r.message for r in caplog.records) == 1
    assert reporter.write()


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    assert run(folder, *SMALL, "config=train_headless", "maxIterations=3", "seed=0").returncode == 0
    return folder


@pytest.mark.slow
def test_a_killed_test_has_written_its_results_and_curves(trained):
    code = (
        "import sys\n"
        "from livegym.play import curves, results_file\n"
        "results_file.WRITE_INTERVAL = curves.POINT_INTERVAL = 0.3\n"
        "sys.argv[0] = 'train.py'\n"
        "from livegym.train import main\n"
        "sys.exit(main())\n"
    )
    command = [sys.executable, "-c", code, "config=test", "testGamesNum=0", "checkpoint=latest"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    log = trained / "killed.log"
    with log.open("w") as out, subprocess.Popen(command, cwd=trained, env=environment, stdout=out, stderr=out) as test:
        file = trained / "runs" / "latest_test" / "results.json"
        until(lambda: file.exists() and json.loads(file.read_text())["episode_count"] > 8, log.read_text, test)
        test.send_signal(signal.SIGKILL)
    found = results(trained)
    assert found["ended"] is False
    assert len(found["episodes"]) == found["episode_count"]
    assert scalars(trained / "runs" / "latest_test" / "summaries", "test/return")
    done = run(trained, "config=test", "checkpoint=latest_test", "testGamesNum=1")
    assert done.returncode == 0, done.stdout


@pytest.mark.full
@pytest.mark.slow
def test_an_endless_test_writes_curves_and_a_short_one_does_not(trained):
    with Running(trained, "config=test", "testGamesNum=0", "checkpoint=latest", name="endless") as test:
        test.wait_for("mean return")
        assert test.end() == 0
    assert scalars(trained / "runs" / "latest_test" / "summaries", "test/return")
    assert run(trained, "config=test", "testGamesNum=1", "checkpoint=latest").returncode == 0
    assert not (trained / "runs" / "latest_test" / "summaries").exists()

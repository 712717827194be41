"""Terminals that go away, disks that are full, states that make no sense: what must not end a run does not."""

from __future__ import annotations

import io
import itertools
import logging
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from rich.console import Console

from livegym.play.report import Reporter
from livegym.play.results import VERSIONS_KEPT, Results
from livegym.rl.progress import Progress
from livegym.rl.scalars import ScalarWriter
from livegym.rundir.lock import RunLock, lock_holder
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import begin_run, create_run
from livegym.tasks.stability import HOPELESS
from livegym.utils import signals
from livegym.utils.errors import UserError
from livegym.utils.log import file_log
from tests.disk_fixtures import tmpfs
from tests.dummy import CountingParams, counting_env
from tests.processes import scalars
from tests.test_learning import learner_of
from tests.test_live import FinishedEpisodes


class Gone(io.StringIO):
    """A terminal whose other end has closed."""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_table_of_results_says_what_its_numbers_are():
    reporter = Reporter(Results({"task": "Ant"}), Path("unused"), endless=False)
    for version, end in ((1, 4.0), (2, 6.0)):
        out = io.StringIO()
        reporter.results.begin(("fell",), None)
        zero = torch.zeros(1, dtype=torch.int64)
        finished = FinishedEpisodes(zero, torch.tensor([end]), zero + 3, zero, torch.ones(1))
        reporter.results.add(finished, 0, [version], version)
        reporter.print_table(Console(file=out, width=120))
        if version == 1:
            assert "Ant: 1 episode\n" in re.sub(" +\n", "\n", out.getvalue())
            assert re.search(r"mean return +│ +4\.00 ", out.getvalue())
    assert re.search(r"mean return ± standard error │ 5\.00 ± 1\.00", out.getvalue())
    assert "an episode counts for the version that acted in more of its steps than any other" in " ".join(
        out.getvalue().split()
    )


def test_a_terminal_that_goes_away_takes_the_display_along_and_nothing_else(caplog):
    learner = learner_of(iterations=3)
    console = Console(file=Gone(), force_terminal=True)
    with Progress("training", 3, lambda: None, None, console) as progress:
        learner.train(progress.update)
    assert learner.epoch == 3
    assert sum("terminal is gone" in r.message for r in caplog.records) == 1


@pytest.fixture
def full(tmp_path):
    """A file system of its own with little room, for `fill` to fill."""
    with tmpfs(tmp_path / "disk", "256k") as disk:
        yield disk


def fill(disk):
    with (disk / "filler").open("wb", buffering=0) as out:
        try:
            while True:
                out.write(b"x" * 4096)
        except OSError:
            return


def test_a_log_on_a_full_disk_costs_its_lines_and_no_more(full, capsys):
    run = create_run(full, "Counting", "train")
    fill(full)
    with file_log(run.log_file):
        for _ in range(2000):
            logging.getLogger("test").warning("a line that cannot be written %s", "x" * 50)
    assert capsys.readouterr().err.count("cannot be written (No space") == 1


def test_a_log_that_cannot_be_closed_hides_no_error_also_if_standard_error_is_as_full(full, monkeypatch):
    run = create_run(full, "Counting", "train")
    with (full / "stderr").open("w") as output:
        fill(full)
        monkeypatch.setattr("sys.stderr", output)

        def work():
            with file_log(run.log_file):
                logging.getLogger("test").warning("a line that cannot be written %s", "x" * 9000)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            work()
        (full / "filler").unlink()


def test_a_thread_that_is_still_ending_does_not_open_a_closed_log_again(tmp_path):
    with file_log(tmp_path / "train.log"):
        handler = logging.getLogger().handlers[-1]
    handler.emit(logging.LogRecord("late", logging.WARNING, "", 0, "last words", None, None))
    assert not (tmp_path / "train.log").exists()


def test_a_lock_on_a_full_disk_holds_all_the_same(full):
    run = create_run(full, "Counting", "train")
    fill(full)
    with RunLock(run):
        assert lock_holder(run) is not None


def test_a_run_that_cannot_be_begun_leaves_nothing(full):
    fill(full)
    with pytest.raises(UserError, match="runsDir="):
        begin_run(full, "Counting", "train", Provenance("", "", [], []))
    assert [p.name for p in full.iterdir()] == ["filler"]


def test_curves_continue_when_the_disk_has_room_again(full, caplog):
    writer = ScalarWriter(full)
    writer.add_scalar("a", 1.0, 1)
    writer.flush()
    fill(full)
    for step in range(2, 2000):
        writer.add_scalar("a", float(step), step)
    writer.flush()
    (full / "filler").unlink()
    writer.flush()
    writer.add_scalar("a", 5.0, 5000)
    writer.close()
    steps = [step for step, _ in scalars(full, "a")]
    assert steps[0] == 1
    assert steps[-1] == 5000
    assert sum("cannot be written" in r.message for r in caplog.records) == 1


def test_a_disk_that_stays_full_is_reported_once_and_gets_no_more_files(full, caplog):
    caplog.set_level("INFO")
    writer = ScalarWriter(full)
    fill(full)
    for step in range(2000):
        writer.add_scalar("a", float(step), step)
        writer.flush()
    assert [r.message.split("(")[0] for r in caplog.records] == ["TensorBoard curves cannot be written "]
    assert len(list(full.glob("events*"))) == 1
    (full / "filler").unlink()
    writer.flush()
    assert caplog.records[-1].message == "TensorBoard curves are being written again."


def test_curves_survive_a_clock_that_goes_back(tmp_path, monkeypatch):
    first = ScalarWriter(tmp_path)
    for step in (1, 2, 3):
        first.add_scalar("a", step, step)
    first.close()
    now = time.time()
    monkeypatch.setattr("livegym.rl.scalars.time.time", lambda: now - 2 * 86400)
    second = ScalarWriter(tmp_path, start_step=3)
    second.add_scalar("a", 4, 4)
    second.close()
    monkeypatch.undo()
    assert [step for step, _ in scalars(tmp_path, "a")] == [1, 2, 3, 4]


class AllBreaking(counting_env().task.__class__):
    """Nothing stays finite."""

    def reward(self, state, action):
        terms = super().reward(state, action)
        terms["alive"][:] = torch.nan
        return terms


def test_where_nothing_stays_finite_it_is_reported_once_and_then_ended(caplog):
    env = counting_env(task=AllBreaking, params=CountingParams())
    env.reset()
    for _ in range(HOPELESS - 1):
        env.step(env.zero_action())
    with pytest.raises(UserError, match="every environment became non-finite") as error:
        env.step(env.zero_action())
    assert error.value.exit_code == 1
    assert sum("became non-finite" in r.message for r in caplog.records) == 1
    assert env.drain_report().unstable == 2 * HOPELESS


def test_versions_in_the_results_are_bounded_and_become_sparser_with_age():
    results = Results({"task": "t"})
    results.begin(("failed",), None)
    for version in range(10 * VERSIONS_KEPT):
        finished = FinishedEpisodes(
            torch.tensor([0]), torch.tensor([1.0]), torch.tensor([1]), torch.tensor([0]), torch.ones(1)
        )
        results.add(finished, 0, [version], version)
    kept = list(results.by_version)
    assert VERSIONS_KEPT // 2 <= len(kept) <= VERSIONS_KEPT
    assert kept[0] == 0
    assert kept[-VERSIONS_KEPT // 4 :] == list(range(10 * VERSIONS_KEPT - VERSIONS_KEPT // 4, 10 * VERSIONS_KEPT))
    steps = [later - earlier for earlier, later in itertools.pairwise(kept)]
    ages = [kept[-1] - earlier for earlier in kept[:-1]]
    assert all(step <= 1 + 0.02 * age for step, age in zip(steps, ages, strict=True))  # the whole history is covered
    assert results.returns.count == 10 * VERSIONS_KEPT


def test_a_script_can_stop_its_background_job_though_it_ignores_sigint():
    """A job that a script starts with & inherits SIGINT as ignored; nohup does the same with SIGHUP, and means it."""
    code = (
        "import os, signal\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from livegym.utils.signals import StopFlag\n"
        "with StopFlag() as stop:\n"
        "    os.kill(os.getpid(), signal.SIGHUP); assert not stop.wait(0.2)\n"
        "    os.kill(os.getpid(), signal.SIGINT); assert stop.wait(5.0)\n"
        "    print(stop.exit_status)\n"
    )
    root = Path(signals.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "130"

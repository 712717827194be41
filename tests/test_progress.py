"""What the terminal shows while a run goes on."""

from __future__ import annotations

import io
import signal
import time

import pytest
from rich.console import Console

from livegym.rl.learner import Iteration
from livegym.rl.observer import TrainingObserver
from livegym.rl.progress import Progress
from livegym.rl.training import run_training
from livegym.rundir.provenance import Provenance
from livegym.schema.settled import settled
from livegym.serve.learning_log import LearningLog
from livegym.serve.progress import StreamProgress
from livegym.utils import display
from livegym.utils.signals import StopFlag
from livegym.utils.words import count, number


def reading(decisions: int = 0, version: int = 1, state: str = "waiting") -> dict:
    return {
        "decisions": {"total": decisions, "per_second": 0.25, "send_rate": 0.5},
        "buffer": {"size": decisions, "capacity": 10_000},
        "serving": {"version": version},
        "rewards": {"mean": 0.5 if decisions else None, "count": min(1000, decisions)},
        "episodes": {"return_mean": 214.54 if decisions >= 1000 else None},
        "trainer": {"state": state, "restarts": 0},
        "gate": "cost",
    }


@pytest.fixture
def lines(monkeypatch, caplog):
    """The plain lines so far, with no pause between them."""
    monkeypatch.setattr(display, "PLAIN_INTERVAL", 0.0)
    caplog.set_level("INFO")
    return lambda: [record.message for record in caplog.records]


def test_continuous_training_shows_a_line_when_something_has_changed(lines):
    with StreamProgress("continuous training of X", Console(file=io.StringIO())) as progress:
        for state in (reading(), reading(1500), reading(1500), reading(1500, version=2), reading(1500, version=2)):
            progress.update(state)
    assert len(lines()) == 3
    assert lines()[1] == (
        "decisions 1,500, decisions/s 0.25, mean reward 0.500, mean return 215, version 1, buffer 1,500/10,000, "
        "sent 50 %, trainer waiting"
    )
    assert "mean reward none yet, version 1" in lines()[0]  # no episode has ended


def test_a_mean_of_few_decisions_says_so(lines):
    with StreamProgress("continuous training of X", Console(file=io.StringIO())) as progress:
        progress.update(reading(1))
        progress.update(reading(99))
        progress.update(reading(100))
    means = [line.partition("mean reward ")[2].partition(",")[0] for line in lines()]
    assert means == ["0.500 (of 1 decision)", "0.500 (of 99 decisions)", "0.500"]


@pytest.mark.parametrize(
    ("mean", "is_full", "shown"),
    [(None, False, "no episode yet"), (3.0, False, "3.00 (of few episodes)"), (3.0, True, "3.00")],
)
def test_a_mean_return_of_few_episodes_says_so(lines, mean, is_full, shown):
    numbers = {"frames": 8, "seconds": 1.0, "step_seconds": 1.0, "update_seconds": 0.0, "mean_length": mean}
    with Progress("training X", 10, lambda: None, None, Console(file=io.StringIO())) as progress:
        progress.update(Iteration(1, 1, 8, **numbers, mean_return=mean, mean_is_full=is_full))
    assert f", mean return {shown}, checkpoint none yet" in lines()[0]


def test_lines_keep_their_distance(lines, monkeypatch):
    monkeypatch.setattr(display, "PLAIN_INTERVAL", 1e9)
    with StreamProgress("continuous training of X", Console(file=io.StringIO())) as progress:
        progress.update(reading(1))
        progress.update(reading(2))
    assert len(lines()) <= 1


def test_in_a_terminal_it_is_a_table():
    out = io.StringIO()
    with StreamProgress("continuous training of X", Console(file=out, force_terminal=True)) as progress:
        progress.update(reading(3, version=7))
    text = out.getvalue()
    assert "continuous training of X" in text
    assert "3/10,000" in text


class StopsAfter(TrainingObserver):
    """Requests a stop when an iteration has ended, as a signal does."""

    def __init__(self, stop: StopFlag, epoch: int) -> None:
        self.stop = stop
        self.epoch = epoch

    def highest_version(self, run):
        return 0

    def begin(self, run, learner, spec, config):
        pass

    def after_iteration(self, it):
        if it.epoch == self.epoch:
            self.stop.request(signal.SIGTERM)

    def end(self, complete):
        pass


@pytest.mark.parametrize(
    ("epoch", "word", "resumable"),
    [(1, "stopped after 1 iteration,", True), (2, "finished after 2 iterations,", False)],
)
def test_a_run_that_is_stopped_after_its_last_iteration_is_finished(config, tmp_path, caplog, epoch, word, resumable):
    caplog.set_level("INFO")
    stop = StopFlag()
    c = settled(config("task=Cartpole", "numEnvs=8", "maxIterations=2", f"runsDir={tmp_path}"))
    assert run_training(c, Provenance("", "", [], []), stop, None, [StopsAfter(stop, epoch)]) == 128 + signal.SIGTERM
    assert word in caplog.text
    assert ("to resume: " in caplog.text) == resumable


@pytest.mark.parametrize(("n", "text"), [(0, "0 episodes"), (1, "1 episode"), (2000, "2,000 episodes")])
def test_counts_agree_with_their_noun(n, text):
    assert count(n, "episode") == text


@pytest.mark.parametrize(("value", "text"), [(3000.0, "3,000"), (8.3333, "8.33"), (0.25, "0.25"), (999.6, "1,000")])
def test_numbers_are_written_out(value, text):
    assert number(value) == text


def learning(rounds, state="training", version=1, **trainer):
    """A reading of a service that learns."""
    values = {"average_loss": 0.03125, "average_batch_size": 32.0, "agreement": 1.0, "why": "", "state": state}
    return {
        "serving": {"version": version},
        "rewards": {"mean": 0.5},
        "episodes": {"return_mean": 214.54},
        "trainer": {**values, "training_steps": rounds, **trainer},
    }


def test_a_line_a_minute_tells_learning_and_waiting_is_said_once(caplog):
    caplog.set_level("INFO")
    learns, start = LearningLog(quiet=False), time.monotonic()
    for minute, seen in enumerate([learning(60, version=61), learning(120), learning(120, "waiting")], 1):
        learns.update(seen, start + 61 * minute)
        learns.update(learning(99), start + 61 * minute + 59)  # not due
    for minute in range(4, 60):
        learns.update(learning(120, "waiting"), start + 61 * minute)
    lines = [record.message for record in caplog.records]
    numbers = "loss 0.0312, batch 32.0, reward 0.500, return 214.5, agreement 100 %"
    assert lines == [
        f"learning: 60 update rounds (+60), version 61, {numbers}, training",
        f"learning: 120 update rounds (+60), version 1, {numbers}, training",
        f"learning: 120 update rounds (+0), version 1, {numbers}, waiting",
    ]


def test_what_is_unknown_about_learning_is_left_out(caplog):
    caplog.set_level("INFO")
    unknown = learning(None, "dead", average_loss=None, average_batch_size=None, agreement=None, why="killed")
    unknown["rewards"]["mean"] = unknown["episodes"]["return_mean"] = None
    LearningLog(quiet=False).update(unknown, time.monotonic() + 61)
    assert caplog.records[0].message == "learning: unknown number of update rounds, version 1, dead (killed)"


def test_beside_a_table_the_line_goes_to_the_log_file_only(caplog):
    caplog.set_level("INFO")
    LearningLog(quiet=True).update(learning(60), time.monotonic() + 61)
    assert caplog.records[0].routine

"""The spare trainer, as real processes: it takes over from one that was killed or hangs, and is replaced itself."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from livegym.rundir.checkpoint import newest_usable
from livegym.rundir.run import bus_file
from livegym.utils.priority import run_at_low_priority
from tests.patience import until
from tests.processes import alive
from tests.trainer_fixtures import kill, newest, published, trains, wait_for, watched

pytest_plugins = ["trainer_fixtures"]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """A spare is started as soon as the trainer trains."""
    monkeypatch.setattr("livegym.serve.watchdog.SPARE_AFTER", 0.0)


def spare_of(watchdog) -> int:
    """Waits for a spare that can take over; returns its process id."""
    wait_for(watchdog, lambda reading: reading["spare"])
    return watchdog._spare.pid


def files_in_use(pid: int, run) -> list[str]:
    """Files of the run, and its weight bus, that a process has open or mapped."""
    paths = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
    paths += [line.split(maxsplit=5)[5] for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "/" in line]
    return [path for path in paths if path.startswith((str(run.path), str(bus_file(run.run_id))))]


@pytest.mark.slow
def test_a_spare_takes_over_from_a_killed_trainer_and_from_one_that_hangs(made):
    run, settings = made("online.checkpoint_versions=10", "online.hang_timeout_s=2", spare=True)
    with watched(run, settings) as watchdog:
        first = wait_for(watchdog, trains(30))
        spare = spare_of(watchdog)
        assert not files_in_use(spare, run)
        assert files_in_use(first["pid"], run)
        kill(first["pid"])
        last, trainings = published(run), newest_usable(run).state["online"]["counts"]["trainings"]
        reading = wait_for(watchdog, lambda r: r["restarts"] == 1 and trains(last + 5)(r))
        assert (reading["pid"], reading["why"]) == (spare, "")
        assert reading["training_steps"] > trainings  # it continues from the last checkpoint
        another = spare_of(watchdog)
        assert another != spare
        os.kill(spare, signal.SIGSTOP)
        reading = wait_for(watchdog, lambda r: r["restarts"] == 2 and trains(reading["version"] + 1)(r))
        assert reading["pid"] == another
        assert not alive(spare)
    assert not alive(another)
    assert newest(run) == watchdog.reading()["version"]


@pytest.mark.slow
def test_a_killed_spare_is_replaced_and_one_that_hangs_is_not_chosen(made):
    run, settings = made(spare=True)
    with watched(run, settings) as watchdog:
        trainer = wait_for(watchdog, trains(5))["pid"]
        killed = spare_of(watchdog)
        os.kill(killed, signal.SIGKILL)
        until(lambda: watchdog._spare is not None and watchdog._spare.pid != killed)
        hung = spare_of(watchdog)
        assert (watchdog.reading()["pid"], watchdog.reading()["restarts"]) == (trainer, 0)
        os.kill(hung, signal.SIGSTOP)
        kill(trainer)
        reading = wait_for(watchdog, lambda r: r["restarts"] == 1 and r["pid"] not in (None, trainer))
        assert reading["pid"] != hung
        assert not alive(hung)


def test_work_at_low_priority_leaves_the_rest_of_the_process_as_it_is():
    seen = []

    def work() -> None:
        seen.append((os.getpriority(os.PRIO_PROCESS, 0), threading.current_thread() is threading.main_thread()))

    before = os.getpriority(os.PRIO_PROCESS, 0)
    group = Path("/proc/self/autogroup")
    was = group.read_text() if group.exists() else ""
    run_at_low_priority(work)
    assert seen == [(max(5, before), False)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
    assert was == (group.read_text() if group.exists() else "")


def test_what_work_at_low_priority_raises_is_raised():
    def work() -> None:
        raise ValueError("none")

    with pytest.raises(ValueError, match="none"):
        run_at_low_priority(work)

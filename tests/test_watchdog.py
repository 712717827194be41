"""The trainer as a real process, and the one that looks after it: killed, stopped, orphaned, on a full disk."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from livegym.cfg.typed import as_dict
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec
from livegym.rundir.checkpoint import list_checkpoints, meta_of, newest_usable
from livegym.rundir.run import bus_file
from livegym.utils.errors import UserError
from livegym.weights.bus_reader import BusReader
from tests.disk_fixtures import small_disk  # noqa: F401 - a fixture
from tests.online_status import full_status
from tests.patience import until
from tests.processes import alive
from tests.trainer_fixtures import SPEC, kill, newest, published, trains, wait_for, watched

pytest_plugins = ["trainer_fixtures"]

# -- quick: what can be seen before a trainer has loaded its libraries


def test_a_trainer_that_is_killed_while_it_starts_is_dead_at_once(made):
    with watched(*made()) as watchdog:
        reading = watchdog.reading()
        assert (reading["state"], reading["restarts"], reading["why"]) == ("starting", 0, "")
        watchdog._end.set()  # the watchdog looks no more: this reading has to find out for itself
        watchdog._thread.join()
        kill(reading["pid"])
        reading = watchdog.reading()
        assert (reading["state"], reading["pid"]) == ("dead", None)
    assert watchdog.reading()["state"] == "stopped"


def test_a_stop_while_it_starts_leaves_no_process(made):
    with watched(*made()) as watchdog:
        pid = watchdog.reading()["pid"]
        assert alive(pid)
    assert not alive(pid)
    assert (watchdog.reading()["state"], watchdog.reading()["pid"]) == ("stopped", None)


def test_without_restarts_the_first_death_is_the_last(made, caplog):
    with watched(*made("online.max_restarts=0")) as watchdog:
        kill(watchdog.reading()["pid"])
        reading = wait_for(watchdog, lambda reading: reading["state"] == "given up")
        assert "the trainer ended by SIGKILL; restarted 0 times" in reading["why"]
        assert (reading["pid"], reading["restarts"]) == (None, 0)
    assert "To train again, use the button on the dashboard" in caplog.text


def test_one_that_was_given_up_is_started_again_by_hand_and_no_other(made):
    with watched(*made("online.max_restarts=0")) as watchdog:
        with pytest.raises(
            UserError,
            match="the trainer is starting: another one can be started by hand only after",
        ):
            watchdog.start_again()
        kill(watchdog.reading()["pid"])
        wait_for(watchdog, lambda reading: reading["state"] == "given up")
        watchdog.start_again()
        reading = wait_for(watchdog, lambda reading: reading["state"] == "starting")
        assert (reading["restarts"], alive(reading["pid"])) == (1, True)
        kill(reading["pid"])
        wait_for(watchdog, lambda reading: reading["state"] == "given up")


def test_a_restart_is_counted_and_its_reason_reported_meanwhile(made):
    with watched(*made()) as watchdog:
        first = watchdog.reading()["pid"]
        kill(first)
        reading = wait_for(watchdog, lambda reading: reading["restarts"] == 1 and reading["pid"])
        assert reading["pid"] != first
        assert reading["state"] == "starting"
        assert reading["why"] == "the trainer ended by SIGKILL"


# -- slow: trainers that train


@pytest.mark.slow
def test_what_is_trained_is_published_saved_and_reported(made):
    run, settings = made("online.checkpoint_versions=5")
    with watched(run, settings) as watchdog:
        reading = wait_for(watchdog, trains(20))
        json.dumps(reading, allow_nan=False)  # a browser has to read it
        assert set(reading) == {*full_status()["trainer"], "expired"}  # what pages and metrics are tested with
        assert (reading["why"], reading["restarts"], reading["rollbacks"], reading["skipped_batches"]) == ("", 0, 0, 0)
        assert reading["training_steps"] == reading["total_batches_trained"] == reading["version"] - 1
        assert reading["average_batch_size"] == 32.0
        assert 0 < reading["training_utilization"] <= 1
        assert reading["agreement"] is None
        assert reading["saved"] >= 16
        reader, pid = BusReader(bus_file(run.run_id)), reading["pid"]
        until(lambda: published(run) >= 20)
        assert alive(pid)
    reading = watchdog.reading()
    assert (reading["state"], reading["pid"], alive(pid)) == ("stopped", None, False)
    assert newest(run) == reading["version"] == reading["saved"] == reader.read(0).version  # when it was stopped
    assert reader.ended
    assert not bus_file(run.run_id).exists()
    versions = [int(path.name.split("_v")[1].split("_")[0]) for path in run.nn.glob("*_v*.pth")]
    assert {version % 5 for version in versions if version != newest(run)} == {1}
    state = newest_usable(run).state
    assert state["online"]["counts"]["learned_until"] == 100
    assert state["model"]["running_mean_std.count"].item() == 101.0  # report R8, over many trainings
    Policy(SPEC, settings.train, 1, "cpu").load(state["model"], PolicySpec.from_dict(state["spec"]))
    assert (run.path.parent / "latest_train").resolve() == run.path.resolve()


@pytest.mark.slow
def test_after_kill_9_it_is_dead_at_once_and_then_another_continues(made):
    """No checkpoint since version 1: its weights begin there again, but no version is given out twice."""
    run, settings = made("online.checkpoint_versions=100000")
    with watched(run, settings) as watchdog:
        before = wait_for(watchdog, trains(20))
        kill(before["pid"])
        reading = watchdog.reading()
        assert (reading["state"], reading["pid"]) == ("dead", None)
        last = published(run)
        assert last >= 15
        seen = []

        def continues(r) -> bool:
            seen.append((r["version"], published(run) or last))
            return trains(last + 5)(r)

        reading = wait_for(watchdog, continues)
        assert (reading["restarts"], reading["why"]) == (1, "")
        assert seen == sorted(seen)
        assert all(version >= last for _, version in seen)
        assert reading["pid"] not in (None, before["pid"])
    assert newest(run) > last
    assert newest(run) == watchdog.reading()["version"]


@pytest.mark.slow
def test_a_restarted_trainer_continues_from_the_last_checkpoint(made):
    run, settings = made("online.checkpoint_versions=10")
    with watched(run, settings) as watchdog:
        before = wait_for(watchdog, lambda r: trains(30)(r) and r["saved"] >= 21)
        kill(before["pid"])
        saved = newest_usable(run).state
        trainings, version = saved["online"]["counts"]["trainings"], meta_of(saved).version
        assert trainings >= 20
        reading = wait_for(watchdog, lambda r: r["state"] in ("waiting", "training") and r["restarts"] == 1)
        assert reading["training_steps"] >= trainings
        assert reading["version"] >= version
    counts = newest_usable(run).state["online"]["counts"]
    assert counts["learned_until"] == 100
    assert newest_usable(run).state["model"]["running_mean_std.count"].item() == 101.0


@pytest.mark.slow
def test_a_trainer_that_hangs_is_killed_and_restarted(made):
    run, settings = made("online.hang_timeout_s=2")
    with watched(run, settings) as watchdog:
        before = wait_for(watchdog, trains(5))
        os.kill(before["pid"], signal.SIGSTOP)
        reading = wait_for(watchdog, lambda r: r["restarts"] == 1 or r["state"] == "hung")
        assert "sent no heartbeat for 2 s, and was killed" in reading["why"]
        assert not alive(before["pid"])
        reading = wait_for(watchdog, lambda r: r["restarts"] == 1 and trains(before["version"] + 1)(r))
        assert reading["why"] == ""


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["removed", "damaged"])
def test_a_trainer_that_cannot_start_is_given_up_with_a_report(made, caplog, harm):
    run, settings = made("online.max_restarts=1")
    caplog.set_level("INFO")
    with watched(run, settings) as watchdog:
        kill(watchdog.reading()["pid"])
        if harm == "removed":
            run.replay_file.unlink()
        else:
            os.truncate(run.replay_file, 100)
        reading = wait_for(watchdog, lambda r: r["state"] == "given up")
        assert (reading["restarts"], reading["pid"]) == (1, None)
        assert reading["why"].startswith("the trainer ended with status 2; restarted 1 times in ten minutes")
        words = "cannot be read" if harm == "removed" else "is truncated"
        until(lambda: words in caplog.text)  # its last words are in our log
        assert watchdog._process.poll() is not None
    assert watchdog.reading()["state"] == "stopped"


@pytest.mark.slow
def test_one_that_diverges_again_and_again_says_why_it_gives_up_and_in_its_own_level(made, caplog):
    """Hardly more than the usual loss counts as divergence."""
    run, settings = made("online.max_restarts=0", "logLevel=warning", "online.divergence_factor=1.001")
    with watched(run, settings) as watchdog:
        reading = wait_for(watchdog, lambda r: r["state"] == "given up")
    assert "it diverges even at the least learning rate: check rewards" in reading["why"]
    logged = [record for record in caplog.records if record.message.startswith("trainer: ")]
    assert {record.levelname for record in logged} == {"WARNING"}
    assert all("diverged" in record.message for record in logged)
    assert newest(run) > 1


@pytest.mark.slow
def test_a_lost_versions_number_is_not_given_to_older_weights(made):
    """The newest checkpoint is damaged, and nothing is trained before the next stop."""
    run, settings = made("online.checkpoint_versions=5")
    with watched(run, settings) as watchdog:
        wait_for(watchdog, trains(20))
    os.truncate(list_checkpoints(run)[0].path, 1000)
    names = sorted(path.name for path in run.nn.glob("*.pth"))
    rule = dataclasses.replace(settings.online, min_batch_size=150, batch_size=150)
    with watched(run, dataclasses.replace(settings, online=rule)) as watchdog:
        wait_for(watchdog, lambda reading: reading["state"] == "waiting")
    assert sorted(path.name for path in run.nn.glob("*.pth")) == names


@pytest.mark.slow
def test_it_ends_with_the_one_that_serves_and_saves(made):
    """kill -9 of its parent: nobody is left to stop it."""
    run, settings = made("online.checkpoint_versions=100000", spare=True)
    script = (
        "import json, sys, time\n"
        "from livegym.cfg.saved import whole_config\n"
        "from livegym.serve import watchdog as module\n"
        "module.SPARE_AFTER = 0\n"
        "from livegym.rundir.run import open_run\n"
        "from pathlib import Path\n"
        f"watchdog = module.Watchdog(open_run(Path({str(run.path)!r})), whole_config(json.load(sys.stdin)))\n"
        "watchdog.start()\n"
        "while True:\n"
        "    r = watchdog.reading()\n"
        "    spare = watchdog._spare and watchdog._spare.pid\n"
        "    print(json.dumps([r['state'], r['pid'], r.get('version'), spare]), flush=True)\n"
        "    time.sleep(0.05)\n"
    )
    command = [sys.executable, "-c", script]
    root = Path(__file__).parent.parent
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        try:
            parent.stdin.write(json.dumps(as_dict(settings)))
            parent.stdin.close()
            for line in parent.stdout:
                state, pid, version, spare = json.loads(line)
                if state == "training" and version >= 10 and spare is not None:
                    reader = BusReader(bus_file(run.run_id))
                    break
        finally:
            parent.kill()
    until(lambda: not alive(pid) and not alive(spare))
    assert newest(run) == reader.read(0).version >= 10


@pytest.mark.slow
def test_on_a_full_disk_training_continues_and_saves_again_when_there_is_room(made, small_disk):  # noqa: F811
    run, settings = made("online.checkpoint_versions=5", "keepLast=2", runs=small_disk)
    with watched(run, settings) as watchdog:
        wait_for(watchdog, trains(12))
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
            reading = wait_for(watchdog, lambda r: "checkpoint not written" in r["why"])
        assert "No space left" in reading["why"]
        later = wait_for(watchdog, trains(reading["version"] + 12))
        assert "No space left" in later["why"]
        assert later["saved"] <= reading["version"]
        assert newest(run) <= reading["version"]
        assert (later["restarts"], later["pid"]) == (0, reading["pid"])
        assert not list(run.nn.glob(".*.tmp"))
        filler.unlink()
        again = wait_for(watchdog, lambda r: r["why"] == "" and r["saved"] > later["version"])
        assert again["restarts"] == 0
    assert newest(run) == watchdog.reading()["version"]

"""`config=continuous` as a whole: real processes, a real port, real signals."""

from __future__ import annotations

import gc
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
import websockets.sync.client

from livegym import train
from livegym.cfg import cli
from livegym.rundir.checkpoint import find_latest_checkpoint_file, list_checkpoints
from livegym.serve.loop import Loop
from tests.patience import PATIENCE_S, until
from tests.processes import TRAIN, Running, results, run, runs, scalars

TERRITORY = ("config=continuous", "task=Territory", "playSpeed=0", "streamPort=0", "online.training_interval=0.2")
BLOCKS = "queen,energy,survived,threats,minerals,workers,protectors,age,safety"


class Serving(Running):
    """A continuous run, and what it says of itself."""

    def status(self) -> dict:
        url = re.search(r"dashboard at (\S+)", self.text)
        assert url is not None
        with urllib.request.urlopen(f"{url[1]}stats", timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def until(self, holds) -> dict:
        self.wait_for("dashboard at")
        until(lambda: holds(self.status()), lambda: f"{self.status()}\n{self.text}", self.process)
        return self.status()


def trains(status):
    return status["trainer"]["state"] == "training"


def losses(run) -> list[tuple[int, float]]:
    """The curve of the loss so far: (step, value)."""
    try:
        return scalars(run / "summaries", "online/loss")
    except KeyError:
        return []


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.slow
def test_it_serves_learns_stops_continues_and_can_be_watched(tmp_path):
    with Serving(tmp_path, *TERRITORY) as first:
        before = first.until(lambda s: trains(s) and s["serving"]["version"] > 5)
        assert before["buffer"]["lost"] == 0
        assert (before["gate"], before["simulator"], before["trainer"]["agreement"]) == ("cost", "builtin", 1.0)
        endless = ("config=test", "testGamesNum=0", "checkpoint=latest", "logLevel=debug")  # shows each swap
        with Running(tmp_path, *endless, name="test") as test:
            test.wait_for("now acting: version", count=3)
            assert test.end() == 0
        trainer = first.status()["trainer"]["pid"]
        assert first.end() == 0
        assert f"to resume: python {TRAIN} config=continuous resume=true" in first.text
    assert gone(trainer)
    (made,) = runs(tmp_path, "continuous")
    assert (tmp_path / "runs" / "latest_train").resolve() == made
    assert results(tmp_path)["swaps"]
    saved = list_checkpoints(made)[0].version
    assert scalars(made / "summaries", "online/average_loss")
    again = ("config=continuous", "resume=true", "checkpoint=latest", "streamPort=0")
    with Serving(tmp_path, *again) as second:
        after = second.until(lambda s: trains(s) and s["serving"]["version"] > saved + 2)
        assert (after["run"], after["playSpeed"]) == (made.name, 0)  # as it was
        assert after["buffer"]["added"] >= before["buffer"]["added"]
        assert after["trainer"]["training_steps"] > before["trainer"]["training_steps"]
        assert second.end(signal.SIGTERM) == 0
    assert find_latest_checkpoint_file(made).name.startswith("Territory_v")
    assert runs(tmp_path, "continuous") == [made]


@pytest.mark.slow
def test_curves_continue_over_a_resume_also_where_there_are_more_trainings_than_experiences(tmp_path):
    slow = ("config=continuous", "task=Territory", "playSpeed=10", "streamPort=0", "online.training_interval=0")
    with Serving(tmp_path, *slow) as first:  # about three experiences a second, fewer than trainings on any machine
        status = first.until(lambda s: trains(s) and s["trainer"]["training_steps"] > s["buffer"]["added"] + 50)
        (made,) = runs(tmp_path, "continuous")
        until(lambda: losses(made)[-1:] > [(status["buffer"]["added"] + 50, -math.inf)], process=first.process)
        assert first.end() == 0
    before = losses(made)
    with Serving(tmp_path, *slow[:1], "resume=true", "checkpoint=latest", *slow[2:]) as second:
        second.until(lambda s: trains(s) and s["trainer"]["training_steps"] > status["trainer"]["training_steps"])
        until(lambda: losses(made)[-1][0] > before[-1][0], process=second.process)
        assert second.end() == 0
    assert losses(made)[: len(before)] == before


@pytest.mark.slow
def test_a_trainer_that_is_killed_or_hangs_is_replaced_and_versions_continue(tmp_path):
    with Serving(tmp_path, *TERRITORY, "online.hang_timeout_s=5", "online.checkpoint_versions=5") as serving:
        killed = serving.until(lambda s: trains(s) and s["trainer"]["saved"] > 5)
        os.kill(killed["trainer"]["pid"], signal.SIGKILL)
        status = serving.until(lambda s: s["trainer"]["state"] != "training")["trainer"]
        assert status["state"] in ("dead", "starting")
        assert status["loss"] is status["training_utilization"] is None
        again = serving.until(lambda s: trains(s) and s["serving"]["version"] > killed["serving"]["version"])
        assert (again["trainer"]["restarts"], again["trainer"]["pid"] != killed["trainer"]["pid"]) == (1, True)
        os.kill(again["trainer"]["pid"], signal.SIGSTOP)
        hung = serving.until(lambda s: s["trainer"]["restarts"] == 2)
        assert gone(again["trainer"]["pid"])
        assert "sent no heartbeat for 5 s" in serving.text
        last = serving.until(lambda s: trains(s) and s["serving"]["version"] > again["serving"]["version"])
        assert last["buffer"]["added"] > hung["buffer"]["added"] > killed["buffer"]["added"]
        assert last["buffer"]["lost"] == 0
        assert serving.end() == 0


@pytest.mark.slow
def test_a_server_that_is_killed_leaves_no_trainer_and_no_experience_is_lost(tmp_path):
    with Serving(tmp_path, *TERRITORY) as serving:
        before = serving.until(lambda s: trains(s) and s["buffer"]["added"] > 200)
        serving.process.kill()
        until(lambda: gone(before["trainer"]["pid"]))
    with Serving(tmp_path, "config=continuous", "resume=true", "checkpoint=latest", "streamPort=0") as again:
        after = again.until(trains)
        assert after["buffer"]["added"] >= before["buffer"]["added"]
        assert again.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("gate", ["lookahead", "off"])
def test_a_robot_is_learned_with_and_without_a_shield(tmp_path, gate):
    given = ("config=continuous", "task=Cartpole", f"gate={gate}", "playSpeed=0", "streamPort=0")
    with Serving(tmp_path, *given, "online.training_interval=0.1") as serving:
        status = serving.until(lambda s: trains(s) and s["serving"]["version"] > 3)
        waits, off = status["decisions"]["wait"], status["decisions"]["off"]
        assert (waits > 0, off > 0) == ((True, False) if gate == "lookahead" else (False, True))
        assert status["decisions"]["gate_failures"] == 0
        time.sleep(0.5)
        assert serving.end() == 0


@pytest.mark.slow
def test_weights_of_an_ordinary_training_run_are_continued_from_and_a_training_run_with_theirs(tmp_path):
    assert run(tmp_path, "config=train_headless", "task=Territory", "numEnvs=32", "maxIterations=2").returncode == 0
    with Serving(tmp_path, *TERRITORY, "checkpoint=latest") as serving:
        serving.until(lambda s: trains(s) and s["serving"]["version"] > 2)
        assert "starting from the weights of" in serving.text
        assert serving.end() == 0
    training = ("config=train_headless", "task=Territory", "numEnvs=32", "maxIterations=1")
    done = run(tmp_path, *training, "checkpoint=latest")
    assert done.returncode == 0, done.stdout
    done = run(tmp_path, "config=train_headless", "resume=true", "checkpoint=continuous")
    assert done.returncode == 2
    assert "config=continuous" in done.stdout


def example(name: str, serving: Serving, *options: str) -> subprocess.Popen[str]:
    url = re.search(r"dashboard at (\S+)", serving.text)
    assert url is not None
    command = [sys.executable, str(TRAIN.parent / "examples" / name), "--url", url[1], *options]
    environment = {**os.environ, "PYTHONPATH": str(TRAIN.parent)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


@pytest.mark.slow
def test_territories_of_another_process_are_learned_from_over_its_death_and_a_restart(tmp_path):
    given = (
        "config=continuous",
        "task=Territory",
        "simulator=external",
        "streamPort=0",
        "online.training_interval=0.1",
    )
    with Serving(tmp_path, *given) as serving:
        serving.wait_for("dashboard at")
        first = example("territory_client.py", serving, "--streams", "3")
        learned = serving.until(lambda s: trains(s) and s["serving"]["version"] > 3)
        first.kill()
        first.wait()
        assert learned["buffer"]["refused"] == dict.fromkeys(("late", "duplicate", "unknown", "invalid"), 0)
        assert set(learned["rewards"]["components"]) >= {"survival", "location"}
        second = example("territory_client.py", serving, "--streams", "3", "--steps", "40", "--seed", "1")
        output, _ = second.communicate(timeout=PATIENCE_S)
        assert (second.returncode, " lived" in output) == (0, True), output
        after = serving.until(lambda s: s["buffer"]["added"] > learned["buffer"]["added"] + 100)
        assert (after["buffer"]["lost"], sorted(after["streams"])) == (0, [f"territory-{i}" for i in range(3)])
        assert after["episodes"]["broken_off"] == 3  # those of the client that was killed
        assert serving.end() == 0
    with Serving(tmp_path, "config=continuous", "resume=true", "checkpoint=latest", "streamPort=0") as again:
        before = again.until(trains)
        assert before["simulator"] == "external"
        third = example("territory_client.py", again, "--streams", "3", "--steps", "10", "--seed", "2")
        assert third.wait(PATIENCE_S) == 0
        assert again.until(lambda s: s["buffer"]["added"] > before["buffer"]["added"])["buffer"]["lost"] == 0
        assert again.end() == 0


@pytest.mark.slow
def test_a_gymnasium_environment_of_your_own_is_learned_through_the_socket(tmp_path):
    given = ("config=continuous", "task=Cartpole", "simulator=external", "streamPort=0", "online.training_interval=0.1")
    with Serving(tmp_path, *given) as serving:
        serving.wait_for("dashboard at")
        client = example("gym_client.py", serving, "--steps", "3000", "--streams", "2")
        learned = serving.until(lambda s: trains(s) and s["serving"]["version"] > 3)
        client.kill()
        client.wait()
        assert (learned["gate"], learned["decisions"]["send"], learned["buffer"]["lost"]) == ("off", 0, 0)
        idle = serving.until(lambda s: s["trainer"]["state"] == "waiting" and s["buffer"]["added"] > 100)
        assert idle["trainer"]["why"] == "no experience has been completed for 60 update rounds"
        time.sleep(3.0)  # as long as 30 update rounds
        later = serving.until(lambda s: True)["trainer"]
        numbers = ("version", "training_steps", "learning_rate")
        assert [later[name] for name in numbers] == [idle["trainer"][name] for name in numbers]
        assert later["state"] == "waiting"
        assert serving.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("gate=cost", "task=Cartpole"), "task Cartpole has no cost function. Allowed: lookahead"),
        (("gate=lookahead", "task=Cartpole", "simulator=external"), "gate=lookahead needs the state of the simulator"),
        (("swap=reset",), "Allowed in config=continuous: now, blend"),
        (
            ("swap=blend",),
            "are not trained on, and a new version comes with each update round. "
            "Allowed: swap=now, or minSwapInterval=150",
        ),
        (("swap=blend", "task=Cartpole", "minSwapInterval=9"), "minSwapInterval=10 or more"),
        (("numEnvs=8", "online.pending_capacity=7"), "online.pending_capacity=7: less than numEnvs=8"),
        (
            ("simulator=external", f"task.observations.policy=[{BLOCKS},episode_time]"),
            "the raw observations of clients do not have it",
        ),
        (("reloadInterval=0",), "trained versions would never be served"),
        (("task=Cartpole", "train.network.recurrent.units=8"), "do not contain the state of a recurrent policy"),
        (
            ("task=Cartpole", "simulator=external", "task.noise={cart_position:0.1}"),
            "task.noise={'cart_position': 0.1}",
        ),
        (("resume=true",), "it needs a run"),
        (("online.batch_size=0",), "online.batch_size=0"),
        (("online.batch_size=4",), "online.min_batch_size=8 is more than online.batch_size=4"),
        (("online.training_intervall=1",), "Did you mean online.training_interval?"),
        (("streamToken=short", "streamBindAll=true"), "characters are too few"),
    ],
)
def test_a_mistake_is_explained_and_leaves_nothing_behind(given, message, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    task = () if any(override.startswith("task=") for override in given) else ("task=Territory",)
    monkeypatch.setattr(sys, "argv", ["train.py", "config=continuous", "streamPort=0", *task, *given])
    assert cli.run(train.job) == 2
    output = capfd.readouterr().err
    assert message in output
    assert "Traceback" not in output
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.slow
def test_while_it_serves_no_garbage_collection_looks_at_what_was_there_before(tmp_path, monkeypatch):
    """Otherwise each full one stops all decisions for a tenth of a second, every few seconds with many clients."""
    there, seen = [[] for _ in range(1000)], []

    def look(loop, *given) -> None:
        looked_at = {id(each) for each in gc.get_objects()}
        seen.append((gc.get_freeze_count() > 100_000, any(id(each) in looked_at for each in there)))

    monkeypatch.setattr(Loop, "run", look)
    given = ("config=continuous", "task=Cartpole", "simulator=external", "streamPort=0", "online.spare_trainer=false")
    monkeypatch.setattr(sys, "argv", ["train.py", *given, f"runsDir={tmp_path}"])
    assert cli.run(train.job) == 0
    assert seen == [(True, False)]
    assert gc.get_freeze_count() == 0


@pytest.mark.slow
def test_clients_that_come_and_go_use_up_no_streams(tmp_path):
    given = ("config=continuous", "task=Cartpole", "simulator=external", "streamPort=0", "online.spare_trainer=false")
    with Serving(tmp_path, *given, "online.max_streams=3") as server:
        server.wait_for("dashboard at")
        address = re.search(r"dashboard at http(\S+)", server.text)[1]
        found = []
        for number in range(8):
            with websockets.sync.client.connect(f"ws{address}online/v1/ws", proxy=None) as client:
                observation = {"stream": f"name-{number}", "obs": [0.1, 0.0, 0.01, 0.0]}
                client.send(json.dumps({"v": 1, "type": "observe", "observations": [observation]}))
                found.append(json.loads(client.recv(PATIENCE_S))["answers"][0]["type"])
        assert found == ["decision"] * 8

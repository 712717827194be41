"""A training and a test beside it, on the weight bus: real command lines, real kills."""

from __future__ import annotations

import json
import re
import signal

import pytest

from livegym.rundir.run import bus_file, open_run
from tests.patience import until
from tests.processes import SMALL, Running, results, run, runs

pytestmark = pytest.mark.slow

TRAINING = (*SMALL, "maxIterations=100000", "publishInterval=0.2", "saveInterval=1000")
TEST = ("config=test", "testGamesNum=0", "checkpoint=latest", "logLevel=debug")  # shows each swap


def swaps(text: str) -> list[int]:
    """The versions that were taken over from the bus, in order."""
    return [int(version) for version in re.findall(r"now acting: version (\d+), .*\(bus", text)]


def test_a_test_follows_every_publication_and_goes_over_to_files_at_the_end(tmp_path):
    with Running(tmp_path, *TRAINING, name="training") as training, Running(tmp_path, *TEST, name="test") as test:
        test.wait_for("following it on the weight bus")
        until(lambda: len(swaps(test.text)) >= 8, lambda: test.text, test.process)
        assert training.end() == 130
        test.wait_for("the training run has ended: following files")
        assert test.end() == 0
        versions = swaps(test.text)
        assert versions == sorted(set(versions))
        assert "WARNING" not in test.text
    (path,) = runs(tmp_path)
    assert not bus_file(open_run(path).run_id).exists()
    found = results(tmp_path)
    assert {event["source"] for event in found["swaps"]} <= {"bus", "files"}
    assert [e["version"] for e in found["swaps"] if e["source"] == "bus"] == versions
    played = [version for episode in found["episodes"] for version in episode["versions"]]
    assert set(played) <= {1, *versions}


def test_a_training_that_is_killed_and_resumed_is_followed_on(tmp_path):
    with Running(tmp_path, *TRAINING, name="training") as training, Running(tmp_path, *TEST, name="test") as test:
        until(lambda: len(swaps(test.text)) >= 3, lambda: test.text, test.process)
        training.process.send_signal(signal.SIGKILL)
        training.process.wait()
        test.wait_for("the training process has died: following files")
        before = swaps(test.text)[-1]
        (path,) = runs(tmp_path)
        left = bus_file(open_run(path).run_id)
        assert left.exists()
        resumed = ("resume=true", "checkpoint=latest", "publishInterval=0.2", "maxIterations=100000")
        with Running(tmp_path, *resumed, name="resumed") as again:
            test.wait_for("following it on the weight bus", count=2)
            until(lambda: swaps(test.text)[-1] > before, lambda: test.text + again.text, test.process)
            versions = swaps(test.text)
            assert versions == sorted(set(versions))  # although it went on from an older checkpoint
            assert again.end() == 130
        assert test.end() == 0
    assert not left.exists()


def test_two_tests_of_one_training_with_a_guard_and_with_older_versions_beside(tmp_path):
    guarded = (*TEST, "swapGuard=4", "swapGuardMargin=1000")
    beside = (*TEST, "numEnvs=3", "poolEnvs=1", "swap=reset")
    with (
        Running(tmp_path, *TRAINING, name="training"),
        Running(tmp_path, *guarded, name="guarded") as one,
        Running(tmp_path, *beside, name="beside") as two,
    ):
        one.wait_for("swapGuard lets version")
        until(lambda: bool(swaps(one.text)) and len(swaps(two.text)) > 3, lambda: one.text + two.text, one.process)
        assert (one.end(), two.end()) == (0, 0)
    found = [json.loads((path / "results.json").read_text()) for path in runs(tmp_path, "test")]
    (pooled,) = [f for f in found if {e["env"] for e in f["episodes"]} == {0, 1, 2}]
    assert len({tuple(e["versions"]) for e in pooled["episodes"] if e["env"] == 2}) > 1


def test_a_run_of_another_shape_is_refused_or_the_world_is_built_anew(tmp_path):
    assert run(tmp_path, *SMALL, "maxIterations=2").returncode == 0
    wide = (*SMALL, "maxIterations=1", "train.network.units=[24,8]")
    follow = (*TEST, "followLatest=true", "reloadInterval=0.2")
    with (
        Running(tmp_path, *follow, name="refuses") as refuses,
        Running(tmp_path, *follow, "onMismatch=reinit", name="rebuilds") as rebuilds,
    ):
        for test in (refuses, rebuilds):
            test.wait_for("polling its files")
        assert run(tmp_path, *wide).returncode == 0
        refuses.wait_for("refused")
        rebuilds.wait_for("were rebuilt")
        rebuilds.wait_for("episodes, mean return")
        assert (refuses.end(), rebuilds.end()) == (0, 0)
    assert re.search(
        r"refused .*actor_mlp.0.weight is torch.float32\[24, \d+\], expected torch.float32\[\d+, \d+\]", refuses.text
    )
    assert refuses.text.count("WARNING refused") == 1
    found = [json.loads((path / "results.json").read_text()) for path in runs(tmp_path, "test")]
    events = [event for results in found for event in results["swaps"]]
    assert (True, "reinit") in {(event["accepted"], event["reason"]) for event in events}
    assert any(not event["accepted"] for event in events)


def test_the_bus_by_name_needs_a_live_run(tmp_path):
    assert run(tmp_path, *SMALL, "maxIterations=1").returncode == 0
    before = sorted(tmp_path.rglob("*"))
    done = run(tmp_path, *TEST, "weights=bus")
    assert done.returncode == 2
    assert "is not published on this machine now" in done.stdout
    assert sorted(tmp_path.rglob("*")) == before


def test_a_pinned_checkpoint_is_never_exchanged(tmp_path):
    with Running(tmp_path, *TRAINING, name="training"):
        until(lambda: list(tmp_path.glob("runs/*_train_*/nn/*_v1_*.pth")) != [])
        (file,) = runs(tmp_path)[0].glob("nn/*_v1_*.pth")
        done = run(tmp_path, "config=test", "testGamesNum=40", f"checkpoint={file}")
        assert done.returncode == 0, done.stdout
    assert results(tmp_path)["swaps"] == []
    assert {tuple(e["versions"]) for e in results(tmp_path)["episodes"]} == {(1,)}

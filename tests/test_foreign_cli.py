"""The toys through the command line: train, resume, test, refuse; and nothing loads foreign code by itself."""

from __future__ import annotations

import hashlib
import json
import re

import pytest
import torch

from tests.isaac_toys import TOYS, copied, needs_isaacgym
from tests.processes import TRAIN, Running, results, run, runs, scalars

pytestmark = needs_isaacgym

SWING = ("task=toys:Swing", f"projectDir={TOYS}", "config=train_headless", "seed=1")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a run of Swing, and what the command said."""
    folder = tmp_path_factory.mktemp("swing")
    done = run(folder, *SWING)
    assert done.returncode == 0, done.stdout
    return folder, done.stdout


def test_a_foreign_task_learns_with_livegyms_learner(trained):
    folder, said = trained
    (made,) = runs(folder)
    assert re.fullmatch(r"toys-Swing_train_\d{8}_\d{6}", made.name)
    returns = [value for _, value in scalars(made, "rewards/step")] or [
        float(re.findall(r"return (-?[\d.]+)", said)[-1])
    ]
    assert returns[-1] > 37  # of at most 40; an arm that nothing holds falls
    file = TOYS / "toys" / "tasks" / "swing.py"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert said.count(f"running foreign code: {file}, SHA-256 {digest}") == 1
    assert said.count("not taken over from the settings of toys-Swing's learner: config.mixed_precision=True") == 1
    assert (made / "foreign_files" / "toy.txt").is_file()
    assert f"projectDir={TOYS}" in said  # in the commands that it suggests


def test_a_checkpoint_has_the_hash_and_the_resolved_configuration(trained):
    folder, _ = trained
    newest = max((runs(folder)[0] / "nn").glob("*.pth"), key=lambda path: path.stat().st_mtime)
    config = torch.load(newest, weights_only=True)["config"]
    assert config["task"]["name"] == "toys-Swing"
    assert config["task"]["params"]["env"]["torqueRatio"] == 4.0
    assert config["project"]["name"] == "toys"
    assert list(config["project"]["files"]) == ["toys/tasks/swing.py"]


def test_a_test_plays_exact_episodes(trained):
    folder, _ = trained
    done = run(folder, "config=test", "checkpoint=latest", "testGamesNum=7", f"projectDir={TOYS}")
    assert done.returncode == 0, done.stdout
    found = results(folder)
    assert found["task"] == "toys-Swing"
    assert len(found["episodes"]) == 7
    assert {one["length"] for one in found["episodes"]} == {40}
    assert found["reasons"] == {"time_limit": 7}


def test_a_run_is_resumed_with_its_environments(tmp_path):
    assert run(tmp_path, *SWING, "maxIterations=3").returncode == 0
    resumed = ("resume=true", "checkpoint=latest", "config=train_headless", f"projectDir={TOYS}")
    done = run(tmp_path, *resumed, "maxIterations=5")
    assert done.returncode == 0, done.stdout
    assert len(runs(tmp_path)) == 1
    assert "iteration 5/5" in done.stdout
    assert "new episodes begin" not in done.stdout
    assert done.stdout.count("is saved as far as its attributes show it") == 1


def test_a_changed_file_is_told_when_a_run_is_resumed(tmp_path):
    toys = copied(tmp_path)
    here = f"projectDir={toys}"
    assert run(tmp_path, "task=toys:Swing", here, "config=train_headless", "maxIterations=1").returncode == 0
    file = toys / "toys" / "tasks" / "swing.py"
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_text(file.read_text() + "# changed\n")
    now = hashlib.sha256(file.read_bytes()).hexdigest()
    done = run(tmp_path, "resume=true", "checkpoint=latest", here, "config=train_headless", "maxIterations=2")
    assert done.returncode == 0, done.stdout
    assert f"toys/tasks/swing.py has changed since this run was made: its SHA-256 was {before}, now it is {now}" in (
        " ".join(done.stdout.split())
    )


def test_foreign_code_is_not_loaded_because_a_run_says_so(trained):
    folder, _ = trained
    for mode in (("config=test",), ("config=train_headless", "resume=true")):
        done = run(folder, *mode, "checkpoint=latest")
        assert done.returncode == 2
        assert "task=toys-Swing is foreign code of toys, which runs only if the command line names its" in done.stdout
        assert "SHA-256" not in done.stdout


def test_a_task_is_the_same_only_if_source_and_name_agree(trained, tmp_path):
    folder, _ = trained
    checkpoint = f"checkpoint={runs(folder)[0]}"
    done = run(tmp_path, "task=Cartpole", "config=train_headless", checkpoint, "numEnvs=16")
    assert done.returncode == 2
    assert "is a checkpoint of task toys-Swing, but this run trains Cartpole" in done.stdout
    done = run(tmp_path, "task=Cartpole", "config=test", checkpoint)
    assert done.returncode == 2
    assert "foreign code of toys" in done.stdout
    done = run(tmp_path, "task=toys:Crawl", "config=test", checkpoint, f"projectDir={TOYS}")
    assert done.returncode == 2
    assert "task=toys-Crawl contradicts the checkpoint, which is of task toys-Swing" in done.stdout
    assert runs(tmp_path, "test") == []


@pytest.mark.slow
def test_a_second_process_takes_over_new_weights_while_it_plays(tmp_path):
    with Running(tmp_path, *SWING, "maxIterations=1000000", "saveInterval=1", name="train", script=TRAIN) as training:
        training.wait_for("iteration 5/")
        watching = ("config=test", "checkpoint=latest", f"projectDir={TOYS}", "testGamesNum=0", "reloadInterval=1")
        with Running(tmp_path, *watching, "swap=blend", "blendSeconds=0.2", name="test", script=TRAIN) as test:
            test.wait_for("version", count=4)
            assert test.end() == 0
        assert training.end() == 130
    swaps = results(tmp_path)["swaps"]
    assert len([one for one in swaps if one["accepted"]]) >= 2
    assert json.dumps(swaps)

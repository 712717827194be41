"""The toys through the command line: train, resume, test, refuse; and nothing loads foreign code by itself."""

from __future__ import annotations

import hashlib
import re
import urllib.request

import pytest
import torch

from tests.isaac_toys import TOYS, copied, needs_isaacgym
from tests.patience import PATIENCE_S
from tests.processes import Running, results, run, runs

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
    returns = [float(value) for value in re.findall(r"mean return (-?[\d.]+)", said)]
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
    assert list(config["project"]["files"]) == ["toys/tasks/swing.py", "toys/tasks/vectorised.py"]


@pytest.mark.slow
def test_a_test_plays_exact_episodes(trained):
    folder, _ = trained
    done = run(folder, "config=test", "checkpoint=latest", "testGamesNum=7", f"projectDir={TOYS}")
    assert done.returncode == 0, done.stdout
    found = results(folder)
    assert found["task"] == "toys-Swing"
    assert len(found["episodes"]) == 7
    assert {one["length"] for one in found["episodes"]} == {40}
    assert found["reasons"] == {"time_limit": 7}


@pytest.mark.slow
def test_a_run_is_resumed_with_its_environments_and_tells_a_changed_file(tmp_path):
    toys = copied(tmp_path)
    here = f"projectDir={toys}"
    assert run(tmp_path, "task=toys:Swing", here, "config=train_headless", "maxIterations=2").returncode == 0
    file = toys / "toys" / "tasks" / "swing.py"
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_text(file.read_text() + "# changed\n")
    now = hashlib.sha256(file.read_bytes()).hexdigest()
    done = run(tmp_path, "resume=true", "checkpoint=latest", here, "config=train_headless", "maxIterations=4")
    assert done.returncode == 0, done.stdout
    assert len(runs(tmp_path)) == 1
    assert "iteration 4/4" in done.stdout
    assert "new episodes begin" not in done.stdout
    assert done.stdout.count("is saved as far as its attributes show it") == 1
    assert done.stdout.count("restored of toys-Swing: the simulation, and what the run had changed") == 1
    assert f"foreign code that runs: {file}, SHA-256 {now}" in (runs(tmp_path)[0] / "train.log").read_text()
    assert f"toys/tasks/swing.py has changed since this run was made: its SHA-256 was {before}, now it is {now}" in (
        " ".join(done.stdout.split())
    )


@pytest.mark.slow
def test_foreign_code_is_not_loaded_because_a_run_says_so(trained):
    folder, _ = trained
    for mode in (("config=test",), ("config=train_headless", "resume=true")):
        done = run(folder, *mode, "checkpoint=latest")
        assert done.returncode == 2
        assert "task=toys-Swing is foreign code of toys, which runs only if the command line names its" in done.stdout
        assert "SHA-256" not in done.stdout


@pytest.mark.slow
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
    training = (*SWING, "maxIterations=1000000", "publishInterval=0.2")
    watching = ("config=test", "checkpoint=latest", f"projectDir={TOYS}", "testGamesNum=0", "logLevel=debug")
    blending = ("swap=blend", "blendSeconds=0.2")
    with (
        Running(tmp_path, *training, name="training") as learner,
        Running(tmp_path, *watching, *blending, name="test") as test,
    ):
        test.wait_for("now acting: version", count=4)
        assert test.end() == 0
        assert learner.end() == 130
    found = results(tmp_path)
    assert len([one for one in found["swaps"] if one["accepted"]]) >= 3
    assert {one["source"] for one in found["swaps"]} == {"bus"}
    assert found["reasons"].keys() <= {"time_limit", "terminated"}


@pytest.mark.slow
def test_a_page_beside_a_training_run_finds_the_project(tmp_path):
    arguments = (*SWING, "maxIterations=1000000", "watch=true", "streamPort=0", "playSpeed=0")
    with Running(tmp_path, *arguments, name="training") as learner:
        learner.wait_for("watch: watch at http://")
        page = re.search(r"watch: watch at (\S+)", learner.text)[1]
        with urllib.request.urlopen(page, timeout=PATIENCE_S) as answer:
            assert b"livegym" in answer.read()
        assert "error" not in learner.text
        assert learner.end() == 130

"""Training runs of other libraries, watched while they learn: real processes, the weight bus, and files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from livegym.cfg.saved import whole_config
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec
from livegym.rundir.checkpoint import newest_usable
from livegym.rundir.run import open_run
from livegym.weights.bus_reader import BusReader
from livegym.weights.bus_source import bus_of
from tests.patience import PATIENCE_S, until
from tests.processes import Running, results, run, runs, scalars

ROOT = Path(__file__).parent.parent
HERE = {"PYTHONPATH": str(ROOT)}
EXAMPLES = ("train_ppo.py", "train_sb3.py", "train_rsl_rl.py", "train_skrl.py")
NEEDS = {"train_sb3.py": "stable_baselines3", "train_rsl_rl.py": "rsl_rl", "train_skrl.py": "skrl"}


def example(cwd: Path, name: str, *arguments: str) -> None:
    """Runs an example to its end, as a person does."""
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason="needs an extra")
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **HERE}, text=True, timeout=4 * PATIENCE_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def policy_of(model: dict, spec: dict, config: dict) -> Policy:
    """The policy that a player makes of a version."""
    made = Policy(PolicySpec.from_dict(spec), whole_config(config).train, 32, "cpu")
    made.load(model)
    return made


def check_against_predict(policy: Policy, folder: Path, version: int) -> None:
    """The player's deterministic actions are those that the library's own `predict` gave."""
    with np.load(folder / f"{version}.npz") as said:
        actions = policy(torch.as_tensor(said["obs"])).mode().clamp(-1, 1).numpy()
        np.testing.assert_allclose(actions, said["actions"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["sb3", pytest.param("rsl_rl", marks=pytest.mark.full)])
def test_a_test_follows_a_training_run_of_another_library_over_the_bus(tmp_path, library):
    pytest.importorskip({"sb3": "stable_baselines3"}.get(library, library), reason="needs an extra")
    (tmp_path / "said").mkdir()
    script = ROOT / "tests" / "watched_training.py"
    with Running(tmp_path, library, script=script, name=library, env=HERE) as trainer:
        until(lambda: (tmp_path / "runs" / "latest_train").exists(), lambda: trainer.text, trainer.process)
        test = ("config=test", "checkpoint=latest", "testGamesNum=0", "numEnvs=2")
        with Running(tmp_path, *test, name="test") as watcher:
            (made,) = runs(tmp_path)
            reader = BusReader(bus_of(open_run(made)))
            described, checked, last = reader.description, 0, 0
            while checked < 8:
                reader.wait_past(last, 1.0)
                found = reader.read(last)
                if found is None:
                    assert trainer.process.poll() is None, trainer.text
                    continue
                last = found.number
                policy = policy_of(found.model, described["spec"], described["config"])
                check_against_predict(policy, tmp_path / "said", found.version)
                checked += 1
            until(lambda: len(swaps(tmp_path)) > 3, lambda: watcher.text, watcher.process)
            (tmp_path / "stop").touch()
            assert trainer.process.wait(PATIENCE_S) == 0, trainer.text
            assert watcher.end() == 0, watcher.text
    adopted = swaps(tmp_path)
    versions = [swap["version"] for swap in adopted]
    assert versions == sorted(set(versions))
    assert {swap["source"] for swap in adopted} >= {"bus"}
    check_file(made, tmp_path / "said")


def check_file(made: Path, said: Path) -> None:
    """The newest checkpoint acts as the library does, too."""
    state = newest_usable(open_run(made)).state
    check_against_predict(policy_of(state["model"], state["spec"], state["config"]), said, state["livegym"]["version"])


def swaps(cwd: Path) -> list[dict]:
    """The accepted swaps of the latest test so far."""
    if not (cwd / "runs" / "latest_test" / "results.json").exists():
        return []
    return [swap for swap in results(cwd)["swaps"] if swap["accepted"]]


@pytest.mark.slow
def test_an_example_is_a_run_that_can_be_copied_and_tested(tmp_path):
    example(tmp_path, "train_sb3.py", "--envs", "16", "--steps", "1024")
    (made,) = runs(tmp_path)
    assert len(scalars(made / "summaries", "info/policy_version")) == 2
    copy = tmp_path / "laptop" / "runs" / made.name  # without lock and links, as tools copy
    shutil.copytree(made, copy, ignore=shutil.ignore_patterns("run.lock"))
    done = run(tmp_path / "laptop", "config=test", "checkpoint=latest", "testGamesNum=1", "numEnvs=1")
    assert done.returncode == 0, done.stdout
    assert json.loads((tmp_path / "laptop" / "runs" / "latest_test" / "results.json").read_text())["episodes"]


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_solves_cartpole(tmp_path, name):
    example(tmp_path, name)
    done = run(tmp_path, "config=test", "checkpoint=latest", "testGamesNum=20")
    assert done.returncode == 0, done.stdout
    assert results(tmp_path)["return_mean"] > 450

"""What users of other tools ran into, sections A to E: what no other module of these tests keeps."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from omegaconf import OmegaConf

from livegym.cfg import cli
from livegym.cfg.compose import compose
from livegym.cfg.typed import yaml_text
from livegym.cfg.validate import unused_keys, validate
from livegym.rl.divergence import not_finite
from livegym.rl.state import capture_learner, restore_learner
from livegym.rundir.checkpoint import list_checkpoints, meta_of, read_checkpoint, set_best, sidecar_of, write_env_state
from livegym.rundir.run import point_latest
from livegym.schema import ObservationGroups
from livegym.tasks import TASKS
from livegym.utils.errors import UserError
from tests.checkpoint_samples import new_run, save
from tests.patience import PATIENCE_S
from tests.processes import SMALL, TRAIN, results, run, runs, scalars
from tests.test_learning import learner_of, trained

PRIVILEGED = ObservationGroups(["episode", "step"], ["episode", "step"])

# -- quick


def test_the_reward_beside_a_checkpoint_is_the_one_inside(tmp_path):
    """B6"""
    made = new_run(tmp_path, "20250801_000000")
    path = save(made.path, 1, reward=-3.5)
    inside, beside = meta_of(read_checkpoint(path)), json.loads(sidecar_of(path).read_text())
    assert inside.score == beside["reward"] == -3.5


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        (lambda model: model.pop("a2c_network.mu.bias"), "a2c_network.mu.bias"),
        (lambda model: model.pop("running_mean_std.count"), "running_mean_std.count"),
        (lambda model: model.update(surplus=torch.ones(1)), "surplus"),
    ],
)
def test_a_resumed_network_lacks_nothing_and_has_nothing_in_addition(change, needle):
    """C7"""
    state = capture_learner(learner_of())
    change(state["model"])
    with pytest.raises(UserError, match=needle):
        restore_learner(learner_of(), state, 1)


def _learned(**changes):
    learner = learner_of(iterations=1, **changes)
    trained(learner)
    state = capture_learner(learner)
    learner.note_best_return(state, None)
    return state


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        (lambda s: s["optimizer"]["state"].clear(), r"optimizer.*0 parameters, expected \d"),
        (lambda s: s["optimizer"]["state"][0].update(exp_avg=torch.zeros(3)), r"exp_avg of parameter 0 is \[3\]"),
        (lambda s: s["learner"].pop("meters"), r"no learner\.meters"),
        (lambda s: s["learner"].pop("learning_rate"), r"no learner\.learning_rate"),
        (lambda s: s["learner"].pop("best_return"), r"no learner\.best_return"),
        (lambda s: s.pop("epoch"), "no epoch"),
        (lambda s: s.pop("learner"), "no learner"),
        (lambda s: s["optimizer"]["state"][0]["exp_avg"].fill_(math.nan), r"NaN.*optimizer\.state\.0\.exp_avg"),
    ],
)
def test_a_learner_that_is_not_whole_is_not_resumed_and_nothing_is_changed(change, needle):
    """C7"""
    state = _learned()
    change(state)
    learner = learner_of(iterations=1)
    before = {name: value.clone() for name, value in learner.agent.model.state_dict().items()}
    with pytest.raises(UserError, match=needle):
        restore_learner(learner, state, 1)
    assert all(torch.equal(value, before[name]) for name, value in learner.agent.model.state_dict().items())


@pytest.mark.parametrize("folder", ["assymetric_vf_nets", "optimizer", "assymetric_vf_optimizer"])
def test_no_part_of_a_learner_may_be_saved_with_nan(folder):
    """A8: the critic or the optimizer would ruin the policy in the iteration after."""
    state = _learned(observations=PRIVILEGED)
    assert not_finite(state) is None
    tensors = state[folder]["state"][0] if "optimizer" in folder else state[folder]
    next(value for value in tensors.values() if value.ndim).fill_(math.nan)
    assert folder in not_finite(state)


def test_a_new_run_takes_the_critic_along(caplog):
    """C3"""
    state = _learned(observations=PRIVILEGED)
    learner = learner_of(iterations=1, seed=5, observations=PRIVILEGED)
    learner.load_weights(state)
    critic = learner.agent.central_value_net.state_dict()
    assert all(torch.equal(critic[name], value) for name, value in state["assymetric_vf_nets"].items())
    del state["assymetric_vf_nets"]
    learner.load_weights(state)
    assert "critic" in caplog.text


@pytest.mark.parametrize(
    ("given", "needle"),
    [
        (("saveInterval=5", "saveFrequency=3"), "saveInterval=5.0 has no effect: saveFrequency=3"),
        (("maxIterations=1", "train.max_iterations=50"), "train.max_iterations=50 has no effect: maxIterations=1"),
        (("numEnvs=32", "task.num_envs=64"), "task.num_envs=64 has no effect: numEnvs=32"),
        (
            ("train.kl_threshold=0.01", "train.lr_schedule=constant"),
            "belongs to train.lr_schedule=adaptive",
        ),
        (("config=test", "blendSeconds=2"), "blendSeconds=2.0 has no effect: it belongs to swap=blend"),
        (("config=test", "swapGuardMargin=2"), "swapGuardMargin=2.0 has no effect: it belongs to swapGuard"),
        (("config=test", "blendSeconds=2", "swap=blend"), None),
        (("saveInterval=5",), None),
        (("train.kl_threshold=0.01",), None),
    ],
)
def test_of_two_keys_the_one_without_effect_is_named(given, needle):
    """E5"""
    keys = {text.partition("=")[0] for text in given}
    notes = unused_keys(compose(list(given)), keys.__contains__)
    assert len(notes) == (needle is not None)
    assert needle is None or needle in notes[0]


def test_a_resumed_normaliser_is_moved_by_an_outlier_no_more_than_an_unbroken_one():
    """C4: the count of samples comes back, so a batch of a thousand times the usual weighs what it should."""
    unbroken = learner_of(iterations=20)
    trained(unbroken)
    state = capture_learner(unbroken)
    state["learner"]["best_return"] = None
    resumed = learner_of(iterations=20, seed=5)
    restore_learner(resumed, state, 20)
    shifts = []
    for learner in (unbroken, resumed, learner_of(seed=5)):
        normaliser = learner.agent.model.running_mean_std
        before = normaliser.running_mean.clone()
        normaliser.train()
        normaliser(torch.full((2, 2), 1000.0))
        shifts.append((normaliser.running_mean - before).abs().max().item())
    assert shifts[0] == shifts[1]
    assert shifts[1] < 0.1 * shifts[2]  # of a fresh one, which knows nothing yet


def test_names_in_a_runs_directory_need_no_quotes(tmp_path):
    """E1"""
    for task in TASKS:
        for _ in range(2):  # the second in the same second has a suffix
            made = new_run(tmp_path, "20250801_000000", task=task, versions=(1,))
            set_best(made.nn, made.nn / f"{task}_v1_ep1.pth")
            write_env_state(made, 1, {})
            point_latest(tmp_path, "train", made)
    names = [path.name for path in tmp_path.rglob("*")]
    assert len(names) > 10
    assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9_.-]+", name)] == []


@pytest.mark.parametrize("mode", [(), ("hydra.job.chdir=true",), ("-m",), ("-m", "hydra.job.chdir=true")])
def test_a_relative_path_is_from_where_it_was_typed(tmp_path, monkeypatch, mode):
    """E2"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.pth").write_text("here")
    monkeypatch.setattr(sys, "argv", ["train.py", "checkpoint=./x.pth", *mode])
    seen = []
    assert cli.run(lambda cfg: seen.append((Path(cfg.checkpoint).read_text(), Path(cfg.runsDir).absolute()))) == 0
    assert seen == [("here", tmp_path / "runs")]


@pytest.mark.parametrize("typed", ["1e-4", "1e-5", "3E-9", "0.001"])
def test_a_learning_rate_is_a_number_to_every_reader_of_the_saved_yaml(typed):
    """E3: a plain YAML reader takes 1e-5 for text, and 1.0e-05 for a number."""
    text = yaml_text(compose([f"train.learning_rate={typed}"]))
    assert yaml.safe_load(text)["train"]["learning_rate"] == float(typed)


@pytest.mark.parametrize("rate", ["1e-4", "0.001", "fast"])
def test_a_learning_rate_that_is_text_is_refused_by_its_name(rate):
    """E3"""
    cfg = OmegaConf.create(OmegaConf.to_container(compose([])))
    OmegaConf.update(cfg, "train.learning_rate", rate)
    with pytest.raises(UserError, match=r"train\.learning_rate"):
        validate(cfg)


# -- whole processes


def python(cwd: Path, program: str, *arguments: str) -> str:
    """A program of its own over livegym's command line; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(TRAIN.parent)!r})\n{program}", *arguments],
        cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


SLOW_START = """
import time
from livegym import train
from livegym.cfg import cli
from livegym.rl.algorithms.ppo import PPO
create = PPO.learner
def late(*args):
    time.sleep(2.1)
    return create(*args)
PPO.learner = late
raise SystemExit(cli.run(train.job))
"""


@pytest.mark.slow
def test_a_slow_start_does_not_scatter_a_run_over_two_directories(tmp_path):
    """D2"""
    python(tmp_path, SLOW_START, *SMALL, "maxIterations=1")
    (path,) = runs(tmp_path)
    assert os.readlink(tmp_path / "runs" / "latest_train") == path.name
    assert json.loads((path / "run.json").read_text())["name"] == path.name
    assert (path / "config.yaml").exists()
    assert (path / "nn" / "Cartpole_v1_ep1.pth").exists()
    assert len(scalars(path / "summaries", "info/epochs")) == 1


NO_LINKS = """
import os
def refuse(*args, **kwargs):
    raise {error}
os.symlink = refuse
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", ["OSError(1314, 'A required privilege is not held')", "PermissionError(1, 'refused')"]
)
def test_a_training_without_links_ends_well_and_is_found(tmp_path, error):
    """D5: Windows without developer mode."""
    (tmp_path / "sitecustomize.py").write_text(NO_LINKS.format(error=error))
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = run(tmp_path, *SMALL, "maxIterations=30", "saveFrequency=2", env=env)
    assert done.returncode == 0, done.stdout
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]
    assert done.stdout.count("runs/latest_train could not be created") == 1
    best = (runs(tmp_path)[0] / "nn" / "best.txt").read_text().strip()
    for selector, name in (("latest", "Cartpole_v30_ep30.pth"), ("best", best)):
        assert run(tmp_path, "config=test", f"checkpoint={selector}", "testGamesNum=1", env=env).returncode == 0
        found = json.loads((runs(tmp_path, "test")[-1] / "results.json").read_text())
        assert found["checkpoint"].endswith(name)


@pytest.mark.full
@pytest.mark.slow
def test_a_policy_is_as_good_resumed_and_as_a_beginning_as_it_is_played(tmp_path):
    """C9"""
    assert run(tmp_path, *SMALL, "maxIterations=60").returncode == 0
    (path,) = runs(tmp_path)
    played = run(tmp_path, "config=test", "checkpoint=latest", "testGamesNum=40", "stochastic=true", "numEnvs=32")
    assert played.returncode == 0, played.stdout
    shutil.copytree(tmp_path / "runs", tmp_path / "others", symlinks=True)
    start = ("task=Cartpole", "numEnvs=32", "train.horizon_length=500", "checkpoint=latest")
    begun = run(tmp_path, *start, "maxIterations=1", "runsDir=others")
    assert begun.returncode == 0, begun.stdout
    child = next(p for p in (tmp_path / "others").glob("*_train_*") if (p / "parent.json").exists())
    mean = results(tmp_path)["return_mean"]
    assert mean > 10  # an untrained one has about -1
    assert scalars(child / "summaries", "rewards/step")[0][1] == pytest.approx(mean, rel=0.3)
    assert run(tmp_path, "resume=true", "checkpoint=latest", "maxIterations=61").returncode == 0
    per_step = [value for _, value in scalars(path / "summaries", "reward_terms/upright")]
    assert per_step[60] == pytest.approx(per_step[59], rel=0.05)
    assert per_step[60] > 1.05 * per_step[0]


MEMORY = """
from livegym import train
from livegym.cfg import cli
def job(cfg):
    status = train.job(cfg)
    print("RSS", int(open("/proc/self/statm").read().split()[1]) * 4 / 1024)  # MiB
    return status
raise SystemExit(cli.run(job))
"""


@pytest.mark.slow
def test_a_sweep_needs_no_more_memory_for_each_job(tmp_path):
    """E8"""
    said = python(tmp_path, MEMORY, "-m", *SMALL, "maxIterations=2", "seed=1,2,3,4,5,6,7,8,9,10")
    sizes = [float(size) for size in re.findall(r"RSS (\S+)", said)]
    assert len(sizes) == 10
    assert sizes[-1] - sizes[1] < 16  # MiB; a job that stays costs more than 2
    assert len(list_checkpoints(runs(tmp_path)[-1])) == 2

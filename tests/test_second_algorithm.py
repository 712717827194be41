"""A second algorithm that only a project's folder brings: trained, resumed, tested and followed by command lines."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
import yaml

from livegym.cfg.compose import compose
from livegym.cfg.help import help_text
from livegym.cfg.saved import with_run_config
from livegym.cfg.typed import as_dict, to_typed
from livegym.cfg.validate import unused_keys, validate
from livegym.projects import registry
from livegym.rl.algorithm import algorithm_of
from livegym.rl.algorithms.ppo.settings import PPOConfig
from livegym.utils.errors import UserError
from tests.patience import until
from tests.processes import Running, results, run, runs, scalars

SETTINGS = """# A linear policy for Cartpole.
algorithm: evolution
max_iterations: 12
games_to_track: 32
"""
SMALL = ("config=train_headless", "task=Cartpole", "numEnvs=32", "projectDir=lab", "seed=3")
TRAIN = (*SMALL, "train=CartpoleEvolution")


@pytest.fixture
def lab(tmp_path) -> Path:
    """A project that holds the algorithm, its settings for Cartpole, and nothing else."""
    folder = tmp_path / "lab"
    (folder / "cfg" / "train").mkdir(parents=True)
    (folder / "cfg" / "train" / "CartpoleEvolution.yaml").write_text(SETTINGS)
    (folder / "algorithms").mkdir()
    shutil.copy(Path(__file__).parent / "evolution.py", folder / "algorithms" / "evolution.py")
    return folder


@pytest.fixture
def here(lab, monkeypatch) -> str:
    """`projectDir=<lab>`, in use until the test ends."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    registry.use(str(lab))
    yield f"projectDir={lab}"
    registry.use(None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "lab"]:
        del sys.modules[name]


# -- what is composed


@pytest.mark.parametrize(
    ("chosen", "iterations"),
    [("train=CartpoleEvolution", 12), ("train=evolution", 1000), ("train.algorithm=evolution", 1000)],
)
def test_settings_decide_which_keys_there_are(here, chosen, iterations):
    cfg = compose([here, chosen, "numEnvs=8", "train.disturbance=0.25"])
    validate(cfg)
    train = to_typed(cfg).train
    assert type(train).__name__ == "EvolutionConfig"
    assert (train.algorithm, train.disturbance, train.max_iterations) == ("evolution", 0.25, iterations)
    assert "gamma" not in cfg.train


def test_without_a_word_the_algorithm_is_ppo(here):
    assert type(to_typed(compose([here])).train) is PPOConfig
    assert compose(["train.algorithm=ppo", "train.gamma=0.5"]).train.gamma == 0.5
    assert compose(["train=ppo"]).train.horizon_length == 16
    assert compose(["train.algorithm=ppo", "train=AntPPO"]).train.horizon_length == 64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train.algorithm=evolutoin"],
            r"evolutoin: unknown\. Allowed: evolution, external, ppo\. Did you mean evolution\?",
        ),
        (["train=evolution", "train.disturbence=1"], r"Did you mean train\.disturbance\?"),
        (["train=evolution", "train.gamma=0.9"], r"train\.gamma=0\.9: there is no such key.*\n.*steps, disturbance"),
        (["train=evolution", "train.steps=0"], r"train\.steps=0: too small"),
        (["train.disturbance=1"], r"train\.disturbance=1: there is no such key"),
        (["train.algorithm=evolution", "train=CartpolePPO"], r"train=CartpolePPO chooses settings for ppo\."),
        (["train.algorithm=ppo", "train=CartpoleEvolution"], r"chooses settings for evolution\..*train=ppo"),
        (["train.algorithm=ppo,evolution"], r"For several: -m train=ppo,evolution"),
        (["train=evolution", "numEnvs=7"], r"numEnvs=7: disturbances come in pairs"),
    ],
)
def test_a_mistake_is_explained(here, arguments, message):
    with pytest.raises(UserError, match=message):
        validate(compose([here, *arguments]))


def test_a_yaml_of_an_algorithm_that_nobody_has(here, lab):
    (lab / "cfg" / "train" / "CartpoleEvolution.yaml").write_text("algorithm: evolutio\n")
    with pytest.raises(UserError, match=r"train\.algorithm=evolutio: unknown\. Allowed: .*Did you mean evolution"):
        compose([here, "train=CartpoleEvolution"])


def test_a_yaml_with_a_key_of_another_algorithm(here, lab):
    (lab / "cfg" / "train" / "CartpoleEvolution.yaml").write_text("algorithm: evolution\ngamma: 0.9\n")
    with pytest.raises(UserError, match=r"gamma"):
        compose([here, "train=CartpoleEvolution"])


def test_help_shows_the_names_and_each_ones_keys(here):
    plain = " ".join(help_text(arguments=[]).split())
    assert "train.algorithm=ppo" in plain
    assert "(evolution, external, ppo)" in plain
    assert "train.gamma=0.99" in plain
    other = help_text(arguments=["train.algorithm=evolution"])
    assert "train.disturbance=1.0" in other
    assert "train.gamma" not in other
    assert other == help_text(arguments=["train=CartpoleEvolution"])


def test_an_algorithm_says_which_of_its_keys_have_no_effect():
    cfg = compose(["train.lr_schedule=constant", "train.kl_threshold=0.01"])
    assert any("kl_threshold=0.01 has no effect" in note for note in unused_keys(cfg, lambda _: True))
    cfg = compose(["train.lr_schedule=adaptive"])
    assert not any("kl_threshold" in note for note in unused_keys(cfg, lambda _: True))


def test_a_run_knows_its_algorithm_and_an_old_one_is_of_ppo(here):
    session = to_typed(compose(["config=test", "checkpoint=latest"]))
    saved = as_dict(to_typed(compose([here, "train=CartpoleEvolution"])))
    assert with_run_config(session, saved, None, []).train.algorithm == "evolution"
    old = as_dict(to_typed(compose([])))
    del old["train"]["algorithm"]
    assert type(with_run_config(session, old, None, []).train) is PPOConfig
    registry.use(None)
    with pytest.raises(UserError, match=r"the checkpoint's train\.algorithm=evolution: unknown.*projectDir="):
        with_run_config(session, saved, None, [])


def test_a_class_without_its_keys_is_refused(here, lab):
    (lab / "algorithms" / "bare.py").write_text("class make:\n    pass\n")
    registry.use(str(lab))
    with pytest.raises(UserError, match=r"train\.algorithm=bare: lab\.algorithms\.bare:make of .* has no Config"):
        compose([here, "train=bare"])


def test_a_class_that_lacks_a_method_is_refused(here, lab):
    code = "from livegym.rl.algorithm import Algorithm\nfrom livegym.schema.train import TrainConfig\n\n"
    (lab / "algorithms" / "half.py").write_text(f"{code}class make(Algorithm):\n    Config = TrainConfig\n")
    registry.use(str(lab))
    config = to_typed(compose([here, "train=half"]))
    with pytest.raises(UserError, match=r"train\.algorithm=half: .* failed \(TypeError: Can't instantiate abstract"):
        algorithm_of(config.train)


def test_continuous_training_says_that_it_needs_a_critic(here):
    config = to_typed(compose([here, "train=evolution"]))
    with pytest.raises(UserError, match=r"train\.algorithm=evolution: continuous training needs a critic"):
        algorithm_of(config.train).actor_critic(None, config.train)


# -- what is run


def weights(folder: Path, version: int) -> dict[str, torch.Tensor]:
    (file,) = folder.glob(f"nn/*_v{version}_*.pth")
    return torch.load(file, weights_only=True)["model"]


@pytest.mark.slow
def test_it_trains_is_tested_and_its_keys_are_in_the_run(lab, tmp_path):
    done = run(tmp_path, *TRAIN)
    assert done.returncode == 0, done.stdout
    (made,) = runs(tmp_path)
    returns = [value for _, value in scalars(made / "summaries", "rewards/step")]
    assert len(returns) == 12
    assert sum(returns[-3:]) / 3 > returns[0] + 20
    assert len(scalars(made / "summaries", "evolution/best")) == 12
    assert yaml.safe_load((made / "config.yaml").read_text())["train"]["disturbance"] == 1.0
    done = run(tmp_path, "config=test", "checkpoint=latest", "testGamesNum=4", "projectDir=lab")
    assert done.returncode == 0, done.stdout
    found = results(tmp_path)
    assert len(found["episodes"]) == 4
    assert found["return_mean"] > returns[0]
    done = run(tmp_path, "config=test", "checkpoint=latest", "testGamesNum=4")
    assert done.returncode == 2
    assert "projectDir=<its folder>" in done.stdout


@pytest.mark.full
@pytest.mark.slow
def test_a_resumed_training_continues_bit_for_bit(lab, tmp_path):
    assert run(tmp_path, *TRAIN, "maxIterations=4").returncode == 0
    assert run(tmp_path, *TRAIN, "maxIterations=2").returncode == 0
    whole, begun = runs(tmp_path)
    resume = ("config=train_headless", "resume=true", f"checkpoint={begun}", "maxIterations=4", "projectDir=lab")
    contradicts = run(tmp_path, *resume, "train=CartpolePPO")
    assert contradicts.returncode == 2
    assert "train=ppo contradicts the run, which has evolution" in contradicts.stdout
    done = run(tmp_path, *resume)
    assert done.returncode == 0, done.stdout
    assert all(torch.equal(value, weights(begun, 4)[name]) for name, value in weights(whole, 4).items())
    other = run(
        tmp_path, "config=train_headless", "task=Cartpole", "numEnvs=32", f"checkpoint={begun}", "projectDir=lab"
    )
    assert other.returncode == 2
    assert "was trained with train.algorithm=evolution, but this run uses ppo" in other.stdout
    served = run(tmp_path, "config=continuous", "task=Cartpole", "train=evolution", "projectDir=lab")
    assert served.returncode == 2
    assert "continuous training needs a critic" in served.stdout


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["bus", pytest.param("files", marks=pytest.mark.full)])
def test_it_is_followed_while_it_learns(lab, tmp_path, weights):
    training = (*TRAIN, "maxIterations=100000", "publishInterval=0.2", "saveInterval=0.3", "train.steps=20")
    test = ("config=test", "testGamesNum=0", "checkpoint=latest", "reloadInterval=0.3", "projectDir=lab")
    test = (*test, "logLevel=debug")  # shows each swap
    with Running(tmp_path, *training, name="training") as learns:
        until(lambda: list(tmp_path.glob("runs/*_train_*/nn/*.pth")) != [], lambda: learns.text, learns.process)
        with Running(tmp_path, *test, f"weights={weights}", name="test") as follows:
            until(lambda: len(taken(follows.text)) >= 4, lambda: follows.text, follows.process)
            assert follows.end() == 0
            assert taken(follows.text) == sorted(set(taken(follows.text)))
        assert learns.end() == 130
    found = json.loads((runs(tmp_path, "test")[0] / "results.json").read_text())
    assert {event["source"] for event in found["swaps"]} == {weights}
    assert all(event["accepted"] for event in found["swaps"])


def taken(text: str) -> list[int]:
    """The versions that were taken over, in order."""
    return [int(version) for version in re.findall(r"now acting: version (\d+),", text)]

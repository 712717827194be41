"""A training by other code as a run: its network as data, its files and its bus, without any other library."""

from __future__ import annotations

import importlib
import itertools
import json
import logging
import signal
import sys

import pytest
import torch
import yaml
from torch import nn

from examples import train_ppo
from livegym.cfg.compose import compose
from livegym.cfg.saved import whole_config
from livegym.cfg.typed import to_typed
from livegym.cfg.validate import unused_keys, validate
from livegym.learners.actor import Actor, Normaliser, configuration, describe
from livegym.learners.recorder import Recorder
from livegym.learners.simulation import Simulation
from livegym.rl.activations import ACTIVATIONS
from livegym.rl.algorithm import algorithm_of
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, spec_of
from livegym.rl.training import Parent
from livegym.rundir.checkpoint import newest_usable
from livegym.rundir.lock import lock_holder
from livegym.rundir.run import open_run, read_latest
from livegym.schema.settled import settled
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.utils.errors import UserError
from livegym.weights.bus_reader import BusReader
from livegym.weights.bus_source import bus_of
from tests.processes import runs

OBSERVATIONS = (("position", 3), ("velocity", 2))


def spec_with(action) -> PolicySpec:
    return PolicySpec("Cartpole", OBSERVATIONS, (), action, 1 / 60)


def mlp(*widths: int, activation=nn.Tanh) -> list[nn.Module]:
    layers = [[nn.Linear(a, b), activation()] for a, b in itertools.pairwise(widths)]
    return [part for layer in layers for part in layer][:-1]


class Noisy(nn.Linear):
    """A layer that acts in another way than its weights say."""

    def forward(self, x):
        return super().forward(x) + torch.randn(1)


def played(actor: Actor, spec: PolicySpec) -> Policy:
    """The policy that a player makes of an actor's description."""
    described = describe(actor, spec)
    policy = Policy(spec, configuration(described, "a test"), 1, "cpu")
    policy.load(described.weights)
    return policy


# -- the network as data


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_each_activation_acts_as_in_torch(name):
    layers = mlp(5, 8, 6, 2, activation=ACTIVATIONS[name])
    log_std = torch.tensor([-0.5, 0.25])
    obs = torch.randn(16, 5)
    with torch.no_grad():
        out = played(Actor(layers, log_std), spec_with(Box(2)))(obs)
        torch.testing.assert_close(out.mode(), nn.Sequential(*layers)(obs))
    assert torch.equal(out.log_std, log_std.expand(16, 2))


def test_a_network_without_hidden_layers_and_without_a_bias():
    layer = nn.Linear(5, 1, bias=False)
    obs = torch.randn(4, 5)
    out = played(Actor([layer], torch.zeros(1)), spec_with(Box(1)))(obs).mode()
    torch.testing.assert_close(out, obs @ layer.weight.T)


def test_the_normaliser_is_exact_where_a_small_scale_magnifies_a_large_mean():
    mean = torch.tensor([1000.1, 0, 0, 0, 0], dtype=torch.float64)
    norm = Normaliser(mean, torch.full((5,), 1e-2, dtype=torch.float64), clip=3.0)
    layer = nn.Linear(5, 1)
    obs = torch.tensor([[1000.11, 0.01, -0.02, 1.0, -1.0]])
    seen = ((obs.double() - mean) / 1e-2).clamp(-3, 3).float()
    assert seen[0, 3:].tolist() == [3.0, -3.0]
    out = played(Actor([layer], torch.zeros(1), norm), spec_with(Box(1)))(obs).mode()
    torch.testing.assert_close(out, layer(seen).detach(), atol=1e-6, rtol=0)


def test_discrete_choices_have_logits():
    layers = mlp(5, 4, 3)
    obs = torch.randn(8, 5)
    with torch.no_grad():
        logits = nn.Sequential(*layers)(obs)
    out = played(Actor(layers), spec_with(Discrete(3)))(obs)
    assert torch.equal(out.mode(), logits.argmax(1))
    layers = mlp(5, 4, 5)
    with torch.no_grad():
        logits = nn.Sequential(*layers)(obs)
    out = played(Actor(layers), spec_with(MultiDiscrete((3, 2))))(obs)
    assert torch.equal(out.mode(), torch.stack([logits[:, :3].argmax(1), logits[:, 3:].argmax(1)], 1))


def test_a_policy_in_double_precision_acts_alike():
    norm = Normaliser(torch.ones(5), torch.full((5,), 2.0))
    policy = played(Actor(mlp(5, 8, 1), torch.zeros(1), norm), spec_with(Box(1)))
    obs = torch.randn(4, 5)
    single = policy(obs).mode()
    policy.to_double()
    torch.testing.assert_close(policy(obs.double()).mode().float(), single)


def test_describing_leaves_the_global_generator_alone_and_copies():
    layers = mlp(5, 8, 1)
    before = torch.get_rng_state()
    described = describe(Actor(layers, torch.zeros(1)), spec_with(Box(1)))
    played(Actor(layers, torch.zeros(1)), spec_with(Box(1)))
    assert torch.equal(torch.get_rng_state(), before)
    with torch.no_grad():
        layers[0].weight += 1
    assert not torch.equal(described.weights["layers.0.weight"], layers[0].weight)


@pytest.mark.parametrize(
    ("actor", "message"),
    [
        (Actor([nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 1)], torch.zeros(1)), "the layer LayerNorm: .*Allowed:"),
        (
            Actor([nn.Linear(5, 4), nn.ELU(0.5), nn.Linear(4, 1)], torch.zeros(1)),
            r"ELU\(alpha=0.5\): .*ELU\(alpha=1.0\)",
        ),
        (Actor([*mlp(5, 4, 4), nn.ReLU(), nn.Linear(4, 1)], torch.zeros(1)), "the activations relu, tanh in one"),
        (Actor([nn.Linear(5, 1), nn.Tanh()], torch.zeros(1)), "layers Linear, Tanh: .*none after the last"),
        (Actor([nn.Linear(5, 4), nn.Linear(4, 1)], torch.zeros(1)), "layers Linear, Linear:"),
        (Actor([], torch.zeros(1)), r"layers \(none\)"),
        (Actor(mlp(6, 4, 1), torch.zeros(1)), r"an input of 6 numbers: .*Allowed: 5, .*\(position 3, velocity 2\)"),
        (Actor(mlp(5, 4, 2), torch.zeros(1)), "an output of 2 numbers: .*Allowed: 1 means"),
        (Actor(mlp(5, 4, 1)), "no log_std: .*Allowed: 1 numbers that do not depend"),
        (Actor(mlp(5, 4, 1), torch.zeros(3)), "a log_std of 3 numbers"),
        (Actor(mlp(5, 4, 1), torch.zeros(1), Normaliser(torch.zeros(4), torch.ones(5))), "whose mean has 4 numbers"),
        (
            Actor(mlp(5, 4, 1), torch.zeros(1), Normaliser(torch.zeros(5), torch.zeros(5))),
            "with the scale 0: .*above 0",
        ),
        (Actor([Noisy(5, 1)], torch.zeros(1)), "layers Noisy: .*Allowed: Linear layers"),
    ],
)
def test_another_architecture_is_refused_by_name(actor, message):
    with pytest.raises(UserError, match=message):
        describe(actor, spec_with(Box(1)))


def test_a_deviation_of_discrete_choices_is_refused():
    with pytest.raises(UserError, match="a standard deviation of discrete choices"):
        describe(Actor(mlp(5, 3), torch.zeros(3)), spec_with(Discrete(3)))


# -- the environments


@pytest.fixture(scope="module")
def simulation():
    made = Simulation("Cartpole", num_envs=3, seed=5, overrides=["sim.threads=1", "task.episode_length_s=0.1"])
    yield made
    made.close()


def test_what_is_handed_out_is_the_callers_own(simulation):
    obs = simulation.reset()["policy"]
    kept = obs.clone()
    step = simulation.step(torch.ones(3, 1))
    later = step.obs["policy"].clone()
    simulation.step(-torch.ones(3, 1))
    assert torch.equal(obs, kept)
    assert torch.equal(step.obs["policy"], later)


def test_equal_seeds_give_equal_episodes(simulation):
    def observations(seed):
        simulation.reseed(seed)
        return simulation.reset()["policy"]

    assert torch.equal(observations(0), observations(0))
    assert not torch.equal(observations(0), observations(1))
    simulation.reseed(5)
    assert (simulation.config.seed, simulation.typed[2]) == (5, "seed=5")


def test_finished_episodes_are_counted(simulation):
    simulation.reset()
    simulation.begin()
    for _ in range(2 * simulation.env.max_length):
        simulation.step(torch.zeros(3, 1))
    assert simulation.frame == 3 * 2 * simulation.env.max_length
    assert list(simulation.lengths) == [simulation.env.max_length] * 6
    assert len(simulation.returns) == 6
    assert 0.9 * simulation.env.max_length < min(simulation.returns) <= simulation.env.max_length


def test_it_is_what_the_command_line_would_make():
    typed = ["task.episode_length_s=3", "sim.threads=1"]
    simulation = Simulation("Cartpole", num_envs=2, seed=4, overrides=typed)
    command = settled(to_typed(compose(["task=Cartpole", "numEnvs=2", "seed=4", *typed])))
    for part in ("task", "sim", "physics", "numEnvs", "seed"):
        assert getattr(simulation.config, part) == getattr(command, part), part
    simulation.close()
    with pytest.raises(UserError, match=r"overrides='sim.threads=1': one text\. Allowed: a list"):
        Simulation("Cartpole", num_envs=2, overrides="sim.threads=1")
    with pytest.raises(UserError, match=r"task\.noise\.cart_positoin"):  # found by validation only
        Simulation("Cartpole", num_envs=2, overrides=["+task.noise.cart_positoin=0.1"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task=Ant", "task=Ant: give it as the argument task"),
        ("numEnvs=4", "numEnvs=4: give it as the argument num_envs"),
        ("seed=4", "seed=4: give it as the argument seed"),
        ("projectDir=x", "projectDir=x: give it as the argument project_dir"),
        (
            "train.gamma=0.5",
            "environments do not depend on it. Allowed: keys inside task, sim, physics, runsDir, saveInterval",
        ),
        ("maxIterations=5", "environments do not depend on it"),
        ("wandb=true", "environments do not depend on it"),
        ("saveIntervall=5", "environments do not depend on it.*Did you mean saveInterval"),
        ("device=cpu", "environments do not depend on it"),
        ("task.rewardz.fell=1", "Did you mean"),
    ],
)
def test_a_wrong_override_is_refused(override, message):
    with pytest.raises(UserError, match=message):
        Simulation("Cartpole", num_envs=2, seed=0, overrides=[override])


# -- the run


def test_the_example_in_one_file_trains_two_versions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train_ppo.py", "--envs", "4", "--iterations", "2"])
    train_ppo.main()
    (made,) = runs(tmp_path)
    state = newest_usable(open_run(made)).state
    assert (state["livegym"]["version"], state["frame"]) == (2, 2 * 4 * train_ppo.HORIZON)


@pytest.fixture
def recorded(simulation, tmp_path, monkeypatch):
    """A recorder in an empty folder, the layers that it records, and their standard deviation."""
    monkeypatch.chdir(tmp_path)
    simulation.reset()
    layers, log_std = mlp(4, 8, 1), nn.Parameter(torch.zeros(1))
    return Recorder(simulation, lambda: Actor(layers, log_std), "a test"), layers


def test_a_training_is_a_run_with_lock_configuration_curves_checkpoints_and_bus(recorded, simulation, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    recorder, layers = recorded
    run = recorder.run
    with recorder:
        assert lock_holder(run) is not None
        reader = BusReader(bus_of(run))
        for version in (1, 2):
            for _ in range(10):
                simulation.step(torch.zeros(3, 1))
            with torch.no_grad():
                layers[0].weight.fill_(version)
            recorder.note({"losses/value": 0.5})
        first = reader.read(0)
        assert (first.version, first.model["layers.0.weight"][0, 0]) == (1, 1.0)
    assert lock_holder(run) is None
    assert reader.ended
    last = reader.read(0)
    assert (last.version, last.model["layers.0.weight"][0, 0]) == (2, 2.0)
    usable = newest_usable(run)
    assert usable.path.name == "Cartpole_v2_ep2.pth"
    assert usable.state["frame"] == 60
    assert PolicySpec.from_dict(usable.state["spec"]) == spec_of(simulation.env)
    assert read_latest(tmp_path / "runs", "train").resolve() == run.path.resolve()
    train = yaml.safe_load(run.config_file.read_text())["train"]
    assert (train["algorithm"], train["learner"], train["units"]) == ("external", "a test", [8])
    assert yaml.safe_load((run.path / "overrides.yaml").read_text())[:3] == ["task=Cartpole", "numEnvs=3", "seed=5"]
    assert list(run.summaries.glob("events.*"))
    assert json.loads((run.path / "run.json").read_text())["kind"] == "train"
    assert list(run.path.glob("env_state_*")) == []
    assert "recorded 2 versions" in run.log_file.read_text()


def test_what_is_saved_at_the_end_is_the_last_whole_version(recorded):
    recorder, layers = recorded

    def train() -> None:
        with recorder:
            recorder.note()
            recorder.note()
            with torch.no_grad():
                layers[0].weight.fill_(7)  # an update has begun
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()
    state = newest_usable(recorder.run).state
    assert state["livegym"]["version"] == 2
    assert not (state["model"]["layers.0.weight"] == 7).any()
    recorder.close()  # a second time changes nothing


def test_a_signal_ends_the_training_like_an_error_and_the_last_version_is_saved(recorded):
    recorder, _ = recorded
    assert callable(signal.getsignal(signal.SIGTERM))

    def train() -> None:
        with recorder:
            recorder.note()
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit) as ended:
        train()
    assert ended.value.code == 128 + signal.SIGTERM
    assert newest_usable(recorder.run).state["livegym"]["version"] == 1
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_version_that_is_not_finite_is_neither_saved_nor_published(recorded):
    recorder, layers = recorded
    with recorder:
        recorder.note()
        with torch.no_grad():
            layers[0].weight[0, 0] = torch.nan
        with pytest.raises(UserError, match=r"version 2 .*NaN or Infinity in policy\.layers\.0\.weight.*_v1_ep1\.pth"):
            recorder.note()
    assert newest_usable(recorder.run).state["livegym"]["version"] == 1


def test_an_architecture_that_changes_is_refused(recorded):
    recorder, layers = recorded
    with recorder:
        recorder.note()
        layers[:] = mlp(4, 9, 1)
        with pytest.raises(UserError, match=r"changes from .*\[8\].* to .*\[9\]"):
            recorder.note()


def test_nothing_is_written_for_an_architecture_that_is_refused(simulation, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="LSTM"):
        Recorder(simulation, lambda: Actor([nn.LSTM(4, 8)], torch.zeros(1)), "a test")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("library", "extra"), [("stable_baselines3", "sb3"), ("rsl_rl", "rsl_rl"), ("skrl", "skrl")])
@pytest.mark.parametrize("module", ["livegym.learners.{}", "examples.train_{}"])
def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch, module, library, extra):
    for name in [name for name in sys.modules if name.startswith(f"{library}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    for name in ("livegym.learners", "examples.train"):
        monkeypatch.delitem(sys.modules, f"{name}{'.' if 'learners' in name else '_'}{extra}", raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"is not installed.*pip install 'livegym\[{extra}\]'"):
        importlib.import_module(module.format(extra))


# -- livegym's own trainer


def test_such_a_policy_is_not_trained_here(recorded, config):
    recorder, _ = recorded
    with recorder:
        recorder.note()
    usable = newest_usable(recorder.run)
    parent = Parent(recorder.run, usable.path, True, usable.state)
    saved = whole_config(usable.state["config"])
    with pytest.raises(UserError, match="policies of a test are played here, not trained"):
        parent.resumed(settled(config("config=train_headless", "numEnvs=3", "seed=0")), [])
    with pytest.raises(UserError, match="another library trains this policy"):
        parent.check_fits(spec_of(recorder._simulation.env), config("task=Cartpole").train)
    with pytest.raises(UserError, match="played here, not trained"):
        algorithm_of(saved.train).learner(None, saved.train, 1, "cpu", None)
    with pytest.raises(UserError, match="continuous training needs a critic"):
        algorithm_of(saved.train).actor_critic(spec_of(recorder._simulation.env), saved.train)


def test_its_settings_are_refused_before_a_training_and_known_in_a_test():
    cfg = compose(["config=train_headless", "train=external"])
    cfg.numEnvs = 4
    with pytest.raises(UserError, match=r"train\.algorithm=external: policies of another library are played here"):
        validate(cfg)
    assert to_typed(cfg).train.unused() == {"clip_input": "train.normalize_input=true"}
    assert not any("clip_input" in note for note in unused_keys(cfg, lambda _: False))

"""Composition: who wins over whom, what is refused after composition, and the typed and written forms."""

from __future__ import annotations

import dataclasses
import math

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from livegym.cfg.compose import compose, config_loader, prepare
from livegym.cfg.overrides import quoted
from livegym.cfg.schemas import register, thawed
from livegym.cfg.typed import build, plain, resolved_dict, to_typed, yaml_text
from livegym.cfg.validate import num_envs_of, validate
from livegym.rl.algorithms.ppo.settings import PPOConfig, RecurrentConfig, check_sizes
from livegym.schema import RootConfig, TaskConfig
from livegym.schema.keys import Key, Schema, is_mapping, section
from livegym.tasks import TASKS
from livegym.utils.errors import UserError

COMPOSED = compose()


def leaf_keys(schema: Schema) -> list[Key]:
    """The keys that hold values: no sections, no mappings."""
    return [k for k in schema.walk() if section(k.hint) is None and not is_mapping(k.hint)]


def test_a_preset_wins_over_the_defaults_and_the_command_line_over_both():
    assert compose().numEnvs is None
    assert compose(["config=debug"]).numEnvs == 8
    assert compose(["config=debug", "numEnvs=16"]).numEnvs == 16
    assert compose(["numEnvs=16", "config=debug"]).numEnvs == 16


def test_the_order_of_arguments_does_not_matter():
    arguments = ["task=Ant", "task.rewards.forward=2", "config=debug", "train.gamma=0.9"]
    assert plain(compose(arguments)) == plain(compose(arguments[::-1]))


def test_a_task_brings_its_own_learner_settings():
    assert compose(["task=Ant"]).train.horizon_length == 64
    assert compose(["task=Ant", "train=CartpolePPO"]).train.horizon_length == 16


def test_only_real_tasks_are_options():
    register()
    with config_loader() as loader:
        assert loader.get_group_options("task") == sorted(TASKS)


@pytest.mark.parametrize("task", sorted(name for name in TASKS if not TASKS[name].only_clients))
@pytest.mark.parametrize("preset", ["train", "train_headless", "test", "debug"])
def test_every_task_and_preset_is_valid(task, preset):
    validate(compose([f"task={task}", f"config={preset}"]))


def test_typed_config_has_the_tasks_own_parameters():
    config = to_typed(compose(["task.params.max_push=3", "train.network.recurrent.cell=gru"]))
    assert isinstance(config, RootConfig)
    assert isinstance(config.task, TaskConfig)
    assert config.task.params == dataclasses.replace(TASKS["Cartpole"].Params(), max_push=3.0)
    assert config.train.network.recurrent == RecurrentConfig(cell="gru")


@pytest.mark.parametrize(
    "argument", ["train.network.recurrent.units=7", "train.network.recurrent={units: 7}", "task.noise={pole_angle: 7}"]
)
def test_what_is_null_or_empty_can_be_filled_in(argument):
    assert "7" in yaml_text(compose([argument]))
    assert compose(["train.network.recurrent=null"]).train.network.recurrent is None


def test_noise_of_a_known_block_needs_no_plus():
    assert compose(["task.noise.pole_angle=0.1"]).task.noise == {"pole_angle": 0.1}
    assert compose(["+task.noise.pole_angle=0.1"]).task.noise == {"pole_angle": 0.1}


def test_written_yaml_is_strict_and_without_secrets():
    cfg = compose(["train.learning_rate=1e-5", "runsDir=${task.name}", "checkpoint=1_0"])
    saved = yaml.safe_load(yaml_text(cfg))
    assert saved["train"]["learning_rate"] == 1e-5
    assert saved["runsDir"] == "Cartpole"
    assert saved["checkpoint"] == "1_0"
    assert saved == resolved_dict(cfg)
    assert yaml.safe_load(yaml_text(cfg, resolve=False))["runsDir"] == "${task.name}"
    OmegaConf.set_struct(cfg, False)
    cfg.streamToken = "abc"
    assert "abc" not in yaml_text(cfg)
    assert resolved_dict(cfg)["streamToken"] == "***"


@pytest.mark.parametrize(
    ("change", "needle"),
    [
        ({"numEnv": 3}, "Did you mean numEnvs?"),
        ({"numEnvs": 0}, "numEnvs=0: too small"),
        ({"online.trace_steps": 10**6}, "online.trace_steps=1000000: too large"),  # each update round took minutes
        ({"train.gama": 1}, "Did you mean train.gamma?"),
        ({"train.gamma": math.nan}, "train.gamma=nan"),
        ({"task.noise.nothing": 0.1}, "task.noise.nothing"),
        ({"task.num_envs": "???"}, "task.num_envs is not set"),
        ({"device": "tpu"}, "device=tpu"),
    ],
)
def test_validate_refuses_what_a_yaml_file_or_another_program_put_there(change, needle):
    cfg = OmegaConf.create(OmegaConf.to_container(COMPOSED))
    for path, value in change.items():
        OmegaConf.update(cfg, path, value)
    with pytest.raises(UserError, match=needle.replace("?", r"\?")):
        validate(cfg)


@pytest.mark.parametrize("num_envs", [1, 2, 7, 64, 4096])
def test_a_test_never_trips_over_training_rules(num_envs):
    validate(compose(["config=test", f"numEnvs={num_envs}", "train.num_minibatches=31"]))
    validate(compose([f"numEnvs={num_envs}"]))


def test_number_of_environments():
    assert num_envs_of(compose()) == compose().task.num_envs
    assert num_envs_of(compose(["mode=test"])) == 4
    assert num_envs_of(to_typed(compose(["numEnvs=9"]))) == 9


def test_named_sizes_fit():
    train = PPOConfig(horizon_length=16, num_minibatches=3, max_iterations=1)
    with pytest.raises(UserError, match=r"numEnvs=6 or 9, or train\.num_minibatches=2 or 4"):
        check_sizes(7, train)
    for num_envs, parts in ((6, 3), (9, 3), (7, 2), (7, 4)):
        check_sizes(num_envs, dataclasses.replace(train, num_minibatches=parts))


def test_each_value_of_a_sweep_is_judged_before_anything_runs():
    assert prepare(["seed=1,2", "task=Ant,Cartpole"], multirun=True).jobs == 4
    with pytest.raises(UserError, match="seed=x"):
        prepare(["task=Ant,Cartpole", "seed=1,x"], multirun=True)


@pytest.mark.parametrize(
    ("line", "needle"),
    [
        ("numEnv: 3", "Did you mean numEnvs"),
        ("numEnvs: many", "numEnvs"),
        ("numEnvs: [", "line"),
        ("numEnvs: 0", "too small"),
    ],
)
def test_a_mistake_in_a_preset_file_is_explained(tmp_path, line, needle):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "mine.yaml").write_text(f"# @package _global_\n{line}\n")
    with pytest.raises(UserError, match=needle):
        validate(compose([f"hydra.searchpath=[file://{tmp_path}]", "config=mine"]))


@dataclasses.dataclass(frozen=True)
class Inner:
    x: float = 1.0


@dataclasses.dataclass(frozen=True)
class Params:
    pair: tuple[float, float] = (1.0, 2.0)
    inner: Inner = Inner(3.0)
    maybe: Inner | None = None
    ranges: dict[str, tuple[float, float]] = dataclasses.field(default_factory=dict)


def test_parameters_of_a_task_may_be_frozen_nested_and_hold_tuples():
    cfg = OmegaConf.merge(OmegaConf.structured(thawed(Params)), {"pair": [3, 4], "ranges": {"a": [1, 2]}})
    made = build(Params, plain(cfg), Schema())
    assert made == Params(pair=(3.0, 4.0), ranges={"a": (1.0, 2.0)})


KEYS = [k for name in TASKS for k in leaf_keys(Schema(TASKS[name].Params)) if k.path != "device"]
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 10**6), st.floats(), st.sampled_from(["", "None", "x y", "${seed}"])
)
TEXTS = st.sampled_from([k.path for k in KEYS]).flatmap(
    lambda path: st.one_of(
        SCALARS.map(lambda v: f"{path}={'null' if v is None else v}"),
        st.text(min_size=1, max_size=8).map(lambda t: quoted(path, t)),
        st.text(max_size=8).map(lambda t: f"{path}={t}"),
        st.lists(st.integers(-1, 9), max_size=3).map(lambda v: f"{path}={v}"),
    )
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from(["task=Ant", "task=Cartpole"]))
def test_any_override_composes_or_is_explained(arguments, task):
    try:
        cfg = compose([task, *arguments])
        validate(cfg)
        to_typed(cfg)
        yaml_text(cfg)
    except UserError:
        pass

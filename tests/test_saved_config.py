"""A run's configuration in a later session: what comes from where, and what contradicts."""

from __future__ import annotations

import copy
import dataclasses

import pytest

from livegym.cfg.saved import resumed_config, with_run_config
from livegym.cfg.session import Session
from livegym.cfg.typed import as_dict
from livegym.rundir.provenance import Provenance
from livegym.schema.settled import settled
from livegym.utils.errors import UserError


@pytest.fixture
def session(config):
    return config("config=test", "seed=5")


@pytest.fixture
def saved(config):
    return as_dict(config("task=Ant", "numEnvs=16", "train.network.units=[7]", "seed=0"))


def test_a_test_takes_task_and_training_from_the_run_and_the_rest_from_the_session(session, saved):
    config = with_run_config(session, saved, None, [])
    assert (config.task.name, config.train.network.units) == ("Ant", [7])
    assert (config.numEnvs, config.seed) == (4, 5)
    assert session.task.name == "Cartpole"  # not changed


def test_task_keys_of_the_command_line_apply_last(session, saved):
    config = with_run_config(session, saved, "Ant", ["task.rewards.control=0", "seed=5"])
    assert config.task.rewards["control"] == 0
    assert config.task.rewards["forward"] == 1.0


@pytest.mark.parametrize(
    ("task", "overrides", "parts"),
    [
        ("Cartpole", [], ["task=Cartpole", "Ant"]),
        (None, ["train.learning_rate=1"], ["train.learning_rate=1", "run"]),
    ],
)
def test_what_contradicts_a_test_is_refused(session, saved, task, overrides, parts):
    with pytest.raises(UserError) as error:
        with_run_config(session, saved, task, overrides)
    assert all(part in str(error.value) for part in parts)


def test_a_session_knows_what_was_typed_and_applies_it_to_a_run(config, saved):
    typed = ["seed=5", "++task.rewards.control=0"]
    asked = Session(config("config=test", "seed=5"), Provenance("", "", typed, []))
    assert asked.keys == ["seed", "task.rewards.control"]
    assert asked.gives("seed")
    assert not asked.gives("reloadInterval")
    assert asked.task is None  # Cartpole is a default, which contradicts no run
    merged = asked.config_for(saved)
    assert (merged.task.name, merged.task.rewards["control"], merged.seed) == ("Ant", 0, 5)
    named = Session(asked.config, Provenance("", "", ["task=Cartpole"], []))
    with pytest.raises(UserError, match="task=Cartpole"):
        named.config_for(saved)


def test_a_plain_file_needs_its_task_named(session):
    with pytest.raises(UserError, match="task=<Task>"):
        with_run_config(session, None, None, [])
    assert with_run_config(session, None, "Cartpole", []) is session


def test_old_and_unknown_keys_are_met_with_defaults_and_a_word(session, saved, caplog):
    old = copy.deepcopy(saved)
    del old["train"]["tau"], old["task"]["noise"]
    old["train"]["forgotten"], old["task"]["params"]["gone"] = 1, 2
    config = with_run_config(session, old, None, [])
    assert (config.train.tau, config.task.noise) == (0.95, {})
    assert "train.forgotten" in caplog.text
    assert "task.params.gone" in caplog.text


def test_a_key_without_a_default_is_asked_for(session, saved):
    del saved["task"]["decimation"]
    with pytest.raises(UserError, match=r"task\.decimation"):
        with_run_config(session, saved, None, [])


@pytest.mark.parametrize("broken", [{}, {"task": {}, "train": {}}, {"task": {"name": "Nope"}, "train": {}}])
def test_a_configuration_that_is_none_is_refused(session, broken):
    with pytest.raises(UserError):
        with_run_config(session, broken, None, [])


def test_a_resumed_run_keeps_its_own_configuration_but_for_session_keys(config, saved):
    session = config("maxIterations=9", "saveInterval=3", "sim.threads=2", "checkpoint=x", "resume=true")
    given = ["maxIterations", "saveInterval", "sim.threads", "checkpoint", "resume"]
    resumed = resumed_config(session, saved, given)
    assert (resumed.task.name, resumed.numEnvs, resumed.seed, resumed.train.network.units) == ("Ant", 16, 0, [7])
    assert (resumed.maxIterations, resumed.saveInterval, resumed.sim.threads) == (9, 3.0, 2)
    assert (resumed.checkpoint, resumed.resume) == ("x", True)
    again = resumed_config(session, as_dict(resumed), ["resume", "checkpoint"])
    assert (again.maxIterations, again.numEnvs) == (9, 16)  # what was given once stays given


@pytest.mark.parametrize("override", ["numEnvs=8", "seed=1", "train.gamma=0.5", "physics=fast"])
def test_what_contradicts_a_resumed_run_is_refused(config, saved, override):
    with pytest.raises(UserError, match="contradicts the run"):
        resumed_config(config(override), saved, [override.partition("=")[0]])


def test_the_same_value_is_no_contradiction_also_where_an_old_run_lacks_the_key(config, saved):
    del saved["keepEvery"], saved["train"]["gamma"]
    resumed = resumed_config(config("numEnvs=16", "train.gamma=0.99"), saved, ["numEnvs", "train.gamma"])
    assert resumed.train.gamma == 0.99


def test_names_that_the_task_got_later_can_be_given_when_a_run_is_resumed(config, saved):
    """The run has no value that a typed one could contradict."""
    del saved["task"]["rewards"]["control"], saved["task"]["terminations"]["unhealthy"]
    typed = ["task.rewards.control=0", "task.terminations.unhealthy=false"]
    resumed = resumed_config(config("task=Ant", *typed), saved, ["task", *(t.partition("=")[0] for t in typed)])
    assert (resumed.task.rewards["control"], resumed.task.terminations["unhealthy"]) == (0.0, False)
    with pytest.raises(UserError, match=r"task\.rewards\.forward=3\.0 contradicts the run, which has 1\.0"):
        resumed_config(config("task=Ant", "task.rewards.forward=3"), saved, ["task.rewards.forward"])
    with pytest.raises(UserError, match=r"task\.noise\.positions=0\.1 contradicts the run, which has null"):
        resumed_config(config("task=Ant", "task.noise.positions=0.1"), saved, ["task.noise.positions"])


def test_blocks_that_nobody_sees_may_change_when_a_run_is_resumed(config, saved):
    session = config("task=Ant", "task.observations.unused=[episode_time]")
    resumed = resumed_config(session, saved, ["task.observations.unused"])
    assert resumed.task.observations.unused == ["episode_time"]


def test_what_a_resumed_run_no_longer_knows_is_reported(config, saved, caplog):
    saved["oldRootKey"] = 1
    resumed_config(config(), saved, [])
    assert "oldRootKey" in caplog.text


def test_naming_the_runs_own_groups_is_no_contradiction_where_the_run_was_customised(config):
    saved = as_dict(config("task=Cartpole", "task.rewards.upright=2", "train.gamma=0.9", "sim.threads=1"))
    session = config("task=Cartpole", "sim=mujoco", "train=CartpolePPO")
    resumed = resumed_config(session, saved, ["task", "sim", "train"])
    assert (resumed.task.rewards["upright"], resumed.train.gamma, resumed.sim.threads) == (2.0, 0.9, 1)
    with pytest.raises(UserError, match="sim=reference contradicts"):
        resumed_config(config("sim=reference"), saved, ["sim"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("task.decimation", 0),
        ("task.decimation", "two"),
        ("task.rewards", "none"),
        ("task.rewards", {"forward": "x"}),
        ("task.episode_length_s", None),
        ("task.observations", ["pose"]),
        ("train.network.units", None),
        ("train.network.units", [-1]),
        ("task", "Ant"),
    ],
)
def test_a_damaged_configuration_is_an_error_and_no_traceback(session, saved, path, value):
    node = saved
    *parents, leaf = path.split(".")
    for name in parents:
        node = node[name]
    node[leaf] = value
    with pytest.raises(UserError):
        with_run_config(session, saved, None, [])


def test_missing_parameters_take_their_defaults_and_a_missing_section_is_named(config, session, saved):
    saved["task"]["params"] = None
    assert with_run_config(session, saved, None, []).task.params.start_noise == 0.1
    del saved["train"]["max_iterations"]
    with_run_config(session, saved, None, [])
    saved["sim"] = "mujoco"
    with pytest.raises(UserError, match="sim"):
        resumed_config(config(), saved, [])


@pytest.mark.parametrize("key", ["seed", "numEnvs"])
def test_a_configuration_is_settled_only_if_nothing_is_open(config, key):
    whole = config("seed=3", "numEnvs=2")
    assert (settled(whole).seed, settled(whole).numEnvs) == (3, 2)
    assert as_dict(settled(whole)) == as_dict(whole)
    assert list(as_dict(settled(whole))) == list(as_dict(whole))
    with pytest.raises(UserError, match=rf"^{key}=null: the run needs a value"):
        settled(dataclasses.replace(whole, **{key: None}))

"""Every key of the configuration has an origin, and a test and a resumed run take it from there."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from livegym.cfg import origin
from livegym.cfg.origin import ORIGIN, Origin, origin_of, paths
from livegym.cfg.saved import resumed_config, with_run_config
from livegym.cfg.typed import as_dict
from livegym.schema.keys import Schema, section

TRAINED = ("physics.integrator=rk4", "physics.cone=elliptic", "physics.iterations=7", "physics.tolerance=1e-5")


def at(config, path: str):
    for name in path.split("."):
        config = getattr(config, name)
    return config


def test_every_key_has_one_origin_and_every_origin_is_of_a_key():
    keys = list(Schema().walk())
    missing = [key.path for key in keys if section(key.hint) is None and origin_of(key.path) is None]
    assert not missing, f"list these keys in cfg/origin.py: {missing}"
    assert not set(ORIGIN) - {key.path for key in keys}
    listed = [path for text in origin._KEYS.values() for path in text.split()]
    assert len(listed) == len(set(listed))


def test_a_new_key_of_physics_has_no_origin_before_it_is_listed():
    assert origin_of("physics.gravity") is None
    assert origin_of("newKey") is None
    assert origin_of("task.params.max_push") is origin_of("train.network.units") is Origin.POLICY


def test_a_test_takes_what_the_policy_was_trained_with_from_the_run_and_nothing_else(config):
    saved = config("task=Ant", *TRAINED, "physics.substeps=3", "numEnvs=16", "seed=0", "sim.threads=3", "swap=blend")
    session = config("config=test", "physics=fast", "sim=reference", "numEnvs=2")
    merged = with_run_config(session, as_dict(saved), None, [])
    for path in ORIGIN:
        source = saved if origin_of(path) is Origin.POLICY else session
        assert at(merged, path) == at(source, path), path


@pytest.mark.parametrize(
    ("typed", "expected", "words"),
    [
        (["physics.substeps=1"], (1, "rk4"), ["physics.substeps=1 (the run: 3)"]),
        (["physics=default"], (1, None), ["physics.substeps=1 (the run: 3)", "physics.integrator=null (the run: rk4)"]),
        (["physics=fast", "physics.substeps=3"], (3, "euler"), ["physics.integrator=euler (the run: rk4)"]),
        (["task.rewards.control=0"], (3, "rk4"), ["task.rewards.control=0 (the run: "]),
        (["physics.substeps=3"], (3, "rk4"), []),
        ([], (3, "rk4"), []),
    ],
)
def test_what_is_typed_applies_and_one_line_says_how_it_differs(config, caplog, typed, expected, words):
    caplog.set_level(logging.INFO)
    saved = as_dict(config("task=Ant", *TRAINED, "physics.substeps=3"))
    session = config("config=test", *[text for text in typed if not text.startswith("task.")])
    merged = with_run_config(session, saved, None, typed)
    assert (merged.physics.substeps, merged.physics.integrator) == expected
    told = [
        record.message for record in caplog.records if "differs from what the policy was trained with" in record.message
    ]
    assert len(told) == bool(words)
    assert all(word in told[0] for word in words)
    if typed == ["physics.substeps=1"]:
        assert "integrator" not in told[0]


def test_another_engine_is_told_too_and_an_old_run_has_the_physics_of_its_model(config, caplog):
    caplog.set_level(logging.INFO)
    saved = as_dict(config("task=Ant"))
    del saved["physics"]
    merged = with_run_config(config("config=test", "sim=reference", "physics=accurate"), saved, None, ["sim=reference"])
    assert dataclasses.asdict(merged.physics) == dataclasses.asdict(config().physics)
    assert "sim.engine=reference (the run: mujoco)" in caplog.text


def test_a_resumed_run_takes_the_keys_of_this_command_line_from_it_and_all_others_from_the_run(config):
    saved = config("task=Ant", *TRAINED, "numEnvs=16", "seed=0", "swap=blend", "keepLast=9", "testGamesNum=3")
    session = config("physics=fast", "numEnvs=2", "seed=1", "keepLast=2", "swap=reset", "watch=true", "testGamesNum=7")
    resumed = resumed_config(session, as_dict(saved), ["watch", "testGamesNum", "swap"])
    for path in ORIGIN:
        source = session if path == "swap" or origin_of(path) is Origin.SESSION else saved
        assert at(resumed, path) == at(source, path), path
    assert "keepLast" in paths(Origin.ADJUSTABLE)
    assert resumed.keepLast == 9

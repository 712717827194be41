"""A policy as a function: the same kind back, its own copy, and a word for what no policy can act on."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
import torch
from checkpoint_samples import Shell, with_pickle

import livegym
from livegym.rl.algorithms.ppo.settings import NetworkConfig, PPOConfig, RecurrentConfig
from livegym.rl.spec import PolicySpec, shape_hash
from livegym.rundir.checkpoint import CheckpointMeta, read_checkpoint, write_checkpoint
from livegym.rundir.run import Run, create_run, point_latest
from livegym.tasks.base import Box, Discrete, MultiDiscrete
from livegym.utils.errors import UserError
from tests.test_live import policy_of

TRAIN = PPOConfig(network=NetworkConfig(units=[4]), max_iterations=1, normalize_input=False)
RECURRENT = dataclasses.replace(TRAIN, network=NetworkConfig(units=[4], recurrent=RecurrentConfig(units=3)))
SPEC = PolicySpec("Kettle", (("heat", 2), ("level", 1)), (), Box(2), 0.1)
"""Of a task whose code is nowhere."""


def save(run: Run, version: int = 3, spec: PolicySpec = SPEC, train: PPOConfig = TRAIN, bias: float | None = None):
    """A checkpoint; with a bias, its mean action is that, whatever is observed."""
    torch.manual_seed(version)
    model = policy_of(spec, train).state()
    if bias is not None:
        model["a2c_network.mu.weight"].zero_()
        model["a2c_network.mu.bias"].fill_(bias)
    else:
        model["a2c_network.actor_mlp.0.weight"].normal_()
    config = {"task": {"name": spec.task}, "train": dataclasses.asdict(train)}
    meta = CheckpointMeta("Kettle", run.run_id, version, version, 0, shape_hash(spec, model), score=1.0)
    return write_checkpoint(run.nn, {"model": model, "config": config, "spec": spec.to_dict()}, meta)


@pytest.fixture
def run(tmp_path) -> Run:
    made = create_run(tmp_path / "runs", "Kettle", "train")
    point_latest(made.path.parent, "train", made)
    return made


def loaded(run: Run, **options):
    return livegym.load_policy(run.path, **options)


OBS = np.array([[0.1, 0.2, 0.3], [1.0, -2.0, 3.0]], np.float32)


def test_it_acts_as_the_policy_that_a_test_plays_without_the_tasks_code(run):
    save(run)
    policy = loaded(run)
    torch.manual_seed(3)
    direct = policy_of(SPEC, TRAIN)
    direct.load(read_checkpoint(policy.file)["model"])
    expected = direct(torch.from_numpy(OBS)).mode().clamp(-1, 1)
    assert np.array_equal(policy(OBS), expected.numpy())
    assert (policy.version, policy.run, policy.spec, policy.recurrent) == (3, run.name, SPEC, False)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [None, 1, 2])
def test_the_same_kind_comes_back_with_a_leading_axis_or_without(run, kind, rows):
    save(run, bias=0.25)
    policy = loaded(run)
    obs = OBS[0] if rows is None else OBS[:rows]
    given = torch.from_numpy(obs).to(kind) if isinstance(kind, torch.dtype) else obs.astype(kind)
    action = policy(given)
    assert type(action) is type(given)
    assert tuple(action.shape) == ((2,) if rows is None else (rows, 2))
    assert str(action.dtype).endswith("float32")
    assert action.reshape(-1).tolist() == [0.25, 0.25] * (rows or 1)


def test_a_mean_beyond_the_range_is_clipped_as_the_environment_would(run):
    save(run, bias=7.5)
    assert loaded(run)(OBS[0]).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("action", "shape"), [(Discrete(3), (2,)), (MultiDiscrete((3, 2)), (2, 2))], ids=["one choice", "choices"]
)
def test_choices_are_whole_numbers(run, action, shape):
    save(run, spec=dataclasses.replace(SPEC, action=action))
    chosen = loaded(run)(OBS)
    assert (chosen.dtype, chosen.shape) == (np.int64, shape)
    assert loaded(run)(OBS[0]).shape == shape[1:]


def test_observations_and_actions_belong_to_the_caller(run):
    save(run)
    policy, obs = loaded(run), OBS.copy()
    first = policy(obs)
    kept = first.copy()
    second = policy(2 * obs)
    assert np.array_equal(first, kept)
    assert not np.shares_memory(first, second)
    assert np.array_equal(obs, OBS)
    obs.flags.writeable = False
    assert np.array_equal(policy(obs), kept)
    assert np.array_equal(policy(OBS[::-1]), kept[::-1])  # negative strides
    tensor = torch.from_numpy(OBS.copy()).requires_grad_()
    assert not policy(tensor).requires_grad


def test_samples_come_from_a_generator_of_its_own(run):
    save(run)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    first, second, other = (loaded(run, stochastic=True, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first(OBS), second(OBS))
    assert not np.array_equal(first(OBS), other(OBS))
    assert np.array_equal(loaded(run, seed=1)(OBS), loaded(run, seed=2)(OBS))
    assert torch.equal(torch.rand(1), expected)


def test_a_recurrent_policy_remembers_each_environment_until_its_reset(run):
    save(run, train=RECURRENT)
    policy = loaded(run)
    first = policy(OBS)
    second = policy(OBS)
    assert policy.recurrent
    assert not np.array_equal(first, second)
    policy.reset([0])
    mixed = policy(OBS)
    assert np.array_equal(mixed[0], first[0])
    assert not np.array_equal(mixed[1], first[1])
    policy.reset(np.array([False, True]))
    assert np.array_equal(policy(OBS)[1], first[1])
    policy.reset()
    assert np.array_equal(policy(OBS), first)
    with pytest.raises(UserError, match=r"of 1 environments, but this recurrent policy remembers 2.*reset\(\)"):
        policy(OBS[0])
    policy.reset()
    assert np.allclose(policy(OBS[0]), first[0], atol=1e-6)


@pytest.mark.parametrize(
    ("env_ids", "message"),
    [([2], r"env_ids=\[2\].*0 to 1"), ([-1], "0 to 1"), ([0.5], "no such environment"), ([True], "mask .* 1 values")],
)
def test_environments_that_are_not_there_cannot_be_reset(run, env_ids, message):
    save(run, train=RECURRENT)
    policy = loaded(run)
    policy(OBS)
    with pytest.raises(UserError, match=message):
        policy.reset(env_ids)


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (OBS[:, :2], r"shape \(2, 2\).*\(3,\) for one environment, or \(n, 3\).*heat 2, level 1"),
        (OBS[None], r"shape \(1, 2, 3\)"),
        (np.float32(1.0), "of type float32. Allowed: a numpy array or a torch tensor"),
        ([0.1, 0.2, 0.3], "of type list"),
        (OBS.astype(np.int64), "dtype int64. Allowed: float16, float32, float64"),
        (np.array(["a", "b", "c"]), "dtype <U1"),
        (torch.zeros(3, dtype=torch.bool), "dtype torch.bool"),
        (np.array([0.0, np.nan, 0.0], np.float32), r"nan in heat\[1\], environment 0"),
        (np.array([[0, 0, 0], [0, 0, 1e300]]), r"inf in level\[0\], environment 1"),
        (torch.tensor([torch.inf, 0.0, 0.0]), r"inf in heat\[0\]"),
    ],
)
def test_what_no_policy_can_act_on_is_refused_by_name(run, obs, message):
    save(run)
    with pytest.raises(UserError, match=message):
        loaded(run)(obs)


def test_it_is_found_as_on_the_command_line_from_any_directory(run, tmp_path, monkeypatch):
    file = save(run, 3)
    save(run, 4)
    monkeypatch.chdir(tmp_path)
    for source in ("latest", run.name, run.name[:10], str(run.path), run.path):
        assert livegym.load_policy(source).version == 4
    for source in (file, file.with_suffix(".policy"), str(file)):
        assert livegym.load_policy(source).version == 3
    monkeypatch.chdir("/")
    assert livegym.load_policy("latest", runs_dir=run.path.parent).version == 4
    with pytest.raises(UserError, match=r"there is no directory /runs"):
        livegym.load_policy("latest")
    with pytest.raises(UserError, match=r"no such file"):
        livegym.load_policy(run.nn / "Kettle_v9_ep9.pth")
    with pytest.raises(UserError, match=r"device=tpu: unknown. Allowed: cpu"):
        livegym.load_policy(run.path, device="tpu")


def test_files_that_would_do_harm_are_refused_and_nothing_of_them_is_run(run, tmp_path):
    canary = tmp_path / "canary"
    evil = tmp_path / "evil.pth"
    evil.write_bytes(with_pickle(pickle.dumps({"model": Shell(f"touch {canary}")}, protocol=2)))
    with pytest.raises(UserError, match=r"refers to"):
        livegym.load_policy(evil)
    assert not canary.exists()


def test_a_file_that_does_not_say_what_it_is_is_refused(run, tmp_path):
    plain = tmp_path / "plain.pth"
    torch.save({"model": policy_of(SPEC, TRAIN).state(), "epoch": 3}, plain)
    with pytest.raises(
        UserError, match=r"plain rl_games checkpoint.*Allowed: checkpoints and policy files that livegym"
    ):
        livegym.load_policy(plain)
    wrong = dataclasses.replace(TRAIN, network=NetworkConfig(units=[5]))
    state = read_checkpoint(save(run))
    torch.save({**state, "config": {"task": {"name": "Kettle"}, "train": dataclasses.asdict(wrong)}}, plain)
    with pytest.raises(UserError, match=r"actor_mlp.0.weight.*contradict its own configuration"):
        livegym.load_policy(plain)


def test_a_name_that_livegym_does_not_have_is_an_attribute_error():
    assert {"load_policy", "follow", "make_env"} <= set(dir(livegym))
    with pytest.raises(AttributeError, match=r"module 'livegym' has no attribute 'load_polcy'"):
        _ = livegym.load_polcy

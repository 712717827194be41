"""A policy from an exported file: it acts as the graph says, remembers its states, and says what it cannot do."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import livegym
from livegym.cfg.session import Session
from livegym.deploy.export import export
from livegym.rl.interface import Action, Actuator, Block, Field, Origin, PolicyInterface, State
from livegym.rundir.provenance import Provenance
from livegym.utils.errors import UserError
from tests import saved_policies as saved

onnx = pytest.importorskip("onnx", reason="needs the extra export")
pytest.importorskip("onnxruntime", reason="needs the extra export")

INTERFACE = PolicyInterface(
    task="Kettle",
    observations=(Block("heat", 2), Block("level", 1)),
    action=Action("Box", 2, None),
    control_dt=0.1,
    physics_dt=0.05,
    decimation=2,
    states=(State("total", (1,), "float32"), State("targets", (2,), "float32", start=(0.5, -0.5), given=True)),
    origin=Origin(run="Kettle_train_20260102_120008", version=7),
)


def written(file: Path, interface: PolicyInterface = INTERFACE, noise: bool = False, name: str = "obs") -> Path:
    """A graph: total += heat[0]; targets += level; actions = controls = targets + total (+ noise)."""
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    columns = {"zero": [0], "one": [1], "two": [2], "three": [3]}
    constants = [helper.make_tensor(n, onnx.TensorProto.INT64, [1], v) for n, v in columns.items()]
    nodes = [
        helper.make_node("Slice", [name, "zero", "one", "one"], ["heat"]),
        helper.make_node("Slice", [name, "two", "three", "one"], ["level"]),
        helper.make_node("Add", ["total", "heat"], ["next_total"]),
        helper.make_node("Add", ["targets", "level"], ["next_targets"]),
        helper.make_node("Add", ["next_targets", "next_total"], ["controls"]),
        helper.make_node("Add", ["controls", "noise"], ["actions"])
        if noise
        else helper.make_node("Identity", ["controls"], ["actions"]),
    ]
    widths = {name: 3, "total": 1, "targets": 2, **({"noise": 2} if noise else {})}
    outputs = {"actions": 2, "controls": 2, "next_total": 1, "next_targets": 2}
    ins, outs = (
        [helper.make_tensor_value_info(n, real, ["batch", w]) for n, w in shapes.items()]
        for shapes in (widths, outputs)
    )
    graph = helper.make_graph(nodes, "policy", ins, outs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    helper.set_model_props(model, {"livegym": json.dumps(interface.to_dict())})
    file.write_bytes(model.SerializeToString())
    return file


def ready(file: Path, **options):
    """The policy, with what only the robot knows."""
    policy = livegym.load_policy(file, **options)
    policy.set_state("targets", TARGETS)
    return policy


OBS = np.array([[0.1, 9.0, 0.2], [0.0, 9.0, 0.0]], np.float32)


TARGETS = [[0.5, -0.5]] * 2


def test_it_acts_as_the_graph_says_and_remembers_its_states(tmp_path):
    policy = livegym.load_policy(written(tmp_path / "kettle.onnx"))
    policy.set_state("targets", TARGETS)
    assert np.allclose(policy(OBS), [[0.8, -0.2], [0.5, -0.5]])  # 0.5 + 0.2 + 0.1, -0.5 + 0.2 + 0.1
    assert np.allclose(policy(OBS), [[1.0, 0.1], [0.5, -0.5]])  # 1.1 is clipped
    assert np.allclose(policy.controls, [[1.1, 0.1], [0.5, -0.5]])  # controls are not
    policy.reset([0])
    policy.set_state("targets", TARGETS[:1], [0])
    assert np.allclose(policy(OBS), [[0.8, -0.2], [0.5, -0.5]])
    policy.reset()
    policy.set_state("targets", TARGETS[:1])
    assert np.allclose(policy(OBS[0]), [0.8, -0.2])
    assert (policy.version, policy.run, policy.recurrent) == (7, "Kettle_train_20260102_120008", True)
    assert (policy.spec.observations, policy.spec.control_dt) == ((("heat", 2), ("level", 1)), 0.1)


def test_it_does_not_move_until_it_is_told_what_only_the_robot_knows(tmp_path):
    policy = livegym.load_policy(written(tmp_path / "kettle.onnx"))
    with pytest.raises(
        UserError, match=r"state targets: only the robot knows it.*'targets', values\) .*\(2, 2\)"
    ) as error:
        policy(OBS)
    assert "policy.interface.states[1].start" in str(error.value)
    policy.set_state("targets", TARGETS[:1])  # the refused call has not fixed the number of environments
    policy(OBS[:1])
    policy.reset()
    policy.set_state("targets", TARGETS)
    first = policy(OBS)
    policy.reset(np.array([False, True]))
    with pytest.raises(UserError, match=r"set_state\('targets', values, \[1\]\) first, with values of shape \(1, 2\)"):
        policy(OBS)
    policy.set_state("targets", TARGETS[1:], [1])
    again = policy(OBS)
    assert np.allclose(again[0], [1.0, 0.1])  # environment 0 went on meanwhile
    assert np.array_equal(again[1], first[1])


def test_the_same_kind_comes_back_and_it_is_the_callers_own(tmp_path):
    policy = ready(written(tmp_path / "kettle.onnx"))
    action = policy(torch.from_numpy(OBS))
    assert (action.dtype, tuple(action.shape), type(policy.controls)) == (torch.float32, (2, 2), torch.Tensor)
    action[:] = 7.0
    policy.reset()
    policy.set_state("targets", TARGETS)
    first = policy(OBS)
    kept = first.copy()
    policy(OBS)
    assert np.array_equal(first, kept)


def test_a_state_of_the_robot_can_be_set(tmp_path):
    policy = livegym.load_policy(written(tmp_path / "kettle.onnx"))
    policy.set_state("targets", [[0.0, 0.25]])
    assert np.allclose(policy(OBS[0]), [0.3, 0.55])
    for name, value, message in (
        ("target", 0, r"state target: unknown. Allowed: total, targets"),
        ("targets", [0.0, 0.0], r"state targets has shape \(2,\) and dtype float64. Allowed: \(n, 2\)"),
        ("targets", np.zeros((3, 2)), r"of 3 environments. Allowed: 1"),
        ("targets", [[0.0, np.nan]], r"state targets has nan. Allowed: finite numbers"),
        ("targets", [["a", "b"]], r"dtype <U1"),
    ):
        with pytest.raises(UserError, match=message):
            policy.set_state(name, value)
    with pytest.raises(UserError, match=r"env_ids=\[0\]: no environments are known yet"):
        livegym.load_policy(policy.file).set_state("targets", [[0.0, 0.0]], [0])


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (OBS[:, :2], r"shape \(2, 2\).*heat 2, level 1"),
        (np.array([np.nan, 0, 0], np.float32), r"nan in heat\[0\]"),
        (OBS.astype(int), "dtype int64"),
        (OBS[:1].repeat(3, 0), r"of 3 environments, but this policy remembers 2.*reset\(\)"),
    ],
)
def test_what_no_policy_can_act_on_is_refused(tmp_path, obs, message):
    policy = ready(written(tmp_path / "kettle.onnx"))
    policy(OBS)
    with pytest.raises(UserError, match=message):
        policy(obs)


def test_samples_need_a_file_with_noise_and_come_from_a_generator_of_its_own(tmp_path):
    noisy, plain = written(tmp_path / "noisy.onnx", noise=True), written(tmp_path / "plain.onnx")
    first, second, other = (ready(noisy, stochastic=True, seed=seed)(OBS) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    with pytest.raises(UserError, match=r"stochastic=False: noisy.onnx samples. Allowed: stochastic=True"):
        livegym.load_policy(noisy)
    with pytest.raises(UserError, match=r"stochastic=True: plain.onnx takes the most likely.*exportStochastic=true"):
        livegym.load_policy(plain, stochastic=True)
    with pytest.raises(UserError, match=r"device=cuda: an ONNX file|there is no CUDA device"):
        livegym.load_policy(plain, device="cuda")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fields": (Field("qpos", (2,)),)}, r"takes fields of the simulator \(qpos\).*exportParts=controls"),
        ({"states": INTERFACE.states[:1]}, r"its graph takes .*, targets float32\[n, 2\], .*Export it again"),
        ({"states": (INTERFACE.states[0], State("targets", (3,), "float32"))}, "is not what its description says"),
        ({"states": (INTERFACE.states[0], State("targets", (2,), "int64"))}, r"says: .*targets int64\[n, 2\]"),
        ({"observations": INTERFACE.observations[:1]}, r"takes obs float32\[n, 3\].*says: obs float32\[n, 2\]"),
        ({"action": Action("Box", 3, None)}, r"gives actions float32\[n, 2\].*says: actions float32\[n, 3\]"),
        ({"action": Action("Discrete", 2, (2,))}, r"says: actions int64\[n\]"),
        ({"actuators": (Actuator("heater", "", "motor", "N"),)}, r"says: .*controls float32\[n, 1\]"),
        ({"action": Action("Circle", 2, None)}, "of kind 'Circle'. Allowed: Box, Discrete, MultiDiscrete"),
        ({"format": 99}, "its description cannot be read .*format 99"),
    ],
)
def test_a_file_that_contradicts_its_description_is_refused(tmp_path, changes, message):
    file = written(tmp_path / "kettle.onnx", dataclasses.replace(INTERFACE, **changes))
    with pytest.raises(UserError, match=message):
        livegym.load_policy(file)


def test_files_that_are_no_policies_are_refused(tmp_path):
    file = tmp_path / "kettle.onnx"
    with pytest.raises(UserError, match=r"kettle.onnx: cannot be read"):
        livegym.load_policy(file)
    for content in (b"", b"hello", written(file).read_bytes()[:200]):
        file.write_bytes(content)
        with pytest.raises(UserError, match=r"onnxruntime cannot load it|is no ONNX file"):
            livegym.load_policy(file)
    other = onnx.load_from_string(written(file).read_bytes())
    del other.metadata_props[:]
    file.write_bytes(other.SerializeToString())
    with pytest.raises(UserError, match=r"does not say what its policy takes and gives.*config=export wrote"):
        livegym.load_policy(file)


def test_weights_in_another_file_are_refused_wherever_they_are(tmp_path, monkeypatch):
    """ONNX Runtime would read them from the working directory: any file of whoever loads a foreign policy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.bin").write_bytes(np.float32([7.0, 7.0]).tobytes())
    file = written(tmp_path / "kettle.onnx")
    outside = onnx.TensorProto(name="secret", data_type=onnx.TensorProto.FLOAT, dims=[2])
    outside.data_location = onnx.TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="secret.bin")
    model = onnx.load_from_string(file.read_bytes())
    model.graph.initializer.append(outside)
    next(node for node in model.graph.node if "controls" in node.output).input[1] = "secret"
    inner = onnx.load_from_string(file.read_bytes())
    branch = onnx.helper.make_graph([], "branch", [], [], [outside])
    inner.graph.node[0].attribute.append(onnx.helper.make_attribute("body", branch))
    for each in (model, inner):
        file.write_bytes(each.SerializeToString())
        with pytest.raises(UserError, match=r"its tensor 'secret' is in another file \(secret.bin\). Allowed: a file"):
            livegym.load_policy(file)


def test_numbers_that_are_not_finite_reach_no_robot(tmp_path):
    file = written(tmp_path / "kettle.onnx")
    model = onnx.load_from_string(file.read_bytes())
    damaged = onnx.helper.make_tensor("damaged", onnx.TensorProto.FLOAT, [1], [np.nan])
    model.graph.initializer.append(damaged)
    next(node for node in model.graph.node if "controls" in node.output).input[1] = "damaged"
    file.write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=r"kettle.onnx: gives nan in actions at \[0, 0\]. Allowed: finite numbers"):
        ready(file)(OBS)


def test_a_graph_that_fails_says_so_in_one_line(tmp_path):
    file = written(tmp_path / "kettle.onnx")
    model = onnx.load_from_string(file.read_bytes())
    model.graph.initializer.append(onnx.helper.make_tensor("seven", onnx.TensorProto.INT64, [2], [7, 1]))
    model.graph.node.insert(2, onnx.helper.make_node("Reshape", ["heat", "seven"], ["heats"]))
    model.graph.node[3].input[1] = "heats"
    file.write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=r"kettle.onnx: onnxruntime cannot run it \(.*Reshape"):
        ready(file)(OBS)


def test_a_home_directory_may_be_written_as_a_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    written(tmp_path / "kettle.onnx")
    assert livegym.load_policy("~/kettle.onnx").version == 7


@pytest.mark.slow
def test_an_exported_policy_acts_as_its_checkpoint(config, tmp_path):
    cfg = config("task=Cartpole")
    run = tmp_path / "Cartpole_train_20260102_120008"
    checkpoint = saved.save(run, cfg)
    typed = [
        "config=export",
        f"checkpoint={checkpoint}",
        f"exportFile={tmp_path}/p.onnx",
        "exportParts=policy",
        "seed=0",
    ]
    assert export(Session(config(*typed), Provenance("", "", typed, [])), Console(file=io.StringIO())) == 0
    ours, theirs = livegym.load_policy(checkpoint), livegym.load_policy(tmp_path / "p.onnx")
    obs = np.random.default_rng(1).normal(size=(100, 4)).astype(np.float32)
    assert np.abs(ours(obs) - theirs(obs)).max() < 1e-5
    assert theirs.spec.observations == ours.spec.observations

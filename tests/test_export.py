"""config=export: the file computes what the policy and its task compute, says what it is, and nothing else is left."""

from __future__ import annotations

import dataclasses
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch
from rich.console import Console

from livegym.cfg.session import Session
from livegym.deploy import export as exporting
from livegym.deploy.describe import describe
from livegym.deploy.export import controller_of, export
from livegym.deploy.onnx_file import open_onnx, to_onnx
from livegym.deploy.plan import Wanted, make_plan
from livegym.deploy.tracing import NotExportable, TaskMethods
from livegym.deploy.verify import verify
from livegym.rl.interface import PolicyInterface
from livegym.rl.policy import Policy
from livegym.rl.spec import spec_of
from livegym.rundir.checkpoint import read_checkpoint
from livegym.rundir.provenance import Provenance
from livegym.rundir.run import create_run, point_latest
from livegym.tasks.build import make_env
from livegym.tasks.cartpole import Cartpole
from livegym.tasks.env import Env
from livegym.utils.errors import UserError
from tests import saved_policies as saved
from tests.disk_fixtures import tmpfs
from tests.test_readme import in_blocks

ROOT = Path(__file__).parent.parent
ENVS = exporting.CHECKED_ENVS
CAPTURED = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


class Hoist(Cartpole):
    """Cartpole whose action moves a remembered push, that counts how long the pole has been on one side."""

    def bind(self, sim):
        super().bind(sim)
        self.sim = sim
        self.push = self.buffer(sim, "push", 1)
        self.before = self.buffer(sim, "before", 1)  # nothing that the policy sees or does depends on it
        self.leaning = self.buffer(sim, "leaning", 1)
        self.upright = self.buffer(sim, "upright", dtype=torch.bool)

    def reset(self, env_ids, rng):
        self.push[env_ids] = torch.rand(len(env_ids), 1, generator=rng) - 0.5
        return super().reset(env_ids, rng)

    def control(self, action):
        self.before.copy_(self.sim.qpos[:, :1])
        self.push.copy_((self.push + 0.1 * action).clamp(-1, 1))
        return self.push * self.params.max_push

    def update(self, state):
        self.upright.copy_(state.qpos[:, 1].abs() < 0.05)
        self.leaning.copy_(torch.where(self.upright[:, None], 0.0, self.leaning + state.control_dt))

    def observe(self, state):
        blocks = super().observe(state)
        return {**blocks, "push": self.push / 2, "leaning": self.leaning}


BLOCKS = ["cart_position", "cart_velocity", "pole_angle", "pole_velocity", "push", "leaning"]
CHANGES = {"history": {"pole_angle": 3, "push": 2}, "delay": {"pole_velocity": 2, "pole_angle": 1}}


def hoist(config, kind=Hoist, **changes) -> Env:
    """Environments of such a task."""
    c = config("task=Cartpole")
    plain = make_env(c.task, c.sim, c.physics, ENVS, 3)
    groups = dataclasses.replace(c.task.observations, policy=BLOCKS)
    task = dataclasses.replace(c.task, observations=groups, name="Hoist", **changes)
    sim = type(plain.sim)(c.sim, c.physics, kind(c.task.params).model_path(), ENVS, c.task.decimation)
    plain.sim.close()
    return Env(kind(c.task.params), sim, task, 3)


def exported(config, env: Env, wanted: Wanted, *overrides: str, file: Path | None = None):
    """The verified graph of a random policy in `env`: its controller, what was checked, and the graph.

    Without a file the graph is the module that would be exported, which is quick.
    """
    train, spec = config("task=Cartpole", *overrides).train, spec_of(env)
    policy = Policy(spec, train, ENVS, "cpu")
    policy.load(saved.random_weights(policy))
    controller = controller_of(policy.state(), spec, train, env, wanted)
    if file is not None:
        file.write_bytes(to_onnx(controller, {}))
    run = as_module(controller) if file is None else open_onnx(file.read_bytes(), controller.outputs)
    return controller, verify(run, controller, policy, env, seed=1), run


def as_module(controller):
    """The module as a graph that runs."""

    def run(given):
        with torch.no_grad():
            values = controller([given[name] for name in controller.inputs])
        return dict(zip(controller.outputs, values, strict=True))

    return run


def test_a_plan_keeps_what_the_actions_need(config):
    env = hoist(config)
    plan = make_plan(env, Wanted("controls"), TaskMethods(env))
    assert plan.inside == ("push",)
    assert plan.blocks == tuple(name for name in BLOCKS if name != "push")
    assert plan.buffers == ("push",)
    assert (plan.fields, plan.counts) == ((), False)


def test_a_plan_of_the_whole_task_takes_fields_and_keeps_the_timers(config):
    env = hoist(config)
    plan = make_plan(env, Wanted("task"), TaskMethods(env))
    assert plan.inside == tuple(BLOCKS)
    assert (plan.fields, plan.blocks) == (("qpos", "qvel"), ())
    assert plan.buffers == ("push", "leaning")  # `upright` is written before it is read
    assert plan.counts


def test_tracing_leaves_the_task_as_it_was(config):
    env = hoist(config)
    before = {name: value.clone() for name, value in env.task.buffers.items()}
    methods = TaskMethods(env)
    for method in (methods.control, methods.observe, methods.update):
        methods.needs(method)
    assert env.task.push is methods.buffers["push"]
    assert env.sim.qpos is methods.fields["qpos"]
    assert env.num_envs == ENVS
    for name, value in env.task.buffers.items():
        assert torch.equal(value, before[name])


class Sighted(Hoist):
    """A task that keeps a view of its buffer."""

    def bind(self, sim):
        super().bind(sim)
        self.column = self.push[:, 0]


class Branching(Hoist):
    """A task that branches on values."""

    def control(self, action):
        return super().control(action if float(action.sum()) > 0 else -action)


class Late(Hoist):
    """A task whose control depends on what `update` remembers."""

    def control(self, action):
        return super().control(action) * (1 + self.leaning)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Sighted, r"keeps a view of its buffer 'push' in Sighted\.column.*exportParts=policy"),
        (Branching, r"its control\(\) cannot be followed by torch\.export.*exportParts=policy"),
        (Late, r"depend on leaning, which its update\(\) changes\. Export the whole task: exportParts=task"),
    ],
)
def test_what_cannot_be_inside_is_refused_by_name(config, kind, says):
    env = hoist(config, kind)
    with pytest.raises(NotExportable, match=says):
        make_plan(env, Wanted("controls"), TaskMethods(env))


def test_histories_delays_and_action_stages_are_inside(config):
    late = config("task=Cartpole", "+task.randomization.late={what:action_delay,range:[2,2]}").task.randomization
    env = hoist(config, randomization=late, **CHANGES)
    wanted = Wanted("controls", action_delay=2, sensor_delays=True)
    controller, checked, _ = exported(config, env, wanted)
    assert list(controller.states) == ["push", *(f"past_{n}" for n in BLOCKS[2:5]), "last_actions", "steps"]
    assert controller.states["past_pole_angle"][0] == (4, 1)
    assert checked.in_episodes < 1  # of what is allowed


@pytest.mark.slow
def test_the_whole_task_is_inside_and_samples_with_noise(config, tmp_path):
    env = hoist(config, history=CHANGES["history"])
    file = tmp_path / "policy.onnx"
    recurrent = "train.network.recurrent={cell:gru,units:5}"
    controller, checked, run = exported(config, env, Wanted("task", stochastic=True), recurrent, file=file)
    assert [name for name in controller.inputs if name not in controller.states] == ["qpos", "qvel", "noise"]
    assert controller.states["memory_0"][0] == (1, 5)
    assert 0 < checked.in_episodes < 1
    given = controller.zeros(2)
    given["noise"][1] = 1.0
    both, one = run(given), run({name: value[1:] for name, value in given.items()})
    assert both["actions"].unique().numel() == 2
    for name, value in one.items():
        assert torch.allclose(value, both[name][1:], atol=1e-6), name


def session(config, *typed: str) -> Session:
    return Session(config("config=export", *typed), Provenance("", "", list(typed), []))


def said(session: Session) -> str:
    out = io.StringIO()
    assert export(session, Console(file=out, width=200)) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def balance(config, tmp_path_factory) -> Path:
    """A checkpoint with which the pole stays upright."""
    run = tmp_path_factory.mktemp("runs") / "Cartpole_train_20260102_120008"
    return saved.save(run, config(*saved.LINEAR), saved.balancing)


@pytest.fixture(scope="module")
def written(config, balance) -> tuple[Path, str]:
    """Its exported file, and what the command said."""
    text = said(session(config, f"checkpoint={balance}"))
    return balance.parent.parent / "export" / "Cartpole_v7.onnx", text


@pytest.mark.slow
def test_the_file_says_what_it_is(written):
    import onnx

    file, text = written
    assert re.search(r"checked against the policy: 1,000 control steps .*, 1,000 random observations \(", text)
    assert f"takes obs; gives actions, controls\nwritten: {file}" in text
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    model = onnx.load(file)
    found = {entry.key: entry.value for entry in model.metadata_props}
    assert found["run_path"] == file.parent.parent.name
    assert str(file.parent.parent.parent).encode() not in file.read_bytes()
    assert found["observation_names"] == "cart_position,cart_velocity,pole_angle,pole_velocity"
    assert (found["joint_names"], found["default_joint_pos"], found["joint_stiffness"]) == ("slider", "0.0", "0.0")
    assert (found["action_scale"], found["command_names"]) == ("400.0", "")
    interface = PolicyInterface.from_dict(json.loads(found["livegym"]))
    assert (interface.task, interface.origin.version, interface.origin.run) == ("Cartpole", 7, file.parent.parent.name)
    assert (interface.rate, interface.decimation) == (pytest.approx(60.0), 2)
    assert interface.observations[2].meaning == "0 if the pole is upright, in rad"
    assert [(joint.name, joint.unit) for joint in interface.joints] == [("slider", "m"), ("hinge", "rad")]
    assert (interface.actuators[0].kind, interface.actuators[0].unit) == ("motor", "N")
    assert [opset.version for opset in model.opset_import if not opset.domain] == [18]
    assert str(ROOT).encode() not in file.read_bytes()


@pytest.fixture
def folder(config, tmp_path) -> Path:
    """Where the document's commands are typed: a checkout, and a run with a policy that balances Cartpole."""
    for name in ("docs", "examples", "tasks"):
        (tmp_path / name).symlink_to(ROOT / name)
    run = create_run(tmp_path / "runs", "Cartpole", "train")
    saved.save(run.path, config(*saved.LINEAR), saved.balancing)
    point_latest(tmp_path / "runs", "train", run)
    return tmp_path


@pytest.mark.slow
def test_both_programs_keep_the_pole_upright(written, tmp_path):
    model = ROOT / "tasks" / "models" / "cartpole.xml"
    program, robot = tmp_path / "robot", ROOT / "examples" / "robot"
    subprocess.run(["sh", robot / "build.sh", program], check=True, env={**os.environ, "PYTHON": sys.executable})
    found = [
        subprocess.run([*command, written[0], model, *steps], text=True, check=True, **CAPTURED).stdout
        for command, steps in (([sys.executable, robot / "robot.py"], ["--steps", "300"]), ([program], ["300"]))
    ]
    places = [[float(number) for number in re.findall(r"-?\d+\.\d+", text)] for text in found]
    assert places[0] == pytest.approx(places[1], abs=1e-4)
    assert max(map(abs, places[0])) < 0.05


@pytest.mark.slow
@pytest.mark.full
def test_the_commands_of_the_document_run(folder):
    document = ROOT / "docs" / "export.md"
    lines = [line.split("  #")[0].strip() for line in in_blocks(document)]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    said = []
    for line in lines:
        line = line.replace("python train.py", f"python {ROOT}/train.py")
        done = subprocess.run(["sh", "-c", line], cwd=folder, env={**os.environ, "PATH": path}, text=True, **CAPTURED)
        assert done.returncode == 0, f"{line}: {done.stdout}"
        said.append(done.stdout)
    assert "takes qpos, qvel, body_pos_w, body_quat_w, site_pos_w, contact_force_w" in said[-2]
    assert "your program sets at the start of an episode: targets" in said[-2]
    assert float(re.search(r"^box at \S+ \S+ (\S+)", said[-1], re.M)[1]) > 0.3  # m: it is lifted


@pytest.mark.slow
def test_a_task_of_choices_and_one_of_clients_give_their_policy_alone(config, tmp_path):
    import onnxruntime

    checkpoint = saved.save(tmp_path / "Spaces_continuous_20260102_120008", config("task=Spaces"))
    file = tmp_path / "spaces.onnx"
    text = said(session(config, f"checkpoint={checkpoint}", f"exportFile={file}", "exportStochastic=true"))
    assert "not inside: what the task's code, or its client, does with an action" in text
    graph = onnxruntime.InferenceSession(str(file))
    given = {"obs": np.zeros((1000, 1), np.float32), "noise": np.linspace(0, 0.999, 1000, dtype=np.float32)[:, None]}
    (actions,) = graph.run(["actions"], given)
    assert actions.dtype == np.int64
    assert set(actions) == {0, 1}
    with pytest.raises(UserError, match=r"task Spaces has no actuators of a model.*Allowed: exportParts=policy"):
        export(session(config, f"checkpoint={checkpoint}", f"exportFile={tmp_path}/b.onnx", "exportParts=task"), None)


def errors(config, *typed: str) -> str:
    with pytest.raises(UserError) as error:
        export(session(config, *typed), Console(file=io.StringIO()))
    return str(error.value)


def test_mistakes_are_named_before_anything_slow(config, balance, tmp_path):
    there = tmp_path / "there.onnx"
    there.write_text("mine")
    chosen = f"checkpoint={balance}"
    assert "config=export needs checkpoint" in errors(config)
    assert "none.pth" in errors(config, f"checkpoint={tmp_path}/none.pth")
    assert "exists, and is never replaced" in errors(config, chosen, f"exportFile={there}")
    assert there.read_text() == "mine"
    assert "the name must end with .onnx, such as a.onnx" in errors(config, chosen, f"exportFile={tmp_path}/a.pt")
    assert f"{there} is not a directory. Choose another" in errors(config, chosen, f"exportFile={there}/a.onnx")
    late = [chosen, f"exportFile={tmp_path}/a/b/c.onnx", "exportParts=policy", "exportActionDelay=1"]
    assert "a file that gives no controls has nothing to delay. Allowed: 0, or exportParts=controls" in errors(
        config, *late
    )
    (tmp_path / "there.xml").write_text("mine")
    there.unlink()
    assert "there.xml exists, and is never" in errors(config, chosen, f"exportFile={there}", "exportModel=true")
    assert [path.name for path in tmp_path.iterdir()] == ["there.xml"]


def test_the_curriculums_level_is_that_of_the_version_or_the_typed_one_and_is_recorded(config):
    file = ROOT / "docs" / "policies" / "BlindGrasping.pth"
    state = {**read_checkpoint(file), "learner": {"curriculum": 0.25}}
    for typed, level in ((["task=BlindGrasping"], 0.25), (["task=BlindGrasping", "task.curriculum.level=1"], 1.0)):
        source = exporting._source(session(config, *typed), file, state)
        assert (source.level, source.origin.level) == (level, level)
    assert exporting._source(session(config, "task=Cartpole"), file, {**state, "config": None}).origin.level is None


def test_a_missing_extra_is_named(config, balance, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    text = errors(config, f"checkpoint={balance}")
    assert text == (
        "config=export needs onnx, onnxscript, onnxruntime, which are not installed. "
        "Install the extra: pip install 'livegym[export]'"
    )


@pytest.mark.slow
def test_a_full_disk_leaves_nothing(config, balance, tmp_path):
    with tmpfs(tmp_path / "disk", "64k") as disk:
        (disk / "other").write_bytes(bytes(65536))
        text = errors(config, f"checkpoint={balance}", f"exportFile={disk}/a.onnx")
        assert "cannot be written (No space left on device). Choose another place: exportFile=..." in text
        assert [path.name for path in disk.iterdir()] == ["other"]


def test_actuators_are_described_with_their_units(config):
    c = config("task=BaseTask")
    env = make_env(c.task, c.sim, c.physics, 1, 0)
    interface = describe(env)
    model = mujoco.MjModel.from_xml_string(env.sim.model_xml())
    by_name = {actuator.name: actuator for actuator in interface.actuators}
    assert (by_name["base_x"].unit, by_name["index_mcp"].unit) == ("m", "rad")
    first = by_name["index_mcp"]
    assert (first.kind, first.joint) == ("position", "index_mcp")
    assert first.stiffness == model.actuator("index_mcp").gainprm[0]
    assert first.range == tuple(model.actuator("index_mcp").ctrlrange)
    assert all(block.meaning for block in interface.observations)

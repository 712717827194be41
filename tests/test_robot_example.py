"""The example that runs an exported file: its fields are those of the simulator, and it says what is missing."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
import torch

from livegym.rl.interface import Action, Actuator, Block, Field, PolicyInterface, State
from livegym.schema import PhysicsConfig, SimConfig
from livegym.sim import create

PROGRAM = Path(__file__).parent.parent / "examples" / "robot" / "robot.py"
pytest.importorskip("onnxruntime", reason="needs the extra export")
BOX = """<mujoco><option timestep="0.005" integrator="implicitfast"/><worldbody>
<geom name="floor" type="plane" size="1 1 .1"/>
<body name="base" pos="0 0 .5"><joint name="lift" type="slide" axis="0 0 1"/><geom size=".03" mass=".5"/>
<body name="arm" pos=".1 0 0"><joint name="turn" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .2 0 0" size=".02"/>
<site name="tip" pos=".2 0 0"/></body></body>
<body name="box" pos=".1 0 .06" euler="20 10 0"><freejoint name="box"/>
<geom type="box" size=".05 .05 .05" mass=".2"/></body>
</worldbody><actuator><position name="lift" joint="lift" kp="60" kv="8"/><position name="turn" joint="turn" kp="4"/>
</actuator><sensor><gyro name="spin" site="tip"/></sensor></mujoco>"""


@pytest.fixture(scope="module")
def program():
    spec = importlib.util.spec_from_file_location("example_robot", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_fields_are_those_that_the_policy_was_trained_with(program, tmp_path):
    (tmp_path / "box.xml").write_text(BOX)
    sim = create(SimConfig(engine="reference"), PhysicsConfig(), tmp_path / "box.xml", 1, 4)
    sim.require(*(name for name in program.FIELDS if name not in ("qpos", "qvel", "ctrl", "contact_force_w")))
    sim.require("sensor:spin")
    sim.require_contact("box", "arm")
    sim.require_contact("box", against="world")
    sim.start()
    model = mujoco.MjModel.from_xml_string(sim.model_xml())
    data = mujoco.MjData(model)
    data.qpos[:] = sim.default_qpos.numpy()
    sim.reset(torch.tensor([0]), sim.default_qpos[None], torch.zeros(1, model.nv))
    rows = ["box", "arm", "box against world"]
    names = [*program.FIELDS, "sensor_spin"]
    seen = dict.fromkeys(names, 0.0)
    controller = SimpleNamespace(model=model)
    program.look(model, data)
    for step in range(60):
        target = np.float32([0.3 * np.sin(0.2 * step) - 0.4, 0.5 * np.cos(0.3 * step)])
        sim.ctrl[:] = torch.from_numpy(target)
        sim.step()
        data.ctrl[:] = target
        mujoco.mj_step(model, data, nstep=4)
        mujoco.mj_rnePostConstraint(model, data)
        program.look(model, data)
        for name in names:
            expected = sim.fields[name.replace("sensor_", "sensor:")][0].numpy()
            found = program.Controller.field(controller, name, rows, data)
            assert np.allclose(found, expected, rtol=1e-4, atol=1e-4), (step, name, found, expected)
            seen[name] += float(np.abs(expected).sum())
    assert all(seen.values()), seen  # each field is compared where it is not zero


def interface(**changes) -> PolicyInterface:
    plain = {
        "task": "Lift",
        "observations": (Block("cart_position", 1),),
        "action": Action("Box", 1, None),
        "control_dt": 0.02,
        "physics_dt": 0.005,
        "decimation": 4,
        "actuators": (Actuator("turn", "turn", "position", "rad", stiffness=4.0),),
    }
    return PolicyInterface(**{**plain, **changes})


@pytest.mark.parametrize(
    ("changes", "names", "message"),
    [
        ({}, {}, None),
        ({"observations": (Block("smell", 1),)}, {}, "policy of Lift needs smell: add it to SENSES in .*robot.py"),
        ({"fields": (Field("cinert", (4, 10)),)}, {}, "needs cinert: add it to FIELDS"),
        ({"states": (State("grip", (1,), "float32", given=True),)}, {}, "needs grip: add it to STARTS"),
        ({}, {"gives": ["actions"]}, "gives no controls. Export it with exportParts=controls or exportParts=task"),
        ({}, {"takes": ["obs", "noise"]}, "samples its actions. Export it without exportStochastic=true"),
        ({"actuators": (Actuator("knee", "knee", "motor", "Nm"),)}, {}, "the model has no actuator knee"),
        (
            {"actuators": (Actuator("turn", "turn", "position", "rad", stiffness=40.0),)},
            {},
            r"no actuator turn \(position, stiffness 40\) as the policy was trained with",
        ),
    ],
)
def test_what_is_missing_is_said_before_anything_moves(program, monkeypatch, changes, names, message):
    described = json.dumps(interface(**changes).to_dict())
    session = SimpleNamespace(
        get_modelmeta=lambda: SimpleNamespace(custom_metadata_map={"livegym": described}),
        get_inputs=lambda: [SimpleNamespace(name=name) for name in names.get("takes", ["obs"])],
        get_outputs=lambda: [SimpleNamespace(name=name) for name in names.get("gives", ["actions", "controls"])],
    )
    monkeypatch.setattr(program.onnxruntime, "InferenceSession", lambda file, providers: session)
    model = mujoco.MjModel.from_xml_string(BOX)
    if message is None:
        assert program.Controller("a.onnx", model).actuators == [model.actuator("turn").id]
        return
    with pytest.raises(SystemExit, match=message):
        program.Controller("a.onnx", model)

"""A policy on a robot, without livegym: onnxruntime, MuJoCo and NumPy.

    python train.py config=export checkpoint=latest exportFile=cartpole.onnx
    python examples/robot/robot.py cartpole.onnx tasks/models/cartpole.xml

MuJoCo stands for the robot here. `SENSES` is the part that is yours: it says how your robot measures each block of the
observation that the file names. States (a recurrent layer's memory, the last targets) go round: what the file gives as
`next_x` is its input `x` in the next control step. A file with the whole task inside (`exportParts=task`) takes fields
of MuJoCo, so it needs no `SENSES`.
"""

from __future__ import annotations

import argparse
import json

import mujoco
import numpy as np
import onnxruntime

SENSES = {
    "cart_position": lambda data: data.joint("slider").qpos,
    "cart_velocity": lambda data: data.joint("slider").qvel,
    "pole_angle": lambda data: data.joint("hinge").qpos,
    "pole_velocity": lambda data: data.joint("hinge").qvel,
}
FIELDS = {
    "qpos": lambda data: data.qpos,
    "qvel": lambda data: data.qvel,
    "body_pos_w": lambda data: data.xpos,
    "body_quat_w": lambda data: data.xquat,
    "site_pos_w": lambda data: data.site_xpos,
}


class Controller:
    """The exported file: what the robot senses -> its controls, with the memory that it needs in between."""

    def __init__(self, file: str) -> None:
        self.session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.interface = json.loads(self.session.get_modelmeta().custom_metadata_map["livegym"])
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.blocks = [block["name"] for block in self.interface["observations"] if not block["inside"]]
        self.fields = [field["name"] for field in self.interface["fields"]]
        unknown = [name for name in self.blocks if name not in SENSES] + [n for n in self.fields if n not in FIELDS]
        if unknown:
            raise SystemExit(f"the policy of {self.interface['task']} needs {', '.join(unknown)}: add it to SENSES")
        self.restart()

    def restart(self) -> None:
        """Begin an episode: states are zeros, or the values that the file names."""
        self.states = {}
        for state in self.interface["states"]:
            start = 0 if state["start"] is None else np.reshape(state["start"], state["shape"])
            self.states[state["name"]] = np.full((1, *state["shape"]), start, state["dtype"])

    def __call__(self, data: mujoco.MjData) -> np.ndarray:
        """One control step."""
        given = {name: np.float32(FIELDS[name](data))[None] for name in self.fields}
        if self.blocks:
            given["obs"] = np.float32(np.concatenate([SENSES[name](data) for name in self.blocks]))[None]
        values = self.session.run(None, {**given, **self.states})
        results = dict(zip(self.outputs, values, strict=True))
        self.states = {name: results[f"next_{name}"] for name in self.states}
        return results["controls"][0]


def main() -> None:
    """Run one episode, and print how it ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", help="the exported .onnx file")
    parser.add_argument("model", help="the MJCF file of the robot's world")
    parser.add_argument("--steps", type=int, default=500, help="control steps (default: 500)")
    arguments = parser.parse_args()
    controller = Controller(arguments.policy)
    model = mujoco.MjModel.from_xml_path(arguments.model)
    data = mujoco.MjData(model)
    data.qpos[-1] = 0.05  # rad: the pole leans a little
    mujoco.mj_forward(model, data)
    substeps = round(controller.interface["control_dt"] / model.opt.timestep)
    for _ in range(arguments.steps):
        data.ctrl[:] = controller(data)
        mujoco.mj_step(model, data, nstep=substeps)
        mujoco.mj_forward(model, data)  # positions of bodies and sites that belong to the new state
    print(f"after {arguments.steps} control steps: cart at {data.qpos[0]:.6f} m, pole at {data.qpos[-1]:.6f} rad")


if __name__ == "__main__":
    main()

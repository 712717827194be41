"""A policy on a robot, without livegym: onnxruntime, MuJoCo and NumPy.

    python train.py config=export checkpoint=latest exportFile=cartpole.onnx
    python examples/robot/robot.py cartpole.onnx tasks/models/cartpole.xml

MuJoCo stands for the robot here. Three tables are yours. `SENSES` says how your robot measures each block of the
observation that the file names. `FIELDS` has the fields of MuJoCo that a file takes with the whole task inside
(`exportParts=task`); a robot has a state estimate there. `STARTS` has what only the robot knows when an episode begins,
such as the targets at which it stands. Other states (a recurrent layer's memory, past values) begin as the file says,
and go round: what the file gives as `next_x` is its input `x` in the next control step.
"""

from __future__ import annotations

import argparse
import json

import mujoco
import numpy as np
import onnxruntime


def body_velocities(model, data, rows):
    """(bodies, 6) of each body's origin, world axes: linear m/s, then angular rad/s."""
    found = np.zeros((model.nbody, 6))
    for body in range(model.nbody):
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, found[body], 0)
    return np.roll(found, 3, axis=1)  # MuJoCo has the rotation first


def contact_forces(model, data, rows):
    """(rows, 3) N, world axes: the net force of contacts on each body, or only of those against another body."""
    found = np.zeros((len(rows), 3))
    pairs = [[model.body(name).id for name in row.split(" against ")] for row in rows]
    in_frame = np.zeros(6)
    for i, contact in enumerate(data.contact):
        mujoco.mj_contactForce(model, data, i, in_frame)
        force = contact.frame.reshape(3, 3).T @ in_frame[:3]  # on the second geom
        first, second = (model.geom_bodyid[geom] for geom in contact.geom)
        for row, (body, *against) in enumerate(pairs):
            if body == second and against in ([], [first]):
                found[row] += force
            elif body == first and against in ([], [second]):
                found[row] -= force
    return found


SENSES = {
    "cart_position": lambda data: data.joint("slider").qpos,
    "cart_velocity": lambda data: data.joint("slider").qvel,
    "pole_angle": lambda data: data.joint("hinge").qpos,
    "pole_velocity": lambda data: data.joint("hinge").qvel,
}
FIELDS = {
    "qpos": lambda model, data, rows: data.qpos,
    "qvel": lambda model, data, rows: data.qvel,
    "ctrl": lambda model, data, rows: data.ctrl,
    "body_pos_w": lambda model, data, rows: data.xpos,
    "body_quat_w": lambda model, data, rows: data.xquat,
    "body_vel_w": body_velocities,
    "site_pos_w": lambda model, data, rows: data.site_xpos,
    "contact_force_w": contact_forces,
    "cfrc_ext": lambda model, data, rows: data.cfrc_ext,
    "actuator_force": lambda model, data, rows: data.actuator_force,
}
STARTS = {
    "targets": lambda data: np.zeros(18),  # the hand of BlindGrasping: all its joints are at 0 when this program begins
}
LEANS = {"hinge": 0.05}  # joint -> position with which it begins, if the model has it; rad


class Controller:
    """The exported file: what the robot senses -> its controls, with the memory that it needs in between."""

    def __init__(self, file: str, model: mujoco.MjModel) -> None:
        self.model = model
        self.session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.interface = json.loads(self.session.get_modelmeta().custom_metadata_map["livegym"])
        self.outputs = [output.name for output in self.session.get_outputs()]
        self.blocks = [block["name"] for block in self.interface["observations"] if not block["inside"]]
        self.fields = {field["name"]: field["rows"] for field in self.interface["fields"]}
        self.check(file)
        self.actuators = [model.actuator(one["name"]).id for one in self.interface["actuators"]]

    def check(self, file: str) -> None:
        """Exit with what is missing, before anything moves."""
        given = [state["name"] for state in self.interface["states"] if state["given"]]
        for needed, table, name in (
            (self.blocks, SENSES, "SENSES"),
            ([field for field in self.fields if not field.startswith("sensor_")], FIELDS, "FIELDS"),
            (given, STARTS, "STARTS"),
        ):
            if unknown := [one for one in needed if one not in table]:
                task = self.interface["task"]
                raise SystemExit(f"the policy of {task} needs {', '.join(unknown)}: add it to {name} in {__file__}")
        if "controls" not in self.outputs:
            raise SystemExit(f"{file} gives no controls. Export it with exportParts=controls or exportParts=task")
        if "noise" in [one.name for one in self.session.get_inputs()]:
            raise SystemExit(f"{file} samples its actions. Export it without exportStochastic=true")
        model = self.model
        stiffness = model.actuator_gainprm[:, 0] * model.actuator_gear[:, 0] ** 2
        own = {model.actuator(i).name: i for i in range(model.nu)}
        for one in self.interface["actuators"]:
            i = own.get(one["name"])
            servo = one["kind"] == "position" and model.actuator_gaintype[i or 0] == mujoco.mjtGain.mjGAIN_FIXED
            if i is None or (servo and not np.isclose(stiffness[i], one["stiffness"])):
                raise SystemExit(
                    f"the model has no actuator {one['name']} ({one['kind']}, stiffness {one['stiffness']:g}) as the "
                    "policy was trained with. Give your model the motors that the file describes"
                )

    def restart(self, data: mujoco.MjData) -> None:
        """Begin an episode: states are zeros, the values that the file names, or what only the robot knows."""
        self.states = {}
        for state in self.interface["states"]:
            start = STARTS[state["name"]](data) if state["given"] else state["start"]
            start = 0 if start is None else np.reshape(start, state["shape"])
            self.states[state["name"]] = np.full((1, *state["shape"]), start, state["dtype"])

    def __call__(self, data: mujoco.MjData) -> np.ndarray:
        """One control step."""
        given = {name: np.float32(self.field(name, rows, data))[None] for name, rows in self.fields.items()}
        if self.blocks:
            given["obs"] = np.float32(np.concatenate([SENSES[name](data) for name in self.blocks]))[None]
        values = self.session.run(None, {**given, **self.states})
        results = dict(zip(self.outputs, values, strict=True))
        self.states = {name: results[f"next_{name}"] for name in self.states}
        return results["controls"][0]

    def field(self, name: str, rows: list[str], data: mujoco.MjData) -> np.ndarray:
        """A field of the simulator now."""
        if name.startswith("sensor_"):
            return data.sensor(name.removeprefix("sensor_")).data
        return FIELDS[name](self.model, data, rows)


def look(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """Bring places and speeds up to date. Contact forces stay those of the step that was made, as in training."""
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_comVel(model, data)
    mujoco.mj_sensorPos(model, data)
    mujoco.mj_sensorVel(model, data)


def main() -> None:
    """Run one episode, and print how it ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", help="the exported .onnx file")
    parser.add_argument("model", help="the MJCF file of the robot's world")
    parser.add_argument("--steps", type=int, default=500, help="control steps (default: 500)")
    arguments = parser.parse_args()
    model = mujoco.MjModel.from_xml_path(arguments.model)
    data = mujoco.MjData(model)
    controller = Controller(arguments.policy, model)
    for joint in range(model.njnt):
        data.qpos[model.jnt_qposadr[joint]] += LEANS.get(model.joint(joint).name, 0.0)
    look(model, data)
    controller.restart(data)
    substeps = round(controller.interface["control_dt"] / model.opt.timestep)
    for _ in range(arguments.steps):
        data.ctrl[controller.actuators] = controller(data)
        mujoco.mj_step(model, data, nstep=substeps)
        if "cfrc_ext" in controller.fields:
            mujoco.mj_rnePostConstraint(model, data)
        look(model, data)
    print(f"after {arguments.steps} control steps:")
    for joint in range(model.njnt):
        numbers = data.joint(joint).qpos
        print(f"{model.joint(joint).name} at {' '.join(f'{number:.6f}' for number in numbers)}")


if __name__ == "__main__":
    main()

"""Write the project of a robot: its model, its task, the numbers of the task, and the report."""

from __future__ import annotations

import dataclasses
import json
import pprint
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import mujoco
import numpy as np
import yaml

from livegym.projects.new import TEMPLATE as PROJECT_TEMPLATE
from livegym.robots import motors, odd
from livegym.robots import pose as poses
from livegym.robots.files import FOLDER, write_model
from livegym.robots.pose import Pose
from livegym.robots.report import report
from livegym.robots.robot import FREE, Robot, mark_middle
from livegym.schema import DriveConfig
from livegym.sim.drives import apply_drives
from livegym.sim.model import compile_spec
from livegym.utils.errors import UserError

TEMPLATE = Path(__file__).parent / "template"
SHARED = ("pyproject.toml", "gitignore", "tests/test_tasks.py")
"""Files that every new project has."""
CONTROL_DT = 0.02  # s
PUSH_SPEED = 0.4  # m/s, by which the hardest push changes the robot's speed
PUSH_S = 0.1
ENERGY_SHARE = 0.3
"""Energy term of a step in which the motors lift the robot's weight at 1 m/s."""
FALL_SHARE = 0.6


@dataclasses.dataclass
class Prepared:
    """A robot with its motors and its default pose: all that is written."""

    robot: Robot
    model: mujoco.MjModel  # with the motors
    drives: Mapping[str, DriveConfig]
    pose: Pose

    @property
    def lines(self) -> list[str]:
        """The report."""
        return report(self.robot, self.model, self.drives, self.pose)


def prepare(robot: Robot) -> Prepared:
    """Choose motors, find the pose, and look for what is odd. Raises UserError if the model cannot stand anywhere."""
    mark_middle(robot, compile_spec(robot.spec, robot.file))
    model = compile_spec(robot.spec, robot.file)
    start = poses.first_guess(robot, model)
    if poses.centre_height(robot, model, start) <= 0:
        raise UserError(
            f"{robot.file}: its centre of mass is below its lowest collision shape, so it cannot stand. Allowed: links "
            "whose mass is about where their shapes are. Look at the origin of <inertial> of the heaviest link."
        )
    drives = motors.choose(robot, model, start)
    # while poses are tried, parts that overlap at the start are kept from pushing each other
    pose = poses.find(robot, _with_motors(robot, drives, odd.overlaps(robot, model, start)))
    overlapping = odd.overlaps(robot, model, pose.qpos)
    for one, other in overlapping:
        robot.spec.add_exclude(bodyname1=one, bodyname2=other)
    if overlapping:
        pairs = ", ".join(f"{one} and {other}" for one, other in overlapping[:4])
        more = f" and {len(overlapping) - 4} more" if len(overlapping) > 4 else ""
        robot.odd.append(f"parts that overlap in the default pose: {pairs}{more}. Contacts between them are left out")
    if pose.keyframe not in [key.name for key in robot.spec.keys]:
        robot.spec.add_key(name=pose.keyframe, qpos=pose.qpos)
        robot.changes.append(f"keyframe {pose.keyframe} was added: the default pose")
    model = _with_motors(robot, drives)
    robot.odd += odd.look(robot, model, pose.qpos)
    return Prepared(robot, model, drives, pose)


def _with_motors(
    robot: Robot, drives: Mapping[str, DriveConfig], apart: Iterable[tuple[str, str]] = ()
) -> mujoco.MjModel:
    """The model with motors, in which the pairs of bodies in `apart` do not touch each other."""
    spec = robot.spec.copy()
    apply_drives(spec, drives, robot.file)
    for one, other in apart:
        spec.add_exclude(bodyname1=one, bodyname2=other)
    return compile_spec(spec, robot.file)


def writer(prepared: Prepared) -> Callable[[Path, str, str], None]:
    """The function that writes the project's files into a folder, for `projects.new.new_project`."""

    def write(folder: Path, name: str, task: str) -> None:
        for source, relative in _sources():
            target = folder / _renamed(relative, name, task)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_filled(relative, _renamed(source.read_text(), name, task), prepared))
        (folder / "ROBOT.md").write_text("\n".join(prepared.lines) + "\n")
        models = folder / "tasks" / "models"
        models.mkdir()
        write_model(prepared.robot.spec, prepared.robot.file, models / f"{name}.xml")

    return write


def _sources() -> list[tuple[Path, str]]:
    own = [path for path in sorted(TEMPLATE.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return [
        *((PROJECT_TEMPLATE / name, name) for name in SHARED),
        *((path, path.relative_to(TEMPLATE).as_posix()) for path in own),
    ]


def _renamed(text: str, name: str, task: str) -> str:
    if text == "gitignore":
        return ".gitignore"
    return _replaced(text, {"Slider": task, "slider": name, "Stander": task, "stander": name})


def _replaced(text: str, given: Mapping[str, str]) -> str:
    """Each key by its value, all at once: what was filled in is not searched again."""
    return re.sub("|".join(re.escape(old) for old in given), lambda found: given[found[0]], text)


def _filled(relative: str, text: str, prepared: Prepared) -> str:
    """A file of the template with the robot's names and numbers."""
    if relative == "pyproject.toml":
        return text.replace('"tasks/models/*"', f'"tasks/models/*", "tasks/models/{FOLDER}/*"')
    if relative.startswith("tasks/"):
        return _python(text, prepared)
    if relative.startswith("cfg/task/"):
        return _yaml(text, prepared)
    return text


def _python(text: str, prepared: Prepared) -> str:
    robot, model = prepared.robot, prepared.model
    actuator = {
        model.joint(int(model.actuator_trnid[a, 0])).name: model.actuator(a).name
        for a in range(model.nu)
        if model.actuator_trntype[a] == mujoco.mjtTrn.mjTRN_JOINT and model.actuator(a).name not in robot.idle
    }
    names = {joint: actuator[joint] for joint in robot.driven}
    wheels = tuple(joint for joint in robot.driven if robot.by_velocity(model, joint))
    free = next(joint.name for joint in robot.spec.body(robot.base).joints if joint.type == FREE)
    given = {
        'MOTORS: dict[str, str] = {"joint": "motor"}': f"MOTORS: dict[str, str] = {_literal(names)}",
        "WHEELS: tuple[str, ...] = ()": f"WHEELS: tuple[str, ...] = {_literal(wheels)}",
        'BASE = "base"': f"BASE = {json.dumps(robot.base)}",
        'FLOATING = "floating_base"': f"FLOATING = {json.dumps(free)}",
        'MIDDLE = "trunk_middle"': f"MIDDLE = {json.dumps(robot.middle)}",
        'KEYFRAME = "default"': f"KEYFRAME = {json.dumps(prepared.pose.keyframe)}",
    }
    return _replaced(text, given)


def _literal(value: dict[str, str] | tuple[str, ...]) -> str:
    """Names as Python, an entry a line if they are many."""
    shown = pprint.pformat(value, width=100, sort_dicts=False).replace("'", '"')
    if "\n" not in shown:
        return shown
    inside = shown[1:-1].rstrip(",").replace("\n ", "\n    ")
    return f"{shown[0]}\n    {inside},\n{shown[-1]}"


def _yaml(text: str, prepared: Prepared) -> str:
    robot, pose = prepared.robot, prepared.pose
    model = prepared.model
    decimation = max(1, round(CONTROL_DT / model.opt.timestep))
    mass = robot.mass(model)
    own = robot.bodies(model)
    numbers = {"stand_height": _short(pose.height), "fall_height": _short(FALL_SHARE * pose.height)}
    wheels = [joint for joint in robot.driven if robot.by_velocity(model, joint)]
    if wheels:
        numbers["wheel_speed"] = _short(_wheel_speed(robot, wheels))
    given = {
        "DECIMATION": f"{decimation}  # physics steps of {model.opt.timestep:g} s per control step",
        "RATE": f"{1 / (decimation * model.opt.timestep):.3g}",
        "ENERGY": f"{-ENERGY_SHARE / (9.81 * mass):.2g}  # for each W",
        "DRIVES": _drives(prepared.drives),
        "PUSH": f"{PUSH_SPEED * mass / PUSH_S:.3g}",
        "TRUNK": json.dumps(robot.trunk),
        "HEAVIEST": json.dumps(model.body(int(own[model.body_mass[own].argmax()])).name),
        "FLOOR": json.dumps(robot.floor),
        "PARAMS": "{" + ", ".join(f"{name}: {value:g}" for name, value in numbers.items()) + "}",
    }
    return _replaced(text, given)


def _wheel_speed(robot: Robot, wheels: list[str]) -> float:
    """A quarter of what the slowest wheel can do, and at most 20 rad/s."""
    known = [limit.velocity for joint in wheels if (limit := robot.limits.get(joint)) and limit.velocity]
    return min([20.0, *(0.25 * speed for speed in known)])


def _drives(drives: Mapping[str, DriveConfig]) -> str:
    if not drives:
        return "drives: {}               # its actuators are position or velocity servos already"
    lines = ["drives:                   # PD in every physics step; gains by a rule: set those of your robot"]
    for name, drive in drives.items():
        entry = {key: value for key, value in dataclasses.asdict(drive).items() if value is not None}
        lines.append(f"  {name}:")
        dumped = yaml.safe_dump(entry, sort_keys=False, default_flow_style=None, width=110)
        lines += [f"    {line}" for line in dumped.splitlines()]
    return "\n".join(lines)


def _short(value: float) -> float:
    return float(np.format_float_positional(value, precision=3, fractional=False))

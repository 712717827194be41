"""The report on a robot: what was read, added and odd, for the terminal and the project's ROBOT.md."""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from livegym.compat.core.asset_model import listed
from livegym.robots.pose import Pose
from livegym.robots.robot import SLIDE, Robot
from livegym.schema import DriveConfig
from livegym.utils.words import count

HEAD = "| joint | kind | range | effort | speed | default | moved by |"


def report(robot: Robot, model: mujoco.MjModel, drives: Mapping[str, DriveConfig], pose: Pose) -> list[str]:
    """The lines of the report, in Markdown."""
    sensors = [model.sensor(i).name or "without a name" for i in range(model.nsensor)]
    keys = [model.key(i).name or "without a name" for i in range(model.nkey)]
    return [
        f"# {robot.file.name}",
        "",
        f"A {robot.kind} with {count(len(robot.bodies(model)), 'link')}, "
        f"{count(len(robot.driven), 'driven joint')} and {robot.mass(model):.4g} kg. "
        f"Its base is {robot.base}; the centre of its trunk is {pose.height:.3g} m above the floor.",
        "",
        f"- Heaviest: {_heaviest(robot, model)}",
        f"- Sensors: {listed(sensors) or 'none'}",
        f"- Keyframes: {listed(keys) or 'none'}",
        f"- Default pose: {pose.source}",
        "",
        HEAD,
        "| --- " * 7 + "|",
        *(_row(robot, model, drives, pose, joint) for joint in robot.driven),
        "",
        "## Added and replaced",
        "",
        *(f"- {change}." for change in robot.changes or ["nothing"]),
        "",
        "## Odd",
        "",
        *(f"- {sentence}." for sentence in robot.odd or ["nothing"]),
    ]


def _heaviest(robot: Robot, model: mujoco.MjModel) -> str:
    own = robot.bodies(model)
    order = own[np.argsort(-model.body_mass[own])][:3]
    return ", ".join(f"{model.body(int(b)).name} {model.body_mass[b]:.3g} kg" for b in order if model.body_mass[b] > 0)


def _row(robot: Robot, model: mujoco.MjModel, drives: Mapping[str, DriveConfig], pose: Pose, joint: str) -> str:
    number = model.joint(joint).id
    slide = model.jnt_type[number] == SLIDE
    kind = "slide" if slide else "wheel" if robot.by_velocity(model, joint) else "hinge"
    low, high = model.jnt_range[number]
    limits = f"{low:.3g} to {high:.3g} {'m' if slide else 'rad'}" if model.jnt_limited[number] else "none"
    entry = next((name for name, drive in drives.items() if joint in drive.joints), None)
    drive = None if entry is None else drives[entry]
    effort = "" if drive is None or drive.effort is None else f"{drive.effort:.3g} {'N' if slide else 'N m'}"
    speed = "" if drive is None or drive.velocity is None else f"{drive.velocity:.3g} {'m' if slide else 'rad'}/s"
    mover = f"servo {robot.servos[joint]}" if entry is None else f"task.drives.{entry}"
    default = pose.qpos[model.jnt_qposadr[number]]
    return f"| {joint} | {kind} | {limits} | {effort} | {speed} | {default:.3g} | {mover} |"

"""The report on a robot: what was read, added and odd, for the terminal and the project's ROBOT.md."""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

from livegym.compat.core.asset_model import listed
from livegym.robots.pose import Pose
from livegym.robots.robot import SLIDE, Robot, is_wheel
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
        f"A {robot.kind} with {count(model.nbody - 1, 'link')}, "
        f"{count(len(robot.driven), 'driven joint')} and {model.body_mass.sum():.4g} kg. "
        f"Its base is {robot.base}, {pose.height:.3g} m above the floor.",
        "",
        f"- Heaviest: {_heaviest(model)}",
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


def _heaviest(model: mujoco.MjModel) -> str:
    order = np.argsort(-model.body_mass)[:3]
    return ", ".join(f"{model.body(int(b)).name} {model.body_mass[b]:.3g} kg" for b in order if model.body_mass[b] > 0)


def _row(robot: Robot, model: mujoco.MjModel, drives: Mapping[str, DriveConfig], pose: Pose, joint: str) -> str:
    number = model.joint(joint).id
    slide = model.jnt_type[number] == SLIDE
    kind = "slide" if slide else "wheel" if is_wheel(model, joint) else "hinge"
    low, high = model.jnt_range[number]
    limits = f"{low:.3g} to {high:.3g} {'m' if slide else 'rad'}" if model.jnt_limited[number] else "none"
    limit = robot.limits.get(joint)
    effort = "" if limit is None or limit.effort is None else f"{limit.effort:.3g} {'N' if slide else 'N m'}"
    speed = "" if limit is None or limit.velocity is None else f"{limit.velocity:.3g} {'m' if slide else 'rad'}/s"
    entry = next((name for name, drive in drives.items() if joint in drive.joints), None)
    mover = f"servo {robot.servos[joint]}" if entry is None else f"task.drives.{entry}"
    default = pose.qpos[model.jnt_qposadr[number]]
    return f"| {joint} | {kind} | {limits} | {effort} | {speed} | {default:.3g} | {mover} |"

"""Read a robot from a file in URDF or MJCF, and put it on a floor.

robot = read(Path("robot.urdf"))
robot.spec.compile()
"""

from __future__ import annotations

import re
from pathlib import Path

import mujoco

from livegym.compat.core.xml_file import parse
from livegym.robots import mjcf, urdf
from livegym.robots.robot import FLAT, Robot, free_name
from livegym.utils.errors import UserError

NAME = re.compile(r"[\w ./:+-]*")
"""Names that may stand in the Python and yaml of a project, and in its patterns of names, as they are."""


def read(file: Path) -> Robot:
    """The robot in a file, on a floor. Raises UserError, with the file and the element, if it cannot be one."""
    if not file.is_file():
        raise UserError(f"--from {file}: there is no such file. Allowed: a robot in URDF or MJCF. Check the path.")
    kind = parse(file).tag
    if kind not in ("robot", "mujoco"):
        raise UserError(
            f"--from {file}: it begins with <{kind}>, so it is no model of a robot. Allowed: URDF (<robot>) or MJCF "
            "(<mujoco>). A .xacro file must be expanded first: xacro robot.xacro > robot.urdf"
        )
    robot = (urdf if kind == "robot" else mjcf).read(file)
    _check_names(robot)
    if not any(geom.contype or geom.conaffinity for body in _below(robot.spec.body(robot.base)) for geom in body.geoms):
        raise UserError(
            f"{file}: no link has a collision shape, so it would fall through the floor. Allowed: a shape for at least "
            "the feet. Give links a <collision> (URDF), or geoms a contype (MJCF)."
        )
    _add_floor(robot)
    return robot


def _check_names(robot: Robot) -> None:
    """Refuse names that would be something else in the project's code."""
    spec = robot.spec
    kinds = {
        "body": spec.bodies,
        "joint": spec.joints,
        "geom": spec.geoms,
        "actuator": spec.actuators,
        "keyframe": spec.keys,
    }
    for kind, elements in kinds.items():
        for element in elements:
            if not NAME.fullmatch(element.name):
                raise UserError(
                    f"{robot.file}: the {kind} {element.name!r} has a name that a project cannot hold. Allowed: "
                    "letters, digits, spaces and _ . / : + - in names. Rename it in the file."
                )


def _below(body: mujoco.MjsBody) -> list[mujoco.MjsBody]:
    """A body and all that hang on it."""
    return [body, *(other for child in body.bodies for other in _below(child))]


def _add_floor(robot: Robot) -> None:
    """Find the floor, which may be a part of the scenery, or add one."""
    own = {body.name for body in _below(robot.spec.body(robot.base))}
    floors = [geom.name for geom in robot.spec.geoms if geom.type in FLAT and geom.parent.name not in own]
    if floors:
        robot.floor = floors[0]
        return
    robot.floor = free_name("floor", [geom.name for geom in robot.spec.geoms])
    robot.spec.worldbody.add_geom(
        name=robot.floor, type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.05], priority=1, rgba=[0.35, 0.37, 0.4, 1]
    )
    robot.changes.append(f"a floor was added (geom {robot.floor})")

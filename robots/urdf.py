"""A URDF as a robot on a floor: it floats, its links and joints keep their names and the order of the file.

A URDF has neither a floor nor actuators. Links that no joint moves stay bodies of their own. Mass and inertia that the
file lacks come from the collision shapes. Visual shapes are drawn, but do not collide and weigh nothing.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from livegym.compat.core import meshes, urdf, urdf_file
from livegym.compat.core.asset_model import spec_name
from livegym.compat.core.records import AssetOptions
from livegym.compat.core.xml_file import Complaint, parse
from livegym.robots.robot import Limit, Robot, free_name
from livegym.utils.errors import UserError

TIMESTEP = 0.005
"""Physics step (s) of a robot from a URDF."""
COLLIDING_GROUP, VISUAL_GROUP = 3, 2
"""Groups of geoms, as models of robots have them: viewers show the second, and not the first."""
MOST_STL_BYTES = 84 + 50 * 200_000
ROUNDING = 1e-4
GREY = (0.6, 0.6, 0.62, 1.0)


def read(file: Path) -> Robot:
    """Read a URDF. Raises UserError, with file and element, for one that cannot be a robot."""
    asset = urdf.load(file, file.parent, AssetOptions(), as_written=True)
    if not asset.dofs:
        raise UserError(
            f"{file}: it has no joint that moves. Allowed: a robot with revolute, continuous or prismatic joints. "
            "Is it a part of another file?"
        )
    if asset.bodies[0] == "world":
        raise UserError(
            f"{file}: its root link is called world, so it is fixed, but a robot that stands must float. "
            "Remove the link world and the joint that fixes the robot to it."
        )
    spec, base = asset.spec, asset.body_names[0]
    spec.modelname = file.stem
    spec.option.timestep = TIMESTEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    robot = Robot(file, "URDF", spec, base, odd=list(asset.notes))
    _draw_visuals(robot, asset.file or file)
    described = {joint.name: joint for below in urdf_file.read(file).below.values() for joint in below}
    for name in asset.dofs:  # a limit of 0 stands for one that was never filled in
        robot.limits[name] = Limit(described[name].effort or None, described[name].velocity or None)
    spec.body(base).add_freejoint(name=free_name("floating_base", [joint.name for joint in spec.joints]))
    try:
        robot.odd += meshes.compile_spec(spec)[1]
    except ValueError as error:
        raise UserError(f"{file}: MuJoCo refuses it: {error}") from None
    for body in spec.bodies:
        body.inertia = _writable(body.inertia)
    robot.changes += [f"{base} floats: a free joint was added", "motors were added to all joints: a URDF has none"]
    return robot


def _writable(moments: np.ndarray) -> np.ndarray:
    """Moments (3,) of inertia that are still those of a real body after they have been written with six digits."""
    low, middle, high = np.argsort(moments)
    lack = moments[high] * (1 + ROUNDING) - moments[low] - moments[middle]
    raised = np.array(moments)
    raised[[low, middle]] += max(0.0, lack) / 2
    return raised


def _draw_visuals(robot: Robot, file: Path) -> None:
    """Add the visual shapes; collision shapes of links that have some are not shown any more."""
    tree = parse(file)
    palette = {m.get("name", ""): _rgba(m) for m in tree.findall("material")}
    library = meshes.Meshes(robot.spec, AssetOptions())
    faults: list[str] = []
    for element in tree.findall("link"):
        name = element.get("name", "")
        body = robot.spec.body(spec_name(name))
        drawn = False
        for visual in element.findall("visual"):
            try:
                shape = _shape_of(visual, name, file)
                _try_to_draw(shape, f"link {name} <visual>", file)
            except UserError as error:  # it only looks: the robot moves the same without it
                faults.append(error.message.removeprefix(f"{file}: "))
                continue
            drawn = True
            _draw(body, shape, _colour(visual, palette), library)
        for geom in body.geoms if drawn else ():
            if geom.contype:
                geom.group = COLLIDING_GROUP
    if faults:
        more = f" (and {len(faults) - 1} more like this)" if len(faults) > 1 else ""
        robot.odd.append(f"not drawn: {faults[0]}{more}")


def _shape_of(visual: ET.Element, link: str, file: Path) -> urdf_file.Shape:
    """The shape of a <visual>, a mesh by its path. Raises UserError if it cannot be drawn."""
    complain = Complaint(file)
    shape = urdf_file.shape_of(visual, f"link {link}", complain)
    if shape.kind != "mesh":
        return shape
    path, _ = meshes.find_mesh(shape.mesh, file.parent, file.parent)
    if path is None:
        raise complain(f"link {link} <visual>", f"mesh {shape.mesh} not found.")
    if path.suffix.lower() not in meshes.READABLE:
        readable = ", ".join(meshes.READABLE)
        raise complain(f"link {link} <visual>", f"MuJoCo does not draw {path.name}, only {readable}.")
    if path.suffix.lower() == ".stl" and path.stat().st_size > MOST_STL_BYTES:
        raise complain(f"link {link} <visual>", f"MuJoCo draws at most 200,000 triangles, and {path.name} has more.")
    shape.mesh = str(path)
    return shape


def _try_to_draw(shape: urdf_file.Shape, where: str, file: Path) -> None:
    """Raises UserError for a mesh whose file is damaged; the robot's own specification would stay broken."""
    spec = mujoco.MjSpec()
    try:
        _draw(spec.worldbody, shape, GREY, meshes.Meshes(spec, AssetOptions()))
        meshes.compile_spec(spec)
    except ValueError as error:
        raise Complaint(file)(
            where, f"MuJoCo refuses {Path(shape.mesh).name}: {' '.join(str(error).split())}"
        ) from None


def _draw(body: mujoco.MjsBody, shape: urdf_file.Shape, colour: tuple[float, ...], library: meshes.Meshes) -> None:
    if shape.kind == "mesh":
        (name,) = library.names_of(Path(shape.mesh), shape.scale)  # whole: the default options ask for no pieces
        given: dict[str, Any] = {"meshname": name}
    else:
        given = {"size": shape.size}
    body.add_geom(
        type=urdf.GEOM[shape.kind], contype=0, conaffinity=0, mass=0.0, group=VISUAL_GROUP,
        pos=shape.pose.pos, quat=shape.pose.quat, rgba=colour, **given,
    )  # fmt: skip


def _colour(visual: ET.Element, palette: dict[str, tuple[float, ...]]) -> tuple[float, ...]:
    material = visual.find("material")
    if material is None:
        return GREY
    return _rgba(material) if material.find("color") is not None else palette.get(material.get("name", ""), GREY)


def _rgba(material: ET.Element) -> tuple[float, ...]:
    colour = material.find("color")
    words = (colour.get("rgba") if colour is not None else None) or ""
    try:
        numbers = np.array([float(word) for word in words.split()])
    except ValueError:
        return GREY
    return tuple(numbers.clip(0, 1).tolist()) if len(numbers) == 4 else GREY

"""A URDF file as links and joints, checked: every number is finite, every link is reached from one root.

Only what physics needs is read; looks, transmissions and simulator settings of others are not.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from livegym.compat.core.frames import Pose, from_rpy, identity
from livegym.compat.core.inertia import tensor_of
from livegym.compat.core.xml_file import Complaint, parse
from livegym.utils.errors import did_you_mean

KINDS = ("revolute", "continuous", "prismatic", "fixed")
"""Joints that can be read; the standard's `floating` and `planar` have no counterpart among Isaac Gym's DOFs."""
SHAPES = ("box", "sphere", "cylinder", "capsule", "mesh")


@dataclass
class Shape:
    """One collision shape: `size` holds half lengths (m) of a box, radius and half length of the others."""

    kind: str
    size: np.ndarray
    pose: Pose
    mesh: str = ""
    scale: np.ndarray = field(default_factory=lambda: np.ones(3))


@dataclass
class Link:
    """A body; what the file leaves out is None."""

    name: str
    shapes: list[Shape]
    mass: float | None = None
    com: Pose | None = None
    tensor: np.ndarray | None = None
    density: float | None = None


@dataclass
class Joint:
    """A joint; limits in rad or m (N m or N, rad/s or m/s), None if the file does not give them."""

    name: str
    kind: str
    parent: str
    child: str
    pose: Pose
    axis: np.ndarray
    lower: float | None = None
    upper: float | None = None
    effort: float | None = None
    velocity: float | None = None
    damping: float = 0.0
    friction: float = 0.0
    keep: bool = False

    @property
    def moves(self) -> bool:
        """Whether it is a DOF."""
        return self.kind != "fixed"


@dataclass
class Robot:
    """A whole file. `below` lists the joints under each link, in alphabetical order if Isaac Gym counts them."""

    file: Path
    links: dict[str, Link]
    below: dict[str, list[Joint]]
    root: str
    notes: list[str]


def read(file: Path, in_file_order: bool = False) -> Robot:
    """Read a URDF file. Raises UserError, with file, element and remedy, if it cannot be an asset.

    `in_file_order`: children in the order of the file's joints, and not in that of their names.
    """
    complain = Complaint(file)
    tree = parse(file)
    if tree.tag != "robot":
        raise complain(f"<{tree.tag}>", "a URDF file begins with <robot>. Is it another kind of file?")
    links, notes = _links(tree, complain), []
    joints = [_joint(e, links, complain) for e in tree.findall("joint")]
    for name, count in Counter(joint.name for joint in joints).items():
        if count > 1:
            raise complain(f"joint {name}", f"{count} joints have this name. Give each a name of its own.")
    notes += [f"joint {e.get('name')}: <mimic> is left out, as in Isaac Gym" for e in tree.findall("joint[mimic]")]
    below: dict[str, list[Joint]] = {name: [] for name in links}
    for joint in joints if in_file_order else sorted(joints, key=lambda joint: joint.name):
        below[joint.parent].append(joint)
    return Robot(file, links, below, _root(links, joints, below, complain), notes)


def _root(links: dict[str, Link], joints: list[Joint], below: dict[str, list[Joint]], complain: Complaint) -> str:
    """The one link without a parent, from which every other one is reached."""
    parents = Counter(joint.child for joint in joints)
    for name, count in parents.items():
        if count > 1:
            above = ", ".join(joint.name for joint in joints if joint.child == name)
            raise complain(f"link {name}", f"it is the child of {count} joints ({above}). Keep one: no loops.")
    roots = [name for name in links if name not in parents]
    if len(roots) > 1:
        names = ", ".join(roots[:6])
        raise complain("<robot>", f"{len(roots)} links have no parent ({names}), an asset has one root. Join them.")
    if not roots:
        raise complain("<robot>", "no link is the root: the joints form a loop. Remove one of them.")
    reached, waiting = set(), [roots[0]]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting += [joint.child for joint in below[name]]
    if lost := [name for name in links if name not in reached]:
        raise complain(f"link {lost[0]}", f"its joints form a loop ({', '.join(lost[:6])}). Remove one of them.")
    return roots[0]


def _links(tree: ET.Element, complain: Complaint) -> dict[str, Link]:
    links: dict[str, Link] = {}
    for element in tree.findall("link"):
        name = element.get("name") or ""
        if not name or name in links:
            raise complain(f"link {name or '?'}", "each link needs a name of its own.")
        links[name] = _link(name, element, complain)
    if not links:
        raise complain("<robot>", "it has no <link>. Is it a source that xacro must expand first?")
    return links


def _link(name: str, element: ET.Element, complain: Complaint) -> Link:
    where = f"link {name}"
    link = Link(name, [shape_of(e, where, complain) for e in element.findall("collision")])
    inertial = element.find("inertial")  # some files repeat it: the first one counts
    if inertial is None:
        return link
    link.mass = _positive(inertial.find("mass"), "value", f"{where} <mass>", complain)
    link.density = _positive(inertial.find("density"), "value", f"{where} <density>", complain)
    if inertial.find("origin") is not None:
        link.com = _pose(inertial, f"{where} <inertial>", complain)
    if (given := inertial.find("inertia")) is not None:
        keys = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        link.tensor = tensor_of(*(_number(given, key, f"{where} <inertia>", complain) or 0.0 for key in keys))
    return link


def shape_of(element: ET.Element, where: str, complain: Complaint) -> Shape:
    """The shape of a <collision> or <visual>. Raises UserError for an unknown or impossible one."""
    where = f"{where} <{element.tag}>"
    geometry = element.find("geometry")
    if geometry is None or not len(geometry):
        raise complain(where, f"it has no geometry. Add one of {', '.join(SHAPES)}.")
    shape, pose = geometry[0], _pose(element, where, complain)
    if shape.tag not in SHAPES:
        near = did_you_mean(shape.tag, SHAPES)
        raise complain(where, f"<{shape.tag}> is no known geometry. Allowed: {', '.join(SHAPES)}.{near}")
    where = f"{where} <{shape.tag}>"
    if shape.tag == "mesh":
        if not shape.get("filename"):
            raise complain(where, "it has no filename.")
        scale = _numbers(shape, "scale", 3, where, complain, (1.0, 1.0, 1.0))
        return Shape("mesh", np.zeros(3), pose, shape.get("filename", ""), scale)
    if shape.tag == "box":
        size = _numbers(shape, "size", 3, where, complain) / 2
    else:
        radius = _needed(shape, "radius", where, complain)
        half = 0.0 if shape.tag == "sphere" else _needed(shape, "length", where, complain) / 2
        size = np.array([radius, half, 0.0])
    lengths = size[: {"box": 3, "sphere": 1}.get(shape.tag, 2)]
    if not (lengths > 0).all():
        raise complain(where, f"lengths must be larger than 0, got {lengths.tolist()}.")
    return Shape(shape.tag, size, pose)


def _joint(element: ET.Element, links: dict[str, Link], complain: Complaint) -> Joint:
    name, kind = element.get("name") or "", element.get("type") or ""
    where = f"joint {name or '?'}"
    if not name:
        raise complain(where, "each joint needs a name.")
    if kind not in KINDS:
        near = did_you_mean(kind, KINDS)
        raise complain(where, f"type {kind or '?'} has no counterpart. Allowed: {', '.join(KINDS)}.{near}")
    axis = np.array([1.0, 0.0, 0.0])
    if (given := element.find("axis")) is not None:
        axis = _numbers(given, "xyz", 3, f"{where} <axis>", complain, (1.0, 0.0, 0.0))
    if kind != "fixed" and not np.linalg.norm(axis) > 1e-9:
        raise complain(f"{where} <axis>", "it has no direction. Give xyz a vector that is not zero.")
    limit, dynamics = element.find("limit"), element.find("dynamics")
    return Joint(
        name,
        kind,
        parent=_end(element, "parent", links, where, complain),
        child=_end(element, "child", links, where, complain),
        pose=_pose(element, where, complain),
        axis=axis,
        lower=_number(limit, "lower", f"{where} <limit>", complain),
        upper=_number(limit, "upper", f"{where} <limit>", complain),
        effort=_positive(limit, "effort", f"{where} <limit>", complain),
        velocity=_positive(limit, "velocity", f"{where} <limit>", complain),
        damping=_positive(dynamics, "damping", f"{where} <dynamics>", complain) or 0.0,
        friction=_positive(dynamics, "friction", f"{where} <dynamics>", complain) or 0.0,
        keep=element.get("dont_collapse", "").lower() in ("true", "1"),
    )


def _end(element: ET.Element, tag: str, links: dict[str, Link], where: str, complain: Complaint) -> str:
    end = element.find(tag)
    name = (end.get("link") if end is not None else None) or ""
    if name not in links:
        raise complain(f"{where} <{tag}>", f"link {name or '?'} does not exist.{did_you_mean(name, links)}")
    return name


def _pose(element: ET.Element, where: str, complain: Complaint) -> Pose:
    origin = element.find("origin")
    if origin is None:
        return identity()
    where = f"{where} <origin>"
    zeros = (0.0, 0.0, 0.0)
    xyz, rpy = (_numbers(origin, key, 3, where, complain, zeros) for key in ("xyz", "rpy"))
    return from_rpy(xyz, rpy)


def _numbers(
    element: ET.Element,
    key: str,
    count: int,
    where: str,
    complain: Complaint,
    default: tuple[float, ...] | None = None,
) -> np.ndarray:
    text = element.get(key)
    if (text is None or not text.strip()) and default is not None:
        return np.array(default)
    try:
        numbers = np.array([float(word) for word in (text or "").split()])
    except ValueError:
        numbers = np.array([math.nan])
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise complain(where, f"{key}={text!r}: {count} finite number{'s' if count > 1 else ''} expected.")
    return numbers


def _number(element: ET.Element | None, key: str, where: str, complain: Complaint) -> float | None:
    if element is None or element.get(key) is None:
        return None
    return float(_numbers(element, key, 1, where, complain)[0])


def _needed(element: ET.Element, key: str, where: str, complain: Complaint) -> float:
    return float(_numbers(element, key, 1, where, complain)[0])


def _positive(element: ET.Element | None, key: str, where: str, complain: Complaint) -> float | None:
    value = _number(element, key, where, complain)
    if value is not None and value < 0:
        raise complain(where, f"{key}={value:g}: it must not be negative. Leave it out to have a default.")
    return value

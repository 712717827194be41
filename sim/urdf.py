"""A URDF as a part of a world: MuJoCo's own reader, with all links kept and meshes found where others look for them.

    spec = load_urdf(Path("hand.urdf"))

MuJoCo merges links over fixed joints, and looks for meshes by their bare names beside the file. Here every link stays a
body of its own name, and `package://` and relative paths are searched from the file's folder upwards. Shapes for looks
are left out: what collides is drawn. Robots of a task of their own are read in `robots/`, which reports more.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np

from livegym.sim.model import warnings_logged_once
from livegym.utils.errors import UserError

MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
LEAST, THIN = 0.1, 1e-6
"""The smallest moment that replaces one of 0 or less: a part of the largest one, and m^2 times the mass."""


def load_urdf(path: Path) -> mujoco.MjSpec:
    """The URDF at `path`. Raises UserError that names the path, and the mesh if one is missing."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError, ValueError) as error:
        raise UserError(f"model {path}: cannot read it: {error}. Allowed: a URDF.") from error
    if root.tag != "robot":
        raise UserError(f"model {path}: begins with <{root.tag}>. Allowed: a URDF, which begins with <robot>.")
    for link in root.findall("link"):
        for visual in link.findall("visual"):
            link.remove(visual)
    for mesh in root.iter("mesh"):
        mesh.set("filename", str(_found(mesh.get("filename", ""), path)))
    for inertial in root.iter("inertial"):
        _make_possible(inertial)
    extension = root.find("mujoco")
    if extension is None:
        extension = ElementTree.SubElement(root, "mujoco")
    compiler = extension.find("compiler")
    if compiler is None:
        compiler = ElementTree.SubElement(extension, "compiler")
    compiler.attrib.update(fusestatic="false", strippath="false", discardvisual="false", balanceinertia="true")
    compiler.attrib.pop("meshdir", None)
    try:
        with warnings_logged_once():
            spec = mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))
    except ValueError as error:
        raise UserError(f"model {path}: MuJoCo cannot read it: {' '.join(str(error).split())}") from error
    spec.strippath = False
    return spec


def _make_possible(inertial: ElementTree.Element) -> None:
    """Raise the moments of an inertia that no body can have, such as one whose digits were cut off, to ones it can."""
    inertia, mass = inertial.find("inertia"), inertial.find("mass")
    if inertia is None or mass is None:
        return
    xx, yy, zz, xy, xz, yz = (float(inertia.get(name, 0)) for name in MOMENTS)
    moments, axes = np.linalg.eigh(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))
    least = max(LEAST * float(moments.max()), THIN * float(mass.get("value", 0)))
    if moments.min() > 0 or least <= 0:
        return
    whole = axes @ np.diag(np.maximum(moments, least)) @ axes.T
    places = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    inertia.attrib.update({name: repr(float(whole[place])) for name, place in zip(MOMENTS, places, strict=True)})


def _found(name: str, path: Path) -> Path:
    """The mesh that a URDF names. Raises UserError if it is nowhere."""
    wanted = name.removeprefix("file://").removeprefix("package://")
    for folder in path.resolve().parents:
        if (folder / wanted).is_file():
            return folder / wanted
    raise UserError(
        f"model {path}: mesh {name} not found in the file's folder and those above it. Put it there, or correct its "
        "path."
    )

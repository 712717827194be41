"""An MJCF file as one tree that MuJoCo takes, with nothing in it but one robot.

Includes are put in place, and everything is left out that belongs to a scene, only draws, or has changed its meaning
since the file was written. Defaults stay as they are: MuJoCo resolves them.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from livegym.compat.core import meshes
from livegym.compat.core.asset_model import listed
from livegym.compat.core.xml_file import Complaint, parse
from livegym.utils.errors import UserError

SCENE = ("option", "size", "visual", "statistic", "sensor", "keyframe", "custom", "extension", "equality", "deformable")
"""Sections of an MJCF file that are left out."""
LOOKS = ("light", "camera", "texture", "material", "skin")
"""Elements that are left out wherever they stand."""
NAMED = ("body", "joint", "geom", "site", "mesh")
"""Elements whose names must differ from others of their kind."""
WORDS = {"name", "class", "childclass", "dclass", "file", "model", "type", "user", "mesh", "hfield", "material"}
WORDS |= {"joint", "joint1", "joint2", "tendon", "site", "body", "body1", "body2", "geom1", "geom2", "objname"}
"""Attributes that hold no numbers."""
NEVER_NEGATIVE = ("mass", "density", "armature", "frictionloss")


@dataclass
class Hollow:
    """A mesh that is missing (its path is None) or in a format that MuJoCo does not read."""

    path: Path | None
    error: UserError
    """The error to raise if it collides and trimesh does not read it either."""


@dataclass
class Document:
    """A cleaned file."""

    file: Path
    tree: ET.Element
    degree: bool
    """Whether ranges of joints are in degrees."""
    hollow: dict[str, Hollow] = field(default_factory=dict)
    """Meshes that MuJoCo cannot read, by name; a placeholder stands for each."""
    notes: list[str] = field(default_factory=list)

    def error(self, element: str, trouble: str) -> UserError:
        """An error about this file."""
        return Complaint(self.file)(element, trouble)


def read(file: Path, root: Path) -> Document:
    """Read an MJCF file. Raises UserError, with file, element and remedy, if it cannot be an asset."""
    tree = parse(file)
    if tree.tag not in ("mujoco", "mujocoinclude"):
        raise Complaint(file)(f"<{tree.tag}>", "an MJCF file begins with <mujoco>. Is it another kind of file?")
    _include(tree, file.parent, file, (file.resolve(),))
    document = Document(file, tree, degree=True)
    _check_numbers(document)
    _leave_out(document)
    _settle_compiler(document, root)
    _rename(document)
    _one_root(document)
    return document


def _include(parent: ET.Element, folder: Path, file: Path, inside: tuple[Path, ...]) -> None:
    """Put the content of included files in place."""
    children: list[ET.Element] = []
    for child in list(parent):
        parent.remove(child)
        if child.tag == "include":
            children += _included(child, folder, file, inside)
        else:
            _include(child, folder, file, inside)
            children.append(child)
    parent.extend(children)


def _included(element: ET.Element, folder: Path, file: Path, inside: tuple[Path, ...]) -> list[ET.Element]:
    name = element.get("file") or ""
    tried = [base / name for base in dict.fromkeys((folder, file.parent))]
    path = next((place for place in tried if name and place.is_file()), None)
    if path is None:
        places = ", ".join(map(str, tried))
        raise Complaint(file)("<include>", f"{name or 'no file'} not found. Searched: {places}. Put it there.")
    if path.resolve() in inside:
        raise Complaint(file)("<include>", f"{name} includes itself. Remove one of the includes.")
    tree = parse(path)
    _include(tree, path.parent, file, (*inside, path.resolve()))
    return list(tree)


def _check_numbers(document: Document) -> None:
    for element in document.tree.iter():
        for key, text in element.attrib.items():
            where = f"<{element.tag}> {element.get('name') or ''}".strip()
            if key not in WORDS and re.search(r"(?<![\w.])[-+]?(nan|inf(inity)?)(?![\w.])", text, re.IGNORECASE):
                raise document.error(where, f"{key}={text!r}: finite numbers expected.")
            if key in NEVER_NEGATIVE and _is_negative(text):
                raise document.error(where, f"{key}={text!r}: it must not be negative. Leave it out to have a default.")


def _is_negative(text: str) -> bool:
    try:
        return float(text) < 0
    except ValueError:
        return False  # MuJoCo names it in its own error


def _leave_out(document: Document) -> None:
    tree = document.tree
    left_out: Counter[str] = Counter()
    for section in list(tree):
        if section.tag in SCENE:
            tree.remove(section)
            left_out[section.tag] += 1
    for parent in list(tree.iter()):
        parent.attrib.pop("material", None)
        for child in list(parent):
            of_world = parent.tag == "worldbody" and child.tag in ("geom", "site")
            if child.tag in LOOKS or of_world:
                parent.remove(child)
                left_out[f"the world's {child.tag}" if of_world else child.tag] += 1
    if left_out:
        parts = ", ".join(sorted(left_out))
        document.notes.append(f"left out, because it belongs to a scene or to looks: {parts}")


def _settle_compiler(document: Document, root: Path) -> None:
    """One `<compiler>`, with angles in radians and without folders: each mesh gets its full path."""
    settings: dict[str, str] = {}
    for element in document.tree.findall("compiler"):
        settings |= element.attrib
        document.tree.remove(element)
    if settings.pop("coordinate", "local") != "local":
        raise document.error("<compiler>", "MuJoCo no longer knows global coordinates. Save the model with local ones.")
    document.degree = settings.pop("angle", "degree") == "degree"
    folder = settings.pop("meshdir", settings.pop("assetdir", ""))
    for key in ("assetdir", "texturedir", "strippath", "fusestatic", "discardvisual", "usethread"):
        settings.pop(key, None)
    document.tree.insert(0, ET.Element("compiler", settings | {"angle": "radian"}))
    if document.degree:
        _to_radians(document.tree)
    for element in list(document.tree.iter("mesh")):
        if element.get("file"):
            _locate(element, folder, document, root)


def _to_radians(tree: ET.Element) -> None:
    """Rotations of frames; ranges of joints depend on the kind of joint, which defaults decide."""
    for element in tree.iter():
        for key, turning in (("euler", slice(0, 3)), ("axisangle", slice(3, 4))):
            if key in element.attrib:
                words = element.attrib[key].split()
                words[turning] = [_radians(word) for word in words[turning]]
                element.attrib[key] = " ".join(words)


def _radians(word: str) -> str:
    try:
        return repr(math.radians(float(word)))
    except ValueError:
        return word  # MuJoCo names it in its own error


def _locate(element: ET.Element, folder: str, document: Document, root: Path) -> None:
    """Give a mesh its full path, or a placeholder's vertices if MuJoCo cannot read it."""
    name = element.get("file") or ""
    element.attrib.setdefault("name", Path(name).stem)
    here = document.file.parent
    path, tried = meshes.find_mesh(name, here / folder, root)
    if path is None:
        path, others = meshes.find_mesh(name, here, root)
        tried += others
    if path is not None and path.suffix.lower() in meshes.READABLE:
        element.set("file", str(path))
        return
    where = f"<mesh> {element.get('name')}"
    error = (
        meshes.unreadable(document.file, where, path) if path else meshes.not_found(document.file, where, name, tried)
    )
    document.hollow[element.get("name", "")] = Hollow(path, error)
    element.attrib.pop("file")
    element.set("vertex", "0 0 0  1 0 0  0 1 0  0 0 1")


def _in_world(tree: ET.Element, tag: str) -> Iterator[ET.Element]:
    for section in tree.findall("asset" if tag == "mesh" else "worldbody"):
        yield from section.iter(tag)


def _rename(document: Document) -> None:
    """Names that occur twice get a number; bodies and joints without a name get one."""
    for tag in NAMED:
        taken: set[str] = {element.get("name", "") for element in _in_world(document.tree, tag)}
        seen: set[str] = set()
        for element in _in_world(document.tree, tag):
            name = element.get("name", "")
            if name in seen or (not name and tag in ("body", "joint")):
                stem = name or tag
                number = next(n for n in range(1, len(taken) + 2) if f"{stem}_{n}" not in taken)
                element.set("name", f"{stem}_{number}")
                taken.add(f"{stem}_{number}")
                if name:
                    document.notes.append(f"{tag} {name}: a second one of this name is now {stem}_{number}")
            seen.add(element.get("name", ""))


def _one_root(document: Document) -> None:
    roots = [body for section in document.tree.findall("worldbody") for body in section.findall("body")]
    if not roots:
        raise document.error("<worldbody>", "it has no <body>. Give the task the file that includes this one.")
    if len(roots) > 1:
        names = ", ".join(body.get("name", "") for body in roots[:6])
        raise document.error(
            "<worldbody>", f"{len(roots)} root bodies ({names}), an asset has one. Make a file of each."
        )
    for key in ("pos", "quat", "euler", "axisangle", "xyaxes", "zaxis", "mocap"):
        roots[0].attrib.pop(key, None)


def root_body(document: Document) -> ET.Element:
    """The element of the root."""
    return next(body for section in document.tree.findall("worldbody") for body in section.findall("body"))


def remove_root_joints(document: Document) -> None:
    """Leave out the joints between a floating root and the world."""
    root = root_body(document)
    joints = root.findall("joint")
    for element in [*joints, *root.findall("freejoint")]:
        root.remove(element)
    if joints:
        names = ", ".join(joint.get("name", "") for joint in joints)
        document.notes.append(f"joints of the floating root are left out: {names}")


REFERENCES = {
    "body1": "body",
    "body2": "body",
    "body": "body",
    "geom1": "geom",
    "geom2": "geom",
    "geom": "geom",
    "joint": "joint",
    "jointinparent": "joint",
    "site": "site",
    "tendon": "tendon",
}
"""Attributes of contacts, tendons and actuators that name an element, and the kind of that element."""


def remove_dangling(document: Document) -> None:
    """Leave out what refers to an element that the file does not have: included files are often shared by robots."""
    tree = document.tree
    names = {kind: {e.get("name") for e in _in_world(tree, kind)} for kind in ("body", "geom", "joint", "site")}
    left_out: list[str] = []
    for tag in ("contact", "tendon", "actuator"):
        for section in tree.findall(tag):
            for element in list(section):
                if any(_dangles(part, names) for part in element.iter()):
                    section.remove(element)
                    left_out.append(element.get("name") or element.tag)
        if tag == "tendon":
            names["tendon"] = {e.get("name") for section in tree.findall(tag) for e in section}
    if left_out:
        document.notes.append(f"left out, because the file lacks the named bodies, joints or geoms: {listed(left_out)}")


def _dangles(element: ET.Element, names: dict[str, set[str | None]]) -> bool:
    named = ((REFERENCES[key], name) for key, name in element.attrib.items() if key in REFERENCES)
    return any(name not in names[kind] for kind, name in named if kind in names)

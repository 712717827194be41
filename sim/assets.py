"""Absolute paths for the files of a model: meshes, textures, height fields and skins.

MuJoCo looks for them in a folder that each MJCF names. A model that is attached to another has a folder of its own,
which its compiled form remembers, but not its XML. So each file of an attached model gets an absolute path, and XML
that was saved loads from any directory on this machine.

A `/./` in such a path, as in rsync, precedes the name that the MJCF gives to the file:
/home/you/hand/assets/./palm.stl. What precedes the `/./` depends on the machine, and does not belong to the model
(`tasks/env_state.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco

MARK = "/./"


def make_absolute(spec: mujoco.MjSpec, path: Path, attached: bool) -> None:
    """Give the files of the model that was read from `path` absolute paths.

    The model's own folders become absolute. So do the names of files that would not be found there: those of models
    that the MJCF itself attaches, and all of them if the model will be `attached`.
    """
    folders = list(_folders(path.resolve(), set()))
    own = folders[0]
    for element, attribute, directory in elements_with_files(spec):
        value = getattr(element, attribute)
        names = [value] if isinstance(value, str) else list(value)
        if spec.strippath:
            names = [os.path.basename(name) for name in names]
        found = [_found(name, directory, folders, attached or bool(spec.strippath)) for name in names]
        if found != names:
            setattr(element, attribute, found[0] if isinstance(value, str) else found)
    spec.strippath = False  # it would strip the absolute paths
    spec.meshdir, spec.texturedir = str(own / spec.meshdir), str(own / spec.texturedir)


def elements_with_files(spec: mujoco.MjSpec) -> Iterator[tuple[Any, str, str]]:
    """Each element with a file: the element, the attribute with the name or names, and the folder of its MJCF."""
    for element in (*spec.meshes, *spec.hfields, *spec.skins):
        yield element, "file", element.compiler.meshdir
    for texture in spec.textures:
        yield texture, "file", texture.compiler.texturedir
        yield texture, "cubefiles", texture.compiler.texturedir


def _found(name: str, directory: str, folders: list[Path], always: bool) -> str:
    """The absolute path of a file; `name` itself if it is absolute, does not exist, or MuJoCo finds it as it is."""
    if not name or os.path.isabs(name):
        return name
    for folder in folders:
        place = folder / directory
        if (place / name).is_file():
            return name if folder == folders[0] and not always else f"{place}{MARK}{name}"
    return name


def _folders(file: Path, seen: set[Path]) -> Iterator[Path]:
    """The folder of an MJCF, then those of the models that it names, recursively."""
    if file in seen:
        return
    seen.add(file)
    yield file.parent
    try:
        root = ElementTree.parse(file).getroot()
    except (OSError, ElementTree.ParseError, ValueError):
        return  # not XML, or in an encoding that this parser lacks; MuJoCo has read it
    for tag in ("include", "model"):
        for element in root.iter(tag):
            yield from _folders((file.parent / element.get("file", "")).resolve(), seen)

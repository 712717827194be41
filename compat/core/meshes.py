"""Mesh files: found where asset files mean them, and added to a specification so that MuJoCo takes them.

An asset names its meshes by `package://robot/meshes/a.stl`, relative to its own folder, to a folder above it, or to the
root of assets that the task gives. Each mesh collides as its convex hull.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np

from livegym.utils.errors import UserError

READABLE = (".stl", ".obj", ".msh")
"""Formats that MuJoCo reads."""
HULL_VERTICES = 64
"""Most vertices of a convex hull, as PhysX has it."""
LEVELS = 6
"""Folders above the asset's own in which a mesh is searched."""


def find_mesh(name: str, folder: Path, root: Path) -> tuple[Path | None, list[Path]]:
    """The file that an asset in `folder` calls `name` (None if there is none), and the places that were searched."""
    name = name.replace("\\", "/")
    scheme, _, rest = name.rpartition("://")
    if scheme == "file" or Path(rest).is_absolute():
        tried = [Path(rest)]
    else:
        inside = Path(rest)
        without_package = Path(*inside.parts[1:]) if scheme and len(inside.parts) > 1 else inside
        above = list(dict.fromkeys([folder, *folder.parents[:LEVELS], root]))
        tried = [base / part for base in above for part in dict.fromkeys((inside, without_package))]
    found = next((place for place in tried if place.is_file()), None)
    return (found.resolve() if found else None), tried


def not_found(file: Path, element: str, name: str, tried: Iterable[Path]) -> UserError:
    """The error for a mesh that is in none of the places searched."""
    places = "".join(f"\n  {place}" for place in tried)
    return UserError(
        f"{file}: {element}: mesh {name} not found. Searched:{places}\n"
        "Put the file into one of these places, or correct the name."
    )


def unreadable(file: Path, element: str, mesh: Path) -> UserError:
    """The error for a mesh in a format that MuJoCo does not read."""
    return UserError(
        f"{file}: {element}: mesh {mesh.name} collides, and only {', '.join(READABLE)} can collide. Convert it, for "
        f"example with trimesh: trimesh.load('{mesh}', force='mesh').export('{mesh.stem}.obj')"
    )


class Meshes:
    """The meshes of one specification; each pair of file and scale is added once."""

    def __init__(self, spec: mujoco.MjSpec) -> None:
        self._spec = spec
        self._names: dict[tuple[Path, tuple[float, ...]], str] = {}

    def name_of(self, path: Path, scale: np.ndarray) -> str:
        """The name of the mesh in the specification, which gets it if it is new."""
        key = (path, tuple(scale.tolist()))
        if key not in self._names:
            self._names[key] = f"{path.stem}_{len(self._names)}"
            self._spec.add_mesh(name=self._names[key], file=str(path), scale=scale, maxhullvert=HULL_VERTICES)
            self._spec.meshes[-1].inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        return self._names[key]


def compile_with_thin_meshes(spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, list[str]]:
    """Compile; a mesh without volume gets the inertia of its surface. Returns the model and the names of such meshes.

    Raises ValueError, as MuJoCo does, if anything else is wrong.
    """
    thin: list[str] = []
    while True:
        try:
            return spec.compile(), thin
        except ValueError as error:
            name = _mesh_without_volume(str(error), spec)
            if name is None or name in thin:
                raise
            thin.append(name)
            next(m for m in spec.meshes if m.name == name).inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL


def _mesh_without_volume(error: str, spec: mujoco.MjSpec) -> str | None:
    if "volume" not in error:
        return None
    named = re.search(r"'([^']+)'", error)
    return next((m.name for m in spec.meshes if named and m.name == named[1]), None)

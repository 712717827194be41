"""Mesh files: found where asset files mean them, and added to a specification so that MuJoCo takes them.

An asset names its meshes by `package://robot/meshes/a.stl`, relative to its own folder, to a folder above it, or to the
root of assets that the task gives. Each mesh collides as its convex hull, or as several if that was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import mujoco
import numpy as np

from livegym.compat.core import decompose
from livegym.compat.core.records import AssetOptions
from livegym.utils.errors import UserError

READABLE = (".stl", ".obj", ".msh")
"""Formats that MuJoCo reads."""
HULL_VERTICES = 64
"""Most vertices of a convex hull, as PhysX has it."""
THICKNESS = 1e-3
"""Thickness (m) that a flat mesh gets."""
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
    """The error for a mesh in a format that cannot be read."""
    return UserError(
        f"{file}: {element}: {mesh.name} collides, but neither MuJoCo ({', '.join(READABLE)}) nor trimesh reads it. "
        "Convert it to .obj, or install the reader of its format (.dae: pip install pycollada)."
    )


class Meshes:
    """The meshes of one specification; each pair of file and scale is added once."""

    def __init__(self, spec: mujoco.MjSpec, options: AssetOptions) -> None:
        """`options` decide whether a mesh is one convex hull or several pieces."""
        self._spec = spec
        self._options = options
        self._names: dict[tuple[Path, tuple[float, ...]], list[str]] = {}

    def names_of(self, path: Path, scale: np.ndarray) -> list[str]:
        """The names of a mesh's convex pieces in the specification, which gets them if they are new."""
        key = (path, tuple(scale.tolist()))
        if key not in self._names:
            name = self._free_name(path)
            parts = decompose.pieces(path, self._options)
            self._names[key] = [f"{name}_{number}" for number in range(len(parts))]
            for each, part in zip(self._names[key], parts, strict=True):
                self._add(each, path, scale, part)
            if not parts:
                self._names[key] = [name]
                self._add(name, path, scale, None)
        return self._names[key]

    def _free_name(self, path: Path) -> str:
        """A name that neither a mesh of this library nor another of the specification has, nor a piece of one."""
        number = len(self._names)
        taken = [mesh.name for mesh in self._spec.meshes]
        while any(f"{name}_".startswith(f"{path.stem}_{number}_") for name in taken):
            number += 1
        return f"{path.stem}_{number}"

    def _add(self, name: str, path: Path, scale: np.ndarray, part: decompose.Piece | None) -> None:
        """Add a file's mesh, or a piece of it."""
        mesh = self._spec.add_mesh(name=name, scale=scale, maxhullvert=HULL_VERTICES)
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        if part is not None:
            give_vertices(mesh, part.vertices)
        elif path.suffix.lower() in READABLE:
            mesh.file = str(path)
        else:
            give_vertices(mesh, vertices(path))


def can_be_read(path: Path) -> bool:
    """Whether a mesh can collide: MuJoCo reads its format, or trimesh does."""
    if path.suffix.lower() in READABLE:
        return True
    try:
        return len(vertices(path)) > 3
    except ValueError:
        return False


def vertices(path: Path) -> np.ndarray:
    """The vertices (n, 3) of a mesh file of any format. Raises ValueError if it cannot be read."""
    try:
        points = _of_stl(path.read_bytes()) if path.suffix.lower() == ".stl" else _by_trimesh(path)
    except decompose.UNREADABLE as error:
        raise ValueError(f"{path}: {error}") from None
    if not np.isfinite(points).all():
        raise ValueError(f"{path}: its vertices are not finite")
    return points


def _of_stl(content: bytes) -> np.ndarray:
    """The corners of an STL file: MuJoCo reads neither those in ASCII nor those with more than 200,000 triangles."""
    count = int.from_bytes(content[80:84], "little")
    if len(content) == 84 + 50 * count:
        triangle = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
        return np.frombuffer(content, triangle, offset=84)["corners"].reshape(-1, 3).astype(float)
    lines = re.findall(rb"vertex\s+(\S+)\s+(\S+)\s+(\S+)", content)
    if not lines:
        raise ValueError("neither a binary STL file nor one in ASCII")
    return np.array([[float(number) for number in line] for line in lines])


def _by_trimesh(path: Path) -> np.ndarray:
    import trimesh  # takes half a second, and few assets need it

    return np.asarray(trimesh.load_mesh(path, process=False).vertices, float)


def give_vertices(mesh: mujoco.MjsMesh, points: np.ndarray) -> None:
    """Replace a mesh's file by vertices (n, 3); it collides as their convex hull."""
    mesh.file = ""
    mesh.uservert = points.reshape(-1)


def compile_spec(spec: mujoco.MjSpec) -> tuple[mujoco.MjModel, list[str]]:
    """Compile, with a remedy for each mesh that MuJoCo refuses. Returns the model, and a note about each such mesh.

    A mesh without volume gets the inertia of its surface; a flat one becomes a thin plate; an STL file in ASCII, or one
    that is too large, is read here. Raises ValueError, as MuJoCo does, if anything else is wrong.
    """
    notes: list[str] = []
    tried: set[tuple[str, str]] = set()
    while True:
        try:
            return spec.compile(), notes
        except ValueError as error:
            found = re.search(r"Element name '([^']*)'", str(error))
            mesh = next((m for m in spec.meshes if found and m.name == found[1]), None)
            remedy = "surface" if "volume" in str(error) else "vertices"
            if mesh is None or (mesh.name, remedy) in tried:
                raise
            tried.add((mesh.name, remedy))
            notes.append(_apply(remedy, mesh))


def _apply(remedy: str, mesh: mujoco.MjsMesh) -> str:
    """Change a mesh so that MuJoCo may take it; returns a note. Raises ValueError if its file cannot be read."""
    if remedy == "surface":
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
        return f"mesh {mesh.name} has hardly any volume, so its inertia is that of its surface"
    points = vertices(Path(mesh.file)) if mesh.file else np.array(mesh.uservert).reshape(-1, 3)
    solid = _thickened(points, THICKNESS / np.abs(mesh.scale).max())
    give_vertices(mesh, solid)
    if len(solid) > len(points):
        return f"mesh {mesh.name} is flat, so it is {THICKNESS:g} m thick"
    return f"mesh {mesh.name}: only its vertices are read"


def _thickened(points: np.ndarray, thickness: float) -> np.ndarray:
    """The points, or if they lie in a plane, two copies of them on its sides."""
    if len(points) < 3:
        return points
    _, spread, axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    if spread[2] > 1e-6 * spread[0]:
        return points
    step = axes[2] * thickness / 2
    return np.concatenate((points + step, points - step))

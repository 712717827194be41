"""Hollow meshes as several convex pieces: a cup holds a ball, a convex hull of it does not.

    parts = pieces(Path("arena.obj"), options)     # [] if one hull is right, or all that there is

`vhacd_enabled` decomposes a mesh whose hull is larger by more than HOLLOW; `convex_decomposition_from_submeshes` takes
each object of an .obj file as one piece. The decomposition is CoACD's, an optional library. It takes seconds to minutes
a mesh, so the pieces are kept in a folder of the user's cache, under a hash of the mesh and of all that they depend on.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import mujoco
import numpy as np

from livegym.compat.core.records import AssetOptions, VhacdParams
from livegym.utils.files import atomic_write_bytes

T = TypeVar("T")
log = logging.getLogger(__name__)

HOLLOW = 0.03
"""Share of its hull that a mesh lacks, above which it is decomposed."""
CONCAVITY = 0.05
"""How far CoACD's pieces may be from convex, of the mesh's size: its own default."""
UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ImportError,
    NotImplementedError,
    OSError,
    SyntaxError,
)
"""Errors of readers about a mesh file that is damaged or of another kind."""
NOT_THERE = (FileNotFoundError, NotADirectoryError, PermissionError)
"""Errors of a cache that has no such file, or cannot be reached."""
VERSION = 1
"""Counts changes of what is kept in the cache."""
INSTALL = "pip install 'livegym[convex]' (or pip install coacd)"


class Piece(NamedTuple):
    """A convex part of a mesh."""

    vertices: np.ndarray  # (n, 3), in the mesh's units
    faces: np.ndarray  # (m, 3) indices; empty if only the vertices are known


def pieces(path: Path, options: AssetOptions) -> list[Piece]:
    """The convex pieces of a mesh file; [] if its convex hull stands for it.

    Logs a warning if it should have pieces and cannot.
    """
    if options.convex_decomposition_from_submeshes and path.suffix.lower() == ".obj":
        parts = _if_readable(path, "convex_decomposition_from_submeshes", lambda: _objects(path)) or []
        if len(parts) > 1:
            return parts
    if not options.vhacd_enabled:
        return []
    file = _cache() / f"{_digest(path, options.vhacd_params)}.npz"
    kept = _read(file)
    if kept:
        return kept
    triangles = _if_readable(path, "vhacd_enabled", lambda: _triangles(path))
    if triangles is None:
        return []
    vertices, faces = triangles
    missing = _missing_share(vertices, faces)
    if missing <= HOLLOW:
        return []
    parts = _by_coacd(path, vertices, faces, options.vhacd_params, missing)
    if parts:
        _keep(file, parts)
    return parts


def _if_readable(path: Path, option: str, read: Callable[[], T]) -> T | None:
    """The result of `read`; None after a warning if the file cannot be read as triangles: MuJoCo may still read it."""
    try:
        return read()
    except UNREADABLE as error:
        _warn_once(
            path,
            "%s: %s asks for convex pieces, but its triangles cannot be read (%s): it collides as one convex hull. "
            "Next: convert it to .obj or binary .stl, or leave that option out",
            path, option, " ".join(str(error).split()) or type(error).__name__,
        )  # fmt: skip
        return None


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "livegym" / "convex"


def _digest(path: Path, params: VhacdParams) -> str:
    wanted = (VERSION, CONCAVITY, HOLLOW, params.max_convex_hulls, params.max_num_vertices_per_ch)
    return hashlib.sha256(path.read_bytes() + path.suffix.lower().encode() + repr(wanted).encode()).hexdigest()


def _triangles(path: Path) -> tuple[np.ndarray, np.ndarray]:
    import trimesh  # takes half a second, and few assets need it

    mesh = trimesh.load_mesh(path, process=True)
    return np.asarray(mesh.vertices, float), np.asarray(mesh.faces, int)


def _missing_share(vertices: np.ndarray, faces: np.ndarray) -> float:
    """The share of its convex hull that is outside of a mesh; an open surface has hardly any volume."""
    a, b, c = (vertices[faces[:, corner]] - vertices.mean(0) for corner in range(3))
    inside = abs(np.einsum("ni,ni->n", a, np.cross(b, c)).sum()) / 6.0
    return 1.0 - inside / max(_hull_volume(vertices), 1e-300)


def _hull_volume(vertices: np.ndarray) -> float:
    """The volume of a convex hull, by MuJoCo; 0 if the points lie in a plane."""
    size = float(np.ptp(vertices, axis=0).max()) or 1.0
    spec = mujoco.MjSpec()
    mesh = spec.add_mesh(name="hull", uservert=((vertices - vertices.mean(0)) / size).reshape(-1))
    mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
    body = spec.worldbody.add_body()
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="hull", density=1.0)
    try:
        return float(spec.compile().body_mass[1]) * size**3
    except ValueError:
        return 0.0


_warned: set[tuple[Path, str]] = set()


def _warn_once(path: Path, message: str, *values: object) -> None:
    if (path, message) not in _warned:
        _warned.add((path, message))
        log.warning(message, *values)


def _by_coacd(path: Path, vertices: np.ndarray, faces: np.ndarray, params: VhacdParams, missing: float) -> list[Piece]:
    try:
        import coacd
    except ImportError:
        _warn_once(
            path,
            "%s: vhacd_enabled asks for convex pieces, and its convex hull fills %.0f %% that the mesh leaves empty, "
            "but coacd is not installed: it collides as the solid hull. Next: %s",
            path, 100.0 * missing, INSTALL,
        )  # fmt: skip
        return []
    log.info("%s: decomposing it into convex pieces, once for each user and mesh", path)
    coacd.set_log_level("error")
    found = coacd.run_coacd(
        coacd.Mesh(vertices, faces),
        threshold=CONCAVITY,
        max_convex_hull=params.max_convex_hulls,
        max_ch_vertex=max(4, params.max_num_vertices_per_ch),
        decimate=True,
        seed=0,
    )
    return [Piece(np.asarray(points, float), np.asarray(corners, int)) for points, corners in found]


def _keep(file: Path, parts: list[Piece]) -> None:
    """Write pieces, complete or not at all. A folder that cannot be written is a warning: the pieces are there."""
    arrays: dict[str, Any] = {}
    for number, part in enumerate(parts):
        arrays[f"v{number}"], arrays[f"f{number}"] = part
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_bytes(file, stream.getvalue())
    except OSError as error:
        log.warning(
            "the convex pieces of a mesh cannot be kept (%s): the next start computes them again. Next: let %s be "
            "written, or name another folder with XDG_CACHE_HOME=<folder>",
            error, file.parent,
        )  # fmt: skip


def _read(file: Path) -> list[Piece]:
    """The pieces that were kept; [] if there are none, or if the file is damaged."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return [Piece(arrays[f"v{number}"], arrays[f"f{number}"]) for number in range(len(arrays.files) // 2)]
    except NOT_THERE:  # _keep names a folder that cannot be used
        return []
    except (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        log.warning("%s: these convex pieces cannot be read (%s), so they are computed again", file, error)
        return []


def _objects(path: Path) -> list[Piece]:
    """The objects and groups of an .obj file, each by the vertices of its faces."""
    vertices: list[list[float]] = []
    used: list[set[int]] = [set()]
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        word, *rest = line.split() or [""]
        if word == "v":
            vertices.append([float(number) for number in rest[:3]])
        elif word in ("o", "g") and used[-1]:
            used.append(set())
        elif word == "f":
            corners = [int(corner.partition("/")[0]) for corner in rest]
            used[-1].update(corner - 1 if corner > 0 else len(vertices) + corner for corner in corners)
    points = np.array(vertices, float).reshape(-1, 3)
    return [Piece(points[sorted(corners)], np.zeros((0, 3), int)) for corners in used if len(corners) > 3]

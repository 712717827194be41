"""Static ground: a plane, height fields, and triangle meshes that are height fields.

MuJoCo's meshes are convex hulls, so a terrain mesh becomes an `hfield`. A mesh that our own `terrain_utils` made from a
height field is recognised by its vertices, and the height field itself is used. Any other mesh is rasterised on its own
grid: the coordinates of its vertices, if they are multiples of one spacing.

    field = from_mesh(vertices, triangles, friction)   # raises UserError with what cannot be rasterised

A vertical wall becomes a slope of one cell's width. The heights of a cell's corners are exact.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field

import mujoco
import numpy as np

from livegym.compat.core.collision import EVERYTHING
from livegym.compat.core.values import PlaneParams
from livegym.utils.errors import UserError

MAX_SAMPLES = 1 << 24
"""Samples of the largest height field: 128 MiB in MuJoCo's float32 and float64 copies."""
BELOW = 0.1
"""Thickness of a height field below its lowest point, m."""
REMEMBERED = 8
PLANE = "ground"
"""The name of the plane's geom."""
WIDTH = 3
"""Width of the smallest overhang that is refused, cells; narrower ones are filled."""


@dataclass(frozen=True)
class Field:
    """A height field: the corner sample [0, 0] is at `origin`, samples go along x, then y."""

    heights: np.ndarray  # (nx, ny) m
    spacing: tuple[float, float]  # m along x and y
    origin: tuple[float, float, float]
    friction: float
    restitution: float = 0.0
    segmentation: int = 0


@dataclass
class Ground:
    """Static shapes, the same in every environment."""

    plane: PlaneParams | None = None
    fields: list[Field] = field(default_factory=list)

    @property
    def friction(self) -> float:
        """The friction coefficient with which a shape's own is averaged; 1 if there is nothing to stand on."""
        if self.fields:
            return self.fields[0].friction
        return 1.0 if self.plane is None else float(self.plane.dynamic_friction)

    @property
    def restitution(self) -> float:
        """The coefficient of restitution with which a shape's own is averaged; 0 if there is nothing to fall on."""
        if self.fields:
            return self.fields[0].restitution
        return 0.0 if self.plane is None else float(self.plane.restitution)

    @property
    def segmentations(self) -> dict[str, int]:
        """The number of each shape in segmentations, by the name of its geom."""
        plane = {} if self.plane is None else {PLANE: int(self.plane.segmentation_id)}
        return plane | {_name(number): one.segmentation for number, one in enumerate(self.fields)}


_MADE: OrderedDict[bytes, tuple[np.ndarray, float]] = OrderedDict()


def remember(vertices: np.ndarray, heights: np.ndarray, spacing: float) -> None:
    """Keep the height field (m) from which a mesh was made, until REMEMBERED others were made."""
    _MADE[_digest(vertices)] = (np.array(heights, np.float64), spacing)
    while len(_MADE) > REMEMBERED:
        _MADE.popitem(last=False)


def _digest(vertices: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(vertices, np.float32).tobytes(), digest_size=16).digest()


def from_heights(
    samples: np.ndarray, spacing: tuple[float, float], scale: float, origin: tuple[float, float, float], friction: float
) -> Field:
    """Return the field of integer `samples` (nx, ny), each `scale` metres high."""
    return Field(np.asarray(samples, np.float64) * scale, spacing, origin, friction)


def samples_of(samples: np.ndarray, along_x: int, along_y: int) -> np.ndarray:
    """Return samples as (along_x, along_y). Raises UserError if there are not as many."""
    if samples.size != along_x * along_y or not samples.size:
        raise UserError(
            f"add_heightfield: {samples.size} samples were given, but nbColumns={along_x} along x by nbRows={along_y} "
            f"along y make {along_x * along_y}. Set both to the size of the samples."
        )
    return np.ascontiguousarray(samples).reshape(along_x, along_y)


def check_counts(vertices: np.ndarray, triangles: np.ndarray, vertex_count: int, triangle_count: int) -> None:
    """Raises UserError if a mesh of `vertices` (3 numbers each) and `triangles` (3 indices each) has other counts."""
    for name, count, values in (("vertices", vertex_count, vertices), ("triangles", triangle_count, triangles)):
        if 3 * count != values.size:
            raise UserError(
                f"add_triangle_mesh: nb_{name}={count}, but {values.size / 3:g} were given. Set nb_{name} to their "
                "number."
            )


def from_mesh(
    vertices: np.ndarray, triangles: np.ndarray, origin: tuple[float, float, float], friction: float
) -> Field:
    """Return the height field of a triangle mesh: vertices (n, 3) m, triangles (m, 3) indices.

    Raises UserError if the mesh is not the surface of a height field.
    """
    vertices = np.asarray(vertices, np.float32).reshape(-1, 3)
    triangles = np.asarray(triangles, np.int64).reshape(-1, 3)
    _check(vertices, triangles)
    made = _MADE.get(_digest(vertices))
    if made is not None:
        known, side = made
        return Field(known, (side, side), origin, friction)
    corners = vertices.astype(np.float64)[triangles]  # (m, 3, 3)
    corner, spacing, shape = _grid(vertices)
    heights = _rasterise(corners, corner, spacing, shape)
    if np.isneginf(heights).all():
        raise UserError("add_triangle_mesh: no triangle faces up, so there is nothing to stand on.")
    heights[np.isneginf(heights)] = vertices[:, 2].min()
    place = (origin[0] + corner[0], origin[1] + corner[1], origin[2])
    return Field(heights, spacing, place, friction)


def _check(vertices: np.ndarray, triangles: np.ndarray) -> None:
    if not len(triangles) or not len(vertices):
        raise UserError("add_triangle_mesh: the mesh has no triangles.")
    if not np.isfinite(vertices).all():
        raise UserError("add_triangle_mesh: a vertex is not finite.")
    if triangles.min() < 0 or triangles.max() >= len(vertices):
        raise UserError(
            f"add_triangle_mesh: a triangle names vertex {triangles.max()}; the mesh has {len(vertices)} vertices."
        )


def _grid(vertices: np.ndarray) -> tuple[np.ndarray, tuple[float, float], tuple[int, int]]:
    """The corner, spacing and number of samples along x and y of the grid on which the vertices lie."""
    corner = vertices[:, :2].min(0).astype(np.float64)
    axes = [_spacing(vertices[:, axis], name) for axis, name in ((0, "x"), (1, "y"))]
    shape = (axes[0][1], axes[1][1])
    if shape[0] * shape[1] > MAX_SAMPLES:
        raise UserError(
            f"add_triangle_mesh: {shape[0]} x {shape[1]} samples are needed to rasterise this mesh, more than "
            f"{MAX_SAMPLES}. Use a coarser grid, or add_heightfield."
        )
    return corner, (axes[0][0], axes[1][0]), shape


def _spacing(values: np.ndarray, axis: str) -> tuple[float, int]:
    """The spacing of regular coordinates and their number: the largest that divides all distances."""
    extent = float(values.max()) - float(values.min())
    if extent <= 0:
        raise UserError(f"add_triangle_mesh: all vertices have the same {axis}, so the mesh has no area to stand on.")
    tolerance = 1e-5 * max(float(np.abs(values).max()), 1e-3)  # some rounding errors of float32
    different = np.sort(values.astype(np.float64))
    gaps = np.diff(different)
    gaps = gaps[gaps > 4 * tolerance]
    spacing = extent / max(round(extent / float(gaps.min())), 1)
    offset = (different - different[0]) / spacing
    if np.abs(offset - np.round(offset)).max() * spacing > max(8 * tolerance, 0.02 * spacing):
        raise UserError(
            f"add_triangle_mesh: the {axis} coordinates of the vertices are not multiples of one spacing (the smallest "
            f"distance is {gaps.min():.4g} m), so the mesh cannot become a height field. MuJoCo collides with height "
            "fields and convex hulls only: place the vertices on a regular grid, or use add_heightfield."
        )
    return spacing, round(extent / spacing) + 1


def _rasterise(
    corners: np.ndarray, corner: np.ndarray, spacing: tuple[float, float], shape: tuple[int, int]
) -> np.ndarray:
    """The highest surface above each grid point, (nx, ny); -inf if there is none."""
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    cell = spacing[0] * spacing[1]
    flat = np.abs(area) > 1e-9 * cell  # not vertical
    _refuse_overhang(corners[flat], area[flat], corner, np.array(spacing))
    flat &= area > 0
    grid = np.array(spacing)
    low = np.round((corners[..., :2].min(1) - corner) / grid).astype(int)
    high = np.round((corners[..., :2].max(1) - corner) / grid).astype(int)
    out = np.full(shape, -np.inf)
    span = high - low
    small = flat & (span <= 4).all(1)
    for i in range(5):
        for j in range(5):
            use = small & (span[:, 0] >= i) & (span[:, 1] >= j)
            _raise(out, corners[use], low[use] + (i, j), corner, grid)
    for number in np.flatnonzero(flat & ~small):
        along, across = np.meshgrid(*(np.arange(low[number, a], high[number, a] + 1) for a in (0, 1)), indexing="ij")
        points = np.stack([along.ravel(), across.ravel()], 1)
        _raise(out, np.broadcast_to(corners[number], (len(points), 3, 3)), points, corner, grid)
    return out


def _raise(out: np.ndarray, corners: np.ndarray, index: np.ndarray, corner: np.ndarray, grid: np.ndarray) -> None:
    """Raise the surface to the triangles' (n, 3, 3) heights at grid points (n, 2), if they are inside."""
    point = corner + index * grid - corners[:, 0, :2]
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    u = (point[:, 0] * second[:, 1] - point[:, 1] * second[:, 0]) / area
    v = (first[:, 0] * point[:, 1] - first[:, 1] * point[:, 0]) / area
    inside = (u > -1e-3) & (v > -1e-3) & (u + v < 1 + 1e-3)
    height = corners[:, 0, 2] + u * first[:, 2] + v * second[:, 2]
    np.maximum.at(out, (index[inside, 0], index[inside, 1]), height[inside])


def _refuse_overhang(corners: np.ndarray, area: np.ndarray, corner: np.ndarray, grid: np.ndarray) -> None:
    """A face that looks down may be the underside of the whole mesh, or one of a narrow fold, as at a wall's foot."""
    raised = corners[..., 2].max(1) > corners[..., 2].min() + 1e-3
    down = corners[(area < 0) & raised]
    if not len(down) or not (area > 0).any():
        return
    cells = np.floor((down[..., :2].mean(1) - corner) / grid).astype(int)
    mask = np.zeros(cells.max(0) + WIDTH, bool)
    mask[tuple(cells.T)] = True
    block = np.ones(mask.shape - np.array([WIDTH - 1, WIDTH - 1]), bool)
    for i in range(WIDTH):
        for j in range(WIDTH):
            block &= mask[i : i + block.shape[0], j : j + block.shape[1]]
    if block.any():
        x, y = corner + (np.argwhere(block)[0] + 0.5 * WIDTH) * grid
        raise UserError(
            f"add_triangle_mesh: faces around x = {x:.3g}, y = {y:.3g} look down, so there is room below them: an "
            "overhang cannot become a height field. Leave it out, or add it as a box with create_box and fix_base_link."
        )


def add(spec: mujoco.MjSpec, ground: Ground) -> None:
    """Add plane and height fields to a model; they touch every shape and nothing else."""
    plane = ground.plane
    if plane is not None:
        quat = np.zeros(4)
        normal = np.array([plane.normal.x, plane.normal.y, plane.normal.z], float)
        mujoco.mju_quatZ2Vec(quat, normal)
        spec.worldbody.add_geom(
            name=PLANE,
            type=mujoco.mjtGeom.mjGEOM_PLANE,
            size=[0, 0, 1],
            pos=normal / np.linalg.norm(normal) * plane.distance,
            quat=quat,
            **_surface(plane.dynamic_friction),
        )
    for number, one in enumerate(ground.fields):
        _add_field(spec, one, _name(number))


def _name(number: int) -> str:
    return f"terrain{number}"


def _surface(friction: float) -> dict:
    return {"contype": 0, "conaffinity": EVERYTHING, "condim": 3, "friction": [float(friction), 0.005, 0.0001]}


def _add_field(spec: mujoco.MjSpec, field: Field, name: str) -> None:
    nx, ny = field.heights.shape
    low = float(field.heights.min())
    rise = max(float(field.heights.max()) - low, 1e-6)
    half = [(n - 1) * step / 2 for n, step in zip((nx, ny), field.spacing, strict=True)]
    spec.add_hfield(
        name=name,
        nrow=ny,
        ncol=nx,
        size=[*half, rise, BELOW],
        userdata=((field.heights.T - low) / rise).astype(np.float32).ravel(),
    )
    x, y, z = field.origin
    spec.worldbody.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_HFIELD,
        hfieldname=name,
        pos=[x + half[0], y + half[1], z + low],
        **_surface(field.friction),
    )

"""The triangles of bodies as a browser gets them: small, with normals, and as one binary glTF file (GLB).

    mesh = mesh_of(model, [geom, other], most_faces=20_000)     # one mesh of several geoms, in the frame of their body
    glb = glb_of(mesh)                                          # bytes

A robot's meshes come from CAD, with up to a million faces, of which a page of a thousand pixels cannot show a tenth. A
mesh of more than `most_faces` is thinned by vertex clustering (Rossignac and Borrel 1993): vertices in one cell of a
grid become one, and faces that collapse are dropped. Arrays are float32 from the start, because a process keeps the
memory of its largest intermediate result.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass

import mujoco
import numpy as np
import trimesh
from mjviser.conversions import create_primitive_mesh, merge_geoms
from trimesh.exchange.gltf import export_glb

CREASE_DEG = 40.0  # faces that meet at a larger angle keep an edge
ROUGHNESS = 0.55  # of the material: satin, with a soft highlight
CAPSULE = [16, 20]  # vertices along and around; smooth normals hide the rest
FIRST_CELLS, TRIES = 200, 6  # cells along the longest side of a mesh: first guess, and tries to improve it
CLOSE, AIM = 0.85, 0.95  # parts of the allowed faces: enough, and what a try aims at
MOST_NEIGHBOURS = 64  # faces at one vertex that are looked at for its normal
ARRAY, ELEMENTS = 34962, 34963  # glTF's names for vertices and indices
TYPES = {"f": 5126, "I": 5125, "H": 5123}  # numpy's letters -> glTF's numbers


@dataclass(frozen=True)
class Mesh:
    """Triangles with a colour for each vertex."""

    vertices: np.ndarray  # (V, 3) float32, m
    faces: np.ndarray  # (F, 3) uint32
    colours: np.ndarray  # (V, 4) float32, sRGB and opacity, 0 to 1


def glb_of_geoms(model: mujoco.MjModel, geoms: list[int], most_faces: int, local: bool = False) -> bytes:
    """The geoms as a GLB, in the frame of their body, or if `local` in their own; `most_faces` of one mesh."""
    if not local and any(has_image(model, geom) for geom in geoms):  # an image goes with its own vertices
        return bytes(export_glb(trimesh.Scene(merge_geoms(model, geoms)), include_normals=True))
    return glb_of(mesh_of(model, geoms, most_faces, local))


def has_image(model: mujoco.MjModel, geom: int) -> bool:
    """True if an image is drawn on the geom."""
    kind, material = model.geom_type[geom], model.geom_matid[geom]
    may_have_one = kind == mujoco.mjtGeom.mjGEOM_MESH or kind == mujoco.mjtGeom.mjGEOM_HFIELD
    return bool(may_have_one) and material >= 0 and bool(model.mat_texid[material].max() >= 0)


def mesh_of(model: mujoco.MjModel, geoms: list[int], most_faces: int, local: bool = False) -> Mesh:
    """The geoms as one mesh, in their body's frame; `local`: each in its own frame."""
    parts = [_placed(model, geom, most_faces, local) for geom in geoms]
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    return Mesh(
        np.concatenate([part.vertices for part in parts]),
        np.concatenate([part.faces + np.uint32(start) for part, start in zip(parts, starts, strict=False)]),
        np.concatenate([part.colours for part in parts]),
    )


def faces_in(model: mujoco.MjModel, geom: int) -> int:
    """The number of faces of a geom's mesh; 0 for other shapes."""
    is_mesh = model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH
    return int(model.mesh_facenum[model.geom_dataid[geom]]) if is_mesh else 0


def _placed(model: mujoco.MjModel, geom: int, most_faces: int, local: bool) -> Mesh:
    vertices, faces = _triangles(model, geom)
    vertices, faces = thinned(vertices, faces, most_faces)
    if not local:
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom])
        vertices = (vertices @ turn.reshape(3, 3).T + model.geom_pos[geom]).astype(np.float32)
    material = model.geom_matid[geom]
    colour = model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom]
    return Mesh(vertices, faces, np.tile(np.float32(colour), (len(vertices), 1)))


def _triangles(model: mujoco.MjModel, geom: int) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 3) float32 in the geom's frame, and faces (F, 3) uint32."""
    if model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_MESH:
        shape = _shape(model, geom)
        return np.asarray(shape.vertices, np.float32), np.asarray(shape.faces, np.uint32)
    mesh = model.geom_dataid[geom]
    vertex, face = model.mesh_vertadr[mesh], model.mesh_faceadr[mesh]
    vertices = model.mesh_vert[vertex : vertex + model.mesh_vertnum[mesh]]
    faces = model.mesh_face[face : face + model.mesh_facenum[mesh]]
    return np.asarray(vertices, np.float32), np.asarray(faces, np.uint32)


def _shape(model: mujoco.MjModel, geom: int) -> trimesh.Trimesh:
    """A shape that is not a mesh; round ones as fine as smooth normals need."""
    kind, size = model.geom_type[geom], model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
        return trimesh.creation.capsule(2 * size[1], size[0], count=CAPSULE)
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return trimesh.creation.icosphere(3, size[0])
    return create_primitive_mesh(model, geom)


def thinned(vertices: np.ndarray, faces: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The mesh itself if it has at most `most` faces, else one of fewer vertices and at most `most` faces."""
    if len(faces) <= most:
        return vertices, faces
    low = vertices.min(0)
    longest = max(float(np.ptp(vertices, axis=0).max()), 1e-9)
    cells, fewest = FIRST_CELLS, 1
    for _ in range(TRIES):
        cluster = _clusters(vertices, low, longest / cells)
        left = len(_whole(cluster.astype(np.uint32)[faces]))
        if CLOSE * most <= left <= most:
            break
        fewest = cells if left <= most else fewest
        cells = max(fewest, int(cells * math.sqrt(AIM * most / max(left, 1))))
    while left > most:
        cells = max(1, int(0.9 * cells))
        cluster = _clusters(vertices, low, longest / cells)
        left = len(_whole(cluster.astype(np.uint32)[faces]))
    return _merged(vertices, faces, cluster)


def _clusters(vertices: np.ndarray, low: np.ndarray, edge: float) -> np.ndarray:
    """(V,): the number of the cell of a grid in which each vertex is; `edge`: of a cell, in m."""
    x, y, z = ((vertices - low) / edge).astype(np.int64).T
    return np.unique((x << 40) | (y << 20) | z, return_inverse=True)[1]


def _whole(corners: np.ndarray) -> np.ndarray:
    """The faces (F, 3) with three different corners."""
    a, b, c = corners.T
    return corners[(a != b) & (b != c) & (a != c)]


def _merged(vertices: np.ndarray, faces: np.ndarray, cluster: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mesh with the mean of each cluster of vertices as its only vertex."""
    counts = np.bincount(cluster)
    means = np.stack([np.bincount(cluster, column) / counts for column in vertices.T], axis=1)
    corners = _whole(cluster.astype(np.uint32)[faces])
    _, first = np.unique(np.sort(corners, axis=1), axis=0, return_index=True)  # two sheets may become one
    used, corners = np.unique(corners[first], return_inverse=True)
    return means[used].astype(np.float32), corners.reshape(-1, 3).astype(np.uint32)


def glb_of(mesh: Mesh) -> bytes:
    """A GLB of one mesh: positions, normals, colours, and one satin material."""
    vertex, normals, faces = _creased(mesh.vertices, mesh.faces)
    vertices, colours = mesh.vertices[vertex], mesh.colours[vertex]
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)  # glTF's colours are
    linear[:, 3] = colours[:, 3]
    arrays = {
        "POSITION": vertices,
        "NORMAL": np.float32(normals) / 127,
        "COLOR_0": np.round(65535 * linear.clip(0, 1)).astype(np.uint16),
        "indices": faces.astype(np.uint32).ravel(),
    }
    binary = b"".join(array.tobytes() for array in arrays.values())
    text = json.dumps(_description(arrays, bool(colours[:, 3].min() < 1.0))).encode()
    text += b" " * (-len(text) % 4)
    header = struct.pack("<4sII", b"glTF", 2, 28 + len(text) + len(binary))
    return b"".join(
        [header, struct.pack("<I4s", len(text), b"JSON"), text, struct.pack("<I4s", len(binary), b"BIN\0"), binary]
    )


def _description(arrays: dict[str, np.ndarray], translucent: bool) -> dict[str, object]:
    """glTF's description of the arrays, which follow each other in one buffer."""
    views: list[dict[str, object]] = []
    accessors: list[dict[str, object]] = []
    start = 0
    for index, (name, array) in enumerate(arrays.items()):
        target = ELEMENTS if name == "indices" else ARRAY
        views.append({"buffer": 0, "byteOffset": start, "byteLength": array.nbytes, "target": target})
        start += array.nbytes
        kind = {"indices": "SCALAR", "COLOR_0": "VEC4"}.get(name, "VEC3")
        accessors.append(
            {"bufferView": index, "componentType": TYPES[array.dtype.char], "count": len(array), "type": kind}
        )
        if name == "COLOR_0":
            accessors[-1]["normalized"] = True
        if name == "POSITION":
            accessors[-1] |= {"min": array.min(0).tolist(), "max": array.max(0).tolist()}
    names = list(arrays)
    attributes = {name: index for index, name in enumerate(names) if name != "indices"}
    surface = {"metallicFactor": 0.0, "roughnessFactor": ROUGHNESS}
    blending = {"alphaMode": "BLEND"} if translucent else {}
    return {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": attributes, "indices": names.index("indices"), "material": 0}]}],
        "materials": [{"pbrMetallicRoughness": surface, **blending}],
        "buffers": [{"byteLength": start}],
        "bufferViews": views,
        "accessors": accessors,
    }


def _creased(vertices: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Normals that are smooth except at edges of more than CREASE_DEG, where a vertex is needed once for each side.

    Returns the vertex of each new vertex (W,), its normal (W, 3) int8, and the faces (F, 3) of new vertices.
    """
    corner_vertex = faces.ravel().astype(np.int64)
    across = [vertices[faces[:, side]] - vertices[faces[:, 0]] for side in (1, 2)]
    areas = np.cross(*across)  # (F, 3), as long as twice the area
    flat = areas / np.maximum(np.linalg.norm(areas, axis=1, keepdims=True), 1e-20)
    order = np.argsort(corner_vertex, kind="stable")
    counts = np.bincount(corner_vertex)
    starts = np.cumsum(counts) - counts
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order)) - starts[corner_vertex[order]]
    face = np.arange(len(corner_vertex)) // 3
    summed = np.zeros((len(corner_vertex), 3))
    for step in range(min(int(counts.max()), MOST_NEIGHBOURS)):  # the step-th other corner at the same vertex
        corners = np.flatnonzero(counts[corner_vertex] > step)
        vertex = corner_vertex[corners]
        other = order[starts[vertex] + (rank[corners] + step) % counts[vertex]] // 3
        joined = np.einsum("ij,ij->i", flat[face[corners]], flat[other]) > math.cos(math.radians(CREASE_DEG))
        summed[corners] += areas[other] * joined[:, None]
    lengths = np.linalg.norm(summed, axis=1, keepdims=True)
    normals = np.round(127 * summed / np.maximum(lengths, 1e-20)).astype(np.int8)
    packed = normals.view(np.uint8).astype(np.int64) @ [1 << 16, 1 << 8, 1]
    _, first, corner = np.unique((corner_vertex << 24) | packed, return_index=True, return_inverse=True)
    return corner_vertex[first], normals[first], corner.reshape(-1, 3)

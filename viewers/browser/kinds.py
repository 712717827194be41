"""Which geoms of a model a browser draws as one mesh, and with which frames that mesh moves.

    for kind in kinds_of(model):
        kind.geoms, kind.frames     # the geoms of one mesh, and the frames in which it is drawn

The geoms of a body form one mesh, and bodies of the same look share it. A mesh asset that is large, and that several
kinds of body would each contain, is drawn by itself, so that a browser gets it once. A frame is a body's or, for such a
mesh, a geom's: frame `model.nbody + geom`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import mujoco
import numpy as np
from mjviser.conversions import is_fixed_body

from livegym.viewers.browser.meshes import faces_in, has_image

VISIBLE_GROUPS = 3  # geoms of higher groups are collision shapes and the like, as in MuJoCo's own viewer
LARGE = 2000  # faces from which a mesh is worth a frame of its own


@dataclass(frozen=True)
class Kind:
    """One mesh, and where it is drawn in each environment."""

    geoms: list[int]
    frames: np.ndarray  # (B,) indices: a body, or model.nbody + a geom
    of_geom: bool  # the frames are of geoms, not of bodies


def kinds_of(model: mujoco.MjModel) -> list[Kind]:
    """All that is drawn of one environment."""
    bodies = _alike(model, [(body, visible_geoms(model, body)) for body in range(model.nbody)])
    held = Counter(mesh for geoms, _ in bodies for mesh in {_large_mesh(model, geom) for geom in geoms})
    apart = {mesh for mesh, kinds in held.items() if mesh is not None and kinds > 1}
    rest = []
    alone: dict[tuple, list[int]] = {}
    for _, members in bodies:
        for body in members:
            own = visible_geoms(model, body)
            rest.append((body, [geom for geom in own if _large_mesh(model, geom) not in apart]))
            for geom in own:
                if _large_mesh(model, geom) in apart:
                    alone.setdefault(_surface(model, geom), []).append(geom)
    together = [Kind(geoms, np.array(members), False) for geoms, members in _alike(model, rest)]
    return together + [Kind(geoms[:1], model.nbody + np.array(geoms), True) for geoms in alone.values()]


def visible_geoms(model: mujoco.MjModel, body: int) -> list[int]:
    """The body's geoms that are drawn."""
    return [
        geom
        for geom in range(model.body_geomadr[body], model.body_geomadr[body] + model.body_geomnum[body])
        if model.geom_group[geom] < VISIBLE_GROUPS
        and model.geom_rgba[geom, 3] > 0
        and model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_PLANE
    ]


def _large_mesh(model: mujoco.MjModel, geom: int) -> int | None:
    """The mesh of a geom, if it is large and of one colour."""
    large = faces_in(model, geom) >= LARGE and not has_image(model, geom)
    return int(model.geom_dataid[geom]) if large else None


def _alike(model: mujoco.MjModel, bodies: list[tuple[int, list[int]]]) -> list[tuple[list[int], list[int]]]:
    """(geoms of the first, bodies) of those with geoms, grouped by look; fixed and movable ones are apart."""
    groups: dict[tuple, tuple[list[int], list[int]]] = {}
    for body, geoms in bodies:
        if geoms:
            look = tuple(_surface(model, geom) + _place(model, geom) for geom in geoms)
            groups.setdefault((is_fixed_body(model, body), look), (geoms, []))[1].append(body)
    return list(groups.values())


def _surface(model: mujoco.MjModel, geom: int) -> tuple:
    kind = (model.geom_type[geom], model.geom_dataid[geom], model.geom_matid[geom])
    return tuple(map(int, kind)) + _rounded(model.geom_size[geom]) + _rounded(model.geom_rgba[geom])


def _place(model: mujoco.MjModel, geom: int) -> tuple:
    return _rounded(model.geom_pos[geom]) + _rounded(model.geom_quat[geom])


def _rounded(values: np.ndarray) -> tuple:
    return tuple(np.round(values, 6).tolist())

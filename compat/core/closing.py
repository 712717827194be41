"""How fast shapes come near to others, without a search for contacts.

    closing = Closing(model)
    closing.speeds(geoms, velocity, origins, centres, radii, seconds=0.01)    # (N, k) m/s

A contact bounces if its two points approach each other faster than a threshold. Before a step, contacts and their
normals are not known. Of two shapes whose bounding spheres may meet in it, the greatest relative speed of a point of
the first is taken: that of its centre, and the radius times the relative angular velocity for any but spheres, whose
surface does not come nearer by turning. On a plane, only the part along its normal counts. So what rests on, or rolls
along, a body that moves fast is not fast. Shapes that cannot collide do not count.
"""

from __future__ import annotations

import mujoco
import numpy as np

from livegym.compat.core import rotation
from livegym.compat.core.frames import rotation as matrix_of

PLANE, SPHERE = int(mujoco.mjtGeom.mjGEOM_PLANE), int(mujoco.mjtGeom.mjGEOM_SPHERE)


class Closing:
    """The shapes of one model, and which of them may touch."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._others = np.flatnonzero((model.geom_contype != 0) | (model.geom_conaffinity != 0))
        self._touching: dict[int, np.ndarray] = {}  # geom -> the others that it may touch

    def speeds(
        self,
        geoms: np.ndarray,
        velocity: np.ndarray,
        origins: np.ndarray,
        centres: np.ndarray,
        radii: np.ndarray,
        seconds: float,
    ) -> np.ndarray:
        """(N, k) m/s of `geoms` (k,): 0 of one that nothing can come near to in so many seconds.

        Args:
            velocity: (N, bodies, 6) angular and linear velocity in world axes, the linear one at `origins`.
            origins: (N, bodies, 3) m.
            centres: (N, geoms, 3) m, of all shapes.
            radii: (N, geoms) m, of their bounding spheres.
        """
        found = np.zeros((len(velocity), len(geoms)))
        for column, geom in enumerate(geoms.tolist()):
            others = self._touched_by(geom)
            if not others.size:
                continue
            at = centres[:, geom, None]  # (N, 1, 3)
            own = int(self._model.geom_bodyid[geom])
            bodies = self._model.geom_bodyid[others]
            turn = velocity[:, own, None, :3] - velocity[:, bodies, :3]  # (N, others, 3)
            speed = _at(velocity, origins, [own], at) - _at(velocity, origins, bodies, at)
            gap = np.linalg.norm(at - centres[:, others], axis=-1) - radii[:, others]
            fast = np.linalg.norm(speed, axis=-1)
            for place in np.flatnonzero(self._model.geom_type[others] == PLANE):
                normal = matrix_of(self._model.geom_quat[others[place]])[:, 2]
                gap[:, place] = (at[:, 0] - centres[:, others[place]]) @ normal
                fast[:, place] = np.maximum(0.0, -speed[:, place] @ normal)
            if self._model.geom_type[geom] != SPHERE:
                fast += np.linalg.norm(turn, axis=-1) * radii[:, geom, None]
            near = gap <= radii[:, geom, None] + fast * seconds
            found[:, column] = np.where(near, fast, 0.0).max(1)
        return found

    def _touched_by(self, geom: int) -> np.ndarray:
        if geom not in self._touching:
            model = self._model
            meet = [other for other in self._others.tolist() if _may_touch(model, geom, other)]
            self._touching[geom] = np.array(meet, int)
        return self._touching[geom]


def _at(velocity: np.ndarray, origins: np.ndarray, bodies: np.ndarray | list[int], points: np.ndarray) -> np.ndarray:
    """(N, bodies, 3) the velocity of points (N, 1, 3) that are carried by bodies."""
    return velocity[:, bodies, 3:] + rotation.cross(velocity[:, bodies, :3], points - origins[:, bodies])


def _may_touch(model: mujoco.MjModel, one: int, other: int) -> bool:
    """Whether MuJoCo looks for contacts of two geoms: by their bits, their bodies and the excluded bodies."""
    types, affinities = model.geom_contype, model.geom_conaffinity
    if not (types[one] & affinities[other] or types[other] & affinities[one]):
        return False
    bodies = model.geom_bodyid[[one, other]]
    welds = model.body_weldid[bodies]
    if welds[0] == welds[1]:
        return False
    parents = model.body_weldid[model.body_parentid[welds]]
    if welds.all() and (welds[0] == parents[1] or welds[1] == parents[0]):
        return False
    low, high = sorted(bodies.tolist())
    return ((low << 16) + high) not in set(model.exclude_signature.tolist())

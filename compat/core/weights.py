"""How hard limits and contacts are: MuJoCo's inverse weights of bodies and DOFs, without its two exceptions.

    correct = Weights(model, geoms)         # `geoms` collide
    correct.model(model)                    # after mj_setConst

MuJoCo makes a constraint as soft as the inverse weight of its bodies and DOFs says: the mean diagonal of J M^-1 J^T, at
the centre of mass. Armature counts in M, so drives that are implicit by added armature (`drives.py`) count. There are
two exceptions:

- A body that only slides, without a child, has 1 / mass, without armature. A finger of 10 g that a drive holds like
  0.6 kg would go through its joint limit, and sink into what it grasps. Here armature counts for it, too.
- A body on hinges through its centre of mass has a translational weight of 0: that point cannot move, but its shapes
  can. A contact between two such fingers would be rigid, and the solver fails. Here it has the weight of a point of its
  shapes: 2/3 of the mean squared distance times the rotational weight. That is the mean of |r x n|^2 over all
  directions n, and what a cube with a free centre of mass has. It is at most 1 / mass.
"""

from __future__ import annotations

import mujoco
import numpy as np

from livegym.compat.core.frames import rotation

ONLY_SLIDES = 2
"""The value of body_simple for the first exception."""
SHARE = 0.1
"""The second exception is what has less than this share of the weight of a point of its shapes."""
TRANSLATING = (int(mujoco.mjtJoint.mjJNT_FREE), int(mujoco.mjtJoint.mjJNT_SLIDE))


class Weights:
    """Corrects the inverse weights that MuJoCo has computed for one model, or for environments of it."""

    def __init__(self, model: mujoco.MjModel, geoms: np.ndarray) -> None:
        self._sliders = np.flatnonzero(model.body_simple[model.dof_bodyid] == ONLY_SLIDES)
        self._sliding = model.dof_bodyid[self._sliders]
        turning = _turning(model)
        geoms = geoms[turning[model.geom_bodyid[geoms]]]
        self._owner = model.geom_bodyid[geoms]
        box = model.geom_aabb[geoms]
        turns = [rotation(quat) @ middle for quat, middle in zip(model.geom_quat[geoms], box[:, :3], strict=True)]
        self._middle = model.geom_pos[geoms] + np.array(turns).reshape(-1, 3)  # (geoms, 3) in the body's frame
        self._spread = (box[:, 3:] ** 2).sum(1) / 3.0  # mean squared distance from the middle of a box
        self._turning = np.unique(self._owner)

    def model(self, model: mujoco.MjModel) -> None:
        """Correct the weights of a model."""
        fields = (model.dof_invweight0, model.body_invweight0, model.dof_M0, model.body_mass, model.body_ipos)
        self.correct(*(field[None] for field in fields))

    def correct(
        self, dof: np.ndarray, body: np.ndarray, inertia: np.ndarray, mass: np.ndarray, com: np.ndarray
    ) -> None:
        """Correct dof_invweight0 (n, nv) and body_invweight0 (n, bodies, 2) in place.

        The others are those environments' dof_M0 (n, nv), body_mass (n, bodies) and body_ipos (n, bodies, 3).
        """
        if self._sliders.size:
            dof[:, self._sliders] = 1.0 / inertia[:, self._sliders]
            body[:, self._sliding, 0] = 0.0
            for slider, link in zip(self._sliders, self._sliding, strict=True):
                body[:, link, 0] += dof[:, slider] / 3.0
        for link in self._turning:
            own = self._owner == link
            arm = self._middle[own] - com[:, link, None]  # (n, geoms, 3)
            square = ((arm**2).sum(-1) + self._spread[own]).mean(1)
            point = 2.0 / 3.0 * square * body[:, link, 1]
            move = body[:, link, 0]
            body[:, link, 0] = np.where(move < SHARE * point, np.minimum(point, 1.0 / mass[:, link]), move)


def _turning(model: mujoco.MjModel) -> np.ndarray:
    """(bodies,) bool: bodies that no joint translates, of those that carry them neither."""
    out = np.ones(model.nbody, bool)
    for body in range(1, model.nbody):
        first = model.body_jntadr[body]
        kinds = model.jnt_type[first : first + model.body_jntnum[body]] if first >= 0 else []
        out[body] = out[model.body_parentid[body]] and not np.isin(kinds, TRANSLATING).any()
    return out

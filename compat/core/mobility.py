"""The inertia that a force on one DOF meets while all other DOFs give way: 1 / (M^-1)_ii.

    mobility = Mobility(model, layout.qvel, num_envs)
    mobility.inertia(armature)                 # (N, D) kg m^2 or kg

The diagonal M_ii is what it meets while they are locked, which is more. Masses and pose are those of the model, so
masses that are set later do not count; armature may differ between environments.
"""

from __future__ import annotations

from functools import cached_property

import mujoco
import numpy as np


class Mobility:
    """Remembers what it computed, because the armature of few environments changes at a time."""

    def __init__(self, model: mujoco.MjModel, at: np.ndarray, num_envs: int) -> None:
        """`at`: the addresses (D,) of the DOFs in qvel."""
        self._model = model
        self._at = at
        self._inertia = np.zeros((num_envs, len(at)))
        self._armature = np.full((num_envs, len(at)), np.nan)  # that `_inertia` was computed with

    def inertia(self, armature: np.ndarray) -> np.ndarray:
        """(N, D) inertia of the DOFs with that armature (N, D)."""
        changed = np.flatnonzero((armature != self._armature).any(1))
        if changed.size:
            different, which = np.unique(armature[changed], axis=0, return_inverse=True)
            mass = np.repeat(self._mass_matrix[None], len(different), 0)
            mass[:, self._at, self._at] += different
            met = 1.0 / np.linalg.inv(mass)[:, self._at, self._at]
            self._inertia[changed] = met[which.reshape(-1)]
            self._armature[changed] = armature[changed]
        return self._inertia

    @cached_property
    def _mass_matrix(self) -> np.ndarray:
        """(nv, nv) of the model in its own pose, without armature of DOFs."""
        model, data = self._model, mujoco.MjData(self._model)
        mass = np.zeros((model.nv, model.nv))
        mujoco.mj_forward(model, data)
        mujoco.mj_fullM(model, data, mass)
        mass[self._at, self._at] -= model.dof_armature[self._at]
        return mass

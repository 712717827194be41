"""How hard limits and contacts are for links that drives hold: inverse weights with the armature that drives add.

    weights.write(model)                 # after mj_setConst, which leaves armature out of them

MuJoCo makes a constraint as soft as the inverse weight of its bodies and DOFs says. `mj_setConst` computes that weight
from the links alone. Our drives are implicit because they add armature (`drives.py`): a finger of 10 g that a drive
holds like 0.6 kg would go through its joint limit, and sink into what it grasps.
"""

from __future__ import annotations

import copy

import mujoco
import numpy as np

FIELDS = ("dof_invweight0", "body_invweight0")


def write(model: mujoco.MjModel) -> None:
    """Write `FIELDS` as MuJoCo defines them, but with armature: the mean diagonal of J M^-1 J^T at qpos0."""
    if not model.nv:
        return
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    inverse = np.linalg.inv(mass)
    for joint in range(model.njnt):
        at = int(model.jnt_dofadr[joint])
        for part in _parts(int(model.jnt_type[joint]), at):
            model.dof_invweight0[part] = inverse.diagonal()[part].mean()
    jacobian = np.zeros((2, 3, model.nv))
    for body in np.flatnonzero(model.body_weldid):
        mujoco.mj_jacBodyCom(model, data, jacobian[0], jacobian[1], body)
        model.body_invweight0[body] = np.einsum("kij,jl,kil->k", jacobian, inverse, jacobian) / 3.0


def _parts(kind: int, at: int) -> list[slice]:
    """The DOFs that share a weight: those of a joint, position and rotation apart."""
    if kind == int(mujoco.mjtJoint.mjJNT_FREE):
        return [slice(at, at + 3), slice(at + 3, at + 6)]
    return [slice(at, at + (3 if kind == int(mujoco.mjtJoint.mjJNT_BALL) else 1))]


def ratios(model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """`FIELDS` of the model, divided by what `mj_setConst` computes."""
    plain = copy.copy(model)
    mujoco.mj_setConst(plain, mujoco.MjData(plain))
    made = {}
    for field in FIELDS:
        without, present = getattr(plain, field), getattr(model, field)
        made[field] = np.divide(present, without, out=np.ones_like(present), where=without > 0)
    return made

"""The slow, simple engine: one MjModel and one MjData for each environment, in a Python loop.

It is the reference for the fast engines, so it computes every field in another way than they do: from a full
mj_forward on a scratch copy, with mj_objectVelocity, mj_contactForce and mj_rnePostConstraint.
Force-like fields are read at the state *before* the last physics step, which is where that step evaluates them.
"""

from __future__ import annotations

import copy

import mujoco
import numpy as np
from torch import Tensor

from livegym.sim import model as mj
from livegym.sim.base import APPLIED
from livegym.sim.engine import Engine

STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)
BAD = [int(getattr(mujoco.mjtWarning, f"mjWARN_{name}")) for name in ("BADQPOS", "BADQVEL", "BADQACC", "BADCTRL")]
KINEMATICS = {  # field -> its name in MjData
    "body_pos_w": "xpos",
    "body_quat_w": "xquat",
    "site_pos_w": "site_xpos",
    "cinert": "cinert",
    "cvel": "cvel",
}


class ReferenceSimulator(Engine):
    """A Python loop over `num_envs` simulations; `sim.threads` is ignored."""

    def _open(self, model: mujoco.MjModel, fields: dict[str, Tensor]) -> None:
        self.models = [copy.copy(model) for _ in range(self.num_envs)]
        self.datas = [mujoco.MjData(model) for _ in range(self.num_envs)]
        self.scratch = mujoco.MjData(model)
        self.out = {name: values.numpy() for name, values in fields.items()}

    def _advance(self, ids: np.ndarray | None) -> np.ndarray | None:
        unstable = np.zeros(self.num_envs, dtype=bool)
        with np.errstate(over="ignore"):  # the numbers of an unstable environment, which is reported
            for i in range(self.num_envs) if ids is None else ids:
                unstable[i] = self._advance_one(i)
        return unstable

    def _advance_one(self, i: int) -> bool:
        """Advance environment i by one control step; returns whether it became unstable."""
        model, data = self.models[i], self.datas[i]
        data.ctrl[:] = self.out["ctrl"][i]
        if APPLIED in self.out:
            data.xfrc_applied[:] = self.out[APPLIED][i]
        before, warned = self._row(i), _bad_warnings(data)
        try:
            for _ in range(self.decimation - 1):
                mujoco.mj_step(model, data)
            self._read_forces(i)
            mujoco.mj_step(model, data)
        except mujoco.FatalError:
            mujoco.mj_setState(model, data, before, STATE)
            return True
        finally:
            self._read_kinematics(i)
        finite = np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all()
        return bool(_bad_warnings(data) > warned or not finite)

    def _forwarded(self, i: int) -> mujoco.MjData:
        """Scratch data with everything computed at environment i's state, which does not change."""
        mujoco.mj_copyData(self.scratch, self.models[i], self.datas[i])
        mujoco.mj_forward(self.models[i], self.scratch)
        return self.scratch

    def _read_forces(self, i: int) -> None:
        model, data = self.models[i], self._forwarded(i)
        if "cfrc_ext" in self.out:
            mujoco.mj_rnePostConstraint(model, data)
            self.out["cfrc_ext"][i] = data.cfrc_ext
        if "actuator_force" in self.out:
            self.out["actuator_force"][i] = data.actuator_force
        for k, (body, against) in enumerate(self.needs.contacts):
            self.out["contact_force_w"][i, k] = contact_force(model, data, body, against)
        self._read_sensors(i, data, forces=True)

    def _read_kinematics(self, i: int) -> None:
        self.out["qpos"][i], self.out["qvel"][i] = self.datas[i].qpos, self.datas[i].qvel
        model, data = self.models[i], self._forwarded(i)
        for name, value in KINEMATICS.items():
            if name in self.out:
                self.out[name][i] = getattr(data, value)
        if "body_vel_w" in self.out:
            self.out["body_vel_w"][i] = [body_velocity(model, data, body) for body in range(model.nbody)]
        self._read_sensors(i, data, forces=False)

    def _read_sensors(self, i: int, data: mujoco.MjData, forces: bool) -> None:
        for name in self.needs.sensors:
            if self._is_force(f"sensor:{name}") == forces:
                self.out[f"sensor:{name}"][i] = data.sensor(name).data

    def _refresh(self, ids: np.ndarray) -> None:
        for i in ids:
            self._read_kinematics(i)

    def _set_default(self, ids: np.ndarray) -> None:
        for i in ids:
            mujoco.mj_resetData(self.models[i], self.datas[i])

    def _state(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model = self.world.model
        qpos = np.array([self.datas[i].qpos for i in ids]).reshape(len(ids), model.nq)
        return qpos, np.array([self.datas[i].qvel for i in ids]).reshape(len(ids), model.nv)

    def _write_state(self, ids: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        for k, i in enumerate(ids):
            self.datas[i].qpos[:], self.datas[i].qvel[:] = qpos[k], qvel[k]

    def _row(self, i: int) -> np.ndarray:
        row = np.empty(mujoco.mj_stateSize(self.models[i], STATE))
        mujoco.mj_getState(self.models[i], self.datas[i], row, STATE)
        return row

    def _rows(self, ids: np.ndarray) -> np.ndarray:
        size = mujoco.mj_stateSize(self.world.model, STATE)
        return np.array([self._row(i) for i in ids]).reshape(len(ids), size)

    def _write_rows(self, ids: np.ndarray, rows: np.ndarray) -> None:
        for k, i in enumerate(ids):
            mujoco.mj_setState(self.models[i], self.datas[i], np.ascontiguousarray(rows[k]), STATE)

    def _expand(self, name: str) -> np.ndarray:
        return np.array([mj.model_field(model, name) for model in self.models])

    def _apply_model(self, ids: np.ndarray, set_const: bool) -> None:
        for i in ids:
            for name, values in self.model_fields.items():
                mj.set_model_field(self.models[i], name, values[i].numpy())
            if set_const:
                mujoco.mj_setConst(self.models[i], self.scratch)


def body_velocity(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> np.ndarray:
    """(6,) linear m/s, then angular rad/s, of a body frame's origin in world axes."""
    velocity = np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 0)
    return np.concatenate([velocity[3:], velocity[:3]])


def contact_force(model: mujoco.MjModel, data: mujoco.MjData, body: str, against: str | None) -> np.ndarray:
    """(3,) N: the sum of all contact forces on a body, or of those that one other body exerts on it; world frame."""
    net, wrench = np.zeros(3), np.zeros(6)
    for k, contact in enumerate(data.contact):
        bodies = [model.body(model.geom_bodyid[geom]).name for geom in contact.geom]
        if body not in bodies or against not in (None, *bodies):
            continue
        mujoco.mj_contactForce(model, data, k, wrench)
        force = contact.frame.reshape(3, 3).T @ wrench[:3]  # the frame's rows are its axes; x points to geom2
        net += force if bodies[1] == body else -force
    return net


def _bad_warnings(data: mujoco.MjData) -> int:
    return sum(data.warning[kind].number for kind in BAD)


make = ReferenceSimulator

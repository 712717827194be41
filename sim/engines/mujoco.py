"""The fast CPU engine: `mujoco.batch.Batch` on all cores.

    batch.step(nstep=decimation, stage=S)   # S: the lowest stage that the required fields need
    float32 fields <- one cast for each array that the batch copies out

A control step costs the batch's own step and those casts (a few microseconds for each field).

The batch keeps one MjData per thread, not one per environment. After `step`, every field that it copies out is the
environment's own. After `forward` up to POS or VEL, the force-like fields are still those of the thread's last
environment. So `_refresh`, which follows resets and outside writes, copies only kinematic fields, and only rows of
`ids`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch, SimulationError
from torch import Tensor

from livegym.sim import model as mj
from livegym.sim.base import APPLIED
from livegym.sim.engine import Engine
from livegym.utils.cores import cores

log = logging.getLogger(__name__)
Copies = list[tuple[np.ndarray, np.ndarray]]  # (float32 field, float64 array of the batch), both (N, ...)

# bad positions, velocities, accelerations and controls: the counters of NaN, infinite or huge values in MuJoCo
FIRST_BAD = int(mujoco.mjtWarning.mjWARN_BADQPOS)
DEFAULT_FROM = {"qpos0", "body_pos", "body_quat", "eq_active0"}  # model fields from which a default state is made
DETAIL, NUMBER = 0, 1  # columns of a warning counter in Batch.warning


class MujocoSimulator(Engine):
    """N simulations of one `Batch`. Results do not depend on `sim.threads`."""

    def __init__(self, sim_config: Any, *model: Any) -> None:
        """See `Engine`."""
        super().__init__(sim_config, *model)
        self.threads = int(sim_config.threads) or cores()

    def _open(self, model: mujoco.MjModel, fields: dict[str, Tensor]) -> None:
        self.batch = Batch(model, self.num_envs, self.threads)
        self.batch.reset(stage=mj.STAGE_NONE)
        self.default_row = self.batch.state[0].copy()  # (nstate,) float64
        self.outputs = FieldCopies(_sources(self.batch, model, fields, self.needs.contacts), fields, self._is_force)
        if "body_vel_w" in fields:
            self.outputs.velocity.append(BodyVelocity(self.batch, fields["body_vel_w"]))
        self.logged: set[int] = set()  # the kinds of warnings that were logged already

    def close(self) -> None:
        """End the worker threads; the fields stay readable."""
        del self.outputs, self.batch

    def _advance(self, ids: np.ndarray | None) -> np.ndarray | None:
        counts = self.batch.warning[:, :, NUMBER]
        before = counts.copy()
        np.copyto(self.batch.bind("ctrl"), self.fields["ctrl"].numpy())
        if APPLIED in self.fields:
            np.copyto(self.batch.bind(APPLIED), self.fields[APPLIED].numpy())
        failed = np.zeros(0, dtype=np.int64)
        try:
            self.batch.step(ids, nstep=self.decimation, stage=self.world.stage)
        except SimulationError as error:  # these environments keep their state; the others were stepped
            failed = error.ids
            log.warning("%s", error)
        if ids is None:
            self.outputs.refresh_all()
        else:
            self.outputs.refresh(ids, forces=True)
        warned = counts > before
        if not failed.size and self._all_finite() and not warned.any():
            return None
        self._report(warned)
        # the counters do not include the result of the last physics step
        unstable = warned[:, FIRST_BAD:].any(1) | ~self._finite()
        unstable[failed] = True
        return unstable

    def _all_finite(self) -> bool:
        """Whether every state is finite, by one sum; if that only overflows, `_finite` checks each environment."""
        with np.errstate(all="ignore"):
            return bool(np.isfinite(self.fields["qpos"].numpy().sum() + self.fields["qvel"].numpy().sum()))

    def _finite(self) -> np.ndarray:
        """(N,) bool: whether all of an environment's state is finite, by its sum."""
        with np.errstate(all="ignore"):
            total = self.fields["qpos"].numpy().sum(1) + self.fields["qvel"].numpy().sum(1)
        return np.isfinite(total)

    def _report(self, warned: np.ndarray) -> None:
        """Log MuJoCo's other warnings, whose counters (N, 7) rose in this step: each kind once."""
        for kind in np.flatnonzero(warned[:, :FIRST_BAD].any(0)):
            if kind not in self.logged:
                self.logged.add(int(kind))
                env = int(np.flatnonzero(warned[:, kind])[0])
                detail = int(self.batch.warning[env, kind, DETAIL])
                log.warning("environment %d: %s (logged once)", env, mujoco.mju_warningText(int(kind), detail))

    def _refresh(self, ids: np.ndarray) -> None:
        if self.world.stage > mj.STAGE_NONE:
            self.batch.forward(ids, stage=self.world.stage)
        self.outputs.refresh(ids)

    def _set_default(self, ids: np.ndarray) -> None:
        if DEFAULT_FROM & self.model_fields.keys():  # each environment has its own
            self.batch.reset(ids, stage=mj.STAGE_NONE)
        else:  # equivalent, but without mj_resetData, which also clears what the next step computes anyway
            self.batch.state[ids] = self.default_row
            self.batch.warning[ids] = 0

    def _state(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.batch.bind("qpos")[ids], self.batch.bind("qvel")[ids]

    def _write_state(self, ids: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        self.batch.bind("qpos")[ids] = qpos
        self.batch.bind("qvel")[ids] = qvel

    def _rows(self, ids: np.ndarray) -> np.ndarray:
        return self.batch.state[ids]

    def _write_rows(self, ids: np.ndarray, rows: np.ndarray) -> None:
        self.batch.state[ids] = rows

    def _expand(self, name: str) -> np.ndarray:
        return self.batch.expand(name)

    def _apply_model(self, ids: np.ndarray, set_const: bool) -> None:
        if set_const:  # the fields themselves are live
            self.batch.set_const(ids)


class FieldCopies:
    """Pairs of float32 fields and the float64 arrays behind them; kinematic and force-like ones are separate."""

    def __init__(
        self, sources: dict[str, np.ndarray], fields: dict[str, Tensor], is_force: Callable[[str], bool]
    ) -> None:
        self.kinematic: Copies = []
        self.forces: Copies = []
        self.velocity: list[BodyVelocity] = []  # one, if it is needed
        for name, source in sources.items():
            (self.forces if is_force(name) else self.kinematic).append((fields[name].numpy(), source))

    def refresh_all(self) -> None:
        """Cast every field of every environment, after a step."""
        with np.errstate(over="ignore", invalid="ignore"):  # the numbers of an unstable environment, which is reported
            for field, source in self.kinematic + self.forces:
                np.copyto(field, source, casting="same_kind")
            for velocity in self.velocity:
                velocity.refresh_all()

    def refresh(self, ids: np.ndarray, forces: bool = False) -> None:
        """Cast fields of environments `ids`: kinematic ones after a forward, all with `forces` after a step."""
        with np.errstate(over="ignore", invalid="ignore"):
            for field, source in self.kinematic + (self.forces if forces else []):
                field[ids] = source[ids]
            for velocity in self.velocity:
                velocity.refresh(ids)


class BodyVelocity:
    """Velocity of each body frame's origin from MuJoCo's spatial velocity about its tree's centre of mass.

    v_origin = v_com + w x (x_origin - x_com), as mj_objectVelocity does for one body at a time.
    """

    def __init__(self, batch: Batch, field: Tensor) -> None:
        self.field = field.numpy()  # (N, B, 6) linear, then angular
        self.cvel = batch.bind("cvel")  # (N, B, 6) angular, then linear
        self.xpos = batch.bind("xpos")  # (N, B, 3)
        self.com = batch.bind("subtree_com")  # (N, B, 3)
        self.root = batch.model.body_rootid  # (B,)

    def refresh_all(self) -> None:
        """Recompute the field of every environment."""
        _origin_velocity(self.cvel, self.xpos - self.com[:, self.root], self.field)

    def refresh(self, ids: np.ndarray) -> None:
        """Recompute the field of environments `ids`."""
        velocity = np.empty((len(ids), *self.field.shape[1:]), np.float32)
        _origin_velocity(self.cvel[ids], self.xpos[ids] - self.com[ids][:, self.root], velocity)
        self.field[ids] = velocity


def _origin_velocity(cvel: np.ndarray, arm: np.ndarray, out: np.ndarray) -> None:
    """Write (..., 6) linear, angular from cvel (..., 6) angular, linear, and the arm (..., 3) on which it acts."""
    for x, y, z in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):  # the cross product by components: np.cross is ten times slower
        out[..., x] = cvel[..., 3 + x] + cvel[..., y] * arm[..., z] - cvel[..., z] * arm[..., y]
    out[..., 3:] = cvel[..., :3]


def _sources(
    batch: Batch, model: mujoco.MjModel, fields: dict[str, Tensor], contacts: list[mj.Contact]
) -> dict[str, Any]:
    """The batch's live float64 array behind each required field, (N, ...)."""
    names = {"qpos": "qpos", "qvel": "qvel", "body_pos_w": "xpos", "body_quat_w": "xquat", "site_pos_w": "site_xpos"}
    names |= {name: name for name in ("cfrc_ext", "cinert", "cvel", "actuator_force")}
    sources = {field: batch.bind(names[field]) for field in fields if field in names}
    for field in fields:
        if field.startswith("sensor:"):
            sources[field] = batch.bind("sensordata")[:, mj.sensor_slice(model, field.removeprefix("sensor:"))]
    if contacts:
        slices = [mj.sensor_slice(model, mj.contact_sensor_name(contact)) for contact in contacts]
        # they were added one after the other, so they are one block, and reshape is a view of it
        block = batch.bind("sensordata")[:, slices[0].start : slices[-1].stop]
        sources["contact_force_w"] = block.reshape(batch.nsim, len(contacts), 3)
    return sources


make = MujocoSimulator

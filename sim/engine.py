"""The base class of MuJoCo engines: names, buffers and snapshots, but no computation.

An engine supplies the hooks at the end of `Engine`. They work on float64 states and numpy ids. A task sees only the
float32 tensors of `fields`, which `start()` allocates once, and which are refreshed in place.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mujoco
import mujoco.batch
import numpy as np
import torch
from torch import Tensor

from livegym.schema import DriveConfig
from livegym.sim import model as mj
from livegym.sim.base import APPLIED, FORCE_FIELDS, Snapshot
from livegym.sim.model import MjcfModel, Needs, Part, known
from livegym.sim.named import Named
from livegym.sim.randomize import DEPENDENT, needs_set_const, write_dependent
from livegym.utils.errors import did_you_mean


class Engine(Named):
    """N copies of one MJCF; see `sim.base` for the contract and `sim.create` for the arguments."""

    def __init__(
        self,
        sim_config: Any,
        physics: Any,
        path: Path,
        num_envs: int,
        decimation: int,
        parts: Mapping[str, Part] | None = None,
        drives: Mapping[str, DriveConfig] | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.device = torch.device("cpu")
        self.world = MjcfModel(path, physics, decimation, parts, drives)
        self.dt = float(self.world.model.opt.timestep)
        self.decimation = self.world.decimation
        self.control_dt = self.world.control_dt
        self.needs = Needs()
        self.fields: dict[str, Tensor] = {}  # name, or "sensor:<name>" -> (N, ...); empty until start()
        self._contact_columns: dict[tuple[tuple[str, ...], str | None], slice | list[int]] = {}
        self.model_fields: dict[str, Tensor] = {}  # randomised, with their companions: name -> (N, ...)
        self.asked: set[str] = set()  # those of them that the caller writes

    # requests

    def require(self, *fields: str) -> None:
        self._before_start("require")
        for name in fields:
            if name == "contact_force_w":
                raise ValueError("contact_force_w: name the bodies with require_contact(body, ...) instead")
            if name.startswith("sensor:"):
                self._require_sensor(name.removeprefix("sensor:"))
            else:
                self.needs.fields.add(known("field", name, mj.FIELD_STAGE))

    def _require_sensor(self, name: str) -> None:
        known("sensor", name, self.world.names("sensor"))
        if name not in self.needs.sensors:
            self.needs.sensors.append(name)

    def require_contact(self, *bodies: str, against: str | None = None) -> None:
        self._before_start("require_contact")
        for name in (*bodies, *([] if against is None else [against])):
            known("body", name, self.world.names("body"))
        for pair in ((name, against) for name in bodies):
            if pair not in self.needs.contacts:
                self.needs.contacts.append(pair)

    def _before_start(self, call: str) -> None:
        if self.fields:
            raise RuntimeError(f"{call}() came after start(): the model is compiled already. Call it before start()")

    def start(self) -> None:
        self._before_start("start")
        model = self.world.build(self.needs)
        fields = mj.allocate(model, self.needs, self.num_envs)
        self._open(model, fields)
        self.fields = fields
        everything = np.arange(self.num_envs)
        self._set_default(everything)
        self._refresh(everything)

    # one step, and setting the state

    def step(self) -> None:
        # a non-finite environment takes MuJoCo about 25 times as long as a finite one: it is skipped until its reset
        unstable = self.unstable.numpy()
        ids = np.flatnonzero(~unstable) if unstable.any() else None
        became_unstable = self._advance(ids)
        if became_unstable is not None:
            unstable |= became_unstable

    def reset(self, env_ids: Tensor, qpos: Tensor, qvel: Tensor) -> None:
        ids = self._ids(env_ids)
        self._set_default(ids)
        self._write_state(ids, qpos.double().numpy(), qvel.double().numpy())
        self._hold(ids)
        self._refresh(ids)
        for name, values in self.fields.items():
            if name in ("ctrl", "unstable", APPLIED) or self._is_force(name):
                values[ids] = 0

    def _hold(self, ids: np.ndarray) -> None:
        """Let motors with a delay begin with targets where their joints are, as if they had been there before."""
        held = self.world.held
        if held is not None:
            rows = self._rows(ids)
            rows[:, held.columns] = rows[:, held.positions] * held.follows
            self._write_rows(ids, rows)

    def forward(self, env_ids: Tensor) -> None:
        ids = self._ids(env_ids)
        qpos, qvel = self._state(ids)
        # only written values are applied, or float32 would round states that the caller did not change
        self._write_state(ids, _written(qpos, self.qpos[ids]), _written(qvel, self.qvel[ids]))
        self._refresh(ids)
        self.unstable[ids] = False

    def snapshot(self, env_ids: Tensor) -> Snapshot:
        ids = self._ids(env_ids, ordered=False)
        arrays = {"state": torch.from_numpy(self._rows(ids))}
        arrays |= {f"field:{name}": values[ids] for name, values in self.fields.items()}
        arrays |= {f"model:{name}": values[ids] for name, values in self.model_fields.items()}
        return Snapshot(env_ids=env_ids.clone(), arrays=arrays)

    def restore(self, snapshot: Snapshot, env_ids: Tensor | None = None) -> None:
        ids = self._ids(snapshot.env_ids if env_ids is None else env_ids, ordered=False)
        arrays = snapshot.arrays
        if missing := [name for name in self.fields if f"field:{name}" not in arrays]:
            raise ValueError(f"snapshot without {', '.join(missing)}: other fields were required when it was taken")
        self._restore_model(arrays, ids)
        self._write_rows(ids, arrays["state"].numpy())
        for name, values in self.fields.items():
            values[ids] = arrays[f"field:{name}"]

    def _restore_model(self, arrays: dict[str, Tensor], ids: np.ndarray) -> None:
        for key in arrays:
            if key.startswith("model:"):
                self._expand_once(key.removeprefix("model:"))
        for name, values in self.model_fields.items():
            # if it was randomised only after the snapshot, the model's own value was valid then
            own = torch.as_tensor(mj.model_field(self.world.model, name), dtype=values.dtype)
            values[ids] = arrays.get(f"model:{name}", own)
        self._take_over(np.sort(ids))

    # per-environment model fields

    def randomize(self, field: str) -> Tensor:
        if not self.fields:
            raise RuntimeError("randomize() came before start(): there are no environments yet. Call start() first")
        for name in (field, *DEPENDENT.get(field, ())):
            self._expand_once(name)
        self.asked.add(field)
        return self.model_fields[field]

    def _expand_once(self, name: str) -> None:
        if name not in self.model_fields:
            self.model_fields[name] = torch.from_numpy(
                self._expand(known("model field", name, mujoco.batch.MODEL_FIELDS))
            )

    def model_value(self, field: str) -> Tensor:
        if field in self.model_fields:
            return self.model_fields[field]
        own = mj.model_field(self.world.model, known("model field", field, mujoco.batch.MODEL_FIELDS))
        return torch.from_numpy(np.array(own)).expand(self.num_envs, *own.shape)

    def apply_randomization(self, env_ids: Tensor) -> None:
        ids = self._ids(env_ids)
        values = {name: tensor.numpy() for name, tensor in self.model_fields.items()}
        write_dependent(self.world.model, values, self.asked, ids)
        self._take_over(ids)

    def _take_over(self, ids: np.ndarray) -> None:
        if self.model_fields:
            self._apply_model(ids, needs_set_const(self.model_fields))

    # reading

    def __getattr__(self, name: str) -> Tensor:
        """The required fields; Python calls this only for names that are not ordinary attributes."""
        fields = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        if name in mj.ALWAYS:
            raise AttributeError(f"{name}: there are no environments yet; call start() first")
        if name in mj.FIELD_STAGE:
            raise AttributeError(f"{name} was not required; call require({name!r}) before start()")
        raise AttributeError(f"a simulator has no {name}.{did_you_mean(name, [*mj.FIELD_STAGE, *mj.ALWAYS])}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse `sim.ctrl = u`, which would only hide the tensor that the engine reads."""
        if self.__dict__.get("fields") and name not in self.__dict__ and not hasattr(type(self), name):
            hint = did_you_mean(name, self.fields)
            raise AttributeError(f"sim.{name} = ... would change nothing; write in place: sim.ctrl[:] = ....{hint}")
        super().__setattr__(name, value)

    def sensor(self, name: str) -> Tensor:
        if f"sensor:{name}" not in self.fields:
            known("sensor", name, self.world.names("sensor"))
            raise AttributeError(f"sensor {name} was not required; call require('sensor:{name}') before start()")
        return self.fields[f"sensor:{name}"]

    def contact_force_w(self, bodies: Sequence[str], against: str | None = None) -> Tensor:
        asked = (tuple(bodies), against)
        if asked not in self._contact_columns:
            self._contact_columns[asked] = self._columns_of(*asked)
        return self.fields["contact_force_w"][:, self._contact_columns[asked]]

    def _columns_of(self, bodies: tuple[str, ...], against: str | None) -> slice | list[int]:
        columns = [self._contact_column(name, against) for name in bodies]
        first = columns[0] if columns else 0
        consecutive = columns == list(range(first, first + len(columns)))
        return slice(first, first + len(columns)) if consecutive else columns  # a slice gives a view

    def _contact_column(self, body: str, against: str | None) -> int:
        if (body, against) not in self.needs.contacts or not self.fields:
            for name in (body, *([] if against is None else [against])):
                known("body", name, self.world.names("body"))
            call = f"{body!r}" if against is None else f"{body!r}, against={against!r}"
            raise AttributeError(f"contacts of {body} were not required; call require_contact({call}) before start()")
        return self.needs.contacts.index((body, against))

    # hooks of an engine; ids are sorted unless a docstring says otherwise

    def _ids(self, env_ids: Tensor, ordered: bool = True) -> np.ndarray:
        """env_ids as (n,) int64, checked: in range, no environment twice, and sorted if `ordered`."""
        if env_ids.dtype != torch.int64 or env_ids.ndim != 1:
            shape = tuple(env_ids.shape)
            raise ValueError(
                f"env_ids {env_ids.dtype} {shape}: must be int64 (n,); for a mask, use mask.nonzero()[:, 0]"
            )
        ids = env_ids.numpy()
        rising = ids if ordered else np.sort(ids)
        if (np.diff(rising) <= 0).any():
            raise ValueError(f"env_ids {ids}: must be {'sorted and ' if ordered else ''}without repetition")
        if ids.size and (rising[0] < 0 or rising[-1] >= self.num_envs):
            raise ValueError(f"env_ids {ids}: must be in [0, {self.num_envs})")
        return ids

    def _is_force(self, name: str) -> bool:
        if name.startswith("sensor:"):
            return name.removeprefix("sensor:") in self.world.acceleration_sensors
        return name in FORCE_FIELDS

    @abstractmethod
    def _open(self, model: mujoco.MjModel, fields: dict[str, Tensor]) -> None:
        """Allocate the environments of `model`, which will refresh `fields`."""

    @abstractmethod
    def _advance(self, ids: np.ndarray | None) -> np.ndarray | None:
        """Step environments (n,), None: all, and refresh every field; returns (N,) which became unstable, or None."""

    @abstractmethod
    def _refresh(self, ids: np.ndarray) -> None:
        """Recompute the kinematic fields of environments `ids` from their states; force-like fields stay."""

    @abstractmethod
    def _set_default(self, ids: np.ndarray) -> None:
        """Set states to the model's default: time, controls, warm start and warnings to 0."""

    @abstractmethod
    def _state(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copies of qpos (n, nq) and qvel (n, nv), float64."""

    @abstractmethod
    def _write_state(self, ids: np.ndarray, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Set qpos (n, nq) and qvel (n, nv), float64."""

    @abstractmethod
    def _rows(self, ids: np.ndarray) -> np.ndarray:
        """A copy of the complete states (n, nstate) float64, mjSTATE_INTEGRATION; ids in any order."""

    @abstractmethod
    def _write_rows(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Restore complete states (n, nstate); ids in any order."""

    @abstractmethod
    def _expand(self, name: str) -> np.ndarray:
        """An array (N, ...) of a model field with one value for each environment; writing to it changes the field."""

    @abstractmethod
    def _apply_model(self, ids: np.ndarray, set_const: bool) -> None:
        """Apply expanded model fields, with mj_setConst if `set_const`."""


def _written(state: np.ndarray, buffer: Tensor) -> np.ndarray:
    """`state` (float64), with the elements of `buffer` (float32) that no longer agree with it."""
    values = buffer.numpy()
    with np.errstate(over="ignore"):  # the numbers of an unstable environment
        return np.where(values == state.astype(np.float32), state, values)

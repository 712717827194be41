"""The simulation behind a foreign environment, as livegym's viewers, recorders and pushes see a simulator."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from livegym.sim.base import Snapshot
from livegym.sim.lines import Lines
from livegym.utils.errors import did_you_mean
from livegym.utils.words import count

log = logging.getLogger(__name__)
GROUP = "group"
"""The first word of the names of arrays of further engines in a snapshot."""
IDS, STATE = "ids", "state"
"""The environments of an engine, if there are several engines, and their states."""


class ForeignSim:
    """The state and the model of a simulation that foreign code made. It is stepped by that code alone."""

    def __init__(self, made: Any, num_envs: int, control_dt: float) -> None:
        """`made`: what `create_sim` returned (`compat/core/scene.py`)."""
        self._made = made
        self._engine = made.engine
        self._groups = made.groups
        self.num_envs = num_envs
        self.device = torch.device("cpu")
        self.control_dt = control_dt
        self.dt = float(self._engine.model.opt.timestep)
        self.decimation = max(1, round(control_dt / self.dt))
        self.unstable = torch.zeros(num_envs, dtype=torch.bool)
        self.xfrc_applied = torch.zeros(num_envs, self._engine.model.nbody, 6)
        """(N, B, 6) N and N m: pushes of users, which are added to the task's own forces."""
        self._faults = self._of_all("faults")
        made.before_simulate.append(self._push)
        if len(self._groups) > 1:
            log.info(
                "%d of %d environments have the make-up of environment 0. Pictures and pushes are of these; the others "
                "stand still in pictures.", self._groups[0].engine.num_envs, num_envs
            )  # fmt: skip
        if self._engine.sizes > 1:
            log.info(
                "environments of this make-up have %d different sizes; pictures show all in that of environment 0.",
                self._engine.sizes,
            )

    def _push(self) -> None:
        if self.xfrc_applied.any():
            self._engine.xfrc_applied[:] += self.xfrc_applied.numpy()[self._groups[0].ids]
            self._engine.push()

    def _of_all(self, name: str) -> np.ndarray:
        """(N,) what a method of the engines says of each environment."""
        values = [getattr(group.engine, name)() for group in self._groups]
        out = np.empty(self.num_envs, values[0].dtype)
        for group, own in zip(self._groups, values, strict=True):
            out[group.ids] = own
        return out

    def _shown(self, values: np.ndarray, others: np.ndarray) -> Tensor:
        """(N, ...) float32 `values` of the environments in the picture; the others have the row `others`."""
        if len(self._groups) == 1:
            return torch.from_numpy(values).float()
        out = np.tile(others, (self.num_envs, 1))
        out[self._groups[0].ids] = values
        return torch.from_numpy(out).float()

    def find_unstable(self, observations: Mapping[str, Tensor]) -> None:
        """Mark in `unstable` the environments with a bad state since the last call, or with non-finite observations."""
        faults = self._of_all("faults")
        np.logical_or(~self._of_all("finite"), faults > self._faults, out=self.unstable.numpy())
        self._faults = faults
        for values in observations.values():
            self.unstable |= ~torch.isfinite(values).all(1)

    @property
    def engine(self) -> Any:
        """The physics of environment 0 and all of its make-up (`compat/core/engine.py`): model, batch and `step`."""
        return self._engine

    @property
    def qpos(self) -> Tensor:
        """(N, nq) float32, a copy of the present state."""
        return self._shown(self._engine.qpos, self._engine.model.qpos0)

    @property
    def qvel(self) -> Tensor:
        """(N, nv) float32, a copy of the present state."""
        return self._shown(self._engine.qvel, np.zeros(self._engine.model.nv))

    @property
    def ctrl(self) -> Tensor:
        """(N, nu) float32, a copy of the present controls."""
        return self._shown(self._engine.ctrl, np.zeros(self._engine.model.nu))

    @property
    def lines(self) -> Lines:
        """The lines that the task has added, of the environments in the picture."""
        return self.lines_of(range(self.num_envs))

    def lines_of(self, env_ids: Collection[int]) -> Lines:
        """Those of some environments, without looking at the others."""
        here = env_ids if len(self._groups) == 1 else np.intersect1d([*env_ids], self._groups[0].ids).tolist()
        return Lines(*self._made.lines.of(here))

    def show_lines(self, who: Hashable, shown: bool) -> None:
        """Tell whether `who` draws `lines` from the next step on. While none does, the task's viewer is false."""
        self._made.lines.show(who, shown)

    def body_ids(self, names: Sequence[str]) -> list[int]:
        """Indices into the body axis. Raises ValueError with the nearest name."""
        model = self._engine.model
        known = [model.body(index).name for index in range(model.nbody)]
        for name in names:
            if name not in known:
                raise ValueError(f"there is no body {name!r}.{did_you_mean(name, known)}")
        return [known.index(name) for name in names]

    def model_xml(self) -> str:
        """The compiled model as MJCF."""
        return str(self._engine.model_xml())

    def model_xml_of(self, env: int) -> str | None:
        """The model of an environment, in its own size, as MJCF; None if it is not of the make-up of environment 0."""
        if env not in self._groups[0].ids:
            return None
        return self.model_xml() if self._engine.sizes == 1 else str(self._made.xml_of(env))

    def snapshot(self, env_ids: Tensor) -> Snapshot:
        """A copy of everything that decides how the simulation continues; always of all environments."""
        return Snapshot(env_ids, {name: _as_tensor(value) for name, value in self._arrays().items()})

    def restore(self, snapshot: Snapshot, env_ids: Tensor | None = None) -> None:
        """Restore a snapshot of all environments.

        Raises ValueError if it is one of another simulation; then nothing is restored.
        """
        here = self._arrays()
        arrays = {name: _as_array(value, here.get(name)) for name, value in snapshot.arrays.items()}
        there, own = _make_ups(arrays), _make_ups(here)
        if not _agree(there, own):
            raise ValueError(
                f"the state has {_said(there)}, and there are {_said(own)} here: the task makes other environments now"
            )
        for number, group in enumerate(self._groups):
            start = _prefix(number)
            group.engine.restore(
                {name.removeprefix(start): value for name, value in arrays.items() if _prefix_of(name) == start}
            )
        self._faults = self._of_all("faults")
        self._made.lines.forget()

    def _arrays(self) -> dict[str, np.ndarray]:
        """The snapshots of all engines; the names of the first one's have no prefix."""
        arrays = {
            _prefix(number) + name: value
            for number, group in enumerate(self._groups)
            for name, value in group.engine.snapshot().items()
        }
        if len(self._groups) > 1:
            arrays |= {_prefix(number) + IDS: group.ids.copy() for number, group in enumerate(self._groups)}
        return arrays

    def close(self) -> None:
        """Forget the pushes; the physics ends its threads when nothing uses it any more."""
        if self._push in self._made.before_simulate:
            self._made.before_simulate.remove(self._push)


def _prefix(number: int) -> str:
    return f"{GROUP}{number}:" if number else ""


def _prefix_of(name: str) -> str:
    return name[: name.index(":") + 1] if name.startswith(GROUP) else ""


def _as_tensor(value: np.ndarray) -> Tensor:
    """An array as a tensor; records, which torch does not know, as bytes (N, ...)."""
    return torch.from_numpy(value.view(np.uint8) if value.dtype.fields else value)


def _as_array(value: Tensor, here: np.ndarray | None) -> np.ndarray:
    """The inverse of `_as_tensor`; `here` is the same array of this simulation, None if it has none."""
    array = value.numpy()
    return array.view(here.dtype) if here is not None and here.dtype.fields else array


def _make_ups(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[tuple[int, ...], list[int] | None]]:
    """Prefix of each engine's arrays -> the shape of its states, and its environments (None in older files)."""
    found = {}
    for name, value in arrays.items():
        start = _prefix_of(name)
        if name == start + STATE:
            ids = arrays.get(start + IDS)
            found[start] = value.shape, None if ids is None else ids.tolist()
    return found


def _agree(there: Mapping[str, tuple], here: Mapping[str, tuple]) -> bool:
    """Whether the engines of a snapshot are those of here."""
    return there.keys() == here.keys() and all(
        shape == here[start][0] and ids in (None, here[start][1]) for start, (shape, ids) in there.items()
    )


def _said(make_ups: Mapping[str, tuple]) -> str:
    each = " and ".join(count(shape[0], "environment") for shape, _ in make_ups.values())
    return f"{count(len(make_ups), 'make-up')} ({each})"

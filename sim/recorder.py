"""Keep the last states of every environment, to examine one that became unstable.

    recorder = StateRecorder(sim, run / "unstable", length=64)
    sim.step()
    recorder.push()                                     # one copy of qpos, qvel and ctrl
    files = recorder.dump(sim.unstable.nonzero()[:, 0], step)   # before they are reset

Each file is a compressed .npz: `qpos` (T, nq), `qvel` (T, nv), `ctrl` (T, nu), oldest first and as float32, `env`,
`step`, and `model_xml`, the MJCF that mujoco.MjModel.from_xml_string opens.
"""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.sim.rounding import possible
from livegym.utils.files import atomic_write_bytes

log = logging.getLogger(__name__)
FIELDS = ("qpos", "qvel", "ctrl")


class StateRecorder:
    """A ring buffer of the last `length` control steps of all environments, float32, and at most `max_files` files.

    Memory: 4 * length * num_envs * (nq + nv + nu) bytes.
    """

    def __init__(self, sim: Simulator, path: Path, length: int = 64, max_files: int = 10) -> None:
        self.sim = sim
        self.path = path  # created at the first dump
        self.length = length
        self.max_files = max_files
        self.rings = {name: torch.zeros(length, *getattr(sim, name).shape) for name in FIELDS}  # (length, N, ...)
        self.pushes = 0
        self.dumps = 0
        self._said = False

    def push(self) -> None:
        """Store the present states and controls; called once per control step, after it and before any reset."""
        slot = self.pushes % self.length
        for name, ring in self.rings.items():
            ring[slot].copy_(getattr(self.sim, name))
        self.pushes += 1

    def dump(self, env_ids: Tensor, step: int) -> list[Path]:
        """Write one file for each of environments (n,) at control step `step`; returns the files.

        A disk that is full or read-only only causes a warning: it must not end a training run. An environment whose
        states the simulator does not show has no file.
        """
        written: list[Path] = []
        for env in env_ids.tolist():
            if self.dumps >= self.max_files:
                break
            model_xml = self.sim.model_xml_of(env)
            if model_xml is None:
                self._say_what_is_missing(env)
                continue
            file = self.path / f"step_{step:09d}_env_{env}.npz"
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                _write_complete(file, self._states(env) | {"env": env, "step": step, "model_xml": possible(model_xml)})
            except OSError as error:
                log.warning("the last states of environment %d were not saved: %s", env, error)
                break
            self.dumps += 1
            written.append(file)
        return written

    def _say_what_is_missing(self, env: int) -> None:
        if not self._said:
            self._said = True
            log.warning(
                "the last states of environment %d are not saved: its model is not that of environment 0, which is the "
                "only one that is recorded. Logged once.",
                env,
            )

    def _states(self, env: int) -> dict[str, Any]:
        """The states of one environment that were pushed, oldest first: name -> (T, ...)."""
        filled = min(self.pushes, self.length)
        order = torch.arange(self.pushes - filled, self.pushes) % self.length
        return {name: ring[order, env].numpy() for name, ring in self.rings.items()}


def _write_complete(file: Path, arrays: dict[str, Any]) -> None:
    """Write an .npz file that is complete or absent."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    atomic_write_bytes(file, stream.getvalue())

"""Simulation engines: one contract (`base`), and one module for each engine (`engines/`), which is found by its name.

sim = create(config.sim, config.physics, task.model_path(), num_envs=512, decimation=2)
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from livegym.utils.mujoco_gl import import_mujoco

import_mujoco()  # before any other module imports mujoco

# ruff: noqa: E402
from livegym.projects import registry
from livegym.schema import DriveConfig, PhysicsConfig, SimConfig
from livegym.schema.engines import check_engine
from livegym.sim.base import NoModel, Simulator


def create(
    sim: SimConfig,
    physics: PhysicsConfig,
    model: str | Path | NoModel,
    num_envs: int,
    decimation: int,
    parts: Mapping[str, Any] | None = None,
    drives: Mapping[str, DriveConfig] | None = None,
) -> Simulator:
    """The simulator of `num_envs` copies of the MJCF at `model`, ready for `require` and then `start`.

    `parts`: name of a frame in it -> what is attached there, an MJCF file or a model (MjSpec). A `NoModel` is for the
    engine without bodies.
    `drives`: motors of joints (`sim/drives.py`); an engine gets this argument only if there are some.

    `decimation` is in the model's own physics steps; `physics.substeps` divides those and keeps the control rate.
    Raises UserError for an unknown engine, one that does not fit the model, an unknown physics setting, a model that
    cannot be read, and an engine of an outside project that cannot be made.
    """
    bodiless = isinstance(model, NoModel)
    check_engine(sim, physics, "the task" if bodiless else str(model), bodiless)
    given = model if isinstance(model, NoModel) else Path(model)
    arguments = (sim, physics, given, num_envs, decimation, parts, *([drives] if drives else []))
    return registry.make("simulators", sim.engine, Simulator, *arguments)  # type: ignore[type-abstract]

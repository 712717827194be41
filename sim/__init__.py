"""What moves the bodies: one contract (`base`), one module an engine. Only this file knows engine names.

sim = create(config.sim, config.physics, task.model_path(), num_envs=512, decimation=2)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from livegym.schema import PhysicsConfig
from livegym.sim.base import NoModel, Simulator
from livegym.utils.errors import UserError, not_one_of

# engine -> (module, class): imported only when chosen, so that one engine's libraries are not another's burden
ENGINES = {
    "mujoco": ("livegym.sim.mujoco_batch", "MujocoSimulator"),
    "none": ("livegym.sim.none", "NoSimulator"),
    "reference": ("livegym.sim.reference", "ReferenceSimulator"),
}
BODILESS = "none"  # the engine of tasks that bring their own dynamics
WITH_BODIES = tuple(name for name in ENGINES if name != BODILESS)


def check_engine(sim_config: Any, physics_config: Any, task: str, own_dynamics: bool) -> None:
    """Raises UserError for an engine that there is not, or that does not fit a task with, or without, a model."""
    engine = sim_config.engine
    if engine not in ENGINES:
        raise not_one_of("sim.engine", engine, ENGINES)
    if not own_dynamics and engine == BODILESS:
        raise UserError(
            f"sim={engine}: {task} is a model whose bodies have to be moved. Allowed: {', '.join(WITH_BODIES)}. "
            "Leave sim= out, or choose a task that brings its own dynamics: python train.py --list-tasks"
        )
    if not own_dynamics:
        return
    if engine != BODILESS:
        raise UserError(
            f"sim={engine}: {task} brings its own dynamics, there are no bodies to move. Allowed: {BODILESS}. "
            "Leave sim= out. Where it was not given, the task's yaml must choose it: docs/new-stream.md"
        )
    for field in dataclasses.fields(PhysicsConfig):
        value = getattr(physics_config, field.name)
        if value != field.default:
            raise UserError(
                f"physics.{field.name}={value}: {task} brings its own dynamics, there is no physics to set. "
                "Allowed: physics=default. Leave physics out."
            )


def create(
    sim_config: Any,
    physics_config: Any,
    model: str | Path | NoModel,
    num_envs: int,
    decimation: int,
    parts: Mapping[str, Path] | None = None,
) -> Simulator:
    """The simulator of `num_envs` copies of the MJCF at `model`, ready for `require` and then `start`.

    `parts`: name of a frame in it -> an MJCF that is attached there. A `NoModel` is for the engine without bodies.

    `sim_config` and `physics_config` are read by attribute only (`cfg.schema.SimConfig`, `PhysicsConfig`).
    `decimation` is in the model's own physics steps; `physics.substeps` cuts those and keeps the control rate.
    Raises UserError for an unknown engine, one that does not fit the model, a physics setting that there is not, and
    a model that cannot be read.
    """
    bodiless = isinstance(model, NoModel)
    check_engine(sim_config, physics_config, "the task" if bodiless else str(model), bodiless)
    module, name = ENGINES[sim_config.engine]
    engine = getattr(import_module(module), name)
    given = model if isinstance(model, NoModel) else Path(model)
    return engine(sim_config, physics_config, given, num_envs, decimation, parts)

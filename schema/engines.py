"""Which engine can move which task: the rule between `sim=`, `physics=` and the task."""

from __future__ import annotations

import dataclasses

from livegym.projects import registry
from livegym.projects.commands import command
from livegym.schema import PhysicsConfig, SimConfig
from livegym.utils.errors import UserError, not_one_of

BODILESS = "none"  # the engine of tasks that bring their own dynamics


def check_engine(sim: SimConfig, physics: PhysicsConfig, task: str, own_dynamics: bool) -> None:
    """Raises UserError for an unknown engine, or one that does not support the task (with or without a model)."""
    engine, engines = sim.engine, registry.names("simulators")
    if engine not in engines:
        raise not_one_of("sim.engine", engine, engines)
    if not own_dynamics and engine == BODILESS:
        with_bodies = [name for name in engines if name != BODILESS]
        raise UserError(
            f"sim={engine}: {task} is a model whose bodies have to be moved. Allowed: {', '.join(with_bodies)}. "
            f"Leave sim= out, or choose a task that brings its own dynamics: {command('--list-tasks')}"
        )
    if not own_dynamics:
        return
    if engine != BODILESS:
        raise UserError(
            f"sim={engine}: {task} brings its own dynamics, there are no bodies to move. Allowed: {BODILESS}. "
            "Leave sim= out. If it was not given, the task's yaml must choose it: docs/new-stream.md"
        )
    for field in dataclasses.fields(PhysicsConfig):
        value = getattr(physics, field.name)
        if value != field.default:
            raise UserError(
                f"physics.{field.name}={value}: {task} brings its own dynamics, there is no physics to set. "
                "Allowed: physics=default. Leave physics out."
            )

"""Check that `sim=` and `physics=` fit the task."""

from __future__ import annotations

import dataclasses

from livegym.projects import registry
from livegym.projects.commands import command
from livegym.schema import PhysicsConfig, SimConfig
from livegym.utils.errors import UserError, not_one_of

BODILESS = "none"  # the engine of tasks that have their own dynamics


def check_engine(sim: SimConfig, physics: PhysicsConfig, task: str, own_dynamics: bool) -> None:
    """Raises UserError for an unknown engine, or one that does not support the task (with or without a model)."""
    engine, engines = sim.engine, registry.names("simulators")
    if engine not in engines:
        raise not_one_of("sim.engine", engine, engines)
    if not own_dynamics and engine == BODILESS:
        with_bodies = [name for name in engines if name != BODILESS]
        raise UserError(
            f"sim={engine}: {task} has a model, whose bodies an engine must move. Allowed: {', '.join(with_bodies)}. "
            f"Leave sim= out, or choose a task that has its own dynamics: {command('--list-tasks')}"
        )
    if not own_dynamics:
        return
    if engine != BODILESS:
        raise UserError(
            f"sim={engine}: {task} has its own dynamics, so there are no bodies to move. Allowed: {BODILESS}. "
            f"Leave sim= out. If you did not type it, the task's yaml must choose {BODILESS}: docs/new-stream.md"
        )
    refuse_physics(physics, f"{task} has its own dynamics, so there is no physics to set", "Leave physics out.")


def refuse_physics(physics: PhysicsConfig, reason: str, instead: str) -> None:
    """Raises UserError for a key of `physics.*` that is not its default, of a task that cannot obey it."""
    for field in dataclasses.fields(PhysicsConfig):
        value = getattr(physics, field.name)
        if value != field.default:
            raise UserError(f"physics.{field.name}={value}: {reason}. Allowed: physics=default. {instead}")

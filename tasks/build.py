"""Make an Env from the configuration: its task and its simulator."""

from __future__ import annotations

from livegym.projects import registry
from livegym.schema import PhysicsConfig, SimConfig, TaskConfig
from livegym.sim import create
from livegym.sim.base import NoModel, Simulator
from livegym.tasks import TASKS
from livegym.tasks.base import Task
from livegym.tasks.env import Env
from livegym.tasks.terms import NameMismatch
from livegym.utils.errors import UserError, not_one_of


def make_env(
    task: TaskConfig,
    sim: SimConfig,
    physics: PhysicsConfig,
    num_envs: int,
    seed: int,
    fields: tuple[str, ...] = (),
    shown: bool = False,
) -> Env:
    """N environments of a task. Raises UserError if task, yaml, engine and model do not fit each other.

    `fields` are simulator fields that are required in addition to those that the task requires. `shown`: viewers or
    videos will show the environments, so foreign code may draw lines.
    """
    if task.name not in TASKS:
        raise not_one_of("task", task.name, TASKS)
    if TASKS[task.name].own_env:
        return TASKS[task.name].make_env(task, sim, physics, num_envs, seed, shown)
    made = TASKS[task.name](task.params)
    engine = _simulator(made, task, sim, physics, num_envs)
    engine.require(*fields)
    try:
        return Env(made, engine, task, seed)
    except NameMismatch as mismatch:
        engine.close()
        file = registry.part("tasks", task.name).where
        raise mismatch if file is None else mismatch.in_file(file) from None


def _simulator(made: Task, task: TaskConfig, sim: SimConfig, physics: PhysicsConfig, num_envs: int) -> Simulator:
    if made.own_dynamics:
        if task.drives:
            raise UserError(
                f"task.drives={','.join(task.drives)}: {task.name} has its own dynamics, so there are no joints. "
                "Leave task.drives out."
            )
        nothing = NoModel(made.control_dt, made.action_spec.width)  # its `control` returns the action
        return create(sim, physics, nothing, num_envs, task.decimation)
    try:
        model, parts = made.model_path(), made.parts()
    except FileNotFoundError as error:
        raise UserError(str(error)) from error
    return create(sim, physics, model, num_envs, task.decimation, parts, task.drives)

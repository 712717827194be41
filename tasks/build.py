"""From the configuration to a running Env: task, simulator, recorder."""

from __future__ import annotations

from cfg.schema import PhysicsConfig, SimConfig, TaskConfig
from sim import create
from tasks import TASKS
from tasks.env import Env
from utils.errors import UserError, not_one_of


def make_env(
    task: TaskConfig, sim: SimConfig, physics: PhysicsConfig, num_envs: int, seed: int, fields: tuple[str, ...] = ()
) -> Env:
    """N environments of a task. Raises UserError where task, yaml and model do not fit each other.

    `fields`: of the simulator, required besides those that the task asks for.
    """
    if task.name not in TASKS:
        raise not_one_of("task", task.name, TASKS)
    made = TASKS[task.name](task.params)
    try:
        model, parts = made.model_path(), made.parts()
    except FileNotFoundError as error:
        raise UserError(str(error)) from error
    engine = create(sim, physics, model, num_envs, task.decimation, parts)
    engine.require(*fields)
    return Env(made, engine, task, seed)

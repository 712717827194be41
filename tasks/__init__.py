"""What is learned: the task table, the Task contract (`base`), the one step order (`env`), one module a task.

A new task is a module here, a line in `TASKS`, `cfg/task/<Name>.yaml`, `cfg/train/<Name>PPO.yaml` and a model, unless
it brings its own dynamics; the contract tests (`tests/test_task_contract.py`) pick it up from the table.
"""

from __future__ import annotations

from livegym.utils.mujoco_gl import import_mujoco

import_mujoco()  # before anybody else does

# ruff: noqa: E402
from livegym.tasks.ant import Ant
from livegym.tasks.base import Task
from livegym.tasks.base_task import BaseTask
from livegym.tasks.blind_grasping import BlindGrasping
from livegym.tasks.cartpole import Cartpole
from livegym.tasks.territory import Territory

TASKS: dict[str, type[Task]] = {
    "Ant": Ant,
    "BaseTask": BaseTask,
    "BlindGrasping": BlindGrasping,
    "Cartpole": Cartpole,
    "Territory": Territory,
}

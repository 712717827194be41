"""What is learned: the Task contract (`base`), the one step order (`env`), one module a task.

    TASKS["Ant"]          # the class; its module is imported now
    list(TASKS)           # the names, livegym's and those of outside projects; nothing is imported

A new task is a module here or in a project of one's own, `cfg/task/<Name>.yaml`, `cfg/train/<Name>PPO.yaml` and a
model, unless it brings its own dynamics (docs/new-task.md). No table names it; the contract tests pick it up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from livegym.projects import registry
from livegym.utils.mujoco_gl import import_mujoco

if TYPE_CHECKING:
    from livegym.tasks.base import Task


class _Tasks(Mapping[str, "type[Task]"]):
    """Names of tasks and their classes."""

    def __getitem__(self, name: str) -> type[Task]:
        import_mujoco()  # before the task's module does
        found: type[Task] = registry.load("tasks", name)
        return found

    def __contains__(self, name: object) -> bool:
        return name in registry.names("tasks")

    def __iter__(self) -> Iterator[str]:
        return iter(registry.names("tasks"))

    def __len__(self) -> int:
        return len(registry.names("tasks"))


TASKS: Mapping[str, type[Task]] = _Tasks()
"""Raises UserError for a name that nobody has, that two projects have, or whose code cannot be loaded."""

"""The tasks: the Task contract (`base`), the order of a step (`env`), and one module for each task.

    TASKS["Ant"]          # the class; its module is imported now
    list(TASKS)           # the names, livegym's and those of outside projects; nothing is imported

A new task is a module here or in a project of your own, `cfg/task/<Name>.yaml`, `cfg/train/<Name>PPO.yaml` and a
model, unless it has its own dynamics (docs/new-task.md). There is no table to edit; the contract tests find it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from livegym.projects import registry
from livegym.utils.mujoco_gl import import_mujoco

if TYPE_CHECKING:
    from livegym.tasks.base import Task


class _Tasks(Mapping[str, "type[Task]"]):
    """Names of tasks and their classes."""

    def __getitem__(self, name: str) -> type[Task]:
        import_mujoco()  # before the task's module imports it
        return _checked(registry.part("tasks", name), registry.load("tasks", name))

    def __contains__(self, name: object) -> bool:
        return name in registry.names("tasks")

    def __iter__(self) -> Iterator[str]:
        return iter(registry.names("tasks"))

    def __len__(self) -> int:
        return len(registry.names("tasks"))


@functools.cache
def _checked(part: registry.Part, found: Any) -> type[Task]:
    """`found`, what a task's module has under the task's name. Raises UserError if it is not a complete task."""
    from livegym.tasks.base import Task  # imported here, because listing the names should not wait for torch

    if not (inspect.isclass(found) and issubclass(found, Task)):
        raise part.wrong(f"is {found!r}. Allowed: a class that derives from livegym.tasks.base.Task")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise part.wrong(
            f"lacks {', '.join(missing)}. Allowed: a class that has every method of livegym.tasks.base.Task"
        )
    params = getattr(found, "Params", None)
    if not (inspect.isclass(params) and dataclasses.is_dataclass(params)):
        what = f"has Params = {params!r}" if hasattr(found, "Params") else "has no Params"
        raise part.wrong(f"{what}. Allowed: Params = <a frozen dataclass of its parameters>, which may have no fields")
    with part.running("has Params whose types cannot be read"):
        typing.get_type_hints(params)
    return found


TASKS: Mapping[str, type[Task]] = _Tasks()
"""Raises UserError for an unknown name, for one that two projects have, and for an incomplete task."""

"""Whose task a run is of: what a run records, and what is said if that project is not here, or is another now."""

from __future__ import annotations

import logging
from typing import Any

from livegym.projects import registry
from livegym.projects.commands import program
from livegym.utils.errors import UserError, not_one_of

log = logging.getLogger(__name__)

PROJECT = "project"
"""The record's name in a run's embedded configuration."""


def record(task: str) -> dict[str, Any]:
    """Name and version of the task's project; of an outside one also the digest of its files."""
    project = registry.part("tasks", task).project
    assert project is not None  # a gate or an engine may be nobody's, a task never is
    found = {"name": project.name, "version": project.version}
    return found if project is registry.projects()[0] else {**found, "digest": registry.digest(project)}


def no_such_task(name: object, recorded: object) -> UserError:
    """The error for a run of a task that is not here. `recorded`: what `record` gave; None in an old run."""
    here = registry.names("tasks")
    owner = recorded.get("name") if isinstance(recorded, dict) else None
    if owner in (None, "livegym"):
        unknown = not_one_of("the checkpoint's task", name, here)
        return UserError(f"{unknown} A task of your own is found with projectDir=<its folder>")
    return UserError(
        f"the checkpoint's task={name} is of the project {owner}, which is not here. Allowed here: {', '.join(here)}. "
        f"Name its folder: {program()} ... projectDir=<folder of {owner}>, or install it: pip install <that folder>"
    )


def remember_change(name: str, recorded: object) -> None:
    """Says once if the project of a run's task is another than when the run was made: its rewards may be as well."""
    now = record(name)
    if not isinstance(recorded, dict) or recorded.get("name") == "livegym" == now["name"]:
        return
    if recorded.get("name") != now["name"]:
        raise UserError(
            f"the checkpoint's task={name} is of the project {recorded.get('name')}, and here {name} is of "
            f"{now['name']}. Allowed: the project it was trained with. Name its folder: projectDir=<folder of "
            f"{recorded.get('name')}>"
        )
    if recorded.get("digest") != now.get("digest"):
        _say_once(f"the project {now['name']} has changed since this run was made; task={name} is as it is now.")


_said: set[str] = set()


def _say_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        log.info(text)

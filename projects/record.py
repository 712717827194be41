"""The record of a run's project, and the messages if that project is missing or has changed."""

from __future__ import annotations

import logging
from typing import Any

from livegym.projects import registry
from livegym.projects.checkout import Checkout
from livegym.projects.commands import program
from livegym.utils.errors import UserError, not_one_of

log = logging.getLogger(__name__)

PROJECT = "project"
"""The record's name in a run's embedded configuration."""


def record(task: str) -> dict[str, Any]:
    """Name and version of the task's project; for an outside project, also the digest of its files.

    For a task of a checkout, instead, the SHA-256 of the file of its class and of each file that was executed so far.
    """
    project = registry.part("tasks", task).project
    assert project is not None  # a gate or an engine may have no project, a task always has one
    found: dict[str, Any] = {"name": project.name, "version": project.version}
    if isinstance(project, Checkout):
        return {**found, "files": project.described(task)}
    return found if project is registry.projects()[0] else {**found, "digest": registry.digest(project)}


def no_such_task(name: object, recorded: object) -> UserError:
    """The error for a run whose task is not here. `recorded` is the result of `record`, or None in an old run."""
    here = registry.names("tasks")
    owner = recorded.get("name") if isinstance(recorded, dict) else None
    if owner in (None, "livegym"):
        unknown = not_one_of("the checkpoint's task", name, here)
        return UserError(f"{unknown} If it is a task of your own, add projectDir=<its folder>")
    if isinstance(recorded, dict) and "files" in recorded:
        return UserError(
            f"the checkpoint's task={name} is foreign code of {owner}, which runs only if the command line names its "
            f"folder. Allowed here: {', '.join(here)}. Name it: {program()} ... projectDir=<checkout of {owner}>"
        )
    return UserError(
        f"the checkpoint's task={name} belongs to the project {owner}, which is not here. Allowed here: "
        f"{', '.join(here)}. Name its folder: {program()} ... projectDir=<folder of {owner}>, or install it: "
        "pip install <that folder>"
    )


def remember_change(name: str, recorded: object) -> None:
    """Log once if the project of a run's task has changed since the run was made: its rewards may differ now.

    Raises UserError if the task belongs to another project now.
    """
    now, project = record(name), registry.part("tasks", name).project
    if not isinstance(recorded, dict) or recorded.get("name") == "livegym" == now["name"]:
        return
    if recorded.get("name") != now["name"]:
        raise UserError(
            f"the checkpoint's task={name} belongs to the project {recorded.get('name')}, but here {name} belongs to "
            f"{now['name']}. Allowed: the project it was trained with. Name its folder: projectDir=<folder of "
            f"{recorded.get('name')}>"
        )
    if isinstance(project, Checkout):
        _compare_files(name, recorded.get("files"), project)
    elif recorded.get("digest") != now.get("digest"):
        _log_once(f"the project {now['name']} has changed since this run was made; task={name} is used as it is now.")


def _compare_files(task: str, before: object, checkout: Checkout) -> None:
    """Warn once for each foreign file that the run recorded with another hash, or that is not there any more."""
    for file, was in before.items() if isinstance(before, dict) else ():
        now = checkout.hash_of(file)
        if now != was:
            found = "it is not there any more" if now is None else f"now it is {now}"
            _log_once(
                f"{file} has changed since this run was made: its SHA-256 was {was}, {found}. "
                f"task={task} is used as it is now.",
                logging.WARNING,
            )


_logged: set[str] = set()


def _log_once(text: str, level: int = logging.INFO) -> None:
    if text not in _logged:
        _logged.add(text)
        log.log(level, text)

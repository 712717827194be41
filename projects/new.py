"""`livegym new my_robot`: makes a project of your own from the template, whole or not at all.

new_project("my_robot")        # ./my_robot with a task MyRobot that trains and passes its own tests
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from pathlib import Path

from livegym.projects import registry
from livegym.projects.commands import program
from livegym.projects.finding import LIVEGYM
from livegym.projects.names import fault_of_package, fault_of_task, is_library
from livegym.utils.errors import UserError
from livegym.utils.files import is_left_over, temporary_name
from livegym.utils.signals import StopFlag

TEMPLATE = Path(__file__).parent / "template"
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
TAKEN = ("livegym", "livegym_client", "tests", "tasks", "cfg", "algorithms", "gates", "simulators")


def main(arguments: list[str]) -> int:
    """The command line after `livegym new`; returns the exit status. Raises UserError for anything but one name."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    if len(arguments) != 1 or len(names) != 1:
        raise UserError(
            f"new {' '.join(arguments)}: one name is needed. Allowed: lower-case letters, digits and _, as for a "
            f"package. For example: {program()} new my_robot"
        )
    with StopFlag() as stop:
        folder = new_project(names[0], stop)
    task = task_name(folder.name)
    print(f"made {folder}: the task {task}, with its model, settings and tests. Next:")
    print(f"  cd {names[0]}")
    print(f"  livegym config=train_headless task={task}")
    print("  python -m pytest")
    return 0


def task_name(project: str) -> str:
    """`my_robot` -> MyRobot."""
    return "".join(word.capitalize() for word in project.split("_"))


def new_project(path: str, stop: StopFlag | None = None) -> Path:
    """Makes the folder `path`, whose last part is the project's name; returns it.

    Raises UserError for a name that cannot be a project's or is taken, for a folder that is there already or cannot be
    made, and if `stop` is requested. Nothing is left if it fails, and what a killed one left is taken away.
    """
    folder = Path(os.path.expanduser(path))
    name = folder.name
    task = task_name(name)
    fault = _fault_of(name, task)
    if fault:
        raise UserError(
            f"new {path}: {name!r} cannot be a project's name: it {fault}. Allowed: lower-case letters, digits and _, "
            "beginning with a letter, and a name that nobody has. For example my_robot"
        )
    if task in _known_tasks():
        raise UserError(f"new {path}: there is a task {task} already. Allowed: a name that is not taken.")
    if path.startswith("~") and str(folder) == path:
        raise UserError(f"new {path}: nobody here has that name. Allowed: a path, as {name} or ~/{name}.")
    if os.path.lexists(folder):
        raise UserError(f"new {path}: {folder} is there already. Allowed: a new folder. Choose another name.")
    if is_library(name):
        raise UserError(f"new {path}: {name} is the name of an installed library. Allowed: a name that is not taken.")
    begun = temporary_name(folder)
    try:
        _remove_dead(folder)
        _write(begun, name, task)
        if stop is not None and stop.requested:
            raise UserError(f"new {path}: interrupted. Nothing was made.", exit_code=stop.exit_status)
        begun.rename(folder)
    except OSError as error:
        raise UserError(f"new {path}: {folder} cannot be made ({error}). Choose another place.") from error
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    return folder


def _fault_of(name: str, task: str) -> str:
    """Why a new project cannot be called so; '' if it can."""
    if not NAME.fullmatch(name):
        return "is not lower-case letters, digits and single _"
    if name in TAKEN:
        return "is a name that livegym uses itself"
    if task in _imported():
        return f"would hide the {task} that its task's module imports"
    return fault_of_package(name) or fault_of_task(task)


def _imported() -> set[str]:
    """What the template's module imports: a class of such a name would hide it there."""
    module = ast.parse((TEMPLATE / "tasks" / "slider.py").read_text())
    return {alias.name for node in module.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def _known_tasks() -> list[str]:
    """All tasks; if the project of the current directory is broken, livegym's own: a new one has no need of it."""
    try:
        return registry.names("tasks")
    except UserError:
        return list(LIVEGYM.yaml_files("task"))


def _remove_dead(folder: Path) -> None:
    """Takes away what an earlier `new` of this name has left that was killed."""
    for left in folder.parent.glob(f".{folder.name}.*.tmp"):
        if is_left_over(left):
            shutil.rmtree(left, ignore_errors=True)


def _write(folder: Path, name: str, task: str) -> None:
    for source in sorted(TEMPLATE.rglob("*")):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        relative = source.relative_to(TEMPLATE).as_posix().replace("Slider", task).replace("slider", name)
        target = folder / (".gitignore" if relative == "gitignore" else relative)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text().replace("Slider", task).replace("slider", name))

"""`livegym new my_robot`: create a project of your own from the template, completely or not at all.

new_project("my_robot")        # ./my_robot with a task MyRobot that trains and passes its own tests
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import livegym
from livegym.projects import registry
from livegym.projects.commands import program, program_elsewhere
from livegym.projects.finding import LIVEGYM, project_above
from livegym.projects.names import fault_of_package, fault_of_task, is_library
from livegym.utils.errors import UserError
from livegym.utils.files import is_left_over, temporary_name
from livegym.utils.signals import StopFlag

TEMPLATE = Path(__file__).parent / "template"
Writer = Callable[[Path, str, str], None]
"""Writes the files of a project: its folder, its name, the name of its task."""
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
TAKEN = ("livegym", "livegym_client", "tests", "tasks", "cfg", "algorithms", "gates", "simulators")


def main(arguments: list[str]) -> int:
    """The command line after `livegym new`; returns the exit status. Raises UserError unless it is one name."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    if len(arguments) != 1 or len(names) != 1:
        raise UserError(
            f"{' '.join(['new', *arguments])}: one name is needed. Allowed: lower-case letters, digits and _, as for a "
            f"package. For example: {program()} new my_robot"
        )
    with StopFlag() as stop:
        folder = new_project(names[0], stop)
    task = task_name(folder.name)
    print(f"created {folder}: the task {task}, with its model, settings and tests. Next:")
    print(f"  cd {names[0]}")
    print(f"  {program_elsewhere()} config=train_headless task={task}")
    print("  python -m pytest")
    return 0


def task_name(project: str) -> str:
    """`my_robot` -> MyRobot."""
    return "".join(word.capitalize() for word in project.split("_"))


def new_project(path: str, stop: StopFlag | None = None, write: Writer | None = None, check_only: bool = False) -> Path:
    """Create the folder `path`, whose last part is the project's name, and return it.

    `write` writes its files instead of the template's. `check_only` refuses what would be refused, and creates nothing.

    Raises UserError for an invalid or taken name, for a folder that exists already or cannot be created, and if `stop`
    is requested. If it fails, it leaves no files. It removes the files that a killed call for this name has left.
    """
    folder = Path(os.path.expanduser(path))
    name = folder.name
    task = task_name(name)
    fault = _fault_of(name, task)
    if fault:
        raise UserError(
            f"new {path}: {name!r} cannot be a project's name: it {fault}. Allowed: lower-case letters, digits and _, "
            "beginning with a letter, and a name that is not taken. For example my_robot"
        )
    if task in _known_tasks():
        raise UserError(f"new {path}: there is a task {task} already. Allowed: a name that is not taken.")
    if path.startswith("~") and str(folder) == path:
        raise UserError(f"new {path}: there is no such user. Allowed: a path such as {name} or ~/{name}.")
    if os.path.lexists(folder):
        raise UserError(f"new {path}: {folder} exists already. Allowed: a new folder. Choose another name.")
    if is_library(name):
        raise UserError(f"new {path}: {name} is the name of an installed library. Allowed: a name that is not taken.")
    outer = _around(folder)
    if outer is not None:
        raise UserError(
            f"new {path}: {outer} is a project already, and one inside another would become a part of it. "
            f"Allowed: a folder outside. For example: {program()} new {outer.parent / name}"
        )
    if check_only:
        return folder
    begun = temporary_name(folder)
    try:
        _remove_dead(folder)
        (write or _write)(begun, name, task)
        if stop is not None and stop.requested:
            raise UserError(f"new {path}: interrupted. Nothing was created.", exit_code=stop.exit_status)
        begun.rename(folder)
    except OSError as error:
        raise UserError(f"new {path}: {folder} cannot be created ({error}). Choose another place.") from error
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    return folder


def _around(folder: Path) -> Path | None:
    """The project, or livegym's checkout, that a new folder would lie in; None if there is none."""
    checkout = Path(livegym.__file__).resolve().parent.parent
    if (checkout / "setup.py").is_file() and checkout in folder.resolve().parents:
        return checkout
    return project_above(folder)


def _fault_of(name: str, task: str) -> str:
    """Why a new project cannot have this name; '' if it can."""
    if not NAME.fullmatch(name):
        return "is not lower-case letters, digits and single _"
    if name in TAKEN:
        return "is a name that livegym uses itself"
    if task in _imported():
        return f"would hide the {task} that its task's module imports"
    return fault_of_package(name) or fault_of_task(task)


def _imported() -> set[str]:
    """Names that the template's module imports: a task's class with the same name would hide the import."""
    module = ast.parse((TEMPLATE / "tasks" / "slider.py").read_text())
    return {alias.name for node in module.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def _known_tasks() -> list[str]:
    """All tasks; if the current directory's project is broken, only livegym's: a new project does not need that one."""
    try:
        return registry.names("tasks")
    except UserError:
        return list(LIVEGYM.yaml_files("task"))


def _remove_dead(folder: Path) -> None:
    """Remove the temporary folders that earlier calls for this name left when they were killed."""
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

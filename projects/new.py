"""`livegym new my_robot`: makes a project of one's own from the template, whole or not at all.

new_project("my_robot")        # ./my_robot with a task MyRobot that trains and passes its own tests
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from livegym.projects import registry
from livegym.projects.commands import program
from livegym.utils.errors import UserError
from livegym.utils.files import temporary_name

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
    folder = new_project(names[0])
    task = task_name(folder.name)
    print(f"made {folder}: the task {task}, with its model, settings and tests. Next:")
    print(f"  cd {names[0]}")
    print(f"  livegym config=train_headless task={task}")
    print("  python -m pytest")
    return 0


def task_name(project: str) -> str:
    """`my_robot` -> MyRobot."""
    return "".join(word.capitalize() for word in project.split("_"))


def new_project(path: str) -> Path:
    """Makes the folder `path`, whose last part is the project's name; returns it.

    Raises UserError for a name that cannot be a package, one that is taken, and a folder that is there already or
    cannot be made. Nothing is left if it fails.
    """
    folder = Path(path).expanduser()
    name = folder.name
    if not NAME.fullmatch(name) or name in TAKEN:
        raise UserError(
            f"new {path}: {name!r} cannot be a project's name. Allowed: lower-case letters, digits and _, beginning "
            f"with a letter, and not {', '.join(TAKEN)}. For example my_robot"
        )
    task = task_name(name)
    if task in registry.names("tasks"):
        raise UserError(f"new {path}: there is a task {task} already. Allowed: a name that is not taken.")
    if os.path.lexists(folder):
        raise UserError(f"new {path}: {folder} is there already. Allowed: a new folder. Choose another name.")
    begun = Path(temporary_name(folder))
    try:
        _write(begun, name, task)
        begun.rename(folder)
    except OSError as error:
        raise UserError(f"new {path}: {folder} cannot be made ({error}). Choose another place.") from error
    finally:
        shutil.rmtree(begun, ignore_errors=True)
    return folder


def _write(folder: Path, name: str, task: str) -> None:
    for source in sorted(TEMPLATE.rglob("*")):
        if source.is_dir() or "__pycache__" in source.parts:
            continue
        relative = source.relative_to(TEMPLATE).as_posix().replace("Slider", task).replace("slider", name)
        target = folder / (".gitignore" if relative == "gitignore" else relative)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text().replace("Slider", task).replace("slider", name))

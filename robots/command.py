"""`livegym new my_robot --from robot.urdf`: read a robot, report what it is, and write a project in which it stands.

main(["my_robot", "--from", "robot.urdf"])     # the exit status
"""

from __future__ import annotations

from pathlib import Path

from livegym.projects.commands import program, program_elsewhere
from livegym.projects.new import new_project, task_name
from livegym.robots.project import prepare, writer
from livegym.robots.read import read
from livegym.utils.errors import UserError
from livegym.utils.signals import StopFlag

OPTION = "--from"


def main(arguments: list[str]) -> int:
    """The command line after `livegym new`, with the option `--from`. Raises UserError for a wrong one."""
    name, file = _parsed(arguments)
    new_project(name, check_only=True)
    print(f"reading {file}, and letting it settle in some poses ...", flush=True)
    prepared = prepare(read(Path(file).expanduser()))
    print("\n".join(prepared.lines))
    with StopFlag() as stop:  # before, nothing is written, so Ctrl+C ends at once
        folder = new_project(name, stop, writer(prepared))
    task = task_name(folder.name)
    print(f"\ncreated {folder}: the task {task}, its model, settings and tests; ROBOT.md is this report. Next:")
    print(f"  cd {name}")
    print(f"  {program_elsewhere()} config=train_headless task={task}")
    print(f"  {program_elsewhere()} config=test checkpoint=latest testGamesNum=50")
    return 0


def _parsed(arguments: list[str]) -> tuple[str, str]:
    """The project's name, and the robot's file."""
    words = [part for argument in arguments for part in _split(argument)]
    files = [words[i + 1] for i, word in enumerate(words[:-1]) if word == OPTION]
    rest = [word for i, word in enumerate(words) if word != OPTION and (i == 0 or words[i - 1] != OPTION)]
    if len(files) != 1 or not files[0] or len(rest) != 1 or rest[0].startswith("-"):
        raise UserError(
            f"new {' '.join(arguments)}: one name and one file are needed. "
            f"For example: {program()} new my_robot --from robot.urdf"
        )
    return rest[0], files[0]


def _split(argument: str) -> list[str]:
    """`--from=robot.urdf` is two words."""
    option, equals, value = argument.partition("=")
    return [option, value] if equals and option == OPTION else [argument]

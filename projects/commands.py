"""The commands that messages tell the user to type, with the program and the project that the user named.

command("config=test", "checkpoint=latest")     # livegym config=test checkpoint=latest projectDir=my_robot
"""

from __future__ import annotations

import os
import shlex
import sys

import livegym
from livegym.projects import registry

PROGRAM = "LIVEGYM_PROGRAM"
"""Environment variable that tells a child process which program the user typed."""


def program() -> str:
    """`livegym`, `python -m livegym` or `python train.py`, as this process was started.

    If train.py was typed with a path, the path is part of it.
    """
    if PROGRAM in os.environ:
        return os.environ[PROGRAM]
    typed = sys.argv[0] if sys.argv else ""
    script = os.path.basename(typed)
    if script in ("livegym", "livegym.exe"):
        return "livegym"
    if script == "__main__.py" and os.path.basename(os.path.dirname(typed)) == "livegym":
        return "python -m livegym"
    return f"python {shlex.quote(typed)}" if script == "train.py" else "python train.py"


def program_elsewhere() -> str:
    """The program as it is typed in another directory, to which the path of a script may not lead."""
    typed = program()
    return f"python {shlex.quote(str(livegym.ROOT / 'train.py'))}" if typed.endswith("train.py") else typed


def command(*arguments: str) -> str:
    """A complete command to copy: the arguments as given, and projectDir if it was typed."""
    folder = registry.project_dir()
    named = [] if folder is None else [f"projectDir={shlex.quote(folder)}"]
    return " ".join([program(), *arguments, *named])

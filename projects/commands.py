"""The commands that messages tell the user to type, with the program and the project that the user named.

command("config=test", "checkpoint=latest")     # livegym config=test checkpoint=latest projectDir=my_robot
"""

from __future__ import annotations

import os
import shlex
import sys

from livegym.projects import registry

PROGRAM = "LIVEGYM_PROGRAM"
"""Environment variable that tells a child process which program the user typed."""


def program() -> str:
    """`livegym`, `python -m livegym` or `python train.py`, as this process was started."""
    if PROGRAM in os.environ:
        return os.environ[PROGRAM]
    script = os.path.basename(sys.argv[0] if sys.argv else "")
    if script in ("livegym", "livegym.exe"):
        return "livegym"
    return "python -m livegym" if script == "__main__.py" else "python train.py"


def command(*arguments: str) -> str:
    """A complete command to copy: the arguments as given, and projectDir if it was typed."""
    folder = registry.project_dir()
    named = [] if folder is None else [f"projectDir={shlex.quote(folder)}"]
    return " ".join([program(), *arguments, *named])

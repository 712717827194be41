"""What a message tells its reader to type: the command that was used, and the project that was named.

command("config=test", "checkpoint=latest")     # livegym config=test checkpoint=latest projectDir=my_robot
"""

from __future__ import annotations

import os
import shlex
import sys

from livegym.projects import registry

PROGRAM = "LIVEGYM_PROGRAM"
"""Environment variable: what was typed to start the process that this one belongs to."""


def program() -> str:
    """`livegym`, `python -m livegym` or `python train.py`, as this process was started."""
    if PROGRAM in os.environ:
        return os.environ[PROGRAM]
    script = os.path.basename(sys.argv[0] if sys.argv else "")
    if script in ("livegym", "livegym.exe"):
        return "livegym"
    return "python -m livegym" if script == "__main__.py" else "python train.py"


def command(*arguments: str) -> str:
    """The whole command, for a person to copy: arguments as given, and projectDir if it was."""
    folder = registry.project_dir()
    named = [] if folder is None else [f"projectDir={shlex.quote(folder)}"]
    return " ".join([program(), *arguments, *named])

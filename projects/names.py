"""Which names are allowed: a project is imported as a package, and a task's name is typed and written in yaml."""

from __future__ import annotations

import keyword
import sys
from importlib.machinery import PathFinder
from pathlib import Path

VALUES = ("true", "false", "yes", "no", "on", "off", "null", "none", "nan", "inf")
"""Words that yaml or the command line's grammar read as a value, in lower or upper case."""


def fault_of_package(name: str) -> str:
    """Why a package cannot have this name; '' if it can."""
    if not name.isidentifier():
        return "has characters other than letters, digits and _, or begins with a digit"
    if keyword.iskeyword(name):
        return "is a keyword of Python"
    if name == "livegym" or name in sys.stdlib_module_names:
        return "is the name of a module of livegym or of Python's standard library"
    return ""


def fault_of_task(name: str) -> str:
    """Why a task cannot have this name; '' if it can."""
    if keyword.iskeyword(name):
        return "is a keyword of Python"
    return "is read as a value in yaml and on the command line" if name.lower() in VALUES else ""


def is_library(name: str) -> bool:
    """Whether an installed library, which a project would hide, has this name. An installed project is no library."""
    places = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    spec = PathFinder.find_spec(name, places)
    if spec is None:
        return False
    return not any((Path(folder) / "cfg" / "task").is_dir() for folder in spec.submodule_search_locations or ())

"""Where Python looks for modules: the checkout's own folders must not answer for somebody else's."""

from __future__ import annotations

import os
import sys

import livegym


def forget_checkout() -> None:
    """Takes the checkout off `sys.path`, where a command that is started in it puts it.

    livegym's modules are found without: they are all in the package `livegym`. With it, `import utils` in somebody
    else's code would find ours, and `tasks.ant` and `livegym.tasks.ant` would be two modules.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != str(livegym.ROOT)]


def child_environment() -> dict[str, str]:
    """The environment of a process that is to run this very code, from wherever this process has it."""
    there = os.environ.get("PYTHONPATH")
    first = str(livegym.HOME)
    return {**os.environ, "PYTHONPATH": first if not there else f"{first}{os.pathsep}{there}"}

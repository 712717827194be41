"""The module search path: the checkout's folders must not shadow modules of another project."""

from __future__ import annotations

import os
import sys

import livegym


def forget_checkout() -> None:
    """Removes the checkout from `sys.path`; a command that is started inside the checkout puts it there.

    livegym's modules are found without it: they are all in the package `livegym`. With it, `import utils` in another
    project's code would find livegym's, and `tasks.ant` and `livegym.tasks.ant` would be two modules.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != str(livegym.ROOT)]


def child_environment() -> dict[str, str]:
    """The environment of a child process that must import the same livegym as this process."""
    there = os.environ.get("PYTHONPATH")
    first = str(livegym.HOME)
    return {**os.environ, "PYTHONPATH": first if not there else f"{first}{os.pathsep}{there}"}

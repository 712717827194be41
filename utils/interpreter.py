"""Explains what to do if this Python lacks a library that livegym needs. Imports nothing but the standard library."""

from __future__ import annotations

import sys

from livegym import ROOT


def explain_missing(error: ModuleNotFoundError) -> int:
    """Print the command that makes the library available; return the exit status 2.

    Raises `error` again if the missing module belongs to livegym. Most often the environment of the checkout exists,
    but is not activated in this terminal.
    """
    if error.name is None or error.name.partition(".")[0] == "livegym":
        raise error
    if not (ROOT / "Makefile").exists():
        step = "Reinstall it there: pip install --force-reinstall livegym"
    elif (ROOT / ".venv" / "bin" / "python").exists():
        step = "Activate the environment: source .venv/bin/activate"
    else:
        step = "Set up the environment and activate it: make setup && source .venv/bin/activate"
    print(f"error: {sys.executable} has no module {error.name!r}. {step}", file=sys.stderr)
    return 2

"""Run a project's code: any exception in it becomes one UserError that names the project and says what to do.

with foreign_code("task=Mine: mine.tasks.mine:Mine of projectDir=mine", "cannot be loaded", folder, "Fix it there."):
    import_module("mine.tasks.mine")

`sys.exit()` in that code is reported in the same way. Only Ctrl+C and a UserError pass unchanged.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from types import TracebackType

from livegym.utils.errors import UserError

OURS = ("livegym", "importlib")
"""Packages whose lines are left out of a traceback, because they do not help to find a mistake in a project's code."""


@contextmanager
def foreign_code(what: str, failed: str, folder: Path | None, advice: str) -> Iterator[None]:
    """Turn any exception inside into a UserError: its traceback, then `what` `failed` (error). `advice`.

    `folder` is the project's, which is on `sys.path`: if one of its files hides a library, the message says so.
    """
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit, and classes that derive from BaseException alone
        details = _traceback(error)
        summary = " ".join(traceback.format_exception_only(error)[-1].split())
        hidden = hidden_library(folder, f"{details}{summary}") if folder is not None else ""
        raise UserError(f"{what} {failed} ({summary}). {hidden or advice}", details=details) from error


def _traceback(error: BaseException) -> str:
    """The traceback from the first line outside `OURS`; for a syntax error only its location; '' if none is outside."""
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(error)[:-1])
    tb: TracebackType | None = error.__traceback__
    while tb is not None and str(tb.tb_frame.f_globals.get("__name__")).partition(".")[0] in OURS:
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, tb)) if tb is not None else ""


def hidden_library(folder: Path, text: str) -> str:
    """The advice if a module in `folder` hides a library and the error `text` is about that module; otherwise ''."""
    others = [entry for entry in sys.path if entry and Path(entry).resolve() != folder]
    for file in sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")]):
        name = file.stem if file.parent == folder else file.parent.name
        if str(file) not in text and f"'{name}'" not in text:
            continue
        if name in sys.stdlib_module_names or PathFinder.find_spec(name, others) is not None:
            return f"{file} hides the library {name}. Rename that file."
    return ""

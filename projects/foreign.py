"""Running other people's code: whatever it raises becomes one UserError that says whose it is and what to do.

with foreign_code("task=Mine: mine.tasks.mine:Mine of projectDir=mine", "cannot be loaded", folder, "Mend it there."):
    import_module("mine.tasks.mine")

`sys.exit()` in it is a mistake like any other. Only Ctrl+C passes, and a UserError that the code raises itself.
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
"""Packages whose lines in a traceback say nothing about somebody else's mistake."""


@contextmanager
def foreign_code(what: str, failed: str, folder: Path | None, advice: str) -> Iterator[None]:
    """Raises UserError for whatever is raised inside: `what` `failed` (error). `advice`, under its traceback.

    `folder` is the project's, which is on `sys.path`: if one of its files hides a library, the message says so.
    """
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also SystemExit, and what derives from neither
        details = _traceback(error)
        said = " ".join(traceback.format_exception_only(error)[-1].split())
        hidden = hidden_library(folder, f"{details}{said}") if folder is not None else ""
        raise UserError(f"{what} {failed} ({said}). {hidden or advice}", details=details) from error


def _traceback(error: BaseException) -> str:
    """The traceback from the first line that is not ours; of a syntax error only the place; '' if all is ours."""
    if isinstance(error, SyntaxError):
        return "".join(traceback.format_exception_only(error)[:-1])
    tb: TracebackType | None = error.__traceback__
    while tb is not None and str(tb.tb_frame.f_globals.get("__name__")).partition(".")[0] in OURS:
        tb = tb.tb_next
    return "".join(traceback.format_exception(type(error), error, tb)) if tb is not None else ""


def hidden_library(folder: Path, text: str) -> str:
    """The advice for a module in `folder` that hides a library and that `text`, an error, is about; '' if none does."""
    others = [entry for entry in sys.path if entry and Path(entry).resolve() != folder]
    for file in sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")]):
        name = file.stem if file.parent == folder else file.parent.name
        if str(file) not in text and f"'{name}'" not in text:
            continue
        if name in sys.stdlib_module_names or PathFinder.find_spec(name, others) is not None:
            return f"{file} hides the library {name}. Rename that file."
    return ""

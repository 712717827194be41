"""Announce each module of a foreign checkout in the log before it is imported, with the SHA-256 of exactly what runs.

    announce_below(checkout.root)        # then import anything in it

The bytes that are hashed are the ones that are compiled: no `__pycache__` is read, and none is written into the
checkout. Only imports are seen: files that the code itself reads and executes are not.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, all_suffixes
from pathlib import Path
from types import CodeType, ModuleType

from livegym.compat.finders import is_part
from livegym.projects import executed
from livegym.utils.log import ROUTINE, log_before_setup

log = logging.getLogger(__name__)
OURS = ("livegym", "isaacgym")


def announce_below(root: Path, neighbours: Mapping[str, Path] | None = None) -> None:
    """Announce from now on each module in a folder before it is imported; may be called again.

    `neighbours`: modules and packages in it that are found by their name alone, whatever is on the path.
    """
    known = next((found for found in sys.meta_path if isinstance(found, _Announcer) and found.root == root), None)
    if known is None:
        known = _Announcer(root)
        sys.meta_path.insert(0, known)
    known.neighbours.update(neighbours or {})


def repeat(root: Path) -> None:
    """Write the files that have run into the run's log file, which did not exist when they were announced."""
    for name, digest in executed.below(root).items():
        log.info("foreign code that runs: %s, SHA-256 %s", root / name, digest, extra=ROUTINE)


class _Announcer(MetaPathFinder):
    """Finds the modules whose files are in one folder, as Python's own finder would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.neighbours: dict[str, Path] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if path is None and name in self.neighbours:
            path = [str(self.neighbours[name].parent)]
        if top in OURS or not self._may_have(top, path):
            return None
        spec = PathFinder.find_spec(name, path, target)
        file = None if spec is None or spec.origin is None else self._file(spec.origin)
        if spec is None or spec.origin is None or file is None:
            return None
        if type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.origin, file)
        elif spec.has_location:
            read = self._file(getattr(spec.loader, "archive", spec.origin)) or file  # a zip file, or a compiled module
            announce(read, read.read_bytes())
        return spec

    def _may_have(self, top: str, path: Sequence[str] | None) -> bool:
        """A cheap look: most imports are of libraries."""
        if path is not None:
            return any(self._is_part(folder) for folder in path)
        return any(_may_hold(Path(folder), top) for folder in sys.path if self._is_part(folder))

    def _is_part(self, path: str) -> bool:
        return self._file(path) is not None

    def _file(self, path: str) -> Path | None:
        """The path below the checkout's folder; None if it is not there, or in an installed library.

        A link in the checkout counts as a part of it, and so does a link into it.
        """
        named = (Path(os.path.abspath(path)), Path(os.path.realpath(path)))
        return next((file for file in named if is_part(file, self.root)), None)


def _may_hold(folder: Path, top: str) -> bool:
    """Whether a folder on `sys.path` may have a module; a zip file may have any."""
    ends = ("", *all_suffixes())
    return folder.is_file() or any((folder / f"{top}{end}").exists() for end in ends)


class _Loader(SourceFileLoader):
    """Compiles the bytes that it has announced."""

    def __init__(self, name: str, origin: str, file: Path) -> None:
        """`file` is the name to announce: the origin, below the checkout's folder."""
        super().__init__(name, origin)
        self._file = file

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file as it is now."""
        origin = self.get_filename(fullname)
        content = self.get_data(origin)
        announce(self._file, content)
        code: CodeType = self.source_to_code(content, origin)
        return code


def announce(file: Path, content: bytes) -> None:
    """Say that a file is about to run, with its SHA-256, once."""
    digest, news = executed.note(file, content)
    if news:
        log_before_setup()
        log.info("running foreign code: %s, SHA-256 %s", file, digest)

"""Announce each file of a foreign checkout in the log before it runs, with the SHA-256 of exactly what runs.

    announce_below(checkout.root)        # then import anything in it

The bytes that are hashed are the ones that are compiled: no `__pycache__` is read, and none is written into the
checkout.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, all_suffixes
from pathlib import Path
from types import CodeType, ModuleType

from livegym.projects import executed
from livegym.utils.log import ROUTINE, log_before_setup

log = logging.getLogger(__name__)
OURS = ("livegym", "isaacgym")
LIBRARIES = ("site-packages", "dist-packages")
"""Folders of installed libraries, which may be in a virtual environment in the checkout."""


def announce_below(root: Path) -> None:
    """Announce from now on each file in a folder before it is imported; may be called again."""
    if not any(isinstance(finder, _Announcer) and finder.root == root for finder in sys.meta_path):
        sys.meta_path.insert(0, _Announcer(root))


def repeat(root: Path) -> None:
    """Write the files that have run into the run's log file, which did not exist when they were announced."""
    for name, digest in executed.below(root).items():
        log.info("foreign code that runs: %s, SHA-256 %s", root / name, digest, extra=ROUTINE)


class _Announcer(MetaPathFinder):
    """Finds the modules whose files are in one folder, as Python's own finder would."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top in OURS or not self._may_have(top, path):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or not self._is_foreign(Path(spec.origin)):
            return None
        if type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.origin)
        elif spec.has_location:
            _announce(Path(spec.origin), Path(spec.origin).read_bytes())  # a compiled module
        return spec

    def _may_have(self, top: str, path: Sequence[str] | None) -> bool:
        """A cheap look: most imports are of libraries."""
        if path is not None:
            return any(Path(folder).is_relative_to(self.root) for folder in path)
        return (self.root / top).is_dir() or any((self.root / f"{top}{end}").is_file() for end in all_suffixes())

    def _is_foreign(self, file: Path) -> bool:
        if not file.is_relative_to(self.root):
            return False
        return not any(part in LIBRARIES for part in file.relative_to(self.root).parts)


class _Loader(SourceFileLoader):
    """Compiles the bytes that it has announced."""

    def get_code(self, fullname: str) -> CodeType:
        """The code of the file as it is now."""
        file = self.get_filename(fullname)
        content = self.get_data(file)
        _announce(Path(file), content)
        code: CodeType = self.source_to_code(content, file)
        return code


def _announce(file: Path, content: bytes) -> None:
    digest, news = executed.note(file, content)
    if news:
        log_before_setup()
        log.info("running foreign code: %s, SHA-256 %s", file, digest)

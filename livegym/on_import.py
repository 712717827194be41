"""Call a function once a library has been imported, now or later, without importing it here.

    when_imported("gymnasium", register)

`import livegym` is part of every command, and must stay quick; a library that only some programs use is left to them.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(library: str, then: Callable[[], object]) -> None:
    """Call `then` now if the library has been imported, otherwise right after its import."""
    if library in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Waiting(library, then))


class _Waiting(MetaPathFinder):
    """Waits for the import of one library; it finds the module as the other finders do."""

    def __init__(self, library: str, then: Callable[[], object]) -> None:
        self._library = library
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The library's spec, whose loader calls the function after the module; None for any other module."""
        if fullname != self._library:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self._then)
        return spec


class _Then(Loader):
    """A loader that calls a function after it has run a module; in all else it is the loader below."""

    def __init__(self, loader: Any, then: Callable[[], object]) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module, as the loader below makes it."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code, and call the function."""
        self._loader.exec_module(module)
        self._then()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

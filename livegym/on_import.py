"""Call a function once a library has been imported, now or later, without importing it here.

    when_imported("gymnasium", register)

`import livegym` is part of every command, and must stay quick; a library that only some programs use is left to them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
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
    """Waits for the import of one library; it finds the module as the other finders do.

    It stays until an import has succeeded: a program may look the library up before, or try in vain to import it.
    """

    def __init__(self, library: str, then: Callable[[], object]) -> None:
        self._library = library
        self._then = then
        self._asking = threading.local()  # .others: this thread asks the other finders

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The library's spec, whose loader calls the function after the module; None for any other module."""
        if fullname != self._library or getattr(self._asking, "others", False):
            return None
        self._asking.others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.others = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec.loader, self._imported)
        return spec

    def _imported(self) -> None:
        with contextlib.suppress(ValueError):  # another thread has removed it
            sys.meta_path.remove(self)
        self._then()


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

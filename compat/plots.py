"""Let plots of foreign code be drawn without windows on a machine that has no display.

    let_plots_have_no_windows()          # from now on, matplotlib.use("TkAgg") is no error

Task code chooses a backend with windows when it is imported, even if it draws only while it is debugged.
"""

from __future__ import annotations

import functools
import importlib
import logging
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

log = logging.getLogger(__name__)
PLOTS = "matplotlib"
FILES_ONLY = ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")
"""Backends that never open a window."""


def let_plots_have_no_windows() -> None:
    """Keep the backend if the chosen one needs a display and there is none, and say so; may be called again."""
    if PLOTS in sys.modules:
        _tolerate(sys.modules[PLOTS])
    elif not any(isinstance(finder, _Matplotlib) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Matplotlib())


class _Matplotlib(MetaPathFinder, Loader):
    """Finds matplotlib as Python does, and changes it as soon as it is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name) if name == PLOTS else None
        if spec is not None and spec.loader is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _tolerate(module)


def _tolerate(matplotlib: ModuleType) -> None:
    given: Any = matplotlib.use
    if hasattr(given, "__wrapped__"):
        return

    @functools.wraps(given)
    def use(backend: str, *, force: bool = True) -> None:
        if str(backend).lower() not in FILES_ONLY:
            importlib.import_module(f"{PLOTS}.pyplot")  # without it, the error would come with the first figure
        try:
            given(backend, force=force)
        except ImportError as error:
            log.info("foreign code asked for matplotlib.use(%r): %s. Plots open no windows.", backend, error)

    matplotlib.use = use  # type: ignore[attr-defined]

"""Finders of modules for foreign task code: `isaacgym`, `loguru`, and libraries that most tasks never use.

Whatever is installed is used instead. Only the name `isaacgym` is added:
with this folder on `sys.path`, foreign code could import `core` and `foreign`, too.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from livegym.compat.names import add_dropped_names

PACKAGE = Path(__file__).parent / "isaacgym"
LOGURU = Path(__file__).parent / "loguru_standin.py"
ABSENT = {
    "rsl_rl": "the learner of legged_gym; livegym's own trains here",
    "warp": "it computes contact of signed distance fields on GPUs",
    "pysdf": "it computes signed distances",
    "urdfpy": "it reads robot descriptions",
    "trimesh": "it reads meshes",
    "pyvirtualdisplay": "it captures a window",
    "scipy": "it interpolates and filters",
}
"""Libraries that modules of foreign checkouts import and most tasks never use -> what they are for."""


def install() -> None:
    """Let `import isaacgym` find livegym's package, unless the real one is installed; may be called again.

    Libraries that most tasks never use become modules that fail by name, unless they are installed. The names that
    NumPy and Gymnasium have dropped are added (`names.py`).
    """
    for finder in (_Isaacgym, _Loguru, _Absent):
        if not any(isinstance(found, finder) for found in sys.meta_path):
            sys.meta_path.append(finder())
    add_dropped_names()


class _Isaacgym(MetaPathFinder):
    """Finds the package `isaacgym` in livegym's folder."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "isaacgym":
            return None
        return importlib.util.spec_from_file_location(
            name, PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
        )


class _Loguru(MetaPathFinder):
    """Finds the stand-in of `loguru`; behind all others, so that an installed one is used."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, LOGURU) if name == "loguru" else None


class _Absent(MetaPathFinder, Loader):
    """The libraries in `ABSENT`, as modules that fail by name as soon as one of their names is used."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in ABSENT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


class _AbsentModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return placeholder(f"{self.__name__}.{name}")


class _Placeholder(type):
    """A class that can be named, subclassed, and used in annotations and decorators, but not in a function."""

    _path = ""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return placeholder(f"{cls._path}.{name}")

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        caller = sys._getframe(1).f_code
        if caller.co_flags & inspect.CO_OPTIMIZED:  # the body of a function; those of modules and classes are not
            _fail(cls._path)
        return placeholder(f"{cls._path}()")


def placeholder(path: str) -> type:
    """The stand-in for a name of an absent library, such as rsl_rl.env.VecEnv."""
    return _Placeholder(path.rpartition(".")[2], (), {"_path": path})


def _fail(path: str) -> NoReturn:
    library = path.partition(".")[0]
    raise ModuleNotFoundError(
        f"{path} is used, but {library} is not installed ({ABSENT[library]}). Install it, if this task must have it: "
        f"pip install {library}",
        name=library,
    )

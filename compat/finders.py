"""Finders of modules for foreign task code: `isaacgym`, `loguru`, and libraries that most tasks never use.

Whatever is installed is used instead. Only the name `isaacgym` is added:
with this folder on `sys.path`, foreign code could import `core` and `foreign`, too.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import linecache
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from livegym.compat.names import add_dropped_names
from livegym.compat.plots import let_plots_have_no_windows

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
    "wandb": "it sends reports to a web service; livegym writes TensorBoard's files",
}
"""Libraries that modules of foreign checkouts import and most tasks never use -> what they are for."""
CATCHING = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
"""The names in a handler of a failed import."""
LEAVING = frozenset({"exit", "quit", "sys.exit", "os._exit"})
"""Functions that end the program."""
LIBRARIES = ("site-packages", "dist-packages")
"""Folders of installed libraries, which may be in a virtual environment in a checkout."""


def install(checkout: Path | None = None) -> None:
    """Let `import isaacgym` find livegym's package, unless the real one is installed; may be called again.

    A package `isaacgym` in the folder `checkout` is not installed. Libraries that most tasks never use become modules
    that fail by name, unless they are installed. The names that NumPy and Gymnasium have dropped are added
    (`names.py`). Plots need no display (`plots.py`).
    """
    for finder in (_Loguru, _Absent):
        if not any(isinstance(found, finder) for found in sys.meta_path):
            sys.meta_path.append(finder())
    known = next((found for found in sys.meta_path if isinstance(found, _Isaacgym)), None)
    if known is None:
        known = _Isaacgym()
        sys.meta_path.insert(0, known)
    if checkout is not None:
        known.checkouts.add(checkout)
    add_dropped_names()
    let_plots_have_no_windows()


class _Isaacgym(MetaPathFinder):
    """Finds the package `isaacgym`: the installed one, otherwise livegym's. It is the first of all finders.

    Python's own would find a folder `isaacgym` in a checkout, or take one without `__init__` for an empty package.
    """

    def __init__(self) -> None:
        self.checkouts: set[Path] = set()

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "isaacgym":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (self._installed(name) if finder is PathFinder else finder.find_spec(name, None) for finder in others)
        for spec in found:
            if spec is not None and spec.loader is not None:  # a folder without __init__ has no loader
                return spec
        return importlib.util.spec_from_file_location(
            name, PACKAGE / "__init__.py", submodule_search_locations=[str(PACKAGE)]
        )

    def _installed(self, name: str) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [entry for entry in sys.path if not self._is_of_checkout(entry)])

    def _is_of_checkout(self, entry: str) -> bool:
        folder = Path(os.path.realpath(entry))
        return any(is_part(folder, root) for root in self.checkouts)


def is_part(file: Path, root: Path) -> bool:
    """Whether a file or folder is in the folder of a checkout, and not in that of an installed library."""
    return file.is_relative_to(root) and not any(part in LIBRARIES for part in file.relative_to(root).parts)


class _Loguru(MetaPathFinder):
    """Finds the stand-in of `loguru`; behind all others, so that an installed one is used."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, LOGURU) if name == "loguru" else None


class _Absent(MetaPathFinder, Loader):
    """The libraries in `ABSENT`, as modules that fail by name as soon as one of their names is used.

    Code that continues after an ImportError gets one: `try: import wandb`, `importlib.util.find_spec("wandb")`.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in ABSENT or (name == top and _can_do_without(sys._getframe(1))):
            return None
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def _can_do_without(frame: FrameType | None) -> bool:
    """Whether the code that asks for a module, above a frame of the import system, continues if it is not there."""
    while frame is not None and (frame.f_code.co_filename.startswith("<frozen importlib") or _is_importlib(frame)):
        if frame.f_code is importlib.util.find_spec.__code__:
            return True
        frame = frame.f_back
    if frame is None:
        return False
    line = frame.f_lineno
    with contextlib.suppress(SyntaxError, ValueError):
        tree = ast.parse("".join(linecache.getlines(frame.f_code.co_filename)))
        tries = (node for node in ast.walk(tree) if isinstance(node, ast.Try) and any(map(_catches, node.handlers)))
        return any(node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0) for node in tries)
    return False


def _is_importlib(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "importlib"


def _catches(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for a failed import, and continues without what was to be imported."""
    named = "" if handler.type is None else ast.unparse(handler.type)
    return (not named or any(word in CATCHING for word in re.findall(r"\w+", named))) and not _gives_up(handler)


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Whether a handler may raise, or end the program: it asks for the library, in words of its own."""
    calls = [ast.unparse(node.func) for node in ast.walk(handler) if isinstance(node, ast.Call)]
    return any(isinstance(node, ast.Raise) for node in ast.walk(handler)) or not LEAVING.isdisjoint(calls)


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

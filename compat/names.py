"""Names that task code of Isaac Gym's time uses, and that its libraries have dropped since: NumPy's, and `gym`.

    add_dropped_names()                  # np.Inf, np.float, import gym, ...

Whatever is installed is used instead. `import isaacgym` calls it, too; it adds no stand-in of an absent library.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np

DROPPED = {
    "Inf": np.inf,
    "Infinity": np.inf,
    "PINF": np.inf,
    "NINF": -np.inf,
    "infty": np.inf,
    "NaN": np.nan,
    "float_": np.float64,
    "complex_": np.complex128,
    "unicode_": np.str_,
    "string_": np.bytes_,
    "float": float,
    "int": int,
    "bool": bool,
    "object": object,
    "str": str,
    "complex": complex,
    "product": np.prod,
    "cumproduct": np.cumprod,
    "alltrue": np.all,
    "sometrue": np.any,
    "round_": np.round,
}
"""Names that NumPy 1 had -> what they meant."""


def add_dropped_names() -> None:
    """Give NumPy the names that it dropped, and let `gym` be Gymnasium, unless it is installed; may be called again."""
    for name, value in DROPPED.items():
        if name not in vars(np):
            setattr(np, name, value)
    if "gym" not in sys.modules and importlib.util.find_spec("gym") is None:
        sys.meta_path.insert(0, _Gym())  # first: modules in Gymnasium's folders would be found again as gym.*


class _Gym(MetaPathFinder, Loader):
    """`gym` and its modules are those of Gymnasium."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "gym":
            return None
        return ModuleSpec(name, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        _, dot, rest = module.__name__.partition(".")
        sys.modules[module.__name__] = importlib.import_module(f"gymnasium{dot}{rest}")

"""MuJoCo without its opinion on OpenGL."""

from __future__ import annotations

import contextlib
import importlib
import os


def import_mujoco() -> None:
    """Imports MuJoCo whatever MUJOCO_GL says: only pictures need OpenGL, and `viewers.gl` judges the variable then.

    MuJoCo reads it at its import, and a value that it does not know, or a library that is missing, would end a
    training that never draws anything. Where there is no MuJoCo, nothing happens.
    """
    asked = os.environ.pop("MUJOCO_GL", None)
    try:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("mujoco")
    finally:
        if asked is not None:
            os.environ["MUJOCO_GL"] = asked

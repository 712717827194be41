"""Imports MuJoCo without its check of MUJOCO_GL."""

from __future__ import annotations

import contextlib
import importlib
import os


def import_mujoco() -> None:
    """Imports MuJoCo whatever the value of MUJOCO_GL. Only pictures need OpenGL; `utils.gl` checks the variable then.

    MuJoCo reads the variable when it is imported. An unknown value or a missing library would end a training run that
    never draws anything. "disabled" keeps its meaning: MuJoCo then loads no OpenGL, nor GLFW, which starts a program of
    its own. If MuJoCo is not installed, this does nothing.
    """
    asked = os.environ.get("MUJOCO_GL")
    if asked != "disabled":
        os.environ.pop("MUJOCO_GL", None)
    try:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("mujoco")
    finally:
        if asked is not None:
            os.environ["MUJOCO_GL"] = asked

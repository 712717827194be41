"""What an import of MuJoCo loads for OpenGL."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = "import sys, livegym.sim, os; print('glfw' in sys.modules, os.environ.get('MUJOCO_GL'))"


@pytest.mark.parametrize(("value", "loaded"), [("disabled", False), ("egl", True), ("nonsense", True)])
def test_a_trainer_loads_no_glfw_and_no_value_is_an_error_yet(value, loaded):
    """GLFW runs a program of its own when it is loaded, whose traceback a trainer that is stopped then would log."""
    environment = {**os.environ, "MUJOCO_GL": value}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(loaded), value]

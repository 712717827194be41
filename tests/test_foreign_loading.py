"""Modules for foreign code: what is found, what fails by name, and what a package's `__init__` does not do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from livegym.compat import install
from livegym.compat.finders import ABSENT, placeholder

ROOT = Path(__file__).parent.parent


def in_a_process(code: str) -> str:
    """Runs code in a process of its own, because modules and finders are of a whole process."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_numpy_has_the_names_that_version_2_dropped():
    install()
    assert np.Inf == float("inf")
    assert np.float is float


def test_gym_is_gymnasium_with_its_modules():
    code = (
        "from livegym.compat import install; install(); import gym; from gym import spaces; import gym.spaces.box;"
        "import gymnasium; print(spaces.Box is gymnasium.spaces.Box, gym.spaces.box.Box is spaces.Box)"
    )
    assert in_a_process(code) == "True True"


def test_only_the_name_isaacgym_is_added():
    code = (
        "from livegym.compat import install; install(); install(); import sys, importlib.util as u;"
        "print(u.find_spec('core'), u.find_spec('foreign'));"
        "print(sum('livegym' in type(f).__module__ for f in sys.meta_path))"
    )
    assert in_a_process(code) == "None None\n4"


def test_isaacgym_alone_adds_names_and_no_stand_ins():
    code = """
import sys
sys.path.append("compat")
import isaacgym, numpy, gym, gym.spaces
print(numpy.Inf, numpy.float_ is numpy.float64, numpy.product([2, 3]), gym.spaces.Box.__module__.split(".")[0])
try: import warp
except ModuleNotFoundError as error: print(error)
"""
    assert in_a_process(code) == "inf True 6 gymnasium\nNo module named 'warp'"


def test_absent_libraries_are_imported_and_fail_by_name_when_used():
    code = """
from livegym.compat import install
install()
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
import warp as wp
class Task(VecEnv): pass
@wp.kernel
def kernel(points: wp.array(dtype=wp.vec3)): pass
def use(): OnPolicyRunner(None)
try: use()
except ModuleNotFoundError as error: print(error)
"""
    said = in_a_process(code)
    assert said.startswith("rsl_rl.runners.OnPolicyRunner is used, but rsl_rl is not installed")
    assert "pip install rsl_rl" in said


def test_the_document_names_every_stand_in():
    text = (ROOT / "docs" / "isaacgym.md").read_text()
    rows = re.findall(r"^\| (.*?) \| .*? \| a stand-in.* \|$", text, re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named | {"trimesh"} == ABSENT.keys()  # trimesh is there, because livegym depends on it


def test_a_placeholder_fails_in_a_function_only():
    thing = placeholder("warp.array")
    with pytest.raises(ModuleNotFoundError, match=r"warp\.array is used"):
        thing()
    assert thing.inner.__name__ == "inner"


def test_the_program_says_how_it_is_used():
    done = subprocess.run(
        [sys.executable, "-m", "livegym.compat"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 2
    assert "Allowed: python -m livegym.compat -m <module>" in done.stderr


def test_a_program_runs_with_its_arguments(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import sys, numpy, gym\nprint(sys.argv[1:], numpy.Inf, __name__)\n")
    done = subprocess.run(
        [sys.executable, "-m", "livegym.compat", str(program), "--headless", "a=1"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "['--headless', 'a=1'] inf __main__"

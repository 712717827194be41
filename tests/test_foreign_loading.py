"""Modules for foreign code: what is found, what fails by name, and what a package's `__init__` does not do."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from livegym.compat import install
from livegym.compat.finders import ABSENT, PACKAGE, placeholder
from livegym.compat.foreign.announced import announce_below
from livegym.projects import executed
from tests.isaac_toys import fresh_modules

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
        "print(sum('livegym.compat' in type(f).__module__ for f in sys.meta_path))"
    )
    assert in_a_process(code) == "None None\n5"


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A folder that is on `sys.path`, where finders know it as a checkout while the test runs."""
    folder = Path(os.path.realpath(tmp_path)) / "checkout"
    folder.mkdir()
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if "livegym" not in type(one).__module__])
    monkeypatch.syspath_prepend(str(folder))
    install(folder)
    announce_below(folder)
    return folder


def package(folder: Path, content: str | None = "raise RuntimeError('ran')") -> Path:
    """A package `isaacgym`; without content, it has no `__init__`."""
    made = folder / "isaacgym"
    made.mkdir(parents=True)
    if content is not None:
        (made / "__init__.py").write_text(content)
    return made


@pytest.mark.parametrize("content", [None, "raise RuntimeError('ran')"])
def test_a_package_isaacgym_in_a_checkout_is_not_used(content, checkout, monkeypatch):
    package(checkout, content)
    package(checkout / "python", content)
    monkeypatch.syspath_prepend(str(checkout / "python"))
    with fresh_modules("isaacgym"):
        assert importlib.import_module("isaacgym").__file__ == str(PACKAGE / "__init__.py")


@pytest.mark.parametrize("place", ["elsewhere", "checkout/.venv/lib/python3.11/site-packages"])
def test_an_installed_isaacgym_is_used(place, checkout, monkeypatch):
    package(checkout)
    installed = package(checkout.parent / place, "")
    monkeypatch.syspath_prepend(str(installed.parent))
    monkeypatch.syspath_prepend(str(checkout))
    with fresh_modules("isaacgym"):
        assert importlib.import_module("isaacgym").__file__ == str(installed / "__init__.py")


def as_folder(checkout: Path) -> tuple[Path, str]:
    """A folder below the checkout for `sys.path`, and the file in it that is announced."""
    (checkout / "tools").mkdir()
    (checkout / "tools" / "brought_along.py").write_text("HERE = 1\n")
    return checkout / "tools", "tools/brought_along.py"


def as_link(checkout: Path) -> tuple[Path, str]:
    """The same by a link from elsewhere."""
    folder, file = as_folder(checkout)
    (checkout.parent / "link").symlink_to(folder)
    return checkout.parent / "link", file


def as_zip(checkout: Path) -> tuple[Path, str]:
    """A zip file that holds the module."""
    with zipfile.ZipFile(checkout / "tools.zip", "w") as archive:
        archive.writestr("brought_along.py", "HERE = 1\n")
    return checkout / "tools.zip", "tools.zip"


@pytest.mark.parametrize("way", [as_folder, as_link, as_zip])
def test_what_foreign_code_puts_on_the_path_is_announced(way, checkout, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    folder, file = way(checkout)
    monkeypatch.syspath_prepend(str(folder))
    with fresh_modules("brought_along"):
        assert importlib.import_module("brought_along").HERE == 1
    assert list(executed.below(checkout)) == [file]
    assert any(line.startswith(f"running foreign code: {checkout / file}, SHA-256 ") for line in caplog.messages)


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
import sys
from importlib.machinery import PathFinder
sys.meta_path[sys.meta_path.index(PathFinder)] = type("NoRslRl", (), {"find_spec": lambda name, *rest: (
    None if name.startswith("rsl_rl") else PathFinder.find_spec(name, *rest))})
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


READY = """
try:
    import absentia
except ImportError:
    absentia = None


def inner():
    try:
        from absentia.sim import Model
    except (ModuleNotFoundError, AttributeError):
        return None
    return Model


def outer():
    import absentia

    return absentia
"""
INSISTING = """
import sys
try:
    import absentia
except {error}:
    {handler}
"""


def test_code_that_is_ready_for_an_absent_library_is_told_the_truth(tmp_path, monkeypatch):
    """The stand-in would be taken for the library, and fail when it is used."""
    (tmp_path / "ready.py").write_text(READY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(ABSENT, "absentia", "it is for this test")
    install()
    with fresh_modules("absentia", "ready"):
        ready = importlib.import_module("ready")
        assert ready.absentia is None
        assert ready.inner() is None
        assert importlib.util.find_spec("absentia") is None
        assert ready.outer().Model.__name__ == "Model"


@pytest.mark.parametrize(
    ("error", "handler"),
    [
        ("ModuleNotFoundError", 'raise ModuleNotFoundError("absentia is required to write logs")'),
        ("ImportError as error", "print(error); raise"),
        ("Exception", "sys.exit(1)"),
    ],
)
def test_code_that_only_says_that_a_library_is_absent_gets_the_stand_in(error, handler, tmp_path, monkeypatch):
    """As rsl_rl's writers do at the top of a file that a task imports and does not use."""
    (tmp_path / "insisting.py").write_text(INSISTING.format(error=error, handler=handler))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(ABSENT, "absentia", "it is for this test")
    install()
    with fresh_modules("absentia", "insisting"):
        assert importlib.import_module("insisting").absentia.init.__name__ == "init"


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

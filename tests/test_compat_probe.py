"""The probe for machines with the original: what it prints over livegym's package, and that it runs there at all."""

from __future__ import annotations

import ast
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from livegym.compat import probe

sys.path.append(str(Path(__file__).parent.parent / "compat"))

FILE = Path(probe.__file__)
G = 9.81
STEP = 0.01


def springs(stiffness: float, damping: float, position: float, velocity: float, steps: int) -> list[float]:
    """1 kg on a spring, explicit in the spring and implicit in the damping, as MuJoCo's Euler integrates joints."""
    for _ in range(steps):
        velocity = (velocity - STEP * stiffness * position) / (1 + STEP * damping)
        position += STEP * velocity
    return [position, velocity]


def drives(stiffness: float, damping: float, target: float, steps: int) -> list[float]:
    """Positions of 1 kg on a drive: implicit Euler, as PhysX."""
    position, velocity, found = 0.0, 0.0, []
    for _ in range(steps):
        velocity += STEP * stiffness * (target - position)
        velocity /= 1 + STEP * damping + STEP * STEP * stiffness
        position += STEP * velocity
        found.append(position)
    return found


def free() -> list[float]:
    found = drives(1e4, 10.0, 1.0, 5)
    return [found[0], found[1], found[4]]


EXPECTED = {
    "effort_persists": {"after_1": 0.01, "after_10": 0.1},
    "refresh_after_set": {"dof": 0.5, "body_x": 0.5},
    "effort_damping": {"from_rest": springs(3.0, 2.0, 0.5, 0.0, 10), "from_speed": springs(3.0, 2.0, 0.0, 1.0, 10)},
    "dof_force": {"held": 2 * G, "accelerated": 5.0},
    "drive": {"free": free(), "limited": [20 * STEP**2 * n * (n + 1) / 2 for n in (1, 2, 5)]},
    "force_sensors": {
        "dynamics=0 constraints=0": 0.0,
        "dynamics=0 constraints=1": 2 * G,
        "dynamics=1 constraints=0": -2 * G,
        "dynamics=1 constraints=1": 0.0,
    },
    "urdf_order": {"dofs": ["a_joint", "a_joint_2", "b_joint"], "bodies": ["base", "z", "y", "x"]},
    "damping_of_bodies": {"linear": 1.0, "angular": (1 + STEP * 0.5) ** -100},
    "pushes": {"after_1": 3 / 2 * STEP, "after_2": 3 / 2 * STEP},
    "jacobian": {
        "jacobian": [[[0.0], [0.3], [0.0], [0.0], [0.0], [1.0]]],
        "mass_matrix": [[0.25 + 2 * 0.3**2]],
    },
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_experiment_over_livegym_gives_the_numbers_of_the_definitions(name):
    assert not list(probe.differences(EXPECTED[name], probe.EXPERIMENTS[name]()))


def test_a_free_body_turns_about_its_centre_of_mass_to_the_first_order():
    """The centre drifts by w^2 r h t / 2, because the step is of the first order in the origin's velocity."""
    x, y, _ = probe.root_velocity()["position"]
    assert x == pytest.approx(0.3 * (1 - math.cos(0.1)) + 0.3 * STEP * 0.1 / 2, abs=1e-5)
    assert y == pytest.approx(-0.3 * math.sin(0.1), abs=1e-5)


def test_friction_is_the_mean_of_both_coefficients():
    found = probe.friction()
    assert found["coefficient"] == pytest.approx(0.4, abs=0.02)
    assert found["rise"] < 0.01


def test_each_experiment_has_a_test():
    assert set(probe.EXPERIMENTS) == {*EXPECTED, "root_velocity", "friction"}


def test_it_runs_where_the_original_runs():
    """Python 3.8, with NumPy and isaacgym only; and the file alone, because it is copied."""
    tree = ast.parse(FILE.read_text(), feature_version=(3, 8))
    used = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    used |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert used - {"__future__", "numpy", "isaacgym"} <= sys.stdlib_module_names


def test_differences_name_the_number_and_both_values():
    theirs = {"a": {"x": 1.0, "y": [1.0, 2.0]}, "b": {"failed": "exit status 1"}}
    ours = {"a": {"x": 1.015, "y": [1.0, 2.5]}, "b": {"z": 3}}
    assert list(probe.differences(theirs, ours)) == [
        "a y[1]: 2 in the file, 2.5 here",
        'b failed: "exit status 1" in the file, null here',
        "b z: null in the file, 3 here",
    ]


@pytest.mark.slow
@pytest.mark.full
def test_the_program_prints_all_and_compares(tmp_path):
    """Also that an experiment which fails says why, and costs only itself."""
    answers = tmp_path / "probe.json"
    command = [sys.executable, "-m", "livegym.compat", str(FILE)]
    answers.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    found = json.loads(answers.read_text())
    assert set(found) == set(probe.EXPERIMENTS)
    assert not [name for name, result in found.items() if "failed" in result]
    found["pushes"]["after_1"] = 0.5
    answers.write_text(json.dumps(found))
    done = subprocess.run([*command, "--compare", str(answers)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "pushes after_1: 0.5 in the file, 0.015 here\n")


@pytest.mark.parametrize("text", [None, "{cut"])
def test_a_file_that_is_not_there_or_is_cut_is_named(tmp_path, text):
    file = tmp_path / "probe.json"
    if text:
        file.write_text(text)
    command = [sys.executable, str(FILE), "--compare", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"{file}: " in done.stderr


def test_an_experiment_that_fails_says_why(tmp_path):
    """A copy of the file on a machine without isaacgym: livegym's is not asked for."""
    copy = shutil.copy(FILE, tmp_path)
    done = subprocess.run([sys.executable, copy, "--experiment", "pushes"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "No module named 'isaacgym'" in done.stderr

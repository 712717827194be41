"""The wheels, a toy in the first layout of IsaacGymEnvs: modules and paths from the folder where its programs start."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from livegym.compat.foreign.configs import RESOLVERS
from livegym.projects.checkout import checkout_in
from livegym.utils.errors import UserError
from tests.isaac_toys import WHEELS, copied, fresh_modules, made, needs_isaacgym, project, wheels  # noqa: F401
from tests.test_foreign_loading import in_a_process

pytestmark = needs_isaacgym

SPIN = "wheels:spin"


def test_modules_are_found_without_imports():
    found = checkout_in(str(WHEELS), "projectDir")
    assert found is not None
    assert found.tasks == {"wheels-spin": "spin"}
    assert found.start == WHEELS / "wheels"
    assert found.neighbours == {"tasks": WHEELS / "wheels" / "tasks", "utils": WHEELS / "wheels" / "utils"}
    code = found.code("spin")  # tasks/__init__.py says: from tasks.spin import Spinner
    assert (code.module, code.attribute) == ("wheels.tasks.spin", "Spinner")


def test_a_folder_of_data_does_not_hide_the_library_of_its_name(tmp_path):
    """wandb writes into a folder of its name where a program starts, and keeps code of runs there."""
    folder = copied(tmp_path, WHEELS)
    (folder / "wheels" / "numpy").mkdir()
    code = folder / "wheels" / "torch" / "run-20260101-1" / "files" / "code" / "train.py"
    code.parent.mkdir(parents=True)
    code.write_text("")
    assert set(neighbours(folder)) == {"tasks", "utils"}
    inner = folder / "wheels" / "torch" / "inner" / "more.py"
    inner.parent.mkdir()
    inner.write_text("")
    assert set(neighbours(folder)) == {"tasks", "torch", "utils"}


def neighbours(folder: Path) -> dict[str, Path]:
    """The modules that code in a checkout imports without its package's name."""
    found = checkout_in(str(folder), "projectDir")
    assert found is not None
    return found.neighbours


@pytest.mark.usefixtures("wheels")
def test_a_wheel_turns_as_fast_as_it_is_told():
    env = made(task=SPIN)
    env.reset()
    for _ in range(30):
        step = env.step(torch.full((8, 1), 0.5))
    assert step.obs["policy"][:, 2] == pytest.approx(0.5, abs=0.01)  # a tenth of the half of 10 rad/s
    assert (env.layout.width("policy"), env.max_length, env._loaded.env.rl_device) == (3, 50, "cpu")


@pytest.mark.usefixtures("wheels")
def test_what_it_randomises_is_in_the_simulation():
    env = made(task=SPIN)
    foreign = env._loaded.env
    actors = [(one, foreign.gym.find_actor_handle(one, "wheel")) for one in foreign.envs]
    masses = [foreign.gym.get_actor_rigid_body_properties(*actor)[1].mass for actor in actors]
    frictions = [foreign.gym.get_actor_rigid_shape_properties(*actor)[0].friction for actor in actors]
    dampings = [foreign.gym.get_actor_dof_properties(*actor)["damping"][0] for actor in actors]
    assert all(0.25 <= mass <= 0.75 for mass in masses)
    assert len(set(masses)) == 8
    assert set(np.round(frictions, 5)) <= {0.2, 0.45, 0.7, 0.95}  # four buckets
    assert all(1.8 <= damping <= 2.2 for damping in dampings)
    assert foreign.gym.get_sim_params(foreign.sim).gravity.z == pytest.approx(-9.81)  # its schedule begins at 0


@pytest.mark.usefixtures("wheels")
def test_two_environments_do_not_share_a_simulation():
    first, second = made(task=SPIN), made(task=SPIN, num_envs=3)
    assert (first.sim.num_envs, second.sim.num_envs) == (8, 3)
    assert sys.modules["tasks.base.vec_task"].EXISTING_SIM is None


@pytest.mark.usefixtures("wheels")
def test_an_asset_that_is_nowhere_names_all_places():
    with pytest.raises(
        UserError, match=rf"absent\.urdf: no such file, nor in {WHEELS / 'assets'}\. It is root \.\./as"
    ):
        made("task.params.env.asset.assetFileName=absent.urdf", task=SPIN)


def test_a_second_checkout_with_modules_of_these_names_is_refused(tmp_path):
    other = copied(tmp_path, WHEELS)
    (other / "wheels").rename(other / "others")
    with fresh_modules("wheels", "others", "tasks", "utils"):
        with project(WHEELS):
            made(task=SPIN, num_envs=2)
        with project(other), pytest.raises(UserError, match=r"others/tasks: the name tasks is taken by .*Rename it"):
            made(task="others:spin", num_envs=2)


@pytest.mark.usefixtures("wheels")
def test_foreign_code_may_register_the_resolvers_of_its_yaml_itself():
    assert not any(OmegaConf.has_resolver(name) for name in RESOLVERS)
    made(task=SPIN, num_envs=2)
    assert not any(OmegaConf.has_resolver(name) for name in RESOLVERS)


@pytest.mark.parametrize("first", ["import matplotlib.pyplot", "import matplotlib"])
def test_a_backend_with_windows_is_no_error_without_a_display(first, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND"):
        monkeypatch.delenv(name, raising=False)
    code = f"""
from livegym.compat import install
install()
{first}
import logging; logging.basicConfig(level=logging.INFO, format="%(message)s")
import matplotlib; matplotlib.use("TkAgg")
import matplotlib.pyplot as plt
print(type(plt.figure().canvas).__name__)
"""
    assert in_a_process(code) == "FigureCanvasAgg"

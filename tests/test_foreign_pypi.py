"""Isaac Gym code that PyPI carries: tasks of rofunc, untouched, and holosoma's G1 beside its own MuJoCo model.

    LIVEGYM_WHEELS=<folder with the wheels> pytest -s -m full tests/test_foreign_pypi.py

Without that folder, pip downloads 250 MB once into pytest's cache; offline, the tests are skipped. The hashes of the
files that run are printed. The package rofunc is never imported: its `__init__` installs software. Only the files of
its tasks are taken out of the wheel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from livegym.compat import install
from livegym.compat.foreign.announced import announce_below
from livegym.projects import executed
from tests.isaac_toys import fresh_modules, made, needs_isaacgym, project

pytestmark = [pytest.mark.slow, pytest.mark.full, needs_isaacgym]

PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
ROFUNC = re.compile(
    r"rofunc/(learning/RofuncRL/tasks/(isaacgymenv|utils)/.*\.py|utils/oslab/path\.py|config/learning/rl/.*\.yaml"
    r"|simulator/assets/(mjcf/nv_\w+\.xml|urdf/(cartpole\.urdf|franka_description/.*|sektion_cabinet_model/.*)))"
)
HOLOSOMA = re.compile(r"holosoma/.*\.(py|urdf|xml)|holosoma/data/robots/g1/meshes/.*")
TASKS = {  # task of rofunc -> module, class, observations, actions, environments
    "Cartpole": ("cartpole", "CartpoleTask", 4, 1, 256),
    "Ant": ("ant", "AntTask", 60, 8, 256),
    "Humanoid": ("humanoid", "HumanoidTask", 108, 21, 256),
    "FrankaCabinet": ("franka_cabinet", "FrankaCabinetTask", 23, 9, 32),
    "FrankaCubeStack": ("franka_cube_stack", "FrankaCubeStackTask", 19, 7, 32),
}
MODULES = "rofunc.learning.RofuncRL.tasks.isaacgymenv"


@pytest.fixture(scope="module")
def downloads(request) -> Path:
    """The folder for wheels and libraries."""
    named = os.environ.get("LIVEGYM_WHEELS")
    return Path(named) if named else Path(request.config.cache.mkdir("wheels"))


def wheel(downloads: Path, requirement: str, *options: str) -> Path:
    """The wheel of a release, which is downloaded if it is not there; skips the test if that fails."""
    name = requirement.replace("==", "-")
    if not list(downloads.glob(f"{name}-*.whl")):
        _pip("download", "--no-deps", *options, "--dest", str(downloads), requirement)
    return next(downloads.glob(f"{name}-*.whl"))


def _pip(*arguments: str) -> None:
    done = subprocess.run([*PIP, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip {' '.join(arguments)}: {done.stderr.strip().splitlines()[-1]}")


def taken(file: Path, folder: Path, members: re.Pattern[str]) -> Path:
    """A folder with some files of a wheel."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if members.fullmatch(name)])
    return folder


@pytest.fixture(scope="module")
def rofunc(downloads, tmp_path_factory) -> Path:
    """A checkout of rofunc's tasks in the layout of IsaacGymEnvs; only the table of its tasks is ours."""
    release = wheel(downloads, "rofunc==0.0.2.6", "--python-version", "3.8", "--only-binary=:all:")
    folder = taken(release, tmp_path_factory.mktemp("rofunc"), ROFUNC)
    package = folder / "rofunc"
    (package / "cfg").symlink_to(package / "config" / "learning" / "rl")
    (package / "tasks").mkdir()
    table = [f"from {MODULES}.{module} import {cls}" for module, cls, *_ in TASKS.values()]
    entries = ", ".join(f'"{name}": {cls}' for name, (_, cls, *_) in TASKS.items())
    (package / "tasks" / "__init__.py").write_text("\n".join([*table, f"TASKS = {{{entries}}}"]))
    assert not list(package.glob("__init__.py"))
    return folder


@pytest.mark.parametrize("name", TASKS)
def test_tasks_of_rofunc_run_as_they_are(name, rofunc):
    module, _, observations, actions, num_envs = TASKS[name]
    with project(rofunc):
        env = made("sim.threads=1", task=f"rofunc:{name}", num_envs=num_envs)
        assert (env.layout.width("policy"), env.task.action_spec.size) == (observations, actions)
        env.reset()
        generator = torch.Generator().manual_seed(0)
        for _ in range(300):
            step = env.step(2 * torch.rand(env.zero_action().shape, generator=generator) - 1)
            assert all(torch.isfinite(values).all() for values in (*step.obs.values(), step.reward))
    ran = executed.below(rofunc)
    for file, digest in ran.items():
        print(f"{digest}  {file}")
    assert f"{MODULES.replace('.', '/')}/{module}.py" in ran
    assert "rofunc/__init__.py" not in ran
    assert env.drain_report().unstable == 0


@pytest.fixture(scope="module")
def holosoma(downloads, tmp_path_factory):
    """The folder with holosoma's code and G1, which can be imported inside."""
    folder = taken(wheel(downloads, "holosoma==0.0.3"), tmp_path_factory.mktemp("holosoma"), HOLOSOMA)
    libraries = downloads / "libraries"
    if not (libraries / "tyro").is_dir():
        _pip("install", "--target", str(libraries), "tyro", "loguru")
    with fresh_modules("holosoma"):
        install()
        announce_below(folder)
        sys.path += [str(folder), str(libraries)]
        yield folder
    for file, digest in executed.below(folder).items():
        print(f"{digest}  {file}")


class Standing:
    """G1 for 1 s in its default pose, held by holosoma's gains; heights of the pelvis in m."""

    dt, steps = 0.005, 200

    def __init__(self, robot) -> None:
        self.names = robot.dof_names
        self.start = robot.init_state.pos
        self.pose = np.array([robot.init_state.default_joint_angles[name] for name in self.names], np.float32)
        self.kp, self.kd = self._gains(robot.control.stiffness), self._gains(robot.control.damping)
        self.limit = np.array(robot.dof_effort_limit_list, np.float32)

    def _gains(self, table) -> np.ndarray:
        return np.array([next(v for part, v in table.items() if part in name) for name in self.names], np.float32)

    def torque(self, angles: np.ndarray, speeds: np.ndarray) -> np.ndarray:
        return np.clip(self.kp * (self.pose - angles) - self.kd * speeds, -self.limit, self.limit)

    def in_isaacgym(self, gym, sim) -> list[float]:
        from isaacgym import gymtorch

        root = gymtorch.wrap_tensor(gym.acquire_actor_root_state_tensor(sim))
        dofs = gymtorch.wrap_tensor(gym.acquire_dof_state_tensor(sim))
        dofs[:, 0] = torch.from_numpy(self.pose)
        gym.set_dof_state_tensor(sim, gymtorch.unwrap_tensor(dofs))
        heights = []
        for _ in range(self.steps):
            gym.refresh_dof_state_tensor(sim)
            torque = torch.from_numpy(self.torque(dofs[:, 0].numpy(), dofs[:, 1].numpy()))
            gym.set_dof_actuation_force_tensor(sim, gymtorch.unwrap_tensor(torque))
            gym.simulate(sim)
            gym.refresh_actor_root_state_tensor(sim)
            heights.append(float(root[0, 2]))
        return heights

    def in_mujoco(self, model: mujoco.MjModel) -> list[float]:
        model.opt.timestep = self.dt
        data = mujoco.MjData(model)
        angle = [model.joint(name).qposadr[0] for name in self.names]
        speed = [model.joint(name).dofadr[0] for name in self.names]
        motor = [model.actuator(name).id for name in self.names]
        data.qpos[:3], data.qpos[angle] = self.start, self.pose
        heights = []
        for _ in range(self.steps):
            data.ctrl[motor] = self.torque(data.qpos[angle], data.qvel[speed])
            mujoco.mj_step(model, data)
            heights.append(float(data.qpos[2]))
        return heights


def test_a_g1_stands_in_isaacgym_as_in_holosomas_mujoco(holosoma):
    """Orders, mass and fall of its URDF over our `isaacgym` are those that holosoma has for its MJCF in MuJoCo."""
    from holosoma.config_values.robot import g1_29dof as robot
    from holosoma.simulator.isaacgym.physics import build_robot_asset_options
    from isaacgym import gymapi

    files = holosoma / "holosoma" / "data" / "robots" / "g1"
    standing = Standing(robot)
    gym, params = gymapi.acquire_gym(), gymapi.SimParams()
    params.dt, params.substeps, params.up_axis = standing.dt, 1, gymapi.UP_AXIS_Z
    params.gravity = gymapi.Vec3(0.0, 0.0, -9.81)
    sim = gym.create_sim(0, -1, gymapi.SIM_PHYSX, params)
    plane = gymapi.PlaneParams()
    plane.normal = gymapi.Vec3(0.0, 0.0, 1.0)
    gym.add_ground(sim, plane)
    asset = gym.load_asset(sim, str(files), "g1_29dof.urdf", build_robot_asset_options(robot.asset))
    assert gym.get_asset_dof_names(asset) == robot.dof_names
    assert gym.get_asset_rigid_body_names(asset) == robot.body_names
    pose = gymapi.Transform()
    pose.p = gymapi.Vec3(*robot.init_state.pos)
    env = gym.create_env(sim, gymapi.Vec3(), gymapi.Vec3(), 1)
    actor = gym.create_actor(env, asset, pose, "g1", 0, 0, 0)
    spec = mujoco.MjSpec.from_file(str(files / "g1_29dof.xml"))
    spec.worldbody.add_geom(name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1])
    model = spec.compile()
    mass = sum(body.mass for body in gym.get_actor_rigid_body_properties(env, actor))
    assert mass == pytest.approx(model.body_mass.sum(), rel=1e-5)
    gym.prepare_sim(sim)
    here, there = standing.in_isaacgym(gym, sim), standing.in_mujoco(model)
    print(f"G1 after 1 s: {here[-1]:.4f} m over isaacgym, {there[-1]:.4f} m in holosoma's MuJoCo model")
    assert here == pytest.approx(there, abs=0.01)

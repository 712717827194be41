"""Small scenes for the tests of `compat`: arms, boxes and pendulums in our own words."""

from __future__ import annotations

import numpy as np

from livegym.compat.core.asset import load_asset
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, PlaneParams, Quat, SimParams, Transform, Vec3

SLIDER = """
<mujoco>
  <worldbody>
    <body name="base">
      <inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
      <body name="slide">
        <joint name="slide" type="slide" axis="1 0 0"/>
        <inertial mass="{mass}" pos="0 0 0" diaginertia="0.01 0.01 0.01"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
"""A point mass on a rail: one DOF."""

WALKER = """
<mujoco>
  <worldbody>
    <body name="torso">
      <inertial mass="3" pos="0.1 0.02 -0.03" diaginertia="0.05 0.06 0.07"/>
      <geom name="torso" type="box" size="0.2 0.1 0.05"/>
      <body name="thigh" pos="0.2 0 -0.05">
        <joint name="hip" axis="0 1 0" range="-90 90"/>
        <inertial mass="0.7" pos="0.02 0.01 -0.1" diaginertia="0.004 0.004 0.001"/>
        <geom name="thigh" type="capsule" fromto="0 0 -0.06 0 0 -0.2" size="0.03"/>
        <body name="shank" pos="0 0 -0.25">
          <joint name="knee" axis="0 1 0" range="-90 90"/>
          <inertial mass="0.4" pos="0 0.01 -0.1" diaginertia="0.002 0.002 0.0005"/>
          <geom name="shank" type="sphere" pos="0 0 -0.2" size="0.03"/>
        </body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="hip" gear="10"/>
    <motor joint="knee" gear="10"/>
  </actuator>
</mujoco>
"""
"""A free torso with a leg of two links, all with centres of mass off the joints."""


def params(dt: float = 0.01, substeps: int = 1, gravity: float = -9.81) -> SimParams:
    """Parameters with z up."""
    values = SimParams()
    values.dt, values.substeps = dt, substeps
    values.gravity = Vec3(0.0, 0.0, gravity)
    return values


def pose(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> Transform:
    """A pose without rotation."""
    return Transform(Vec3(x, y, z), Quat())


def asset(folder, text: str, **options):
    """An asset from the text of an MJCF file."""
    path = folder / "robot.xml"
    path.write_text(text)
    chosen = AssetOptions()
    for name, value in options.items():
        setattr(chosen, name, value)
    return load_asset(str(folder), "robot.xml", chosen)


def scene(asset, num_envs: int = 2, at: Transform | None = None, ground: bool = False, **kwargs) -> Sim:
    """A simulation with one actor in each environment."""
    sim = Sim(params(**kwargs))
    if ground:
        plane = PlaneParams()
        plane.normal = Vec3(0.0, 0.0, 1.0)
        sim.ground.plane = plane
    for _ in range(num_envs):
        env = sim.add_env(Vec3(-1, -1, 0), Vec3(1, 1, 1), 2)
        env.add(asset, at or pose(), "robot", 0, 0)
    return sim


def model_arrays(sim: Sim, row: int) -> dict[str, np.ndarray]:
    """Every array of the model of an environment, which is the row of the first engine, by name."""
    model = sim.engine.batch.get_model(row)
    arrays = {name: getattr(model, name) for name in dir(model) if not name.startswith("_")}
    return {name: value.copy() for name, value in arrays.items() if isinstance(value, np.ndarray)}


def rotation_matrix(xyzw: np.ndarray) -> np.ndarray:
    """(3, 3) from a quaternion, from the definition."""
    x, y, z, w = xyzw
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )

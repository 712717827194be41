"""Small worlds and helpers of the simulator tests."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import torch

from livegym.schema import PhysicsConfig, SimConfig
from livegym.sim import create

ANT = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "ant.xml"
FLOOR = '<geom name="floor" type="plane" size="9 9 .1"/>'
OPTION = '<option timestep="0.002"/>'

# 1 kg box of half-width 0.1 m at 5 m: it is still in the air after a second
FALLING = f"""<mujoco>{OPTION}<worldbody>{FLOOR}
<body name="box" pos="0 0 5"><freejoint name="free"/><geom type="box" size=".1 .1 .1" mass="1"/></body>
</worldbody></mujoco>"""

# 2 kg on 1 kg, and beside them a chain whose child also touches the floor
STACKED = f"""<mujoco>{OPTION}<worldbody>{FLOOR}
<body name="low" pos="0 0 .1"><freejoint/><geom name="low" type="box" size=".1 .1 .1" mass="1"/></body>
<body name="high" pos="0 0 .3"><freejoint/><geom name="high" type="box" size=".1 .1 .1" mass="2"/></body>
<body name="parent" pos="1 0 .1"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/>
  <body name="child" pos=".4 0 0"><joint axis="0 1 0"/><geom type="box" size=".1 .1 .1" mass="3"/></body></body>
</worldbody></mujoco>"""

# a driven pendulum of two links with sensors of all three stages, and a tumbling box that hits the floor
BUSY = f"""<mujoco>{OPTION}<worldbody>{FLOOR}
<body name="arm" pos="0 0 2"><joint name="shoulder" axis="0 1 0"/>
  <geom type="capsule" fromto="0 0 0 .5 0 0" size=".05"/>
  <site name="tip" pos=".5 0 0"/>
  <body name="forearm" pos=".5 0 0"><joint name="elbow" axis="1 0 0"/>
    <geom type="box" size=".05 .1 .2" pos="0 0 .2"/><site name="hand" pos="0 .1 .3"/></body></body>
<body name="box" pos="2 0 .3" euler="20 30 0"><freejoint name="free"/>
  <geom type="box" size=".1 .15 .2" mass="1"/></body>
</worldbody>
<actuator><motor name="shoulder" joint="shoulder" ctrlrange="-9 9"/><motor name="elbow" joint="elbow"/></actuator>
<sensor><framepos name="hand_pos" objtype="site" objname="hand"/><gyro name="hand_gyro" site="hand"/>
<accelerometer name="hand_acc" site="hand"/></sensor>
<keyframe><key name="home" qpos=".5 -.25 2 0 1 1 0 0 0"/></keyframe></mujoco>"""
BUSY_FIELDS = ("body_pos_w", "body_quat_w", "body_vel_w", "site_pos_w", "cinert", "cvel", "cfrc_ext", "actuator_force")
BUSY_SENSORS = ("hand_pos", "hand_gyro", "hand_acc")

PENDULUM = f"""<mujoco>{OPTION}<worldbody>
<body name="rod"><joint name="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -1" size=".02"/>
<body name="bob" pos="0 0 -1"><geom size=".1" mass="1"/></body></body>
</worldbody><actuator><motor joint="hinge"/></actuator></mujoco>"""


def make(
    model: str | Path,
    folder: Path,
    engine: str = "mujoco",
    envs: int = 3,
    decimation: int = 2,
    threads: int = 2,
    **physics,
):
    """An unstarted simulator of an MJCF string or file."""
    if isinstance(model, str):
        (folder / "world.xml").write_text(model)
        model = folder / "world.xml"
    return create(SimConfig(engine=engine, threads=threads), PhysicsConfig(**physics), model, envs, decimation)


def make_busy(folder: Path, **settings):
    """A started simulator of BUSY with everything required, each environment at another state."""
    sim = make(BUSY, folder, **settings)
    sim.require(*BUSY_FIELDS, *(f"sensor:{name}" for name in BUSY_SENSORS))
    sim.require_contact("box", "arm")
    sim.start()
    qpos, qvel = busy_states(sim)
    sim.reset(torch.arange(sim.num_envs), qpos, qvel)
    return sim


def busy_states(sim):
    """Start states of BUSY: qpos (N, nq), qvel (N, nv), with every velocity different from zero."""
    envs = torch.arange(sim.num_envs)[:, None]
    qpos = sim.default_qpos.repeat(sim.num_envs, 1)
    qpos[:, :2] += 0.3 * envs + 0.2
    return qpos, (torch.arange(sim.qvel.shape[1]) * 0.1 - 0.35 + 0.05 * envs).float()


def drive(sim, steps: int, seed: int = 0) -> None:
    """Steps with random controls, equal for equal seeds."""
    rng = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        sim.ctrl[:] = torch.rand(sim.ctrl.shape, generator=rng) * 2 - 1
        sim.step()


def readings(sim) -> dict[str, torch.Tensor]:
    """Copies of everything that can be read: name -> (N, ...)."""
    return {name: values.clone() for name, values in sim.fields.items()}


def differing(one, other, envs=slice(None)) -> list[str]:
    """Names of the readings that are not bit-identical in environments `envs`."""
    return [name for name in one if not torch.equal(one[name][envs], other[name][envs])]

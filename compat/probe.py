"""Questions about Isaac Gym that no document answers, as experiments to run where it still is.

Copy this one file to a machine with Isaac Gym Preview 4. It needs NumPy beside it, and Python 3.8 will do:

    python probe.py > probe.json

Each experiment is a process of its own, on PhysX and the CPU, so that one that crashes costs only itself. The JSON has
its numbers by name, or `{"failed": "..."}`. Over livegym's package, the same file prints livegym's answers:

    python -m livegym.compat -m livegym.compat.probe
    python -m livegym.compat.probe --compare probe.json   # where they differ
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

DT = 0.01  # s
GRAVITY = 9.81  # m/s^2
PATIENCE = 300  # s for an experiment: the first one may compile
MARK = "PROBE "

BOX = '<inertial><origin xyz="{com}"/><mass value="{mass}"/>' + (
    '<inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial>'
)
SHAPE = '<collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision>'
JOINT = (
    '<joint name="{name}" type="{type}"><parent link="{parent}"/><child link="{child}"/><axis xyz="{axis}"/>'
    '<origin xyz="{at}"/><limit lower="-100" upper="100" effort="{effort}" velocity="1000"/></joint>'
)


def link(name, mass=1.0, com="0 0 0", shape=False):
    """A link of a URDF file."""
    return f'<link name="{name}">{BOX.format(mass=mass, com=com)}{SHAPE if shape else ""}</link>'


def joint(name, parent, child, type="prismatic", axis="1 0 0", at="0 0 0", effort=1e9):
    """A joint of a URDF file."""
    return JOINT.format(name=name, parent=parent, child=child, type=type, axis=axis, at=at, effort=effort)


def robot(*parts):
    """A URDF file of links and joints."""
    return '<robot name="probe">' + "".join(parts) + "</robot>"


SLIDER = robot(link("base"), link("slide"), joint("along", "base", "slide"))
LIFT = robot(link("base"), link("slide", 2.0), joint("up", "base", "slide", axis="0 0 1"))
FREE = robot(link("body", 2.0, com="0.3 0 0"))
BLOCK = robot(link("body", 2.0, shape=True))


class World:
    """One environment with one actor, and tensors of its state."""

    def __init__(self, urdf, fixed, gravity=0.0, substeps=1, height=2.0, ground=None, prepare=None, **options):
        from isaacgym import gymapi, gymtorch

        self.api, self.torch = gymapi, gymtorch
        self.gym = gym = gymapi.acquire_gym()
        params = gymapi.SimParams()
        params.dt, params.substeps = DT, substeps
        params.up_axis = gymapi.UP_AXIS_Z
        params.gravity = gymapi.Vec3(0.0, 0.0, -gravity)
        params.use_gpu_pipeline = params.physx.use_gpu = False
        self.sim = gym.create_sim(0, -1, gymapi.SIM_PHYSX, params)
        if ground is not None:
            plane = gymapi.PlaneParams()
            plane.normal = gymapi.Vec3(0.0, 0.0, 1.0)
            plane.static_friction = plane.dynamic_friction = ground.get("friction", 1.0)
            plane.restitution = ground.get("restitution", 0.0)
            gym.add_ground(self.sim, plane)
        given = gymapi.AssetOptions()
        given.fix_base_link = fixed
        for name, value in options.items():
            setattr(given, name, value)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "probe.urdf"), "w") as file:
                file.write(urdf)
            self.asset = gym.load_asset(self.sim, folder, "probe.urdf", given)
        self.env = gym.create_env(self.sim, gymapi.Vec3(-1, -1, 0), gymapi.Vec3(1, 1, 1), 1)
        pose = gymapi.Transform()
        pose.p = gymapi.Vec3(0.0, 0.0, height)
        if prepare is not None:
            prepare(self, None)
        self.actor = gym.create_actor(self.env, self.asset, pose, "probe", 0, -1)
        if prepare is not None:
            prepare(self, self.actor)
        gym.prepare_sim(self.sim)
        self.root = gymtorch.wrap_tensor(gym.acquire_actor_root_state_tensor(self.sim))
        self.bodies = gymtorch.wrap_tensor(gym.acquire_rigid_body_state_tensor(self.sim))
        has_dofs = gym.get_sim_dof_count(self.sim) > 0
        self.dofs: Any = gymtorch.wrap_tensor(gym.acquire_dof_state_tensor(self.sim)) if has_dofs else None
        self.refresh()

    def drive(self, mode, **values):
        """Set the actor's DOF properties."""
        properties = self.gym.get_actor_dof_properties(self.env, self.actor)
        properties["driveMode"][:] = mode
        for name, value in values.items():
            properties[name][:] = value
        self.gym.set_actor_dof_properties(self.env, self.actor, properties)

    def refresh(self):
        """Bring the tensors up to date."""
        self.gym.refresh_actor_root_state_tensor(self.sim)
        self.gym.refresh_rigid_body_state_tensor(self.sim)
        if self.dofs is not None:
            self.gym.refresh_dof_state_tensor(self.sim)

    def run(self, steps):
        """Simulate, and bring the tensors up to date."""
        for _ in range(steps):
            self.gym.simulate(self.sim)
            self.gym.fetch_results(self.sim, True)
        self.refresh()

    def set_root(self, **columns):
        """Set the root's position (p), linear (v) and angular velocity (w)."""
        for name, value in columns.items():
            at = {"p": 0, "v": 7, "w": 10}[name]
            for axis in range(3):
                self.root[0, at + axis] = value[axis]
        self.gym.set_actor_root_state_tensor(self.sim, self.torch.unwrap_tensor(self.root))

    def set_dof(self, position, velocity):
        """Set the state of the first DOF."""
        self.dofs[0, 0], self.dofs[0, 1] = position, velocity
        self.gym.set_dof_state_tensor(self.sim, self.torch.unwrap_tensor(self.dofs))

    def command(self, kind, value):
        """Give every DOF a "force" (N) or a "position" target (m)."""
        self.kept = self.dofs[:, 0].clone()
        self.kept[:] = value
        setter = {"force": "set_dof_actuation_force_tensor", "position": "set_dof_position_target_tensor"}[kind]
        getattr(self.gym, setter)(self.sim, self.torch.unwrap_tensor(self.kept))


def numbers(tensor):
    """A tensor as lists of rounded numbers."""
    return json.loads(json.dumps(tensor.tolist()), parse_float=lambda text: round(float(text), 6))


def effort_persists():
    """1 N on 1 kg, set once: the velocity after 1 and after 10 steps. 0.01 and 0.1: the force stays."""
    world = World(SLIDER, True)
    world.drive(world.api.DOF_MODE_EFFORT, stiffness=0.0, damping=0.0)
    world.command("force", 1.0)
    world.run(1)
    first = numbers(world.dofs[0, 1])
    world.run(9)
    return {"after_1": first, "after_10": numbers(world.dofs[0, 1])}


def refresh_after_set():
    """A DOF is set to 0.5 m, then refreshed without a step. The DOF's and the body's position along x."""
    world = World(SLIDER, True)
    world.set_dof(0.5, 0.0)
    world.refresh()
    return {"dof": numbers(world.dofs[0, 0]), "body_x": numbers(world.bodies[1, 0])}


def effort_damping():
    """EFFORT mode with stiffness 3 and damping 2, from 0.5 m at rest and from 1 m/s: state after 0.1 s."""
    found = {}
    for name, state in (("from_rest", (0.5, 0.0)), ("from_speed", (0.0, 1.0))):
        world = World(SLIDER, True)
        world.drive(world.api.DOF_MODE_EFFORT, stiffness=3.0, damping=2.0)
        world.set_dof(*state)
        world.run(10)
        found[name] = numbers(world.dofs[0])
        world.gym.destroy_sim(world.sim)
    return found


def dof_force():
    """2 kg held against gravity by a drive, and accelerated by 5 N without gravity: the DOF force that is read."""
    found = {}
    for name, gravity in (("held", GRAVITY), ("accelerated", 0.0)):
        world = World(LIFT, True, gravity, prepare=_with_dof_forces)
        force = world.torch.wrap_tensor(world.gym.acquire_dof_force_tensor(world.sim))
        if gravity:
            world.drive(world.api.DOF_MODE_POS, stiffness=1000.0, damping=100.0)
            world.command("position", 0.0)
        else:
            world.drive(world.api.DOF_MODE_EFFORT, stiffness=0.0, damping=0.0)
            world.command("force", 5.0)
        world.run(300 if gravity else 3)
        world.gym.refresh_dof_force_tensor(world.sim)
        found[name] = numbers(force)[0]
        world.gym.destroy_sim(world.sim)
    return found


def _with_dof_forces(world, actor):
    if actor is not None:
        world.gym.enable_actor_dof_force_sensors(world.env, actor)


def drive():
    """A drive with kp 1e4 and kd 10 on 1 kg, target 1 m: position after 1, 2 and 5 steps, free and at 20 N."""
    found: dict[str, list[float]] = {}
    for name, effort in (("free", 1e9), ("limited", 20.0)):
        world = World(SLIDER, True)
        world.drive(world.api.DOF_MODE_POS, stiffness=1e4, damping=10.0, effort=effort)
        world.command("position", 1.0)
        found[name] = []
        for steps in (1, 1, 3):
            world.run(steps)
            found[name].append(numbers(world.dofs[0, 0]))
        world.gym.destroy_sim(world.sim)
    return found


def force_sensors():
    """A block at rest on the ground, 2 kg: the third component of sensors with each pair of flags."""
    pairs = [(False, False), (False, True), (True, False), (True, True)]

    def prepare(world, actor):
        if actor is None:
            for dynamics, constraints in pairs:
                flags = world.api.ForceSensorProperties()
                flags.enable_forward_dynamics_forces = dynamics
                flags.enable_constraint_solver_forces = constraints
                world.gym.create_asset_force_sensor(world.asset, 0, world.api.Transform(), flags)

    world = World(BLOCK, False, GRAVITY, height=0.1, ground={}, prepare=prepare)
    read = world.torch.wrap_tensor(world.gym.acquire_force_sensor_tensor(world.sim))
    world.run(200)
    world.gym.refresh_force_sensor_tensor(world.sim)
    return {f"dynamics={d:d} constraints={c:d}": numbers(read[i, 2]) for i, (d, c) in enumerate(pairs)}


def urdf_order():
    """Siblings whose joint names and link names sort differently, one name the beginning of another."""
    children = (("b_joint", "x"), ("a_joint_2", "y"), ("a_joint", "z"))
    parts = [link("base")] + [link(child) for _, child in children]
    world = World(robot(*parts, *(joint(name, "base", child) for name, child in children)), True)
    names = world.gym.get_actor_dof_names(world.env, world.actor)
    return {"dofs": list(names), "bodies": list(world.gym.get_actor_rigid_body_names(world.env, world.actor))}


def root_velocity():
    """A free body with its centre of mass 0.3 m along x is set to v = 0, w = 1 rad/s about z: its roots after 10 steps.

    If the root's velocity is that of the centre of mass, the centre stays, and the origin turns about it.
    """
    world = World(FREE, False, angular_damping=0.0)
    world.set_root(v=(0.0, 0.0, 0.0), w=(0.0, 0.0, 1.0))
    world.run(10)
    return {"position": numbers(world.root[0, :3]), "velocity": numbers(world.root[0, 7:13])}


def damping_of_bodies():
    """A free body at 1 m/s and 1 rad/s with default damping: its speeds after 1 s."""
    world = World(robot(link("body", 2.0)), False)
    world.set_root(v=(1.0, 0.0, 0.0), w=(0.0, 0.0, 1.0))
    world.run(100)
    return {"linear": numbers(world.root[0, 7]), "angular": numbers(world.root[0, 12])}


def pushes():
    """3 N on 2 kg, applied before one step of two substeps: velocity after that step and the next, free body."""
    world = World(robot(link("body", 2.0)), False, substeps=2, linear_damping=0.0)
    force = world.bodies[:, :3].clone()
    force[:] = 0.0
    force[0, 0] = 3.0
    gym, unwrap = world.gym, world.torch.unwrap_tensor
    gym.apply_rigid_body_force_tensors(world.sim, unwrap(force), None, world.api.ENV_SPACE)
    world.run(1)
    first = numbers(world.root[0, 7])
    world.run(1)
    return {"after_1": first, "after_2": numbers(world.root[0, 7])}


def friction():
    """A block slides at 1 m/s, friction 0.2, on ground of friction 0.6, until it rests.

    The coefficient that the way tells (speed^2 / (2 g way)), and how high the block rose meanwhile, in m.
    """

    def prepare(world, actor):
        if actor is not None:
            shapes = world.gym.get_actor_rigid_shape_properties(world.env, actor)
            for shape in shapes:
                shape.friction = 0.2
            world.gym.set_actor_rigid_shape_properties(world.env, actor, shapes)

    world = World(BLOCK, False, GRAVITY, height=0.1, ground={"friction": 0.6}, prepare=prepare)
    world.run(50)
    begin = numbers(world.root[0, :3])
    world.set_root(v=(1.0, 0.0, 0.0), w=(0.0, 0.0, 0.0))
    rise = 0.0
    for _ in range(100):
        world.run(1)
        rise = max(rise, numbers(world.root[0, 2]) - begin[2])
    way = numbers(world.root[0, 0]) - begin[0]
    return {"coefficient": round(1.0 / (2 * GRAVITY * way), 4), "rise": round(rise, 4)}


def jacobian():
    """Jacobian and mass matrix of a hinge whose link's centre of mass is off its axis, with a drive of kp 1000."""
    hinge = joint("turn", "base", "arm", "revolute", "0 0 1")
    world = World(robot(link("base"), link("arm", 2.0, com="0.3 0 0"), hinge), True)
    world.drive(world.api.DOF_MODE_POS, stiffness=1000.0, damping=10.0)
    found = {}
    for name in ("jacobian", "mass_matrix"):
        tensor = world.torch.wrap_tensor(getattr(world.gym, f"acquire_{name}_tensor")(world.sim, "probe"))
        world.run(1)
        getattr(world.gym, f"refresh_{name}_tensors")(world.sim)
        found[name] = numbers(tensor[0])
    return found


EXPERIMENTS = {
    experiment.__name__: experiment
    for experiment in [
        *(effort_persists, refresh_after_set, effort_damping, dof_force, drive, force_sensors),
        *(urdf_order, root_velocity, damping_of_bodies, pushes, friction, jacobian),
    ]
}


def run(name):
    """Run an experiment in a process of its own; return its numbers, or why it failed."""
    command = [sys.executable, *_how_run(), "--experiment", name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer within {PATIENCE} s"}
    output = done.stdout.decode(errors="replace")
    answers = [line[len(MARK) :] for line in output.splitlines() if line.startswith(MARK)]
    return json.loads(answers[-1]) if answers else {"failed": f"exit status {done.returncode}: {output[-500:]}"}


def _how_run():
    """The arguments of Python that run this file as it runs now."""
    if "livegym.compat" in sys.modules:
        return ["-m", "livegym.compat", os.path.abspath(__file__)]
    return [os.path.abspath(__file__)]


def differences(theirs, ours, where="", allowed=0.02):
    """Yield a line for each number or name in which two results differ, numbers by more than 2 % and 0.001."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in sorted(set(theirs) | set(ours)):
            yield from differences(theirs.get(name), ours.get(name), f"{where} {name}", allowed)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, pair in enumerate(zip(theirs, ours)):  # noqa: B905  of the same length; Python 3.8 knows no `strict`
            yield from differences(pair[0], pair[1], f"{where}[{index}]", allowed)
    elif isinstance(theirs, (int, float)) and isinstance(ours, (int, float)):
        if abs(theirs - ours) > max(0.001, allowed * max(abs(theirs), abs(ours))):
            yield f"{where.strip()}: {theirs:g} in the file, {ours:g} here"
    elif theirs != ours:
        yield f"{where.strip()}: {json.dumps(theirs)} in the file, {json.dumps(ours)} here"


def main():
    """Print the results of all experiments as JSON, or where they differ from a file's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--experiment", choices=sorted(EXPERIMENTS), help="only this one, in this process")
    parser.add_argument("--compare", metavar="FILE", help="the JSON of another machine")
    options = parser.parse_args()
    if options.experiment:
        print(MARK + json.dumps(EXPERIMENTS[options.experiment]()))
        return 0
    theirs = None
    if options.compare:
        try:
            with open(options.compare) as file:
                theirs = json.load(file)
        except (OSError, ValueError) as error:
            parser.error(f"{options.compare}: {error}. Name a file that this program wrote")
    ours = {name: run(name) for name in EXPERIMENTS}
    if theirs is None:
        print(json.dumps(ours, indent=1))
        return 0
    lines = list(differences(theirs, ours))
    print("\n".join(lines) or "no differences")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

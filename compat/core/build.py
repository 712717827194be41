"""From the recorded scene to one MuJoCo model and the addresses in it.

Options: time step dt / substeps, Euler integration (the drives of `drives.py` are exact with it), no automatic reset.
A fixed base is a mocap body, so that it can be moved later; a free one gets a free joint. Every DOF gets one actuator,
whose gains `drives.py` sets. Links of a fixed base do not collide with it, as in PhysX, where parent and child never
do. Friction is averaged with the ground's, and robots' shapes have priority over the ground's, see `properties.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import mujoco
import numpy as np

from livegym.compat.core import attractors, collision, tendons, terrain
from livegym.compat.core.asset import AssetModel
from livegym.compat.core.layout import ActorSlot, Layout, SensorSlot, group
from livegym.compat.core.record import Actor, Env, Scene
from livegym.utils.errors import UserError

FREE = "/free"
FRICTION_STIFFNESS = 100.0
"""How much stiffer friction is than the normal force. With 1, the feet of a standing ANYmal creep by 1 cm/s, and it
falls after 11 s; with 100 it stands. The elliptic cone bounds the friction equally in all directions."""
OPTIONS = (
    "fix_base_link", "disable_gravity", "linear_damping", "angular_damping", "armature", "default_dof_drive_mode",
    "max_linear_velocity", "max_angular_velocity",
)  # fmt: skip
"""Options of assets that are part of the model."""
FORCE_SENSOR = ("mjSENS_FRAMELINACC", "mjSENS_FRAMEANGACC", "mjSENS_FRAMEANGVEL")


def build(
    sim: Scene, env: Env, uneven: Collection[tuple[int, int]] = ()
) -> tuple[mujoco.MjSpec, mujoco.MjModel, Layout]:
    """Return the specification and the model of one environment, and its layout.

    `uneven` bodies, by actor and number, may get other centres of mass or axes of inertia; a single free body with both
    at its origin has a simpler mass matrix otherwise. Raises UserError if MuJoCo refuses the scene.
    """
    spec = _empty(sim)
    terrain.add(spec, sim.ground)
    for handle, actor in enumerate(env.actors):
        _attach(spec, actor, f"{handle}/")
    for handle, body in uneven:
        if handle < len(env.actors) and body < len(env.actors[handle].asset.bodies):
            spec.body(f"{handle}/{env.actors[handle].asset.body_names[body]}").simple = 0
    attractors.add_to_spec(spec, env)
    sensors = _Sensors(spec)
    sensors.add_forces(env)
    if int(sim.params.physx.contact_collection) != 0:
        sensors.add_contacts(env)
    sensors.add_limits(env)
    model = _compile(spec, env)
    return spec, model, _layout(model, env, sensors, sim.ground)


def _compile(spec: mujoco.MjSpec, env: Env) -> mujoco.MjModel:
    try:
        return spec.compile()
    except ValueError as error:
        actors = ", ".join(f"{actor.handle}/: {actor.asset.file or actor.asset.name}" for actor in env.actors)
        raise UserError(
            f"MuJoCo refuses the scene: {' '.join(str(error).split())} The names in it begin with the number of the "
            f"actor in its environment ({actors}). Correct that element in its file, or leave the actor out."
        ) from None


def shape_classes(env: Env) -> list[collision.ShapeClass]:
    """Everything that decides about collisions, for each shape of an environment in the order of actors and shapes."""
    groups = collision.canonical_groups([actor.group for actor in env.actors])
    return [
        collision.ShapeClass(
            actor.handle,
            number,
            filter,
            int(actor.asset.model.geom_contype[geom]),
            int(actor.asset.model.geom_conaffinity[geom]),
        )
        for actor, number in zip(env.actors, groups, strict=True)
        for geom, filter in zip(actor.asset.shapes, actor.filters(), strict=True)
    ]


def _empty(sim: Scene) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    spec.compiler.balanceinertia = True
    option = spec.option
    option.timestep = sim.params.dt / sim.params.substeps
    gravity = sim.params.gravity
    option.gravity = [gravity.x, gravity.y, gravity.z]
    option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = FRICTION_STIFFNESS
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    return spec


def _attach(spec: mujoco.MjSpec, actor: Actor, prefix: str) -> None:
    asset = actor.asset
    own = asset.spec.copy()
    _leave_out_contacts(own, actor)
    spec.attach(own, prefix=prefix, frame=spec.worldbody.add_frame())
    root = spec.body(prefix + asset.body_names[0])
    if asset.floating:
        root.add_freejoint(name=prefix + FREE)
    else:
        root.mocap = True
        p, r = actor.pose.p, actor.pose.r
        root.pos, root.quat = [p.x, p.y, p.z], [r.w, r.x, r.y, r.z]  # viewers draw the model, which has no state of it
        _exclude_base(spec, asset, prefix)
    if asset.options.disable_gravity:
        for body in asset.body_names:
            spec.body(prefix + body).gravcomp = 1.0
    for name in asset.dofs:
        spec.add_actuator(
            name=prefix + name,
            trntype=mujoco.mjtTrn.mjTRN_JOINT,
            target=prefix + name,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE,
        )


def _leave_out_contacts(spec: mujoco.MjSpec, actor: Actor) -> None:
    """Leave out the file's excludes and pairs of shapes whose filter is explicit: PhysX reads them only with -1."""
    bodies, geoms = explicit(actor)
    while exclude := next((e for e in spec.excludes if not bodies.isdisjoint((e.bodyname1, e.bodyname2))), None):
        spec.delete(exclude)
    while pair := next((p for p in spec.pairs if not geoms.isdisjoint((p.geomname1, p.geomname2))), None):
        spec.delete(pair)


def explicit(actor: Actor) -> tuple[set[str], set[str]]:
    """The names of bodies and geoms of an actor's asset that have a shape whose filter is not the file's."""
    model = actor.asset.model
    chosen = [g for g, f in zip(actor.asset.shapes, actor.filters(), strict=True) if f != collision.FROM_FILE]
    return {model.body(model.geom_bodyid[g]).name for g in chosen}, {model.geom(g).name for g in chosen}


def _exclude_base(spec: mujoco.MjSpec, asset: AssetModel, prefix: str) -> None:
    """Keep links from colliding with the fixed link that carries them: MuJoCo would let static parents collide."""
    model = asset.model
    for child in range(2, model.nbody):
        parent = int(model.body_parentid[child])
        if model.body_weldid[parent] <= 1 and model.body_weldid[parent] in (0, model.body_weldid[1]):
            names = [prefix + asset.body_names[body - 1] for body in (parent, child)]
            spec.add_exclude(bodyname1=names[0], bodyname2=names[1])


class _Sensors:
    """The sensors that are added to a scene, and where their data will be."""

    def __init__(self, spec: mujoco.MjSpec) -> None:
        self.spec = spec
        self.forces: list[SensorSlot] = []
        self.contacts: list[tuple[int, slice]] = []
        self.limits: list[tuple[int, int]] = []
        self.size = 0

    def _add(self, kind: str, size: int, **where: object) -> Any:
        sensor = self.spec.add_sensor(name=f"/{self.size}", type=getattr(mujoco.mjtSensor, kind), **where)
        self.size += size
        return sensor

    def add_forces(self, env: Env) -> None:
        """Three sensors of the body's motion for each force sensor of an asset."""
        first = 1
        for handle, actor in enumerate(env.actors):
            for sensor in actor.sensors:
                start = self.size
                name = f"{handle}/{actor.asset.body_names[sensor.body]}"
                for kind in FORCE_SENSOR:
                    self._add(kind, 3, objtype=mujoco.mjtObj.mjOBJ_BODY, objname=name)
                p, r = sensor.pose.p, sensor.pose.r
                flags = sensor.properties
                self.forces.append(
                    SensorSlot(
                        body=first + sensor.body,
                        position=np.array([p.x, p.y, p.z]),
                        quat=np.array([r.w, r.x, r.y, r.z]),
                        dynamics=bool(flags.enable_forward_dynamics_forces),
                        constraints=bool(flags.enable_constraint_solver_forces),
                        world_axes=bool(flags.use_world_frame),
                        data=slice(start, self.size),
                    )
                )
            first += len(actor.asset.bodies)

    def add_contacts(self, env: Env) -> None:
        """A sensor of the net contact force on each body that has colliding shapes."""
        first = 0
        for handle, actor in enumerate(env.actors):
            model = actor.asset.model
            for body in sorted({int(model.geom_bodyid[geom]) - 1 for geom in actor.asset.shapes}):
                name = f"{handle}/{actor.asset.body_names[body]}"
                self.contacts.append((first + body, slice(self.size, self.size + 3)))
                # the force points from the sensor's first object to its second, so the body is the second
                sensor = self._add("mjSENS_CONTACT", 3, reftype=mujoco.mjtObj.mjOBJ_BODY, refname=name)
                sensor.intprm[0] = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
                sensor.intprm[1] = 3  # the sum over all contacts
                sensor.intprm[2] = 1
            first += len(actor.asset.bodies)

    def add_limits(self, env: Env) -> None:
        """A sensor of the limit's force on each limited DOF of actors that measure DOF forces."""
        first = 0
        for handle, actor in enumerate(env.actors):
            limited = actor.asset.dof_properties["hasLimits"]
            for dof in np.flatnonzero(limited) if actor.measures_dof_forces else ():
                name = f"{handle}/{actor.asset.dofs[dof]}"
                self.limits.append((first + int(dof), self.size))
                joint = self.spec.joint(name)
                joint.limited = mujoco.mjtLimited.mjLIMITED_TRUE
                joint.range = sorted(float(actor.asset.dof_properties[end][dof]) for end in ("lower", "upper"))
                self._add("mjSENS_JOINTLIMITFRC", 1, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=name)
            first += len(actor.asset.dofs)


def _layout(model: mujoco.MjModel, env: Env, sensors: _Sensors, ground: terrain.Ground) -> Layout:
    slots, names = [], []
    first_body, first_dof = 1, 0
    for handle, actor in enumerate(env.actors):
        asset, prefix = actor.asset, f"{handle}/"
        bodies = slice(first_body, first_body + len(asset.bodies))
        joint = model.joint(prefix + FREE) if asset.floating else None
        slots.append(
            ActorSlot(
                bodies=bodies,
                dofs=slice(first_dof, first_dof + len(asset.dofs)),
                geoms=_geoms(model, asset, bodies.start),
                qpos=int(joint.qposadr[0]) if joint else -1,
                qvel=int(joint.dofadr[0]) if joint else -1,
                mocap=int(model.body_mocapid[bodies.start]),
                damping=(asset.options.linear_damping, asset.options.angular_damping)
                if asset.floating and len(asset.bodies) == 1
                else (0.0, 0.0),
                max_speed=(asset.options.max_linear_velocity, asset.options.max_angular_velocity),
                tendons=(first := _tendons(model, asset, prefix)),
                gains=tendons.gains(model, first),
                couplings=tendons.couplings(model, first),
            )
        )
        names += [prefix + name for name in asset.dofs]
        first_body, first_dof = bodies.stop, slots[-1].dofs.stop
    joints = np.array([model.joint(name).id for name in names], int)
    return Layout(
        actors=slots,
        qpos=model.jnt_qposadr[joints].astype(int),
        qvel=model.jnt_dofadr[joints].astype(int),
        joints=joints,
        bodies=first_body - 1,
        sensors=group(sensors.forces),
        sensor_count=len(sensors.forces),
        contacts=sensors.contacts,
        limits=sensors.limits,
        ground_friction=ground.friction,
        ground_restitution=ground.restitution,
        tendon_armature=model.tendon_armature.copy(),
        couplings=np.concatenate([np.zeros((0, model.nv)), *(slot.couplings for slot in slots)]),
    )


def _tendons(model: mujoco.MjModel, asset: AssetModel, prefix: str) -> slice:
    first = model.tendon(prefix + asset.tendon_names[0]).id if asset.tendons else 0
    return slice(first, first + len(asset.tendons))


def _geoms(model: mujoco.MjModel, asset: AssetModel, first_body: int) -> np.ndarray:
    """The ids of an asset's colliding geoms in the scene: each body's geoms keep their order."""
    own = asset.model
    ids = []
    for geom in asset.shapes:
        body = int(own.geom_bodyid[geom])
        offset = geom - int(own.body_geomadr[body])
        ids.append(int(model.body_geomadr[first_body + body - 1]) + offset)
    return np.array(ids, int)

"""From the recorded scene to one MuJoCo model and the addresses in it.

Options: time step dt / substeps, Euler integration (the drives of `drives.py` are exact with it), no automatic reset.
A fixed base is a mocap body, so that it can be moved later; a free one gets a free joint. Every DOF gets one actuator,
whose gains `drives.py` sets. Links of a fixed base do not collide with it, as in PhysX, where parent and child never
do. Friction is averaged with the ground's, and robots' shapes have priority over the ground's, see `properties.py`.
"""

from __future__ import annotations

from collections.abc import Callable
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
"""Options of assets that the model of one environment holds for all."""
SHARED = (int(mujoco.mjtGeom.mjGEOM_MESH), int(mujoco.mjtGeom.mjGEOM_HFIELD))
"""Kinds of shapes that environments share."""
FORCE_SENSOR = ("mjSENS_FRAMELINACC", "mjSENS_FRAMEANGACC", "mjSENS_FRAMEANGVEL")


def build(sim: Scene) -> tuple[mujoco.MjSpec, mujoco.MjModel, Layout]:
    """Return the specification and the model of one environment, and its layout.

    Raises UserError if the environments' make-up differs.
    """
    _check(sim.envs)
    env = sim.envs[0]
    spec = _empty(sim)
    terrain.add(spec, sim.ground)
    for handle, actor in enumerate(env.actors):
        _attach(spec, actor, f"{handle}/")
    attractors.add_to_spec(spec, env)
    sensors = _Sensors(spec)
    sensors.add_forces(env)
    if int(sim.params.physx.contact_collection) != 0:
        sensors.add_contacts(env)
    sensors.add_limits(env)
    model = _compile(spec, env)
    return spec, model, _layout(model, env, sensors, sim.ground.friction)


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


def _check(envs: list[Env]) -> None:
    """All environments must have the same make-up, so that one model describes them all."""
    first = [actor.asset for actor in envs[0].actors]
    for env in envs[1:]:
        assets = [actor.asset for actor in env.actors]
        if len(assets) == len(first) and all(map(_fits, assets, first)):
            _check_measurements(env, envs[0])
            continue
        raise UserError(
            f"Environment {env.index} has other assets ({', '.join(a.name for a in assets)}) than environment 0 "
            f"({', '.join(a.name for a in first)}). Environments of different make-up are not supported: "
            "create the same actors in the same order in each. Only rigid assets of one shape may differ, in their "
            "size: boxes, spheres, capsules, cylinders or ellipsoids around their centre of mass."
        )


def _check_measurements(env: Env, first: Env) -> None:
    """Refuse environments in which other things are measured, attracted or kept apart."""
    for what, of in COMPARED.items():
        here, there = of(env), of(first)
        if here != there:
            raise UserError(
                f"Environment {env.index} has other {what} than environment 0 ({here} instead of {there}). One model "
                "describes all environments: make them the same in each."
            )


def _kept_apart(env: Env) -> list[bool]:
    """For each actor whose file has excludes or pairs, whether they count; see `_leave_out_contacts`."""
    return [not explicit(actor)[0] for actor in env.actors if actor.asset.model.nexclude or actor.asset.model.npair]


COMPARED: dict[str, Callable[[Env], list]] = {
    "force sensors": lambda env: [len(actor.sensors) for actor in env.actors],
    "DOF force sensors": lambda env: [actor.measures_dof_forces for actor in env.actors],
    "attractors": lambda env: env.attractors,
    "use of its files' excludes and pairs, which count with collision filter -1 only,": _kept_apart,
}
"""Properties on which all environments must agree."""


def _interchangeable(a: AssetModel, b: AssetModel) -> bool:
    """Whether two assets give the same model: one object, or the same file or size with the same bodies and shapes."""
    if a is b:
        return True
    if a.file != b.file or (a.bodies, a.dofs, len(a.shapes)) != (b.bodies, b.dofs, len(b.shapes)):
        return False
    fields = ("geom_size", "geom_pos", "body_pos", "body_mass", "body_inertia")
    if not all(np.array_equal(getattr(a.model, field), getattr(b.model, field)) for field in fields):
        return False
    return all(getattr(a.options, name) == getattr(b.options, name) for name in OPTIONS)


def _fits(a: AssetModel, b: AssetModel) -> bool:
    return _interchangeable(a, b) or _of_other_size(a, b)


def _of_other_size(a: AssetModel, b: AssetModel) -> bool:
    """Whether two assets are one rigid body each with one shape of the same kind, whose centre is that of its mass."""
    kinds = [_kind_of_shape(asset) for asset in (a, b)]
    same = a.bodies == b.bodies and kinds[0] == kinds[1] is not None
    return same and all(getattr(a.options, name) == getattr(b.options, name) for name in OPTIONS)


def _kind_of_shape(asset: AssetModel) -> int | None:
    model = asset.model
    if len(asset.bodies) != 1 or asset.dofs or len(asset.shapes) != 1:
        return None
    (shape,) = asset.shapes
    kind = int(model.geom_type[shape])
    central = np.allclose(model.geom_pos[shape], model.body_ipos[1], rtol=0, atol=1e-6)
    return None if kind in SHARED or not central else kind


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


def _layout(model: mujoco.MjModel, env: Env, sensors: _Sensors, friction: float) -> Layout:
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
        ground_friction=friction,
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

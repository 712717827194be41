"""An imported asset: one body with its descendants, and tables in the order in which Isaac Gym counts.

The specification has one root body below the world, and nothing that belongs to a scene: no free joint, actuator,
sensor, keyframe, material, light, camera or geom of the world. Angles are in radians. Each body has its mass and
inertia written down. Each joint has range, armature, friction and passive damping and stiffness of the file.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

from livegym.compat.core.records import (
    DOF_PROPERTIES,
    ActuatorProperties,
    AssetOptions,
    ForceSensorProperties,
    RigidBodyProperties,
    RigidShapeProperties,
    TendonProperties,
)
from livegym.compat.core.states import Mat33
from livegym.compat.core.vectors import Transform, Vec3

OF_WORLD = "world_link"
"""Name in the specification of a body that the file calls `world`."""
HINGE, SLIDE = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE


@dataclass
class ForceSensor:
    """A sensor of force and torque on a body, at a pose in the body's frame."""

    body: int
    pose: Transform
    properties: ForceSensorProperties


@dataclass
class AssetModel:
    """A template of actors."""

    spec: mujoco.MjSpec
    model: mujoco.MjModel
    """`spec` compiled; body i + 1 is body i of task code."""
    options: AssetOptions
    file: Path | None
    """None for a box, sphere or capsule of task code's own."""
    bodies: tuple[str, ...]
    joints: tuple[str, ...]
    """With fixed joints: joint i is the one above body i + 1."""
    dofs: tuple[str, ...]
    """Hinges and slides."""
    dof_properties: np.ndarray
    """One `DOF_PROPERTIES` a DOF."""
    shapes: tuple[int, ...]
    """Geoms of `model` that collide."""
    shape_properties: list[RigidShapeProperties]
    body_properties: list[RigidBodyProperties]
    actuators: list[ActuatorProperties] = field(default_factory=list)
    actuator_joints: list[str] = field(default_factory=list)
    actuator_names: list[str] = field(default_factory=list)
    tendons: list[TendonProperties] = field(default_factory=list)
    tendon_names: list[str] = field(default_factory=list)
    sensors: list[ForceSensor] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Changes and omissions of the importer, one sentence each."""

    @property
    def name(self) -> str:
        """The name of the file, or the kind of shape, for errors."""
        return self.file.name if self.file else self.bodies[0]

    @property
    def body_names(self) -> tuple[str, ...]:
        """The names of the bodies in `spec` and `model`."""
        return tuple(spec_name(body) for body in self.bodies)

    @property
    def floating(self) -> bool:
        """Whether the root moves freely."""
        return not self.options.fix_base_link


def new_spec() -> mujoco.MjSpec:
    """An empty specification that keeps masses and inertias as written."""
    spec = mujoco.MjSpec()
    keep_as_given(spec)
    return spec


def keep_as_given(spec: mujoco.MjSpec) -> None:
    """Angles in radians, masses and inertias as written."""
    spec.compiler.degree = False
    spec.compiler.balanceinertia = False
    spec.compiler.boundmass = 0.0
    spec.compiler.boundinertia = 0.0
    spec.compiler.settotalmass = -1.0
    spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
    spec.compiler.fusestatic = False


def spec_name(body: str) -> str:
    """The name of a body in the specification: MuJoCo keeps `world` for the world."""
    return OF_WORLD if body == "world" else body


def listed(names: list[str], most: int = 6) -> str:
    """Names for a note: the first ones, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def finish(
    spec: mujoco.MjSpec,
    model: mujoco.MjModel,
    options: AssetOptions,
    file: Path | None,
    joints: dict[str, str],
    dof_properties: dict[str, tuple],
    notes: list[str],
) -> AssetModel:
    """Make an asset of a specification; `joints` names the joint above each body, `dof_properties` is by DOF name."""
    names = (model.body(i).name for i in range(1, model.nbody))
    bodies = tuple("world" if name == OF_WORLD else name for name in names)
    dofs = tuple(model.joint(j).name for j in range(model.njnt))
    shapes = tuple(g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g])
    return AssetModel(
        spec=spec,
        model=model,
        options=copy.copy(options),
        file=file,
        bodies=bodies,
        joints=tuple(joints[body] for body in bodies[1:]),
        dofs=dofs,
        dof_properties=np.array([dof_properties[name] for name in dofs], DOF_PROPERTIES),
        shapes=shapes,
        shape_properties=[_shape_properties(model, g, options) for g in shapes],
        body_properties=[_body_properties(model, body) for body in range(1, model.nbody)],
        notes=notes,
    )


def _shape_properties(model: mujoco.MjModel, geom: int, options: AssetOptions) -> RigidShapeProperties:
    sliding, torsion, rolling = model.geom_friction[geom]
    return RigidShapeProperties(
        friction=sliding, torsion_friction=torsion, rolling_friction=rolling, thickness=options.thickness
    )


def _body_properties(model: mujoco.MjModel, body: int) -> RigidBodyProperties:
    record = RigidBodyProperties(mass=float(model.body_mass[body]), com=Vec3(*model.body_ipos[body].tolist()))
    turn = np.zeros(9)
    mujoco.mju_quat2Mat(turn, model.body_iquat[body])
    axes = turn.reshape(3, 3)
    give_inertia(record, (axes * model.body_inertia[body]) @ axes.T)
    return record


def give_inertia(record: RigidBodyProperties, matrix: np.ndarray) -> None:
    """Set the inertia (3, 3) of a body, and the inverses of mass and inertia."""
    record.inertia = Mat33.from_matrix(matrix)
    record.invInertia = Mat33.from_matrix(np.linalg.pinv(matrix))
    record.invMass = 1.0 / record.mass if record.mass else 0.0

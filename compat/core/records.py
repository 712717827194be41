"""Parameter records of task code: options of assets, simulations, shapes, bodies and drives.

    options = AssetOptions()
    options.fix_base_link = True
    options.fix_base = True  # AttributeError: AssetOptions has no fix_base; did you mean fix_base_link?

A record takes only the names that it has, and each value is brought to the type of its field: randomisation hands over
arrays of one element. `copy.copy` makes a record that shares nothing with the first.
"""

from __future__ import annotations

import copy
from dataclasses import MISSING, dataclass, field, fields
from enum import IntEnum
from typing import Any, Self

import numpy as np

from livegym.compat.core.enums import (
    MeshNormalMode,
    SoftMaterialType,
    TendonType,
)
from livegym.compat.core.states import Mat33
from livegym.compat.core.vectors import Transform, Vec3, number
from livegym.utils.errors import did_you_mean

NO_LIMIT = float(np.finfo(np.float32).max)
"""A limit of a force or a velocity that never acts."""


_KINDS: dict[type, dict[str, type]] = {}
"""The fields of each kind of record, filled when the first one is made."""


def _kinds(record: Record) -> dict[str, type]:
    """The type of each field, which is that of its default."""
    kinds = _KINDS.get(type(record))
    if kinds is None:
        kinds = {name: type(value) for name, value in _defaults(record).items()}
        _KINDS[type(record)] = kinds
    return kinds


def _defaults(record: Record) -> dict[str, Any]:
    found = {}
    for each in fields(record):  # type: ignore[arg-type]  # all records are dataclasses
        found[each.name] = each.default if each.default_factory is MISSING else each.default_factory()
    return found


def _whole(value: Any) -> int:
    """A whole number; raises ValueError if a fraction would be lost."""
    if isinstance(value, int):
        return int(value)
    exact = number(value)
    if exact != int(exact):
        raise ValueError(f"{exact} is no whole number")
    return int(exact)


def _fitting(kind: type, value: Any) -> Any:
    """`value` as a `kind`; a vector or a record is copied. Raises TypeError or ValueError if it does not fit."""
    if type(value) is kind:
        return value if kind in (bool, int, float) else copy.copy(value)
    if kind is bool:
        return bool(np.asarray(value).item())
    if kind is float:
        return number(value)
    if kind is int:
        return _whole(value)
    if issubclass(kind, IntEnum):
        return kind(_whole(value))
    raise TypeError(f"a {kind.__name__} is expected, not {type(value).__name__}")


class Record:
    """Base of all records."""

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = _kinds(self)
        if name not in kinds:
            raise AttributeError(f"{type(self).__name__} has no {name}.{did_you_mean(name, kinds)}")
        try:
            self.__dict__[name] = _fitting(kinds[name], value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{type(self).__name__}.{name} = {value!r}: {error}") from None

    def __dir__(self) -> list[str]:
        return list(_kinds(self))

    def __copy__(self) -> Self:
        again = object.__new__(type(self))
        for name, value in self.__dict__.items():  # vectors, and records in it, are copied whole by `copy.copy`
            again.__dict__[name] = value if isinstance(value, (int, float, str)) else copy.copy(value)
        return again

    def __deepcopy__(self, memo: dict) -> Self:
        return self.__copy__()


@dataclass(kw_only=True)
class VhacdParams(Record):
    """Convex decomposition of meshes; `max_convex_hulls` and `max_num_vertices_per_ch` count (`decompose.py`)."""

    alpha: float = 0.05
    beta: float = 0.05
    concavity: float = 0.0
    convex_hull_approximation: bool = True
    convex_hull_downsampling: int = 4
    max_convex_hulls: int = 64
    max_num_vertices_per_ch: int = 64
    min_volume_per_ch: float = 1e-4
    mode: int = 0
    ocl_acceleration: bool = True
    pca: int = 0
    plane_downsampling: int = 4
    project_hull_vertices: bool = True
    resolution: int = 100_000


@dataclass(kw_only=True)
class AssetOptions(Record):
    """Import of an asset. Units: kg, m, s, rad; densities in kg/m^3."""

    angular_damping: float = 0.5
    armature: float = 0.0
    collapse_fixed_joints: bool = False
    convex_decomposition_from_submeshes: bool = False
    default_dof_drive_mode: int = 0
    density: float = 1000.0
    disable_gravity: bool = False
    enable_gyroscopic_forces: bool = True
    fix_base_link: bool = False
    flip_visual_attachments: bool = False
    linear_damping: float = 0.0
    max_angular_velocity: float = 64.0
    max_linear_velocity: float = 1000.0
    mesh_normal_mode: MeshNormalMode = MeshNormalMode.FROM_ASSET
    min_particle_mass: float = 0.0
    override_com: bool = False
    override_inertia: bool = False
    replace_cylinder_with_capsule: bool = False
    slices_per_cylinder: int = 20
    tendon_limit_stiffness: float = 0.0
    thickness: float = 0.02
    use_mesh_materials: bool = False
    use_physx_armature: bool = True
    vhacd_enabled: bool = False
    vhacd_params: VhacdParams = field(default_factory=VhacdParams)


@dataclass(kw_only=True)
class RigidBodyProperties(Record):
    """Mass (kg), centre of mass in the body's frame (m), and inertia about it in the body's axes (kg m^2)."""

    com: Vec3 = field(default_factory=Vec3)
    flags: int = 0
    inertia: Mat33 = field(default_factory=Mat33)
    invInertia: Mat33 = field(default_factory=Mat33)
    invMass: float = 0.0
    mass: float = 0.0


@dataclass(kw_only=True)
class RigidShapeProperties(Record):
    """Contact of one shape. Shapes A and B meet if `A.filter & B.filter` is 0."""

    compliance: float = 0.0
    contact_offset: float = 0.02
    filter: int = 0
    friction: float = 1.0
    rest_offset: float = 0.001
    restitution: float = 0.0
    rolling_friction: float = 0.0
    thickness: float = 0.02
    torsion_friction: float = 0.0


@dataclass(kw_only=True)
class ActuatorProperties(Record):
    """An actuator of an MJCF file: control and force limits, gains, and the gear of a motor."""

    control_limited: bool = False
    force_limited: bool = False
    kp: float = 0.0
    kv: float = 0.0
    lower_control_limit: float = 0.0
    lower_force_limit: float = 0.0
    motor_effort: float = 0.0
    type: str = "motor"
    upper_control_limit: float = 0.0
    upper_force_limit: float = 0.0


@dataclass(kw_only=True)
class TendonProperties(Record):
    """A tendon: limits and rest length in the units of its joints, gains per unit."""

    damping: float = 0.0
    fixed_lower_limit: float = 0.0
    fixed_spring_rest_length: float = 0.0
    fixed_upper_limit: float = 0.0
    is_fixed_limited: bool = False
    limit_stiffness: float = 0.0
    num_attachments: int = 0
    num_joints: int = 0
    stiffness: float = 0.0
    type: TendonType = TendonType.TENDON_FIXED


@dataclass(kw_only=True)
class ForceSensorProperties(Record):
    """Forces that a sensor adds up, and its axes: its own, or the world's."""

    enable_constraint_solver_forces: bool = True
    enable_forward_dynamics_forces: bool = True
    use_world_frame: bool = False


@dataclass(kw_only=True)
class AttractorProperties(Record):
    """A spring (N/m, N m/rad) and damper from a body, at `offset`, to the pose `target`, along the flagged `axes`."""

    axes: int = 0
    damping: float = 0.0
    offset: Transform = field(default_factory=Transform)
    rigid_handle: int = -1
    stiffness: float = 0.0
    target: Transform = field(default_factory=Transform)


@dataclass(kw_only=True)
class SoftMaterial(Record):
    """Material of a soft body."""

    activation: float = 0.0
    activationMax: float = 0.0
    damping: float = 0.0
    model: SoftMaterialType = SoftMaterialType.MAT_COROTATIONAL
    poissons: float = 0.0
    youngs: float = 0.0


@dataclass(kw_only=True)
class IndexRange(Record):
    """`count` indices from `start`."""

    count: int = 0
    start: int = 0


@dataclass(kw_only=True)
class Version(Record):
    """Version numbers."""

    major: int = 0
    minor: int = 0


DOF_PROPERTIES = np.dtype(
    [
        ("hasLimits", "?"),
        ("lower", "<f4"),
        ("upper", "<f4"),
        ("driveMode", "<i4"),
        ("velocity", "<f4"),
        ("effort", "<f4"),
        ("stiffness", "<f4"),
        ("damping", "<f4"),
        ("friction", "<f4"),
        ("armature", "<f4"),
    ]
)
"""One DOF: limits (rad or m), drive mode, velocity and force limits, gains, friction (N m or N), armature."""

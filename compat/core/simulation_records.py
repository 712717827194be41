"""Parameter records of a whole simulation: engine, gravity, ground, cameras, export."""

from __future__ import annotations

from dataclasses import dataclass, field

from livegym.compat.core.enums import ContactCollection, UpAxis, UsdMaterialMode
from livegym.compat.core.records import Record
from livegym.compat.core.vectors import Transform, Vec3


@dataclass(kw_only=True)
class PhysXParams(Record):
    """Settings of PhysX. Most have no counterpart in MuJoCo; task code reads back the values that it set."""

    always_use_articulations: bool = False
    bounce_threshold_velocity: float = 0.2
    contact_collection: ContactCollection = ContactCollection.CC_ALL_SUBSTEPS
    contact_offset: float = 0.02
    default_buffer_size_multiplier: float = 2.0
    friction_correlation_distance: float = 0.025
    friction_offset_threshold: float = 0.04
    max_depenetration_velocity: float = 100.0
    max_gpu_contact_pairs: int = 1024 * 1024
    num_position_iterations: int = 4
    num_subscenes: int = 0
    num_threads: int = 0
    num_velocity_iterations: int = 1
    rest_offset: float = 0.001
    solver_type: int = 1
    use_gpu: bool = False


@dataclass(kw_only=True)
class FlexParams(Record):
    """Settings of Flex, which MuJoCo does not stand in for."""

    contact_regularization: float = 0.0
    deterministic_mode: bool = False
    dynamic_friction: float = 0.0
    friction_mode: int = 2
    geometric_stiffness: float = 1.0
    max_rigid_contacts: int = 512 * 1024
    max_soft_contacts: int = 512 * 1024
    num_inner_iterations: int = 20
    num_outer_iterations: int = 4
    particle_friction: float = 0.0
    relaxation: float = 0.75
    return_contacts: bool = False
    shape_collision_distance: float = 0.0
    shape_collision_margin: float = 0.0
    solver_type: int = 5
    static_friction: float = 0.0
    warm_start: float = 0.4


@dataclass(kw_only=True)
class SimParams(Record):
    """A simulation. `dt` (s) is one call of `simulate`, which takes `substeps` steps of physics."""

    dt: float = 1 / 60
    enable_actor_creation_warning: bool = True
    flex: FlexParams = field(default_factory=FlexParams)
    gravity: Vec3 = field(default_factory=lambda: Vec3(0, -9.8, 0))
    num_client_threads: int = 0
    physx: PhysXParams = field(default_factory=PhysXParams)
    stress_visualization: bool = False
    stress_visualization_max: float = 1e5
    stress_visualization_min: float = 0.0
    substeps: int = 2
    up_axis: UpAxis = UpAxis.UP_AXIS_Y
    use_gpu_pipeline: bool = False


@dataclass(kw_only=True)
class PlaneParams(Record):
    """The ground; `distance` (m) lies between it and the origin."""

    distance: float = 0.0
    dynamic_friction: float = 1.0
    normal: Vec3 = field(default_factory=lambda: Vec3(0, 1, 0))
    restitution: float = 0.0
    segmentation_id: int = 0
    static_friction: float = 1.0


@dataclass(kw_only=True)
class TriangleMeshParams(Record):
    """Ground made of triangles."""

    dynamic_friction: float = 1.0
    nb_triangles: int = 0
    nb_vertices: int = 0
    restitution: float = 0.0
    segmentation_id: int = 0
    static_friction: float = 1.0
    transform: Transform = field(default_factory=Transform)


@dataclass(kw_only=True)
class HeightFieldParams(Record):
    """Ground made of heights on a grid; scales in m."""

    column_scale: float = 1.0
    dynamic_friction: float = 1.0
    nbColumns: int = 0
    nbRows: int = 0
    restitution: float = 0.0
    row_scale: float = 1.0
    segmentation_id: int = 0
    static_friction: float = 1.0
    transform: Transform = field(default_factory=Transform)
    vertical_scale: float = 1.0


@dataclass(kw_only=True)
class CameraProperties(Record):
    """A camera: size in pixels, planes in m, field of view in degrees."""

    enable_tensors: bool = False
    far_plane: float = 2e6
    height: int = 900
    horizontal_fov: float = 90.0
    near_plane: float = 0.001
    supersampling_horizontal: int = 1
    supersampling_vertical: int = 1
    use_collision_geometry: bool = False
    width: int = 1600


@dataclass(kw_only=True)
class UsdExportOptions(Record):
    """An export to USD, which is not available."""

    export_physics: bool = True
    material_mode: UsdMaterialMode = UsdMaterialMode.USD_MATERIAL_PREVIEW_SURFACE
    scale: float = 1.0
    single_file: bool = False
    use_geom_subsets: bool = False
    use_physics_visuals: bool = False

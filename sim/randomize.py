"""What must follow when model fields differ between environments, beyond what mj_setConst derives.

MuJoCo checks collisions first by bounding sphere (`geom_rbound`) and box (`geom_aabb`), which the compiler derives from
`geom_size` and nothing renews: with a new size alone boxes rest at the wrong height or fall through each other.
A body's inertia is proportional to its mass at a given shape, so it follows where only the mass is randomised.
"""

from __future__ import annotations

from collections.abc import Mapping

import mujoco
import numpy as np

# field -> fields that are written along with it, unless they are randomised themselves
COMPANIONS = {"geom_size": ("geom_rbound", "geom_aabb"), "body_mass": ("body_inertia",)}


def geom_bounds(geom_type: int, size: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounding radius (n,) m and half extents (n, 3) m of primitive geoms of sizes (n, 3); None for other geoms."""
    types, x, y = mujoco.mjtGeom, size[:, 0], size[:, 1]
    if geom_type == types.mjGEOM_SPHERE:
        return x, np.stack([x, x, x], axis=1)
    if geom_type == types.mjGEOM_CAPSULE:
        return x + y, np.stack([x, x, x + y], axis=1)
    if geom_type == types.mjGEOM_CYLINDER:
        return np.hypot(x, y), np.stack([x, x, y], axis=1)
    if geom_type == types.mjGEOM_ELLIPSOID:
        return size.max(axis=1), size
    if geom_type == types.mjGEOM_BOX:
        return np.linalg.norm(size, axis=1), size
    return None  # planes are infinite; meshes and height fields do not collide by geom_size


def write_geom_bounds(model: mujoco.MjModel, values: Mapping[str, np.ndarray], ids: np.ndarray) -> None:
    """Writes geom_rbound (N, G) and geom_aabb (N, G, 6) of environments `ids` from geom_size (N, G, 3)."""
    for geom in range(model.ngeom):
        bounds = geom_bounds(int(model.geom_type[geom]), values["geom_size"][ids, geom])
        if bounds is not None:
            values["geom_rbound"][ids, geom] = bounds[0]
            values["geom_aabb"][ids, geom, 3:] = bounds[1]


def write_inertia(model: mujoco.MjModel, values: Mapping[str, np.ndarray], ids: np.ndarray) -> None:
    """Scales body_inertia (N, B, 3) of environments `ids` as body_mass (N, B) is to the model's own."""
    own = np.where(model.body_mass > 0, model.body_mass, 1.0)  # the world has no mass
    scale = np.where(model.body_mass > 0, values["body_mass"][ids] / own, 1.0)
    values["body_inertia"][ids] = model.body_inertia * scale[..., None]


def write_companions(model: mujoco.MjModel, values: Mapping[str, np.ndarray], asked: set[str], ids: np.ndarray) -> None:
    """Brings the companions of the randomised fields `values`, name -> (N, ...), up to date in environments `ids`.

    `asked` names the fields that the caller randomises itself; those are left as the caller wrote them.
    """
    if "geom_size" in values and not asked & {"geom_rbound", "geom_aabb"}:
        write_geom_bounds(model, values, ids)
    if "body_mass" in values and "body_inertia" not in asked:
        write_inertia(model, values, ids)


def needs_set_const(model: mujoco.MjModel, names: set[str]) -> bool:
    """Whether mj_setConst derives other fields from any of `names`."""
    inputs = mujoco.MjModel._setconst_inputs  # named by mujoco.batch's own documentation
    return any(name in inputs or name.startswith("opt.") for name in names)

"""In which fields two compiled models differ.

differ_beyond_sizes(model, other)  # False: one batch can hold them
different_sizes(model, other)      # {"geom_size": ..., "body_mass": ...} of the other one
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np

from livegym.compat.core.weights import Weights

SIZES = frozenset(
    {
        *("geom_size", "geom_pos", "geom_quat", "geom_aabb", "geom_rbound", "geom_sameframe", "bvh_aabb"),
        *("body_pos", "body_quat", "body_mass", "body_inertia", "body_ipos", "body_iquat", "body_sameframe"),
        *("body_subtreemass", "body_invweight0", "dof_invweight0", "dof_M0", "dof_damping", "dof_length"),
        *("geom_friction", "geom_solref", "geom_contype", "geom_conaffinity", "body_contype", "body_conaffinity"),
        *("actuator_acc0",),
    }
)
"""Fields of a model that may differ between the environments of a batch."""
SPRINGS = frozenset(
    {
        *("eq_solref", "eq_solimp", "eq_data", "tendon_stiffness", "tendon_damping", "tendon_armature"),
        *("tendon_lengthspring", "tendon_limited", "tendon_range", "tendon_solref_lim", "tendon_solimp_lim"),
        *("tendon_invweight0", "tendon_length0"),
    }
)
"""Fields that properties and masses change after the models were compiled; when they are compared, these are equal."""
NAMES = frozenset({"names", "names_map", "paths", "geom_rgba", "text_data"})
"""Fields that physics does not read; so are the addresses of names, `name_*adr`."""
_OTHERS: list[str] = []
"""The names of all other arrays of a model, filled when the first one is seen."""


def differ_beyond_sizes(a: mujoco.MjModel, b: mujoco.MjModel) -> bool:
    """Whether two models differ in more than SIZES, so that a batch cannot hold both."""
    if (a.nq, a.nv, a.nbody, a.ngeom) != (b.nq, b.nv, b.nbody, b.ngeom):
        return True
    return any(_differ(a, b, name) for name in _others(a))


@dataclass(frozen=True)
class Sizes:
    """The rest of a model that shares the batch of another one: meshes are not kept twice."""

    fields: dict[str, np.ndarray]
    """Those that differ from the other model's."""
    weights: Weights


def sizes_of(first: mujoco.MjModel, model: mujoco.MjModel, geoms: np.ndarray) -> Sizes:
    """The fields and weights of `model` that are its own; `geoms` are those that collide."""
    return Sizes(different_sizes(first, model), Weights(model, geoms))


def different_sizes(first: mujoco.MjModel, model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """Copies of the fields among SIZES and SPRINGS in which `model` differs from `first`, by name."""
    volumes = int(model.body_bvhnum.sum())  # those of bodies; the meshes' follow, and a batch does not have them
    names = sorted(name for name in SIZES | SPRINGS if _differ(first, model, name))
    return {name: getattr(model, name)[: volumes if name == "bvh_aabb" else None].copy() for name in names}


def _differ(a: mujoco.MjModel, b: mujoco.MjModel, name: str) -> bool:
    one, other = getattr(a, name), getattr(b, name)
    return one.shape != other.shape or one.tobytes() != other.tobytes()


def _others(model: mujoco.MjModel) -> list[str]:
    if not _OTHERS:
        names = [name for name in dir(model) if not name.startswith(("_", "name_")) and name not in NAMES | SIZES]
        _OTHERS.extend(name for name in names if isinstance(getattr(model, name), np.ndarray))
    return _OTHERS

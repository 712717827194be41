"""Updates the model fields that depend on fields which differ between environments.

MuJoCo's mj_setConst derives most of it, including the bounding volumes (`geom_rbound`, `geom_aabb`, `bvh_aabb`) by
which collisions are found. Without them, a geom with a new `geom_size` rests at the wrong height or falls through
others. It costs a forward pass, so it runs only if a field that it reads was randomised. It does not derive inertia.
For a given shape, inertia is proportional to the mass, so it is scaled here if only the mass is randomised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import mujoco
import numpy as np

# field -> fields that are written together with it, unless they are randomised themselves
DEPENDENT = {"body_mass": ("body_inertia",)}


def write_dependent(model: mujoco.MjModel, values: Mapping[str, np.ndarray], asked: set[str], ids: np.ndarray) -> None:
    """Update the fields that depend on randomised fields `values`, name -> (N, ...), in environments `ids`.

    `asked` names the fields that the caller randomises itself; they stay as the caller wrote them.
    """
    if "body_mass" in values and "body_inertia" not in asked:
        massive = model.body_mass > 0  # the world has no mass
        scale = np.where(massive, values["body_mass"][ids] / np.where(massive, model.body_mass, 1.0), 1.0)
        values["body_inertia"][ids] = model.body_inertia * scale[..., None]


def needs_set_const(names: Iterable[str]) -> bool:
    """Whether mj_setConst derives other fields from any of `names`."""
    inputs = mujoco.MjModel._setconst_inputs  # the list that mujoco.batch's documentation points to
    return any(name in inputs or name.startswith("opt.") for name in names)

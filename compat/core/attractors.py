"""Attractors: springs from a point of a body to a pose in its environment, as constraints between two sites.

All three axes of translation (AXIS_TRANSLATION) make a spring between two points; all six axes (AXIS_ALL) turn the
body, too, with the same number as torsional stiffness, N m/rad, which is exact for small angles. 0 is no attractor.
"""

from __future__ import annotations

import copy

import mujoco
import numpy as np

from livegym.compat.core import springs
from livegym.compat.core.engine import Engine
from livegym.compat.core.enums import AXIS_ALL, AXIS_NONE, AXIS_TRANSLATION
from livegym.compat.core.record import Env
from livegym.compat.core.records import AttractorProperties
from livegym.compat.core.vectors import Transform
from livegym.utils.errors import UserError

TORQUE_SCALE = 10
"""The number of a weld's data that scales its rotation."""


def add(env: Env, properties: AttractorProperties) -> int:
    """Add an attractor to an environment; return its handle. Raises UserError if MuJoCo has none like it."""
    env.sim.only_before("create_rigid_body_attractor")
    axes, body = int(properties.axes), properties.rigid_handle
    if axes not in (AXIS_NONE, AXIS_TRANSLATION, AXIS_ALL):
        raise UserError(
            f"create_rigid_body_attractor: axes={axes}. Allowed: AXIS_TRANSLATION ({AXIS_TRANSLATION}), AXIS_ALL "
            f"({AXIS_ALL}), or {AXIS_NONE}, which pulls at nothing; MuJoCo has no constraint along single axes. Pull "
            "with apply_rigid_body_force_tensors instead."
        )
    if not 0 <= body < env.body_count:
        raise UserError(
            f"create_rigid_body_attractor: rigid_handle={body}; environment {env.index} has {env.body_count} bodies. "
            "Create the actor first, and use find_actor_rigid_body_handle."
        )
    for name in ("stiffness", "damping"):
        value = getattr(properties, name)
        if not 0 <= value < np.inf:
            raise UserError(f"create_rigid_body_attractor: {name}={value}. It must be a number of at least 0.")
    env.attractors.append(copy.deepcopy(properties))
    return len(env.attractors) - 1


def _pulls(attractor: AttractorProperties) -> bool:
    return bool(attractor.axes) and (attractor.stiffness > 0 or attractor.damping > 0)


def add_to_spec(spec: mujoco.MjSpec, env: Env) -> None:
    """Add two sites and a constraint for each attractor that exerts a force."""
    bodies = [f"{handle}/{body}" for handle, actor in enumerate(env.actors) for body in actor.asset.body_names]
    for number, attractor in enumerate(env.attractors):
        if not _pulls(attractor):
            continue
        spec.body(bodies[attractor.rigid_handle]).add_site(name=f"attracted/{number}", **_site(attractor.offset))
        spec.worldbody.add_site(name=f"attractor/{number}", **_site(attractor.target))
        spec.add_equality(
            name=f"attractor/{number}",
            type=mujoco.mjtEq.mjEQ_WELD if attractor.axes == AXIS_ALL else mujoco.mjtEq.mjEQ_CONNECT,
            objtype=mujoco.mjtObj.mjOBJ_SITE,
            name1=f"attracted/{number}",
            name2=f"attractor/{number}",
        )


def _site(pose: Transform) -> dict[str, list[float]]:
    return {"pos": list(pose.p), "quat": [pose.r.w, pose.r.x, pose.r.y, pose.r.z]}


def write_model(env: Env, model: mujoco.MjModel) -> None:
    """Write stiffness and damping of attractors into the model that environments share; its inertia is final."""
    for number, attractor in enumerate(env.attractors):
        if _pulls(attractor):
            row = model.equality(f"attractor/{number}").id
            weights = model.body_invweight0[attractor.rigid_handle + 1]
            solref, solimp, scale = _fields(attractor, float(model.opt.timestep), weights)
            model.eq_solref[row], model.eq_solimp[row] = solref, solimp
            if attractor.axes == AXIS_ALL:
                model.eq_data[row, TORQUE_SCALE] = scale


def write(engine: Engine, env: Env, envs: np.ndarray) -> None:
    """Write the attractors of environments whose masses have changed; `env` is any of them."""
    for number, attractor in enumerate(env.attractors):
        if _pulls(attractor):
            row = engine.model.equality(f"attractor/{number}").id
            weights = engine.per_env("body_invweight0")[envs, attractor.rigid_handle + 1]
            solref, solimp, scale = _fields(attractor, float(engine.model.opt.timestep), weights)
            engine.expand("eq_solref")[envs, row] = solref
            engine.expand("eq_solimp")[envs, row] = solimp
            if attractor.axes == AXIS_ALL:
                engine.expand("eq_data")[envs, row, TORQUE_SCALE] = scale


def _fields(attractor: AttractorProperties, h: float, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """solref, solimp and the scale of a weld's rotation; `weights` (..., 2) are the body's inverse mass and inertia.

    A weld has one impedance for both: the scale gives the rotation the same stiffness. Its error is half the angle.
    """
    move, turn = weights[..., 0], weights[..., 1]
    solref, solimp = springs.constraint(attractor.stiffness, attractor.damping, h, np.maximum(move, 1e-12))
    return solref, solimp, 2.0 * np.sqrt(turn / np.maximum(move, 1e-12))

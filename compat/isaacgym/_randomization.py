"""Randomisation of properties, as VecTask of IsaacGymEnvs asked for it when `gymutil` had these functions.

    params = {"range": [0.7, 1.3], "operation": "scaling", "distribution": "uniform"}
    apply_random_samples(shape, {"friction": 1.0}, "friction", params, gym.get_frame_count(sim))

Parameters of an attribute: `range` (lower and upper limit, or mean and deviation of a gaussian), `operation` (additive
or scaling), `distribution` (uniform, loguniform, gaussian), `schedule` (linear: the effect grows during
`schedule_steps`; constant: it begins after them), `num_buckets` (only so many values occur; 0: any).
Numbers come from NumPy's global generator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from livegym.compat.core.values import SimParams, Vec3

Params = Mapping[str, Any]
Sample = Any  # an array, or a number
NEUTRAL = {"additive": 0.0, "scaling": 1.0}
"""Operation -> the sample that changes nothing."""


def get_property_getter_map(gym: Any) -> dict[str, Any]:
    """Name of a kind of properties -> the method that reads them."""
    return {
        "dof_properties": gym.get_actor_dof_properties,
        "tendon_properties": gym.get_actor_tendon_properties,
        "rigid_body_properties": gym.get_actor_rigid_body_properties,
        "rigid_shape_properties": gym.get_actor_rigid_shape_properties,
        "sim_params": gym.get_sim_params,
    }


def get_property_setter_map(gym: Any) -> dict[str, Any]:
    """Name of a kind of properties -> the method that writes them."""
    return {
        "dof_properties": gym.set_actor_dof_properties,
        "tendon_properties": gym.set_actor_tendon_properties,
        "rigid_body_properties": gym.set_actor_rigid_body_properties,
        "rigid_shape_properties": gym.set_actor_rigid_shape_properties,
        "sim_params": gym.set_sim_params,
    }


def get_default_setter_args(gym: Any) -> dict[str, list[Any]]:
    """Name of a kind of properties -> further arguments of its setter: inertia follows a body's mass."""
    return {name: [True] if name == "rigid_body_properties" else [] for name in get_property_setter_map(gym)}


def generate_random_samples(
    attr_randomization_params: Params,
    shape: int | Sequence[int],
    curr_gym_step_count: int,
    extern_sample: Sample | None = None,
) -> Sample:
    """Draw an array of a shape, or take `extern_sample`; early in a schedule, it is near to what changes nothing.

    Raises ValueError for an unknown operation, distribution or schedule.
    """
    neutral = NEUTRAL[_one_of(attr_randomization_params, "operation", NEUTRAL)]
    share = _share(attr_randomization_params, curr_gym_step_count)
    if extern_sample is not None:
        return neutral + (extern_sample - neutral) * share
    first, second = attr_randomization_params["range"]
    first = neutral + (first - neutral) * share
    distribution = _one_of(attr_randomization_params, "distribution", ("uniform", "loguniform", "gaussian"))
    if distribution == "gaussian":
        return np.random.normal(first, second * share, shape)
    second = neutral + (second - neutral) * share
    if distribution == "uniform":
        return np.random.uniform(first, second, shape)
    return np.exp(np.random.uniform(np.log(first), np.log(second), shape))


def apply_random_samples(
    prop: Any,
    og_prop: Any,
    attr: str,
    attr_randomization_params: Params,
    curr_gym_step_count: int,
    extern_sample: Sample | None = None,
    bucketing_randomization_params: Params | None = None,
) -> None:
    """Write a randomised attribute into `prop`, from its original value in `og_prop`.

    `prop` is the simulation's parameters, an array of records such as properties of DOFs, or a single record. Of the
    simulation, only `gravity` can be randomised; raises ValueError for others.
    """
    params, step = attr_randomization_params, curr_gym_step_count
    if isinstance(prop, SimParams):
        if attr != "gravity":
            raise ValueError(f"sim_params.{attr} cannot be randomised. Allowed: gravity")
        before = og_prop["gravity"]
        value = _changed(np.array([before.x, before.y, before.z]), generate_random_samples(params, 3, step), params)
        prop.gravity = Vec3(*value)
        return
    drawn = generate_random_samples(params, np.shape(og_prop[attr]) or 1, step, extern_sample)
    value = _changed(og_prop[attr], drawn, params)
    if params.get("num_buckets", 0) > 0:
        value = _bucketed(value, bucketing_randomization_params or params)
    if isinstance(prop, np.ndarray):
        prop[attr] = value
    else:
        setattr(prop, attr, value)


def check_buckets(gym: Any, envs: Sequence[Any], dr_params: Params) -> None:
    """Do nothing: PhysX has 64,000 materials for all shapes; MuJoCo has a friction for each of them."""


def _share(params: Params, step: int) -> float:
    """How much of a randomisation acts after so many steps, 0 to 1."""
    if "schedule" not in params:
        return 1.0
    if _one_of(params, "schedule", ("linear", "constant")) == "linear":
        return min(step / params["schedule_steps"], 1.0)
    return float(step >= params["schedule_steps"])


def _changed(before: Any, sample: Sample, params: Params) -> Any:
    return before * sample if params["operation"] == "scaling" else before + sample


def _bucketed(values: Sample, params: Params) -> Sample:
    """The lower edges of the buckets that values are in; the outer buckets have no end.

    The buckets share the range of a uniform distribution; otherwise, twice the root of its second number on both sides
    of the first.
    """
    first, second = params["range"]
    if params["distribution"] != "uniform":
        reach = 2 * math.sqrt(second)
        first, second = first - reach, first + reach
    count = params["num_buckets"]
    edges = first + (second - first) * np.arange(count) / count
    return edges[np.clip(np.searchsorted(edges, values, side="right") - 1, 0, count - 1)]


def _one_of(params: Params, name: str, allowed: Any) -> str:
    value = str(params[name])
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is unknown. Allowed: {', '.join(allowed)}")
    return value

"""The spec of a policy: its observation blocks and action spec, and a hash of both with the shapes of its parameters.

The shape hash is for quick comparisons: policies with different hashes cannot be exchanged. The decision is that of
`difference`, which also compares task and control step, and describes the difference in one line for error messages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from livegym.tasks.base import ActionSpec, Box, Discrete, MultiDiscrete
from livegym.tasks.env import Env
from livegym.utils.errors import UserError


@dataclass(frozen=True)
class PolicySpec:
    """Observation, action and control step of a policy, and its task."""

    task: str
    observations: tuple[tuple[str, int], ...]  # (block, width) of the policy group, in order
    privileged: tuple[tuple[str, int], ...]  # likewise for the critic's group
    action: ActionSpec
    control_dt: float  # s

    @property
    def obs_width(self) -> int:
        """Number of columns of the policy's observation."""
        return sum(width for _, width in self.observations)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "task": self.task,
            "observations": [list(block) for block in self.observations],
            "privileged": [list(block) for block in self.privileged],
            "action": {"type": type(self.action).__name__, **_plain(self.action)},
            "control_dt": self.control_dt,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolicySpec:
        """The inverse of `to_dict`. Raises UserError if the data is not such a dictionary."""
        try:
            blocks = [tuple((str(n), int(w)) for n, w in data[key]) for key in ("observations", "privileged")]
            return cls(str(data["task"]), blocks[0], blocks[1], _action(data["action"]), float(data["control_dt"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"the policy's spec is not readable ({type(error).__name__}: {error})") from error


def _plain(action: ActionSpec) -> dict[str, Any]:
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(action).items()}


def _action(data: Mapping[str, Any]) -> ActionSpec:
    kind = data["type"]
    if kind == "Box":
        return Box(int(data["size"]))
    if kind == "Discrete":
        return Discrete(int(data["n"]))
    if kind == "MultiDiscrete":
        return MultiDiscrete(tuple(int(n) for n in data["nvec"]))
    raise ValueError(f"unknown action type {kind!r}")


def spec_of(env: Env) -> PolicySpec:
    """The spec that a policy must have to act in `env`."""
    layout = env.layout
    return PolicySpec(
        task=env.config.name,
        observations=tuple(layout.describe("policy")),
        privileged=tuple(layout.describe("privileged")),
        action=env.task.action_spec,
        control_dt=env.sim.control_dt,
    )


Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Parameter or buffer name -> (dtype, shape)."""


def shapes_of(model: Mapping[str, Tensor]) -> Shapes:
    """The shapes of a state dictionary, in its order."""
    return {name: (str(value.dtype), tuple(value.shape)) for name, value in model.items()}


def shape_hash(spec: PolicySpec, model: Mapping[str, Tensor]) -> str:
    """Hash (16 hex digits) of the ordered names, shapes and dtypes, the observation blocks and the action spec."""
    content = [
        [[name, dtype, list(shape)] for name, (dtype, shape) in shapes_of(model).items()],
        [list(block) for block in spec.observations],
        {"type": type(spec.action).__name__, **_plain(spec.action)},
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def difference(
    expected: PolicySpec, expected_shapes: Shapes, other: PolicySpec | None, other_shapes: Shapes
) -> str | None:
    """One line on how `other` differs from `expected`; None if their policies are interchangeable."""
    if other is not None:
        if other.task != expected.task:
            return f"its task is {other.task}, expected {expected.task}"
        if other.action != expected.action:
            return f"its action is {other.action}, expected {expected.action}"
        if abs(other.control_dt - expected.control_dt) > 1e-9:
            return f"its control step is {other.control_dt:g} s, expected {expected.control_dt:g} s"
        if other.observations != expected.observations:
            return f"its observation is {_blocks(other.observations)}, expected {_blocks(expected.observations)}"
    return shape_difference(expected_shapes, other_shapes)


def shape_difference(expected_shapes: Shapes, other_shapes: Shapes) -> str | None:
    """One line on how the parameters differ; None if names, shapes and dtypes are the same."""
    missing = [name for name in expected_shapes if name not in other_shapes]
    extra = [name for name in other_shapes if name not in expected_shapes]
    if missing or extra:
        return "; ".join(
            f"{word} {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
            for word, names in (("it lacks", missing), ("it has the additional parameters", extra))
            if names
        )
    for name, (dtype, shape) in expected_shapes.items():
        if other_shapes[name] != (dtype, shape):
            other = other_shapes[name]
            return f"{name} is {other[0]}{list(other[1])}, expected {dtype}{list(shape)}"
    return None


def _blocks(blocks: tuple[tuple[str, int], ...]) -> str:
    return "[" + ", ".join(f"{name} {width}" for name, width in blocks) + f"] = {sum(w for _, w in blocks)} columns"

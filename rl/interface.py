"""Describes what a policy takes and gives, for programs outside of livegym: names, order, units, rates, states.

    interface = PolicyInterface.from_dict(json.loads(metadata["livegym"]))
    [block.name for block in interface.observations]      # in the order of the columns of `obs`
    interface.columns("pole_angle")                       # slice(2, 3)
    interface.states                                      # what a caller keeps between two control steps

`PolicySpec` (rl/spec.py) is the part of it that decides whether weights fit. This is the description for people and
controllers: it has only plain values, so it can be JSON in an ONNX file, and it can be read without the task's code.
`deploy/describe.py` makes it from an Env.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from livegym.utils.errors import UserError

FORMAT = 1
STATE_DTYPES = ("float32", "float64", "int32", "int64", "bool")


@dataclass(frozen=True)
class Block:
    """One named block of the observation."""

    name: str
    width: int  # numbers of one control step
    history: int = 1  # control steps whose values the policy sees, oldest first
    meaning: str = ""  # what it is, with its unit
    inside: bool = False  # an exported graph computes it from its states: it is not part of the graph's `obs`

    @property
    def seen(self) -> int:
        """Columns that the policy itself sees."""
        return self.width * self.history


@dataclass(frozen=True)
class Action:
    """The action: `size` numbers between low and high, or choices."""

    kind: str  # Box, Discrete or MultiDiscrete
    size: int  # numbers in one action
    choices: Optional[tuple[int, ...]]  # how many choices each number has; None: continuous
    low: float = -1.0  # a Box action is clipped to low and high
    high: float = 1.0
    meaning: str = ""


@dataclass(frozen=True)
class Joint:
    """A joint of the robot's model."""

    name: str
    kind: str  # free, ball, slide or hinge
    unit: str  # of its position: m or rad; m and quaternion (wxyz) for a free joint
    default: tuple[float, ...]  # the model's default position
    range: Optional[tuple[float, float]] = None  # None: unlimited


@dataclass(frozen=True)
class Actuator:
    """An actuator, whose control is one column of the graph's `controls`."""

    name: str
    joint: str  # the joint that it drives; empty: something else (a tendon, a site)
    kind: str  # motor, position, velocity or other
    unit: str  # of its control; empty if it is not known
    range: Optional[tuple[float, float]] = None  # of its control; None: unlimited
    gear: float = 1.0  # of a motor: N or Nm on the joint for each unit of control; otherwise control / joint position
    stiffness: float = 0.0  # N/m or Nm/rad on the joint; 0 if it is not a position actuator
    damping: float = 0.0  # Ns/m or Nms/rad on the joint, against its velocity or towards the target velocity
    effort: Optional[float] = None  # N or Nm, the largest on the joint; None: no limit
    velocity: Optional[float] = None  # m/s or rad/s at which it cannot drive any more; from half of it on, effort falls
    delay_s: float = 0.0  # s until a control reaches it


@dataclass(frozen=True)
class Field:
    """A field of the simulator, which an exported graph takes beside the blocks, or instead of them."""

    name: str
    shape: tuple[int, ...]  # of one environment, which is the first axis
    meaning: str = ""
    rows: tuple[str, ...] = ()  # names of the bodies, sites or sensors along the first of these axes


@dataclass(frozen=True)
class State:
    """A value that an exported graph needs back in the next control step: output `next_<name>` -> input `<name>`."""

    name: str
    shape: tuple[int, ...]  # of one environment, which is the first axis
    dtype: str  # float32, int64 or bool
    meaning: str = ""
    start: Optional[tuple[float, ...]] = None  # at the start of an episode, flattened; None: all zeros
    given: bool = False  # `start` is only an example: the caller sets what is true for the robot


@dataclass(frozen=True)
class Origin:
    """The place that a policy is from. Empty or None: not known."""

    run: str = ""  # the name of the run's directory
    run_id: str = ""
    version: Optional[int] = None
    epoch: Optional[int] = None
    shape_hash: str = ""  # of the names, shapes and spec of the weights; see rl/spec.py
    checkpoint: str = ""  # name of the checkpoint's file
    checkpoint_sha256: str = ""
    level: Optional[float] = None  # of the curriculum that the parameters inside have; 1 is the full task
    livegym: str = ""  # the version that wrote this


@dataclass(frozen=True)
class PolicyInterface:
    """The description of a policy: what it takes and gives."""

    task: str
    observations: tuple[Block, ...]  # those that the policy sees, in order
    action: Action
    control_dt: float  # s between two actions
    physics_dt: float  # s, one physics step of the simulation in which it was trained; 0: none
    decimation: int  # physics steps in a control step
    joints: tuple[Joint, ...] = ()
    actuators: tuple[Actuator, ...] = ()  # in the order of `controls`
    fields: tuple[Field, ...] = ()
    states: tuple[State, ...] = ()
    origin: Origin = Origin()
    lacks: tuple[str, ...] = ()  # what the robot's program has to do itself, in sentences
    format: int = FORMAT

    @property
    def rate(self) -> float:
        """Control steps per s."""
        return 1.0 / self.control_dt

    @property
    def inputs(self) -> tuple[Block, ...]:
        """The blocks of a graph's `obs`: all that it does not compute itself."""
        return tuple(block for block in self.observations if not block.inside)

    @property
    def obs_width(self) -> int:
        """Columns of a graph's `obs`."""
        return sum(block.width for block in self.inputs)

    @property
    def seen_width(self) -> int:
        """Columns that the policy itself sees: with histories, and with the blocks that a graph computes."""
        return sum(block.seen for block in self.observations)

    def columns(self, name: str) -> slice:
        """The columns of a block in a graph's `obs`. Raises KeyError with the names that there are."""
        start = 0
        for block in self.inputs:
            if block.name == name:
                return slice(start, start + block.width)
            start += block.width
        raise KeyError(f"{name}: no such block. Allowed: {', '.join(block.name for block in self.inputs)}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return _plain(dataclasses.asdict(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolicyInterface:
        """The inverse of `to_dict`; keys of later versions are ignored. Raises UserError if it cannot be read."""
        try:
            if data["format"] > FORMAT:
                raise UserError(
                    f"the policy's interface has format {data['format']}; this livegym reads up to {FORMAT}"
                )
            interface: PolicyInterface = _read(cls, data)
            _check(interface)
            return interface
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"the policy's interface is not readable ({type(error).__name__}: {error})") from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _read(cls: Any, data: Mapping[str, Any]) -> Any:
    """A dataclass from plain values: nested ones by the hints of their fields, lists as tuples."""
    if not isinstance(data, Mapping):
        raise TypeError(f"{cls.__name__} is {str(data)[:60]!r}")
    hints = typing.get_type_hints(cls)
    values = {}
    for f in dataclasses.fields(cls):
        if f.name in data:
            inner = [hints[f.name], *typing.get_args(hints[f.name])]
            nested = next((hint for hint in inner if dataclasses.is_dataclass(hint)), None)
            values[f.name] = _value(nested, data[f.name])
            if not _fits(values[f.name], hints[f.name]):
                raise ValueError(f"{cls.__name__}.{f.name} is {str(data[f.name])[:60]!r}")
    return cls(**values)


def _value(nested: Any, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_value(nested, item) for item in value)
    return value if nested is None else _read(nested, value)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field has."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is Union:
        return any(_fits(value, one) for one in inner)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, tuple):
            return False
        hints = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return len(hints) == len(value) and all(map(_fits, value, hints))
    if hint in (int, float):
        return type(value) in (int, hint) and math.isfinite(value)
    return isinstance(value, hint)


def _check(interface: PolicyInterface) -> None:
    """Raises ValueError for numbers that describe no policy."""
    if interface.control_dt <= 0:
        raise ValueError(f"control_dt is {interface.control_dt:g}")
    sizes = {f"width of {block.name}": block.width for block in interface.observations}
    sizes |= {f"history of {block.name}": block.history for block in interface.observations}
    for what, size in {**sizes, "size of the action": interface.action.size}.items():
        if size < 1:
            raise ValueError(f"{what} is {size}")
    for state in interface.states:
        if state.dtype not in STATE_DTYPES or (state.start is not None and len(state.start) != math.prod(state.shape)):
            raise ValueError(f"the state {state.name} does not fit its start, or is of dtype {state.dtype}")

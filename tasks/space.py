"""Observation and action spaces of an environment that is not here: read from texts, JSON, or Gymnasium's own objects.

    space = read_space("Box(-2, 2, (3,))")                # as Gymnasium prints it, too
    space = read_space('{"type": "Discrete", "n": 2}')
    space = space_of(env.action_space)                    # a Gymnasium space; Gymnasium is not imported here
    space.text                                            # JSON that `read_space` reads again

Allowed are Box, Discrete, MultiDiscrete and MultiBinary, and for observations also Dict of these, nested or not.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Union

import numpy as np

from livegym.utils.errors import UserError

LEAVES = "Box, Discrete, MultiDiscrete, MultiBinary"
ARGUMENTS = {
    "Box": ("low", "high", "shape", "dtype"),
    "Discrete": ("n", "seed", "start"),
    "MultiDiscrete": ("nvec", "dtype", "seed", "start"),
    "MultiBinary": ("n",),
}
"""Kind of a space -> the arguments of Gymnasium's class."""
MOST = 4096  # numbers in an observation or action: a message has 64 KiB
SHOWN = 80  # characters of a space in a message
OTHERS = "gymnasium.wrappers.FlattenObservation makes one Box of any observation; several choices are one MultiDiscrete"
EXAMPLE = "For example Box(-1, 1, (4,)) or Discrete(3)"


class SpaceError(ValueError):
    """A space that cannot be used; the text says which, and what is allowed."""


@dataclass(frozen=True)
class BoxSpace:
    """Real numbers."""

    shape: tuple[int, ...]
    low: tuple[float, ...]  # of each number, in C order; -inf: unbounded
    high: tuple[float, ...]

    @property
    def width(self) -> int:
        """How many numbers the policy sees of it."""
        return prod(self.shape)

    def plain(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        bounds = [[b if math.isfinite(b) else None for b in side] for side in (self.low, self.high)]
        shared = [side[0] if side and side.count(side[0]) == len(side) else side for side in bounds]
        return {"type": "Box", "shape": list(self.shape), "low": shared[0], "high": shared[1]}


@dataclass(frozen=True)
class ChoiceSpace:
    """One whole number or several, each from its start on."""

    kind: str  # Discrete, MultiDiscrete or MultiBinary
    shape: tuple[int, ...]  # () for Discrete
    counts: tuple[int, ...]  # how many choices each number has
    start: tuple[int, ...]  # the first choice of each

    @property
    def width(self) -> int:
        """How many numbers the policy sees of it: one for each choice, but those of a MultiBinary as they are."""
        return len(self.counts) if self.kind == "MultiBinary" else sum(self.counts)

    def plain(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        if self.kind == "Discrete":
            return {"type": "Discrete", "n": self.counts[0], "start": self.start[0]}
        if self.kind == "MultiBinary":
            return {"type": "MultiBinary", "n": list(self.shape)}
        nested = (np.reshape(values, self.shape).tolist() for values in (self.counts, self.start))
        return {"type": "MultiDiscrete", **dict(zip(("nvec", "start"), nested, strict=True))}


@dataclass(frozen=True)
class DictSpace:
    """Named spaces."""

    spaces: tuple[tuple[str, Space], ...]

    @property
    def width(self) -> int:
        """How many numbers the policy sees of it."""
        return sum(space.width for _, space in self.spaces)

    def plain(self) -> dict[str, Any]:
        """Plain values for strict JSON."""
        return {"type": "Dict", "spaces": {name: space.plain() for name, space in self.spaces}}


Space = Union[BoxSpace, ChoiceSpace, DictSpace]
Leaf = Union[BoxSpace, ChoiceSpace]


def text_of_space(space: Space) -> str:
    """Return a space as JSON that `read_space` reads."""
    return json.dumps(space.plain(), allow_nan=False)


def leaves(space: Space, name: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield names and spaces of all parts that are no Dict; a nested name is `outer.inner`."""
    if not isinstance(space, DictSpace):
        yield name or "observation", space
        return
    for inner, part in space.spaces:
        yield from leaves(part, f"{name}.{inner}" if name else inner)


def _unsupported(what: str) -> SpaceError:
    return SpaceError(f"{what} is not supported. Allowed: {LEAVES}, and for observations Dict of these. {OTHERS}")


def read_space(text: str, what: str) -> Space:
    """Read a space from JSON, or as Gymnasium prints it. Raises UserError, which names `what`, if it cannot be used."""
    try:
        is_json = text.lstrip().startswith("{")
        space = _from_plain(json.loads(text)) if is_json else _from_call(_parsed(text))
        if not 0 < space.width <= MOST:
            raise SpaceError(f"it has {space.width} numbers. Allowed: 1 to {MOST}")
    except (SpaceError, ValueError, TypeError, KeyError, SyntaxError, RecursionError) as error:
        reason = str(error) if isinstance(error, SpaceError) else f"it cannot be read ({error}). {EXAMPLE}"
        raise UserError(f"{what}={_short(text)}: {reason}") from error
    return space


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def read_action_space(text: str, what: str) -> Leaf:
    """Read an action space. Raises UserError if it cannot be used."""
    space = read_space(text, what)
    if isinstance(space, DictSpace):
        raise UserError(f"{what}={_short(text)}: a Dict cannot be an action space. Allowed: {LEAVES}")
    if isinstance(space, BoxSpace):
        if not all(map(math.isfinite, (*space.low, *space.high))):
            raise UserError(f"{what}={_short(text)}: an action needs bounds. Allowed: a Box with finite low and high")
        if any(low >= high for low, high in zip(space.low, space.high, strict=True)):
            raise UserError(f"{what}={_short(text)}: a bound is no range. Allowed: low below high for each number")
    return space


def space_of(space: Any) -> Space:
    """Return a Gymnasium space. Raises SpaceError for a kind that is not supported."""
    kind = type(space).__name__
    if kind == "Box":
        return _box(space.low, space.high, space.shape)
    if kind == "Discrete":
        return _choices("Discrete", (), [int(space.n)], [int(space.start)])
    if kind == "MultiDiscrete":
        return _choices(kind, space.nvec.shape, space.nvec.ravel(), getattr(space, "start", 0 * space.nvec).ravel())
    if kind == "MultiBinary":
        return _choices(kind, space.shape, [2] * prod(space.shape), [0] * prod(space.shape))
    if kind == "Dict":
        return DictSpace(tuple((str(name), space_of(part)) for name, part in space.spaces.items()))
    raise _unsupported(f"{space}: a {kind}")


def _box(low: Any, high: Any, shape: Any) -> BoxSpace:
    shape = tuple(int(size) for size in ([shape] if isinstance(shape, int) else shape))
    bounds = [np.broadcast_to(np.asarray(side, np.float64), shape).ravel().tolist() for side in (low, high)]
    if any(map(math.isnan, (*bounds[0], *bounds[1]))):
        raise SpaceError("a bound is NaN. Allowed: numbers, and inf or null for none")
    for least, most in zip(*bounds, strict=True):
        if least > most:
            raise SpaceError(f"low {least:g} is above high {most:g}. Allowed: low up to high for each number")
    return BoxSpace(shape, tuple(bounds[0]), tuple(bounds[1]))


def _choices(kind: str, shape: Any, counts: Any, start: Any) -> ChoiceSpace:
    made = ChoiceSpace(kind, tuple(map(int, shape)), tuple(map(int, counts)), tuple(map(int, start)))
    if min(made.counts, default=1) < 1:
        raise SpaceError(f"a {kind} of {min(made.counts)} choices. Allowed: 1 or more")
    return made


def _from_plain(plain: Any) -> Space:
    """Make a space from JSON: `{"type": ...}` with the arguments of Gymnasium's class."""
    if not isinstance(plain, Mapping) or "type" not in plain:
        raise SpaceError(f"{plain!r} has no type. Allowed: {LEAVES}, Dict")
    arguments = {name: value for name, value in plain.items() if name != "type"}
    if plain["type"] == "Box":
        low, high = (_unbounded(arguments.get(name), sign) for name, sign in (("low", -1), ("high", 1)))
        return _box(low, high, arguments["shape"])
    if plain["type"] == "Dict":
        return DictSpace(tuple((str(name), _from_plain(part)) for name, part in arguments["spaces"].items()))
    return _made(str(plain["type"]), [], arguments)


def _unbounded(bound: Any, sign: int) -> Any:
    if isinstance(bound, list):
        return [_unbounded(each, sign) for each in bound]
    return sign * math.inf if bound is None else bound


def _made(kind: str, given: list[Any], named: Mapping[str, Any]) -> Space:
    """Make a space from the arguments of Gymnasium's class."""
    names = ARGUMENTS.get(kind, ())
    if not names:
        raise _unsupported(f"a {kind}")
    values = {**dict(zip(names, given, strict=False)), **named}
    unknown = sorted(set(values) - set(names))
    if unknown or len(given) > len(names):
        what = f"no {', '.join(unknown)}" if unknown else f"only {len(names)} arguments"
        raise SpaceError(f"{kind} has {what}. Allowed: {', '.join(names)}")
    if kind == "Box":
        shape = values.get("shape", np.shape(values["low"]))
        return _box(values["low"], values["high"], shape)
    if kind == "Discrete":
        return _choices(kind, (), [values["n"]], [values.get("start", 0)])
    if kind == "MultiBinary":
        shape = tuple(np.atleast_1d(values["n"]))
        return _choices(kind, shape, [2] * prod(shape), [0] * prod(shape))
    counts = np.asarray(values["nvec"], np.int64)
    start = np.broadcast_to(np.asarray(values.get("start", 0), np.int64), counts.shape)
    return _choices(kind, counts.shape, counts.ravel(), start.ravel())


def _parsed(text: str) -> ast.expr:
    """Parse a call such as `Box(-inf, inf, (4,), float32)`; arrays may be printed without commas."""
    with_commas = re.sub(r"\[[^\[\]()]*\]", lambda found: re.sub(r"(?<=[\w.])\s+(?=[\w.+-])", ", ", found[0]), text)
    return ast.parse(re.sub(r"\]\s+\[", "], [", with_commas.strip()), mode="eval").body


def _from_call(node: ast.expr) -> Space:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise SpaceError(f"it is no space. Allowed: {LEAVES}, and for observations Dict of these. {EXAMPLE}")
    if node.func.id == "Dict":
        parts = [(part.arg, part.value) for part in node.keywords]
        for argument in node.args:
            if not isinstance(argument, ast.Dict):
                raise SpaceError("a Dict needs names. For example Dict({'position': Box(-1, 1, (2,))})")
            parts += [
                (_value(name) if name else None, value)
                for name, value in zip(argument.keys, argument.values, strict=True)
            ]
        return DictSpace(tuple((str(name), _from_call(value)) for name, value in parts))
    if node.func.id not in ARGUMENTS:
        raise _unsupported(f"a {node.func.id}")
    given = [_value(argument) for argument in node.args]
    return _made(node.func.id, given, {str(each.arg): _value(each.value) for each in node.keywords})


def _value(node: ast.expr) -> Any:
    """Return a literal; `inf` and names of types are allowed, too."""
    if isinstance(node, ast.Name):
        return math.inf if node.id == "inf" else node.id
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(each) for each in node.elts]
    return ast.literal_eval(node)

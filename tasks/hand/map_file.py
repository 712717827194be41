"""The name map of a hand that is not ours: a yaml file that says which of its parts are palm, fingers and controls.

    python train.py task=BlindGrasping hand=my_hand.yaml
    python train.py task=BlindGrasping hand=allegro asset=/where/it/is/allegro.urdf

Every point is in m, in the frame of the body that it belongs to; angles are in rad:

    model: my_hand.xml             # MJCF or URDF, from this file's folder; asset=<path> takes its place
    palm: wrist                    # the body that six base joints move; what is not below it is left out
    along: [0, 0, 1]               # in the palm's frame: where straight fingers point
    faces: [-1, 0, 0]              # in the palm's frame: where the palm looks
    origin: [0, 0, 0.1]            # in the palm's frame: the point that the base joints move and turn
    grasp: [-0.1, 0, 0.12]         # in the palm's frame: centre of an object before the hand closes
    fingers:                       # the thumb first; link: the body whose contacts are sensed
      thumb: {link: thumb_3, tip: [0.03, 0, 0], pad: [0.02, 0.01, 0]}
      index: {link: index_3, tip: [0.03, 0, 0], pad: [0.02, 0.01, 0]}
    controls:                      # joints, each with a factor; open: the control's value in an open hand
      thumb_flex: {joints: {thumb_j1: 1, thumb_j2: 1}, open: 0.2}
      index_flex: {joints: {index_j1: 1, index_j2: 1}, open: 0.4}
    held: [index_spread]           # joints below the palm that stay at 0
    motors: {stiffness: 3, damping: 0.1, effort: 1.5}

`along` becomes +x and the palm looks down, as that of the built-in hand. A control may have `motors` of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from livegym.projects.reading import mapping_of
from livegym.utils.errors import UserError, did_you_mean, not_one_of

MAPS = Path(__file__).parent / "maps"
"""The maps that livegym brings: names and numbers of hands whose models others publish."""
Vector = tuple[float, float, float]
SQUARE = 0.05
"""Largest cosine between `along` and `faces`."""
KEYS = ("model", "palm", "along", "faces", "origin", "grasp", "fingers", "controls", "held", "motors")
OPTIONAL = ("origin", "held", "motors")
FINGER_KEYS, CONTROL_KEYS = ("link", "tip", "pad"), ("joints", "open", "motors")


@dataclass(frozen=True)
class Motors:
    """Position servos of joints; the defaults are those of the built-in hand's fingers."""

    stiffness: float = 3.0  # N m/rad
    damping: float = 0.1  # N m s/rad, of the servo
    effort: float = 1.5  # N m, the largest torque
    joint_damping: float = 0.03  # N m s/rad, of the joint itself, in place of the model's own
    armature: float = 0.0002  # kg m^2, in place of the model's own


@dataclass(frozen=True)
class MappedFinger:
    """A finger: the body whose contacts are sensed, and two points on it (m, in its frame)."""

    link: str
    tip: Vector
    pad: Vector


@dataclass(frozen=True)
class MappedControl:
    """A control: the joints that it drives, each with a factor, and its value in an open hand (rad)."""

    joints: dict[str, float]
    opened: float
    motors: Motors


@dataclass(frozen=True)
class HandMap:
    """A name map that was read; whether its names are in a model is checked when the hand is built."""

    source: str  # as typed, for errors
    model: Path
    palm: str
    along: Vector
    faces: Vector
    origin: Vector
    grasp: Vector
    fingers: dict[str, MappedFinger]
    controls: dict[str, MappedControl]
    held: tuple[str, ...]
    motors: Motors


def map_names() -> tuple[str, ...]:
    """The names of the maps that livegym brings."""
    return tuple(sorted(file.stem for file in MAPS.glob("*.yaml")))


def read_map(source: str) -> HandMap:
    """The map `source`: a file, or the name of one that livegym brings.

    Raises UserError that names the key for anything that is missing, unknown, or of another kind.
    """
    file = MAPS / f"{source}.yaml" if source in map_names() else Path(source)
    if not file.is_file():
        raise UserError(
            f"hand={source}: there is no such file on this machine. Allowed: a name map (yaml), or one of "
            f"{', '.join(map_names())}.{did_you_mean(Path(source).name, map_names())} hand=null is the built-in hand."
        )
    given = Part(f"hand={source}", mapping_of(file))
    given.check(KEYS, OPTIONAL)
    motors = _motors(given, Motors())
    made = HandMap(
        source=source,
        model=file.parent / given.text("model"),
        palm=given.text("palm"),
        along=given.vector("along"),
        faces=given.vector("faces"),
        origin=given.vector("origin") if given.has("origin") else (0.0, 0.0, 0.0),
        grasp=given.vector("grasp"),
        fingers={name: _finger(part) for name, part in given.parts("fingers").items()},
        controls={name: _control(part, motors) for name, part in given.parts("controls").items()},
        held=given.texts("held") if given.has("held") else (),
        motors=motors,
    )
    _refuse_contradictions(made)
    return made


def _finger(given: Part) -> MappedFinger:
    given.check(FINGER_KEYS)
    return MappedFinger(given.text("link"), given.vector("tip"), given.vector("pad"))


def _control(given: Part, motors: Motors) -> MappedControl:
    given.check(CONTROL_KEYS, ("motors",))
    joints = given.part("joints")
    factors = {name: joints.number(name) for name in joints.content}
    for name, factor in factors.items():
        if factor == 0:
            raise joints.wrong(name, "a factor that is not 0; leave the joint out, or list it under held")
    if not factors:
        raise given.wrong("joints", "at least one joint, each with a factor, such as {thumb_j1: 1}")
    return MappedControl(factors, given.number("open"), _motors(given, motors))


def _motors(given: Part, default: Motors) -> Motors:
    if not given.has("motors"):
        return default
    part, names = given.part("motors"), tuple(f.name for f in fields(Motors))
    part.check(names, names)
    values = {name: part.number(name) for name in part.content}
    for name, value in values.items():
        if value < 0 or (value == 0 and name in ("stiffness", "effort")):
            raise part.wrong(name, "a number above 0" if name in ("stiffness", "effort") else "0 or more")
    return replace(default, **values)


def _refuse_contradictions(made: HandMap) -> None:
    """Raises UserError for a map that no model can fit."""
    where = f"hand={made.source}"
    if len(made.fingers) < 2:
        raise UserError(
            f"{where}: fingers: {', '.join(made.fingers) or 'none'}. Allowed: a thumb, which comes first, and at least "
            "one finger more."
        )
    links = [finger.link for finger in made.fingers.values()]
    for name, finger in made.fingers.items():
        if links.count(finger.link) > 1:
            raise UserError(
                f"{where}: fingers.{name}.link={finger.link}: another finger has it too. Give each its own."
            )
    lengths = [math.hypot(*made.along), math.hypot(*made.faces)]
    if min(lengths) == 0 or abs(sum(a * b for a, b in zip(made.along, made.faces, strict=True))) > SQUARE * math.prod(
        lengths
    ):
        raise UserError(
            f"{where}: along={list(made.along)}, faces={list(made.faces)}: not at right angles. Allowed: two "
            "directions in the palm's frame, the first of straight fingers, the second of what the palm looks at."
        )
    driver: dict[str, str] = {}
    for name, control in made.controls.items():
        for joint in control.joints:
            if joint in driver or joint in made.held:
                other = f"controls.{driver[joint]}" if joint in driver else "held"
                raise UserError(f"{where}: controls.{name}: {joint} is in {other} too. Give each joint one place.")
            driver[joint] = name


class Part:
    """A mapping of a yaml file, and where in it."""

    def __init__(self, where: str, content: Mapping[str, Any]) -> None:
        self.where = where
        self.content = content

    def has(self, name: str) -> bool:
        """Whether the key is there; null counts as left out."""
        return self.content.get(name) is not None

    def check(self, keys: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
        """Raises UserError for an unknown or a missing key."""
        for name in self.content:
            if name not in keys:
                raise not_one_of(f"{self.where}: key", name, keys)
        missing = [name for name in keys if name not in optional and not self.has(name)]
        if missing:
            raise UserError(
                f"{self.where} lacks {', '.join(missing)}. Allowed: {', '.join(keys)}. The keys are explained in "
                "docs/another-hand.md."
            )

    def text(self, name: str) -> str:
        """A name. Raises UserError for anything else."""
        value = self.content[name]
        if not isinstance(value, str) or not value:
            raise self.wrong(name, "a name")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of names. Raises UserError for anything else."""
        value = self.content[name]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, "a list of names, such as [index_spread]")
        return tuple(value)

    def number(self, name: str) -> float:
        """A finite number. Raises UserError for anything else."""
        value = self.content[name]
        if not _is_number(value):
            raise self.wrong(name, "a number")
        return float(value)

    def vector(self, name: str) -> Vector:
        """Three finite numbers. Raises UserError for anything else."""
        value = self.content[name]
        if not isinstance(value, list) or len(value) != 3 or not all(map(_is_number, value)):
            raise self.wrong(name, "three numbers, such as [0, 0, 0.1]")
        x, y, z = map(float, value)
        return x, y, z

    def part(self, name: str) -> Part:
        """A mapping below a key. Raises UserError for anything else."""
        value = self.content[name]
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise self.wrong(name, "key: value")
        return Part(f"{self.where}: {name}", value)

    def parts(self, name: str) -> dict[str, Part]:
        """A mapping of mappings. Raises UserError for anything else."""
        below = self.part(name)
        return {key: below.part(key) for key in below.content}

    def wrong(self, name: str, allowed: str) -> UserError:
        """The error for a value of another kind."""
        return UserError(f"{self.where}: {name}={self.content[name]}: not allowed. Allowed: {allowed}.")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

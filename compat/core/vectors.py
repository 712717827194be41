"""Vectors, quaternions and poses of task code.

    pose = Transform(Vec3(0, 0, 1), Quat.from_euler_zyx(0, 0, math.pi / 2))
    pose.transform_point(Vec3(1, 0, 0))  # Vec3(0, 1, 1)

Metres and radians; a quaternion is x y z w. A value that holds others (a `Transform` its `p` and `r`) keeps copies: to
change the vector that it was made from does not change it, but `pose.p.z = 2` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np


def _dtype(fields: str) -> np.dtype:
    return np.dtype([(name, "<f4") for name in fields])


def number(value: Any) -> float:
    """A plain number; arrays and tensors of one element are taken, too. Raises TypeError or ValueError otherwise."""
    return float(value) if isinstance(value, (int, float)) else float(np.asarray(value).item())


class Value:
    """Numbers with names, in the order of `_fields`."""

    _fields: ClassVar[tuple[str, ...]]
    dtype: ClassVar[np.dtype]

    def __iter__(self) -> Iterator[Any]:
        return (getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # its numbers may change

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self))})"

    def __reduce__(self) -> tuple:
        return type(self), tuple(self)

    def __copy__(self) -> Self:
        again = object.__new__(type(self))
        for name, value in self.__dict__.items():
            again.__dict__[name] = value if isinstance(value, float) else value.__copy__()
        return again

    def __deepcopy__(self, memo: dict) -> Self:
        return self.__copy__()

    @classmethod
    def _flat(cls, numbers: Sequence[float]) -> Self:
        return cls(*numbers)

    @classmethod
    def from_buffer(cls, buffer: Any) -> Any:
        """Make one value of a buffer of float32 or of this `dtype`, or a list of them if it holds several."""
        numbers = np.frombuffer(np.ascontiguousarray(buffer), np.float32).tolist()
        width = cls.dtype.itemsize // 4
        if not numbers or len(numbers) % width:
            raise ValueError(f"{cls.__name__}.from_buffer: {len(numbers)} numbers, expected a multiple of {width}")
        values = [cls._flat(numbers[i : i + width]) for i in range(0, len(numbers), width)]
        return values[0] if len(values) == 1 else values

    def to_numpy(self) -> np.ndarray:
        """The numbers, float32, in the order of `dtype`."""
        parts = [part.to_numpy() if isinstance(part, Value) else [part] for part in self]
        return np.concatenate(parts).astype(np.float32)


class Numbers(Value):
    """A value of plain numbers."""

    def __init__(self, *numbers: float) -> None:
        for name, value in zip(self._fields, numbers, strict=True):
            self.__dict__[name] = number(value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._fields:
            raise AttributeError(f"{type(self).__name__} has no {name}; it has {', '.join(self._fields)}")
        self.__dict__[name] = number(value)


class Vec2(Numbers):
    """Two numbers."""

    _fields = ("x", "y")
    dtype = _dtype("xy")
    x: float
    y: float

    def __init__(self, x: float = 0.0, y: float = 0.0) -> None:
        super().__init__(x, y)

    def __add__(self, other: Vec2) -> Vec2:
        return Vec2(self.x + other.x, self.y + other.y)

    def __sub__(self, other: Vec2) -> Vec2:
        return Vec2(self.x - other.x, self.y - other.y)

    def __mul__(self, factor: float) -> Vec2:
        return Vec2(self.x * factor, self.y * factor)

    def __truediv__(self, divisor: float) -> Vec2:
        return Vec2(self.x / divisor, self.y / divisor)

    def __neg__(self) -> Vec2:
        return Vec2(-self.x, -self.y)


class Vec3(Numbers):
    """A point or a direction in space."""

    _fields = ("x", "y", "z")
    dtype = _dtype("xyz")
    x: float
    y: float
    z: float

    def __init__(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> None:
        super().__init__(x, y, z)

    def __add__(self, other: Vec3) -> Vec3:
        return Vec3(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vec3) -> Vec3:
        return Vec3(self.x - other.x, self.y - other.y, self.z - other.z)

    def __mul__(self, factor: float) -> Vec3:
        return Vec3(self.x * factor, self.y * factor, self.z * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> Vec3:
        return Vec3(self.x / divisor, self.y / divisor, self.z / divisor)

    def __neg__(self) -> Vec3:
        return Vec3(-self.x, -self.y, -self.z)

    def dot(self, other: Vec3) -> float:
        """The scalar product."""
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vec3) -> Vec3:
        """The vector product."""
        return Vec3(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )

    def length_sq(self) -> float:
        """The square of the length."""
        return self.dot(self)

    def length(self) -> float:
        """The length."""
        return math.sqrt(self.length_sq())

    def normalize(self) -> Vec3:
        """The direction with length 1; the zero vector remains zero."""
        length = self.length()
        return self / length if length else Vec3()


class Quat(Numbers):
    """A rotation, x y z w; without arguments, no rotation."""

    _fields = ("x", "y", "z", "w")
    dtype = _dtype("xyzw")
    x: float
    y: float
    z: float
    w: float

    def __init__(self, x: float = 0.0, y: float = 0.0, z: float = 0.0, w: float = 1.0) -> None:
        super().__init__(x, y, z, w)

    @staticmethod
    def from_axis_angle(axis: Vec3, angle: float) -> Quat:
        """The rotation by `angle` (rad) about `axis`, whose length does not matter."""
        unit = axis.normalize() * math.sin(angle / 2)
        return Quat(unit.x, unit.y, unit.z, math.cos(angle / 2))

    @staticmethod
    def from_euler_zyx(x: float, y: float, z: float) -> Quat:
        """The rotation by `x` about the x axis, then `y` and `z` about the fixed axes of their names (rad)."""
        about_x = Quat.from_axis_angle(Vec3(1, 0, 0), x)
        about_y = Quat.from_axis_angle(Vec3(0, 1, 0), y)
        return Quat.from_axis_angle(Vec3(0, 0, 1), z) * about_y * about_x

    def to_euler_zyx(self) -> tuple[float, float, float]:
        """The angles (x, y, z) that `from_euler_zyx` takes; y lies within +-pi/2."""
        x, y, z, w = self.normalize()
        sine = max(-1.0, min(1.0, 2 * (w * y - z * x)))
        if abs(sine) > 1 - 1e-12:  # looking straight up or down: only x -+ z is determined
            return 2 * math.atan2(x, w), math.copysign(math.pi / 2, sine), 0.0
        about_x = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
        return about_x, math.asin(sine), math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))

    def __mul__(self, other: Quat) -> Quat:
        own, others = Vec3(self.x, self.y, self.z), Vec3(other.x, other.y, other.z)
        vector = others * self.w + own * other.w + own.cross(others)
        return Quat(vector.x, vector.y, vector.z, self.w * other.w - own.dot(others))

    def inverse(self) -> Quat:
        """The rotation back, for a quaternion of length 1."""
        return Quat(-self.x, -self.y, -self.z, self.w)

    def normalize(self) -> Quat:
        """The quaternion with length 1; of zeros, no rotation."""
        length = math.sqrt(sum(number * number for number in self))
        return Quat(*(number / length for number in self)) if length else Quat()

    def rotate(self, vector: Vec3) -> Vec3:
        """Turn a vector."""
        own = Vec3(self.x, self.y, self.z)
        twice = own.cross(vector) * 2
        return vector + twice * self.w + own.cross(twice)


class Parts(Value):
    """A value of others; each is kept as a copy."""

    _kinds: ClassVar[tuple[type[Value], ...]]

    def __init__(self, *parts: Value | None) -> None:
        for name, kind, part in zip(self._fields, self._kinds, parts, strict=True):
            if part is None:
                self.__dict__[name] = kind()
            else:
                setattr(self, name, part)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._fields:
            raise AttributeError(f"{type(self).__name__} has no {name}; it has {', '.join(self._fields)}")
        kind = self._kinds[self._fields.index(name)]
        if not isinstance(value, kind):
            raise TypeError(f"{type(self).__name__}.{name} is a {kind.__name__}, not {type(value).__name__}")
        self.__dict__[name] = value.__copy__()

    @classmethod
    def _flat(cls, numbers: Sequence[float]) -> Self:
        parts = []
        for kind in cls._kinds:
            width = kind.dtype.itemsize // 4
            parts.append(kind._flat(numbers[:width]))
            numbers = numbers[width:]
        return cls(*parts)


class Transform(Parts):
    """A pose: position `p` and rotation `r`. `a * b` is pose `b`, given in the frame of `a`."""

    _fields = ("p", "r")
    _kinds = (Vec3, Quat)
    dtype = np.dtype([("p", Vec3.dtype), ("r", Quat.dtype)])
    p: Vec3
    r: Quat

    def __init__(self, p: Vec3 | None = None, r: Quat | None = None) -> None:
        super().__init__(p, r)

    def __mul__(self, other: Transform) -> Transform:
        return Transform(self.transform_point(other.p), self.r * other.r)

    def inverse(self) -> Transform:
        """The pose of the parent frame in this one."""
        back = self.r.inverse()
        return Transform(-back.rotate(self.p), back)

    def transform_point(self, point: Vec3) -> Vec3:
        """A point of this frame, in the parent's frame."""
        return self.p + self.r.rotate(point)

    def transform_vector(self, vector: Vec3) -> Vec3:
        """A direction of this frame, in the parent's axes."""
        return self.r.rotate(vector)

    def transform_points(self, points: np.ndarray) -> np.ndarray:
        """`transform_point` for each of an array of `Vec3.dtype`."""
        return self._each(self.transform_point, points)

    def transform_vectors(self, vectors: np.ndarray) -> np.ndarray:
        """`transform_vector` for each of an array of `Vec3.dtype`."""
        return self._each(self.transform_vector, vectors)

    @staticmethod
    def _each(function: Any, vectors: np.ndarray) -> np.ndarray:
        moved = [tuple(function(Vec3(*vector))) for vector in vectors.reshape(-1).tolist()]
        return np.array(moved, Vec3.dtype).reshape(vectors.shape)


class Velocity(Parts):
    """Linear (m/s) and angular (rad/s) velocity."""

    _fields = ("linear", "angular")
    _kinds = (Vec3, Vec3)
    dtype = np.dtype([("linear", Vec3.dtype), ("angular", Vec3.dtype)])
    linear: Vec3
    angular: Vec3

    def __init__(self, p: Vec3 | None = None, q: Vec3 | None = None) -> None:
        super().__init__(p, q)

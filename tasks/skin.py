"""The skin of a robot: parts that viewers draw in place of its collision shapes.

    Part("palm", ((0, 0, 0, 0.02), (0.05, 0, 0, 0.01)), (0.9, 0.9, 0.9))   # a tapered segment on the body "palm"

A part is the convex hull of balls: two balls are a capsule that tapers, four are a slab with round edges. The simulated
model never has parts, so they change neither physics nor speed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One smooth shape of one colour, fixed to a body."""

    body: str
    balls: tuple[tuple[float, float, float, float], ...]  # x, y, z, radius in m, in the body's frame
    rgb: tuple[float, float, float]  # 0 to 1

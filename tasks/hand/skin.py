"""The skin of the built-in hand, which viewers draw in place of its collision shapes: knuckles, pads and a wrist.

The surfaces lie within 2 mm of the collision shapes of `models/hand/body.xml`, so what seems to touch does touch.
"""

from __future__ import annotations

from livegym.tasks.hand.names import FINGERS
from livegym.tasks.skin import Part

SHELL = (0.86, 0.85, 0.83)
JOINT = (0.20, 0.22, 0.26)
PAD = (0.10, 0.55, 0.62)
LENGTHS = {
    "index": (0.045, 0.026, 0.022),
    "middle": (0.048, 0.029, 0.023),
    "ring": (0.045, 0.027, 0.022),
    "little": (0.036, 0.021, 0.019),
}  # m, of the three segments
RADII = {"index": 0.009, "middle": 0.009, "ring": 0.0088, "little": 0.008}  # m
SEGMENTS = ("proximal", "middle", "distal")


def hand_skin() -> tuple[Part, ...]:
    """The parts of the whole hand."""
    fingers = [part for name in FINGERS if name in LENGTHS for part in _finger(name, LENGTHS[name], RADII[name])]
    return (*_palm(), *_thumb(), *fingers)


def _palm() -> list[Part]:
    back = ((-0.036, 0.024, 0, 0.011), (-0.036, -0.024, 0, 0.011))
    front = ((0.036, 0.031, 0, 0.0105), (0.040, 0.010, 0, 0.0115), (0.037, -0.011, 0, 0.011), (0.030, -0.031, 0, 0.010))
    cushion = ((0.034, 0.027, -0.006, 0.0055), (0.037, 0.009, -0.006, 0.006), (0.028, -0.028, -0.006, 0.0055))
    heel = ((-0.030, -0.024, -0.004, 0.0095), (0.008, -0.029, -0.004, 0.008))
    wrist = tuple((x, y, 0, 0.0115) for x in (-0.050, -0.038) for y in (0.015, -0.015))
    cuff = tuple((x, y, 0, 0.014) for x in (-0.072, -0.062) for y in (0.017, -0.017))
    return [
        Part("palm", back + front, SHELL),
        Part("palm", cushion, PAD),
        Part("palm", heel, PAD),
        Part("palm", wrist, JOINT),
        Part("palm", cuff, SHELL),
    ]


def _thumb() -> list[Part]:
    """The thumb's segments lie along y, and its pad looks along x."""
    return [
        Part("palm", ((-0.030, 0.008, -0.006, 0.0125), (-0.014, 0.018, -0.006, 0.0115)), SHELL),
        Part("thumb_base", ((0, 0, 0, 0.0128), (0, 0.016, 0, 0.0115)), SHELL),
        Part("thumb_proximal", ((0, 0, 0.003, 0.0092), (0, 0, -0.003, 0.0092)), JOINT),
        Part("thumb_proximal", ((0, 0.008, 0, 0.0105), (0, 0.029, 0, 0.0095)), SHELL),
        Part("thumb_middle", ((0, 0, 0.0028, 0.009), (0, 0, -0.0028, 0.009)), JOINT),
        Part("thumb_middle", ((0, 0.007, 0, 0.0102), (0, 0.021, 0, 0.0093)), SHELL),
        Part("thumb_distal", ((0, 0, 0.0028, 0.0088), (0, 0, -0.0028, 0.0088)), JOINT),
        Part("thumb_distal", ((-0.001, 0.007, 0, 0.0095), (-0.0015, 0.021, 0, 0.0082)), SHELL),
        Part("thumb_distal", ((0.003, 0.008, 0, 0.0075), (0.002, 0.0225, 0, 0.0075)), PAD),
    ]


def _finger(name: str, lengths: tuple[float, ...], radius: float) -> list[Part]:
    """Three segments along x that taper, each behind a knuckle whose axis is y; the pad looks along -z."""
    parts = []
    for place, (segment, length) in enumerate(zip(SEGMENTS, lengths, strict=True)):
        body, r = f"{name}_{segment}", radius * (1.06 - 0.06 * place)
        hinge = ((0, 0.35 * r, 0, 0.9 * r), (0, -0.35 * r, 0, 0.9 * r))
        parts.append(Part(body, hinge, JOINT))
        if segment == "distal":
            parts.append(Part(body, ((0.007, 0, 0.001, 0.95 * r), (length - 0.001, 0, 0.0015, 0.85 * r)), SHELL))
            parts.append(Part(body, ((0.008, 0, -0.0025, 0.78 * r), (length + 0.0005, 0, -0.0018, 0.8 * r)), PAD))
        else:
            parts.append(Part(body, ((0.0075, 0, 0, 1.02 * r), (length - 0.0075, 0, 0, 0.92 * r)), SHELL))
    return parts

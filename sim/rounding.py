"""Repair MJCF texts whose inertias MuJoCo has rounded to impossible ones.

    model = mujoco.MjModel.from_xml_string(possible(spec.to_xml()))

Of a flat body, the greatest principal moment is the sum of the others. Each is written with six digits, so the sum may
then be the smaller one, and MuJoCo refuses its own text.
"""

from __future__ import annotations

import re

MOMENTS = re.compile(r'(?<=diaginertia=")[^"]+(?=")')
ROUNDING = 1e-5
"""The greatest share by which rounding to six digits moves a sum of two numbers and a third one apart."""


def possible(model_xml: str) -> str:
    """The text, in which a moment that rounding has made too great is the sum of the others; all else stays."""
    return MOMENTS.sub(lambda found: _possible(found[0]), model_xml)


def _possible(moments: str) -> str:
    numbers = [float(number) for number in moments.split()]
    *others, greatest = sorted(numbers)
    if not sum(others) < greatest <= sum(others) * (1.0 + ROUNDING):
        return moments
    numbers[numbers.index(greatest)] = sum(others)
    return " ".join(map(repr, numbers))

"""The values that each field of a message may have, in words for the errors that clients get.

    allowed = Allowed(Description(spec))
    allowed.at(["observations", 0, "sequence"])        # "a whole number from 0 to 9007199254740991"

pydantic finds which field is wrong. Its own texts do not name what is allowed, or in Python's words ("List should have
at least 1 item after validation, not 0"), so none of them is sent.
"""

from __future__ import annotations

from collections.abc import Sequence

from livegym.serve.messages import LARGEST, MAX_COUNT, MAX_ITEMS, NAME, Description
from livegym.tasks.stream_task import RawField

WHOLE = f"a whole number from 0 to {MAX_COUNT}"


def in_full(value: float) -> str:
    """Return a number with all of its digits: who takes a bound literally must not be refused."""
    return str(int(value)) if abs(value) < 2**53 and value == int(value) else str(value)


REAL = f"a number from {in_full(-LARGEST)} to {in_full(LARGEST)}"
TRUTH = "true or false"
FIELDS = {
    "id": WHOLE,
    "stream": f"letters, digits, '_', '.' and '-', at most 64 ({NAME})",
    "sequence": WHOLE,
    "decision": WHOLE,
    "part": WHOLE,
    "reward": REAL,
    "executed_log_prob": REAL,
    "learn": TRUTH,
    "done": TRUTH,
    "truncated": TRUTH,
    "first": TRUTH,
    "episode": '"begin" or "continue"',
}
"""Field -> what it may be, whatever the task is and wherever the field is."""
SHAPES = ("too_short", "too_long", "list_type", "float_type")
"""Errors about the shape of a raw field; the others are about its numbers."""


class Allowed:
    """The values that the fields of the messages about one task may have."""

    def __init__(self, description: Description) -> None:
        self._description = description
        self._bounds = list(zip(*description.action_bounds(), strict=True))

    def at(self, location: Sequence[int | str], kind: str = "") -> str:
        """Return what is allowed at a location; `kind`: pydantic's name of the error that it found there."""
        if len(location) > 3 and location[2] == "raw":
            field = self._description.raw_fields[str(location[3])]
            return _shape(field) if kind in SHAPES else _range(field)
        if len(location) == 4:  # a number of a list
            return self._part(int(location[3])) if location[2] == "executed" else REAL
        if len(location) == 3:
            return self._field(str(location[2]))
        if len(location) == 2:
            return "an object"
        if location[0] in ("observations", "rewards"):
            return f"a list of 1 to {MAX_ITEMS} {location[0]}"
        return self._field(str(location[0]))

    def _field(self, name: str) -> str:
        if name == "obs":
            return f"a list of {self._description.spec.obs_width} numbers"
        if name == "raw":
            return f"an object with {', '.join(self._description.raw_fields)}"
        if name == "executed":
            parts = dict.fromkeys(self._part(i).replace("a ", "", 1) for i in range(len(self._bounds)))
            return f"a list of {len(self._bounds)}, each a {' or a '.join(parts)}"
        return FIELDS[name]

    def _part(self, index: int) -> str:
        """Return what a part of an action may be, as clients number it."""
        least, most = self._bounds[index]
        kind = "number" if self._description.spec.action.choices is None else "whole number"
        return f"a {kind} from {in_full(least)} to {in_full(most)}"


def _shape(field: RawField) -> str:
    shape = field.shape
    words = "one number" if not shape else "lists of " + " x ".join(map(str, shape)) + " numbers"
    return f"{words}, shape {list(shape)}"


def _range(field: RawField) -> str:
    return f"a number from {in_full(max(field.low, -LARGEST))} to {in_full(min(field.high, LARGEST))}"

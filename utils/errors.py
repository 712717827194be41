"""Errors for the user at the command line.

A `UserError` is a mistake that the user can fix. Its message names the value, the allowed set and the next move;
`train.py` prints it without a traceback and exits with its `exit_code`.

    raise not_one_of("task", "Carpole", ["Ant", "Cartpole"])
    # task=Carpole: unknown. Allowed: Ant, Cartpole. Did you mean Cartpole?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake that the user can fix; the message says how.

    `details` (a traceback of the user's own code) are printed above the message.
    """

    def __init__(self, message: str, exit_code: int = 2, details: str = "") -> None:
        super().__init__(f"{details}\n{message}" if details else message)
        self.message = message
        self.exit_code = exit_code


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ' Did you mean X?' with the closest of `names`, or '' if none is close."""
    by_fold = {n.casefold(): n for n in names}
    near = difflib.get_close_matches(name.casefold(), list(by_fold), n=1, cutoff=0.6)
    return f" Did you mean {by_fold[near[0]]}?" if near else ""


def not_one_of(key: str, value: object, allowed: Iterable[str]) -> UserError:
    """The error for a `value` of `key` that is not among `allowed`."""
    names = list(allowed)
    return UserError(f"{key}={value}: unknown. Allowed: {', '.join(names)}.{did_you_mean(str(value), names)}")

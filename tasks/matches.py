"""Refusals of keys and modes that do not work with matches, by name and with the reason.

docs/matches.md has the same table.

    check_match("Push", 2, "learners")     # raises UserError for a task with two seats
"""

from __future__ import annotations

from livegym.utils.errors import UserError

REFUSED = {
    "learners": (
        "other libraries and Gymnasium",
        "they take one action for each environment, and a match has two seats",
        "train it with livegym's PPO: train.py config=train_headless",
    ),
    "continuous": (
        "config=continuous",
        "a stream has one action and one reward for each observation, and a match has two seats",
        "train it with config=train_headless",
    ),
    "export": (
        "config=export",
        "the exported graph is checked in environments with one seat",
        "livegym.load_policy acts for each seat",
    ),
    "poolEnvs": (
        "poolEnvs",
        "an older version would take both seats, and so play itself",
        "poolEnvs=0",
    ),
    "swapGuard": (
        "swapGuard",
        "it compares returns, and a policy that plays itself returns 0 on average, however good it is",
        "swapGuard=0",
    ),
    "compare": (
        "comparing two versions by environment",
        "each would play itself, and returns 0 on average, however good it is",
        "roll back to a version to watch it",
    ),
}
"""key -> (what is refused, why, what to do instead)."""


def check_match(task: str, seats: int, what: str) -> None:
    """Raises UserError if a task with so many seats is a match; `what` is a key of `REFUSED`."""
    if seats > 1:
        name, why, instead = REFUSED[what]
        raise UserError(f"{name}: not with {task}, which is a match: {why}. Instead: {instead}")

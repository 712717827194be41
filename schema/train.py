"""How a policy is improved: the keys of `train.*` that every algorithm has, and where each finds its own.

`train.algorithm` names the algorithm; its `Config`, a dataclass derived from `TrainConfig`, has all keys of `train.*`
(rl/algorithm.py). It is found by name, as engines are, so no room below the algorithms imports them.

    settings_class("ppo")           # PPOConfig
"""

from __future__ import annotations

import typing
from dataclasses import dataclass

from livegym.projects import registry
from livegym.schema.keydoc import key

DEFAULT = "ppo"
"""The algorithm of settings that name none; runs that were made before there was a choice are of it."""


@dataclass
class TrainConfig:
    """The keys that every algorithm has."""

    algorithm: str = key(
        DEFAULT,
        "what improves the policy. Its other keys depend on it: train=<name> chooses it with its own defaults",
        part="algorithms",
        example="train.algorithm=ppo",
    )
    max_iterations: int = key(1000, "training iterations if maxIterations is not given", low=1)
    games_to_track: int = key(100, "episodes over which the reported mean reward is taken", low=1)
    torch_threads: int = key(
        1, "threads per tensor operation in an update: 2 is faster if two cores are idle, slower if one is busy", low=1
    )

    def check(self, num_envs: int) -> None:
        """Raises UserError if a training in so many environments cannot have these values."""
        return

    def unused(self) -> dict[str, str]:
        """Names of keys that have no effect beside the others -> what they belong to."""
        return {}


def settings_class(algorithm: str) -> type[TrainConfig]:
    """The keys of `train.*` of an algorithm. Raises UserError if there is none, or it cannot be loaded."""
    part = registry.part("algorithms", algorithm)
    found = getattr(registry.load("algorithms", algorithm), "Config", None)
    if not (isinstance(found, type) and issubclass(found, TrainConfig)):
        raise part.wrong("has no Config. Allowed: a dataclass derived from livegym.schema.train.TrainConfig")
    with part.running("has a Config whose types cannot be read"):
        typing.get_type_hints(found)
    return found

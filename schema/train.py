"""The keys of `train.*` that every algorithm has, and the class with all keys of one algorithm.

`train.algorithm` names the algorithm; its `Config`, a dataclass derived from `TrainConfig`, has all keys of `train.*`
(rl/algorithm.py). It is found by name, as engines are, so no lower package imports the algorithms.

    settings_class("ppo")           # PPOConfig
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from livegym.projects import registry
from livegym.schema.keydoc import key

DEFAULT = "ppo"
"""The algorithm of settings that name none, such as those of runs that were made before there was a choice."""


@dataclass
class TrainConfig:
    """The keys that every algorithm has."""

    trains: ClassVar[bool] = True  # False: other programs train such policies, and livegym only plays them

    algorithm: str = key(
        DEFAULT,
        "learning algorithm. The other keys of train.* depend on it: train=<name> chooses it with its own defaults",
        part="algorithms",
        example="train.algorithm=ppo",
    )
    max_iterations: int = key(1000, "training iterations if maxIterations is not given", low=1)
    games_to_track: int = key(100, "last episodes over which the mean training return is taken", low=1)
    torch_threads: int = key(
        1, "threads per tensor operation in an update: 2 is faster if two cores are idle, slower if one is busy", low=1
    )

    def check(self, num_envs: int) -> None:
        """Raises UserError if these values do not fit a training run with `num_envs` environments."""
        return

    def acting(self) -> dict[str, Any]:
        """The settings that, beside the weights, determine an action: versions that differ in them need two networks.

        An algorithm names its own. If it does not, these are all of its keys.
        """
        learning = {f.name for f in fields(TrainConfig)} - {"algorithm"}
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in learning}

    def unused(self) -> dict[str, str]:
        """Name of each key that has no effect with these values -> the setting that it needs."""
        return {}


def settings_class(algorithm: str) -> type[TrainConfig]:
    """The class of an algorithm's `train.*` keys. Raises UserError if the algorithm is unknown or cannot be loaded."""
    part = registry.part("algorithms", algorithm)
    found = getattr(registry.load("algorithms", algorithm), "Config", None)
    if not (isinstance(found, type) and issubclass(found, TrainConfig)):
        raise part.wrong("has no Config. Allowed: a dataclass derived from livegym.schema.train.TrainConfig")
    with part.running("has a Config whose types cannot be read"):
        typing.get_type_hints(found)
    return found

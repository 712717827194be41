"""What is learned: the keys of `task.*`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from omegaconf import MISSING

from livegym.schema.keydoc import key


@dataclass
class ObservationGroups:
    """Which observation blocks make up which group, in the order in which they are concatenated."""

    policy: list[str] = key(MISSING, "blocks that the policy sees")
    privileged: list[str] = key(
        [], "all that the critic sees, the policy's blocks among them (asymmetric critic); empty: what the policy sees"
    )
    unused: list[str] = key([], "blocks that the task offers and nobody sees; naming them here is deliberate")


@dataclass
class RandomizationConfig:
    """One thing that differs between environments, and from episode to episode."""

    what: str = key(
        MISSING,
        "mass of bodies (inertia with it), friction or size of geoms, gain of position actuators, damping of joints: "
        "factors; observation_noise: a factor on task.noise; action_delay: control steps; push: N on bodies",
        choices=("mass", "friction", "size", "gain", "damping", "observation_noise", "action_delay", "push"),
    )
    names: list[str] = key([], "of which bodies, geoms, actuators or joints; * stands for any part of a name")
    enabled: bool = key(True, "false: as if the entry were not there")
    distribution: str = key(
        "uniform",
        "gaussian: about the range's middle, cut off at its ends, which are two standard deviations away",
        choices=("uniform", "log_uniform", "gaussian"),
    )
    range: list[float] = key(MISSING, "least and greatest value")
    interval_s: Optional[list[float]] = key(
        None, "least and greatest time after which it is drawn anew; null: once for each episode", unit="s", above=0
    )
    duration_s: float = key(0.1, "for how long a push lasts", unit="s", above=0)
    curriculum: bool = key(False, "the range begins at no change, and widens with the level of task.curriculum")


@dataclass
class CurriculumConfig:
    """How a task grows from an easy one (level 0) to the full one (level 1), by the success that was measured."""

    level: float = key(0.0, "where a new run begins; it never falls below", low=0, high=1)
    step: float = key(0.1, "by how much the level goes up or down", above=0, high=1)
    raise_at: float = key(0.7, "success rate from which on the level goes up", low=0, high=1)
    lower_at: float = key(0.2, "success rate below which the level goes down", low=0, high=1)
    episodes: int = key(500, "ended episodes over which the success rate is measured", low=1)
    params: dict[str, float] = key({}, "a number of task.params -> its value at level 0; at level 1 it is task.params'")


@dataclass
class TaskConfig:
    """What is learned. Each task's yaml fills this in; `params` has the task's own dataclass."""

    name: str = key(MISSING, "the task's name in the task table")
    num_envs: int = key(MISSING, "environments in training where numEnvs is not given", low=1)
    episode_length_s: float = key(MISSING, "time limit of an episode (truncation)", unit="s", above=0, high=1e6)
    decimation: int = key(MISSING, "physics steps per control step at physics=default", low=1)
    observations: ObservationGroups = field(default_factory=ObservationGroups)
    noise: dict[str, float] = key({}, "block -> standard deviation of Gaussian noise, in the block's unit", low=0)
    delay: dict[str, int] = key({}, "block -> control steps by which the policy sees it late", low=1, high=1000)
    history: dict[str, int] = key(
        {}, "block -> how many of its last values the policy sees, oldest first", low=2, high=1000
    )
    rewards: dict[str, float] = key(MISSING, "reward term -> weight; 0 logs a term without counting it")
    terminations: dict[str, bool] = key(MISSING, "termination reason -> whether it ends the episode")
    randomization: dict[str, RandomizationConfig] = key({}, "a name of one's own -> what differs between environments")
    randomize: bool = key(True, "false: as if there were no task.randomization")
    curriculum: Optional[CurriculumConfig] = key(None, "from an easy task to the full one; null: the full one at once")
    params: Any = key(MISSING, "the task's own parameters")

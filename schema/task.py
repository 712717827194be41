"""The task: the keys of `task.*`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from omegaconf import MISSING

from livegym.schema.keydoc import key


@dataclass
class ObservationGroups:
    """Which observation blocks make up which group, in the order in which they are concatenated."""

    policy: list[str] = key(MISSING, "observation blocks that the policy sees")
    privileged: list[str] = key(
        [], "all blocks that the critic sees, including the policy's (asymmetric critic); empty: what the policy sees"
    )
    unused: list[str] = key(
        [], "blocks that neither policy nor critic sees; listing a block here marks that as intended"
    )


@dataclass
class RandomizationConfig:
    """One quantity that is randomised between environments and between episodes."""

    what: str = key(
        MISSING,
        "quantity to randomise: mass of bodies (and with it inertia), friction or size of geoms, gain of position "
        "actuators and of motors with a stiffness, damping of joints: by a factor; observation_noise: by a factor on "
        "task.noise; action_delay: in control steps; push: in N on bodies",
        choices=("mass", "friction", "size", "gain", "damping", "observation_noise", "action_delay", "push"),
    )
    names: list[str] = key([], "names of the bodies, geoms, actuators or joints; * matches any part of a name")
    enabled: bool = key(True, "use this entry; false: ignore it")
    distribution: str = key(
        "uniform",
        "distribution in the range; gaussian: about its middle, clipped at its ends, two standard deviations away",
        choices=("uniform", "log_uniform", "gaussian"),
    )
    range: list[float] = key(MISSING, "lower and upper bound of the value")
    interval_s: Optional[list[float]] = key(
        None, "shortest and longest time between two draws; null: one draw per episode", unit="s", above=0
    )
    duration_s: float = key(0.1, "duration of a push", unit="s", above=0)
    curriculum: bool = key(False, "widen the range with the level of task.curriculum, from no change at level 0")


@dataclass
class DriveConfig:
    """How the motors of some joints follow the targets that the task's `control` returns, in every physics step."""

    joints: list[str] = key(MISSING, "names of the joints; * matches any part of a name")
    stiffness: float = key(
        MISSING,
        "torque per angle between target and joint (N m/rad; of a slide: N/m); 0: the target is a velocity",
        low=0,
    )
    damping: float = key(
        MISSING, "torque against the joint's velocity, or towards the target velocity (N m s/rad; N s/m)", low=0
    )
    effort: Optional[float] = key(
        None, "largest torque (N m; of a slide: N); null: the model's own limit, or none", above=0
    )
    velocity: Optional[float] = key(
        None,
        "speed at which the motor cannot drive any more (rad/s; m/s); from half of it on, the largest torque falls "
        "linearly; null: the torque does not depend on the speed",
        above=0,
    )
    delay_s: float = key(0.0, "time until a target reaches the motor", unit="s", low=0, high=1)
    armature: Optional[float] = key(
        None, "inertia of the rotor, seen from the joint (kg m^2; kg); null: the model's own", low=0
    )


@dataclass
class CurriculumConfig:
    """How a task changes from easy (level 0) to full difficulty (level 1), by the measured success rate."""

    level: float = key(0.0, "level at which a new run begins; the level never falls below it", low=0, high=1)
    step: float = key(0.1, "amount by which the level goes up or down", above=0, high=1)
    raise_at: float = key(0.7, "success rate at or above which the level goes up", low=0, high=1)
    lower_at: float = key(0.2, "success rate below which the level goes down", low=0, high=1)
    episodes: int = key(500, "number of finished episodes over which the success rate is measured", low=1)
    params: dict[str, float] = key(
        {}, "number in task.params -> its value at level 0; at level 1 it is the value in task.params"
    )


@dataclass
class TaskConfig:
    """The task that is learned. Each task's yaml sets these keys; `params` has the type of the task's own dataclass."""

    name: str = key(MISSING, "name of the task")
    num_envs: int = key(MISSING, "number of environments in training if numEnvs is not given", low=1)
    episode_length_s: float = key(MISSING, "time limit of an episode (truncation)", unit="s", above=0, high=1e6)
    decimation: int = key(MISSING, "physics steps per control step at physics=default", low=1)
    observations: ObservationGroups = field(default_factory=ObservationGroups)
    noise: dict[str, float] = key({}, "block -> standard deviation of its Gaussian noise, in the block's unit", low=0)
    delay: dict[str, int] = key({}, "block -> delay after which the policy sees it, in control steps", low=1, high=1000)
    history: dict[str, int] = key(
        {}, "block -> number of its last values that the policy sees, oldest first", low=2, high=1000
    )
    rewards: dict[str, float] = key(MISSING, "reward term -> weight; 0: logged, but not counted")
    max_reward: float = key(
        1e6,
        "largest magnitude of the reward and of each weighted reward term; beyond it, the episode ends as unstable, "
        "and the reward is reported, but not learned from",
        above=0,
    )
    terminations: dict[str, bool] = key(MISSING, "termination reason -> whether it ends the episode")
    drives: dict[str, DriveConfig] = key(
        {}, "name of your choice -> motors of joints; they take the place of the model's actuators on these joints"
    )
    randomization: dict[str, RandomizationConfig] = key({}, "name of your choice -> quantity to randomise")
    randomize: bool = key(True, "use task.randomization; false: ignore it")
    curriculum: Optional[CurriculumConfig] = key(
        None, "change from an easy task to the full one; null: the full task from the start"
    )
    params: Any = key(MISSING, "parameters of the task")

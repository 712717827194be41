"""Environments of a task in one call, as the command line would configure them.

    env = livegym.make_env("Ant", 64, "task.rewards.forward=2", "sim.threads=2", seed=1)
    obs = env.reset()["policy"]                  # (64, width) float32, torch
    step = env.step(action)                      # Step: obs, reward, terminated, truncated, final_obs, ...
    env.close()

The tensors of a step are the environment's own, and valid until its next step: `gymnasium.make_vec("livegym/Ant-v0")`
hands out copies.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from livegym.cfg.compose import compose
from livegym.cfg.overrides import split
from livegym.cfg.typed import to_typed
from livegym.cfg.validate import num_envs_of, validate
from livegym.projects import registry
from livegym.schema.settled import SettledConfig, settled
from livegym.tasks import TASKS, build
from livegym.tasks.env import Env
from livegym.tasks.matches import check_match
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.seeding import draw_seed

GROUPS = ("task", "sim", "physics")
"""Groups of the configuration that an environment depends on."""
ARGUMENTS = {"task": "task", "numEnvs": "num_envs", "seed": "seed", "projectDir": "project_dir"}
"""Keys that are arguments of their own."""
LEVEL = ("task.curriculum", "task.curriculum.level")
"""Keys that set the level of a curriculum."""


@dataclass(frozen=True)
class Made:
    """Environments, and the configuration that they were made of."""

    env: Env
    config: SettledConfig
    typed: list[str]  # what was given, as on the command line


def make_env(
    task: str,
    num_envs: int = 1,
    *overrides: str,
    seed: int | None = None,
    curriculum: bool = False,
    project_dir: str | os.PathLike[str] | None = None,
) -> Env:
    """Make N environments of a task.

    `overrides`: keys inside task, sim and physics, as they are typed on the command line. `seed`: of their generator;
    None: drawn. `curriculum`: the level follows the success rate, as in training; otherwise the full task is played,
    or the level that the override task.curriculum.level sets. `project_dir`: the folder of the project or the foreign
    checkout that has the task; the process uses it from then on.

    Raises UserError if task, overrides, engine and model do not fit each other.
    """
    made = make(task, _whole("num_envs", num_envs, 1), seed, overrides, project_dir)
    env = made.env
    if curriculum and made.config.task.curriculum is None:
        env.close()
        raise UserError(f"curriculum=True: task {task} has no curriculum. Allowed: False")
    if curriculum:
        env.curriculum.follow_success()
    elif not any(split(override)[1] in LEVEL for override in overrides):
        env.set_level(1.0)
    return env


def make(
    task: str,
    num_envs: int | None,
    seed: int | None,
    overrides: Sequence[str],
    project_dir: str | os.PathLike[str] | None,
    root_keys: Collection[str] = (),
) -> Made:
    """Environments with their configuration, as `make_env` and other learners need them.

    `num_envs`: None means the task's own number. `root_keys`: keys outside the groups that mean something to the
    caller. Raises UserError for a value that livegym's command line would refuse, and for a key without a meaning here.
    """
    num_envs = None if num_envs is None else _whole("num_envs", num_envs, 1)
    seed = None if seed is None else _whole("seed", seed, 0)
    if project_dir is not None:
        registry.use(os.fspath(project_dir))
    given = {"task": task, "numEnvs": num_envs, "seed": seed, "projectDir": registry.project_dir()}
    checked = [_checked(override, root_keys) for override in text_list(overrides)]
    typed = [*(f"{key}={value}" for key, value in given.items() if value is not None), *checked]
    cfg = compose(typed)
    cfg.seed = draw_seed() if seed is None else seed
    cfg.numEnvs = num_envs_of(cfg)
    validate(cfg, algorithm=False)
    config = settled(to_typed(cfg))
    check_match(config.task.name, TASKS[config.task.name].seats, "learners")
    return Made(build.make_env(config.task, config.sim, config.physics, config.numEnvs, config.seed), config, typed)


def text_list(overrides: Sequence[str]) -> list[str]:
    """Overrides that were given as one argument. Raises UserError if it is not a sequence of texts."""
    if isinstance(overrides, str):
        raise UserError(f"overrides={overrides!r}: one text. Allowed: a list of them: overrides=[{overrides!r}]")
    return list(overrides)


def _whole(name: str, value: Any, least: int) -> int:
    """The value as an int; it may be a number of NumPy. Raises UserError for another value."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise UserError(f"{name}={value!r}: out of range. Allowed: a whole number, at least {least}")
    return int(value)


def _checked(override: str, root_keys: Collection[str]) -> str:
    """An override. Raises UserError if it is no text, or if nothing here depends on its key."""
    if not isinstance(override, str):
        raise UserError(f"{override!r}: of type {type(override).__name__}. Allowed: a text such as 'task.decimation=4'")
    key = split(override)[1]
    allowed = f"keys inside {', '.join(GROUPS)}" + "".join(f", {name}" for name in root_keys)
    if key in ARGUMENTS:
        raise UserError(f"{override}: give it as the argument {ARGUMENTS[key]}. Allowed here: {allowed}")
    if key.partition(".")[0] not in (*GROUPS, *root_keys):
        raise UserError(
            f"{override}: environments do not depend on it. Allowed: {allowed}; for example 'task.episode_length_s=10'."
            f"{did_you_mean(key, root_keys)}"
        )
    return override

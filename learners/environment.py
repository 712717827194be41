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
from collections.abc import Sequence
from numbers import Integral
from typing import Any

from livegym.cfg.compose import compose
from livegym.cfg.overrides import split
from livegym.cfg.typed import to_typed
from livegym.cfg.validate import validate
from livegym.projects import registry
from livegym.tasks import build
from livegym.tasks.env import Env
from livegym.utils.errors import UserError
from livegym.utils.seeding import draw_seed

ALLOWED = ("task", "sim", "physics")
"""Groups of the configuration that an environment depends on."""
LEVEL = ("task.curriculum", "task.curriculum.level")
"""Keys that set the level of a curriculum."""


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
    num_envs = _whole("num_envs", num_envs, 1)
    seed = None if seed is None else _whole("seed", seed, 0)
    if project_dir is not None:
        registry.use(os.fspath(project_dir))
    seed = draw_seed() if seed is None else seed
    given = [_checked(override) for override in overrides]
    named = [] if registry.project_dir() is None else [f"projectDir={registry.project_dir()}"]
    cfg = compose([f"task={task}", f"numEnvs={num_envs}", f"seed={seed}", *named, *given])
    validate(cfg)
    config = to_typed(cfg)
    env = build.make_env(config.task, config.sim, config.physics, num_envs, seed)
    if curriculum and config.task.curriculum is None:
        env.close()
        raise UserError(f"curriculum=True: task {task} has no curriculum. Allowed: False")
    if curriculum:
        env.curriculum.follow_success()
    elif not any(split(override)[1] in LEVEL for override in given):
        env.set_level(1.0)
    return env


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


def _checked(override: str) -> str:
    """An override. Raises UserError if it is no text, or if an environment does not depend on its key."""
    if not isinstance(override, str):
        raise UserError(f"{override!r}: of type {type(override).__name__}. Allowed: a text such as 'task.decimation=4'")
    key = split(override)[1]
    instead = {"task": "task", "numEnvs": "num_envs", "seed": "seed", "projectDir": "project_dir"}
    if key in instead:
        raise UserError(f"{override}: give it as the argument {instead[key]}. Allowed here: keys inside task and sim")
    if key.partition(".")[0] not in ALLOWED:
        raise UserError(
            f"{override}: environments do not depend on it. Allowed: keys inside {', '.join(ALLOWED)}, for example "
            "'task.episode_length_s=10'"
        )
    return override

"""Observations of clients: features and rewards, computed by the task from packed raw rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from livegym.online.service import RewardOf
from livegym.rl.spec import spec_of
from livegym.serve.messages import Description
from livegym.tasks.env import EPISODE_TIME, Env
from livegym.tasks.stream_task import StreamTask
from livegym.utils.errors import UserError


def check_external(env: Env) -> None:
    """Raises UserError if the policy needs observations that clients cannot supply."""
    config = env.config
    for key in ("delay", "history", "noise"):
        if getattr(config, key):
            raise UserError(
                f"task.{key}={dict(getattr(config, key))}: it is computed at the simulator's own steps, which the "
                f"observations of clients do not have. Allowed with clients: task.{key}={{}}"
            )
    if isinstance(env.task, StreamTask) and EPISODE_TIME in env.layout.groups["policy"]:
        raise UserError(
            f"task.observations.policy: {EPISODE_TIME} exists only in the built-in simulator; the raw observations of "
            "clients do not have it. Remove it"
        )


def page_of(folder: str | None) -> Path | None:
    """Return the folder of the page that `streamPage` names. Raises UserError unless it has an index.html."""
    if folder is None:
        return None
    path = Path(folder).expanduser()
    if not (path / "index.html").is_file():
        raise UserError(
            f"streamPage={folder}: there is no index.html in it. Allowed: a folder with the page of a client, such as "
            "examples/browser_game"
        )
    return path


def describe(env: Env) -> Description:
    """Return the description that clients get from `/spec`."""
    task = env.task
    if not isinstance(task, StreamTask):
        return Description(spec_of(env))
    return Description(spec_of(env), task.raw_fields(), task.action_units())


def features_of(env: Env) -> Callable[[np.ndarray], np.ndarray] | None:
    """Return a function: raw rows (n, R) -> observations of the policy (n, W); None if clients send those directly."""
    task = env.task
    if not isinstance(task, StreamTask) or not task.raw_fields():
        return None
    names, stream_task = env.layout.groups["policy"], task

    def features(rows: np.ndarray) -> np.ndarray:
        blocks = stream_task.features(stream_task.unpack(torch.from_numpy(rows)))
        return torch.cat([blocks[name] for name in names], dim=1).numpy()

    return features


def reward_of(env: Env) -> RewardOf | None:
    """Return the task's reward calculator, with the weights of its yaml; None if the task has none."""
    task = env.task
    if not isinstance(task, StreamTask) or not task.computes_reward or not task.raw_fields():
        return None
    weights, stream_task = env.config.rewards, task

    def reward(before: np.ndarray, action: np.ndarray, after: np.ndarray) -> tuple[float, dict[str, float]]:
        then, now = (stream_task.unpack(torch.from_numpy(row[None])) for row in (before, after))
        terms = stream_task.stream_reward(then, torch.from_numpy(action[None]), now)
        weighted = {name: weights[name] * float(value) for name, value in terms.items()}
        return sum(weighted.values()), weighted

    return reward

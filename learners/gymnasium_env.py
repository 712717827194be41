"""Gymnasium's interfaces of a task: one environment, or many that are stepped in one call.

    envs = gymnasium.make_vec("livegym/Ant-v0", num_envs=64)
    env = gymnasium.make("livegym/Ant-v0", render_mode="rgb_array")

Observations are those of the policy; arrays that are handed out are the caller's own. Actions beyond [-1, 1] are
clipped.

The vector environment begins a new episode in the step in which one ends (AutoresetMode.SAME_STEP), because the Env
below does. Then `infos["final_obs"]` has the last observations, and `infos["final_info"]` has reason, return, length
and, if the task says what success is, success. A time limit truncates an episode; it does not terminate it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from livegym.learners.arrays import RENDER, ArrayEnv, Stepped, checked_seed
from livegym.learners.environment import make_env, text_list
from livegym.learners.registration import OF
from livegym.utils.errors import UserError
from livegym.utils.seeding import draw_seed

MASK = "reset_mask"


def make_arrays(
    task: str,
    num_envs: int,
    render_mode: str | None,
    overrides: Sequence[str],
    seed: int | None,
    width: int,
    height: int,
    max_episode_steps: Any = None,
    **options: Any,
) -> ArrayEnv:
    """The arrays behind both environments; `options` are those of `livegym.make_env`. Raises UserError."""
    if max_episode_steps is not None:
        raise UserError(
            f"max_episode_steps={max_episode_steps}: the task has its own time limit. Set that: "
            "overrides=['task.episode_length_s=<seconds>']"
        )
    if isinstance(render_mode, str) and render_mode != RENDER and render_mode in ("human", "rgb_array_list"):
        raise UserError(
            f"render_mode={render_mode!r}: it cannot be had here. Allowed: {RENDER!r}, which returns frames"
        )
    for name, pixels in (("width", width), ("height", height)):
        if isinstance(pixels, bool) or not isinstance(pixels, (int, np.integer)) or pixels < 1:
            raise UserError(f"{name}={pixels!r}: out of range. Allowed: a whole number of pixels, at least 1")
    of = options.pop(OF, task)
    if task not in ("", of):
        raise UserError(
            f"task={task!r}: the id livegym/{of}-v0 names its own task. Allowed: livegym/Task-v0 with task={task!r}"
        )
    task = of
    env = make_env(task, num_envs, *text_list(overrides), seed=checked_seed(seed), **options)
    return ArrayEnv(env, render_mode, int(width), int(height))


class LivegymVectorEnv(VectorEnv):
    """N environments of a task, stepped in one call."""

    def __init__(
        self,
        num_envs: int = 1,
        task: str = "",
        render_mode: str | None = None,
        overrides: Sequence[str] = (),
        seed: int | None = None,
        width: int = 640,
        height: int = 480,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
        **options: Any,
    ) -> None:
        """`overrides` and further options (`curriculum`, `project_dir`) are those of `livegym.make_env`.

        `seed`: that of the first episodes, if `reset` gets none. Raises UserError for what cannot be had.
        """
        _check_autoreset(autoreset_mode)
        arrays = make_arrays(task, num_envs, render_mode, overrides, seed, width, height, **options)
        self._arrays = arrays
        self._seed = seed
        self.num_envs = arrays.num_envs
        self.render_mode = render_mode
        self.metadata = {
            "render_modes": arrays.render_modes,
            "render_fps": arrays.fps,
            "autoreset_mode": AutoresetMode.SAME_STEP,
        }
        self.single_observation_space = arrays.observation_space
        self.single_action_space = arrays.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    @property
    def env(self) -> Any:
        """The Env below (`tasks/env.py`): tensors without copies, reward terms, the critic's observations."""
        return self._arrays.env

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes, in all environments or in those of `options["reset_mask"]` (N,) bool.

        The same seed gives the same episodes. Raises UserError for a list of seeds, because one generator draws for all
        environments, and for other options.
        """
        mask = self._mask(options, seed)
        seed = checked_seed(seed)
        if seed is None and self._np_random is None:
            seed = draw_seed() if self._seed is None else self._seed
        super().reset(seed=seed)
        return self._arrays.reset(seed, mask), {}

    def _mask(self, options: dict[str, Any] | None, seed: Any) -> np.ndarray | None:
        unknown = [name for name in options or {} if name != MASK]
        if unknown:
            raise UserError(f"options[{unknown[0]!r}]: unknown. Allowed: {MASK}")
        if not options:
            return None
        mask = np.asarray(options[MASK])
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
            raise UserError(
                f"options[{MASK!r}] has shape {mask.shape}, dtype {mask.dtype} and {int(np.count_nonzero(mask))} set "
                f"values. Allowed: shape ({self.num_envs},), dtype bool, at least one"
            )
        if seed is not None:
            raise UserError(f"seed={seed}: cannot be had with {MASK}, because one generator draws for all environments")
        return mask

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Advance by one control step: observations, rewards, terminations, truncations, infos; see the module.

        Raises UserError for actions of another shape or dtype, and for NaN or Inf; ResetNeeded; ClosedEnvironmentError.
        """
        step = self._arrays.step(actions)
        return step.obs, step.reward, step.terminated, step.truncated, self._infos(step)

    def _infos(self, step: Stepped) -> dict[str, Any]:
        """The last observations and the facts of the episodes that ended, in Gymnasium's form."""
        ids = step.ended_ids
        if step.ended is None or ids is None or step.final_obs is None:
            return {}
        final_obs = np.empty(self.num_envs, object)  # full of None
        for env_id, obs in zip(ids.tolist(), step.final_obs, strict=True):
            final_obs[env_id] = obs
        facts = self._arrays.final_info(step.ended, ids)
        rows = np.zeros(self.num_envs, bool)
        rows[ids] = True
        for name in list(facts):
            facts[f"_{name}"] = rows.copy()
        return {"final_obs": final_obs, "_final_obs": rows.copy(), "final_info": facts, "_final_info": rows}

    def render(self) -> tuple[np.ndarray, ...]:
        """A picture of each environment. Raises UserError if the environment was made without render_mode."""
        return self._arrays.frames()

    def close_extras(self, **kwargs: Any) -> None:
        """End the engine's threads."""
        self._arrays.close()


class LivegymEnv(gymnasium.Env):
    """One environment of a task."""

    metadata = {"render_modes": [RENDER]}

    def __init__(
        self,
        task: str = "",
        render_mode: str | None = None,
        overrides: Sequence[str] = (),
        seed: int | None = None,
        width: int = 640,
        height: int = 480,
        **options: Any,
    ) -> None:
        """As `LivegymVectorEnv`."""
        self._arrays = make_arrays(task, 1, render_mode, overrides, seed, width, height, **options)
        self._seed = seed
        self._next: np.ndarray | None = None  # the first observation of the next episode, which has begun already
        self.render_mode = render_mode
        self.metadata = {"render_modes": self._arrays.render_modes, "render_fps": self._arrays.fps}
        self.observation_space = self._arrays.observation_space
        self.action_space = self._arrays.action_space

    @property
    def env(self) -> Any:
        """The Env below (`tasks/env.py`), with one environment."""
        return self._arrays.env

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode. The same seed gives the same episodes. Raises UserError for options: there are none."""
        if options:
            raise UserError(f"options[{next(iter(options))!r}]: unknown. Allowed: none")
        seed = checked_seed(seed)
        if seed is None and self._np_random is None:
            seed = draw_seed() if self._seed is None else self._seed
        super().reset(seed=seed)
        first, self._next = self._next, None
        if seed is not None or first is None:
            first = self._arrays.reset(seed)[0]
        return first, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance by one control step. The episode's last step has reason, return and length in `info`.

        Raises UserError for an action of another shape or dtype, and for NaN or Inf; ResetNeeded after the end of an
        episode; ClosedEnvironmentError.
        """
        if self._next is not None:
            raise ResetNeeded("step(): the episode has ended. Call reset() first")
        step = self._arrays.step(action, single=True)
        info: dict[str, Any] = {}
        obs = step.obs[0]
        if step.ended is not None and step.ended_ids is not None and step.final_obs is not None:
            facts = self._arrays.final_info(step.ended, step.ended_ids)
            info = {name: values.tolist()[0] for name, values in facts.items()}
            obs, self._next = step.final_obs[0], step.obs[0]
        return obs, float(step.reward[0]), bool(step.terminated[0]), bool(step.truncated[0]), info

    def render(self) -> Any:
        """A picture (height, width, 3) uint8: after the end of an episode, of its last state, until `reset`.

        Raises UserError if the environment was made without render_mode.
        """
        return self._arrays.frames(ended=self._next is not None)[0]

    def close(self) -> None:
        """End the engine's threads."""
        self._arrays.close()


def _check_autoreset(mode: AutoresetMode | str) -> None:
    if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.SAME_STEP.value):
        name = mode.name if isinstance(mode, AutoresetMode) else mode
        raise UserError(
            f"autoreset_mode={name}: it cannot be had, because all environments step together, and those whose "
            "episode has ended begin again in the same step. Allowed: SAME_STEP. For NEXT_STEP at the speed of one "
            "environment after the other: vectorization_mode='sync'"
        )

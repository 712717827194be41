"""Environments whose observations and actions are numpy arrays, each of them the caller's own.

    arrays = ArrayEnv(env, render_mode="rgb_array")
    obs = arrays.reset(seed=1)                     # (N, width) float32
    step = arrays.step(actions)                    # Stepped
    arrays.frames()                                # a picture of each environment

Gymnasium's single and vector environments are thin layers on it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from torch import Tensor

from livegym.learners.spaces import action_space_of, observation_space_of
from livegym.tasks.env import Env
from livegym.tasks.stats import FinishedEpisodes
from livegym.utils.errors import UserError, not_one_of
from livegym.viewers.look import drawn_xml
from livegym.viewers.offscreen import Painter

POLICY = "policy"
RENDER = "rgb_array"
MOST_SEED = 2**63


class Stepped(NamedTuple):
    """The result of one step; every array is a copy with a leading environment axis."""

    obs: np.ndarray  # (N, width) float32, for the next action: after the reset, if the episode has ended
    reward: np.ndarray  # (N,) float32
    terminated: np.ndarray  # (N,) bool
    truncated: np.ndarray  # (N,) bool
    ended: FinishedEpisodes | None  # None if no episode ended
    ended_ids: np.ndarray | None  # (n,) the environments of the n episodes that ended
    final_obs: np.ndarray | None  # (n, width) last observations of these episodes, in their order


class ArrayEnv:
    """An Env behind arrays. Pictures must be drawn in one thread."""

    def __init__(self, env: Env, render_mode: str | None, width: int, height: int) -> None:
        """`width` and `height`: pixels of a picture. Raises UserError if the environments cannot be rendered so."""
        self.env = env
        self.num_envs = env.num_envs
        self.render_modes = [] if env.task.own_dynamics else [RENDER]
        if render_mode is not None and render_mode not in self.render_modes:
            env.close()
            raise _cannot_render(env, render_mode, self.render_modes)
        self._render_mode = render_mode
        self._size = height, width
        self._painter: Painter | None = None
        self._ended_qpos: Tensor | None = None  # (N, nq) when an episode ended last, if pictures can be asked for
        if render_mode is not None:
            env.before_renewal = self._keep_last_state
        self._last: dict[str, Tensor] | None = None  # of the last step or reset; None: not reset yet
        self._closed = False
        self._first_curriculum = env.curriculum.state_dict()
        self._action = env.zero_action()
        self._shape, self._single_shape = tuple(self._action.shape), tuple(self._action.shape[1:])
        self._on_cpu = self._action.device.type == "cpu"
        self._real = self._action.is_floating_point()
        self._dtype = np.dtype(np.float32 if self._real else np.int64)
        self._reasons = np.array(env.reason_names, object)
        self._success = None if env.success_reason is None else env.reason_names.index(env.success_reason)
        self._counts = np.array(env.task.action_spec.choices or ())  # of choices, for each number of an action

    @property
    def fps(self) -> int:
        """Control steps per s, rounded."""
        return max(1, round(1.0 / self.env.sim.control_dt))

    @property
    def observation_space(self) -> spaces.Box:
        """The space of one environment's observation."""
        return observation_space_of(self.env.layout.width(POLICY))

    @property
    def action_space(self) -> spaces.Space:
        """The space of one environment's action."""
        return action_space_of(self.env.task.action_spec)

    def reset(self, seed: int | None = None, rows: np.ndarray | None = None) -> np.ndarray:
        """Start new episodes in all environments, or in those of a mask (N,); returns all observations (N, width).

        A seed also sets a curriculum back to its beginning. Raises UserError for a seed that is out of range, and
        ClosedEnvironmentError.
        """
        self._refuse_closed("reset")
        if seed is not None:
            self.env.reseed(seed)
            self.env.curriculum.load_state_dict(self._first_curriculum)
            self.env.set_level(self.env.curriculum.level)
        if rows is None or self._last is None:
            self._last = self.env.reset()
        else:
            self._last = self.env.restart(torch.from_numpy(rows).nonzero().squeeze(1), self._last)
        return self._seen(self._last[POLICY]).copy()

    def step(self, actions: Any, single: bool = False) -> Stepped:
        """Advance by one control step; episodes that end begin again in it.

        actions: (N, size) real numbers, which are clipped to [-1, 1], or (N,) / (N, k) whole ones; `single`: without
        the leading axis. Raises UserError for other actions, ResetNeeded and ClosedEnvironmentError.
        """
        self._refuse_closed("step")
        if self._last is None:
            raise ResetNeeded("step(): the first episodes have not begun. Call reset() first")
        step = self.env.step(self._tensor(actions, single))
        self._last = step.obs
        ids = final = None
        if step.ended is not None:
            ids = step.ended.env_ids.numpy()
            final = self._seen(step.final_obs[POLICY]).take(ids, 0)  # a copy
        return Stepped(
            self._seen(step.obs[POLICY]).copy(),
            self._seen(step.reward).copy(),
            self._seen(step.terminated).copy(),
            self._seen(step.truncated).copy(),
            step.ended,
            ids,
            final,
        )

    def _seen(self, value: Tensor) -> np.ndarray:
        """A tensor as an array; on a CPU they share their memory."""
        return value.numpy() if self._on_cpu else value.cpu().numpy()

    def _tensor(self, actions: Any, single: bool) -> Tensor:
        shape = self._single_shape if single else self._shape
        try:
            given = np.asarray(actions)
        except (ValueError, TypeError) as error:
            raise UserError(f"the actions are no array ({error}). Allowed: a numpy array of shape {shape}") from error
        real = self._real
        if given.dtype != self._dtype and given.dtype.kind not in ("fiu" if real else "iu"):
            raise UserError(
                f"the actions have dtype {given.dtype}. Allowed: {'real numbers' if real else 'whole numbers'}, for "
                f"example {'numpy.float32' if real else 'numpy.int64'}"
            )
        if given.shape != shape:
            raise UserError(f"the actions have shape {given.shape}. Allowed: {shape}")
        values: np.ndarray[Any, np.dtype[Any]] = given.astype(self._dtype)
        if real and math.isfinite(np.vdot(values, values)):  # cheaper than a look at each; it may only overflow
            return self._as_tensor(values, single)
        good = np.isfinite(values) if real else (values >= 0) & (values < self._counts)
        if not good.all():
            where = tuple(int(index) for index in np.argwhere(~good)[0])
            counts = self.env.task.action_spec.choices or ()
            choices = ", ".join(f"0 to {count - 1}" for count in counts)
            allowed = "finite numbers; beyond [-1, 1] they are clipped" if real else choices
            raise UserError(f"the actions have {values[where]} at {list(where)}. Allowed: {allowed}")
        return self._as_tensor(values, single)

    def _as_tensor(self, values: np.ndarray, single: bool) -> Tensor:
        tensor = torch.from_numpy(values)
        tensor = tensor[None] if single else tensor
        return tensor if self._on_cpu else tensor.to(self._action.device)

    def final_info(self, ended: FinishedEpisodes, rows: np.ndarray) -> dict[str, Any]:
        """Facts about the episodes that ended, as arrays (N,) with values in `rows`: reason, return, length, success.

        `success` is missing in a task that does not say what success is.
        """
        n, indices = self.num_envs, ended.reasons.numpy()
        facts: dict[str, np.ndarray] = {
            "reason": np.empty(n, object),  # full of None
            "return": np.zeros(n),
            "length": np.zeros(n, np.int64),
        }
        facts["reason"][rows] = self._reasons[indices]
        facts["return"][rows] = ended.returns.numpy()
        facts["length"][rows] = ended.lengths.numpy()
        if self._success is not None:
            success = np.zeros(n, bool)
            success[rows] = indices == self._success
            facts["success"] = success
        return facts

    def _keep_last_state(self, ended_ids: Tensor) -> None:
        self._ended_qpos = self.env.sim.qpos.clone()

    def frames(self, ended: bool = False) -> tuple[np.ndarray, ...]:
        """A picture (height, width, 3) uint8 of each environment. Raises UserError without off-screen OpenGL.

        `ended`: as they were when an episode ended last, before the next one began. A foreign task that begins episodes
        inside its own step shows their first states.
        """
        self._refuse_closed("render")
        if self._render_mode is None:
            raise UserError(
                f"render(): the environment was made without render_mode. Allowed: "
                f"{', '.join(self.render_modes) or 'none, because it has no bodies'}. Make it with "
                f"render_mode={RENDER!r}"
            )
        if self._painter is None:
            self._painter = Painter(drawn_xml(self.env), *self._size)
        qpos = self._ended_qpos if ended and self._ended_qpos is not None else self.env.sim.qpos
        return tuple(self._painter.draw(row) for row in qpos.cpu().double().numpy())

    def close(self) -> None:
        """End the engine's threads, and free what pictures need; a second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._painter is not None:
            self._painter.close()
        self.env.close()

    def _refuse_closed(self, what: str) -> None:
        if self._closed:
            raise ClosedEnvironmentError(f"{what}(): the environment is closed. Make another one")


def checked_seed(seed: Any) -> int | None:
    """The seed. Raises UserError unless it is one whole number, or None."""
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise UserError(
            f"seed={seed!r}: of type {type(seed).__name__}. Allowed: one whole number, because one generator draws for "
            "all environments"
        )
    if not 0 <= seed < MOST_SEED:
        raise UserError(f"seed={seed}: out of range. Allowed: 0 to {MOST_SEED - 1}")
    return int(seed)


def _cannot_render(env: Env, render_mode: str, allowed: list[str]) -> UserError:
    if env.task.own_dynamics:
        return UserError(
            f"render_mode={render_mode!r}: {env.config.name} has no bodies that could be drawn. Allowed: None"
        )
    return not_one_of("render_mode", render_mode, allowed)

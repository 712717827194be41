"""rl_games' PPO agent, one iteration at a time.

The library's own agents are subclassed at the points that they provide: `env_step`, `env_reset`, and the constructor's
parameters. Nothing of it is replaced at run time. These are the differences from the library, and their reasons:

- There is no loop: `learner.py` in this folder makes iterations, and can abandon one in the middle.
- At a time limit, the discounted value of the episode's *last observation* is added to the reward; the library adds
  the value of the observation before it (Pardo et al. 2018, arXiv:1712.00378).
- All state that determines the next iteration can be captured and restored (`learner.py`).
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from livegym.rl.algorithms.ppo.adapter import RlGamesEnv
from livegym.rl.algorithms.ppo.library import A2CAgent, A2CBase, DiscreteA2CAgent, torch_ext
from livegym.rl.algorithms.ppo.params import learner_params
from livegym.rl.algorithms.ppo.settings import PPOConfig
from livegym.rl.divergence import ImpossibleAction
from livegym.rl.learner import IterationAbandoned
from livegym.tasks.base import Box
from livegym.tasks.env import Env

log = logging.getLogger(__name__)


class BootstrappingShaper:
    """Scales rewards for learning, and adds the bonus that `env_step` has set for this step's truncated episodes."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.bonus: Tensor | None = None  # (N, 1)

    def __call__(self, rewards: Tensor) -> Tensor:
        """rewards (N, 1), unscaled -> (N, 1)."""
        shaped = rewards * self.scale
        return shaped if self.bonus is None else shaped + self.bonus


@contextlib.contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _wait() -> None:
    """The default of `check_patience`, which never raises; a `PPOLearner` replaces it."""


class _Learning(A2CBase):
    """The common part of both agents: a mixin that precedes rl_games' class."""

    env: Env
    check_patience: Callable[[], None]  # raises IterationAbandoned; called before each step and minibatch
    bootstrap: bool
    restored_obs: dict[str, Tensor] | None

    @property
    def global_rank(self) -> int:
        """1: the library writes curves only at rank 0, with a queue that needs room in shared memory."""
        return 1

    @global_rank.setter
    def global_rank(self, rank: int) -> None:
        return  # the library's constructor sets it

    def prepare(self, env: Env, bootstrap: bool) -> None:
        """Set the environment. Must be called once after construction."""
        self.env = env
        self.bootstrap = bootstrap
        self.check_patience = _wait
        self.restored_obs = None
        self.init_tensors()

    def begin(self) -> None:
        """Get the first observations: the restored ones, if there are any, or those of a reset."""
        self.obs = self.env_reset() if self.restored_obs is None else self.restored_obs
        self.restored_obs = None

    def run_epoch(self) -> tuple[Any, ...]:
        """Make one rollout and its updates. Returns the library's tuple of results. May raise IterationAbandoned."""
        self.update_epoch()
        try:
            result: tuple[Any, ...] = self.train_epoch()
        except IterationAbandoned:
            self.epoch_num -= 1
            raise
        self.dataset.update_values_dict(None)  # frees the batch
        self.frame += self.curr_frames
        return result

    def losses(self, result: tuple[Any, ...]) -> dict[str, float]:
        """The losses by name, from the library's tuple, whose middle part depends on the action space."""
        names = ["losses/a_loss", "losses/c_loss"]
        names += ["losses/bounds_loss"] if not self.is_discrete else []
        names += ["losses/entropy", "info/kl"]
        means = {n: torch_ext.mean_list(v).item() for n, v in zip(names, result[4:-2], strict=True) if len(v)}
        return {**means, "info/last_lr": float(self.last_lr)}

    def play_steps(self) -> Any:
        """Make one rollout with one intra-op thread: more would contend with the physics threads."""
        with _torch_threads(1):
            return super().play_steps()

    def play_steps_rnn(self) -> Any:
        """Make one rollout of a recurrent policy, with one intra-op thread."""
        with _torch_threads(1):
            return super().play_steps_rnn()

    def env_step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Any]]:
        """Make one step, and set the reward shaper's bonus for truncated episodes. May raise ImpossibleAction."""
        self.check_patience()
        if not self.is_discrete and not torch.isfinite(actions).all():
            raise ImpossibleAction("NaN or Infinity, though its weights are finite")
        obs, rewards, dones, infos = super().env_step(actions)
        self.rewards_shaper.bonus = self._cut_off_value(infos) if self.bootstrap else None
        return obs, rewards, dones, infos

    def train_actor_critic(self, input_dict: dict[str, Any]) -> Any:
        """Train on one minibatch. May raise IterationAbandoned."""
        self.check_patience()
        return super().train_actor_critic(input_dict)

    def _cut_off_value(self, infos: dict[str, Any]) -> Tensor | None:
        """(N, 1): gamma * V(last observation) if a time limit truncated the episode, else 0."""
        cut_off = infos["time_outs"]
        if not cut_off.any():
            return None
        rows = slice(None) if self.is_rnn else cut_off.nonzero().squeeze(1)
        final = self.vec_env.named({g: v[rows] for g, v in infos["final_obs"].items()})
        bonus = torch.zeros(len(cut_off), 1, device=self.ppo_device)
        bonus[rows] = self.gamma * self.get_values(final)
        return bonus * cut_off.unsqueeze(1)


class ContinuousAgent(_Learning, A2CAgent):
    """PPO with continuous actions."""


class DiscreteAgent(_Learning, DiscreteA2CAgent):
    """PPO with one or several discrete choices."""


Agent = ContinuousAgent | DiscreteAgent


def create_agent(env: Env, train: PPOConfig, max_iterations: int, device: str) -> Agent:
    """An agent over `env`, initialised by the global generator.

    The library's constructor creates directories. They are temporary, because only rundir/run.py may name run
    directories.
    """
    kind = ContinuousAgent if isinstance(env.task.action_spec, Box) else DiscreteAgent
    with tempfile.TemporaryDirectory(prefix="livegym-") as scratch, contextlib.redirect_stdout(io.StringIO()) as out:
        params = learner_params(
            train,
            RlGamesEnv(env, device),
            scratch=Path(scratch),
            max_iterations=max_iterations,
            device=device,
            shaper=BootstrappingShaper(train.reward_scale),
        )
        agent = kind("run", params)
    log.debug("rl_games: %s", " | ".join(out.getvalue().split("\n")))
    if train.compile:
        agent.model = torch.compile(agent.model)
    agent.prepare(env, bootstrap=train.value_bootstrap)
    return agent

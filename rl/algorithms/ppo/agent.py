"""rl_games' PPO agent, an iteration at a time.

The library's own agents are subclassed at the seams that they offer: `env_step`, `env_reset`, and the constructor's
parameters. Nothing is replaced at run time. What differs from the library, and why:

- There is no loop: `learner.py` beside this file makes iterations, and can give one up in its middle.
- At a time limit, the discounted value of the episode's *last observation* is added to the reward; the library adds
  the value of the observation before it (Pardo et al. 2018, arXiv:1712.00378).
- Everything that decides the next iteration can be captured and put back (`learner.py`).
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
from rl_games.algos_torch import torch_ext
from rl_games.algos_torch.a2c_continuous import A2CAgent
from rl_games.algos_torch.a2c_discrete import DiscreteA2CAgent
from rl_games.common.a2c_common import A2CBase
from torch import Tensor

from livegym.rl.algorithms.ppo.adapter import RlGamesEnv
from livegym.rl.algorithms.ppo.params import learner_params
from livegym.rl.algorithms.ppo.settings import PPOConfig
from livegym.rl.learner import IterationAbandoned
from livegym.tasks.base import Box
from livegym.tasks.env import Env
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

_SHARED = "/dev/shm"


class BootstrappingShaper:
    """Scales rewards for learning, and adds the bonus that `env_step` left for the time limits of this step."""

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
    """The patience of an agent that nobody stops."""


class _Learning(A2CBase):
    """What both agents have in common; a mixin before rl_games' class."""

    env: Env
    check_patience: Callable[[], None]  # raises IterationAbandoned; called before each step and minibatch
    bootstrap: bool
    restored_obs: dict[str, Tensor] | None

    def prepare(self, env: Env, bootstrap: bool) -> None:
        """Names the environment; called once after construction."""
        self.env = env
        self.bootstrap = bootstrap
        self.check_patience = _wait
        self.restored_obs = None
        self.init_tensors()

    def begin(self) -> None:
        """First observations, or those that were put back."""
        self.obs = self.env_reset() if self.restored_obs is None else self.restored_obs
        self.restored_obs = None

    def run_epoch(self) -> tuple[Any, ...]:
        """One rollout and its updates; what the library tells of them. May raise IterationAbandoned."""
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
        """The named losses out of the library's tuple, whose middle part depends on the action space."""
        names = ["losses/a_loss", "losses/c_loss"]
        names += ["losses/bounds_loss"] if not self.is_discrete else []
        names += ["losses/entropy", "info/kl"]
        means = {n: torch_ext.mean_list(v).item() for n, v in zip(names, result[4:-2], strict=True) if len(v)}
        return {**means, "info/last_lr": float(self.last_lr)}

    def play_steps(self) -> Any:
        """One rollout, with one thread a tensor operation: more would wait in the way of the physics' own threads."""
        with _torch_threads(1):
            return super().play_steps()

    def play_steps_rnn(self) -> Any:
        """The same with a recurrent policy."""
        with _torch_threads(1):
            return super().play_steps_rnn()

    def env_step(self, actions: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor, dict[str, Any]]:
        """One step, with the value of cut-off episodes left for the reward shaper."""
        self.check_patience()
        obs, rewards, dones, infos = super().env_step(actions)
        self.rewards_shaper.bonus = self._cut_off_value(infos) if self.bootstrap else None
        return obs, rewards, dones, infos

    def train_actor_critic(self, input_dict: dict[str, Any]) -> Any:
        """One minibatch."""
        self.check_patience()
        return super().train_actor_critic(input_dict)

    def _cut_off_value(self, infos: dict[str, Any]) -> Tensor | None:
        """(N, 1): gamma * V(last observation) if the time limit ended the episode, else 0."""
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
    """An agent over `env`, freshly initialised from the global generator.

    The library makes directories and an event file of its own when it is constructed; it is given a temporary one, as
    runs are named in one place only (rundir/run.py).
    """
    kind = ContinuousAgent if isinstance(env.task.action_spec, Box) else DiscreteAgent
    with tempfile.TemporaryDirectory(prefix="livegym-") as scratch, contextlib.redirect_stdout(io.StringIO()) as said:
        params = learner_params(
            train,
            RlGamesEnv(env, device),
            scratch=Path(scratch),
            max_iterations=max_iterations,
            device=device,
            shaper=BootstrappingShaper(train.reward_scale),
        )
        try:
            agent = kind("run", params)
        except OSError as error:  # its writer makes a queue in shared memory
            raise UserError(f"the learner cannot be made ({error}). Is {_SHARED} full? Make room there.") from error
        agent.writer.close()
        if agent.has_central_value:
            agent.central_value_net.writter = None  # it would open the closed writer again
    log.debug("rl_games: %s", " | ".join(said.getvalue().split("\n")))
    if train.compile:
        agent.model = torch.compile(agent.model)
    agent.prepare(env, bootstrap=train.value_bootstrap)
    return agent

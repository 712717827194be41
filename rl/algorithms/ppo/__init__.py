"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347) by rl_games.

`settings.py` has the keys, `params.py` translates them for the library, `adapter.py` adapts our Env to its interface,
`library.py` imports its agents, and `agent.py` subclasses them; `learner.py` has the training run and its state, and
`network.py` the acting network.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from livegym.rl.algorithm import ActorCriticNetwork, Algorithm, Network
from livegym.rl.algorithms.ppo.settings import PPOConfig
from livegym.utils.errors import UserError

if TYPE_CHECKING:
    from livegym.rl.learner import Learner
    from livegym.rl.spec import PolicySpec
    from livegym.tasks.env import Env
    from livegym.utils.signals import StopFlag


class PPO(Algorithm[PPOConfig]):
    """PPO with Box or discrete actions, with or without a recurrent layer and an asymmetric critic."""

    Config = PPOConfig

    def learner(self, env: Env, config: PPOConfig, max_iterations: int, device: str, stop: StopFlag) -> Learner:
        """See `Algorithm`."""
        from livegym.rl.algorithms.ppo.agent import create_agent
        from livegym.rl.algorithms.ppo.learner import PPOLearner

        return PPOLearner(create_agent(env, config, max_iterations, device), max_iterations, stop)

    def network(self, spec: PolicySpec, config: PPOConfig, num_envs: int) -> Network:
        """See `Algorithm`."""
        from livegym.rl.algorithms.ppo.network import PPONetwork

        return PPONetwork(spec, config, num_envs)

    def actor_critic(self, spec: PolicySpec, config: PPOConfig) -> ActorCriticNetwork:
        """See `Algorithm`. Raises UserError for a recurrent policy: single transitions lack its recurrent state."""
        from livegym.rl.algorithms.ppo.network import PPONetwork

        if config.network.recurrent is not None:
            raise UserError(
                "train.network.recurrent: continuous training learns from single transitions, which do not contain the "
                "state of a recurrent policy. Allowed: null. Give the observation a history instead: task.history"
            )
        return PPONetwork(spec, config, 1)


make = PPO

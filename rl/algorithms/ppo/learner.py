"""A training run with rl_games' agent: its iterations, and all of its state.

The state uses rl_games' own keys, so that its tools can read a checkpoint. Values that the library does not save
(learning rate, meters, the counters of an asymmetric critic) are under `learner`.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from rl_games.algos_torch.torch_ext import AverageMeter
from torch import Tensor

from livegym.rl.algorithms.ppo.agent import Agent
from livegym.rl.divergence import LARGE, Cause
from livegym.rl.learner import NEEDED, Gained, Learner
from livegym.rl.spec import shape_difference, shapes_of
from livegym.rl.state import FROM_WEIGHTS
from livegym.rundir.checkpoint_io import COMPILED
from livegym.tasks.stats import Largest
from livegym.utils.errors import UserError
from livegym.utils.signals import StopFlag

log = logging.getLogger(__name__)

CRITIC_NEEDED = ("assymetric_vf_nets", "assymetric_vf_optimizer")
METERS = ("game_rewards", "game_shaped_rewards", "game_lengths")
CRITIC_COUNTERS = ("epoch_num", "frame", "lr")  # of the asymmetric critic; the library does not save them
EPISODE_SUMS = ("current_rewards", "current_shaped_rewards", "current_lengths", "dones")


class PPOLearner(Learner):
    """PPO over the agent's environments. The agent also counts iterations and frames, because rl_games reads them."""

    def __init__(self, agent: Agent, max_iterations: int, stop: StopFlag) -> None:
        super().__init__(agent.env, max_iterations, stop)
        self.agent: Any = agent
        agent.check_patience = self.check_patience

    def begin(self) -> None:
        """See `Learner`."""
        self.agent.begin()

    def improve(self) -> Gained:
        """See `Learner`."""
        agent = self.agent
        result = agent.run_epoch()
        has_episodes = agent.game_rewards.current_size > 0
        return Gained(
            frames=agent.curr_frames,
            step_seconds=result[0],
            update_seconds=result[2],
            mean_return=float(agent.game_rewards.get_mean().item()) if has_episodes else None,
            mean_length=float(agent.game_lengths.get_mean().item()) if has_episodes else None,
            mean_is_full=bool(agent.game_rewards.current_size >= agent.games_to_track),
            losses=agent.losses(result),
        )

    def cause_of_divergence(self, largest: Largest) -> Cause:
        """See `Learner`. Normalised observations are clipped, and normalised rewards have a variance of 1."""
        agent = self.agent
        reward = largest.reward * agent.rewards_shaper.scale
        known = f"largest observation {largest.observation:.3g}, largest reward {largest.reward:.3g}"
        if not agent.normalize_input and largest.observation > max(LARGE, reward):
            return Cause(f"the observations, which are not normalised ({known})", "train.normalize_input=true")
        if not agent.normalize_value and reward > LARGE:
            return Cause(f"the rewards, which are not normalised ({known})", "train.normalize_value=true")
        return Cause(f"the learning rate, {float(agent.last_lr):.3g} ({known})", "train.learning_rate=<lower>")

    def policy_state(self) -> dict[str, Tensor]:
        """See `Learner`. An update replaces the normaliser's tensors."""
        return _plain_keys(self.agent.model.state_dict())

    def state(self) -> dict[str, Any]:
        """See `Learner`; the keys are rl_games' own."""
        agent = self.agent
        state: dict[str, Any] = agent.get_full_state_weights()
        state["model"] = _plain_keys(state["model"])
        state.pop("env_state", None)
        state["learner"] = {
            "learning_rate": float(agent.last_lr),
            "entropy_coef": float(agent.entropy_coef),
            "meters": {name: _meter_state(getattr(agent, name)) for name in METERS},
        }
        if agent.has_central_value:
            state["learner"]["critic"] = {name: getattr(agent.central_value_net, name) for name in CRITIC_COUNTERS}
        return state

    @property
    def needed(self) -> tuple[str, ...]:
        """See `Learner`."""
        critic = CRITIC_NEEDED if self.agent.has_central_value else ()
        return ("model", "optimizer", *NEEDED[1:], *critic)

    def check_weights(self, state: dict[str, Any]) -> None:
        """See `Learner`; also checks the asymmetric critic, if learner and checkpoint have one."""
        pairs = [("network", _actor(self.agent), state["model"])]
        if self.agent.has_central_value and "assymetric_vf_nets" in state:
            pairs.append(("critic", self.agent.central_value_net, state["assymetric_vf_nets"]))
        for what, module, saved in pairs:
            differs = shape_difference(shapes_of(module.state_dict()), shapes_of(saved))
            if differs is not None:
                raise UserError(f"the checkpoint's {what} does not fit this run: {differs}")

    def check_state(self, state: dict[str, Any]) -> None:
        """See `Learner`. Checks the optimizers, because torch loads their state without checking shapes."""
        optimizers = {"optimizer": self.agent.optimizer}
        if self.agent.has_central_value:
            optimizers["assymetric_vf_optimizer"] = self.agent.central_value_net.optimizer
        for name, optimizer in optimizers.items():
            differs = _optimizer_difference(optimizer, state[name])
            if differs is not None:
                raise UserError(f"this checkpoint's {name} does not fit: {differs}. {FROM_WEIGHTS}")

    def load_weights(self, state: dict[str, Any]) -> None:
        """See `Learner`; also loads the asymmetric critic.

        If the checkpoint has no asymmetric critic, this agent's stays as it is, and a warning is logged.
        """
        self.check_weights(state)
        _actor(self.agent).load_state_dict(state["model"], strict=True)
        if not self.agent.has_central_value:
            return
        if "assymetric_vf_nets" in state:
            self.agent.central_value_net.load_state_dict(state["assymetric_vf_nets"], strict=True)
        else:
            log.warning("the checkpoint has no critic over privileged observations: the critic starts untrained.")

    def load_state(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        agent, own = self.agent, state["learner"]
        self.load_weights(state)
        agent.optimizer.load_state_dict(state["optimizer"])
        if agent.has_central_value:
            agent.central_value_net.optimizer.load_state_dict(state["assymetric_vf_optimizer"])
            for name in CRITIC_COUNTERS:
                setattr(agent.central_value_net, name, own["critic"][name])
        agent.epoch_num, agent.frame = int(state["epoch"]), int(state["frame"])
        agent.last_lr, agent.entropy_coef = own["learning_rate"], own["entropy_coef"]
        for name in METERS:
            _set_meter_state(getattr(agent, name), own["meters"][name])

    def note_best_return(self, state: dict[str, Any], best_return: float | None) -> None:
        """See `Learner`; also stores it under rl_games' key."""
        super().note_best_return(state, best_return)
        state["last_mean_rewards"] = -1e9 if best_return is None else float(best_return)

    def environment_state(self) -> dict[str, Any]:
        """See `Learner`."""
        agent = self.agent
        return {
            **super().environment_state(),
            "obs": {name: value.clone() for name, value in agent.obs.items()},
            "sums": {name: getattr(agent, name).clone() for name in EPISODE_SUMS},
            "rnn_states": [value.clone() for value in agent.rnn_states] if agent.is_rnn else [],
        }

    def load_environment_state(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        agent = self.agent
        saved_envs = len(state["sums"]["dones"]) // self.env.seats
        if saved_envs != self.env.num_envs:
            raise ValueError(f"it is for {saved_envs} environments, but this run has {self.env.num_envs}")
        super().load_environment_state(state)
        device = agent.ppo_device
        for name in EPISODE_SUMS:
            setattr(agent, name, state["sums"][name].to(device))
        if agent.is_rnn:
            agent.rnn_states = [value.to(device) for value in state["rnn_states"]]
        agent.is_tensor_obses = True
        agent.restored_obs = {name: value.to(device) for name, value in state["obs"].items()}


def _plain_keys(state: dict[str, Any]) -> dict[str, Any]:
    """A state dictionary without the prefix that torch.compile adds to every key."""
    return {key.removeprefix(COMPILED): value for key, value in state.items()}


def _actor(agent: Any) -> torch.nn.Module:
    return getattr(agent.model, "_orig_mod", agent.model)


def _optimizer_difference(optimizer: torch.optim.Optimizer, found: dict[str, Any]) -> str | None:
    """How Adam's state `found` differs from what these parameters need; None if it fits. torch does not check it."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments = found.get("state", {})
    if set(moments) != set(range(len(parameters))):
        return f"it is for {len(moments)} parameters, expected {len(parameters)}"
    for index, parameter in enumerate(parameters):
        for name in ("exp_avg", "exp_avg_sq"):
            shape = getattr(moments[index].get(name), "shape", None)
            if shape != parameter.shape:
                return f"{name} of parameter {index} is {shape and list(shape)}, expected {list(parameter.shape)}"
    return None


def _meter_state(meter: AverageMeter) -> dict[str, Any]:
    return {"mean": meter.mean.clone(), "size": int(meter.current_size)}


def _set_meter_state(meter: AverageMeter, state: dict[str, Tensor | int]) -> None:
    meter.mean = torch.as_tensor(state["mean"]).to(meter.mean.device)
    meter.current_size = int(state["size"])

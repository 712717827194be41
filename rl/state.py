"""Everything that decides a learner's next iteration, captured and put back.

Two parts, because they are kept differently. The *learner state* goes into every checkpoint: weights, normaliser,
optimizer, learning rate, counters, meters, generators. The *environment state* is larger and is only worth something
together with the newest checkpoint, so it has a file of its own. With both, on a CPU with one tensor thread,
k + m iterations equal k, stop, resume, m, bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import torch
from rl_games.algos_torch.torch_ext import AverageMeter
from torch import Tensor

from livegym.rl.spec import shape_difference, shapes_of
from livegym.rundir.checkpoint_io import COMPILED
from livegym.utils.errors import UserError
from livegym.utils.seeding import generator_states, set_generator_states

log = logging.getLogger(__name__)

NEEDED = ("model", "optimizer", "epoch", "frame", "learner")
CRITIC_NEEDED = ("assymetric_vf_nets", "assymetric_vf_optimizer")
FROM_WEIGHTS = "Start a new run from its weights instead: leave out resume=true."
METERS = ("game_rewards", "game_shaped_rewards", "game_lengths")
CRITIC_COUNTERS = ("epoch_num", "frame", "lr")  # of the asymmetric critic; the library forgets them
EPISODE_SUMS = ("current_rewards", "current_shaped_rewards", "current_lengths", "dones")


def plain_keys(state: dict[str, Any]) -> dict[str, Any]:
    """A state dictionary without the prefix that torch.compile puts before every key."""
    return {key.removeprefix(COMPILED): value for key, value in state.items()}


def policy_state(agent: Any) -> dict[str, Tensor]:
    """The agent's weights and normaliser, not copied. An update binds the normaliser's anew: ask for them each time."""
    return plain_keys(agent.model.state_dict())


def capture_learner(agent: Any) -> dict[str, Any]:
    """Tensors and plain values only, under rl_games' own keys where it has them, so that its tools can read them."""
    state = agent.get_full_state_weights()
    state["model"] = plain_keys(state["model"])
    state.pop("env_state", None)
    state["learner"] = {
        "learning_rate": float(agent.last_lr),
        "entropy_coef": float(agent.entropy_coef),
        "meters": {name: _meter_state(getattr(agent, name)) for name in METERS},
        "generators": generator_states(),
    }
    if agent.env.config.curriculum is not None:
        state["learner"]["curriculum"] = agent.env.curriculum.level
    if agent.has_central_value:
        state["learner"]["critic"] = {name: getattr(agent.central_value_net, name) for name in CRITIC_COUNTERS}
    return state


def set_best_return(state: dict[str, Any], best_return: float | None) -> None:
    """Notes the best mean return in a captured state; None where no episode has ended."""
    state["last_mean_rewards"] = -1e9 if best_return is None else float(best_return)
    state["learner"]["best_return"] = best_return


def restore_learner(agent: Any, state: dict[str, Any], version: int) -> float | None:
    """Puts a captured learner state back and returns the best return; `version` is the last one given out.

    Raises UserError where the state is not a livegym learner's or does not fit the agent.
    """
    check_learner(agent, state)
    learner = state["learner"]
    load_weights(agent, state)
    agent.optimizer.load_state_dict(state["optimizer"])
    if agent.has_central_value:
        agent.central_value_net.optimizer.load_state_dict(state["assymetric_vf_optimizer"])
        for name in CRITIC_COUNTERS:
            setattr(agent.central_value_net, name, learner["critic"][name])
    agent.epoch_num, agent.frame, agent.version = int(state["epoch"]), int(state["frame"]), version
    agent.last_lr, agent.entropy_coef = learner["learning_rate"], learner["entropy_coef"]
    for name in METERS:
        _set_meter_state(getattr(agent, name), learner["meters"][name])
    set_generator_states(learner["generators"])
    if "curriculum" in learner:
        agent.env.set_level(learner["curriculum"])
    return learner["best_return"]


def check_learner(agent: Any, state: dict[str, Any]) -> None:
    """Raises UserError where a state is not whole, not finite, or not this agent's: before anything is changed."""
    expected = capture_learner(agent)
    set_best_return(expected, None)
    lacking = [key for key in (*NEEDED, *CRITIC_NEEDED[: 2 * agent.has_central_value]) if key not in state]
    if "model" in state:
        _check_weights(agent, state)
    lacking += [f"learner.{key}" for key in expected["learner"] if key not in state.get("learner", {})]
    if lacking:
        raise UserError(f"this checkpoint has no {', '.join(lacking)}, so it cannot be resumed. {FROM_WEIGHTS}")
    optimizers = {"optimizer": agent.optimizer}
    if agent.has_central_value:
        optimizers["assymetric_vf_optimizer"] = agent.central_value_net.optimizer
    for name, optimizer in optimizers.items():
        differs = _optimizer_difference(optimizer, state[name])
        if differs is not None:
            raise UserError(f"this checkpoint's {name} does not fit: {differs}. {FROM_WEIGHTS}")
    broken = not_finite(state)
    if broken is not None:
        raise UserError(f"this checkpoint has NaN or Infinity in {broken}, so it cannot be resumed. {FROM_WEIGHTS}")


def _optimizer_difference(optimizer: torch.optim.Optimizer, found: dict[str, Any]) -> str | None:
    """How Adam's state differs from what these parameters need; torch itself would take it as it is."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    moments = found.get("state", {})
    if set(moments) != set(range(len(parameters))):
        return f"it is of {len(moments)} parameters, here are {len(parameters)}"
    for index, parameter in enumerate(parameters):
        for name in ("exp_avg", "exp_avg_sq"):
            shape = getattr(moments[index].get(name), "shape", None)
            if shape != parameter.shape:
                return f"{name} of parameter {index} is {shape and list(shape)}, here it is {list(parameter.shape)}"
    return None


def not_finite(state: dict[str, Any]) -> str | None:
    """The first tensor of a captured learner that has NaN or Infinity, by its keys; None where all are finite."""
    for top in (*NEEDED, *CRITIC_NEEDED):
        for name, tensor in _tensors(state.get(top), top):
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                return name
    return None


def _tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _tensors(inner, f"{name}.{key}")


def load_weights(agent: Any, state: dict[str, Any]) -> None:
    """Weights and normaliser, of the asymmetric critic too: what a new run from a checkpoint starts with.

    Strict; raises UserError. A checkpoint without an asymmetric critic leaves this agent's as it is, with a warning.
    """
    _check_weights(agent, state)
    _actor(agent).load_state_dict(state["model"], strict=True)
    if not agent.has_central_value:
        return
    if "assymetric_vf_nets" in state:
        agent.central_value_net.load_state_dict(state["assymetric_vf_nets"], strict=True)
    else:
        log.warning("the checkpoint has no critic over privileged observations: it begins anew.")


def _actor(agent: Any) -> torch.nn.Module:
    return getattr(agent.model, "_orig_mod", agent.model)


def _check_weights(agent: Any, state: dict[str, Any]) -> None:
    pairs = [("network", _actor(agent), state["model"])]
    if agent.has_central_value and "assymetric_vf_nets" in state:
        pairs.append(("critic", agent.central_value_net, state["assymetric_vf_nets"]))
    for what, mine, theirs in pairs:
        differs = shape_difference(shapes_of(mine.state_dict()), shapes_of(theirs))
        if differs is not None:
            raise UserError(f"the checkpoint's {what} is not this run's: {differs}")


def capture_environment(agent: Any) -> dict[str, Any]:
    """The environments in the middle of their episodes, and what the agent knows of them."""
    return {
        "env": agent.env.state_dict(),
        "obs": {name: value.clone() for name, value in agent.obs.items()},
        "sums": {name: getattr(agent, name).clone() for name in EPISODE_SUMS},
        "rnn_states": [value.clone() for value in agent.rnn_states] if agent.is_rnn else [],
    }


def restore_environment(agent: Any, state: dict[str, Any]) -> None:
    """The inverse of `capture_environment`. Raises ValueError where the number of environments differs."""
    there = len(state["sums"]["dones"])
    if there != agent.env.num_envs:
        raise ValueError(f"it is of {there} environments, here are {agent.env.num_envs}")
    agent.env.load_state_dict(state["env"])
    device = agent.ppo_device
    for name in EPISODE_SUMS:
        setattr(agent, name, state["sums"][name].to(device))
    if agent.is_rnn:
        agent.rnn_states = [value.to(device) for value in state["rnn_states"]]
    agent.is_tensor_obses = True
    agent.restored_obs = {name: value.to(device) for name, value in state["obs"].items()}


def _meter_state(meter: AverageMeter) -> dict[str, Any]:
    return {"mean": meter.mean.clone(), "size": int(meter.current_size)}


def _set_meter_state(meter: AverageMeter, state: dict[str, Tensor | int]) -> None:
    meter.mean = torch.as_tensor(state["mean"]).to(meter.mean.device)
    meter.current_size = int(state["size"])

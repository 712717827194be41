"""Translates our settings to rl_games' keys; no other module uses these keys.

rl_games 1.6.5 reads its configuration with dozens of `.get(key, default)` and ignores unknown keys. So the complete
configuration is written here from a typed `PPOConfig`, and the library gets nothing else.

Choices that are not settings, and their reasons:

- `save_frequency` is 0 and `save_best_after` is out of reach, because the library's saves are not atomic;
  `rl/saver.py` saves.
- `seq_length` is 1 without a recurrent layer; otherwise the library requires batches divisible by 4.
- `torch_compile` is not set: only the library's Runner reads it, which is not used. `agent.py` compiles if
  `train.compile` is true.
- `value_bootstrap` is false for the library: it would add gamma * V(s_t) at a time limit. `agent.py` adds the value of
  the episode's actual last observation instead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rl_games.common.algo_observer import AlgoObserver

from livegym.rl.algorithms.ppo.adapter import RlGamesEnv
from livegym.rl.algorithms.ppo.scaled import SCALED
from livegym.rl.algorithms.ppo.settings import NetworkConfig, PPOConfig
from livegym.tasks.base import ActionSpec, Box, Discrete

NEVER = 10**12  # iterations; more than any training run makes


def algorithm_name(spec: ActionSpec) -> str:
    """rl_games' algorithm for an action spec."""
    return "a2c_continuous" if isinstance(spec, Box) else "a2c_discrete"


def model_name(spec: ActionSpec) -> str:
    """rl_games' model for an action spec."""
    if isinstance(spec, Box):
        return "continuous_a2c_logstd"
    return "discrete_a2c" if isinstance(spec, Discrete) else "multi_discrete_a2c"


def network_params(network: NetworkConfig, spec: ActionSpec) -> dict[str, Any]:
    """The `network` section: an MLP, optionally with a recurrent layer after it."""
    scaled = network.mean_scale != 1.0 and isinstance(spec, Box)
    params: dict[str, Any] = {
        "name": SCALED if scaled else "actor_critic",
        "mean_scale": network.mean_scale,
        "separate": network.separate,
        "space": _space(network, spec),
        "mlp": {
            "units": list(network.units),
            "activation": network.activation,
            "d2rl": False,
            "initializer": {"name": "default"},
            "regularizer": {"name": "None"},
        },
    }
    if network.recurrent is not None:
        params["rnn"] = {
            "name": network.recurrent.cell,
            "units": network.recurrent.units,
            "layers": network.recurrent.layers,
            "before_mlp": False,
            "concat_input": False,
            "concat_output": False,
            "layer_norm": False,
        }
    return params


def _space(network: NetworkConfig, spec: ActionSpec) -> dict[str, Any]:
    if isinstance(spec, Discrete):
        return {"discrete": {}}
    if not isinstance(spec, Box):
        return {"multi_discrete": {}}
    return {
        "continuous": {
            "mu_activation": "None",
            "sigma_activation": "None",
            "mu_init": {"name": "default"},
            "sigma_init": {"name": "const_initializer", "val": network.initial_log_std},
            "fixed_sigma": True,
        }
    }


def model_params(network: NetworkConfig, spec: ActionSpec) -> dict[str, Any]:
    """The parameters from which rl_games' ModelBuilder builds the acting network."""
    return {
        "algo": {"name": algorithm_name(spec)},
        "model": {"name": model_name(spec)},
        "network": network_params(network, spec),
    }


def learner_params(
    train: PPOConfig, env: RlGamesEnv, *, scratch: Path, max_iterations: int, device: str, shaper: Any
) -> dict[str, Any]:
    """The complete parameters of a learner.

    `scratch`: a directory in which the library may create files; `shaper`: maps rewards (N, 1) to those for learning.
    """
    spec = env.env.task.action_spec
    name = env.env.config.name
    num_rows = env.env.num_rows
    seq_length = train.network.recurrent.sequence_length if train.network.recurrent else 1
    minibatch_size = num_rows * train.horizon_length // train.num_minibatches
    config: dict[str, Any] = {
        "name": name,
        "env_name": name,
        "device": device,
        "train_dir": str(scratch),
        "full_experiment_name": "library",
        "num_actors": num_rows,
        "horizon_length": train.horizon_length,
        "seq_length": seq_length,
        "minibatch_size": minibatch_size,
        "mini_epochs": train.mini_epochs,
        "max_epochs": max_iterations,
        "max_frames": -1,
        "ppo": True,
        "gamma": train.gamma,
        "tau": train.tau,
        "e_clip": train.e_clip,
        "clip_value": train.clip_value,
        "entropy_coef": train.entropy_coef,
        "critic_coef": train.critic_coef,
        "bounds_loss_coef": train.bounds_loss_coef,
        "bound_loss_type": "bound",
        "grad_norm": train.grad_norm,
        "truncate_grads": True,
        "learning_rate": train.learning_rate,
        "lr_schedule": _schedule(train.lr_schedule),
        "schedule_type": {"mini_epoch": "standard", "minibatch": "legacy"}[train.lr_update],
        "kl_threshold": train.kl_threshold,
        "normalize_input": train.normalize_input,
        "normalize_value": train.normalize_value,
        "normalize_advantage": train.normalize_advantage,
        "value_bootstrap": False,
        "games_to_track": train.games_to_track,
        "clip_actions": True,
        "mixed_precision": False,
        "multi_gpu": False,
        "print_stats": False,
        "save_frequency": 0,
        "save_best_after": NEVER,
        "use_diagnostics": False,
        "features": {"observer": AlgoObserver()},
        "env_info": env.get_env_info(),
        "vec_env": env,
        "reward_shaper": shaper,
    }
    if env.env.layout.width("privileged"):
        config["central_value_config"] = central_value_params(train, minibatch_size)
    return {**model_params(train.network, spec), "config": config}


def _schedule(name: str) -> str | None:
    return {"adaptive": "adaptive", "linear": "linear", "constant": None}[name]


def central_value_params(train: PPOConfig, minibatch_size: int) -> dict[str, Any]:
    """An asymmetric critic: a separate network with the same layers, whose input is the privileged group.

    The library supports only a linear or a constant learning rate for it; with `adaptive` it is constant.
    """
    return {
        "minibatch_size": minibatch_size,
        "mini_epochs": train.mini_epochs,
        "learning_rate": train.learning_rate,
        "lr_schedule": _schedule(train.lr_schedule),
        "kl_threshold": train.kl_threshold,
        "clip_value": train.clip_value,
        "e_clip": train.e_clip,
        "normalize_input": train.normalize_input,
        "truncate_grads": True,
        "grad_norm": train.grad_norm,
        "network": {
            "name": "actor_critic",
            "central_value": True,
            "mlp": {
                "units": list(train.network.units),
                "activation": train.network.activation,
                "d2rl": False,
                "initializer": {"name": "default"},
                "regularizer": {"name": "None"},
            },
        },
    }

"""Translate the settings of foreign learners to livegym's `train.*`: rl_games' yaml and rsl_rl's classes, by a table.

    settings, left = from_rl_games(params, num_envs=4096)
    settings["horizon_length"], left      # 16, ["mixed_precision=True", ...]

`left` names what has no counterpart or another meaning here. Names of files, logging and saving are left out silently:
livegym has its own keys for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Settings = dict[str, Any]
"""Keys of `train.*`; those of `train.network` are a dictionary in it."""

UNCLIPPED = 1e6
"""The largest gradient norm of a learner that does not clip gradients."""

CONFIG: dict[str, str] = {
    "horizon_length": "horizon_length",
    "mini_epochs": "mini_epochs",
    "learning_rate": "learning_rate",
    "kl_threshold": "kl_threshold",
    "gamma": "gamma",
    "tau": "tau",
    "e_clip": "e_clip",
    "clip_value": "clip_value",
    "entropy_coef": "entropy_coef",
    "critic_coef": "critic_coef",
    "bounds_loss_coef": "bounds_loss_coef",
    "normalize_input": "normalize_input",
    "normalize_value": "normalize_value",
    "normalize_advantage": "normalize_advantage",
    "value_bootstrap": "value_bootstrap",
    "max_epochs": "max_iterations",
    "games_to_track": "games_to_track",
}
"""rl_games' key in `config` -> the key of `train.*` that means the same."""
HANDLED = (
    "grad_norm", "truncate_grads", "lr_schedule", "schedule_type", "minibatch_size", "reward_shaper", "seq_len",
    "seq_length", "clip_actions",
)  # fmt: skip
"""Keys in `config` that are translated by code below."""
OURS = (
    "name", "full_experiment_name", "env_name", "ppo", "num_actors", "multi_gpu", "device", "device_name",
    "score_to_win", "save_best_after", "save_frequency", "print_stats", "player", "train_dir", "use_diagnostics",
    "max_frames", "defer_summaries_sec", "summaries_interval_sec_min", "summaries_interval_sec_max",
    "population_based_training", "use_tensorboard", "tensorboard_logdir", "log_interval", "save_interval",
)  # fmt: skip
"""Keys in `config` about files, logging and devices, for which livegym has its own."""
WIDE = 5.0
"""The action that livegym's action 1 means in a task without a useful limit: five standard deviations of rsl_rl."""
SCHEDULES = {
    "adaptive": "adaptive",
    "linear": "linear",
    "identity": "constant",
    "none": "constant",
    "fixed": "constant",
}
UPDATES = {"standard": "mini_epoch", "legacy": "minibatch"}
"""rl_games' `schedule_type` -> `train.lr_update`."""
ACTIVATIONS = ("elu", "relu", "tanh", "selu", "swish", "gelu")
RSL = {
    "clip_param": "e_clip",
    "use_clipped_value_loss": "clip_value",
    "entropy_coef": "entropy_coef",
    "num_learning_epochs": "mini_epochs",
    "num_mini_batches": "num_minibatches",
    "learning_rate": "learning_rate",
    "gamma": "gamma",
    "lam": "tau",
    "desired_kl": "kl_threshold",
    "max_grad_norm": "grad_norm",
}
"""rsl_rl's key in `algorithm` -> the key of `train.*`."""


def from_rl_games(params: Mapping[str, Any], num_envs: int, reach: float = 1.0) -> tuple[Settings, list[str]]:
    """Settings of `train.*` from rl_games' parameters for `num_envs` environments, and what was not taken over.

    `reach`: the action of the task that livegym's action 1 means.
    """
    config = dict(params.get("config", {}))
    found: Settings = {ours: config[theirs] for theirs, ours in CONFIG.items() if theirs in config}
    left = [f"config.{k}={_short(v)}" for k, v in config.items() if v and k not in (*CONFIG, *HANDLED, *OURS)]
    for key in ("learning_rate", "kl_threshold", "gamma", "tau", "e_clip", "entropy_coef", "critic_coef"):
        if key in found:
            found[key] = float(found[key])  # yaml reads 3e-4 as text
    found["bounds_loss_coef"] = float(found.get("bounds_loss_coef") or 0.0)
    found["grad_norm"] = float(config.get("grad_norm", 1.0)) if config.get("truncate_grads", False) else UNCLIPPED
    found["lr_schedule"] = SCHEDULES.get(str(config.get("lr_schedule", "none")).lower(), "constant")
    if found["lr_schedule"] == "adaptive":
        kind = str(config.get("schedule_type", "legacy"))
        found["lr_update"] = UPDATES.get(kind, "mini_epoch")
        left += [] if kind in UPDATES else [f"config.schedule_type={kind}"]
    found["reward_scale"] = float(_get(config, "reward_shaper", "scale_value", default=1.0))
    if "minibatch_size" in config:
        batch = num_envs * int(config.get("horizon_length", 16))
        found["num_minibatches"] = max(1, round(batch / int(config["minibatch_size"])))
    found["network"] = _network(params.get("network", {}), config, left)
    if reach != 1.0:
        _scale(found["network"], reach)
        left.append(f"config.clip_actions=False: actions beyond {reach:g} are clipped")
    left += _other_algorithm(params)
    shaper = dict(config.get("reward_shaper") or {})
    left += [f"config.reward_shaper.{k}={v}" for k, v in shaper.items() if k != "scale_value"]
    return found, left


def _scale(network: Settings, reach: float) -> None:
    """Let the policy's last layer and its standard deviation mean what they do upstream, if 1 means `reach` there."""
    network["initial_log_std"] = min(2.0, max(-5.0, network.get("initial_log_std", 0.0) - math.log(reach)))
    network["mean_scale"] = 1.0 / reach


def _other_algorithm(params: Mapping[str, Any]) -> list[str]:
    name = str(_get(params, "algo", "name", default="a2c_continuous"))
    return [] if name == "a2c_continuous" else [f"algo.name={name}, instead of which PPO trains on the task's reward"]


def _network(network: Mapping[str, Any], config: Mapping[str, Any], left: list[str]) -> Settings:
    mlp = dict(network.get("mlp") or {})
    found: Settings = {}
    if mlp.get("units"):
        found["units"] = [int(units) for units in mlp["units"]]
    activation = str(mlp.get("activation", "elu")).lower()
    if activation in ACTIVATIONS:
        found["activation"] = activation
    else:
        left.append(f"network.mlp.activation={activation}")
    found["separate"] = bool(network.get("separate", False))
    continuous = _get(network, "space", "continuous", default={})
    sigma = _get(continuous, "sigma_init", default={})
    if sigma.get("name", "const_initializer") == "const_initializer":
        found["initial_log_std"] = float(sigma.get("val", 0.0))
    if not continuous.get("fixed_sigma", True) or continuous.get("fixed_sigma") == "obs_cond":
        left.append("network.space.continuous.fixed_sigma=False")
    rnn = network.get("rnn")
    if rnn:
        sequence = int(config.get("seq_length", config.get("seq_len", 4)))
        found["recurrent"] = {
            "cell": str(rnn.get("name", "lstm")),
            "units": int(rnn.get("units", 128)),
            "layers": int(rnn.get("layers", 1)),
            "sequence_length": sequence,
        }
        left += [
            f"network.rnn.{k}={v}" for k, v in rnn.items() if k in ("before_mlp", "layer_norm", "concat_input") and v
        ]
    left += [f"network.{k}={_short(v)}" for k, v in network.items() if k in ("cnn", "inputs", "disc")]
    return found


def from_rsl_rl(train: Mapping[str, Any], action_range: float) -> tuple[Settings, list[str]]:
    """Settings of `train.*` from rsl_rl's configuration, and what was not taken over.

    `action_range`: the action of the task that livegym's action 1 means.
    """
    algorithm, policy = dict(train.get("algorithm", {})), dict(train.get("policy", {}))
    runner = dict(train.get("runner", {}))
    found: Settings = {ours: algorithm[theirs] for theirs, ours in RSL.items() if theirs in algorithm}
    left = [
        f"algorithm.{k}={_short(v)}" for k, v in algorithm.items() if k not in (*RSL, "schedule", "value_loss_coef")
    ]
    found["critic_coef"] = 2.0 * float(algorithm.get("value_loss_coef", 1.0))  # rl_games halves the squared error
    found["lr_schedule"] = SCHEDULES.get(str(algorithm.get("schedule", "fixed")), "constant")
    if found["lr_schedule"] == "adaptive":
        found["lr_update"] = "minibatch"
    found["horizon_length"] = int(runner.get("num_steps_per_env", 24))
    found["max_iterations"] = int(runner.get("max_iterations", 1500))
    found["normalize_input"] = found["normalize_value"] = False
    found["bounds_loss_coef"] = 0.0
    units = [int(width) for width in policy.get("actor_hidden_dims", [512, 256, 128])]
    network: Settings = {"units": units, "separate": True}
    network["initial_log_std"] = math.log(float(policy.get("init_noise_std", 1.0)))
    _scale(network, action_range)
    activation = str(policy.get("activation", "elu"))
    if activation in ACTIVATIONS:
        network["activation"] = activation
    else:
        left.append(f"policy.activation={activation}")
    if policy.get("critic_hidden_dims", units) != units:
        left.append(f"policy.critic_hidden_dims={policy['critic_hidden_dims']}")
    known = ("init_noise_std", "actor_hidden_dims", "critic_hidden_dims", "activation")
    left += [f"policy.{k}={_short(v)}" for k, v in policy.items() if k not in known]
    cell = policy.get("rnn_type")
    if cell:
        network["recurrent"] = {
            "cell": str(cell),
            "units": int(policy.get("rnn_hidden_size", 512)),
            "layers": int(policy.get("rnn_num_layers", 1)),
        }
    found["network"] = network
    return found, left


def yaml_range(env: Mapping[str, Any], params: Mapping[str, Any]) -> float:
    """The action of a task of IsaacGymEnvs that livegym's action 1 means.

    rl_games clips actions to 1, unless its settings have `clip_actions: False`: then the task's `clipActions` counts.
    """
    if _get(params, "config", "clip_actions", default=True):
        return 1.0
    return min(float(env.get("clipActions", math.inf)), WIDE)


def action_range(config: Mapping[str, Any]) -> float:
    """The action of a task of legged_gym that livegym's action 1 means.

    rsl_rl's actions are not limited; if the task clips them at 10 or less, that is the range, otherwise `WIDE`.
    """
    limit = float(config.get("normalization", {}).get("clip_actions", WIDE))
    return limit if limit <= 10 else WIDE


def _get(content: Mapping[str, Any], *path: str, default: Any) -> Any:
    for name in path:
        inner: Callable[..., Any] | None = getattr(content, "get", None)
        content = inner(name) if inner is not None else None  # type: ignore[assignment]
        if content is None:
            return default
    return content


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:40]}..."

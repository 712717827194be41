"""PPO's keys of `train.*`, and the check that a batch can be divided as they require."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from livegym.schema.keydoc import key
from livegym.schema.train import TrainConfig
from livegym.utils.errors import UserError


@dataclass
class RecurrentConfig:
    """A recurrent layer after the MLP."""

    cell: str = key("lstm", "type of the recurrent cell", choices=("lstm", "gru"))
    units: int = key(128, "size of the recurrent state", low=1)
    layers: int = key(1, "number of stacked recurrent layers", low=1)
    sequence_length: int = key(
        4, "control steps of truncated backpropagation through time; must divide horizon_length", low=1
    )


@dataclass
class NetworkConfig:
    """The layers of policy and critic."""

    units: list[int] = key([64, 64], "hidden layer sizes", low=1, high=65536)
    activation: str = key(
        "elu", "activation of the hidden layers", choices=("elu", "relu", "tanh", "selu", "swish", "gelu")
    )
    separate: bool = key(False, "give the critic its own hidden layers")
    initial_log_std: float = key(0.0, "log of the initial action standard deviation (Box actions)", low=-5, high=2)
    mean_scale: float = key(1.0, "factor on the output of the policy's last layer (Box actions)", above=0, high=100)
    recurrent: Optional[RecurrentConfig] = key(None, "recurrent layer after the MLP; null: none")


@dataclass
class PPOConfig(TrainConfig):
    """All keys of `train.*` for a training run with PPO."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    horizon_length: int = key(16, "control steps per environment and iteration", low=1)
    num_minibatches: int = key(
        1, "minibatches per epoch; must divide numEnvs x horizon_length", low=1, aliases=("minibatchsize",)
    )
    mini_epochs: int = key(8, "passes over each batch", low=1)
    learning_rate: float = key(
        3e-4,
        "step size of Adam; with lr_schedule=adaptive, only its initial value",
        above=0,
        high=1,
        aliases=("lr", "learningrate"),
    )
    lr_schedule: str = key(
        "adaptive",
        "adaptive: follows kl_threshold; linear: decays to 0 at the last iteration",
        choices=("adaptive", "linear", "constant"),
    )
    lr_update: str = key(
        "mini_epoch",
        "when lr_schedule=adaptive changes the learning rate: after each mini-epoch, or after each minibatch",
        choices=("mini_epoch", "minibatch"),
    )
    kl_threshold: float = key(0.008, "target KL divergence per update of lr_schedule=adaptive", above=0)
    gamma: float = key(0.99, "discount factor per control step", low=0, high=1)
    tau: float = key(
        0.95, "lambda of generalised advantage estimation (Schulman et al. 2016, arXiv:1506.02438)", low=0, high=1
    )
    e_clip: float = key(0.2, "clip range of the probability ratio", above=0)
    clip_value: bool = key(True, "clip the value loss as the policy loss is clipped")
    entropy_coef: float = key(0.0, "weight of the entropy bonus", low=0)
    critic_coef: float = key(2.0, "weight of the value loss", low=0)
    bounds_loss_coef: float = key(1e-4, "weight of the penalty on means outside +-1.1 (Box actions)", low=0)
    grad_norm: float = key(1.0, "maximum gradient norm; larger gradients are clipped to it", above=0)
    reward_scale: float = key(1.0, "factor on rewards for learning; reported returns are unscaled", above=0)
    normalize_input: bool = key(
        True, "normalise observations by their running mean and variance, which are stored with the policy"
    )
    normalize_value: bool = key(True, "normalise returns by their running mean and variance")
    normalize_advantage: bool = key(True, "normalise the advantages of a batch to mean 0, variance 1")
    value_bootstrap: bool = key(True, "add the discounted value of the episode's last observation at a time limit")
    compile: bool = key(
        False, "compile the network with torch.compile: faster on a GPU with wide layers, costs seconds at startup"
    )

    def check(self, num_envs: int) -> None:
        """Raises UserError unless a batch of `num_envs` x horizon_length steps can be cut into equal minibatches."""
        check_sizes(num_envs, self)

    def acting(self) -> dict[str, Any]:
        """See `TrainConfig`."""
        network = replace(self.network, initial_log_std=0.0)  # the weights have what became of it
        return {"algorithm": self.algorithm, "network": network, "normalize_input": self.normalize_input}

    def unused(self) -> dict[str, str]:
        """See `TrainConfig`."""
        used_by = "train.lr_schedule=adaptive"
        return {} if self.lr_schedule == "adaptive" else {"kl_threshold": used_by, "lr_update": used_by}


def check_sizes(num_envs: int, train: PPOConfig) -> None:
    """Raises UserError unless a batch of `num_envs` x horizon_length steps can be cut into equal minibatches."""
    horizon, parts = train.horizon_length, train.num_minibatches
    sequence = train.network.recurrent.sequence_length if train.network.recurrent else 1
    if horizon % sequence:
        raise UserError(
            f"train.network.recurrent.sequence_length={sequence} does not divide train.horizon_length={horizon}. "
            f"Allowed: {_join(_divisors(horizon))}, or train.horizon_length={_join(_multiples(horizon, sequence))}."
        )
    batch = num_envs * horizon
    if parts == batch:  # rl_games removes the axis of a single step; and one number has no variance
        fewer = _divisors(batch // sequence)[-2:-1]
        instead = f"train.num_minibatches={fewer[0]}" if fewer else "numEnvs=2 or train.horizon_length=16"
        raise UserError(
            f"train.num_minibatches={parts} cuts numEnvs={num_envs} x train.horizon_length={horizon} = {batch} steps "
            f"into minibatches of one step. Allowed: minibatches of at least 2 steps, such as {instead}."
        )
    if batch % (parts * sequence) == 0:
        return
    unit = parts * sequence
    enough_envs = _multiples(num_envs, unit // math.gcd(horizon, unit))
    sequences = f" of complete sequences of {sequence} steps" if sequence > 1 else ""
    raise UserError(
        f"numEnvs={num_envs} x train.horizon_length={horizon} = {batch} steps cannot be cut into "
        f"train.num_minibatches={parts} equal minibatches{sequences}.\n"
        f"Nearest that fit: numEnvs={_join(enough_envs)}, "
        f"or train.num_minibatches={_join(_around(parts, _divisors(batch // sequence)))}."
    )


def _join(numbers: Iterable[int]) -> str:
    return " or ".join(map(str, numbers))


def _divisors(n: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)})


def _multiples(n: int, step: int) -> list[int]:
    """The positive multiples of `step` around `n`: one or two."""
    below = n // step * step
    return [m for m in (below, below + step) if m > 0]


def _around(n: int, sorted_numbers: list[int]) -> list[int]:
    below = [d for d in sorted_numbers if d < n][-1:]
    return below + [d for d in sorted_numbers if d > n][:1]

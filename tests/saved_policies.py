"""Checkpoints with chosen weights, which no training has to make first."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from livegym.cfg.typed import as_dict
from livegym.rl.policy import Policy
from livegym.rl.spec import PolicySpec, shape_hash, spec_of
from livegym.rundir.checkpoint import CheckpointMeta, write_checkpoint
from livegym.schema import RootConfig
from livegym.tasks.build import make_env

BALANCE = (4.0, 10.0, 120.0, 30.0)
"""N for each m, m/s, rad and rad/s: a push that keeps Cartpole's pole upright."""
LINEAR = ("task=Cartpole", "train.network.units=[2]", "train.network.activation=relu")
"""A network that can compute a linear function: relu(x) - relu(-x) = x."""


def random_weights(policy: Policy, seed: int = 0) -> dict[str, Tensor]:
    """Weights, and a normaliser that has seen something."""
    rng = torch.Generator().manual_seed(seed)
    model = policy.state()
    for name, value in model.items():
        if name == "running_mean_std.running_mean":
            value.copy_(0.3 * torch.randn(value.shape, generator=rng))
        elif name == "running_mean_std.running_var":
            value.copy_(0.5 + torch.rand(value.shape, generator=rng))
        elif value.is_floating_point() and not name.endswith("count") and "mean_std" not in name:
            value.copy_(0.4 * torch.randn(value.shape, generator=rng))
    return model


def balancing(policy: Policy) -> dict[str, Tensor]:
    """Weights for the configuration `LINEAR` with which the pole stays upright."""
    model = policy.state()
    gains = torch.tensor(BALANCE) / 400.0
    for name, value in {
        "a2c_network.actor_mlp.0.weight": torch.stack([gains, -gains]),
        "a2c_network.actor_mlp.0.bias": torch.zeros(2),
        "a2c_network.mu.weight": torch.tensor([[1.0, -1.0]]),
        "a2c_network.mu.bias": torch.zeros(1),
    }.items():
        model[name].copy_(value)
    return model


def spec_for(config: RootConfig) -> PolicySpec:
    """The spec of a policy of the configuration's task."""
    env = make_env(config.task, config.sim, config.physics, 1, 0)
    env.sim.close()
    return spec_of(env)


def save(run: Path, config: RootConfig, weights=random_weights, spec: PolicySpec | None = None) -> Path:
    """A checkpoint of version 7 in the run's nn/."""
    spec = spec or spec_for(config)
    model = weights(Policy(spec, config.train, 1, "cpu"))
    meta = CheckpointMeta(spec.task, "c" * 32, 7, 7, 700, shape_hash(spec, model))
    (run / "nn").mkdir(parents=True, exist_ok=True)
    return write_checkpoint(run / "nn", {"model": model, "config": as_dict(config), "spec": spec.to_dict()}, meta)

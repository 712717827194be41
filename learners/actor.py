"""The part of another library's model that acts, as data: its layers, its normaliser and its action distribution.

    actor = Actor(layers=[nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1)], log_std=log_std)
    described = describe(actor, spec)
    described.keys                     # {"units": [32], "activation": "tanh", ...}: keys of train.* in the run
    described.weights                  # name -> tensor: what `rl/algorithms/external.py` loads

Layers that such a description cannot express are refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from livegym.rl.activations import ACTIVATIONS
from livegym.rl.spec import PolicySpec
from livegym.schema.train import TrainConfig, settings_class
from livegym.tasks.base import Box
from livegym.utils.errors import UserError

ALGORITHM = "external"
"""The algorithm whose networks are described."""


@dataclass(frozen=True)
class Normaliser:
    """A policy sees (observation - mean) / scale, limited to +- clip."""

    mean: Tensor  # (width,)
    scale: Tensor  # (width,), above 0
    clip: float | None = None


@dataclass(frozen=True)
class Actor:
    """A multilayer perceptron and what surrounds it."""

    layers: Sequence[nn.Module]  # Linear, activation, Linear, ..., Linear; its outputs are means or logits
    log_std: Tensor | None = None  # (size,) log standard deviation of a Box action; None for discrete choices
    normaliser: Normaliser | None = None


@dataclass(frozen=True)
class Described:
    """A network as data."""

    keys: dict[str, Any]  # keys of train.* that describe it
    weights: dict[str, Tensor]  # copies, on the CPU


def describe(actor: Actor, spec: PolicySpec) -> Described:
    """The description and the weights of an actor. Raises UserError for an architecture that cannot be described."""
    linears = [layer for layer in actor.layers if type(layer) is nn.Linear]
    activation = _activation(actor.layers)
    _check_widths(linears, spec)
    weights = {f"layers.{i}.{name}": v for i, layer in enumerate(linears) for name, v in _parts(layer).items()}
    weights |= _deviation(actor.log_std, spec)
    norm = actor.normaliser
    if norm is not None:
        weights |= {name: getattr(norm, name).double().reshape(-1) for name in ("mean", "scale")}
        _check_normaliser(norm, spec)
    keys = {
        "units": [layer.out_features for layer in linears[:-1]],
        "activation": activation,
        "normalize_input": norm is not None,
        "clip_input": None if norm is None else norm.clip,
    }
    return Described(keys, {name: value.detach().cpu().clone() for name, value in weights.items()})


def configuration(described: Described, learner: str) -> TrainConfig:
    """`train.*` of a run whose policy is described so; `learner` names the library and its algorithm."""
    return settings_class(ALGORITHM)(algorithm=ALGORITHM, learner=learner, **described.keys)  # type: ignore[call-arg]


def refused(what: str, allowed: str) -> UserError:
    """The error for an architecture that cannot be played here."""
    return UserError(
        f"{what}: a policy with this cannot be watched, because livegym rebuilds a network from its description. "
        f"Allowed: {allowed} (docs/other-learners.md). Change the policy, or train without recording."
    )


def _activation(layers: Sequence[nn.Module]) -> str:
    """The name of the activation between the layers, which must alternate with it.

    A subclass of Linear is refused: it may have a `forward` of its own.
    """
    form = "Linear layers with one activation between them, and none after the last one"
    if not layers or len(layers) % 2 == 0 or any(type(layer) is not nn.Linear for layer in layers[::2]):
        raise refused(f"layers {_list(layers)}", form)
    names = {_name_of(layer) for layer in layers[1::2]}
    if len(names) > 1:
        raise refused(f"the activations {', '.join(sorted(names))} in one network", form)
    return names.pop() if names else "identity"


def _list(layers: Sequence[nn.Module]) -> str:
    return ", ".join(type(layer).__name__ for layer in layers) or "(none)"


def _name_of(layer: nn.Module) -> str:
    """The name of an activation. Raises UserError for another layer, or another value of its parameter."""
    for name, make in ACTIVATIONS.items():
        plain = make()
        if type(layer) is type(plain):
            if _settings(layer) == _settings(plain):
                return name
            raise refused(str(layer), f"{plain}, torch's default")
    raise refused(f"the layer {type(layer).__name__}", f"the activations {', '.join(ACTIVATIONS)}")


def _settings(layer: nn.Module) -> dict[str, Any]:
    """The parameters of an activation, without those that do not change its values."""
    left_out = ("training", "inplace")
    return {k: v for k, v in vars(layer).items() if not k.startswith("_") and k not in left_out}


def _parts(layer: nn.Linear) -> dict[str, Tensor]:
    """Weight and bias of a layer, in single precision; a layer without a bias has one of zeros."""
    bias = torch.zeros(layer.out_features) if layer.bias is None else layer.bias
    return {"weight": layer.weight.float(), "bias": bias.float()}


def _check_widths(linears: Sequence[nn.Linear], spec: PolicySpec) -> None:
    first, last = linears[0].in_features, linears[-1].out_features
    choices = spec.action.choices
    outputs = spec.action.width if choices is None else sum(choices)
    if first != spec.obs_width:
        blocks = ", ".join(f"{name} {width}" for name, width in spec.observations)
        raise refused(f"an input of {first} numbers", f"{spec.obs_width}, the policy's observation ({blocks})")
    if last != outputs:
        what = "means" if choices is None else "logits"
        raise refused(f"an output of {last} numbers", f"{outputs} {what}, for the action {spec.action}")


def _deviation(log_std: Tensor | None, spec: PolicySpec) -> dict[str, Tensor]:
    if not isinstance(spec.action, Box):
        if log_std is not None:
            raise refused("a standard deviation of discrete choices", f"log_std=None for the action {spec.action}")
        return {}
    if log_std is None or log_std.numel() != spec.action.size:
        given = "no log_std" if log_std is None else f"a log_std of {log_std.numel()} numbers"
        raise refused(given, f"{spec.action.size} numbers that do not depend on the observation")
    return {"log_std": log_std.float().reshape(-1)}


def _check_normaliser(norm: Normaliser, spec: PolicySpec) -> None:
    for name in ("mean", "scale"):
        size = getattr(norm, name).numel()
        if size != spec.obs_width:
            raise refused(f"a normaliser whose {name} has {size} numbers", f"{spec.obs_width}, one for each column")
    lowest = float(norm.scale.min())
    if lowest <= 0:
        raise refused(f"a normaliser with the scale {lowest:g}", "scales above 0")

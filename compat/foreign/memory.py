"""Save and restore what a foreign environment remembers, as well as that can be done without its help.

Saved are its attributes that are tensors with a leading environment axis, dictionaries of such tensors, and plain
numbers; the simulation is saved apart. What it keeps in other objects, or in closures, is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor


def remembered(env: Any, num_envs: int) -> dict[str, Any]:
    """Copies of the tensors and numbers that an environment remembers: attribute, or attribute/key -> value."""
    found: dict[str, Any] = {name: value.clone() for name, value in _tensors(env, num_envs)}
    for name, value in vars(env).items():
        if type(value) in (int, float, bool):
            found[name] = value
    return found


def recall(env: Any, state: Mapping[str, Any], num_envs: int) -> None:
    """Restore what `remembered` returned; tensors keep their memory, which the simulation may share.

    Raises ValueError if a tensor has another shape here; nothing is changed then.
    """
    here = dict(_tensors(env, num_envs))
    for name, value in state.items():
        if name in here and isinstance(value, Tensor) and here[name].shape != value.shape:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, but here it is {tuple(here[name].shape)}")
    for name, value in state.items():
        if not isinstance(value, Tensor):
            setattr(env, name, value)
        elif name in here:
            _write(env, name, here[name], value)


def _write(env: Any, name: str, target: Tensor, value: Tensor) -> None:
    if 0 not in target.stride() and not target.is_inference():  # an expanded tensor shares its rows
        target.copy_(value)
        return
    attribute, _, key = name.partition("/")
    if key:
        getattr(env, attribute)[key] = value.clone()
    else:
        setattr(env, attribute, value.clone())


def _tensors(env: Any, num_envs: int) -> Iterator[tuple[str, Tensor]]:
    for name, value in vars(env).items():
        if _is_of_environments(value, num_envs):
            yield name, value
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(key, str) and _is_of_environments(inner, num_envs):
                    yield f"{name}/{key}", inner


def _is_of_environments(value: Any, num_envs: int) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 0 and len(value) > 0 and len(value) % num_envs == 0

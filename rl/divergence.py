"""The divergence of a policy: what became non-finite, and the probable cause.

A policy diverges in an update, but that shows later: as NaN in its weights, as an action that is NaN, or as an error
inside a probability distribution. `Learner.iterate` turns each of these into one `Diverged`, and names the cause that
the numbers of the iteration suggest: observations, rewards or the learning rate.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from livegym.utils.errors import UserError

LARGE = 1e3  # numbers beyond this that are not normalised are a likelier cause than the learning rate


class ImpossibleAction(Exception):
    """Raised if a policy's action is non-finite."""


@dataclass(frozen=True)
class Cause:
    """The probable cause of a divergence, and the override that may prevent another one; '' if that is not known."""

    text: str = ""
    remedy: str = ""


class Diverged(UserError):
    """The policy has diverged; the message says by which iteration, what is not finite, and why."""

    def __init__(self, epoch: int, what: str, cause: Cause) -> None:
        """`what`: the rest of a sentence about the policy, such as 'has NaN or Infinity in model.sigma'."""
        because = f" Probable cause: {cause.text}." if cause.text else ""
        super().__init__(f"the policy has diverged by epoch {epoch}: it {what}.{because}", exit_code=1)
        self.remedy = cause.remedy


def not_finite(state: dict[str, Any]) -> str | None:
    """The name (its keys) of a captured learner's first tensor with NaN or Infinity; None if all are finite."""
    for top, content in state.items():
        for name, tensor in _tensors(content, top):
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                return name
    return None


def in_distribution(error: BaseException) -> bool:
    """Whether an exception was raised inside one of torch's distributions, because its parameters were non-finite."""
    frames = (frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(name).startswith("torch.distributions") for name in frames)


def _tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _tensors(inner, f"{name}.{key}")

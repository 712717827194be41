"""Observations of a caller become rows that a policy takes, and its actions become what the caller gave.

    rows = Rows.of(obs, spec)            # (n, width) float32; raises UserError for what no policy can act on
    rows.back(action)                    # numpy for numpy, torch for torch, without the leading axis if obs had none

The arrays that come back belong to the caller: they share memory with nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import torch
from torch import Tensor

from livegym.rl.spec import PolicySpec
from livegym.utils.errors import UserError

Array = Union[np.ndarray, Tensor]
"""The kinds of an observation; an action is of the same kind."""

EnvIds = Union[Sequence[int], np.ndarray, Tensor, None]
"""Numbers of environments, or a mask of all of them; None means all."""


@dataclass(frozen=True)
class Rows:
    """The observations of one call."""

    values: Tensor  # (n, width) float32 on the policy's device, finite
    single: bool  # the caller gave one environment without a leading axis
    device: torch.device | None  # that of the caller's tensor; None: the caller gave an array

    @classmethod
    def of(cls, obs: Any, spec: PolicySpec, device: torch.device) -> Rows:
        """Check what a caller gave: (width,) or (n, width), float16, float32 or float64.

        The values share memory with a tensor that is float32 on the device already; they are only read. Raises
        UserError for another kind, dtype or shape, and for NaN or Inf.
        """
        if not isinstance(obs, (np.ndarray, Tensor)):
            raise UserError(
                f"the observation is of type {type(obs).__name__}. Allowed: a numpy array or a torch tensor. "
                "For a list: numpy.array(obs, numpy.float32)"
            )
        _check_dtype(obs)
        _check_shape(tuple(obs.shape), spec)
        there = obs.device if isinstance(obs, Tensor) else None
        given = obs.detach() if isinstance(obs, Tensor) else torch.from_numpy(_single(obs))
        values = given.to(device, torch.float32).reshape(-1, spec.obs_width)
        if not torch.isfinite(values).all():
            raise UserError(_not_finite(values, spec))
        return cls(values, obs.ndim == 1, there)

    def back(self, action: Tensor) -> Any:
        """Actions (n, ...) as the caller gave the observations; a Box action is clipped to [-1, 1], as in training."""
        return self.as_given(action.clamp(-1.0, 1.0) if action.is_floating_point() else action)

    def as_given(self, values: Tensor) -> Any:
        """Values (n, ...) in the kind in which the caller gave the observations."""
        mine = values[0] if self.single else values
        return mine.cpu().numpy() if self.device is None else mine.to(self.device)


def _single(obs: np.ndarray) -> np.ndarray:
    """A contiguous copy in single precision, in which a number that is too large is infinite."""
    with np.errstate(over="ignore"):
        return np.array(obs, np.float32, order="C")


def blocks_text(spec: PolicySpec) -> str:
    """The blocks of an observation for messages: `position 1, angle 2`."""
    return ", ".join(f"{name} {width}" for name, width in spec.observations)


def _check_dtype(obs: Array) -> None:
    real = obs.is_floating_point() if isinstance(obs, Tensor) else obs.dtype.kind == "f"
    if not real:
        raise UserError(
            f"the observation has dtype {obs.dtype}. Allowed: float16, float32, float64. If the numbers are right: "
            "obs.astype(numpy.float32), or obs.float() of a tensor"
        )


def _check_shape(shape: tuple[int, ...], spec: PolicySpec) -> None:
    width = spec.obs_width
    if len(shape) not in (1, 2) or shape[-1] != width:
        raise UserError(
            f"the observation has shape {shape}. Allowed: ({width},) for one environment, or (n, {width}) for n. "
            f"{spec.task} observes {blocks_text(spec)}"
        )


def _not_finite(values: Tensor, spec: PolicySpec) -> str:
    """The message that names the first number that is NaN or infinite."""
    row, column = (int(index) for index in (~torch.isfinite(values)).nonzero()[0])
    names = [f"{name}[{index}]" for name, width in spec.observations for index in range(width)]
    return (
        f"the observation has {float(values[row, column])} in {names[column]}, environment {row}. Allowed: finite "
        "float32 numbers. Find where it comes from; a policy cannot act on it"
    )


def rows_named(env_ids: EnvIds, count: int) -> Tensor:
    """Environments (n,) int64 that a caller names, of `count`: by numbers, or by a mask of all; None means all.

    Raises UserError for a number that no environment has, and for a mask of another length.
    """
    if env_ids is None:
        return torch.arange(count)
    ids = torch.as_tensor(np.asarray(env_ids.cpu() if isinstance(env_ids, Tensor) else env_ids)).reshape(-1)
    if ids.dtype == torch.bool:
        if len(ids) != count:
            raise UserError(f"the mask of environments has {len(ids)} values. Allowed: {count}, one each")
        return ids.nonzero().squeeze(1)
    if len(ids) and (ids.is_floating_point() or int(ids.min()) < 0 or int(ids.max()) >= count):
        raise UserError(f"env_ids={ids.tolist()}: there is no such environment. Allowed: 0 to {count - 1}")
    return ids.long()

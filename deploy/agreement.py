"""Decides whether an exported graph computes what the policy and its task do.

    agreement = Agreement()
    agreement.in_episodes("controls", got, expected)    # (n, ...) as often as there is something to compare
    agreement.random("controls", got, expected)
    checked = agreement.judged(steps=1000)              # raises Differs

A graph adds and multiplies in another order than torch, so its numbers differ by rounding, and rounding is as large as
the numbers that were added, which need not be those that come out: a motor of 500 N that pushes with 0.1 N carries the
rounding of an action of which 1 is 500 N. So each column of an output is judged by its own size over everything that
was compared, and only then:

| output | may differ by |
| --- | --- |
| actions | 1e-5, because they are from -1 to 1 |
| other numbers | 1e-6 + 1e-5 x size, which is the value's own, or the one below which nine in ten of its column are |
| choices, counts, truth values | 0 |

A large column does not excuse a small one beside it, and a few huge values do not excuse the others of their column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from livegym.deploy.controller import ACTIONS
from livegym.utils.errors import UserError

RELATIVE = 1e-5
ABSOLUTE = 1e-6
MOST = 0.9  # the share of a column's values that its size is not below


class Differs(UserError):
    """Raised if a graph does not compute what the policy does."""


@dataclass(frozen=True)
class Checked:
    """The largest differences, as fractions of what is allowed, and how much was compared."""

    in_episodes: float
    random: float
    steps: int  # control steps of one environment


class _Taken(NamedTuple):
    """Values of an output, of n environments or observations."""

    name: str
    in_episodes: bool
    got: Tensor  # (n, columns)
    expected: Tensor  # (n, columns)


class Agreement:
    """The outputs of a graph beside the expected ones, and the judgement."""

    def __init__(self) -> None:
        self._taken: list[_Taken] = []

    def in_episodes(self, name: str, got: Tensor, expected: Tensor) -> None:
        """Take values (n, ...) of an output in episodes. Raises Differs if shape or type differ."""
        self._take(name, True, got, expected)

    def random(self, name: str, got: Tensor, expected: Tensor) -> None:
        """Take values (n, ...) of an output for random inputs. Raises Differs if shape or type differ."""
        self._take(name, False, got, expected)

    def _take(self, name: str, in_episodes: bool, got: Tensor, expected: Tensor) -> None:
        if got.shape != expected.shape or got.dtype != expected.dtype:
            raise Differs(
                f"the exported file does not agree with the policy: {name} is {got.dtype}{list(got.shape)}, expected "
                f"{expected.dtype}{list(expected.shape)}. Nothing was written. This is a fault of livegym"
            )
        if got.numel():
            self._taken.append(_Taken(name, in_episodes, _rows(got), _rows(expected)))

    def judged(self, steps: int) -> Checked:
        """Judge all that was taken, in that order, so that a difference is named before what follows from it.

        Raises Differs if a number differs by more than it may, or is NaN or infinite.
        """
        sizes = {name: self._size(name) for name in dict.fromkeys(taken.name for taken in self._taken)}
        largest = {True: 0.0, False: 0.0}
        for taken in self._taken:
            share = _judged(taken, _allowed(taken, sizes[taken.name]))
            largest[taken.in_episodes] = max(largest[taken.in_episodes], share)
        return Checked(largest[True], largest[False], steps)

    def _size(self, name: str) -> Tensor:
        """(columns,) float64: the size of an output's columns."""
        everything = torch.cat([taken.expected for taken in self._taken if taken.name == name])
        rank = math.ceil(MOST * len(everything))
        return everything.double().abs().kthvalue(rank, dim=0).values


def _rows(values: Tensor) -> Tensor:
    """A copy (n, columns) of values (n, ...)."""
    return values.reshape(len(values), -1).clone()


def _allowed(taken: _Taken, size: Tensor) -> Tensor:
    """(n, columns) float64: by how much values may differ; `size`: (columns,)."""
    expected = taken.expected.double()
    if not taken.expected.is_floating_point():
        return torch.zeros_like(expected)
    if taken.name == ACTIONS:
        return torch.full_like(expected, RELATIVE)
    return ABSOLUTE + RELATIVE * torch.maximum(expected.abs(), size)


def _judged(taken: _Taken, allowed: Tensor) -> float:
    """The largest difference, as a fraction of what is allowed (n, columns). Raises Differs."""
    gap = (taken.got.double() - taken.expected.double()).abs()
    bad = ~(gap <= allowed)  # also NaN
    if bad.any():
        row, column = (int(index) for index in bad.nonzero()[0])
        raise Differs(
            f"the exported file does not agree with the policy: {taken.name} differs by {gap[row, column]:.1e} in "
            f"column {column}, where {taken.expected[row, column]:.4g} is expected; allowed: "
            f"{allowed[row, column]:.1e}. Nothing was written. If the task's control() or observe() reads anything "
            "other than its buffers and the simulator's fields, export the network alone: exportParts=policy"
        )
    return float((gap / allowed).max()) if taken.expected.is_floating_point() else 0.0

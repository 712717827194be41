"""How an action becomes joint targets, in four stages; a task can replace each of them.

    targets = hold(last)                                   1  rule for controls that the policy does not drive
    targets[:, driven] = position_delta(action, last, ...)  2  what the action means
    targets = limit_speed(targets, last, max_step)          3  filters
    targets = limit_range(targets, limits)
    ctrl = couple(targets, matrix)                         4  controls -> joints

All are pure functions of (N, ...) tensors; targets are in m (the base's slides) and rad. A hand has C controls and J
joints: the built-in one has 18 and 26.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from livegym.tasks.hand.table import HandTable
from livegym.utils.errors import UserError, did_you_mean

Rule = Callable[[Tensor], Tensor]
"""last targets (N, C) -> targets (N, C), which hold for the controls that the policy does not drive."""
Meaning = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""action (N, k) in [-1, 1], last targets (N, k), limits (k, 2), largest steps (k,) -> targets (N, k)."""
Filter = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""targets (N, C), last targets (N, C), limits (C, 2), largest steps (C,) -> targets (N, C)."""


def hold(last: Tensor) -> Tensor:
    """Keep the last targets."""
    return last.clone()


def position(action: Tensor, last: Tensor, limits: Tensor, max_step: Tensor) -> Tensor:
    """-1 is the lower limit, 1 the upper one."""
    low, high = limits[:, 0], limits[:, 1]
    return low + 0.5 * (action + 1.0) * (high - low)


def position_delta(action: Tensor, last: Tensor, limits: Tensor, max_step: Tensor) -> Tensor:
    """The last target, moved by up to `max_step`."""
    return last + action * max_step


MEANINGS: dict[str, Meaning] = {"position": position, "position_delta": position_delta}


def limit_speed(targets: Tensor, last: Tensor, limits: Tensor, max_step: Tensor) -> Tensor:
    """Limit the change of each target to `max_step` in a control step."""
    return last + torch.maximum(torch.minimum(targets - last, max_step), -max_step)


def limit_range(targets: Tensor, last: Tensor, limits: Tensor, max_step: Tensor) -> Tensor:
    """Limit each target to the range that the joints can reach."""
    return torch.maximum(torch.minimum(targets, limits[:, 1]), limits[:, 0])


def couple(targets: Tensor, matrix: Tensor) -> Tensor:
    """(N, C) controls @ (C, J) -> (N, J) joint targets."""
    return targets @ matrix


@dataclass(frozen=True)
class ActionPipeline:
    """The four stages of one task, with their constants."""

    driven: Tensor  # (k,) int64: the controls that the policy drives
    limits: Tensor  # (C, 2)
    max_step: Tensor  # (C,) largest change of a target in a control step
    matrix: Tensor  # (C, J)
    meaning: Meaning = position_delta
    rule: Rule = hold
    filters: tuple[Filter, ...] = (limit_speed, limit_range)

    @property
    def size(self) -> int:
        """Width of the action."""
        return len(self.driven)

    def __call__(self, action: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """action (N, k), last targets (N, C) -> targets (N, C) and joint targets (N, J)."""
        targets, driven = self.rule(last), self.driven
        targets[:, driven] = self.meaning(action, last[:, driven], self.limits[driven], self.max_step[driven])
        for keep_within in self.filters:
            targets = keep_within(targets, last, self.limits, self.max_step)
        return targets, couple(targets, self.matrix)


def driven_controls(table: HandTable, base: bool, fingers: bool) -> Tensor:
    """The controls of a hand that a policy drives (k,): those of the base, those of the fingers, or all.

    Raises UserError if it would drive none.
    """
    names = [*(table.base_joints if base else ()), *(table.finger_controls if fingers else ())]
    if not names:
        raise UserError(
            "policy_controls_base=false policy_controls_fingers=false: the policy would drive nothing. "
            "Set at least one of them to true."
        )
    return torch.tensor([table.controls.index(name) for name in names])


def meaning_of(name: str) -> Meaning:
    """The action rule of this name. Raises UserError if there is none."""
    if name not in MEANINGS:
        known: Sequence[str] = sorted(MEANINGS)
        raise UserError(f"action_rule={name}: unknown. Allowed: {', '.join(known)}.{did_you_mean(name, known)}")
    return MEANINGS[name]

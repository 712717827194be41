"""The base class of all tasks of the hand: the hand's model, its action, and how an action moves it."""

from __future__ import annotations

import functools
from pathlib import Path

import mujoco
from torch import Tensor

from livegym.tasks.base import Box, Task, meanings_in
from livegym.tasks.hand.actions import driven_controls
from livegym.tasks.hand.asset import hand_model
from livegym.tasks.hand.box import BesideHand
from livegym.tasks.hand.driven import BOUND, DrivenHand, HandParams
from livegym.tasks.hand.mapped import mapped_hand
from livegym.tasks.hand.names import OURS
from livegym.tasks.hand.senses import HandSenses
from livegym.tasks.hand.skin import hand_skin
from livegym.tasks.hand.table import HandTable
from livegym.tasks.skin import Part


class HandTask(Task):
    """A task whose world has a frame called `hand`, and which binds `self.hand`."""

    params: HandParams
    bound_params = BOUND
    own_look = False
    hand: DrivenHand

    @functools.cached_property
    def table(self) -> HandTable:
        """The names of the hand's parts, and what its controls drive."""
        return OURS if self.params.hand is None else mapped_hand(self.params.hand, self.params.asset)[1]

    @property
    def action_spec(self) -> Box:
        """One number for each control that the policy drives."""
        p = self.params
        return Box(len(driven_controls(self.table, p.policy_controls_base, p.policy_controls_fingers)))

    def parts(self) -> dict[str, Path | mujoco.MjSpec]:
        """The built-in hand, your own with its names, or the one that a name map describes."""
        p = self.params
        return {"hand": hand_model(p.asset) if p.hand is None else mapped_hand(p.hand, p.asset)[0]}

    def skin(self) -> tuple[Part, ...]:
        """That of the built-in hand; your own hand looks as its file says."""
        ours = self.params.asset is None and self.params.hand is None
        return hand_skin() if ours else ()

    def meanings(self) -> dict[str, str]:
        """Those of the hand's blocks, of the box beside it, and of the task's own."""
        return meanings_in(HandSenses.blocks, DrivenHand.blocks, BesideHand.blocks, type(self).observe)

    def control(self, action: Tensor) -> Tensor:
        """Move the hand's targets by the policy's action."""
        return self.hand.drive(action)

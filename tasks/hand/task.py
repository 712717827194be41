"""The base class of all tasks of the hand: the hand's model, its action, and how an action moves it."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from livegym.tasks.base import Box, Task, meanings_in
from livegym.tasks.hand.asset import hand_model
from livegym.tasks.hand.box import BesideHand
from livegym.tasks.hand.driven import BOUND, DrivenHand, HandParams
from livegym.tasks.hand.senses import HandSenses
from livegym.tasks.hand.skin import hand_skin
from livegym.tasks.skin import Part


class HandTask(Task):
    """A task whose world has a frame called `hand`, and which binds `self.hand`."""

    params: HandParams
    bound_params = BOUND
    own_look = False
    hand: DrivenHand

    @property
    def action_spec(self) -> Box:
        """One number for each control that the policy drives."""
        return Box(self.params.action_size)

    def parts(self) -> dict[str, Path]:
        """The built-in hand or your own."""
        return {"hand": hand_model(self.params.asset)}

    def skin(self) -> tuple[Part, ...]:
        """That of the built-in hand; your own hand looks as its file says."""
        return hand_skin() if self.params.asset is None else ()

    def meanings(self) -> dict[str, str]:
        """Those of the hand's blocks, of the box beside it, and of the task's own."""
        return meanings_in(HandSenses.blocks, DrivenHand.blocks, BesideHand.blocks, type(self).observe)

    def control(self, action: Tensor) -> Tensor:
        """Move the hand's targets by the policy's action."""
        return self.hand.drive(action)

"""What every task of the hand has in common: which hand, what its policy decides, and how that moves it."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from livegym.tasks.base import Box, Task
from livegym.tasks.hand.asset import hand_model
from livegym.tasks.hand.driven import BOUND, DrivenHand, HandParams


class HandTask(Task):
    """A task whose world has a frame called `hand`, and which binds `self.hand`."""

    params: HandParams
    bound_params = BOUND
    hand: DrivenHand

    @property
    def action_spec(self) -> Box:
        """One number for each control that the policy drives."""
        return Box(self.params.action_size)

    def parts(self) -> dict[str, Path]:
        """The hand, ours or your own."""
        return {"hand": hand_model(self.params.asset)}

    def control(self, action: Tensor) -> Tensor:
        """The policy moves the hand's targets."""
        return self.hand.drive(action)

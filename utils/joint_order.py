"""The order of joints: a robot's driver counts them in another order than the model, so values travel by name.

order = JointOrder(robot=["FL_hip", "FR_hip"], model=sim.names("joint"))
order.to_robot(targets)     # (..., joints of the model) -> (..., joints of the robot)
order.to_model(measured)    # (..., joints of the robot) -> (..., joints of the model); others are 0
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from livegym.utils.errors import UserError, did_you_mean


class JointOrder:
    """The joints of a robot, in its own order, among those of a model."""

    def __init__(self, robot: Sequence[str], model: Sequence[str]) -> None:
        """Raises UserError for a joint that the model lacks, and for one that is named twice."""
        for name in robot:
            if name not in model:
                raise UserError(
                    f"joint {name} of the robot is not in the model. Allowed: {', '.join(model)}."
                    f"{did_you_mean(name, model)}"
                )
            if list(robot).count(name) > 1:
                raise UserError(f"joint {name} is named twice in the robot's order. Allowed: each joint once.")
        self.columns = [list(model).index(name) for name in robot]
        """Column of the model for each joint of the robot."""
        self.width = len(model)

    def to_robot(self, values: Tensor) -> Tensor:
        """Values (..., joints of the model) in the robot's order."""
        return values[..., self.columns]

    def to_model(self, values: Tensor) -> Tensor:
        """Values (..., joints of the robot) in the model's order; joints that the robot does not have are 0."""
        found = values.new_zeros(*values.shape[:-1], self.width)
        found[..., self.columns] = values
        return found

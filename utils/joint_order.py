"""The order of joints: a robot's driver counts them in another order than the model, so values travel by name.

order = JointOrder(robot=["FR_hip", "FL_hip"], model=["FL_hip", "FL_knee", "FR_hip"])
order.to_robot(targets)     # (..., joints of the model) -> (..., joints of the robot)
order.to_model(measured)    # (..., joints of the robot) -> (..., joints of the model); others are 0

`qpos` and `qvel` have more columns than a model has joints if its base floats: select them with `sim.qpos_ids(joints)`.
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
        """Values (..., joints of the model) in the robot's order. Raises UserError for another number of columns."""
        _check_width(values, self.width, "joints of the model")
        return values[..., self.columns]

    def to_model(self, values: Tensor) -> Tensor:
        """Values (..., joints of the robot) in the model's order; joints that the robot does not have are 0.

        As targets, these would move such joints to 0. Raises UserError for another number of columns.
        """
        _check_width(values, len(self.columns), "joints of the robot")
        found = values.new_zeros(*values.shape[:-1], self.width)
        found[..., self.columns] = values
        return found


def _check_width(values: Tensor, width: int, what: str) -> None:
    if not values.dim() or values.shape[-1] != width:
        raise UserError(
            f"values of shape {tuple(values.shape)}: another number of columns. Allowed: {width} {what} in the last "
            "axis. For qpos and qvel, whose base has columns too, select first: sim.qpos[:, sim.qpos_ids(joints)]"
        )

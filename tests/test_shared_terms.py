"""Terms that tasks share, and the order of joints: numbers computed by hand."""

from __future__ import annotations

import math

import pytest
import torch

from livegym.tasks import shared_terms as terms
from livegym.utils.errors import UserError
from livegym.utils.joint_order import JointOrder

UPRIGHT = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
ROLLED = torch.tensor([[math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0]])  # a quarter turn about x: y points up


def close(value: torch.Tensor, expected: list) -> None:
    torch.testing.assert_close(value, torch.tensor(expected), atol=1e-6, rtol=0)


def test_gravity_and_velocities_in_the_base():
    close(terms.gravity_in_base(UPRIGHT), [[0.0, 0.0, -1.0]])
    close(terms.gravity_in_base(ROLLED), [[0.0, -1.0, 0.0]])
    close(terms.in_base(ROLLED, torch.tensor([[1.0, 0.0, 2.0]])), [[1.0, 2.0, 0.0]])


def test_upright_about_any_axis_of_the_base():
    close(terms.upright(torch.cat([UPRIGHT, ROLLED])), [1.0, 0.0])
    y = torch.tensor([0.0, 1.0, 0.0])
    close(terms.upright(torch.cat([UPRIGHT, ROLLED]), y), [0.0, 1.0])


def test_falling_with_distance():
    close(terms.bell(torch.tensor([0.3, 0.5]), 0.3, 0.2), [1.0, math.exp(-1)])
    close(terms.closeness(torch.tensor([0.0, 0.5]), 4.0), [1.0, math.exp(-2)])


def test_actions_and_power():
    close(terms.action_size(torch.tensor([[1.0, -3.0]])), [5.0])
    close(terms.change(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])), [2.5])
    close(terms.power(torch.tensor([[2.0, -3.0]]), torch.tensor([[0.5, 1.0]])), [4.0])  # braking costs as well


def test_beyond_the_inner_part_of_limits():
    limits = torch.tensor([[-1.0, 1.0], [0.0, 10.0]])  # 0.9 of them: -0.9 to 0.9, and 0.5 to 9.5
    close(terms.beyond(torch.tensor([[0.8, 5.0], [1.0, 0.0], [-1.9, 9.5]]), limits), [0.0, 0.6, 1.0])


def test_feet():
    velocity = torch.tensor([[[3.0, 4.0, 9.0], [1.0, 0.0, 0.0]]])
    force = torch.tensor([[[0.0, 0.0, 5.0], [0.0, 0.0, 0.5]]])
    close(terms.slip(velocity, force), [5.0])  # the second foot is in the air
    on_ground = torch.tensor([[True, True, False]])
    close(terms.first_contacts(on_ground, torch.tensor([[0.5, 0.0, 0.7]]), worth=0.2), [0.3])
    close(terms.excess(torch.tensor([[3.0, 1.0, 6.0]]), firm=2.0), [2.5])


def test_joints_travel_by_name():
    order = JointOrder(robot=["c", "a"], model=["a", "b", "c"])
    close(order.to_robot(torch.tensor([[1.0, 2.0, 3.0]])), [[3.0, 1.0]])
    close(order.to_model(torch.tensor([[3.0, 1.0]])), [[1.0, 0.0, 3.0]])


def test_what_has_no_order_is_refused():
    with pytest.raises(
        UserError, match=r"joint hep of the robot is not in the model\. Allowed: hip, knee\. Did you mean hip"
    ):
        JointOrder(robot=["hep"], model=["hip", "knee"])
    with pytest.raises(UserError, match="joint hip is named twice"):
        JointOrder(robot=["hip", "hip"], model=["hip", "knee"])
    order = JointOrder(robot=["hip"], model=["hip", "knee"])
    with pytest.raises(UserError, match=r"shape \(4, 9\): .*Allowed: 2 joints of the model .*qpos_ids"):
        order.to_robot(torch.zeros(4, 9))  # qpos of a robot that floats
    with pytest.raises(UserError, match=r"Allowed: 1 joints of the robot"):
        order.to_model(torch.zeros(2))

"""Cartpole: push a cart so that the pole on it stays upright.

The classic of Isaac Gym (and, before it, Barto, Sutton and Anderson 1983): a 1 kg cart on a rail carries a hinged
1 kg, 1 m pole; the policy pushes the cart with up to 400 N, 60 times a second, for 500 steps. It may sense positions
and velocities of both joints. An episode ends early when the cart leaves the middle of the rail or the pole falls.

Reward per step, at most 1: `upright` is 1 - angle^2 (rad^2); `cart_speed` and `pole_speed` are the absolute speeds,
weighted with small penalties; `fell` and `off_track` are 1 in the step in which the episode ends for that reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from pathlib import Path

import torch
from torch import Tensor

from livegym.schema.keydoc import key
from livegym.sim.base import Simulator
from livegym.tasks.base import Box, Task

CART, POLE = 0, 1  # joints, in the model's order


@dataclass(frozen=True)
class CartpoleParams:
    """The parameters of Cartpole."""

    max_push: float = key(400.0, "push at action 1", unit="N")
    track_half_length: float = key(3.0, "distance from the middle at which the track ends", unit="m")
    max_pole_angle: float = key(pi / 2, "angle of the pole beyond which it has fallen", unit="rad")
    start_cart_range: float = key(0.1, "largest distance of the cart from the middle at the start", unit="m")
    start_pole_range: float = key(0.1, "largest angle of the pole at the start", unit="rad")
    start_speed_range: float = key(0.25, "largest speed of cart and pole at the start", unit="m/s and rad/s")


class Cartpole(Task):
    """Balance a pole on a cart (500 steps at 60 Hz, one continuous push)."""

    Params = CartpoleParams
    params: CartpoleParams
    own_look = False

    @property
    def action_spec(self) -> Box:
        """One push, as a fraction of `max_push`."""
        return Box(1)

    def model_path(self) -> Path:
        """The cart, the pole and the rail."""
        return Path(__file__).parent / "models" / "cartpole.xml"

    def bind(self, sim: Simulator) -> None:
        """Request joint positions and velocities."""
        sim.require("qpos", "qvel")

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Near the middle, nearly upright, nearly at rest."""
        p = self.params
        noise = 2 * torch.rand(len(env_ids), 4, generator=rng, device=env_ids.device) - 1
        ranges = noise.new_tensor([p.start_cart_range, p.start_pole_range])
        return noise[:, :2] * ranges, noise[:, 2:] * p.start_speed_range

    def control(self, action: Tensor) -> Tensor:
        """(N, 1) in [-1, 1] -> push in N."""
        return action * self.params.max_push

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Named blocks:

        cart_position: of the cart on the rail, in m
        cart_velocity: in m/s
        pole_angle: 0 if the pole is upright, in rad
        pole_velocity: in rad/s
        """
        return {
            "cart_position": state.qpos[:, CART : CART + 1],
            "cart_velocity": state.qvel[:, CART : CART + 1],
            "pole_angle": state.qpos[:, POLE : POLE + 1],
            "pole_velocity": state.qvel[:, POLE : POLE + 1],
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Stay upright, do not rush, do not fall:

        upright: 1 minus the squared angle of the pole in rad
        cart_speed: of the cart, in m/s
        pole_speed: of the pole, in rad/s
        fell: 1 when the pole has fallen
        off_track: 1 when the cart has left the middle of the rail
        """
        ended = self.terminate(state)
        return {
            "upright": 1.0 - state.qpos[:, POLE] ** 2,
            "cart_speed": state.qvel[:, CART].abs(),
            "pole_speed": state.qvel[:, POLE].abs(),
            "fell": ended["fell"].float(),
            "off_track": ended["off_track"].float(),
        }

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Reasons to end:

        fell: the pole's angle is too large
        off_track: the cart has left the middle of the rail
        """
        return {
            "fell": state.qpos[:, POLE].abs() > self.params.max_pole_angle,
            "off_track": state.qpos[:, CART].abs() > self.params.track_half_length,
        }

"""Slider: stop a cart at a mark.

A cart of 1 kg on a rail is pushed with up to 5 N, 50 times a second, and has to come to rest at a mark that is drawn at
the start. It senses where it is, how fast it is, and how far the mark is. An episode ends in success if it rests at
the mark, in failure if it leaves the rail.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from livegym.schema.keydoc import key
from livegym.sim.base import Simulator
from livegym.tasks.base import Box, Task


@dataclass(frozen=True)
class SliderParams:
    """The parameters of Slider."""

    max_push: float = key(5.0, "push at action 1", unit="N", above=0)
    mark_range: float = key(0.8, "largest distance of a mark from the middle", unit="m", above=0)
    rail_half_length: float = key(1.0, "distance from the middle at which the rail ends", unit="m", above=0)
    near: float = key(0.05, "distance to the mark below which the cart is there", unit="m", above=0)
    slow: float = key(0.1, "speed below which the cart is at rest", unit="m/s", above=0)


class Slider(Task):
    """Stop a cart at a mark (4 s at 50 Hz, one push)."""

    Params = SliderParams
    params: SliderParams
    success_reason = "arrived"

    @property
    def action_spec(self) -> Box:
        """One push, as a fraction of `max_push`."""
        return Box(1)

    def model_path(self) -> Path:
        """The cart and its rail."""
        return Path(__file__).parent / "models" / "slider.xml"

    def bind(self, sim: Simulator) -> None:
        """Request the fields that are read, and create a buffer for the mark."""
        sim.require("qpos", "qvel")
        self.mark = self.buffer(sim, "mark")  # (N,) m; saved, resumed and reset with its environment

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """At rest in the middle, with a new mark; all random numbers come from `rng`."""
        draw = 2 * torch.rand(len(env_ids), generator=rng, device=env_ids.device) - 1
        self.mark[env_ids] = self.params.mark_range * draw
        at_rest = torch.zeros(len(env_ids), 1, device=env_ids.device)
        return at_rest, at_rest

    def control(self, action: Tensor) -> Tensor:
        """(N, 1) in [-1, 1] -> push in N."""
        return action * self.params.max_push

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Named blocks, each (N, width)."""
        return {
            "position": state.qpos,
            "velocity": state.qvel,
            "to_mark": self.mark[:, None] - state.qpos,
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Named terms without weights, each (N,)."""
        return {
            "closeness": torch.exp(-3.0 * (self.mark - state.qpos[:, 0]).abs()),
            "effort": action.square().mean(1),
            "arrived": self.terminate(state)["arrived"].float(),
        }

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Named reasons, each (N,) bool."""
        p = self.params
        position = state.qpos[:, 0]
        speed = state.qvel[:, 0].abs()
        return {
            "arrived": ((self.mark - position).abs() < p.near) & (speed < p.slow),
            "left_the_rail": position.abs() > p.rail_half_length,
        }

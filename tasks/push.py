"""Push: a match of two discs in a ring that shrinks; the disc that is outside loses.

Each seat pushes its disc (1 kg, radius 0.2 m) with up to 10 N in each direction, 20 times a second. It senses both
discs and the ring's radius, in its own frame: blue's frame is red's, turned by half a turn about the middle of the
ring. So one policy can take both seats. The ring shrinks from 1.3 m to 0.15 m, in which two discs do not fit, in 10 s:
every episode is decided, unless both discs are outside in the same step, which is a draw.

Reward per step: `won` is 1 for the winner and -1 for the loser in the step that decides the episode; `nearer` is by how
many metres the seat's own disc is nearer to the middle than the other one. Both sum to 0 over the seats.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from livegym.schema.keydoc import key
from livegym.sim.base import Simulator
from livegym.tasks.base import NO_WINNER, Box, Task

RED, BLUE = 0, 1


@dataclass(frozen=True)
class PushParams:
    """The parameters of Push."""

    first_radius: float = key(1.3, "radius of the ring at the start of an episode", unit="m")
    last_radius: float = key(0.15, "radius of the ring when it has shrunk", unit="m")
    shrinking_time: float = key(10.0, "time in which the ring shrinks, at a constant rate", unit="s")
    start_distance: float = key(0.6, "distance of each disc from the middle at the start, before the noise", unit="m")
    start_range: float = key(0.15, "largest offset of a disc at the start, along x and along y", unit="m")


class Push(Task):
    """Two discs push each other out of a ring that shrinks (a match, 20 Hz, decided within 10 s)."""

    Params = PushParams
    params: PushParams
    seats = 2

    @property
    def action_spec(self) -> Box:
        """The push along x and y of the seat's frame, as fractions of 10 N."""
        return Box(2)

    def model_path(self) -> Path:
        """The ring and the two discs."""
        return Path(__file__).parent / "models" / "push.xml"

    def bind(self, sim: Simulator) -> None:
        """Request positions and velocities; the ring's clock is a buffer."""
        sim.require("qpos", "qvel")
        self.control_dt_s = sim.control_dt
        self.steps = self.buffer(sim, "steps")  # (N,) since the start of the episode
        self.facing = torch.tensor([1.0, -1.0], device=sim.device)[:, None]  # (2, 1): half a turn negates x and y

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """On opposite sides of the middle, at rest. The offsets differ: equal policies would mirror each other."""
        p = self.params
        offset = 2 * torch.rand(len(env_ids), 2, 2, generator=rng, device=env_ids.device) - 1  # (n, seat, xy)
        sides = offset.new_tensor([[-p.start_distance, 0.0], [p.start_distance, 0.0]])
        place = (sides + p.start_range * offset).flatten(1)
        return place, torch.zeros_like(place)

    def control(self, action: Tensor) -> Tensor:
        """(R, 2) in [-1, 1] -> (N, 4): red's push along x and y, then blue's."""
        return (action.view(-1, 2, 2) * self.facing).flatten(1)

    def update(self, state: Simulator) -> None:
        """The ring's clock advances."""
        self.steps += 1

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """Named blocks, in the seat's frame, whose origin is the middle of the ring:

        own_position: of the seat's disc, x and y in m
        own_velocity: in m/s
        other_position: of the other disc, x and y in m
        other_velocity: in m/s
        ring_radius: in m
        """
        place, speed = self._seen(state.qpos), self._seen(state.qvel)  # (N, seat, xy)
        return {
            "own_position": place.flatten(0, 1),
            "own_velocity": speed.flatten(0, 1),
            "other_position": (self._seen(state.qpos, turned=True)).flatten(0, 1),
            "other_velocity": (self._seen(state.qvel, turned=True)).flatten(0, 1),
            "ring_radius": self._radius().repeat_interleave(2)[:, None],
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Win, and meanwhile keep to the middle:

        won: 1 for the winner and -1 for the loser, in the step that decides the episode
        nearer: by how much the own disc is nearer to the middle than the other, in m
        """
        winner = self.winner(state)
        signs = winner.new_tensor([1, -1])
        won = torch.where(winner[:, None] == NO_WINNER, 0, torch.where(winner[:, None] == RED, signs, -signs))
        distance = self._distance(state)
        return {"won": won.flatten().float(), "nearer": (distance.flip(1) - distance).flatten()}

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Reasons to end:

        out: the middle of a disc is outside the ring
        """
        return {"out": self._out(state).any(1)}

    def winner(self, state: Simulator) -> Tensor:
        """The seat that is inside while the other is outside."""
        red_out, blue_out = self._out(state).unbind(1)
        decided = torch.where(blue_out, RED, BLUE)
        return torch.where(red_out ^ blue_out, decided, NO_WINNER)

    def _seen(self, of_discs: Tensor, turned: bool = False) -> Tensor:
        """(N, 4) of red and blue -> (N, seat, 2) in the seat's frame: its own, or the other's if `turned`."""
        by_disc = of_discs.view(-1, 2, 2)
        return (by_disc.flip(1) if turned else by_disc) * self.facing

    def _radius(self) -> Tensor:
        """(N,) of the ring, in m."""
        p = self.params
        share = (self.steps * self.control_dt_s / p.shrinking_time).clamp(max=1.0)
        return p.first_radius + (p.last_radius - p.first_radius) * share

    def _distance(self, state: Simulator) -> Tensor:
        """(N, 2) of the discs from the middle, in m."""
        return state.qpos.view(-1, 2, 2).norm(dim=2)

    def _out(self, state: Simulator) -> Tensor:
        """(N, 2) bool: whether the middle of a disc is outside the ring."""
        return self._distance(state) > self._radius()[:, None]

"""Territory: decide every 15 s where the queen spawns, and what.

A territory is a map of 20 x 20 chunks. Its keepers' workers carry minerals from four fields to a depot; protectors
patrol around the fields and kill spawns near them. A queen in the middle lives on energy. Every 15 s she
chooses a chunk and a type: an energy spawn drains minerals near it and gives her their energy, a combat spawn disrupts
the workers near it. She senses 28 numbers about herself, the nearest protectors and the four quadrants
(`tasks/territory/features.py`). An episode ends early when her energy no longer pays for an energy spawn (`collapsed`):
nothing else brings energy.

Reward per step, five terms (`tasks/territory/costs.py`): `survival` is 1 for a spawn that lived, -1 for one that died;
`location` is the energy that it drained; `disruption` counts the workers near it; `capacity` is negative if she cannot
pay, or keeps too little; `exploration` is the age of the chunk. All terms are about the action's own outcome, so a
discount of 0 is enough to learn them. An energy spawn on her own chunk is rest, and is worth 0.

Each territory draws from its own key (`tasks/territory/draws.py`), so that its future does not depend on the other
territories. docs/territory.md describes the game with all formulas.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.base import MultiDiscrete
from livegym.tasks.stream_task import CostTask, Expectation, RawField
from livegym.tasks.territory import costs, dynamics, features, grid, picture
from livegym.tasks.territory.params import TerritoryParams

MAP = (grid.SIDE, grid.SIDE)
MOST = 1e6  # upper bound of each number on one chunk


class Territory(CostTask):
    """Choose a chunk and a type of spawn, on maps with workers, protectors and minerals (200 decisions, 15 s apart)."""

    Params = TerritoryParams
    params: TerritoryParams
    picture_script = "picture.js"
    bound_params = ("observation_interval", "workers", "protectors")

    @property
    def action_spec(self) -> MultiDiscrete:
        """A chunk, row by row, and a type: 0 energy, 1 combat."""
        return MultiDiscrete((grid.CHUNKS, 2))

    @property
    def control_dt(self) -> float:
        """s between two observations."""
        return self.params.observation_interval

    def raw_fields(self) -> dict[str, RawField]:
        """The fields that an outside territory sends."""
        return {
            "workers": RawField(MAP, 0, MOST, "workers at work in each chunk"),
            "protectors": RawField(MAP, 0, MOST, "protectors in each chunk"),
            "minerals": RawField(MAP, 0, MOST, "minerals in each chunk"),
            "age": RawField(MAP, 0, MOST, "steps since a spawn was set within 2 chunks of each chunk"),
            "queen": RawField((2,), 0, grid.SIDE - 1, "row and column of the queen's chunk"),
            "energy": RawField((), 0, self.params.energy_max, "her energy"),
            "survived": RawField((), 0, 1, "1 if the spawn of the last step lived, else 0"),
        }

    def bind(self, sim: Simulator) -> None:
        """Allocate the territories, and the raw observations after and before the last step."""
        shapes = dynamics.shapes(self.params)
        types = {name: torch.float32 if name == "energy" else torch.int64 for name in shapes}
        self.land = dynamics.Land(**{n: self.buffer(sim, n, *shapes[n], dtype=types[n]) for n in shapes})
        self.now = self.buffer(sim, "now", self.raw_width)
        self.before = self.buffer(sim, "before", self.raw_width)

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Make a new map for each environment, from a key that is drawn here."""
        keys = torch.randint(0, 2**62, (len(env_ids),), generator=rng, device=env_ids.device)
        dynamics.begin(self.land, env_ids, keys, self.params)
        raw = self.unpack(self.now)
        raw["age"][env_ids] = self.params.forgotten
        dynamics.draw_map(self.land, raw)
        self.before[env_ids] = self.now[env_ids]
        nothing = torch.zeros(len(env_ids), 0)
        return nothing, nothing

    def control(self, action: Tensor) -> Tensor:
        """Return the choice unchanged; `update` applies it."""
        return action.float()

    def update(self, state: Simulator) -> None:
        """Advance every territory by one step (`tasks/territory/dynamics.py`)."""
        self.before.copy_(self.now)
        raw, action = self.unpack(self.now), state.ctrl.long()
        look = costs.outlook(raw, action, self.params)
        lived = dynamics.advance(self.land, action[:, 0], look, self.params)
        age = raw["age"].flatten(1)
        age += 1
        age.clamp_(max=self.params.forgotten)
        age.masked_fill_(grid.USED[action[:, 0]] & look.spawned[:, None], 0.0)
        raw["survived"].copy_(lived)
        dynamics.draw_map(self.land, raw)

    def raw(self, state: Simulator) -> dict[str, Tensor]:
        """The map as an outside territory would send it."""
        return self.unpack(self.now)

    def features(self, raw: dict[str, Tensor]) -> dict[str, Tensor]:
        """Nine blocks, 28 numbers."""
        return features.features(raw, self.params)

    def expect(self, raw: dict[str, Tensor], action: Tensor) -> Expectation:
        """The reward terms with the chance of survival in place of the outcome; the fallback is rest."""
        look = costs.outlook(raw, action, self.params)
        terms = costs.terms(look, look.survival, self.params)
        return Expectation(terms, look.spawned, look.survival, costs.rest(raw))

    def picture(self, raw: dict[str, Tensor], action: Tensor) -> dict[str, Any]:
        """One territory's map, and the spawn that was chosen on it."""
        return picture.picture(raw, action, self.params)

    def stream_reward(self, before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> dict[str, Tensor]:
        """Survive, at a good place, near workers, within her means, on chunks that were long unused."""
        look = costs.outlook(before, action.long(), self.params)
        return costs.terms(look, after["survived"], self.params)

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """The reward of a stream, between the raw observations before and after the step."""
        return self.stream_reward(self.unpack(self.before), action, self.raw(state))

    def episode_metrics(self, state: Simulator) -> dict[str, Tensor]:
        """The queen's energy at the end."""
        return {"energy": self.land.energy}

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """The queen cannot pay for an energy spawn any more, and nothing else would bring energy."""
        return {"collapsed": self.land.energy < self.params.energy_cost}

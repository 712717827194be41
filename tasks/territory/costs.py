"""The reward terms of a spawn: the same functions compute the actual reward and the gate's expected reward.

    look = outlook(raw, action, params)          # before the spawn: chance of survival, price, what is near
    terms(look, lived, params)                   # `lived` (n,): 1 or 0 as it happened, or look.survival to expect

Every term is linear in `lived`, so the terms of the expected `lived` are the expected terms. Each has n rows.

- survival: chance s(d) = (1 - exp(-k x)) / (1 - exp(-k)), x = (d - 2) / 6 in [0, 1], of the distance d to the nearest
  protector in chunks: 0 up to 2, 1 from 8 on. The term is +1 for a spawn that lived, -1 for one that died.
- location: energy that a living energy spawn drains, divided by `drain`: the minerals in reach, each field's times
  1 - steps / 4, but no more than the queen has room for.
- disruption: workers at work within 3 chunks of a living spawn, divided by `crowd`, at most 1; times
  `energy_disruption` for an energy spawn.
- capacity: -1 if the queen's energy does not pay for the spawn, so that nothing is spawned; otherwise between -1/2 and
  0, by the fraction of `reserve` that she then lacks.
- exploration: the chunk's age divided by `forgotten`, at most 1, for every spawn, also one that died.

An energy spawn on the queen's own chunk is rest: nothing is spawned or paid, and every term is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp

import torch
from torch import Tensor

from livegym.tasks.territory import grid
from livegym.tasks.territory.params import TerritoryParams

ENERGY, COMBAT = 0, 1  # the second choice of an action
CERTAIN_DEATH, SAFE = 2.0, 8.0  # chunks from the nearest protector
Raw = dict[str, Tensor]


@dataclass(frozen=True)
class Outlook:
    """The facts about n spawns before they happen; all (n,)."""

    rests: Tensor  # bool: the action is rest
    spawned: Tensor  # bool: neither rest nor too expensive
    energetic: Tensor  # bool: an energy spawn
    survival: Tensor  # chance of survival at the place, 0 to 1
    left: Tensor  # energy minus the price, negative if it is too expensive
    gain: Tensor  # energy that it would drain
    workers: Tensor  # at work within reach of a disruption
    age: Tensor  # steps since the chunk was last used


def survival(distance: Tensor, params: TerritoryParams) -> Tensor:
    """Chunks from the nearest protector -> chance of survival: 0 up to 2, 1 from 8 on, continuous."""
    part = ((distance - CERTAIN_DEATH) / (SAFE - CERTAIN_DEATH)).clamp(0.0, 1.0)
    return (-torch.expm1(-params.fade * part) / (1 - exp(-params.fade))).clamp(max=1.0)


def nearest_protector(raw: Raw, chunk: Tensor) -> Tensor:
    """Distance (n,) in chunks from chunks (n,) to the nearest protector of each row; FAR if there is none."""
    there = raw["protectors"].flatten(1) > 0
    return torch.where(there, grid.SQUARED.index_select(0, chunk), grid.FAR**2).amin(1).sqrt()


def queens_place(raw: Raw) -> Tensor:
    """Row and column (n, 2) int64 of the queen's chunk."""
    return raw["queen"].round().long().clamp(0, grid.SIDE - 1)


def rest(raw: Raw) -> Tensor:
    """(n, 2) int64: an energy spawn on the queen's own chunk."""
    chunk = grid.chunk_of(queens_place(raw))
    return torch.stack([chunk, torch.full_like(chunk, ENERGY)], dim=1)


def outlook(raw: Raw, action: Tensor, params: TerritoryParams) -> Outlook:
    """Raw observations and actions (n, 2) int64 -> the outlook of each."""
    chunk, kind = action[:, 0], action[:, 1]
    energetic = kind == ENERGY
    rests = energetic & (chunk == grid.chunk_of(queens_place(raw)))
    price = torch.where(energetic, params.energy_cost, params.combat_cost)
    left = raw["energy"] - price
    in_reach = (raw["minerals"].flatten(1) * grid.REACHED.index_select(0, chunk)).sum(1)  # quarters: sum is exact
    return Outlook(
        rests=rests,
        spawned=~rests & (left >= 0),
        energetic=energetic,
        survival=survival(nearest_protector(raw, chunk), params),
        left=left,
        gain=torch.minimum(in_reach, params.energy_max - left).clamp(0.0, params.drain),
        workers=(raw["workers"].flatten(1) * grid.DISRUPTED.index_select(0, chunk)).sum(1),
        age=raw["age"].flatten(1).gather(1, chunk[:, None])[:, 0],
    )


def terms(look: Outlook, lived: Tensor, params: TerritoryParams) -> dict[str, Tensor]:
    """Named, unweighted reward terms (n,); `lived` (n,) float32 from 0 to 1."""
    spawned = look.spawned.float()
    alive = spawned * lived
    strength = torch.where(look.energetic, params.energy_disruption, 1.0)
    lacking = 1 - (look.left / params.reserve).clamp(0.0, 1.0)
    too_expensive = (~look.spawned & ~look.rests).float()
    return {
        "survival": 2 * alive - spawned,
        "location": alive * look.energetic * look.gain / params.drain,
        "disruption": alive * strength * (look.workers / params.crowd).clamp(max=1.0),
        "capacity": 0.0 - too_expensive - 0.5 * spawned * lacking,  # 0, not -0
        "exploration": spawned * (look.age / params.forgotten).clamp(max=1.0),
    }

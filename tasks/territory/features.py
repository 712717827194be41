"""The policy's observation, computed from a raw observation: 28 numbers, most in [0, 1], offsets in [-1, 1].

queen 2 (row and column, divided by the map's size), energy 1 (divided by `energy_max`), survived 1 (the last spawn
lived), threats 4 (rows and columns from her to the nearest two protectors, divided by the map's size; 1, 1 if there is
none), and for each quadrant (north-west, north-east, south-west, south-east): minerals 4 (divided by those of one full
field), workers 4 (those at work, divided by half of all), protectors 4 (divided by all), age 4 (mean, divided by
`forgotten`), safety 4 (chance of survival on the quadrant's richest chunk, given the three protectors nearest to the
queen).
"""

from __future__ import annotations

import torch
from torch import Tensor

from livegym.tasks.territory import grid
from livegym.tasks.territory.costs import Raw, queens_place, survival
from livegym.tasks.territory.params import TerritoryParams

WATCHED = 3  # protectors that `safety` takes into account
NAMED = 2  # those of them that `threats` contains one by one


def features(raw: Raw, params: TerritoryParams) -> dict[str, Tensor]:
    """Raw observations of n territories -> named blocks, each (n, width)."""
    queen = queens_place(raw)
    near, there = nearest_protectors(raw, grid.chunk_of(queen))
    towards = (grid.PLACES[near[:, :NAMED]] - queen[:, None]) / grid.SIDE  # (n, 2, 2)
    by_quadrant = {
        name: raw[name].flatten(1) @ grid.IN_QUADRANT for name in ("minerals", "workers", "protectors", "age")
    }
    chunks = grid.CHUNKS // grid.QUADRANTS
    return {
        "queen": queen / (grid.SIDE - 1),
        "energy": (raw["energy"] / params.energy_max)[:, None],
        "survived": raw["survived"][:, None].clone(),
        "threats": torch.where(there[:, :NAMED, None], towards, 1.0).flatten(1),
        "minerals": (by_quadrant["minerals"] / params.field_size).clamp(max=1.0),
        "workers": (by_quadrant["workers"] / (0.5 * params.workers)).clamp(max=1.0),
        "protectors": (by_quadrant["protectors"] / params.protectors).clamp(max=1.0),
        "age": (by_quadrant["age"] / (chunks * params.forgotten)).clamp(max=1.0),
        "safety": safety(richest(raw), near, there, params),
    }


def nearest_protectors(raw: Raw, chunk: Tensor) -> tuple[Tensor, Tensor]:
    """The WATCHED chunks with protectors that are nearest to chunks (n,), and which of them exist: (n, 3) each.

    If two are equally near, the one with the lower chunk number comes first: they are sorted by distance^2 * 400 +
    chunk, which is an integer.
    """
    order = grid.SQUARED.index_select(0, chunk) * grid.CHUNKS + torch.arange(grid.CHUNKS)
    order = torch.where(raw["protectors"].flatten(1) > 0, order, torch.inf)
    found = order.topk(WATCHED, dim=1, largest=False).values
    there = torch.isfinite(found)
    return torch.where(there, found % grid.CHUNKS, 0.0).long(), there


def richest(raw: Raw) -> Tensor:
    """(n, 4) the chunk of each quadrant with the most minerals; if several have as many, the one nearest its centre."""
    n, half = len(raw["minerals"]), grid.SIDE // 2
    squares = raw["minerals"].reshape(n, 2, half, 2, half).transpose(2, 3)  # (n, 2, 2, 10, 10)
    best = (squares.reshape(n, grid.QUADRANTS, half * half) + grid.FIRST).argmax(2)  # (n, 4)
    return grid.CHUNKS_OF[torch.arange(grid.QUADRANTS), best]


def safety(places: Tensor, protectors: Tensor, there: Tensor, params: TerritoryParams) -> Tensor:
    """Chunks (n, k), protectors' chunks (n, m) and which of them exist -> chance of survival (n, k)."""
    squared = grid.SQUARED[places[:, :, None], protectors[:, None]]  # (n, k, m)
    return survival(torch.where(there[:, None], squared, grid.FAR**2).amin(2).sqrt(), params)

"""The map: 20 x 20 chunks, counted row by row, with constant tables of distances that are made once."""

from __future__ import annotations

import torch
from torch import Tensor

SIDE = 20
CHUNKS = SIDE * SIDE
QUADRANTS = 4  # north-west, north-east, south-west, south-east
FAR = 2.0 * SIDE  # chunks: farther than anything on the map

REACH = 4  # distance in chunks (the larger of rows and columns) from which on a spawn reaches no minerals
DISRUPTS = 3  # the same distance, within which workers are disrupted
USES = 2  # the same distance, within which chunks around a spawn count as used


def chunk_of(place: Tensor) -> Tensor:
    """Rows and columns (..., 2) int64 -> chunk numbers (...)."""
    return place[..., 0] * SIDE + place[..., 1]


def place_of(chunk: Tensor) -> Tensor:
    """Chunk numbers (...) int64 -> rows and columns (..., 2)."""
    return torch.stack([chunk // SIDE, chunk % SIDE], dim=-1)


PLACES = place_of(torch.arange(CHUNKS))  # (400, 2) rows and columns
_APART = (PLACES[:, None] - PLACES[None]).abs()  # (400, 400, 2) rows and columns
STEPS = _APART.amax(2)  # (400, 400) int64, the larger of rows and columns between two chunks
SQUARED = _APART.square().sum(2).float()  # (400, 400) chunks^2, straight-line distance
REACHED = (1 - STEPS / REACH).clamp(min=0)  # (400, 400) fraction of minerals in a spawn's reach: 0 to 4 quarters
DISRUPTED = (STEPS <= DISRUPTS).float()  # (400, 400) 1 if workers are near enough
USED = STEPS <= USES  # (400, 400) bool

_SOUTH, _EAST = (PLACES >= SIDE // 2).long().unbind(1)
IN_QUADRANT = torch.nn.functional.one_hot(2 * _SOUTH + _EAST, QUADRANTS).float()  # (400, 4)
CHUNKS_OF = IN_QUADRANT.T.nonzero()[:, 1].view(QUADRANTS, CHUNKS // QUADRANTS)  # (4, 100) chunk numbers
CENTRES = torch.tensor([[5, 5], [5, 14], [14, 5], [14, 14]])  # (4, 2) around which mineral fields lie
_BY_NEARNESS = SQUARED[chunk_of(CENTRES)[:, None], CHUNKS_OF].argsort(dim=1, stable=True).argsort(dim=1)
FIRST = 0.4 - _BY_NEARNESS / 1000  # (4, 100) less than 1 mineral, so it only breaks ties: nearest the centre first

"""The dynamics of a territory: its state, and the effect of a step. All values are integers except the queen's energy.

In each step, in this order, for all territories at once:

1. the spawn is paid for and placed; whether it lives is drawn with its chance of survival (`costs.survival`);
2. a living energy spawn drains the fields in reach, a living combat spawn stuns the workers near it;
3. every chunk's age grows by 1; chunks around the spawn count as used, and their age begins again at 0;
4. workers walk 2 chunks between the depot and a field, where they take minerals; each draws its next field at the
   depot; fields regrow;
5. protectors walk 1 or 2 chunks on their routes: rectangles around a mineral field.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from livegym.tasks.territory import draws, grid
from livegym.tasks.territory.costs import Outlook
from livegym.tasks.territory.params import TerritoryParams

WALK = 2  # chunks that a worker walks in a step, in rows and in columns
LAYOUT = 64  # random numbers for the layout of a map; those for workers and protectors follow


@dataclass
class Land:
    """The state of N territories; int64 except `energy`. Tensors are allocated once and changed in place."""

    key: Tensor  # (N,) key of the random numbers
    tick: Tensor  # (N,) steps since the start
    energy: Tensor  # (N,) float32, energy of the queen
    queen: Tensor  # (N, 2) row and column
    depot: Tensor  # (N, 2) row and column of the depot, to which workers bring minerals
    field: Tensor  # (N, 4, 2) rows and columns of the mineral fields, one per quadrant
    minerals: Tensor  # (N, 4)
    route: Tensor  # (N, P, 4) first row, first column, rows and columns of a rectangle
    patrol: Tensor  # (N, P, 2) chunks walked from its first corner, and chunks per step, signed
    worker: Tensor  # (N, W, 2) row and column
    errand: Tensor  # (N, W, 3) field that it works at; 1 with a load; steps for which it is stunned


SHAPES = {"key": (), "tick": (), "energy": (), "queen": (2,), "depot": (2,), "field": (4, 2), "minerals": (4,)}


def shapes(params: TerritoryParams) -> dict[str, tuple[int, ...]]:
    """Name of a tensor of Land -> its shape without the leading axis."""
    many = {"route": (params.protectors, 4), "patrol": (params.protectors, 2)}
    return SHAPES | many | {"worker": (params.workers, 2), "errand": (params.workers, 3)}


def begin(land: Land, env_ids: Tensor, keys: Tensor, params: TerritoryParams) -> None:
    """Lay out new territories in environments (n,), each from its key alone."""
    for name, value in vars(laid_out(keys, params)).items():
        getattr(land, name)[env_ids] = value


def laid_out(key: Tensor, params: TerritoryParams) -> Land:
    """The start state of n territories, from their keys (n,)."""
    n = len(key)
    p = params.protectors
    w = params.workers
    zero = torch.zeros_like(key)
    drawn = draws.bits(key, zero, LAYOUT + 6 * p + 3 * w)
    field = grid.CENTRES + drawn[:, :8].view(n, 4, 2) % 3 - 1
    depot = 7 + drawn[:, 8:10] % 6
    half = params.field_size // 2
    route, patrol = _routes(field, drawn[:, 14:15], drawn[:, LAYOUT : LAYOUT + 6 * p].view(n, p, 6))
    of_worker = drawn[:, LAYOUT + 6 * p :].view(n, w, 3)
    errand = torch.stack([of_worker[..., 0] % 4, of_worker[..., 1] % 2, torch.zeros_like(of_worker[..., 0])], dim=2)
    to_field = field.gather(1, errand[..., :1].expand(n, w, 2)) - depot[:, None]
    worker = depot[:, None] + torch.div(to_field * (of_worker[..., 2:] % 5), 4, rounding_mode="trunc")
    return Land(
        key=key,
        tick=zero,
        energy=torch.full((n,), min(params.energy_start, params.energy_max)),
        queen=8 + drawn[:, 12:14] % 4,
        depot=depot,
        field=field,
        minerals=half + drawn[:, 16:20] % (params.field_size - half + 1),
        route=route,
        patrol=patrol,
        worker=worker,
        errand=errand,
    )


def _routes(field: Tensor, first: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
    """Fields (n, 4, 2), a number (n, 1) for the first guarded field, numbers (n, p, 6) -> route and patrol."""
    n, p = drawn.shape[:2]
    guarded = (first + torch.arange(p)) % grid.QUADRANTS
    middle = field.gather(1, guarded[..., None].expand(n, p, 2))
    half = 3 + drawn[..., :2] % 3
    low, high = (middle - half).clamp(min=0), (middle + half).clamp(max=grid.SIDE - 1)
    sides = high - low
    at = drawn[..., 2] % (2 * sides.sum(2))
    pace = (1 + drawn[..., 3] % 2) * (1 - 2 * (drawn[..., 4] % 2))
    return torch.cat([low, sides], dim=2), torch.stack([at, pace], dim=2)


def on_route(route: Tensor, at: Tensor) -> Tensor:
    """Rectangles (..., 4) and steps (...) along them -> rows and columns (..., 2)."""
    first = route[..., :2]
    a = route[..., 2]
    b = route[..., 3]
    row = torch.minimum(at.clamp(min=0), a) - torch.minimum((at - a - b).clamp(min=0), a)
    column = torch.minimum((at - a).clamp(min=0), b) - torch.minimum((at - 2 * a - b).clamp(min=0), b)
    return first + torch.stack([row, column], dim=-1)


def advance(land: Land, chunk: Tensor, look: Outlook, params: TerritoryParams) -> Tensor:
    """Advance one step with spawns on chunks (N,); returns which of them lived, (N,) bool. The caller updates ages."""
    land.tick += 1
    drawn = draws.bits(land.key, land.tick, 1 + land.worker.shape[1])
    lived = look.spawned & (draws.uniform(drawn[:, 0]) < look.survival)
    _settle(land, chunk, look, lived)
    land.errand[..., 2] = (land.errand[..., 2] - 1).clamp(min=0)
    _disrupt(land, chunk, lived & ~look.energetic, params.stun)
    _work(land, drawn[:, 1:], params)
    land.minerals += params.regrowth
    land.minerals.clamp_(max=params.field_size)
    land.patrol[..., 0] = (land.patrol[..., 0] + land.patrol[..., 1]) % (2 * land.route[..., 2:].sum(2))
    return lived


def _settle(land: Land, chunk: Tensor, look: Outlook, lived: Tensor) -> None:
    """Pay for spawns, and drain minerals for energy; each field in reach gives its share, in whole minerals."""
    land.energy.copy_(torch.where(look.spawned, look.left, land.energy))
    drains = lived & look.energetic
    land.energy += drains * look.gain
    in_reach = land.minerals * grid.REACHED[chunk[:, None], grid.chunk_of(land.field)]  # (N, 4)
    part = (look.gain / in_reach.sum(1).clamp(min=1.0)).clamp(max=1.0)
    land.minerals -= drains[:, None] * (in_reach * part[:, None]).round().long()


def _disrupt(land: Land, chunk: Tensor, fights: Tensor, stun: int) -> None:
    near = grid.STEPS[chunk[:, None], grid.chunk_of(land.worker)] <= grid.DISRUPTS  # (N, W)
    hit = near & fights[:, None] & (land.errand[..., 2] == 0)
    land.errand[..., 1] *= ~hit  # a stunned worker drops its load
    land.errand[..., 2] += stun * hit


def _work(land: Land, drawn: Tensor, params: TerritoryParams) -> None:
    """Move workers that are not stunned; at a field they take minerals, at the depot they draw the next field."""
    goal, loaded, stunned = land.errand.unbind(2)
    at_work = stunned == 0
    field = land.field.gather(1, goal[..., None].expand(*goal.shape, 2))
    target = torch.where(loaded[..., None] == 1, land.depot[:, None], field)
    land.worker += (target - land.worker).clamp(-WALK, WALK) * at_work[..., None]
    arrived = at_work & (land.worker == target).all(2)
    mines, unloads = arrived & (loaded == 0), arrived & (loaded == 1)
    taken = torch.zeros_like(land.minerals).scatter_add_(1, goal, params.load * mines)
    land.minerals.copy_((land.minerals - taken).clamp(min=0))
    goal.copy_(torch.where(unloads, drawn % grid.QUADRANTS, goal))
    loaded.copy_(loaded ^ arrived)


def draw_map(land: Land, raw: dict[str, Tensor]) -> None:
    """Write workers, protectors, minerals (each (N, 20, 20)), queen and energy into a raw observation."""
    at_work = (land.errand[..., 2] == 0).float()
    protector = grid.chunk_of(on_route(land.route, land.patrol[..., 0]))
    for name, chunk, count in (
        ("workers", grid.chunk_of(land.worker), at_work),
        ("protectors", protector, torch.ones_like(protector, dtype=torch.float32)),
        ("minerals", grid.chunk_of(land.field), land.minerals.float()),
    ):
        raw[name].flatten(1).zero_().scatter_add_(1, chunk, count)
    raw["queen"].copy_(land.queen)
    raw["energy"].copy_(land.energy)

"""The numbers of the game, with units. A step is one observation of 15 s; a chunk is one square of the map."""

from __future__ import annotations

from dataclasses import dataclass

from livegym.schema import key


@dataclass(frozen=True)
class TerritoryParams:
    """The parameters of Territory."""

    observation_interval: float = key(15.0, "simulated time between two observations", unit="s", above=0, high=3600)
    workers: int = key(12, "number of workers", low=1, high=200)
    protectors: int = key(3, "number of protectors, each on a route around a mineral field", low=1, high=20)

    energy_start: float = key(60.0, "the queen's energy at the start", unit="energy", low=0)
    energy_max: float = key(100.0, "maximum energy of the queen", unit="energy", above=0)
    energy_cost: float = key(5.0, "price of an energy spawn", unit="energy", low=0)
    combat_cost: float = key(8.0, "price of a combat spawn", unit="energy", low=0)
    reserve: float = key(20.0, "energy to keep back; below it, spawning is penalised", unit="energy", above=0)
    drain: float = key(15.0, "maximum energy that one energy spawn drains", unit="energy", above=0)

    field_size: int = key(100, "capacity of a mineral field", unit="minerals", low=2, high=100_000)
    regrowth: int = key(3, "minerals that each field gains per step", unit="minerals", low=0)
    load: int = key(3, "minerals that a worker takes from a field at once", unit="minerals", low=0)
    stun: int = key(3, "time for which a disrupted worker does nothing", unit="steps", low=0)

    fade: float = key(3.0, "how steeply a protector's danger fades between 2 and 8 chunks", above=0, high=50)
    crowd: float = key(4.0, "workers at work near a spawn that count as full disruption", unit="workers", above=0)
    energy_disruption: float = key(
        0.25, "disruption by an energy spawn, as a fraction of a combat spawn's", low=0, high=1
    )
    forgotten: int = key(40, "maximum age of a chunk, and its age at the start", unit="steps", low=1, high=100_000)

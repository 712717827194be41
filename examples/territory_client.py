"""A game in its own process, which sends raw observations and needs nothing of livegym except the client.

    python train.py config=continuous task=Territory simulator=external online.training_interval=0
    python examples/territory_client.py --url http://127.0.0.1:58080/ --streams 4

Each territory is a stream. The server computes the policy's observation and, from the next raw observation, the reward.
So the last observation of an episode must be sent too, marked as its end. The rules are those of livegym's task
Territory, one map at a time; docs/territory.md explains them.
"""

from __future__ import annotations

import argparse

import numpy as np

from livegym_client import Client, Decision, LivegymError, Refused

SIDE, FIELDS = 20, 4  # side of the map in chunks; mineral fields, one in each quadrant
WORKERS, PROTECTORS = 12, 3
# prices: energy spawn, combat spawn
ENERGY = 60.0
MOST_ENERGY = 100.0
PRICES = (5.0, 8.0)
DRAIN = 15.0
# minerals: most in a field, growth per step, load of a worker; steps
FIELD = 100
REGROWTH = 3
LOAD = 3
STUN = 3
# chunks; the last one is in steps
WALK = 2
REACH = 4
DISRUPTS = 3
USES = 2
FORGOTTEN = 40
STEPS = 200  # in an episode
CENTRES = np.array([[5, 5], [5, 14], [14, 5], [14, 14]])
PLACES = np.stack(np.divmod(np.arange(SIDE * SIDE), SIDE), 1)  # (400, 2) row and column of each chunk


def survival(distance: float) -> float:
    """Return the chance to survive, by the distance in chunks to the nearest protector: 0 up to 2, 1 from 8."""
    part = float(np.clip((distance - 2.0) / 6.0, 0.0, 1.0))
    return float((1 - np.exp(-3.0 * part)) / (1 - np.exp(-3.0)))


def apart(places: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the Chebyshev distance between places (..., 2) and the place `at`."""
    return np.abs(places - at).max(-1)


class Territory:
    """One map: a queen that spawns, workers that carry minerals, protectors that patrol."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.reset()

    def reset(self) -> None:
        """Start a new episode on a new random map."""
        rng = self.rng
        self.count = 0
        self.energy = ENERGY
        self.survived = 0.0
        self.queen, self.depot = rng.integers(8, 12, 2), rng.integers(7, 13, 2)
        self.field = CENTRES + rng.integers(-1, 2, (FIELDS, 2))
        self.minerals = rng.integers(FIELD // 2, FIELD + 1, FIELDS)
        self.age = np.full((SIDE, SIDE), float(FORGOTTEN))
        self.goal, self.loaded = rng.integers(0, FIELDS, WORKERS), rng.integers(0, 2, WORKERS)
        self.stunned = np.zeros(WORKERS, int)
        way = (self.field[self.goal] - self.depot) * rng.integers(0, 5, (WORKERS, 1))
        self.worker = self.depot + np.trunc(way / 4).astype(int)
        guarded, half = (rng.integers(FIELDS) + np.arange(PROTECTORS)) % FIELDS, rng.integers(3, 6, (PROTECTORS, 2))
        self.corner = np.maximum(self.field[guarded] - half, 0)
        self.sides = np.minimum(self.field[guarded] + half, SIDE - 1) - self.corner
        self.at = rng.integers(0, 2 * self.sides.sum(1))
        self.pace = rng.integers(1, 3, PROTECTORS) * rng.choice([-1, 1], PROTECTORS)

    def protectors(self) -> np.ndarray:
        """Return rows and columns (P, 2) of the protectors, on the rectangles that they patrol."""
        a, b = self.sides.T
        row = np.minimum(self.at, a) - np.clip(self.at - a - b, 0, a)
        column = np.clip(self.at - a, 0, b) - np.clip(self.at - 2 * a - b, 0, b)
        return self.corner + np.stack([row, column], 1)

    def raw(self) -> dict[str, np.ndarray | float]:
        """Return the raw observation; names and shapes are those of the served spec."""
        maps = {name: np.zeros((SIDE, SIDE)) for name in ("workers", "protectors", "minerals")}
        np.add.at(maps["workers"], tuple(self.worker.T), self.stunned == 0)
        np.add.at(maps["protectors"], tuple(self.protectors().T), 1)
        np.add.at(maps["minerals"], tuple(self.field.T), self.minerals)
        return {**maps, "age": self.age, "queen": self.queen, "energy": self.energy, "survived": self.survived}

    def step(self, chunk: int, kind: int) -> bool:
        """Spawn on a chunk, with type 0 (energy) or 1 (combat); return whether the episode ends."""
        position, left = PLACES[chunk], self.energy - PRICES[kind]
        rests = kind == 0 and (position == self.queen).all()
        spawned = left >= 0 and not rests
        near = np.sqrt(np.square(self.protectors() - position).sum(1).min())
        lived = bool(spawned and self.rng.random() < survival(near))
        self.survived = float(lived)
        self.energy = left if spawned else self.energy
        self.stunned = np.maximum(self.stunned - 1, 0)
        if lived and kind == 0:
            self._drain(position)
        if lived and kind == 1:
            hit = (apart(self.worker, position) <= DISRUPTS) & (self.stunned == 0)
            self.loaded[hit], self.stunned[hit] = 0, STUN
        self.age = np.minimum(self.age + 1, FORGOTTEN)
        if spawned:
            self.age[apart(PLACES, position).reshape(SIDE, SIDE) <= USES] = 0
        self._work()
        self.minerals = np.minimum(self.minerals + REGROWTH, FIELD)
        self.at = (self.at + self.pace) % (2 * self.sides.sum(1))
        self.count += 1
        return self.count >= STEPS or self.energy < PRICES[0]

    def _drain(self, position: np.ndarray) -> None:
        """Turn minerals of the fields in reach into energy, more from closer ones; whole minerals are removed."""
        in_reach = self.minerals * np.clip(1 - apart(self.field, position) / REACH, 0, None)
        gain = min(in_reach.sum(), MOST_ENERGY - self.energy, DRAIN)
        self.energy += gain
        self.minerals = self.minerals - np.rint(in_reach * min(gain / max(in_reach.sum(), 1.0), 1.0)).astype(int)

    def _work(self) -> None:
        """Move the workers that are not stunned; they load minerals at a field, and choose a new field at the depot."""
        target = np.where(self.loaded[:, None] == 1, self.depot, self.field[self.goal])
        at_work = self.stunned == 0
        self.worker = self.worker + np.clip(target - self.worker, -WALK, WALK) * at_work[:, None]
        arrived = at_work & (self.worker == target).all(1)
        taken = np.bincount(self.goal[arrived & (self.loaded == 0)], minlength=FIELDS) * LOAD
        self.minerals = np.maximum(self.minerals - taken, 0)
        unloads = arrived & (self.loaded == 1)
        self.goal = np.where(unloads, self.rng.integers(0, FIELDS, WORKERS), self.goal)
        self.loaded = self.loaded ^ arrived


def decided(client: Client, lands: dict[str, Territory], ended: list[str]) -> dict[str, Decision]:
    """Return the decisions for all territories; first, report the `ended` episodes and reset their territories."""
    if ended:
        check(client.decide_all({name: lands[name].raw() for name in ended}, done=ended))
        for name in ended:
            lands[name].reset()
    return check(client.decide_all({name: land.raw() for name, land in lands.items()}))


def check(outcomes: dict) -> dict[str, Decision]:
    """Return the decisions among the outcomes. Raises Refused if one was refused."""
    for outcome in outcomes.values():
        if isinstance(outcome, Refused):
            raise outcome
    return {name: outcome for name, outcome in outcomes.items() if outcome is not None}


def main() -> None:
    """Step all territories together and print the fraction of spawns that survived."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--url", default="http://127.0.0.1:58080/", help="as the server prints it")
    options.add_argument("--token", help="the server's token, if it needs one")
    options.add_argument("--steps", type=int, default=2_000, help="decisions in each stream")
    options.add_argument("--streams", type=int, default=2, help="number of territories")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    seeds = np.random.default_rng(given.seed).spawn(given.streams)
    lands = {f"territory-{i}": Territory(seed) for i, seed in enumerate(seeds)}
    lived: list[float] = []
    ended: list[str] = []
    with Client(given.url, given.token) as client:
        for step in range(given.steps):
            decisions = decided(client, lands, ended)
            ended = []
            for name, land in lands.items():
                chunk, kind = decisions[name].action or (SIDE * land.queen[0] + land.queen[1], 0)  # no action: rest
                ended += [name] if land.step(int(chunk), int(kind)) else []
                lived.append(land.survived)
            if len(lived) >= 100 or step + 1 == given.steps:
                print(f"{(step + 1) * len(lands):8d} decisions  {np.mean(lived):6.1%} lived", flush=True)
                lived.clear()


if __name__ == "__main__":
    try:
        main()
    except LivegymError as error:
        raise SystemExit(f"error: {error}") from error

"""Weights that are a function of their number, so that a torn or a mixed vector is told exactly."""

from __future__ import annotations

import torch

from live.bus_reader import Publication
from live.publish import Publisher


def weights(number: int, size: int = 1000) -> dict[str, torch.Tensor]:
    """Three arrays of three kinds, every element of which is the number."""
    return {
        "a.weight": torch.full((size,), float(number)),
        "count": torch.tensor(float(number), dtype=torch.float64),
        "steps": torch.full((3, 5), number, dtype=torch.int64),
    }


def is_whole(publication: Publication) -> bool:
    """Whether it is what was published under its version, in every element."""
    expected = weights(publication.version, len(publication.model["a.weight"]))
    return all(torch.equal(publication.model[name], value) for name, value in expected.items())


def publish(publisher: Publisher, number: int, size: int = 1000) -> None:
    """Publication `number`, which has version `number`."""
    reward = None if number == 1 else float(number)
    publisher.publish(weights(number, size), number, number, 10 * number, reward)

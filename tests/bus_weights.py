"""Weights that are a function of their number, so that a torn or a mixed vector is told exactly."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch

from livegym.weights.bus_reader import Publication
from livegym.weights.publish import Publisher, VersionFacts


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
    publisher.publish(weights(number, size), VersionFacts(number, number, 10 * number, reward))


def left_by_a_dead_writer(file: Path, *numbers: int) -> None:
    """A bus whose writer, another process, has published `numbers` and was killed.

    A fork: a new interpreter would take two seconds to load torch.
    """
    child = os.fork()
    if child == 0:
        try:
            die(str(file), numbers)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def die(file: str, numbers: tuple[int, ...]) -> None:
    """Publishes, and kills itself."""
    publisher = Publisher(Path(file), {}, "", weights(0))
    for number in numbers:
        publish(publisher, number)
    os.kill(os.getpid(), signal.SIGKILL)

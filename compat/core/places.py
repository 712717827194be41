"""Where the environments of one engine are in tensors of all environments.

    places = Places(envs, group)
    rows = places.read(root, "actor")        # (n, actors, 13), a view if they lie in one piece
    places.write(root, "actor", rows)

Tensors are flat: environment after environment, in each its actors, DOFs, bodies or sensors, as many as it has.
"""

from __future__ import annotations

import numpy as np

from livegym.compat.core.group import Group
from livegym.compat.core.record import Env

KINDS = ("actor", "dof", "body", "sensor")


def counts(env: Env) -> dict[str, int]:
    """How many rows an environment has in tensors of each kind."""
    sensors = sum(len(actor.sensors) for actor in env.actors)
    return {"actor": len(env.actors), "dof": env.dof_count, "body": env.body_count, "sensor": sensors}


class Places:
    """The rows of one group's environments."""

    def __init__(self, envs: list[Env], group: Group) -> None:
        """`envs`: all environments of the simulation."""
        per_env = [counts(env) for env in envs]
        self.size = counts(group.envs[0])
        self._num_envs = len(group.envs)
        self._first: dict[str, int] = {}
        self._rows: dict[str, np.ndarray | None] = {}  # (n, size); None: one piece from the first
        for kind in KINDS:
            starts = np.cumsum([0, *(each[kind] for each in per_env)])[:-1][group.ids]
            self._first[kind] = int(starts[0])
            in_one_piece = (np.diff(starts) == self.size[kind]).all()
            self._rows[kind] = None if in_one_piece else starts[:, None] + np.arange(self.size[kind])

    def read(self, flat: np.ndarray, kind: str) -> np.ndarray:
        """These environments' rows of an array (rows, ...): (n, size, ...)."""
        rows = self._rows[kind]
        if rows is not None:
            return flat[rows]
        first, size = self._first[kind], self.size[kind]
        return flat[first : first + self._num_envs * size].reshape(self._num_envs, size, *flat.shape[1:])

    def write(self, flat: np.ndarray, kind: str, values: np.ndarray) -> None:
        """Put rows that `read` gave, and that have changed, back."""
        rows = self._rows[kind]
        if rows is not None:
            flat[rows] = values

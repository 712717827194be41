"""Forces that users apply to bodies, in addition to those of the task's randomisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from livegym.sim.base import APPLIED, Simulator
from livegym.utils.errors import UserError

MAX_FORCE = 1e5  # N and N m
MAX_SECONDS = 60.0


class Pushes:
    """Open pushes of one test. Owned by the control loop."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], tuple[Tensor, int]] = {}  # (env, body) -> (6,) N and N m, steps left
        self._applied: list[tuple[int, int]] = []

    def add(self, sim: Simulator, env_id: int, body_name: str, wrench: Sequence[float], seconds: float) -> None:
        """Begin a push; it replaces an open one on the same body. Raises UserError if an argument is invalid.

        wrench (6,): N and N m at the body's centre of mass, in world axes; seconds: of simulated time.
        """
        if not 0 <= env_id < sim.num_envs:
            raise UserError(f"push: environment {env_id} does not exist; allowed: 0 to {sim.num_envs - 1}")
        finite = all(math.isfinite(value) and abs(value) <= MAX_FORCE for value in (*wrench, seconds))
        if not finite or not 0 <= seconds <= MAX_SECONDS:
            raise UserError(
                f"push {tuple(wrench[:3])} N, {tuple(wrench[3:])} N m for {seconds} s: allowed: finite numbers from "
                f"{-MAX_FORCE:g} to {MAX_FORCE:g}, for 0 to {MAX_SECONDS:g} s"
            )
        if not hasattr(sim, APPLIED):
            raise UserError("push: these environments accept no forces. Start the test with viewer=true or watch=true")
        try:
            body = int(sim.body_ids([body_name])[0])
        except ValueError as error:
            raise UserError(f"push: {error}") from error
        steps = max(1, round(seconds / sim.control_dt))
        self._open[env_id, body] = (torch.tensor(wrench), steps)

    def clear(self, sim: Simulator) -> None:
        """Remove the forces that the last step added. Called before a step, in which randomisation sets its own."""
        for env_id, body in self._applied:
            sim.xfrc_applied[env_id, body] = 0.0
        self._applied.clear()

    def apply(self, sim: Simulator) -> None:
        """Add the forces of the open pushes. Called within a step, before the physics."""
        for (env_id, body), (wrench, steps) in list(self._open.items()):
            sim.xfrc_applied[env_id, body] += wrench.to(sim.device)
            self._applied.append((env_id, body))
            if steps > 1:
                self._open[env_id, body] = (wrench, steps - 1)
            else:
                del self._open[env_id, body]

    def forget(self, env_ids: list[int]) -> None:
        """End the pushes in these environments, in which new episodes begin."""
        self._open = {key: value for key, value in self._open.items() if key[0] not in env_ids}

    @property
    def bodies(self) -> list[tuple[int, int]]:
        """(environment, body) of each open push."""
        return list(self._open)

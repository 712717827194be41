"""Forces that people apply to bodies, added to whatever the task's own randomisation applies."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from livegym.play.requests import Push
from livegym.sim.base import APPLIED, Simulator
from livegym.utils.errors import UserError

MAX_FORCE = 1e5  # N and N m
MAX_SECONDS = 60.0


class Pushes:
    """Open pushes of one test. Belongs to the control loop."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], tuple[Tensor, int]] = {}  # (env, body) -> (6,) N and N m, steps left
        self._applied: list[tuple[int, int]] = []

    def add(self, sim: Simulator, push: Push) -> None:
        """Begins a push, in the place of one on the same body. Raises UserError where it makes no sense."""
        if not 0 <= push.env_id < sim.num_envs:
            raise UserError(f"push: environment {push.env_id}: there are 0 to {sim.num_envs - 1}")
        values = (*push.force, *push.torque, push.seconds)
        if not all(math.isfinite(v) and abs(v) <= MAX_FORCE for v in values) or not 0 <= push.seconds <= MAX_SECONDS:
            raise UserError(
                f"push {push.force} N, {push.torque} N m for {push.seconds} s: numbers up to {MAX_FORCE:g}, "
                f"for 0 to {MAX_SECONDS:g} s"
            )
        if not hasattr(sim, APPLIED):
            raise UserError("push: these environments take no forces; watch with viewer=true or watch=true")
        try:
            body = int(sim.body_ids([push.body])[0])
        except ValueError as error:
            raise UserError(f"push: {error}") from error
        steps = max(1, round(push.seconds / sim.control_dt))
        self._open[push.env_id, body] = (torch.tensor([*push.force, *push.torque]), steps)

    def clear(self, sim: Simulator) -> None:
        """Before a step: takes back what the last one added; randomisation writes its own anew in the step."""
        for env_id, body in self._applied:
            sim.xfrc_applied[env_id, body] = 0.0
        self._applied.clear()

    def apply(self, sim: Simulator) -> None:
        """Within a step, before the physics: adds the open pushes."""
        for (env_id, body), (wrench, steps) in list(self._open.items()):
            sim.xfrc_applied[env_id, body] += wrench.to(sim.device)
            self._applied.append((env_id, body))
            if steps > 1:
                self._open[env_id, body] = (wrench, steps - 1)
            else:
                del self._open[env_id, body]

    def forget(self, env_ids: list[int]) -> None:
        """Episodes of these environments begin anew."""
        self._open = {key: value for key, value in self._open.items() if key[0] not in env_ids}

    @property
    def bodies(self) -> list[tuple[int, int]]:
        """(environment, body) of open pushes."""
        return list(self._open)

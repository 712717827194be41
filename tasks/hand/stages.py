"""A task in stages: the stage of each environment, the time spent in it, and the step to the next one.

    self.stages = Stages(self, sim, ("pre_grasp", "grasp", "lift"))     # in bind()
    self.stages.update(done)                                            # in update(): done (N, S) bool
    self.stages.at("grasp")                                             # (N,) bool

Stages only move forward, by at most one per control step; the last stage never ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from livegym.sim.base import Simulator
from livegym.tasks.base import Task


class Stages:
    """The stage of N environments, in buffers of the task: it is saved, restored and reset with its environment."""

    def __init__(self, task: Task, sim: Simulator, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.control_dt = sim.control_dt
        self.index = task.buffer(sim, "stage", dtype=torch.int64)
        self.time = task.buffer(sim, "time_in_stage")  # s
        self.entered = task.buffer(sim, "stage_entered", dtype=torch.bool)  # in this control step

    def update(self, done: Tensor) -> None:
        """Advance by one control step; done (N, S) bool: the conditions that finish each stage hold."""
        self.entered.copy_(next_stage(self.index, done) > self.index)
        self.index += self.entered
        self.time.copy_(torch.where(self.entered, 0.0, self.time + self.control_dt))

    def at(self, name: str) -> Tensor:
        """(N,) bool: in this stage."""
        return self.index == self.names.index(name)

    def one_hot(self) -> Tensor:
        """(N, S) float32: 1 for the present stage, otherwise 0."""
        return torch.nn.functional.one_hot(self.index, len(self.names)).float()


def lasted(timer: Tensor, seconds: float, control_dt: float) -> Tensor:
    """(N,) bool: timers (N,) in s have reached `seconds`, within half a control step, as their sums are not exact."""
    return (timer > 0) & (timer > seconds - 0.5 * control_dt)


def next_stage(stage: Tensor, done: Tensor) -> Tensor:
    """stage (N,) int64, done (N, S) bool -> (N,) int64: one further if the present stage is done."""
    here = done.gather(1, stage[:, None]).squeeze(1)
    return (stage + here).clamp(max=done.shape[1] - 1)

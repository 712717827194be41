"""The cost-function gate: judges an action by the reward that the task expects of it, before it is executed.

    gate = CostGate(task, config.task.rewards, threshold=0.5)
    judgement = gate.evaluate(raw, action, confidence)       # raw (n, task.raw_width), packed raw observations

The expected reward comes from the task (`CostTask.expect`): the expectation of its own reward terms, with the same
weights, so that it agrees with the mean of the actual rewards. The verdict is SEND if the action would have an effect,
its chance of success is high enough and its expected reward is at least the threshold; otherwise it is WAIT, and the
task's fallback action is executed.

The judgement depends on `observation` and `action` alone, so a later re-evaluation gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from livegym.online.experience import Verdict
from livegym.online.gate import Judgement, check_choices
from livegym.tasks.stream_task import CostTask
from livegym.utils.errors import UserError, did_you_mean


class CostGate:
    """A gate (`online/gate.py`) for any `CostTask`; the task need not be bound to a simulator."""

    name = "cost"

    def __init__(
        self, task: CostTask, rewards: Mapping[str, float], threshold: float, least_chance: float = 0.5
    ) -> None:
        """`rewards`: weights of the task's reward terms; `threshold`: least expected reward of a SEND.

        `least_chance`: least chance of success of a SEND. Raises UserError if a weight is missing or unknown, or if
        a limit is out of its range.
        """
        if not np.isfinite(threshold):
            raise UserError(f"the gate's threshold is {threshold}; allowed: a finite number.")
        if not 0 <= least_chance <= 1:
            raise UserError(f"the gate's least_chance is {least_chance}; allowed: 0 to 1.")
        self._task = task
        self._threshold = threshold
        self._least_chance = least_chance
        self._weights = {name: float(weight) for name, weight in rewards.items()}
        self._check_names()

    def _check_names(self) -> None:
        fields = self._task.raw_fields()
        lowest = [torch.full((1, *field.shape), min(max(0.0, field.low), field.high)) for field in fields.values()]
        action = self._read_action(np.zeros((1, self._task.action_spec.width)), 1)
        known = list(self._task.expect(dict(zip(fields, lowest, strict=True)), action).terms)
        for name in self._weights:
            if name not in known:
                near = did_you_mean(name, known)
                raise UserError(f"rewards.{name}: unknown term. Allowed: {', '.join(known)}.{near}")
        missing = [name for name in known if name not in self._weights]
        if missing:
            raise UserError(f"rewards: no weight for {', '.join(missing)}. Needed: one for each of {', '.join(known)}.")

    def evaluate(self, observation: np.ndarray, action: np.ndarray, confidence: np.ndarray) -> Judgement:
        """Packed raw observations (n, S) and actions (n, A) -> verdict, expected reward, weighted terms, fallback.

        Raises ValueError for wrong shapes, non-finite values, and out-of-range discrete actions.
        """
        raw, chosen = self._read(observation), self._read_action(action, len(observation))
        found = self._task.expect(raw, chosen)
        components = {name: self._weights[name] * value for name, value in found.terms.items()}
        expected = torch.stack(list(components.values())).sum(0)
        sent = found.possible & (found.chance >= self._least_chance) & (expected >= self._threshold)
        return Judgement(
            verdict=np.where(sent.numpy(), Verdict.SEND, Verdict.WAIT).astype(np.int8),
            expected=expected.numpy(),
            components={name: value.numpy() for name, value in components.items()},
            fallback=found.fallback.numpy(),
        )

    def _read(self, observation: np.ndarray) -> dict[str, Tensor]:
        if not np.isfinite(observation).all():
            raise ValueError("the gate's input has non-finite numbers; allowed: finite numbers only")
        return self._task.unpack(torch.from_numpy(np.array(observation, dtype=np.float32)))

    def _read_action(self, action: np.ndarray, n: int) -> Tensor:
        width = self._task.action_spec.width
        if action.shape != (n, width):
            raise ValueError(f"actions have shape {action.shape}; allowed: ({n}, {width})")
        check_choices(action, self._task.action_spec)
        return torch.from_numpy(action.astype(np.float32 if self._task.action_spec.choices is None else np.int64))

"""The cost-function gate: judges a spawn by what it can be expected to bring, before it happens.

    gate = CostGate(task, config.task.rewards, threshold=0.5)
    judgement = gate.evaluate(seen, action, confidence)      # seen (n, task.raw_width), packed raw observations

The expected reward is that of the task itself: the same terms, out of the same functions, with the chance of survival
in place of the survival that came (`tasks/territory/costs.py`), by the same weights. Rewards after the fact thus agree
with it in the mean. SEND where a spawn happens, is likely enough to survive, and is expected to bring enough; else
WAIT, after which the queen rests: an energy spawn on her own chunk, which costs nothing and is worth 0.

The judgement depends on `seen` and `action` alone, so what is judged again later is judged alike.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from online.experience import Verdict
from online.gate import Judgement
from tasks.territory import Territory, grid
from tasks.territory.costs import ENERGY, Raw, queens_place
from utils.errors import UserError, did_you_mean


class CostGate:
    """A gate (`online/gate.py`) for Territory. The task needs not be bound to a simulator."""

    name = "cost"

    def __init__(
        self, task: Territory, rewards: Mapping[str, float], threshold: float, least_survival: float = 0.5
    ) -> None:
        """`rewards`: the weights of the task's terms; `threshold`: the least expected reward that is sent.

        `least_survival`: the least chance to live that is sent. Raises UserError where a weight is missing or unknown,
        or a limit is out of its range.
        """
        if not np.isfinite(threshold):
            raise UserError(f"the gate's threshold is {threshold}; allowed: a finite number.")
        if not 0 <= least_survival <= 1:
            raise UserError(f"the gate's least_survival is {least_survival}; allowed: 0 to 1.")
        self._task, self._threshold, self._least_survival = task, threshold, least_survival
        self._weights = {name: float(weight) for name, weight in rewards.items()}
        self._check_names()

    def _check_names(self) -> None:
        nothing = self._task.unpack(torch.zeros(1, self._task.raw_width))
        known = list(self._task.stream_reward(nothing, torch.zeros(1, 2, dtype=torch.int64), nothing))
        for name in self._weights:
            if name not in known:
                near = did_you_mean(name, known)
                raise UserError(f"rewards.{name}: no such term. Allowed: {', '.join(known)}.{near}")
        missing = [name for name in known if name not in self._weights]
        if missing:
            raise UserError(f"the gate lacks the weight of {', '.join(missing)}: give all of rewards.")

    def evaluate(self, seen: np.ndarray, action: np.ndarray, confidence: np.ndarray) -> Judgement:
        """Packed raw observations (n, S) and actions (n, 2) -> verdict, expected reward, weighted terms, fallback.

        Raises ValueError for shapes that do not fit, numbers that are none, and choices that there are not.
        """
        raw, chosen = self._read(seen), self._read_action(action, len(seen))
        look = self._task.outlook(raw, chosen)
        terms = self._task.terms(look, look.survival)
        components = {name: self._weights[name] * value for name, value in terms.items()}
        expected = torch.stack(list(components.values())).sum(0)
        sent = look.spawned & (look.survival >= self._least_survival) & (expected >= self._threshold)
        return Judgement(
            verdict=np.where(sent.numpy(), Verdict.SEND, Verdict.WAIT).astype(np.int8),
            expected=expected.numpy(),
            components={name: value.numpy() for name, value in components.items()},
            fallback=_rest(raw).numpy(),
        )

    def _read(self, seen: np.ndarray) -> Raw:
        if not np.isfinite(seen).all():
            raise ValueError("what the gate sees has numbers that are not finite; allowed: finite numbers only")
        return self._task.unpack(torch.from_numpy(np.array(seen, dtype=np.float32)))

    def _read_action(self, action: np.ndarray, n: int) -> Tensor:
        nvec = np.array(self._task.action_spec.nvec)
        if action.shape != (n, len(nvec)):
            raise ValueError(f"actions have shape {action.shape}; allowed: ({n}, {len(nvec)})")
        wrong = ~((action >= 0) & (action < nvec) & (action == np.floor(action))).all(1)
        if wrong.any():
            shown, ends = action[wrong][0].tolist(), ", ".join(f"0 to {size - 1}" for size in nvec)
            raise ValueError(f"action {shown}: there is no such choice; allowed: whole numbers, {ends}")
        return torch.from_numpy(action.astype(np.int64))


def _rest(raw: Raw) -> Tensor:
    """(n, 2) int64: an energy spawn on the queen's own chunk."""
    chunk = grid.chunk_of(queens_place(raw))
    return torch.stack([chunk, torch.full_like(chunk, ENERGY)], dim=1)

"""Territory with a reward rule that changes once."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from livegym.schema import key
from livegym.sim.base import Simulator
from livegym.tasks.territory.params import TerritoryParams
from livegym.tasks.territory.task import Territory


@dataclass(frozen=True)
class NoonParams(TerritoryParams):
    """Territory's, and the time of the change."""

    noon: int = key(2880, "observations of each stream until the rule changes", low=0)


class NoonTerritory(Territory):
    """Territory; from noon on, drained energy earns nothing and disrupted workers earn five times as much."""

    Params = NoonParams
    params: NoonParams

    def bind(self, sim: Simulator) -> None:
        """Begin the day."""
        super().bind(sim)
        self.steps = 0

    def update(self, state: Simulator) -> None:
        """Advance every territory and the clock by one step."""
        super().update(state)
        self.steps += 1

    def stream_reward(self, before: dict[str, Tensor], action: Tensor, after: dict[str, Tensor]) -> dict[str, Tensor]:
        """The terms of Territory until noon, and the other rule's after it."""
        terms = super().stream_reward(before, action, after)
        if self.steps > self.params.noon:
            terms["location"] = 0.0 * terms["location"]
            terms["disruption"] = 5.0 * terms["disruption"]
        return terms

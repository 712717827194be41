"""BaseTask: bring a floating hand and its fingers into a commanded pose.

This is the quick sanity check of the dexterous hand, and the template for new hand tasks. A weightless hand with six
base joints and five fingers floats above the ground. At the start of each episode, a goal pose is drawn for all 18
controls. The policy moves the targets of the controls at limited speeds. It senses its joints, its last targets and the
goal. An episode ends in success once every control has been within `tolerance` of its goal (as a fraction of its range)
for `hold_s`; otherwise it lasts 4 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from livegym.schema import key
from livegym.sim.base import Simulator
from livegym.tasks.hand.driven import DrivenHand, HandParams
from livegym.tasks.hand.stages import lasted
from livegym.tasks.hand.task import HandTask
from livegym.tasks.shared_terms import action_size, closeness


@dataclass(frozen=True)
class BaseTaskParams(HandParams):
    """Parameters of BaseTask."""

    goal_range: float = key(
        0.5, "fraction of each control's range, about its middle, from which goals are drawn", above=0, high=1
    )
    start_range: float = key(
        0.2, "fraction of each control's range, about its middle, from which start poses are drawn", low=0, high=1
    )
    tolerance: float = key(
        0.1, "distance within which a goal counts as reached, as a fraction of the control's range", above=0, high=1
    )
    hold_s: float = key(0.2, "time for which all goals must be reached at once", unit="s", above=0)


class BaseTask(HandTask):
    """Bring a dexterous hand into a commanded pose (4 s at 50 Hz, 18 controls)."""

    Params = BaseTaskParams
    params: BaseTaskParams
    success_reason = "reached"

    def model_path(self) -> Path:
        """The hand above the ground."""
        return Path(__file__).parent / "models" / "hand" / "base_task.xml"

    def bind(self, sim: Simulator) -> None:
        """Bind the hand; create buffers for its goal, and for the time that it has been there."""
        self.sim, self.hand = sim, DrivenHand(self, sim, self.table)
        self.goal = self.buffer(sim, "goal", len(self.table.controls))
        self.held = self.buffer(sim, "held")  # s

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw a pose near the middle of every range, and a goal for the controls that the policy drives."""
        start = self._drawn(env_ids, self.params.start_range, rng)
        goal = start.clone()
        driven = self.hand.pipeline.driven
        goal[:, driven] = self._drawn(env_ids, self.params.goal_range, rng)[:, driven]
        self.goal[env_ids] = goal
        qpos = self.hand.put(self.sim.default_qpos.repeat(len(env_ids), 1), env_ids, start)
        return qpos, torch.zeros(len(env_ids), self.sim.qvel.shape[1])

    def update(self, state: Simulator) -> None:
        """Measure the time for which all goals have been reached at once."""
        self.hand.update()
        reached = (self._distance().abs() <= self.params.tolerance).all(1)
        self.held.copy_(torch.where(reached, self.held + state.control_dt, 0.0))

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """The hand's senses and targets, and

        goal: goal pose of the controls, as fractions of their ranges, measured from the middle
        to_goal: difference from each control to its goal, as a fraction of its range
        """
        return {
            **self.hand.blocks(),
            "goal": (self.goal - self.hand.middle) / self.hand.range,
            "to_goal": self._distance(),
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Come close, use little effort, arrive:

        closeness: exp(-4 x mean distance to the goal, as a fraction of the ranges)
        effort: mean square of the action
        reached: 1 in the step that ends the episode in success
        """
        return {
            "closeness": closeness(self._distance().abs().mean(1), 4.0),
            "effort": action_size(action),
            "reached": self.outcome(self.terminate(state))[0],
        }

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Success, when the goal has been held:

        reached: every control has been within `tolerance` of its goal for `hold_s`; success
        """
        return {"reached": lasted(self.held, self.params.hold_s, state.control_dt)}

    def _drawn(self, env_ids: Tensor, part: float, rng: torch.Generator) -> Tensor:
        """(n, controls) uniform about the middle of each range."""
        noise = torch.rand(len(env_ids), len(self.table.controls), generator=rng, device=env_ids.device) - 0.5
        return self.hand.middle + part * self.hand.range * noise

    def _distance(self) -> Tensor:
        """(N, controls) difference from the joints to the goal, as a fraction of each control's range."""
        return (self.goal - self.hand.controls()) / self.hand.range

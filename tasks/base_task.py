"""BaseTask: bring a floating hand and its fingers into a commanded pose.

The quick sanity check of the dexterous hand, and what new hand tasks are copied from. A hand of six base joints and
five fingers hangs above the ground without weight; at the start of each episode a pose is drawn for all 18 controls.
The policy moves the targets of the controls, at limited speeds, and senses its joints, its last targets and the goal.
An episode ends in success once every control has been within `tolerance` of its goal (as a part of its range) for
`hold_s`; otherwise it lasts 4 s.

Reward a step: `closeness` is exp(-4 x mean distance), the distance as a part of each control's range; `effort` the mean
square of the action, with a small penalty; `reached` is 1 in the step that ends the episode in success.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from sim.base import Simulator
from tasks.base import Box, Task
from tasks.hand.actions import ActionPipeline, driven_controls, meaning_of
from tasks.hand.names import BASE_JOINTS, CONTROLS, JOINTS, control_limits, coupling
from tasks.hand.senses import HandSenses

SLIDES = 3  # of the base joints


@dataclass(frozen=True)
class BaseTaskParams:
    """What can be changed about BaseTask."""

    policy_controls_base: bool = True
    policy_controls_fingers: bool = True
    action_rule: str = "position_delta"  # or position
    slide_speed: float = 0.5  # m/s, the fastest that a target of the base moves
    turn_speed: float = 2.0  # rad/s
    finger_speed: float = 5.0  # rad/s
    goal_range: float = 0.5  # part of each control's range, about its middle, from which goals are drawn
    start_range: float = 0.2  # the same for the start pose
    tolerance: float = 0.05  # part of a control's range within which a goal is reached
    hold_s: float = 0.2  # s, for which all goals must be reached
    contact_threshold: float = 0.1  # N


class BaseTask(Task):
    """Bring a dexterous hand into a commanded pose (4 s at 50 Hz, 18 controls)."""

    Params = BaseTaskParams
    params: BaseTaskParams
    success_reason = "reached"

    @property
    def action_spec(self) -> Box:
        """One number for each control that the policy drives."""
        p = self.params
        return Box(len(driven_controls(p.policy_controls_base, p.policy_controls_fingers)))

    def model_path(self) -> Path:
        """The hand above the ground."""
        return Path(__file__).parent / "models" / "hand" / "base_task.xml"

    def bind(self, sim: Simulator) -> None:
        """The hand's senses, the limits of its controls, and what is remembered between steps."""
        p, device = self.params, sim.device
        self.sim, self.senses = sim, HandSenses(sim, p.contact_threshold)
        self.columns = torch.tensor(sim.actuator_ids(JOINTS), device=device)  # of ctrl
        self.limits = control_limits(sim.ctrl_range[self.columns.cpu()]).to(device)
        self.range = self.limits[:, 1] - self.limits[:, 0]
        self.middle = self.limits.mean(1)
        speeds = torch.full((len(CONTROLS),), p.finger_speed)
        speeds[:SLIDES], speeds[SLIDES : len(BASE_JOINTS)] = p.slide_speed, p.turn_speed
        self.pipeline = ActionPipeline(
            driven=driven_controls(p.policy_controls_base, p.policy_controls_fingers).to(device),
            limits=self.limits,
            max_step=(speeds * sim.control_dt).to(device),
            matrix=coupling().to(device),
            meaning=meaning_of(p.action_rule),
        )
        self.targets = self.buffer(sim, "targets", len(CONTROLS))
        self.goal = self.buffer(sim, "goal", len(CONTROLS))
        self.held = self.buffer(sim, "held")  # s
        self.last_action = self.buffer(sim, "last_action", self.pipeline.size)

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """A pose near the middle of every range; a goal where the policy can go, the start pose where it cannot."""
        start = self._drawn(env_ids, self.params.start_range, rng)
        goal = start.clone()
        driven = self.pipeline.driven
        goal[:, driven] = self._drawn(env_ids, self.params.goal_range, rng)[:, driven]
        self.targets[env_ids], self.goal[env_ids] = start, goal
        qpos = self.sim.default_qpos.repeat(len(env_ids), 1)
        qpos[:, self.senses.base_q + self.senses.finger_q] = start @ self.pipeline.matrix
        return qpos, torch.zeros(len(env_ids), self.sim.qvel.shape[1])

    def control(self, action: Tensor) -> Tensor:
        """Targets move, within speed and range; then 18 controls become 26 joint targets."""
        targets, ctrl = self.pipeline(action, self.targets)
        self.targets.copy_(targets)
        self.last_action.copy_(action)
        self.held.copy_(torch.where(self._reached(), self.held + self.sim.control_dt, 0.0))
        return torch.zeros_like(self.sim.ctrl).index_copy(1, self.columns, ctrl)

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """The hand's senses, its targets, and how far each goal is."""
        return {
            **self.senses.blocks(),
            "targets": (self.targets - self.middle) / self.range,
            "last_action": self.last_action,
            "goal": (self.goal - self.middle) / self.range,
            "to_goal": self._distance(),
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Come close, waste little, arrive."""
        return {
            "closeness": torch.exp(-4.0 * self._distance().abs().mean(1)),
            "effort": action.square().mean(1),
            "reached": self.terminate(state)["reached"].float(),
        }

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """All goals were reached for long enough."""
        return {"reached": self.held >= self.params.hold_s}

    def _drawn(self, env_ids: Tensor, part: float, rng: torch.Generator) -> Tensor:
        """(n, 18) uniform about the middle of each range."""
        noise = torch.rand(len(env_ids), len(CONTROLS), generator=rng, device=env_ids.device) - 0.5
        return self.middle + part * self.range * noise

    def _distance(self) -> Tensor:
        """(N, 18) from where the joints are to the goal, as a part of each control's range."""
        joints = self.sim.qpos[:, self.senses.base_q + self.senses.finger_q]
        return (self.goal - self._controls(joints)) / self.range

    def _controls(self, joints: Tensor) -> Tensor:
        """(N, 26) joints -> (N, 18): the control that fits them best, in the sense of least squares."""
        matrix = self.pipeline.matrix
        return joints @ matrix.T / matrix.square().sum(1)

    def _reached(self) -> Tensor:
        return (self._distance().abs() <= self.params.tolerance).all(1)

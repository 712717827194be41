"""A hand that a task drives: it turns actions into joint targets, and remembers both.

self.hand = DrivenHand(self, sim)                     # in bind()
ctrl = self.hand.drive(action)                        # in control(): (N, k) -> (N, nu)
self.hand.update()                                    # in update(): contact timers
blocks = self.hand.blocks()                           # in observe()
qpos = self.hand.put(qpos, env_ids, pose)             # in reset(): pose (n, C) of the controls

A hand has C controls, F of them of its fingers: the built-in one has 18 and 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor

from livegym.schema import key
from livegym.sim.base import Simulator
from livegym.tasks.base import Task
from livegym.tasks.hand.actions import ActionPipeline, driven_controls, meaning_of
from livegym.tasks.hand.map_file import map_names
from livegym.tasks.hand.senses import HandSenses
from livegym.tasks.hand.table import SLIDES, HandTable

BOUND = ("slide_speed", "turn_speed", "finger_speed", "contact_threshold")
"""Parameters that are read once, in `bind`."""


@dataclass(frozen=True)
class HandParams:
    """Parameters of how a hand is driven."""

    policy_controls_base: bool = key(True, "the policy moves the base; false: it stays where it began")
    policy_controls_fingers: bool = key(True, "the policy moves the fingers; false: they stay where they began")
    action_rule: str = key(
        "position_delta",
        "meaning of an action: position_delta moves the targets, position sets them",
        choices=("position", "position_delta"),
    )
    slide_speed: float = key(0.5, "maximum speed of the targets of the base's slides", unit="m/s", above=0, high=100)
    turn_speed: float = key(2.0, "maximum speed of the targets of the base's hinges", unit="rad/s", above=0, high=1000)
    finger_speed: float = key(5.0, "maximum speed of the targets of the fingers", unit="rad/s", above=0, high=1000)
    asset: Optional[str] = key(
        None,
        "model of your own hand: MJCF with the names of tasks/hand/names.py, or MJCF or URDF that `hand` maps; null: "
        "the built-in hand, or the model that the map names",
        example="asset=my_hand.xml",
        file=True,
    )
    hand: Optional[str] = key(
        None,
        "name map (yaml) of a hand with other names: a file, or one of "
        f"{', '.join(map_names())}; null: the names of the built-in hand",
        example="hand=allegro asset=allegro.urdf",
        file=True,
        names=map_names(),
    )
    contact_threshold: float = key(0.1, "force above which a fingertip counts as touching", unit="N", low=0)


class DrivenHand:
    """The hand of a task: its senses, its action pipeline, its last targets and its contact timers."""

    def __init__(self, task: Task, sim: Simulator, table: HandTable) -> None:
        """Called in `bind`, before `sim.start()`; `task.params` is a HandParams."""
        p: HandParams = task.params
        self.sim, self.table = sim, table
        self.senses = HandSenses(sim, table, p.contact_threshold)
        self.base = slice(0, len(table.base_joints))  # the controls of the base
        self.fingers = slice(len(table.base_joints), len(table.controls))
        self.columns = torch.tensor(sim.actuator_ids(table.joints), device=sim.device)  # of ctrl
        limits = table.control_limits(sim.ctrl_range[self.columns.cpu()]).to(sim.device)
        self.range = limits[:, 1] - limits[:, 0]  # (C,)
        self.middle = limits.mean(1)  # (C,)
        driven = driven_controls(table, p.policy_controls_base, p.policy_controls_fingers)
        self.pipeline = ActionPipeline(
            driven=driven.to(sim.device),
            limits=limits,
            max_step=(speeds(p, table) * sim.control_dt).to(sim.device),
            matrix=table.coupling().to(sim.device),
            meaning=meaning_of(p.action_rule),
        )
        self.targets = task.buffer(sim, "targets", len(table.controls))
        self.last_action = task.buffer(sim, "last_action", self.pipeline.size)
        self.touched = task.buffer(
            sim, "touched", len(table.fingers)
        )  # s, time for which each finger has been touching

    def drive(self, action: Tensor) -> Tensor:
        """action (N, k) -> simulator controls (N, nu): move the targets, and convert them to joint targets."""
        targets, ctrl = self.pipeline(action, self.targets)
        self.targets.copy_(targets)
        self.last_action.copy_(action)
        return torch.zeros_like(self.sim.ctrl).index_copy(1, self.columns, ctrl)

    def update(self) -> None:
        """Update the contact timers; called after the physics."""
        self.touched.copy_(torch.where(self.senses.touching, self.touched + self.sim.control_dt, 0.0))

    def put(self, qpos: Tensor, env_ids: Tensor, pose: Tensor) -> Tensor:
        """Put the hand into a pose (n, C) of its controls, which becomes the last targets; returns qpos (n, nq)."""
        self.targets[env_ids] = pose
        qpos[:, self.senses.joint_q] = pose @ self.pipeline.matrix
        return qpos

    def controls(self) -> Tensor:
        """(N, C) the controls that fit the joint positions best, by least squares."""
        matrix = self.pipeline.matrix
        return self.sim.qpos[:, self.senses.joint_q] @ matrix.T / matrix.square().sum(1)

    def blocks(self) -> dict[str, Tensor]:
        """Name -> (N, width): the senses (`HandSenses.blocks`), and

        contact_duration: time for which each finger has been touching something, s, at most 1
        base_targets: targets of the six base controls, as fractions of their ranges, measured from the middle
        finger_targets: targets of the finger controls, as fractions of their ranges, measured from the middle
        last_action: the action that was applied last
        """
        targets = (self.targets - self.middle) / self.range
        return {
            **self.senses.blocks(),
            "contact_duration": self.touched.clamp(max=1.0),
            "base_targets": targets[:, self.base],
            "finger_targets": targets[:, self.fingers],
            "last_action": self.last_action,
        }


def speeds(params: HandParams, table: HandTable) -> Tensor:
    """(C,) m/s and rad/s: the maximum speed of each control's target."""
    limits = torch.full((len(table.controls),), params.finger_speed)
    limits[:SLIDES], limits[SLIDES : len(table.base_joints)] = params.slide_speed, params.turn_speed
    return limits

"""A policy without a network for BlindGrasping: go above the box, close, lift; by the stage that it is told."""

from __future__ import annotations

import torch
from torch import Tensor

from livegym.tasks.blind_grasping import BOX_FROM_HAND, BlindGrasping
from livegym.tasks.env import Env
from livegym.tasks.hand.names import OURS

CONTROLS = OURS.controls
CLOSED = {"thumb_mcp": 0.5, "thumb_distal": 0.4}
GRASP_Z = -0.327  # m, of base_z
CLOSED_MCP, CLOSED_DISTAL = 1.5, 0.8


def closed_pose(base_z: float) -> Tensor:
    """(18,) m and rad: the hand around the box, at a height."""
    pose = OURS.ready_pose(BOX_FROM_HAND)
    for name in CONTROLS:
        if name.endswith("_mcp") and name != "thumb_mcp":
            pose[CONTROLS.index(name)] = CLOSED_MCP
        if name.endswith("_distal") and name != "thumb_distal":
            pose[CONTROLS.index(name)] = CLOSED_DISTAL
    for name, value in CLOSED.items():
        pose[CONTROLS.index(name)] = value
    pose[CONTROLS.index("base_z")] = base_z
    return pose


def action(env: Env) -> Tensor:
    """(N, 18): towards the pose of each environment's stage, as fast as it may."""
    task = env.task
    assert isinstance(task, BlindGrasping)
    # closing any earlier, as the stage allows, would push the box down
    above = task.stages.at("grasp") & (task.distance() > 0.015) & (task.stages.time < 0.5)
    open_hand = OURS.ready_pose(BOX_FROM_HAND)
    open_hand[CONTROLS.index("base_z")] = GRASP_Z
    poses = torch.stack([open_hand, closed_pose(GRASP_Z), closed_pose(-0.08)])
    goal, now = poses[torch.where(above, 0, task.stages.index)], task.hand.targets
    level = now.clone()
    level[:, 2] = torch.maximum(now[:, 2], torch.tensor(-0.25))  # first level and open above the box, then down
    far = (goal - now)[:, [0, 1, 3, 4, 5]].abs().amax(1) > 0.05
    down = task.stages.at("pre_grasp") & far
    goal[down, 2] = level[down, 2]
    return towards(env, goal)


def towards(env: Env, goal: Tensor) -> Tensor:
    """(N, 18) the action that moves the targets to a pose (N, 18), as fast as they may."""
    hand = env.task.hand
    return ((goal - hand.targets) / hand.pipeline.max_step).clamp(-1.0, 1.0)

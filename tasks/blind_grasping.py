"""BlindGrasping: a floating hand grasps and lifts a box by touch alone.

A box of 5 cm and 100 g lies on the ground, with its centre within 2 cm of the origin on either axis. The hand starts up
to 0.2 m and 45 degrees away from its place above the box, on every axis, and its fingers start anywhere in their
ranges. The policy senses its joints, its targets, its fingertips, contacts and its stage, but never the box. There are
three stages, which only move forward:

- `pre_grasp`, at most 4 s: the hand is level, not turned and open, and its grasp point is within 3 cm of the origin, at
  the box's height. The box lies near that point.
- `grasp`, at most 3 s: the thumb and another finger touch something for 0.1 s without a break.
- `lift`: the box is above 0.2 m and touched by at least two fingers for 2 s without a break. This is success.

An episode fails if a stage takes longer (`pre_grasp_failed`, `contact_failed`), if fingertips or palm hit the ground
(`hit_ground`), if the box is more than 15 cm from the origin (`box_too_far`), or if, in the lift, fewer than two
fingers touch it for 0.5 s (`grasp_lost`). It lasts at most 10 s.

Each reward term is described in `reward`. A stage's terms are 0 in the other stages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from livegym.schema import key
from livegym.sim.base import Simulator
from livegym.tasks.hand.box import BesideHand
from livegym.tasks.hand.driven import DrivenHand, HandParams
from livegym.tasks.hand.stages import Stages, lasted
from livegym.tasks.hand.table import SLIDES
from livegym.tasks.hand.task import HandTask
from livegym.tasks.shared_terms import action_size, closeness, excess
from livegym.utils.spatial import length

STAGES = ("pre_grasp", "grasp", "lift")
BOX_FROM_HAND = (0.0, 0.0, -0.425)  # m, in the model: from the hand's place to the box's nominal place
EASY_SPREAD = 0.05  # spread of easy starts about the ready pose, as a fraction of the start range


@dataclass(frozen=True)
class BlindGraspingParams(HandParams):
    """Parameters of BlindGrasping."""

    box_range: float = key(
        0.02, "maximum distance of the box from the origin at the start, on either axis", unit="m", low=0
    )
    box_turn: float = key(0.0, "maximum rotation of the box at the start, to either side", unit="rad", low=0)
    start_slide: float = key(
        0.2, "maximum distance of the hand from its place at the start, on each axis", unit="m", low=0
    )
    start_turn: float = key(0.785, "maximum rotation of the hand at the start, about each axis", unit="rad", low=0)
    easy_start: float = key(0.0, "fraction of episodes that start with the open hand above the box", low=0, high=1)
    reach_radius: float = key(
        0.03,
        "maximum distance of the grasp point from the box's nominal place, to finish the pre-grasp",
        unit="m",
        above=0,
    )
    reach_turn: float = key(
        0.3, "maximum rotation of the hand about each axis, to finish the pre-grasp", unit="rad", above=0
    )
    reach_open: float = key(
        0.35,
        "maximum mean distance of the fingers from the open hand, to finish the pre-grasp",
        unit="rad",
        above=0,
    )
    pre_grasp_s: float = key(4.0, "time limit of the pre-grasp", unit="s", above=0)
    grip_s: float = key(0.1, "time for which the thumb and a finger must touch before the lift", unit="s", above=0)
    grasp_s: float = key(3.0, "time limit of the grasp", unit="s", above=0)
    lift_height: float = key(0.2, "height above which the box's centre counts as lifted", unit="m", above=0.03)
    hold_s: float = key(2.0, "time for which the box must be up and held", unit="s", above=0)
    lost_s: float = key(0.5, "time for which fewer than two fingers may touch the box in the lift", unit="s", above=0)
    far: float = key(0.15, "maximum horizontal distance of the box from the origin", unit="m", above=0)
    hard_contact: float = key(
        30.0,
        "force of the ground on a fingertip or the palm above which the hand has hit the ground",
        unit="N",
        above=0,
    )
    firm_force: float = key(15.0, "force on a fingertip above which it is pressed in too far", unit="N", above=0)


class BlindGrasping(HandTask):
    """Grasp and lift a 5 cm box by touch alone (10 s at 50 Hz, 18 controls, three stages)."""

    Params = BlindGraspingParams
    params: BlindGraspingParams
    success_reason = "success"

    def model_path(self) -> Path:
        """The hand above the ground, and a box."""
        return Path(__file__).parent / "models" / "hand" / "blind_grasping.xml"

    def bind(self, sim: Simulator) -> None:
        """Bind the hand, the box and their contacts; create buffers for the stage and for how long the box is held."""
        self.sim, self.hand = sim, DrivenHand(self, sim, self.table)
        self.stages = Stages(self, sim, STAGES)
        self.grasp_point = sim.site_ids([self.table.grasp_site])[0]
        self.box = BesideHand(sim, self.hand.senses, "box")
        self.open_hand = self.table.open_hand().to(sim.device)  # (finger controls,)
        self.ready = self.table.ready_pose(BOX_FROM_HAND).to(sim.device)  # (controls,)
        self.held = self.buffer(sim, "held")  # s, for which the box has been up and held
        self.lost = self.buffer(sim, "lost")  # s, for which fewer than two fingers have touched it

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw the hand in its start range, the fingers in their ranges, and the box near the origin."""
        p, n = self.params, len(env_ids)

        def uniform(width: int) -> Tensor:
            return 2.0 * torch.rand(n, width, generator=rng, device=env_ids.device) - 1.0

        anywhere = self.hand.middle + 0.5 * self.hand.range * uniform(len(self.ready))
        anywhere[:, :SLIDES] = p.start_slide * uniform(SLIDES)
        turns = slice(SLIDES, self.hand.base.stop)
        anywhere[:, turns] = p.start_turn * uniform(turns.stop - turns.start)
        easy = torch.rand(n, 1, generator=rng, device=env_ids.device) < p.easy_start
        pose = torch.where(easy, self.ready + EASY_SPREAD * (anywhere - self.hand.middle), anywhere)
        qpos = self.hand.put(self.sim.default_qpos.repeat(n, 1), env_ids, pose)
        half_turn = 0.5 * p.box_turn * uniform(1)[:, 0]
        qpos[:, self.box.q[:2]] += p.box_range * uniform(2)
        qpos[:, self.box.q[2]] = self.box.half_height(env_ids)
        qpos[:, self.box.q[3]], qpos[:, self.box.q[6]] = half_turn.cos(), half_turn.sin()
        return qpos, torch.zeros(n, self.sim.qvel.shape[1])

    def update(self, state: Simulator) -> None:
        """Update the timers of touch, grip and hold; then the stage."""
        p, dt = self.params, state.control_dt
        self.hand.update()
        lifting, holding = self.stages.at("lift"), self.box.fingers_on() >= 2
        up = self.box.pos_w[:, 2] > p.lift_height
        self.lost.copy_(torch.where(lifting & ~holding, self.lost + dt, 0.0))
        self.held.copy_(torch.where(lifting & holding & up, self.held + dt, 0.0))
        gripped = lasted(self.hand.touched[:, 0].minimum(self.hand.touched[:, 1:].amax(1)), p.grip_s, dt)
        self.stages.update(torch.stack([self.reached(), gripped, torch.zeros_like(gripped)], 1))

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """The hand's senses and targets, the box (`BesideHand.blocks`), and

        stage: the current one of the three stages, one-hot
        time_in_stage: time since the stage began, s
        progress: progress in the stage, 0 to 1, as sensed: nearness, fraction of fingers that touch, height of the palm
        held: time for which the box has been up and held, s; for the critic only, as everything about the box
        """
        return {
            **self.hand.blocks(),
            **self.box.blocks(),
            "stage": self.stages.one_hot(),
            "time_in_stage": self.stages.time[:, None],
            "progress": self.progress()[:, None],
            "held": self.held[:, None],
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """Each is at best about 1 per control step; events are 1 in the step in which they happen:

        approach: before the lift, nearness of the grasp point to the box's nominal place
        level: before the lift, exp(-3 x the largest of the hand's three rotations in rad)
        open: before the grasp, exp(-3 x mean distance of the finger controls to the open hand in rad)
        enclose: in the grasp, geometric mean of the thumb's and the fingers' pads' nearness to the box
        touch: in the grasp, 0.2 if the thumb touches the box, 0.2 if a finger does, 0.6 more if both do
        grip: in the lift, number of fingers on the box, at most 3, divided by 3
        height: in the lift, height of the box: 0 on the ground, 1 at `lift_height`; the first centimetres count most
        hold: in the lift, time for which the box has been up and held, divided by `hold_s`
        stage: number of stages completed
        stage_entered: 1 in the step that enters a new stage
        success: 1 in the step that ends the episode in success
        failure: 1 in the step that ends the episode in failure
        effort: mean square of the action
        push: before the lift, horizontal speed of the box, m/s
        penetration: sum of the forces on the fingertips beyond `firm_force`, divided by `firm_force`
        ground: sum of the forces of the ground on fingertips and palm, divided by `hard_contact`
        """
        p = self.params
        pre, grasp, lift = (self.stages.at(name).float() for name in STAGES)
        below = 1.0 - lift
        success, failure = self.outcome(self.terminate(state))
        distance = self.distance()
        near, on_box = closeness(self.box.pad_gaps(), 20.0), self.box.touched()
        thumb, fingers = on_box[:, 0].float(), on_box[:, 1:].any(1).float()
        return {
            "approach": below * (0.5 * closeness(distance, 6.0) + 0.5 * closeness(distance, 30.0)),
            "level": below * closeness(self.turn(), 3.0),
            "open": pre * closeness(self.unlike_open(), 3.0),
            "enclose": grasp * (near[:, 0] * near[:, 1:].mean(1)).sqrt(),
            "touch": grasp * (0.2 * thumb + 0.2 * fingers + 0.6 * thumb * fingers),
            "grip": lift * self.box.fingers_on().clamp(max=3) / 3.0,
            "height": lift * raised(self.box.height(p.lift_height)),
            "hold": lift * self.held / p.hold_s,
            "stage": self.stages.index.float(),
            "stage_entered": self.stages.entered.float(),
            "success": success,
            "failure": failure,
            "effort": action_size(action),
            "push": below * length(self.box.vel_w[:, :2]),
            "penetration": excess(length(self.hand.senses.forces_w), p.firm_force),
            "ground": self.box.ground_forces().sum(1) / p.hard_contact,
        }

    def episode_metrics(self, state: Simulator) -> dict[str, Tensor]:
        """How far an episode came:

        reached_grasp: 1 if the episode reached the grasp
        reached_lift: 1 if the episode reached the lift
        stage: number of stages completed
        box_height: height of the box's centre at the end, m
        """
        reached = {f"reached_{name}": (self.stages.index >= i).float() for i, name in enumerate(STAGES) if i}
        return {**reached, "stage": self.stages.index.float(), "box_height": self.box.pos_w[:, 2]}

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Success, or a failure by name:

        success: the box has been up and held by at least two fingers for `hold_s`
        hit_ground: the ground pushes a fingertip or the palm with more than `hard_contact`
        box_too_far: the box is farther than `far` from the origin
        pre_grasp_failed: the pre-grasp is not finished after `pre_grasp_s`
        contact_failed: the grasp is not finished after `grasp_s`
        grasp_lost: in the lift, fewer than two fingers have touched the box for `lost_s`
        """
        p, dt = self.params, state.control_dt
        return {
            "success": lasted(self.held, p.hold_s, dt),
            "hit_ground": (self.box.ground_forces() > p.hard_contact).any(1),
            "box_too_far": length(self.box.pos_w[:, :2]) > p.far,
            "pre_grasp_failed": self.stages.at("pre_grasp") & lasted(self.stages.time, p.pre_grasp_s, dt),
            "contact_failed": self.stages.at("grasp") & lasted(self.stages.time, p.grasp_s, dt),
            "grasp_lost": lasted(self.lost, p.lost_s, dt),
        }

    # computed from what the hand senses

    def distance(self) -> Tensor:
        """(N,) m, from the grasp point to the box's nominal place."""
        return length(self.sim.site_pos_w[:, self.grasp_point] - self.box.nominal)

    def turn(self) -> Tensor:
        """(N,) rad, the largest of the hand's three rotations."""
        return self.sim.qpos[:, self.hand.senses.base_q[SLIDES:]].abs().amax(1)

    def unlike_open(self) -> Tensor:
        """(N,) rad, mean distance of the finger controls to the open hand."""
        return (self.hand.controls()[:, self.hand.fingers] - self.open_hand).abs().mean(1)

    def reached(self) -> Tensor:
        """(N,) bool: the conditions that finish the pre-grasp hold."""
        p = self.params
        return (self.distance() < p.reach_radius) & (self.turn() < p.reach_turn) & (self.unlike_open() < p.reach_open)

    def progress(self) -> Tensor:
        """(N,) 0 to 1, the progress in the stage, as sensed: nearness, fingers that touch, height of the palm."""
        near = closeness(self.distance(), 6.0)
        touch = self.hand.senses.touching.float().mean(1)
        up = (self.hand.senses.palm_pos_w[:, 2] / (2.0 * self.params.lift_height)).clamp(0.0, 1.0)
        return torch.stack([near, touch, up], 1).gather(1, self.stages.index[:, None]).squeeze(1)


def raised(height: Tensor) -> Tensor:
    """(N,) height -> (N,) reward, both 0 to 1. It is steep at first, or a policy would not risk its grip to lift."""
    part = height.clamp(0.0, 1.0)
    return 0.5 * part + 0.5 * (1.0 - torch.exp(-4.0 * part)) / (1.0 - math.exp(-4.0))

"""BlindGrasping: a floating hand grasps and lifts a box by touch alone.

A box of 5 cm and 100 g lies on the ground, its middle within 2 cm of the origin on either axis. The hand starts up to
0.2 m and 45 degrees from its place above, on every axis, its fingers anywhere in their ranges. It may sense its joints,
its targets, its fingertips and touch, and which stage it is in; never the box. Three stages, forwards only:

- `pre_grasp`, for at most 4 s: the palm level and its grasp point within 3 cm of where the box may be; the hand open;
- `grasp`, for at most 3 s: thumb and another finger touch something, for 0.1 s without a break;
- `lift`: the box above 0.2 m, touched by two fingers or more, for 2 s without a break: success.

An episode fails where the stage takes longer (`pre_grasp_failed`, `contact_failed`), the hand hits the ground
(`hit_ground`), the box is farther than 15 cm from the origin (`box_too_far`), or, while lifting, fewer than two fingers
touch it for 0.5 s (`grasp_lost`). It lasts 10 s at the most.

Rewards: see `reward`, one sentence a term. Those of a stage are 0 in the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from sim.base import Simulator
from tasks.base import Box, Task
from tasks.hand.asset import hand_model
from tasks.hand.driven import SLIDES, DrivenHand, HandParams
from tasks.hand.names import BASE_JOINTS, CONTROLS, DISTAL_BODIES, FINGER_CONTROLS, GRASP_SITE, PALM
from tasks.hand.stages import Stages
from utils.spatial import into_frame

STAGES = ("pre_grasp", "grasp", "lift")
BOX, GROUND = "box", "world"
OPEN_HAND = {"thumb_rotation": 1.5, "thumb_mcp": -0.2, "thumb_distal": 0.2, "finger_spread": 0.0}
"""Controls of an open hand that is about to grasp, rad; those of the fingers' joints:"""
OPEN_MCP, OPEN_DISTAL = 0.9, 0.3
READY_SLIDES = {"base_x": -0.012, "base_y": -0.02, "base_z": -0.32}  # m
EASY_SPREAD = 0.05  # of the whole start range, about the ready pose


@dataclass(frozen=True)
class BlindGraspingParams(HandParams):
    """What can be changed about BlindGrasping."""

    box_range: float = 0.02  # m, on either axis
    box_turn: float = 0.0  # rad, to either side
    start_slide: float = 0.2  # m, on each axis
    start_turn: float = 0.785  # rad, about each axis
    easy_start: float = 0.0  # part of the episodes that begin with the open hand above the box
    reach_radius: float = 0.03  # m, of the grasp point about where the box may be
    reach_tilt: float = 0.3  # rad, of the palm
    reach_open: float = 0.35  # rad, mean distance of the finger controls to the open hand
    pre_grasp_s: float = 4.0  # s
    grip_s: float = 0.1  # s of touch before the lift
    grasp_s: float = 3.0  # s
    lift_height: float = 0.2  # m
    hold_s: float = 2.0  # s
    lost_s: float = 0.5  # s without two fingers before the grasp counts as lost
    far: float = 0.15  # m
    hard_contact: float = 30.0  # N on a link from the ground, from which on the hand has hit it
    firm_force: float = 15.0  # N on a fingertip; beyond it lies penetration


class BlindGrasping(Task):
    """Grasp and lift a 5 cm box by touch alone (10 s at 50 Hz, 18 controls, three stages)."""

    Params = BlindGraspingParams
    params: BlindGraspingParams
    success_reason = "success"

    @property
    def action_spec(self) -> Box:
        """One number for each control that the policy drives."""
        return Box(self.params.action_size)

    def model_path(self) -> Path:
        """The hand above the ground, and a box."""
        return Path(__file__).parent / "models" / "hand" / "blind_grasping.xml"

    def parts(self) -> dict[str, Path]:
        """The hand, ours or one's own."""
        return {"hand": hand_model(self.params.asset)}

    def bind(self, sim: Simulator) -> None:
        """The hand, the box, the contacts between them and the ground; stage, and how long the box has been held."""
        self.sim, self.hand = sim, DrivenHand(self, sim)
        self.stages = Stages(self, sim, STAGES)
        self.grasp_point = sim.site_ids([GRASP_SITE])[0]
        self.box_q, self.box, self.box_geom = sim.qpos_ids([BOX]), sim.body_ids([BOX])[0], sim.geom_ids([BOX])[0]
        sim.require("body_vel_w")
        sim.require_contact(*DISTAL_BODIES, against=BOX)
        sim.require_contact(*DISTAL_BODIES, PALM, against=GROUND)
        self.open_hand = open_hand().to(sim.device)  # (12,)
        self.ready = ready_pose().to(sim.device)  # (18,)
        self.nominal = sim.default_qpos[self.box_q[:3]].to(sim.device)  # (3,) m, where the box may be
        self.held = self.buffer(sim, "held")  # s, for which the box has been up and held
        self.lost = self.buffer(sim, "lost")  # s, for which fewer than two fingers have touched it

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """The hand anywhere in its start range, the fingers anywhere, the box near the origin."""
        p, n = self.params, len(env_ids)

        def uniform(width: int) -> Tensor:
            return 2.0 * torch.rand(n, width, generator=rng, device=env_ids.device) - 1.0

        anywhere = self.hand.middle + 0.5 * self.hand.range * uniform(len(CONTROLS))
        anywhere[:, :SLIDES] = p.start_slide * uniform(SLIDES)
        anywhere[:, SLIDES : len(BASE_JOINTS)] = p.start_turn * uniform(len(BASE_JOINTS) - SLIDES)
        easy = torch.rand(n, 1, generator=rng, device=env_ids.device) < p.easy_start
        pose = torch.where(easy, self.ready + EASY_SPREAD * (anywhere - self.hand.middle), anywhere)
        qpos = self.hand.put(self.sim.default_qpos.repeat(n, 1), env_ids, pose)
        half_turn = 0.5 * p.box_turn * uniform(1)[:, 0]
        qpos[:, self.box_q[:2]] += p.box_range * uniform(2)
        qpos[:, self.box_q[2]] = self.sim.model_value("geom_size")[env_ids, self.box_geom, 2].float()  # on the ground
        qpos[:, self.box_q[3]], qpos[:, self.box_q[6]] = half_turn.cos(), half_turn.sin()
        return qpos, torch.zeros(n, self.sim.qvel.shape[1])

    def control(self, action: Tensor) -> Tensor:
        """The policy moves the hand's targets."""
        return self.hand.drive(action)

    def update(self, state: Simulator) -> None:
        """Timers of touch, grip and hold; then the stage."""
        p, dt = self.params, state.control_dt
        self.hand.update()
        lifting, holding = self.stages.at("lift"), self.fingers_on_box() >= 2
        self.lost.copy_(torch.where(lifting & ~holding, self.lost + dt, 0.0))
        self.held.copy_(torch.where(lifting & holding & self.is_up(), self.held + dt, 0.0))
        gripped = self.hand.touched[:, 0].minimum(self.hand.touched[:, 1:].amax(1)) >= p.grip_s
        self.stages.update(torch.stack([self.reached(), gripped, torch.zeros_like(gripped)], 1))

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """The hand's senses and targets, and

        stage: which of the three stages, one-hot
        time_in_stage: for how long, s
        progress: how far it is, 0 to 1, by what the hand senses: nearness, fingers that touch, height of the palm
        box_position_w: the box's middle in the world, m; like all below, for the critic only
        box_position_h: the same in the palm's frame
        box_rotation_w: its rotation, quaternion w, x, y, z
        box_velocity_w: its velocity, m/s, then rad/s, world axes
        box_contacts: 1 for each finger that touches the box
        held: for how long it has been up and held, s
        """
        box_pos_w, palm_q = state.body_pos_w[:, self.box], self.hand.senses.palm_quat_w
        return {
            **self.hand.blocks(),
            "stage": self.stages.one_hot(),
            "time_in_stage": self.stages.time[:, None],
            "progress": self.progress()[:, None],
            "box_position_w": box_pos_w,
            "box_position_h": into_frame(box_pos_w, self.hand.senses.palm_pos_w, palm_q),
            "box_rotation_w": state.body_quat_w[:, self.box],
            "box_velocity_w": state.body_vel_w[:, self.box],
            "box_contacts": (self.box_forces() > self.params.contact_threshold).float(),
            "held": self.held[:, None],
        }

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """About 1 each at its best in a control step; those that happen once are 1 then:

        approach: until the lift, nearness of the grasp point to where the box may be
        level: until the lift, exp(-3 x the largest turn of the hand in rad)
        open: before the grasp, exp(-3 x mean distance of the finger controls to the open hand in rad)
        enclose: in the grasp, nearness of the thumb's and the fingers' pads to the box, their geometric mean
        touch: in the grasp, 0.2 for the thumb on the box, 0.2 for a finger, 0.6 more for both
        grip: in the lift, the part of three fingers that touch the box
        height: in the lift, the box's height as a part of `lift_height`
        hold: in the lift, for how long it has been up and held, as a part of `hold_s`
        stage: how many stages are behind
        stage_entered: 1 in the step that enters a new stage
        success: 1 in the step that ends the episode in success
        failure: 1 in the step that ends it in failure
        effort: mean square of the action
        push: before the lift, the box's speed over the ground, m/s
        penetration: how far forces on fingertips are beyond `firm_force`, as a part of it
        ground: forces of the ground on the hand, as a part of `hard_contact`
        """
        p = self.params
        pre, grasp, lift = (self.stages.at(name).float() for name in STAGES)
        below, reasons = 1.0 - lift, self.terminate(state)
        near, on_box = torch.exp(-20.0 * self.pad_gaps()), self.box_forces() > p.contact_threshold
        thumb, fingers = on_box[:, 0].float(), on_box[:, 1:].any(1).float()
        return {
            "approach": below * (0.5 * torch.exp(-6.0 * self.distance()) + 0.5 * torch.exp(-30.0 * self.distance())),
            "level": below * torch.exp(-3.0 * self.tilt()),
            "open": pre * torch.exp(-3.0 * self.unlike_open()),
            "enclose": grasp * (near[:, 0] * near[:, 1:].mean(1)).sqrt(),
            "touch": grasp * (0.2 * thumb + 0.2 * fingers + 0.6 * thumb * fingers),
            "grip": lift * self.fingers_on_box().clamp(max=3) / 3.0,
            "height": lift * self.height().clamp(0.0, 1.0),
            "hold": lift * self.held / p.hold_s,
            "stage": self.stages.index.float(),
            "stage_entered": self.stages.entered.float(),
            "success": reasons["success"].float(),
            "failure": torch.stack([on for name, on in reasons.items() if name != "success"]).any(0).float(),
            "effort": action.square().mean(1),
            "push": below * state.body_vel_w[:, self.box, :2].norm(dim=1),
            "penetration": (self.hand.senses.forces_w.norm(dim=2) - p.firm_force).clamp(min=0).sum(1) / p.firm_force,
            "ground": self.ground_forces().sum(1) / p.hard_contact,
        }

    def episode_metrics(self, state: Simulator) -> dict[str, Tensor]:
        """How far an episode came:

        reached_grasp: 1 where it came to the grasp
        reached_lift: 1 where it came to the lift
        stage: how many stages are behind
        box_height: of the box's middle at the end, m
        """
        reached = {f"reached_{name}": (self.stages.index >= i).float() for i, name in enumerate(STAGES) if i}
        return {**reached, "stage": self.stages.index.float(), "box_height": state.body_pos_w[:, self.box, 2]}

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """Success, or a failure by name:

        success: the box has been up and held by two fingers or more for `hold_s`
        hit_ground: the ground pushes a link of the hand with more than `hard_contact`
        box_too_far: the box is farther than `far` from the origin
        pre_grasp_failed: the pre-grasp takes longer than `pre_grasp_s`
        contact_failed: the grasp takes longer than `grasp_s`
        grasp_lost: in the lift, fewer than two fingers have touched the box for `lost_s`
        """
        p = self.params
        return {
            "success": self.held >= p.hold_s - 0.5 * state.control_dt,
            "hit_ground": (self.ground_forces() > p.hard_contact).any(1),
            "box_too_far": state.body_pos_w[:, self.box, :2].norm(dim=1) > p.far,
            "pre_grasp_failed": self.stages.at("pre_grasp") & (self.stages.time > p.pre_grasp_s),
            "contact_failed": self.stages.at("grasp") & (self.stages.time > p.grasp_s),
            "grasp_lost": self.lost >= p.lost_s,
        }

    # what the hand knows

    def distance(self) -> Tensor:
        """(N,) m, from the grasp point to where the box may be."""
        return (self.sim.site_pos_w[:, self.grasp_point] - self.nominal).norm(dim=1)

    def tilt(self) -> Tensor:
        """(N,) rad, the largest of the hand's three turns."""
        return self.sim.qpos[:, self.hand.senses.base_q[SLIDES:]].abs().amax(1)

    def unlike_open(self) -> Tensor:
        """(N,) rad, mean distance of the finger controls to the open hand."""
        return (self.hand.controls()[:, len(BASE_JOINTS) :] - self.open_hand).abs().mean(1)

    def reached(self) -> Tensor:
        """(N,) bool: all that the pre-grasp asks for."""
        p = self.params
        return (self.distance() < p.reach_radius) & (self.tilt() < p.reach_tilt) & (self.unlike_open() < p.reach_open)

    def progress(self) -> Tensor:
        """(N,) 0 to 1, of the stage, by what the hand senses: nearness, fingers that touch, height of the palm."""
        near = torch.exp(-6.0 * self.distance())
        touch = self.hand.senses.touching.float().mean(1)
        up = ((self.hand.senses.palm_pos_w[:, 2]) / (2.0 * self.params.lift_height)).clamp(0.0, 1.0)
        return torch.stack([near, touch, up], 1).gather(1, self.stages.index[:, None]).squeeze(1)

    # what only the judge knows

    def box_forces(self) -> Tensor:
        """(N, 5) N, of the box on each fingertip."""
        return self.sim.contact_force_w(DISTAL_BODIES, against=BOX).norm(dim=2)

    def ground_forces(self) -> Tensor:
        """(N, 6) N, of the ground on each fingertip and the palm."""
        return self.sim.contact_force_w((*DISTAL_BODIES, PALM), against=GROUND).norm(dim=2)

    def fingers_on_box(self) -> Tensor:
        """(N,) how many fingers touch the box, the thumb among them."""
        return (self.box_forces() > self.params.contact_threshold).sum(1).float()

    def pad_gaps(self) -> Tensor:
        """(N, 5) m, from each fingerpad to the box, taken as a ball."""
        box = self.sim.body_pos_w[:, self.box, None]
        return ((self.hand.senses.pads_w - box).norm(dim=2) - self.nominal[2]).clamp(min=0.0)

    def height(self) -> Tensor:
        """(N,) of the box: 0 on the ground, 1 where it has to be."""
        rest = self.nominal[2]
        return (self.sim.body_pos_w[:, self.box, 2] - rest) / (self.params.lift_height - rest)

    def is_up(self) -> Tensor:
        """(N,) bool: the box is high enough."""
        return self.sim.body_pos_w[:, self.box, 2] > self.params.lift_height


def ready_pose() -> Tensor:
    """(18,) m and rad: the open hand, level, its grasp point where the box may be."""
    base = torch.tensor([READY_SLIDES.get(name, 0.0) for name in BASE_JOINTS])
    return torch.cat([base, open_hand()])


def open_hand() -> Tensor:
    """(12,) rad: the finger controls of a hand that is about to grasp."""
    values = {name: OPEN_MCP if name.endswith("_mcp") else OPEN_DISTAL for name in FINGER_CONTROLS}
    return torch.tensor([OPEN_HAND.get(name, values[name]) for name in FINGER_CONTROLS])

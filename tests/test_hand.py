"""The hand's model and how actions move it, by hand-computed numbers."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from livegym.sim.model import attach, compile_spec, load_spec
from livegym.tasks.hand.actions import (
    ActionPipeline,
    couple,
    driven_controls,
    limit_range,
    limit_speed,
    meaning_of,
    position,
    position_delta,
)
from livegym.tasks.hand.names import OURS, PALM_SITE
from livegym.utils.errors import UserError

CONTROLS, FINGER_CONTROLS, JOINTS = OURS.controls, OURS.finger_controls, OURS.joints
MODEL = Path(__file__).parent.parent / "tasks" / "models" / "hand" / "hand.xml"


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_path(str(MODEL))


def names(model, kind, count):
    return [mujoco.mj_id2name(model, kind, index) for index in range(count)]


def targets_of(**values) -> torch.Tensor:
    """(1, 18), zero but for these controls."""
    targets = torch.zeros(1, len(CONTROLS))
    for name, value in values.items():
        targets[0, CONTROLS.index(name)] = value
    return targets


def joints_of(ctrl) -> dict[str, float]:
    """The joints that are not at zero."""
    return {name: round(value, 6) for name, value in zip(JOINTS, ctrl[0].tolist(), strict=True) if value}


# -- the model


def test_the_model_has_the_names_of_the_table(model):
    assert tuple(names(model, mujoco.mjtObj.mjOBJ_JOINT, model.njnt)) == JOINTS
    assert tuple(names(model, mujoco.mjtObj.mjOBJ_ACTUATOR, model.nu)) == JOINTS
    assert (model.nq, model.nv, model.nu) == (26, 26, 26)
    sites = set(names(model, mujoco.mjtObj.mjOBJ_SITE, model.nsite))
    assert sites >= {*OURS.tip_sites, *OURS.pad_sites, PALM_SITE}
    assert set(OURS.links) <= set(names(model, mujoco.mjtObj.mjOBJ_BODY, model.nbody))


def test_every_joint_is_limited_and_its_actuator_cannot_ask_for_more(model):
    assert model.jnt_limited.all()
    np.testing.assert_allclose(model.actuator_ctrlrange, model.jnt_range)


def test_gravity_does_not_pull_the_hand_down(model):
    data = mujoco.MjData(model)
    for _ in range(200):
        mujoco.mj_step(model, data)
    assert np.abs(data.qpos).max() < 1e-4


def test_it_is_sized_like_an_adults_hand(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    middle, wrist = data.site("middle_tip").xpos, data.geom("palm").xpos - [0.046, 0, 0]
    assert 0.17 < np.linalg.norm(middle - wrist) < 0.21  # m
    assert 0.35 < model.body_subtreemass[model.body("palm").id] < 0.5  # kg


def test_closing_brings_fingertips_and_thumb_together_under_the_palm(model):
    data = mujoco.MjData(model)
    closed = {"thumb_rotation": 1.57, "index_mcp": 1.3, "middle_mcp": 1.3, "index_distal": 0.4, "middle_distal": 0.4}
    data.qpos[:] = couple(targets_of(**closed), OURS.coupling())[0].numpy()
    mujoco.mj_forward(model, data)
    thumb, index = data.site("thumb_pad").xpos, data.site("index_pad").xpos
    assert thumb[2] < -0.03
    assert index[2] < -0.03
    assert 0.03 < index[0] - thumb[0] < 0.12  # a box of 5 cm goes between them


def test_nothing_explodes_under_random_targets(model):
    data, rng = mujoco.MjData(model), np.random.default_rng(0)
    low, high = model.jnt_range.T
    beyond = 0.0
    for step in range(20_000):
        if step % 4 == 0:
            data.ctrl[:] = rng.uniform(low, high)
        mujoco.mj_step(model, data)
        beyond = max(beyond, (low - data.qpos).max(), (data.qpos - high).max())
    assert not any(warning.number for warning in data.warning)
    assert beyond < 0.05  # m or rad beyond a limit, for a moment


# -- actions


def test_controls_drive_the_joints_that_the_table_says():
    matrix = OURS.coupling()
    assert joints_of(couple(targets_of(index_distal=0.5), matrix)) == {"index_pip": 0.5, "index_dip": 0.5}
    spread = {"index_spread": 0.2, "ring_spread": -0.2, "little_spread": -0.4}
    assert joints_of(couple(targets_of(finger_spread=0.2), matrix)) == pytest.approx(spread)
    assert joints_of(couple(targets_of(base_z=0.1, thumb_distal=0.3), matrix)) == pytest.approx(
        {"base_z": 0.1, "thumb_pip": 0.3, "thumb_dip": 0.3}
    )
    assert (matrix != 0).any(0).sum() == 25  # all but the middle finger's spread


def test_a_control_goes_as_far_as_all_of_its_joints_allow():
    ranges = torch.tensor([[-1.0, 1.0]]).repeat(len(JOINTS), 1)
    ranges[JOINTS.index("index_spread")] = torch.tensor([-0.3, 0.5])
    ranges[JOINTS.index("ring_spread")] = torch.tensor([-0.4, 0.2])  # driven by -1: the control's -0.2 to 0.4
    ranges[JOINTS.index("little_spread")] = torch.tensor([-0.6, 0.6])  # by -2: -0.3 to 0.3
    ranges[JOINTS.index("thumb_dip")] = torch.tensor([0.0, 0.7])
    limits = OURS.control_limits(ranges)
    assert limits[CONTROLS.index("finger_spread")].tolist() == pytest.approx([-0.2, 0.3])
    assert limits[CONTROLS.index("thumb_distal")].tolist() == pytest.approx([0.0, 0.7])
    assert limits[CONTROLS.index("base_x")].tolist() == [-1.0, 1.0]


def test_position_scales_to_the_limits():
    limits, last = torch.tensor([[-1.0, 3.0]]), torch.tensor([[9.0]])
    found = [position(torch.tensor([[a]]), last, limits, torch.ones(1)).item() for a in (-1.0, 0.0, 0.5, 1.0)]
    assert found == [-1.0, 1.0, 2.0, 3.0]


def test_position_delta_moves_the_last_target():
    last, step = torch.tensor([[0.5]]), torch.tensor([0.1])
    assert position_delta(torch.tensor([[-0.5]]), last, torch.zeros(1, 2), step).item() == pytest.approx(0.45)


def test_filters_keep_speed_and_range():
    last, limits, step = torch.tensor([[0.0, 0.9]]), torch.tensor([[-1.0, 1.0]] * 2), torch.tensor([0.1, 0.3])
    slow = limit_speed(torch.tensor([[5.0, 5.0]]), last, limits, step)
    assert slow.tolist() == [pytest.approx([0.1, 1.2])]
    assert limit_range(slow, last, limits, step).tolist() == [pytest.approx([0.1, 1.0])]
    assert limit_speed(torch.tensor([[-5.0, 0.8]]), last, limits, step).tolist() == [pytest.approx([-0.1, 0.8])]


def test_the_whole_pipeline_and_what_the_policy_does_not_drive():
    limits = torch.tensor([[-1.0, 1.0]]).repeat(len(CONTROLS), 1)
    step = torch.full((len(CONTROLS),), 0.2)
    driven = driven_controls(OURS, base=False, fingers=True)
    pipeline = ActionPipeline(driven, limits, step, OURS.coupling())
    assert pipeline.size == len(FINGER_CONTROLS) == 12
    last = targets_of(base_z=0.4, index_mcp=0.9)
    action = torch.zeros(1, 12)
    action[0, FINGER_CONTROLS.index("index_mcp")] = 1.0
    action[0, FINGER_CONTROLS.index("little_mcp")] = -0.5
    targets, ctrl = pipeline(action, last)
    assert joints_of(ctrl) == pytest.approx({"base_z": 0.4, "index_mcp": 1.0, "little_mcp": -0.1})
    assert last[0, CONTROLS.index("index_mcp")].item() == pytest.approx(0.9)  # what was given is not changed
    lowered = ActionPipeline(driven, limits, step, OURS.coupling(), rule=lambda last: last - 0.5)
    assert joints_of(lowered(action, targets)[1])["base_z"] == pytest.approx(0.2)  # a rule is kept to the speed as well


def test_a_policy_that_drives_nothing_and_an_unknown_rule_are_refused():
    assert driven_controls(OURS, base=True, fingers=True).tolist() == list(range(18))
    with pytest.raises(UserError, match="policy_controls_base=false policy_controls_fingers=false"):
        driven_controls(OURS, base=False, fingers=False)
    with pytest.raises(UserError, match=r"action_rule=positon: unknown. Allowed: position, position_delta.*position"):
        meaning_of("positon")


def test_a_scripted_grasp_lifts_the_box():
    """The hand is able to do what BlindGrasping will ask for: down, close, up; the box comes along."""
    spec = load_spec(MODEL.with_name("blind_grasping.xml"))
    attach(spec, "hand", load_spec(MODEL))
    scene = compile_spec(spec, MODEL)
    data, matrix = mujoco.MjData(scene), OURS.coupling()
    columns = [scene.actuator(name).id for name in JOINTS]
    knuckles = ("index_mcp", "middle_mcp", "ring_mcp", "little_mcp")
    distal = ("index_distal", "middle_distal", "ring_distal", "little_distal")

    def pose(base_z, thumb_mcp, thumb_distal, mcp, rest) -> torch.Tensor:
        fingers = dict.fromkeys(knuckles, mcp) | dict.fromkeys(distal, rest)
        thumb = {"thumb_rotation": 1.57, "thumb_mcp": thumb_mcp, "thumb_distal": thumb_distal}
        return targets_of(base_x=-0.012, base_y=-0.012, base_z=base_z - 0.05, **thumb, **fingers)

    above, closed = pose(-0.32, -0.2, 0.0, 0.6, 0.3), pose(-0.32, 0.5, 0.4, 1.5, 0.7)
    targets = torch.zeros(1, len(CONTROLS))
    for goal, seconds in ((above, 2.0), (closed, 1.0), (pose(-0.07, 0.5, 0.4, 1.5, 0.7), 2.0)):
        steps = int(seconds / scene.opt.timestep)
        for step in range(steps):
            towards = torch.lerp(targets, goal, min(1.0, (step + 1) / (0.7 * steps)))
            data.ctrl[columns] = couple(towards, matrix)[0].numpy()
            mujoco.mj_step(scene, data)
        targets = goal
    assert data.body("box").xpos[2] > 0.2
    assert not any(warning.number for warning in data.warning)

"""A hand with other names takes the place of ours by a name map; what is wrong in the map is said by name."""

from __future__ import annotations

import dataclasses
import math
import re

import mujoco
import pytest
import torch
from toy_hand import toy_map, write_toy

from livegym.cfg.compose import compose
from livegym.sim.model import load_spec
from livegym.tasks.blind_grasping import BOX_FROM_HAND, BlindGrasping
from livegym.tasks.build import make_env
from livegym.tasks.env import Env
from livegym.tasks.hand.asset import OURS as OUR_MODEL
from livegym.tasks.hand.map_file import map_names, read_map
from livegym.tasks.hand.mapped import mapped_hand
from livegym.tasks.hand.names import OURS
from livegym.utils.errors import UserError
from tests.isaac_toys import foreign

FOREIGN = {
    "dexhand021": (
        "DEXROBOT_ISAAC",
        "assets/dexrobot_mujoco/dexrobot_mujoco/models/dexhand021_right_simplified.xml",
    ),
    "allegro": ("ISAACGYMENVS", "assets/urdf/kuka_allegro_description/kuka_allegro_touch_sensor.urdf"),
}
"""Map -> the variable that names a checkout with its model, and the model's path there."""
CHECKOUTS = {"DEXROBOT_ISAAC": "dexrobot_isaac", "ISAACGYMENVS": "IsaacGymEnvs"}


@pytest.fixture
def make(config):
    def build(hand: str, asset: str | None = None, num_envs: int = 2, **params) -> Env:
        c = config("task=BlindGrasping", "task.curriculum=null", "task.randomize=false")
        params = {"hand": hand, "asset": asset, "easy_start": 1.0, **params}
        task = dataclasses.replace(c.task, params=dataclasses.replace(c.task.params, **params))
        env = make_env(task, c.sim, c.physics, num_envs, 0)
        env.reset()
        return env

    return build


def lifted(env: Env, closed: dict[str, float], up: float) -> dict[str, int]:
    """How episodes end if the hand closes where it starts, and rises by `up` m once it is in the lift."""
    task, ends = env.task, dict.fromkeys(env.reason_names, 0)
    assert isinstance(task, BlindGrasping)
    names = task.table.controls
    for _ in range(260):
        goal = task.ready.repeat(env.num_envs, 1)
        later = ~task.stages.at("pre_grasp")
        for name, value in closed.items():
            goal[later, names.index(name)] = value
        goal[task.stages.at("lift") & (task.stages.time > 0.3), names.index("base_z")] += up
        step = env.step(((goal - task.hand.targets) / task.hand.pipeline.max_step).clamp(-0.4, 0.4))
        for reason in step.ended.reasons.tolist() if step.ended is not None else ():
            ends[env.reason_names[reason]] += 1
    return {name: count for name, count in ends.items() if count}


def test_a_gripper_with_its_own_names_lifts_the_box(make, tmp_path):
    env = make(str(write_toy(tmp_path)), num_envs=8, box_range=0.005)
    assert env.task.table.controls == (*OURS.base_joints, "thumb", "pair")
    assert env.layout.widths["finger_position"] == 6
    assert env.layout.widths["contacts"] == 3
    assert env.layout.widths["pad_distances"] == 3
    ends = lifted(env, {"thumb": 0.5, "pair": 0.5}, up=0.25)
    assert ends.get("success", 0) >= 6, ends


def test_its_model_is_kept_but_for_what_moves_it(tmp_path):
    spec, table = mapped_hand(str(write_toy(tmp_path)), None)
    model = spec.compile()
    assert [model.joint(i).name for i in range(model.njnt)] == list(table.joints)  # neither elbow nor wrist
    assert [model.actuator(i).name for i in range(model.nu)] == list(table.joints)  # neither pull nor turn
    assert (model.nsensor, model.nkey) == (0, 0)
    assert model.joint("t_in").range == pytest.approx([math.radians(-20), math.radians(60)])
    assert model.actuator("t_in").ctrlrange == pytest.approx(model.joint("t_in").range)
    assert model.body("t2").mass == pytest.approx(0.02)
    assert model.joint("t_in").damping == pytest.approx(0.1)  # the map's, in place of 2
    assert set(model.geom_contype[model.geom_contype > 0]) == {1}
    assert set(model.geom_conaffinity[model.geom_conaffinity > 0]) == {2}
    assert set(model.body_gravcomp[1:]) == {1.0}
    again = mujoco.MjModel.from_xml_string(spec.to_xml())  # what is kept beside recorded states
    assert again.body_mass == pytest.approx(model.body_mass)


def test_the_palm_looks_down_and_fingers_point_to_x(tmp_path):
    spec, table = mapped_hand(str(write_toy(tmp_path, origin=[0, 0.02, 0])), None)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    # the map's y is the hand's x, its z the hand's -z; the origin moves everything by -0.02 along x
    assert data.site("grasp").xpos == pytest.approx([-0.02, 0, -0.1], abs=1e-9)
    assert table.grasp == pytest.approx([-0.02, 0, -0.1])
    assert data.site("thumb_tip").xpos == pytest.approx([-0.07, 0, -0.12], abs=1e-9)
    assert data.site("a_pad").xpos == pytest.approx([0.03, 0.012, -0.1], abs=1e-9)  # its x is the hand's y
    assert table.ready_pose(BOX_FROM_HAND)[:3].tolist() == pytest.approx([0.02, 0, -0.325])


def test_a_urdf_takes_the_place_of_the_models_file(make, tmp_path):
    env = make(str(write_toy(tmp_path)), asset=str(tmp_path / "gripper.urdf"), num_envs=8, box_range=0.005)
    ends = lifted(env, {"thumb": 0.5, "pair": 0.5}, up=0.25)
    assert ends.get("success", 0) >= 6, ends


def test_the_base_is_that_of_our_hand(tmp_path):
    ours, model = load_spec(OUR_MODEL).compile(), mapped_hand(str(write_toy(tmp_path, motors=None)), None)[0].compile()
    for name in OURS.base_joints:
        for field in ("range", "armature", "damping"):
            assert getattr(model.joint(name), field) == pytest.approx(getattr(ours.joint(name), field)), (name, field)
        for field in ("gainprm", "biasprm", "forcerange", "ctrlrange"):
            assert getattr(model.actuator(name), field) == pytest.approx(getattr(ours.actuator(name), field)), name
    finger = (ours.actuator("index_mcp"), model.actuator("t_in"))
    assert finger[0].gainprm == pytest.approx(finger[1].gainprm)
    assert finger[0].biasprm == pytest.approx(finger[1].biasprm)
    assert finger[0].forcerange == pytest.approx(finger[1].forcerange)


def test_the_numbers_of_our_hands_table_are_those_of_its_model(config):
    c = config("task=BlindGrasping")
    env = make_env(c.task, c.sim, c.physics, 1, 0)
    data = mujoco.MjData(env.sim.world.model)
    mujoco.mj_forward(env.sim.world.model, data)
    place = data.body("hand_x").xpos
    assert data.site("grasp").xpos - place == pytest.approx(OURS.grasp)
    assert data.body("box").xpos - place == pytest.approx(BOX_FROM_HAND)
    ready = OURS.ready_pose(BOX_FROM_HAND)
    assert torch.equal(ready[:6], torch.tensor([-0.012, -0.02, -0.32, 0.0, 0.0, 0.0]))  # as before there were maps
    assert torch.equal(ready[6:], torch.tensor([1.5, -0.2, 0.2, 0.0, *[0.9, 0.3] * 4]))


FINGERS = toy_map()["fingers"]
CONTROLS = toy_map()["controls"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"palm": "plat"}, r"palm=plat: unknown\. Allowed: arm, plate, .* Did you mean plate\?"),
        ({"plam": "plate"}, r"key=plam: unknown\. Allowed: model, palm, .* Did you mean palm\?"),
        ({"palm": None}, r"lacks palm\. Allowed: model, palm, .*another-hand\.md"),
        ({"palm": 3}, r"palm=3: not allowed\. Allowed: a name"),
        ({"grasp": [0, 1]}, r"grasp=\[0, 1\]: not allowed\. Allowed: three numbers"),
        ({"along": [0, 1, 1]}, r"along=\[0\.0, 1\.0, 1\.0\], faces=.*not at right angles"),
        ({"faces": [0, 0, 0]}, r"not at right angles"),
        ({"fingers": {"thumb": FINGERS["thumb"]}}, r"fingers: thumb\. Allowed: a thumb, .* at least one finger more"),
        (
            {"fingers": {**FINGERS, "a": {**FINGERS["a"], "link": "plat"}}},
            r"fingers\.a\.link=plat: unknown\. Allowed: plate, t1, .* Did you mean plate\?",
        ),
        (
            {"fingers": {**FINGERS, "a": FINGERS["b"]}},
            r"fingers\.a\.link=b2: another finger has it too",
        ),
        ({"fingers": {**FINGERS, "a": {"link": "a2"}}}, r"fingers: a lacks tip, pad"),
        (
            {"controls": {**CONTROLS, "thumb": {"joints": {"t_inn": 1}, "open": 0}}},
            r"controls\.thumb\.joints=t_inn: unknown\. Allowed: t_in, .* Did you mean t_in\?",
        ),
        (
            {"controls": {**CONTROLS, "thumb": {"joints": {"t_in": 1}, "open": 2}}},
            r"controls\.thumb\.open=2\. Allowed: -0\.349 to 1\.05 rad",
        ),
        (
            {"controls": {**CONTROLS, "thumb": {"joints": {"t_in": 0}, "open": 0}}},
            r"t_in=0: not allowed\. Allowed: a factor that is not 0",
        ),
        (
            {"controls": {**CONTROLS, "other": {"joints": {"a_in": 1}, "open": 0}}},
            r"controls\.other: a_in is in controls\.pair too",
        ),
        ({"held": ["t_end", "a_end"]}, r"neither driven nor held: b_end\. Name each in a control"),
        ({"held": ["t_end", "a_end", "b_end", "elbow"]}, r"held=elbow: unknown\. Allowed: t_in, "),
        ({"held": ["t_end", "a_end", "b_end", "t_in"]}, r"controls\.thumb: t_in is in held too"),
        ({"motors": {"stiffness": 0}}, r"motors: stiffness=0: not allowed\. Allowed: a number above 0"),
        ({"motors": {"stifness": 1}}, r"motors: key=stifness: unknown\. .* Did you mean stiffness\?"),
        ({"model": "other.xml"}, r"there is no model .*other\.xml\. Give the path of other\.xml: asset=<path>"),
    ],
)
def test_what_is_wrong_in_a_map_is_said_by_name(tmp_path, changes, message):
    file = write_toy(tmp_path, **changes)
    with pytest.raises(
        UserError, match=rf"^hand={re.escape(str(file))}:? .*{message}|^hand={re.escape(str(file))}: {message}"
    ):
        mapped_hand(str(file), None)


def test_a_link_without_a_shape_cannot_be_a_finger(tmp_path):
    file = write_toy(tmp_path)
    model = tmp_path / "gripper.xml"
    model.write_text(model.read_text().replace('<joint name="t_end"', '<body name="nail"/><joint name="t_end"'))
    text = file.read_text()
    assert text.count("link: t2") == 1
    file.write_text(text.replace("link: t2", "link: nail"))
    with pytest.raises(UserError, match=r"fingers\.thumb\.link=nail: it has no shape that collides"):
        mapped_hand(str(file), None)


def test_names_of_maps_stay_names_and_files_become_paths(tmp_path, monkeypatch):
    write_toy(tmp_path)
    monkeypatch.chdir(tmp_path)
    typed = compose(["task=BlindGrasping", "hand=dexhand021", "asset=dex.xml"]).task.params
    assert (typed.hand, typed.asset) == ("dexhand021", str(tmp_path / "dex.xml"))
    assert compose(["task=BlindGrasping", "hand=gripper.yaml"]).task.params.hand == str(tmp_path / "gripper.yaml")
    with pytest.raises(UserError, match=r"there is no such file .* one of .*dexhand021.* Did you mean dexhand021\?"):
        read_map(str(tmp_path / "dexhand"))


def test_each_map_that_comes_along_can_be_read():
    assert set(map_names()) == set(FOREIGN)
    for name in map_names():
        assert next(iter(read_map(name).fingers)) == "thumb"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FOREIGN))
def test_a_foreign_hand_can_be_simulated(make, name):
    variable, path = FOREIGN[name]
    env = make(name, asset=str(foreign(CHECKOUTS[variable], variable) / path))
    table = env.task.table
    for _ in range(60):
        step = env.step(torch.rand(env.num_envs, len(table.controls)) * 2 - 1)
        assert torch.isfinite(step.reward).all()

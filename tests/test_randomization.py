"""What differs between environments, by hand-computed numbers and in real physics."""

from __future__ import annotations

import pytest
import torch
from sim_worlds import FALLING, FLOOR, PENDULUM, STACKED, make

from livegym.schema import RandomizationConfig
from livegym.tasks.base import Box
from livegym.tasks.randomization import Randomizer
from livegym.utils.errors import UserError

ALL = torch.arange(3)
BOXES = f"""<mujoco><worldbody>{FLOOR}
<body name="low" pos="0 0 .1"><freejoint/><geom name="low" type="box" size=".1 .1 .1" mass="1"/></body>
<body name="pair" pos="2 0 .1"><freejoint/><geom name="left" type="box" size=".1 .1 .1" mass="1"/>
  <geom name="right" type="box" size=".1 .1 .1" pos=".4 0 0" mass="1"/></body>
</worldbody></mujoco>"""
ARM = """<mujoco><worldbody><body name="arm"><joint name="elbow" damping="0.5"/><joint name="wrist" damping="0.25"/>
<geom name="arm" size=".1" friction="0.8 0.1 0.01"/></body></worldbody>
<actuator><position name="elbow" joint="elbow" kp="4" kv="0.3"/></actuator></mujoco>"""


def randomized(model, folder, engine="mujoco", seed=0, level=1.0, envs=3, **schedule):
    """A started simulator, and the randomiser that has set its environments."""
    sim = make(model, folder, engine, envs=envs)
    sim.require("body_pos_w")
    entries = {name: RandomizationConfig(**entry) for name, entry in schedule.items()}
    randomizer = Randomizer(entries, sim, Box(1))
    sim.start()
    randomizer.start()
    rng = torch.Generator().manual_seed(seed)
    randomizer.reset(torch.arange(envs), rng, level)
    return sim, randomizer, rng


def test_factors_multiply_what_the_model_says(tmp_path):
    sim, _, _ = randomized(
        ARM,
        tmp_path,
        softer={"what": "gain", "names": ["elbow"], "range": [0.5, 0.5]},
        stiffer={"what": "damping", "names": ["elbow"], "range": [2.0, 2.0]},
        slippery={"what": "friction", "names": ["a*"], "range": [0.5, 0.5]},
    )
    assert sim.model_value("actuator_gainprm")[1, 0, :3].tolist() == [2.0, 0.0, 0.0]
    assert sim.model_value("actuator_biasprm")[1, 0, :3].tolist() == pytest.approx([0.0, -2.0, -0.3])  # kv stays
    assert sim.model_value("dof_damping")[1].tolist() == [1.0, 0.25]
    assert sim.model_value("geom_friction")[1, 0].tolist() == pytest.approx([0.4, 0.05, 0.005])


def test_inertia_follows_mass_and_size_of_a_body_of_one_geom(tmp_path):
    heavy = {"what": "mass", "names": ["low", "pair"], "range": [3.0, 3.0]}
    large = {"what": "size", "names": ["l*", "right"], "range": [2.0, 2.0]}
    sim, _, _ = randomized(BOXES, tmp_path, heavy=heavy, large=large)
    own = torch.from_numpy(sim.world.model.body_inertia)
    assert (sim.model_value("body_mass")[0] / torch.from_numpy(sim.world.model.body_mass))[1:].tolist() == [3.0, 3.0]
    torch.testing.assert_close(sim.model_value("body_inertia")[2, 1], own[1] * 3 * 4)  # mass x size squared
    torch.testing.assert_close(sim.model_value("body_inertia")[2, 2], own[2] * 3)  # of two geoms: by the mass only
    assert sim.model_value("geom_size")[1, 1:, 0].tolist() == pytest.approx([0.2] * 3)


@pytest.mark.parametrize("engine", ["mujoco", "reference"])
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.7])
def test_boxes_stack_at_each_size(engine, factor, tmp_path):
    both = {"what": "size", "names": ["low", "high"], "range": [factor, factor]}
    sim, _, _ = randomized(STACKED, tmp_path, engine, both=both)
    low, high = sim.body_ids(["low", "high"])
    qpos = sim.default_qpos.repeat(3, 1)
    qpos[:, 2], qpos[:, 9] = 0.1 * factor, 0.3 * factor + 0.005
    sim.reset(ALL, qpos, torch.zeros(3, sim.qvel.shape[1]))
    for _ in range(200):
        sim.step()
    heights = torch.tensor([0.1 * factor, 0.3 * factor]).repeat(3, 1)
    torch.testing.assert_close(sim.body_pos_w[:, [low, high], 2], heights, rtol=0, atol=0.004)


def test_every_environment_and_every_object_draws_its_own_from_the_range(tmp_path):
    _, randomizer, _ = randomized(
        BOXES, tmp_path, envs=400, m={"what": "mass", "names": ["low", "pair"], "range": [0.5, 2.0]}
    )
    values = randomizer.terms[0].values
    assert values.shape == (400, 2)
    assert values.unique().numel() == 800
    assert 0.5 <= values.min() < 0.52
    assert 1.98 < values.max() <= 2.0
    assert values.mean().item() == pytest.approx(1.25, abs=0.05)


def test_distributions(tmp_path):
    def drawn(**entry):
        entry = {"what": "mass", "names": ["low"], "range": [0.5, 2.0], **entry}
        return randomized(BOXES, tmp_path, envs=2000, m=entry)[1].terms[0].values

    assert drawn(distribution="log_uniform").log().mean().item() == pytest.approx(0.0, abs=0.03)  # 0.5 and 2 alike
    gaussian = drawn(distribution="gaussian")
    assert gaussian.mean().item() == pytest.approx(1.25, abs=0.03)
    assert gaussian.std().item() == pytest.approx(0.36, abs=0.03)  # 1.5 / 4, a little less: cut off
    assert gaussian.min().item() == 0.5


def test_delays_are_whole_steps_each_as_likely(tmp_path):
    late = {"what": "action_delay", "range": [1, 3]}
    _, randomizer, _ = randomized(BOXES, tmp_path, envs=3000, late=late)
    values, counts = randomizer.action_delay.unique(return_counts=True)
    assert values.tolist() == [1, 2, 3]
    assert all(900 < count < 1100 for count in counts)


def test_the_curriculum_widens_a_range_from_no_change(tmp_path):
    entry = {"what": "mass", "names": ["low"], "range": [0.5, 3.0], "curriculum": True}

    def spread(level):
        values = randomized(BOXES, tmp_path, level=level, envs=500, m=entry)[1].terms[0].values
        return [values.min().item(), values.max().item()]

    assert spread(0.0) == [1.0, 1.0]
    assert spread(0.5) == pytest.approx([0.75, 2.0], abs=0.02)
    assert spread(1.0) == pytest.approx([0.5, 3.0], abs=0.04)
    late = {"what": "action_delay", "range": [0, 4], "curriculum": True}
    assert randomized(BOXES, tmp_path, level=0.5, envs=500, m=late)[1].action_delay.unique().tolist() == [0, 1, 2]


def test_a_late_delay_grows_with_the_level_too(tmp_path):
    late = {"what": "action_delay", "range": [2, 4], "curriculum": True}

    def drawn(level):
        return randomized(BOXES, tmp_path, level=level, envs=500, m=late)[1].action_delay.unique().tolist()

    assert [drawn(level) for level in (0.0, 0.5, 1.0)] == [[0], [1, 2], [2, 3, 4]]


def test_an_entry_that_is_switched_off_is_as_if_it_were_not_there(tmp_path):
    entry = {"what": "mass", "names": ["low"], "range": [3.0, 3.0]}
    sim, randomizer, _ = randomized(BOXES, tmp_path, m={**entry, "enabled": False})
    assert randomizer.terms == []
    assert sim.model_value("body_mass")[0, 1].item() == 1.0


MESH = """<mujoco><asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody>
<body name="thing"><freejoint/><geom name="thing" type="mesh" mesh="m"/></body></worldbody></mujoco>"""
SERVO = ARM.replace('<position name="elbow" joint="elbow" kp="4" kv="0.3"/>', '<velocity name="elbow" joint="elbow"/>')


@pytest.mark.parametrize(
    ("model", "entry", "message"),
    [
        (MESH, {"what": "size", "names": ["thing"]}, r"shape of geom thing \(mesh\) does not follow from its size"),
        (SERVO, {"what": "gain", "names": ["elbow"]}, r"elbow is not a position actuator \(gain 1, bias -?0 x"),
        (PENDULUM, {"what": "friction", "names": ["*"]}, "no geom is called .*none with a name. Name the geom"),
    ],
)
def test_what_the_model_cannot_have_randomised_is_refused(model, entry, message, tmp_path):
    with pytest.raises(UserError, match=rf"task.randomization.m.*{message}"):
        randomized(model, tmp_path, m={"range": [0.5, 2.0], **entry})


def test_an_interval_draws_anew_while_the_episode_continues(tmp_path):
    entry = {"what": "damping", "names": ["hinge"], "range": [0.5, 2.0], "interval_s": [0.02, 0.02]}
    model = PENDULUM.replace('axis="0 1 0"/>', 'axis="0 1 0" damping="1"/>')
    sim, randomizer, rng = randomized(model, tmp_path, d=entry)  # a control step is 4 ms
    seen = []
    for _ in range(11):
        randomizer.step(rng, 1.0)
        sim.step()
        seen.append(sim.model_value("dof_damping")[0, 0].item())
    assert [len(set(seen[a:b])) for a, b in ((0, 4), (4, 9), (9, 11))] == [1, 1, 1]
    assert len(set(seen)) == 3


@pytest.mark.parametrize("engine", ["mujoco", "reference"])
def test_a_push_is_a_force_for_a_while(engine, tmp_path):
    entry = {"what": "push", "names": ["box"], "range": [3.0, 3.0], "interval_s": [0.02, 0.02], "duration_s": 0.008}
    model = FALLING.replace(FLOOR, "").replace('timestep="0.002"', 'timestep="0.002" gravity="0 0 0"')
    sim, randomizer, rng = randomized(model, tmp_path, engine, p=entry)
    speeds = []
    for _ in range(8):  # 4 ms each: due in the fifth, for two
        randomizer.step(rng, 1.0)
        sim.step()
        speeds.append(sim.qvel[:, :3].norm(dim=1))
    assert speeds[3].abs().max() == 0
    for speed in speeds[5:]:
        torch.testing.assert_close(speed, torch.full((3,), 3.0 * 0.008))  # 1 kg
    sim.reset(ALL, sim.default_qpos.repeat(3, 1), torch.zeros(3, 6))
    assert sim.xfrc_applied.abs().max() == 0


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"names": ["lwo"]}, "names: no body is called lwo. Allowed: world, low, pair. Did you mean low"),
        ({"names": []}, "names is empty: [a-z]+ needs the name of a body"),
        ({"range": [2.0, 1.0]}, r"range=\[2.0, 1.0\]: must be two numbers, the smaller one first"),
        ({"range": [1.0]}, r"range=\[1.0\]: must be two numbers"),
        ({"range": [0.0, 1.0]}, "mass cannot be below 1e-06"),
        ({"range": [0.5, 2.0], "interval_s": [3.0, 1.0]}, r"interval_s=\[3.0, 1.0\]: must be two numbers"),
        ({"what": "friction", "names": ["low"], "range": [0.0, 1.0], "distribution": "log_uniform"}, "no logarithm"),
        ({"what": "action_delay", "names": [], "range": [0.0, 1.5]}, "whole number of control steps"),
        (
            {"what": "action_delay", "range": [0.0, 1.0]},
            r"names=\['low'\]: action_delay belongs to no object of the model",
        ),
        ({"what": "push"}, "interval_s is not set, but a push needs it"),
        ({"what": "size", "interval_s": [1.0, 2.0]}, "a size changes at resets only"),
    ],
)
def test_an_entry_that_makes_no_sense_is_refused_by_name(entry, message, tmp_path):
    entry = {"what": "mass", "names": ["low"], "range": [0.5, 2.0], **entry}
    with pytest.raises(UserError, match=f"task.randomization.m.*{message}"):
        randomized(BOXES, tmp_path, m=entry)


def test_two_entries_for_one_thing_are_refused(tmp_path):
    entry = {"what": "mass", "names": ["low"], "range": [0.5, 2.0]}
    with pytest.raises(UserError, match=r"task\.randomization\.b: mass of low is already drawn by .*a"):
        randomized(BOXES, tmp_path, a=entry, b={**entry, "names": ["*"]})


def test_a_delay_has_an_end(tmp_path):
    with pytest.raises(UserError, match=r"whole number of control steps, at most 1000"):
        randomized(BOXES, tmp_path, m={"what": "action_delay", "range": [0, 100000]})

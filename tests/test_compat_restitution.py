"""Restitution: a ball that falls from 1 m comes back to e^2 m."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from livegym.compat.core import properties
from livegym.compat.core.asset import box, sphere
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, PlaneParams, Vec3
from tests import compat_scenes as scenes

RADIUS = 0.1


def dropped(own: list[float], ground: float = 0.0, dt: float = 1 / 120, height: float = 1.0, threshold: float = 0.2):
    """Balls whose lowest points are `height` above the ground; one environment for each coefficient."""
    params = scenes.params(dt)
    params.physx.bounce_threshold_velocity = threshold
    sim = Sim(params)
    sim.ground.plane = PlaneParams(normal=Vec3(0.0, 0.0, 1.0), restitution=ground)
    for value in own:
        env = sim.add_env(Vec3(), Vec3(), 1)
        actor = env.add(sphere(RADIUS, AssetOptions(angular_damping=0.0)), scenes.pose(z=height + RADIUS), "ball", 0, 0)
        bounce(sim, actor, value)
    return sim


def bounce(sim: Sim, actor, value: float) -> None:
    records = properties.get_shapes(actor)
    records[0].restitution = value
    properties.set_shapes(sim, actor, records)


def apexes(sim: Sim, seconds: float = 1.5) -> np.ndarray:
    """The height of each ball above the ground at its first apex after the first impact, m."""
    heights = []
    for _ in range(round(seconds / sim.params.dt)):
        sim.simulate()
        heights.append(sim.engine.qpos[:, 2] - RADIUS)
    rows = np.array(heights)
    after = [rows[int(np.argmax(np.diff(row) > 0)) :, ball].max() for ball, row in enumerate(rows.T)]
    return np.array(after)


@pytest.mark.parametrize("dt", [1 / 60, 1 / 120, 1 / 200])
def test_a_ball_comes_back_to_the_square_of_the_mean_coefficient(dt):
    """The mean of the ball's and the ground's: 0.3, 0.5, 0.75 and 0.9."""
    found = apexes(dropped([0.0, 0.4, 0.9, 1.2], ground=0.6, dt=dt))
    np.testing.assert_allclose(found, np.array([0.3, 0.5, 0.75, 0.9]) ** 2, atol=0.02)


def test_without_restitution_nothing_bounces_and_nothing_is_computed_for_it():
    sim = dropped([0.0])
    assert apexes(sim)[0] < 0.005
    assert not sim.engine.differs("geom_solref")


def test_a_ball_at_rest_stays_at_rest_below_the_threshold():
    """From 1 mm it reaches 0.14 m/s, which is below 0.2 and above 0.05."""
    quiet, lively = (dropped([1.6], height=0.001, dt=1 / 400, threshold=threshold) for threshold in (0.2, 0.05))
    assert apexes(quiet, 0.2)[0] < 2e-4
    assert apexes(lively, 0.2)[0] > 5e-4


def test_restitution_can_be_set_and_taken_back_while_it_runs():
    sim = dropped([0.0, 1.0, 1.0])
    sim.compile()
    bounce(sim, sim.envs[0].actors[0], 1.0)
    bounce(sim, sim.envs[1].actors[0], 0.0)
    np.testing.assert_allclose(apexes(sim), [0.25, 0.0, 0.25], atol=0.02)


def test_of_two_actors_the_larger_mean_with_the_ground_counts():
    """Own 0.8 and ground 0: 0.4. A ball on a fixed box that has none."""
    sim = Sim(scenes.params(1 / 200))
    env = sim.add_env(Vec3(), Vec3(), 1)
    ball = env.add(sphere(RADIUS), scenes.pose(z=1.0 + RADIUS), "ball", 0, 0)
    env.add(box(2.0, 2.0, 0.2, AssetOptions(fix_base_link=True)), scenes.pose(z=-0.1), "floor", 0, 0)
    bounce(sim, ball, 0.8)
    assert apexes(sim)[0] == pytest.approx(0.16, abs=0.02)


def test_a_restored_snapshot_bounces_again():
    sim = dropped([1.0])
    saved = sim.engine.snapshot()
    first = apexes(sim)
    other = dropped([0.0])
    other.engine.restore(saved)
    assert apexes(other)[0] == first[0]


def test_the_threshold_may_be_changed_while_it_runs():
    sim = dropped([1.6], height=0.001, dt=1 / 400)
    sim.compile()
    params = copy.deepcopy(sim.params)
    params.physx.bounce_threshold_velocity = 0.05
    sim.set_params(params)
    assert apexes(sim, 0.2)[0] > 5e-4


def test_a_restored_snapshot_without_restitution_bounces_no_more():
    saved = dropped([0.0]).engine.snapshot()
    sim = dropped([1.0])
    sim.engine.restore(saved)
    assert apexes(sim)[0] < 0.005


def bouncing(sim: Sim) -> list[list[bool]]:
    """Whether each shape of each environment is one that bounces in the last step."""
    geoms = sim.engine.layout.geoms
    return (sim.engine.per_env("geom_solref")[:, geoms, 0] < 0).tolist()


def test_a_box_comes_back_to_the_square_of_the_mean_coefficient():
    """A box of 0.2 m, flat, from 0.5 m, with 0.6: 0.18 m."""
    sim = Sim(scenes.params(1 / 200))
    sim.ground.plane = PlaneParams(normal=Vec3(0.0, 0.0, 1.0), restitution=0.6)
    env = sim.add_env(Vec3(), Vec3(), 1)
    bounce(sim, env.add(box(0.2, 0.2, 0.2), scenes.pose(z=0.5 + RADIUS), "box", 0, 0), 0.6)
    assert apexes(sim)[0] == pytest.approx(0.18, abs=0.02)


def two_boxes(density: float, speeds: tuple[float, float], gap: float, own: float = 1.0) -> Sim:
    """Boxes of 0.2 m on the x axis, without gravity; the first has that density, the other 1000 kg/m^3."""
    sim = Sim(scenes.params(1 / 200, gravity=0.0))
    env = sim.add_env(Vec3(), Vec3(), 1)
    for number, (kilos, x) in enumerate([(density, 0.0), (1000.0, 0.2 + gap)]):
        options = AssetOptions(density=kilos, angular_damping=0.0)
        bounce(sim, env.add(box(0.2, 0.2, 0.2, options), scenes.pose(x=x), f"box{number}", 0, 0), own)
    sim.compile()
    sim.engine.qvel[0, [0, 6]] = speeds
    sim.engine.moved()
    return sim


@pytest.mark.parametrize("density", [500.0, 1000.0, 3000.0])
@pytest.mark.parametrize("frame", [0.0, -1.0, 5.0])
def test_two_boxes_part_with_the_speed_of_their_approach_times_the_coefficient(density, frame):
    """Own 1 and no ground: 0.5. The first comes with 1 m/s; both also move with `frame` m/s, which changes nothing."""
    sim = two_boxes(density, (1.0 + frame, frame), gap=0.05)
    for _ in range(40):
        sim.simulate()
    share = density / (density + 1000.0)
    expected = [share - 0.5 * (1.0 - share), 1.5 * share]  # momentum, and the difference is 0.5 m/s
    np.testing.assert_allclose(sim.engine.qvel[0, [0, 6]], np.add(expected, frame), atol=0.04)  # four points


def test_boxes_that_touch_and_move_fast_together_do_not_bounce():
    sim = two_boxes(1000.0, (2.0, 2.0), gap=0.0)
    sim.simulate()
    assert bouncing(sim) == [[False, False]]
    sim.engine.qvel[0, 0] = 3.0
    sim.engine.moved()
    sim.simulate()
    assert bouncing(sim) == [[True, True]]


def test_a_ball_that_rolls_fast_does_not_bounce_and_one_that_falls_does():
    sim = dropped([1.0, 1.0], height=0.0)
    sim.compile()
    sim.engine.qvel[0, [0, 4]] = 2.0, 2.0 / RADIUS
    sim.engine.qvel[1, 2] = -1.0
    sim.engine.moved()
    sim.simulate()
    assert bouncing(sim) == [[False], [True]]


def test_links_that_cannot_collide_do_not_make_one_another_bounce(tmp_path):
    """The leg swings at 5 rad/s; each link touches none but the ground, which is far."""
    sim = scenes.scene(scenes.asset(tmp_path, scenes.WALKER), 1, at=scenes.pose(z=5.0), ground=True, gravity=0.0)
    for actor in sim.envs[0].actors:
        records = properties.get_shapes(actor)
        for record in records[:2]:
            record.restitution = 1.0
        properties.set_shapes(sim, actor, records)
    sim.compile()
    sim.engine.qvel[0, 6] = 5.0
    sim.engine.moved()
    sim.simulate()
    assert not np.any(bouncing(sim))

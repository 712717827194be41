"""The extent of a model, the grid of its environments and the camera that frames them, by hand."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from livegym.viewers.framing import FILL, bounds_of, bounds_over, elevation_for, frame, grid_offsets, in_grid


def model_of(body: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")


PLANE = '<geom type="plane" size="0 0 1"/>'
BOX = '<geom type="box" size="1 2 3"/>'
CUBE = '<geom type="box" size="1 1 1"/>'
SLIDER = f'<body pos="0 0 5"><joint type="slide" axis="1 0 0" limited="true" range="-4 8"/>{BOX}</body>'
FREE = f'<body pos="1 0 0"><freejoint/>{BOX}</body>'


# -- extents


def test_bounds_leave_out_endless_planes():
    bounds = bounds_of(model_of(PLANE + FREE))
    assert np.allclose(bounds.center, [1, 0, 0])
    assert np.allclose(bounds.size, [2, 4, 6])
    assert bounds.radius == pytest.approx(np.sqrt(4 + 16 + 36) / 2)


def test_bounds_of_nothing_but_a_plane_are_the_models_own():
    model = model_of(PLANE)
    assert np.allclose(bounds_of(model).size, model.stat.extent)


def test_bounds_of_a_model_in_which_nothing_moves_are_those_of_its_geoms():
    assert np.allclose(bounds_of(model_of(PLANE + BOX)).size, [2, 4, 6])


def test_bounds_reach_half_of_the_way_to_the_limits_of_joints():
    bounds = bounds_of(model_of(SLIDER))
    assert np.allclose(bounds.center, [1, 0, 5])  # x from -2 - 1 to 4 + 1
    assert np.allclose(bounds.size, [8, 4, 6])


def test_a_slide_without_limits_reaches_half_of_the_size_of_what_moves():
    bounds = bounds_of(model_of('<body><joint type="slide" axis="1 0 0"/><geom type="box" size=".5 1 1"/></body>'))
    assert np.allclose(bounds.size, [1 + 3, 2, 2])  # the diagonal is 3 m: half of it to each side


def test_joints_are_moved_one_at_a_time():
    """A hand is not expected in the corner of its range, so the picture need not show it."""
    slides = "".join(f'<joint type="slide" axis="{axis}" limited="true" range="-4 4"/>' for axis in ("1 0 0", "0 1 0"))
    points = bounds_of(model_of(f"<body>{slides}{CUBE}</body>")).points
    assert np.allclose(np.ptp(points, axis=0), [6, 6, 2])
    assert np.abs(points[:, :2]).sum(1).max() == pytest.approx(2 + 1 + 1)


def test_a_fixed_thing_counts_if_it_is_near_and_not_larger():
    socket = '<geom type="box" size=".1 .1 .1" pos="2 0 0"/>'
    rail = '<geom type="box" size="50 .1 .1"/>'
    far = '<geom type="box" size=".1 .1 .1" pos="9 0 0"/>'
    moving = f"<body><freejoint/>{CUBE}</body>"
    assert np.allclose(bounds_of(model_of(moving + socket)).size, [3.1, 2, 2])
    assert np.allclose(bounds_of(model_of(moving + rail + far)).size, [2, 2, 2])


def test_a_known_motion_has_the_boxes_of_its_states():
    model = model_of(PLANE + SLIDER)
    points = bounds_over(model, np.array([[0.0], [3.0]]))
    assert np.allclose([points.min(0), points.max(0)], [[-1, -2, 2], [4, 2, 8]])


# -- the grid


def test_environments_stand_half_a_size_apart():
    assert np.allclose(bounds_of(model_of(f"<body><freejoint/>{CUBE}</body>")).spacing, [3, 3])


def test_a_motion_gets_half_of_its_room():
    assert np.allclose(bounds_of(model_of(SLIDER)).spacing, [(2 + 8) / 2, 1.5 * 4])


def test_what_is_drawn_once_for_each_environment_does_not_overlap():
    rail = model_of('<geom type="box" size="4 .1 .1"/>' + f"<body><freejoint/>{CUBE}</body>")
    assert np.allclose(bounds_of(rail).spacing, [8, 3])


@pytest.mark.parametrize(("num_envs", "rows"), [(1, 1), (2, 2), (4, 2), (5, 3), (64, 8)])
def test_a_grid_is_about_square_and_around_the_origin(num_envs, rows):
    offsets = grid_offsets(num_envs, 3.0)
    assert offsets.shape == (num_envs, 3)
    assert len(np.unique(offsets[:, 1])) == rows
    assert len(np.unique(offsets, axis=0)) == num_envs
    assert np.allclose(offsets.max(0), -offsets.min(0))
    assert num_envs == 1 or np.isclose(np.linalg.norm(offsets[1] - offsets[0]), 3.0)


def test_long_environments_lie_beside_each_other():
    offsets = grid_offsets(4, np.array([12.0, 2.0]))
    assert np.allclose(offsets[:, 0], 0)
    assert np.allclose(offsets[:, 1], [-3, -1, 1, 3])


def test_a_grid_of_nothing_is_refused():
    with pytest.raises(ValueError, match="num_envs=0: at least 1"):
        grid_offsets(0, 1.0)


def test_the_points_of_a_grid_are_those_of_each_environment():
    points = in_grid(np.array([[0.0, 0, 1], [1, 0, 0]]), np.array([[0.0, 0, 0], [5, 0, 0]]))
    assert points.tolist() == [[0, 0, 1], [1, 0, 0], [5, 0, 1], [6, 0, 0]]


# -- the camera

SQUARE = np.array([[0.0, y, z] for y in (-1, 1) for z in (2, 4)])  # 2 m wide and high, in the plane x = 0


def test_a_square_that_is_seen_from_the_front_fills_its_part_of_the_picture():
    camera = frame(SQUARE, azimuth=0, elevation=0, aspect=1, fov=90)  # at 1 m, the picture is 2 m high
    assert np.allclose(camera.lookat, [0, 0, 3])
    assert camera.distance == pytest.approx(1 / FILL)


def test_the_narrower_side_of_a_picture_decides():
    assert frame(SQUARE, 0, 0, aspect=2, fov=90).distance == pytest.approx(1 / FILL)
    assert frame(SQUARE, 0, 0, aspect=0.5, fov=90).distance == pytest.approx(2 / FILL)


@pytest.mark.parametrize("azimuth", [0, 125, 270])
@pytest.mark.parametrize("elevation", [-89, -20, 5])
def test_all_points_are_in_sight_and_touch_its_edges(azimuth, elevation):
    points = np.random.default_rng(0).normal(size=(50, 3)) * [3, 1, 2] + 7
    camera = frame(points, azimuth, elevation, aspect=4 / 3, fov=60)
    turn, tilt = math.radians(azimuth), math.radians(elevation)
    forward = np.array([math.cos(tilt) * math.cos(turn), math.cos(tilt) * math.sin(turn), math.sin(tilt)])
    right = np.cross(forward, [0, 0, 1]) / math.cos(tilt)
    from_camera = points - (camera.lookat - camera.distance * forward)
    depth = from_camera @ forward
    x, y = from_camera @ right / depth, from_camera @ np.cross(right, forward) / depth
    high = math.tan(math.radians(30))
    assert depth.min() > 0
    part = max(np.abs(x).max() / (high * 4 / 3), np.abs(y).max() / high)
    assert part == pytest.approx(FILL)


def test_a_single_point_has_a_camera_too():
    assert frame(np.zeros((1, 3)), 0, 0, aspect=1).distance > 0


def test_what_is_tall_is_seen_from_the_side_and_what_is_flat_from_above():
    assert elevation_for(np.array([[0.0, 0, 0], [0, 0, 2]])) == 0
    assert elevation_for(np.array([[0.0, 0, 0], [3, 4, 0]])) == -32
    assert elevation_for(np.array([[0.0, 0, 0], [3, 4, 5]])) == -16

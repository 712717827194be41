"""Terrain: height fields from meshes, and what our `terrain_utils` makes."""

from __future__ import annotations

import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.compat.core import terrain
from livegym.compat.core.asset import sphere
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, Vec3
from livegym.utils.errors import UserError
from tests import compat_scenes as scenes

sys.path.append(str(Path(__file__).parent.parent / "compat"))
from isaacgym import terrain_utils as tu

ORIGIN = (0.0, 0.0, 0.0)


def grid_mesh(heights: np.ndarray, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and upward triangles of a grid, cell by cell."""
    nx, ny = heights.shape
    vertices = [(i * spacing, j * spacing, heights[i, j]) for i in range(nx) for j in range(ny)]
    triangles = []
    for i in range(nx - 1):
        for j in range(ny - 1):
            a, b, c, d = i * ny + j, (i + 1) * ny + j, (i + 1) * ny + j + 1, i * ny + j + 1
            triangles += [(a, b, c), (a, c, d)]
    return np.array(vertices, np.float32), np.array(triangles, np.uint32)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 9), st.integers(2, 9), st.sampled_from([0.1, 0.25, 1.0]), st.integers(0, 1000))
def test_a_regular_mesh_is_rasterised_exactly(nx, ny, spacing, seed):
    heights = np.random.default_rng(seed).uniform(-1, 1, (nx, ny)).astype(np.float32)
    field = terrain.from_mesh(*grid_mesh(heights, spacing), ORIGIN, 1.0)
    np.testing.assert_allclose(field.heights, heights, atol=1e-5)
    np.testing.assert_allclose(field.spacing, spacing, rtol=1e-4)


def test_a_mesh_of_large_triangles_is_rasterised():
    """A wedge: two triangles over 3 x 2 m and a corner that gives the spacing."""
    vertices = np.array([[0, 0, 0], [3, 0, 1.5], [3, 2, 1.5], [0, 2, 0], [1, 0, 0.5], [0, 1, 0]], float)
    triangles = np.array([[0, 4, 5], [4, 1, 2], [5, 4, 2], [5, 2, 3]])
    field = terrain.from_mesh(vertices, triangles, ORIGIN, 1.0)
    np.testing.assert_allclose(field.heights, np.outer([0, 0.5, 1.0, 1.5], np.ones(3)), atol=1e-6)


def test_our_own_mesh_is_recognised_after_flattening():
    heights = np.zeros((12, 9), np.int16)
    heights[4:8, 3:6] = 100
    vertices, triangles = tu.convert_heightfield_to_trimesh(heights, 0.1, 0.005, 1.5)
    field = terrain.from_mesh(vertices.flatten(order="C"), triangles.flatten(order="C"), (-1.0, -2.0, 0.0), 0.7)
    np.testing.assert_allclose(field.heights, heights * 0.005)
    assert field.origin == (-1.0, -2.0, 0.0)
    assert field.friction == 0.7


def test_a_mesh_with_vertical_walls_is_rasterised_without_its_height_field(monkeypatch):
    monkeypatch.setattr(terrain, "_MADE", type(terrain._MADE)())
    heights = np.zeros((60, 40), np.int16)
    heights[10:30, 5:25] = 60
    heights[40:50, 20:35] = -30
    vertices, triangles = tu.convert_heightfield_to_trimesh(heights, 0.1, 0.005, 0.75)
    terrain._MADE.clear()
    field = terrain.from_mesh(vertices, triangles, ORIGIN, 1.0)
    np.testing.assert_allclose(field.spacing, 0.1, rtol=1e-5)
    assert (np.abs(field.heights - heights * 0.005) < 1e-5).mean() > 0.999  # a corner of a wall may differ


def test_walls_of_our_mesh_are_vertical_and_its_faces_look_up():
    heights = np.zeros((6, 6), np.int16)
    heights[3:, :] = 100
    vertices, triangles = tu.convert_heightfield_to_trimesh(heights, 0.1, 0.005, 1.5)
    assert vertices.dtype == np.float32
    assert triangles.dtype == np.uint32
    assert len(triangles) == 2 * 5 * 5
    foot, top = vertices[2 * 6 + 2], vertices[3 * 6 + 2]
    assert foot[0] == pytest.approx(top[0])  # x = 0.3: the foot moved under the top
    assert (foot[2], top[2]) == pytest.approx((0.0, 0.5))
    corners = vertices[triangles]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert (normal[:, 2] > -1e-7).all()
    flat = tu.convert_heightfield_to_trimesh(heights, 0.1, 0.005)[0]
    assert flat[2 * 6 + 2, 0] == pytest.approx(0.2)


def irregular():
    return np.array([[0, 0, 0], [1, 0, 0], [0.377, 1, 0], [0.613, 0.4142, 0]], float), np.array([[0, 1, 3], [0, 3, 2]])


def roof():
    vertices, triangles = grid_mesh(np.zeros((4, 4)), 1.0)
    over = vertices + np.array([0, 0, 2])
    return np.concatenate([vertices, over]), np.concatenate([triangles, triangles[:, ::-1] + len(vertices)])


@pytest.mark.parametrize(
    ("mesh", "reason"),
    [
        (irregular, "not multiples of one spacing"),
        (roof, "overhang"),
        (lambda: (np.zeros((0, 3)), np.zeros((0, 3))), "no triangles"),
        (lambda: (np.full((3, 3), np.nan), np.array([[0, 1, 2]])), "not finite"),
        (lambda: (np.eye(3), np.array([[0, 1, 9]])), "names vertex 9"),
        (lambda: (np.array([[0, 0, 0], [0, 1, 0], [0, 1, 1]], float), np.array([[0, 1, 2]])), "no area"),
    ],
)
def test_what_cannot_be_rasterised_is_refused(mesh, reason):
    with pytest.raises(UserError, match=reason):
        terrain.from_mesh(*mesh(), ORIGIN, 1.0)


def test_balls_rest_on_the_heights_of_the_field():
    """x is the first axis of the samples, and the corner sample is at the origin of the transform."""
    samples = np.zeros((21, 11), np.int16)
    samples[10:, :] = 50
    sim = Sim(scenes.params(substeps=2))
    sim.ground.fields.append(terrain.from_heights(samples, (0.2, 0.2), 0.01, (-2.0, -1.0, 0.0), 1.0))
    env = sim.add_env(Vec3(), Vec3(), 1)
    ball = sphere(0.1, AssetOptions())
    for x in (-1.0, 1.0):
        env.add(ball, scenes.pose(x=x, z=0.8), f"ball{x}", 0, 0)
    for _ in range(150):
        sim.simulate()
    heights = sim.engine.qpos[0, [2, 9]]
    np.testing.assert_allclose(heights, [0.1, 0.6], atol=5e-3)
    assert mujoco.mj_id2name(sim.engine.model, mujoco.mjtObj.mjOBJ_GEOM, 0) == "terrain0"


# terrain_utils


def patch(size: int = 80) -> tu.SubTerrain:
    return tu.SubTerrain("t", width=size, length=size, vertical_scale=0.005, horizontal_scale=0.1)


def test_a_pyramid_slopes_to_a_flat_platform():
    field = tu.pyramid_sloped_terrain(patch(), slope=0.2, platform_size=2.0).height_field_raw
    middle = field[30:50, 30:50]
    assert (middle == middle[0, 0]).all()
    assert field.max() == middle[0, 0] > 0
    assert field[0, 40] == 0
    down = tu.pyramid_sloped_terrain(patch(), slope=-0.2, platform_size=2.0).height_field_raw
    assert (down == -field).all()


def test_stairs_have_equal_steps():
    field = tu.pyramid_stairs_terrain(patch(), step_width=0.3, step_height=0.1, platform_size=2.0).height_field_raw
    assert set(np.unique(np.diff(field[:40, 40]))) <= {0, 20}
    assert field[40, 40] == field.max() == 20 * 10
    assert field[0, 0] == 0
    straight = tu.stairs_terrain(patch(), step_width=0.4, step_height=0.1).height_field_raw
    assert straight[:9, 0].tolist() == [20] * 4 + [40] * 4 + [60]


def test_random_heights_keep_to_their_range_and_seed():
    np.random.seed(4)
    field = tu.random_uniform_terrain(patch(), -0.05, 0.05, step=0.005, downsampled_scale=0.2).height_field_raw
    assert abs(field).max() <= 10
    assert len(np.unique(field)) > 10
    np.random.seed(4)
    again = tu.random_uniform_terrain(patch(), -0.05, 0.05, step=0.005, downsampled_scale=0.2).height_field_raw
    assert (again == field).all()


def test_obstacles_and_stones_leave_the_platform_flat():
    obstacles = tu.discrete_obstacles_terrain(patch(), 0.2, 1.0, 2.0, 20, platform_size=3.0).height_field_raw
    assert (obstacles[25:55, 25:55] == 0).all()
    assert set(np.unique(obstacles)) <= {-40, -20, 0, 20, 40}
    assert len(np.unique(obstacles)) > 2
    stones = tu.stepping_stones_terrain(patch(), 0.8, 0.1, 0.0, platform_size=3.0).height_field_raw
    assert (stones[25:55, 25:55] == 0).all()
    assert set(np.unique(stones)) == {-2000, 0}
    assert 0.1 < (stones < 0).mean() < 0.3  # gaps of 1 sample around stones of 8


def test_slopes_and_waves():
    slope = tu.sloped_terrain(patch(), slope=0.5).height_field_raw
    assert slope[10, 0] == 10 * 0.1 * 0.5 / 0.005
    waves = tu.wave_terrain(patch(), num_waves=2, amplitude=0.4).height_field_raw
    assert waves.max() == pytest.approx(0.4 / 0.005, abs=2)

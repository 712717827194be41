"""Cameras of task code: depth, segmentation and colour of a scene whose numbers are computed by hand.

The camera is at (-3, 0, 1) and looks along x, with 90 degrees across 60 pixels and 30 pixels of height: at a distance
d, the picture is 2 d wide and d high. The front of a cube of 1 m is 3 m away, so it covers 10 by 10 pixels.
"""

from __future__ import annotations

import math
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from livegym.utils.errors import UserError
from livegym.utils.gl import choose_backend

sys.path.append(str(Path(__file__).parent.parent / "compat"))
from isaacgym import gymapi

WIDTH, HEIGHT = 60, 30
CUBE = slice(10, 20), slice(25, 35)
gym = gymapi.acquire_gym()


def has_gl() -> bool:
    try:
        choose_backend()
    except UserError:
        return False
    return True


pytestmark = pytest.mark.skipif(not has_gl(), reason="no off-screen OpenGL here")


def scene(edges=(1.0,), ground: bool = True, fixed: bool = True):
    """A cube, number 7, with its front at x = 0 in each environment; the ground is number 3."""
    params = gymapi.SimParams()
    params.gravity = gymapi.Vec3(0.0, 0.0, 0.0)
    sim = gym.create_sim(0, 0, gymapi.SIM_PHYSX, params)
    if ground:
        plane = gymapi.PlaneParams()
        plane.normal, plane.segmentation_id = gymapi.Vec3(0.0, 0.0, 1.0), 3
        gym.add_ground(sim, plane)
    options = gymapi.AssetOptions()
    options.fix_base_link = fixed
    envs = []
    for edge in edges:
        env = gym.create_env(sim, gymapi.Vec3(), gymapi.Vec3(), 1)
        pose = gymapi.Transform(gymapi.Vec3(edge / 2, 0.0, 1.0), gymapi.Quat())
        gym.create_actor(env, gym.create_box(sim, edge, edge, edge, options), pose, "cube", 0, 0, 7)
        envs.append(env)
    return sim, envs


def camera(env, **changes) -> int:
    properties = gymapi.CameraProperties()
    properties.width, properties.height, properties.enable_tensors = WIDTH, HEIGHT, True
    for name, value in changes.items():
        setattr(properties, name, value)
    handle = gym.create_camera_sensor(env, properties)
    gym.set_camera_location(handle, env, gymapi.Vec3(-3.0, 0.0, 1.0), gymapi.Vec3(0.0, 0.0, 1.0))
    return handle


def images(sim, env, handle):
    """Depth and segmentation, after rendering."""
    gym.render_all_camera_sensors(sim)
    kinds = gymapi.IMAGE_DEPTH, gymapi.IMAGE_SEGMENTATION
    return tuple(gym.get_camera_image(sim, env, handle, kind) for kind in kinds)


def test_depth_is_minus_the_distance_along_the_view():
    sim, (env,) = scene()
    depth, _ = images(sim, env, camera(env))
    np.testing.assert_allclose(depth[CUBE], -3.0, atol=2e-3)
    assert np.isneginf(depth[0]).all()  # the sky
    rows = np.arange(25, HEIGHT)
    down = (rows + 0.5 - HEIGHT / 2) / (HEIGHT / 2) * 0.5  # the slope of the ray: the ground is 1 m below
    np.testing.assert_allclose(depth[25:, 5], -1.0 / down, rtol=5e-3)


@pytest.mark.parametrize("kind", ["heightfield", "mesh"])
def test_terrain_has_its_number_beside_that_of_the_plane(kind):
    """A step of 0.5 m, 10 m wide and 1 m deep, under the cube; the plane is number 3."""
    sim, (env,) = scene()
    samples = np.full((5, 11), 500, np.int16)
    if kind == "heightfield":
        params = gymapi.HeightFieldParams()
        params.nbColumns, params.nbRows, params.vertical_scale = 5, 11, 0.001
        params.column_scale, params.row_scale = 0.25, 1.0
        add = gym.add_heightfield, samples.reshape(-1)
    else:
        x, y = np.meshgrid(np.arange(5) * 0.25, np.arange(11.0), indexing="ij")
        vertices = np.stack([x, y, np.full(x.shape, 0.5)], -1).reshape(-1, 3).astype(np.float32)
        corner = (np.arange(4)[:, None] * 11 + np.arange(10)).reshape(-1)
        triangles = np.concatenate(
            [np.stack([corner, corner + 11, corner + 12], 1), np.stack([corner, corner + 12, corner + 1], 1)]
        ).astype(np.uint32)
        params = gymapi.TriangleMeshParams()
        params.nb_vertices, params.nb_triangles = len(vertices), len(triangles)
        add = gym.add_triangle_mesh, vertices.reshape(-1), triangles.reshape(-1)
    params.segmentation_id = 5
    params.transform.p = gymapi.Vec3(-1.0, -5.0, 0.0)
    add[0](sim, *add[1:], params)
    _, numbers = images(sim, env, camera(env))
    assert (numbers[CUBE] == 7).all()
    assert numbers[29, 30] == 3
    assert (numbers[21:23, 20:40] == 5).all()


def test_segmentation_has_the_numbers_of_actors_bodies_and_ground():
    sim, (env,) = scene()
    handle = camera(env)
    _, numbers = images(sim, env, handle)
    assert numbers.dtype == np.uint32
    expected = np.zeros((HEIGHT, WIDTH), bool)
    expected[CUBE] = True
    np.testing.assert_array_equal(numbers == 7, expected)
    assert (numbers[29] == 3).all()
    assert (numbers[0] == 0).all()
    gym.set_rigid_body_segmentation_id(env, 0, 0, 9)
    assert gym.get_rigid_body_segmentation_id(env, 0, 0) == 9
    assert (images(sim, env, handle)[1][CUBE] == 9).all()


def test_rows_begin_at_the_top_and_columns_on_the_left():
    """Turned by 20 degrees to the left (+y) and down, the cube is seen on the right, and higher."""
    sim, (env,) = scene()
    handle = camera(env)
    yaw = gymapi.Quat.from_euler_zyx(0.0, math.radians(5.0), math.radians(20.0))
    gym.set_camera_transform(handle, env, gymapi.Transform(gymapi.Vec3(-3.0, 0.0, 1.0), yaw))
    _, numbers = images(sim, env, handle)
    rows, columns = np.nonzero(numbers == 7)
    assert columns.mean() > WIDTH / 2 + 5
    assert rows.mean() < HEIGHT / 2 - 1


def test_an_attached_camera_follows_position_or_pose():
    """The body at (0.5, 0, 1) is turned by 90 degrees about z: its x axis is the world's y."""
    sim, (env,) = scene(fixed=False)
    body = gym.find_actor_rigid_body_handle(env, 0, "box")
    handles = [camera(env), camera(env)]
    local = gymapi.Transform(gymapi.Vec3(2.0, 0.0, 0.0), gymapi.Quat())
    for handle, mode in zip(handles, (gymapi.FOLLOW_POSITION, gymapi.FOLLOW_TRANSFORM), strict=True):
        gym.attach_camera_to_body(handle, env, body, local, mode)
    root = gym.acquire_actor_root_state_tensor(sim)
    root[0, 3:7] = root.new_tensor([0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)])
    gym.set_actor_root_state_tensor(sim, root)
    by_position, by_pose = (gym.get_camera_transform(sim, env, handle) for handle in handles)
    np.testing.assert_allclose(list(by_position.p), [2.5, 0.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(list(by_position.r), [0.0, 0.0, 0.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(list(by_pose.p), [0.5, 2.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(list(by_pose.r), [0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)], atol=1e-6)


def test_each_environment_is_drawn_with_its_own_size():
    """Fronts at x = 0, 3 m away: edges of 0.6 and 1.2 m cover 6 and 12 pixels."""
    sim, envs = scene(edges=(0.6, 1.2))
    handles = [camera(env) for env in envs]
    counts = [int((images(sim, env, handle)[1] == 7).sum()) for env, handle in zip(envs, handles, strict=True)]
    assert counts == [36, 144]


def test_colour_is_that_of_the_body_and_the_tensor_is_live():
    sim, (env,) = scene(ground=False)
    handle = camera(env)
    gym.set_rigid_body_color(env, 0, 0, gymapi.MESH_VISUAL, gymapi.Vec3(1.0, 0.0, 0.0))
    colour = gym.get_camera_image_gpu_tensor(sim, env, handle, gymapi.IMAGE_COLOR)
    assert colour.shape == (HEIGHT, WIDTH, 4)
    assert int(colour.sum()) == 0
    gym.render_all_camera_sensors(sim)
    red, green, blue, alpha = colour[15, 30].tolist()
    assert red > 60
    assert red > 3 * max(green, blue)
    assert alpha == 255
    flat = gym.get_camera_image(sim, env, handle, gymapi.IMAGE_COLOR)
    np.testing.assert_array_equal(flat.reshape(HEIGHT, WIDTH, 4), colour.numpy())


def test_a_picture_is_written_as_png(tmp_path):
    sim, (env,) = scene()
    handle = camera(env)
    gym.render_all_camera_sensors(sim)
    gym.write_camera_image_to_file(sim, env, handle, gymapi.IMAGE_COLOR, str(tmp_path / "a.png"))
    content = (tmp_path / "a.png").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", content[16:24]) == (WIDTH, HEIGHT)
    size = struct.unpack(">I", content[33:37])[0]
    rows = np.frombuffer(zlib.decompress(content[41 : 41 + size]), np.uint8).reshape(HEIGHT, 1 + 4 * WIDTH)
    np.testing.assert_array_equal(rows[:, 1:], gym.get_camera_image(sim, env, handle, gymapi.IMAGE_COLOR))


def test_what_cannot_be_is_refused():
    sim, (env,) = scene()
    handle = camera(env, enable_tensors=False)
    with pytest.raises(UserError, match="enable_tensors=False"):
        gym.get_camera_image_gpu_tensor(sim, env, handle, gymapi.IMAGE_COLOR)
    with pytest.raises(UserError, match="Allowed: IMAGE_COLOR, IMAGE_DEPTH, IMAGE_SEGMENTATION"):
        gym.get_camera_image(sim, env, handle, gymapi.IMAGE_OPTICAL_FLOW)
    with pytest.raises(UserError, match="camera 5 of environment 0"):
        gym.set_camera_transform(5, env, gymapi.Transform())
    with pytest.raises(UserError, match="body 4; environment 0 has 1 bodies"):
        gym.attach_camera_to_body(handle, env, 4, gymapi.Transform(), gymapi.FOLLOW_POSITION)
    with pytest.raises(UserError, match="horizontal_fov=180"):
        camera(env, horizontal_fov=180.0)
    with pytest.raises(UserError, match="width=0"):
        camera(env, width=0)
    with pytest.raises(UserError, match="the same point"):
        gym.set_camera_location(handle, env, gymapi.Vec3(), gymapi.Vec3())
    gym.destroy_camera_sensor(sim, env, handle)
    with pytest.raises(UserError, match="camera 0 of environment 0"):
        gym.get_camera_transform(sim, env, handle)

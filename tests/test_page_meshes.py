"""What the page's 3D scene sends of a model: meshes that are small, shared and right, without a browser."""

from __future__ import annotations

import io
import json
import struct

import mujoco
import numpy as np
import pytest
import trimesh
import viser

from livegym.sim.model import compiled
from livegym.viewers.browser.kinds import LARGE, kinds_of
from livegym.viewers.browser.meshes import glb_of, glb_of_geoms, mesh_of, thinned
from livegym.viewers.browser.scene import MOST_FACES, Scene

BALL = trimesh.creation.icosphere(6)  # 81,920 faces
LEG = """
<body name="leg{0}" pos="{0} 0 1"><joint type="hinge" axis="0 1 0"/>
  <geom type="mesh" mesh="ball" pos="0 {0} 0.5" euler="0 0 {0}" rgba="0.2 0.2 0.2 1" mass="1"/>
  <geom type="box" size="0.1 0.1 {0}" rgba="0.8 0.2 0.2 1"/>
  <geom type="sphere" size="0.3" group="3"/>
</body>"""


@pytest.fixture(scope="module")
def legs(tmp_path_factory) -> mujoco.MjModel:
    """Two bodies whose geoms share one large mesh, at another place in each."""
    file = tmp_path_factory.mktemp("meshes") / "ball.stl"
    BALL.export(file)
    asset = f'<asset><mesh name="ball" file="{file}"/></asset>'
    return compiled(f"<mujoco>{asset}<worldbody>{LEG.format(1)}{LEG.format(2)}</worldbody></mujoco>")


def shape(geom: str) -> mujoco.MjModel:
    return compiled(f"<mujoco><worldbody><body><freejoint/><geom {geom}/></body></worldbody></mujoco>")


def arrays_in(glb: bytes) -> dict[str, np.ndarray]:
    """The arrays of a GLB's only mesh, by name, as they lie in the file."""
    (length,) = struct.unpack_from("<I", glb, 12)
    text = json.loads(glb[20 : 20 + length])
    start = 20 + length + 8
    primitive = text["meshes"][0]["primitives"][0]
    found = {}
    for name, index in {**primitive["attributes"], "indices": primitive["indices"]}.items():
        accessor = text["accessors"][index]
        view = text["bufferViews"][accessor["bufferView"]]
        dtype = {5126: np.float32, 5125: np.uint32, 5123: np.uint16}[accessor["componentType"]]
        raw = glb[start + view["byteOffset"] : start + view["byteOffset"] + view["byteLength"]]
        found[name] = np.frombuffer(raw, dtype).reshape(accessor["count"], -1)
    return found


@pytest.mark.parametrize("most", [500, 20_000])
def test_a_large_mesh_is_thinned_and_keeps_its_shape(most):
    vertices, faces = thinned(np.float32(BALL.vertices), np.uint32(BALL.faces), most)
    assert 0.5 * most < len(faces) <= most
    assert faces.max() == len(vertices) - 1
    assert np.abs(np.linalg.norm(vertices, axis=1) - 1).max() < 0.05
    assert trimesh.Trimesh(vertices, faces, process=False).volume == pytest.approx(BALL.volume, rel=0.15)


def test_a_small_mesh_stays_as_it_is():
    vertices, faces = np.float32(BALL.vertices), np.uint32(BALL.faces)
    same = thinned(vertices, faces, len(faces))
    assert same[0] is vertices
    assert same[1] is faces


def test_a_box_keeps_its_edges_and_a_ball_is_smooth():
    box = arrays_in(glb_of_geoms(shape('type="box" size="1 2 3"'), [0], MOST_FACES))
    assert len(box["POSITION"]) == 24
    assert len(np.unique(np.round(box["NORMAL"]), axis=0)) == 6
    ball = arrays_in(glb_of_geoms(shape('type="sphere" size="2"'), [0], MOST_FACES))
    assert np.abs(ball["NORMAL"] - ball["POSITION"] / 2).max() < 0.05


def test_colours_are_linear_as_gltf_has_them():
    model = shape('type="box" size="1 1 1" rgba="0.5 1 0.02 1"')
    colours = arrays_in(glb_of(mesh_of(model, [0], MOST_FACES)))["COLOR_0"] / 65535
    assert np.allclose(colours, [0.2140, 1.0, 0.02 / 12.92, 1.0], atol=1e-4)


def test_a_glb_is_read_by_others_as_the_same_shape():
    model = shape('type="box" size="1 2 3" pos="1 0 0"')
    (read,) = trimesh.load(io.BytesIO(glb_of_geoms(model, [0], MOST_FACES)), file_type="glb").geometry.values()
    assert np.allclose(read.bounds, [[0, -2, -3], [2, 2, 3]])


def test_a_mesh_keeps_its_image():
    model = compiled(
        """<mujoco><asset>
        <texture name="checks" type="2d" builtin="checker" width="32" height="32"/>
        <material name="checked" texture="checks"/>
        <mesh name="wedge" vertex="0 0 0 1 0 0 0 1 0 0 0 1" texcoord="0 0 1 0 0 1 1 1" face="0 2 1 0 1 3 1 2 3 0 3 2"/>
        </asset><worldbody><body><geom type="mesh" mesh="wedge" material="checked"/></body></worldbody></mujoco>"""
    )
    (read,) = trimesh.load(io.BytesIO(glb_of_geoms(model, [0], MOST_FACES)), file_type="glb").geometry.values()
    assert read.visual.material.baseColorTexture.size == (32, 32)


def test_a_large_mesh_is_sent_once_for_all_geoms_and_environments(legs):
    kinds = kinds_of(legs)
    (shared,) = [kind for kind in kinds if kind.of_geom]
    assert len(BALL.faces) > LARGE
    assert list(shared.frames) == [legs.nbody, legs.nbody + 3]
    assert sorted(len(kind.geoms) for kind in kinds) == [1, 1, 1]  # the boxes differ; collision shapes are not drawn
    glb = glb_of_geoms(legs, shared.geoms, MOST_FACES, local=True)
    assert len(arrays_in(glb)["indices"]) <= 3 * MOST_FACES


def test_a_shared_mesh_is_where_its_geoms_are(legs):
    server = viser.ViserServer("127.0.0.1", 0, verbose=False)
    try:
        scene = Scene(server, legs, num_envs=2)
        qpos = np.array([[0.3, -0.5], [1.0, 0.0]])
        scene.show(qpos)
        (shared,) = [drawn for drawn in scene.kinds if drawn.frames[0] >= legs.nbody]
        data = mujoco.MjData(legs)
        for env_id in range(2):
            data.qpos[:] = qpos[env_id]
            mujoco.mj_kinematics(legs, data)
            for number, geom in enumerate((0, 3)):
                row = 2 * env_id + number
                place = data.geom_xpos[geom] + scene.offsets[env_id]
                assert np.allclose(shared.handle.batched_positions[row], place, atol=0.01)
                turn = np.zeros(9)
                mujoco.mju_quat2Mat(turn, shared.handle.batched_wxyzs[row].astype(float))
                assert np.allclose(turn, data.geom_xmat[geom], atol=0.01)
    finally:
        server.stop()


def test_mujoco_keeps_nothing_of_a_compiled_model(legs):
    assert mujoco.mj_getCacheSize(mujoco.mj_getCache()) == 0

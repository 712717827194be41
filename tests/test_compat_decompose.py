"""Hollow meshes: a ball lies in a trough, and on the convex hull of it."""

from __future__ import annotations

import logging
import sys

import mujoco
import numpy as np
import pytest

from livegym.compat.core import decompose
from livegym.compat.core.asset import load_asset, sphere
from livegym.compat.core.meshes import Meshes
from livegym.compat.core.scene import Sim
from livegym.compat.core.values import AssetOptions, Vec3
from tests import compat_scenes as scenes

OUTLINE = [(-0.2, 0.0), (0.2, 0.0), (0.2, 0.4), (0.1, 0.4), (0.1, 0.1), (-0.1, 0.1), (-0.1, 0.4), (-0.2, 0.4)]
"""x and z of a trough along y: walls and floor are 0.1 m thick. Area 0.4 * 0.4 - 0.2 * 0.3 m^2."""
CAPS = [(0, 5, 6, 7), (1, 2, 3, 4), (0, 1, 4, 5)]
RADIUS = 0.08
INSIDE, ON_TOP = 0.1 + RADIUS, 0.4 + RADIUS
URDF = """
<robot name="trough"><link name="trough"><collision><geometry><mesh filename="trough.obj"/></geometry></collision>
</link></robot>
"""


def trough() -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """Its vertices, and its faces turned outwards."""
    count = len(OUTLINE)
    vertices = np.array([(x, y, z) for y in (-0.2, 0.2) for x, z in OUTLINE])
    sides = [(i, (i + 1) % count, (i + 1) % count + count, i + count) for i in range(count)]
    front = [cap[::-1] for cap in CAPS]
    back = [tuple(corner + count for corner in cap) for cap in CAPS]
    return vertices, [face[::-1] for face in [*sides, *front, *back]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the trough as a mesh and a robot; the user's cache is in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vertices, faces = trough()
    lines = [f"v {x} {y} {z}" for x, y, z in vertices]
    lines += ["f " + " ".join(str(corner + 1) for corner in face) for face in faces]
    (tmp_path / "trough.obj").write_text("\n".join(lines) + "\n")
    (tmp_path / "trough.urdf").write_text(URDF)
    return tmp_path


def boxes() -> list[decompose.Piece]:
    """The floor and the two walls."""
    ranges = [((-0.2, 0.2), (0.0, 0.1)), ((-0.2, -0.1), (0.1, 0.4)), ((0.1, 0.2), (0.1, 0.4))]
    return [
        decompose.Piece(np.array([(a, b, c) for a in x for b in (-0.2, 0.2) for c in z]), np.zeros((0, 3), int))
        for x, z in ranges
    ]


def rest(folder, **options) -> tuple[float, int]:
    """The height at which a ball that falls into the trough comes to rest, and the number of the trough's shapes."""
    asset = load_asset(str(folder), "trough.urdf", AssetOptions(fix_base_link=True, **options))
    sim = Sim(scenes.params(0.005))
    env = sim.add_env(Vec3(), Vec3(), 1)
    env.add(asset, scenes.pose(), "trough", 0, 0)
    env.add(sphere(RADIUS), scenes.pose(z=0.55), "ball", 0, 0)
    for _ in range(200):
        sim.simulate()
    return float(sim.engine.qpos[0, 2]), len(asset.shapes)


def test_a_mesh_is_its_hull_unless_more_is_asked_for(folder):
    assert rest(folder) == (pytest.approx(ON_TOP, abs=2e-3), 1)


def test_the_share_that_is_missing_of_the_hull(folder):
    """0.1 * 0.4 m^3 of 0.4^3 m^3; a box lacks nothing of itself, and an open surface nearly everything."""
    vertices, faces = decompose._triangles(folder / "trough.obj")
    assert decompose._missing_share(vertices, faces) == pytest.approx(1.0 - 0.04 / 0.064, rel=1e-6)
    import trimesh

    solid = trimesh.creation.box((1.0, 2.0, 3.0))
    assert decompose._missing_share(np.array(solid.vertices), np.array(solid.faces)) == pytest.approx(0.0, abs=1e-6)


def test_without_the_library_a_warning_names_mesh_and_remedy(folder, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "coacd", None)  # as if it were not installed
    with caplog.at_level(logging.WARNING):
        assert rest(folder, vhacd_enabled=True) == (pytest.approx(ON_TOP, abs=2e-3), 1)
    assert "trough.obj: vhacd_enabled asks for convex pieces" in caplog.text
    assert "fills 37 %" in caplog.text
    assert "pip install 'livegym[convex]'" in caplog.text


def test_a_mesh_without_readable_objects_and_without_the_library_has_both_warnings(folder, caplog, monkeypatch):
    monkeypatch.setitem(sys.modules, "coacd", None)
    monkeypatch.setattr(decompose, "_objects", lambda path: int("odd"))
    options = AssetOptions(vhacd_enabled=True, convex_decomposition_from_submeshes=True)
    assert [decompose.pieces(folder / "trough.obj", options) for _ in range(2)] == [[], []]
    assert caplog.text.count("its triangles cannot be read") == 1
    assert caplog.text.count("coacd is not installed") == 1


def test_kept_pieces_are_used_without_the_library(folder):
    options = AssetOptions(vhacd_enabled=True)
    file = decompose._cache() / f"{decompose._digest(folder / 'trough.obj', options.vhacd_params)}.npz"
    decompose._keep(file, boxes())
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
    assert rest(folder, vhacd_enabled=True) == (pytest.approx(INSIDE, abs=2e-3), 3)


def test_pieces_depend_on_the_mesh_and_on_the_parameters_that_count(folder):
    params = AssetOptions().vhacd_params
    before = decompose._digest(folder / "trough.obj", params)
    params.resolution = 7
    assert decompose._digest(folder / "trough.obj", params) == before
    params.max_convex_hulls = 7
    other = decompose._digest(folder / "trough.obj", params)
    (folder / "trough.obj").write_text((folder / "trough.obj").read_text() + "\n")
    assert len({before, other, decompose._digest(folder / "trough.obj", params)}) == 3


def test_each_object_of_a_file_is_a_piece(folder):
    lines, count = [], 0
    for number, piece in enumerate(boxes()):
        lines.append(f"o part{number}")
        lines += [f"v {x} {y} {z}" for x, y, z in piece.vertices]
        lines += [f"f {count + a}//1 {count + b}//1 {count + c}//1" for a, b, c in ((1, 2, 3), (4, 5, 6), (7, 8, 1))]
        count += len(piece.vertices)
    (folder / "trough.obj").write_text("\n".join(lines))
    assert rest(folder, convex_decomposition_from_submeshes=True) == (pytest.approx(INSIDE, abs=2e-3), 3)


def test_pieces_that_cannot_be_kept_are_used_all_the_same(folder, caplog, monkeypatch):
    """A container with a read-only home must not lose the minutes of a decomposition."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "trough.obj"))  # a file, so there can be no folder in it
    monkeypatch.setattr(decompose, "_by_coacd", lambda *given: boxes())
    with caplog.at_level(logging.WARNING):
        assert rest(folder, vhacd_enabled=True) == (pytest.approx(INSIDE, abs=2e-3), 3)
    assert "cannot be kept" in caplog.text
    assert "cannot be read" not in caplog.text  # there are none to be read
    assert "XDG_CACHE_HOME=<folder>" in caplog.text


def test_pieces_that_were_damaged_are_computed_again(folder, caplog, monkeypatch):
    file = decompose._cache() / f"{decompose._digest(folder / 'trough.obj', AssetOptions().vhacd_params)}.npz"
    decompose._keep(file, boxes())
    file.write_bytes(file.read_bytes()[:100])
    monkeypatch.setattr(decompose, "_by_coacd", lambda *given: boxes())
    assert len(decompose.pieces(folder / "trough.obj", AssetOptions(vhacd_enabled=True))) == 3
    assert f"{file}: these convex pieces cannot be read" in caplog.text
    assert len(decompose._read(file)) == 3


@pytest.mark.parametrize(
    ("name", "content", "option"),
    [
        ("odd.msh", b"\x00" * 40, "vhacd_enabled"),
        ("odd.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3 9\no next\nf 1 2 3\n", "convex_decomposition_from_submeshes"),
        ("odd.obj", b"v 0 0 zero\nf 1 1 1\n", "convex_decomposition_from_submeshes"),
    ],
)
def test_a_mesh_that_has_no_readable_triangles_is_one_hull_and_a_warning_names_it(
    tmp_path, caplog, name, content, option
):
    (tmp_path / name).write_bytes(content)
    options = AssetOptions(**{option: True})
    assert [decompose.pieces(tmp_path / name, options) for _ in range(2)] == [[], []]
    assert caplog.text.count(f"{tmp_path / name}: {option} asks for convex pieces, but its triangles cannot") == 1
    assert "Next: convert it to .obj" in caplog.text


@pytest.mark.parametrize("stems", [("link_1", "link"), ("link", "link_0")])
def test_names_of_pieces_and_of_meshes_never_meet(stems, folder, monkeypatch):
    """Only link has pieces."""
    for stem in stems:
        (folder / f"{stem}.obj").write_text((folder / "trough.obj").read_text())
    monkeypatch.setattr(decompose, "pieces", lambda path, options: boxes() if path.stem == "link" else [])
    meshes = Meshes(mujoco.MjSpec(), AssetOptions())
    names = [name for stem in stems for name in meshes.names_of(folder / f"{stem}.obj", np.ones(3))]
    assert len(set(names)) == len(names) == 4


def test_names_of_pieces_are_those_of_runs_that_are_resumed(folder):
    """They are part of the model, by whose digest a state is refused."""
    file = decompose._cache() / f"{decompose._digest(folder / 'trough.obj', AssetOptions().vhacd_params)}.npz"
    decompose._keep(file, boxes())
    asset = load_asset(str(folder), "trough.urdf", AssetOptions(vhacd_enabled=True))
    assert [asset.model.mesh(number).name for number in range(3)] == ["trough_0_0", "trough_0_1", "trough_0_2"]


@pytest.mark.slow
def test_coacd_makes_the_trough_hollow(folder):
    pytest.importorskip("coacd", reason="pip install 'livegym[convex]'")
    height, shapes = rest(folder, vhacd_enabled=True)
    assert height == pytest.approx(INSIDE, abs=0.01)
    assert shapes >= 3
    assert rest(folder, vhacd_enabled=True)[0] == height

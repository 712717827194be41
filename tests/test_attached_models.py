"""Models that are attached to others: their files are found from anywhere, and clashes are explained."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import mujoco
import numpy as np
import pytest

from livegym.schema import PhysicsConfig
from livegym.sim import model as mj
from livegym.sim.model import MjcfModel, compiled
from livegym.tasks.env_state import PLACES
from livegym.utils.errors import UserError

MESH = "v 0 0 0\nv .05 0 0\nv 0 .05 0\nv 0 0 .01\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"
WORLD = """<mujoco model="world"><asset><material name="floor"/></asset>
<worldbody><camera name="watch"/><frame name="hand"/><geom name="ground" type="plane" size="1 1 1"/>
</worldbody></mujoco>"""
BODY = '<body name="palm"><joint name="j" type="hinge"/><geom type="mesh" mesh="palm"/></body>'
LAYOUTS = [("", "palm.obj"), ("meshdir='assets'", "sub/palm.obj"), ("assetdir='assets/sub'", "palm.obj"),
           ("meshdir='./assets'", "./sub/palm.obj"), ("meshdir='..'", "more/palm.obj"),
           ("meshdir='assets' strippath='true'", "away/palm.obj")]  # fmt: skip


def hand(folder, compiler, file, head="", extra=""):
    """A hand in `folder`, with its mesh where its MJCF looks for it."""
    folder.mkdir(parents=True, exist_ok=True)
    where = compiler.split("'")[1] if compiler else "."
    place = folder / where / (os.path.basename(file) if "strippath" in compiler else file)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(MESH)
    path = folder / "hand.xml"
    path.write_text(
        f"<mujoco model='hand'><compiler {compiler}/>{head}<asset><mesh name='palm' file='{file}'/>{extra}</asset>"
        f"<worldbody>{BODY}</worldbody></mujoco>"
    )
    return path


def world(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "world.xml").write_text(WORLD)
    return folder / "world.xml"


def built(path, part=None):
    return MjcfModel(path, PhysicsConfig(), 1, {"hand": part} if part is not None else None)


def xml_of(model):
    """What a simulator's `model_xml` returns."""
    return model.xml()


@pytest.mark.parametrize("attached", [True, False])
@pytest.mark.parametrize(("compiler", "file"), LAYOUTS)
def test_the_saved_model_finds_its_files_from_any_folder(tmp_path, monkeypatch, compiler, file, attached):
    part = hand(tmp_path / "my hands" / "one", compiler, file)
    model = built(world(tmp_path / "task"), part) if attached else built(part)
    monkeypatch.chdir("/")
    again = compiled(xml_of(model))
    assert again.nmesh == 1
    assert again.mesh(0).name == "palm"
    np.testing.assert_array_equal(again.mesh_vert, model.model.mesh_vert)


def test_a_model_that_the_mjcf_attaches_itself_finds_its_files_as_well(tmp_path):
    hand(tmp_path / "hands", "meshdir='assets'", "sub/palm.obj")
    path = tmp_path / "robot.xml"
    path.write_text(
        "<mujoco><asset><model name='h' file='hands/hand.xml'/></asset>"
        "<worldbody><attach model='h' body='palm' prefix='left_'/></worldbody></mujoco>"
    )
    assert compiled(xml_of(built(path))).mesh(0).name == "left_palm"
    assert compiled(xml_of(built(world(tmp_path / "task"), path))).nmesh == 1


def test_textures_are_found_too(tmp_path):
    texture = "<texture name='t' type='2d' file='t.png'/><material name='m' texture='t'/>"
    part = hand(tmp_path / "hand", "meshdir='.' texturedir='pictures'", "palm.obj", extra=texture)
    (part.parent / "pictures").mkdir()
    import imageio.v3 as iio

    iio.imwrite(part.parent / "pictures" / "t.png", np.zeros((4, 4, 3), np.uint8))
    assert compiled(xml_of(built(world(tmp_path / "task"), part))).ntex == 1


def test_the_digest_of_a_model_does_not_depend_on_where_its_files_are(tmp_path):
    texts = set()
    for place in ("here", "over/there", "a/./b"):
        part = hand(tmp_path / place / "hand", "meshdir='assets'", "sub/palm.obj")
        texts.add(PLACES.sub("", xml_of(built(world(tmp_path / place), part))))
    (text,) = texts
    assert 'file="sub/palm.obj"' in text  # as it always was, so that the states of older runs still fit
    assert str(tmp_path) not in text


def test_a_file_that_has_gone_since_is_named(tmp_path):
    part = hand(tmp_path / "hand", "", "palm.obj")
    xml = xml_of(built(world(tmp_path / "task"), part))
    (part.parent / "palm.obj").unlink()
    with pytest.raises(UserError, match=r"cannot be compiled again: .*palm\.obj"):
        compiled(xml)


CLASHES = {
    "material": ("<material name='floor'/>", "", "floor"),
    "camera": ("", "<camera name='watch'/>", "watch"),
    "geom": ("", "<geom name='ground' size='1'/>", "ground"),
}


@pytest.mark.parametrize("kind", CLASHES)
def test_a_name_that_both_models_have_is_named_with_its_kind_and_its_file(tmp_path, kind):
    extra, body, name = CLASHES[kind]
    part = hand(tmp_path / "hand", "", "palm.obj", extra=extra)
    part.write_text(part.read_text().replace("</worldbody>", f"{body}</worldbody>"))
    with pytest.raises(
        UserError, match=rf"world\.xml with .*hand\.xml: there is more than one {kind} '{name}'\..*Rename one"
    ):
        built(world(tmp_path / "task"), part)


def test_what_mujoco_warns_of_is_told_once_without_source_lines(tmp_path, caplog, recwarn):
    mj._logged.clear()
    option = "<option timestep='0.001' integrator='RK4' cone='elliptic'/>"
    part = hand(tmp_path / "hand", "", "palm.obj", head=option)
    for _ in range(2):
        model = built(world(tmp_path / "task"), part)
        xml_of(model)
        compiled(xml_of(model))
    told = [r.message for r in caplog.records if r.levelno == logging.WARNING]
    assert len(told) == len(set(told)) <= 1
    assert not [w for w in recwarn if "mujoco" in str(w.message).lower() or "attach" in str(w.message).lower()]
    assert model.model.opt.timestep == 0.002


@pytest.mark.parametrize("text", [b"<!-- %s --><worldbody/>", b"<worldbody><body name='b%s'/></worldbody>"])
@pytest.mark.parametrize("byte", [b"\xff\xfe", b"\xe9"])
def test_text_that_is_not_utf8_is_refused(tmp_path, text, byte):
    path = tmp_path / "robot.xml"
    path.write_bytes(b"<mujoco>" + text % byte + b"</mujoco>")
    with pytest.raises(UserError, match=r"robot\.xml: has text that is not UTF-8"):
        built(path)


def test_the_module_needs_nothing_of_a_model_without_files():
    spec = mujoco.MjSpec()
    mj.make_absolute(spec, Path("/nowhere/x.xml"), attached=True)
    assert spec.meshdir == "/nowhere"

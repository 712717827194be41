"""Every asset file of Isaac Gym's task collections loads, with every shape that collides.

    ISAACGYMENVS=/path LEGGED_GYM=/path DEXROBOT_ISAAC=/path pytest -m full -s tests/test_compat_foreign_assets.py

The collections are not part of this project. Without a variable, the folder `foreign` beside the project is searched
(`tests/isaac_toys.py`); `-s` shows the files that are no assets, and why.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import mujoco
import numpy as np
import pytest

from livegym.compat.core.asset import load_asset
from livegym.compat.core.records import AssetOptions
from livegym.utils.errors import UserError
from tests.isaac_toys import foreign

pytestmark = [pytest.mark.slow, pytest.mark.full]

OF_TASKS = {
    "ISAACGYMENVS": """
        mjcf/nv_ant.xml mjcf/nv_humanoid.xml mjcf/amp_humanoid.xml
        mjcf/open_ai_assets/hand/shadow_hand.xml mjcf/open_ai_assets/hand/egg.xml mjcf/open_ai_assets/hand/pen.xml
        urdf/cartpole.urdf urdf/anymal_c/urdf/anymal.urdf urdf/anymal_c/urdf/anymal_minimal.urdf
        urdf/franka_description/robots/franka_panda.urdf urdf/franka_description/robots/franka_panda_gripper.urdf
        urdf/sektion_cabinet_model/urdf/sektion_cabinet_2.urdf
        urdf/kuka_allegro_description/allegro_touch_sensor.urdf
        urdf/kuka_allegro_description/kuka_allegro_touch_sensor.urdf
        urdf/objects/cube_multicolor.urdf urdf/objects/cube_multicolor_allegro.urdf
        trifinger/robot_properties_fingers/urdf/pro/trifingerpro.urdf
        trifinger/robot_properties_fingers/urdf/table_without_border.urdf
        trifinger/robot_properties_fingers/urdf/high_table_boundary.urdf
        trifinger/objects/urdf/cube_multicolor_rrc.urdf
    """,
    "LEGGED_GYM": """
        a1/urdf/a1.urdf anymal_b/urdf/anymal_b.urdf anymal_c/urdf/anymal_c.urdf cassie/urdf/cassie.urdf
    """,
    "DEXROBOT_ISAAC": "dexrobot_mujoco/dexrobot_mujoco/models/dexhand021_right_simplified_floating.xml",
}
"""Files that tasks load, relative to the collection's folder of assets."""

CHECKOUTS = {"ISAACGYMENVS": "IsaacGymEnvs", "LEGGED_GYM": "legged_gym", "DEXROBOT_ISAAC": "dexrobot_isaac"}
ASSETS = {"ISAACGYMENVS": "assets", "LEGGED_GYM": "resources/robots", "DEXROBOT_ISAAC": "assets"}

NO_ASSETS = {
    r"<worldbody>: it has no <body>": "a part that other files include",
    r"root bodies .*, an asset has one": "a whole scene",
    r"begins with <mujoco>": "another kind of file",
    r"it has no <link>": "a source that xacro expands",
    r"link base_link does not exist": "a part of a robot",
    r"mesh \S+ not found": "its mesh is not in this checkout",
}


@pytest.fixture(params=list(ASSETS))
def collection(request) -> tuple[str, Path]:
    """The name of a collection, and its folder of assets."""
    name = request.param
    checkout = foreign(CHECKOUTS[name], name)
    folder = checkout / ASSETS[name]
    assert folder.is_dir(), f"{name}={checkout}: it has no folder {ASSETS[name]}"
    return name, folder


def asset_files(folder: Path) -> list[str]:
    return sorted(str(f.relative_to(folder)) for kind in ("*.urdf", "*.xml") for f in folder.rglob(kind))


def why_not(message: str) -> str:
    return next((why for pattern, why in NO_ASSETS.items() if re.search(pattern, message)), "")


@pytest.mark.parametrize(
    "options", [{"fix_base_link": True}, {"collapse_fixed_joints": True, "density": 0.001}], ids=str
)
def test_every_file_loads_or_is_no_asset(collection, options):
    name, folder = collection
    files, refused = asset_files(folder), {}
    for file in files:
        try:
            asset = load_asset(str(folder), file, AssetOptions(**options))
        except UserError as error:
            refused[file] = error.message
            continue
        check(folder / file, asset)
    print(f"\n{name}: {len(files) - len(refused)} of {len(files)} files load; the others are no assets:")
    for why in dict.fromkeys(NO_ASSETS.values()):
        print(f"  {why}: {', '.join(file for file, message in refused.items() if why_not(message) == why)}")
    assert [message for message in refused.values() if not why_not(message)] == []
    assert set(OF_TASKS[name].split()) & set(refused) == set()


def check(file: Path, asset) -> None:
    """Numbers that hold for any asset."""
    model = asset.model
    if file.suffix == ".urdf":
        assert len(asset.shapes) == len(ET.parse(file).getroot().findall("link/collision")), file
    assert model.nbody == len(asset.bodies) + 1
    assert len(asset.joints) == len(asset.bodies) - 1
    assert model.nv == len(asset.dofs) == len(asset.dof_properties)
    assert (model.body_parentid[2:] > 0).all(), f"{file}: more than one root"
    assert (model.body_mass[1:] > 0).all()
    assert (model.body_inertia[1:] > 0).all()
    assert (asset.dof_properties["lower"] < asset.dof_properties["upper"]).all()
    assert model.nu == model.nsensor == model.nkey == model.nmat == model.nlight == model.ncam == 0
    floating = asset.spec.copy()
    root = floating.worldbody.first_body()
    if not root.joints:
        root.add_freejoint()
    model = floating.compile()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    assert np.isfinite(data.qvel).all(), file


def test_the_files_of_tasks_are_there(collection):
    name, folder = collection
    assert [file for file in OF_TASKS[name].split() if not (folder / file).is_file()] == []


def test_orders_are_those_that_the_tasks_count_on(collection):
    name, folder = collection
    tables = {
        "ISAACGYMENVS": (
            "urdf/anymal_c/urdf/anymal.urdf",
            "LF_HAA LF_HFE LF_KFE LH_HAA LH_HFE LH_KFE RF_HAA RF_HFE RF_KFE RH_HAA RH_HFE RH_KFE",
        ),
        "LEGGED_GYM": (
            "a1/urdf/a1.urdf",
            " ".join(f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")),
        ),
        "DEXROBOT_ISAAC": (
            OF_TASKS["DEXROBOT_ISAAC"],
            " ".join(
                ["ARTx", "ARTy", "ARTz", "ARRx", "ARRy", "ARRz"]
                + [f"r_f_joint{finger}_{part}" for finger in range(1, 6) for part in range(1, 5)]
            ),
        ),
    }
    file, dofs = tables[name]
    assert " ".join(load_asset(str(folder), file, AssetOptions(fix_base_link=True)).dofs) == dofs

"""The contract of `gymapi`: every method of Isaac Gym is here, with its parameters, or refuses by name.

`isaacgym_methods.txt` lists names and parameters, taken from the MIT-licensed stubs.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "compat"))
from isaacgym import gymapi, gymtorch, gymutil, terrain_utils, torch_utils  # noqa: E402

METHODS = {
    line.split()[0]: line.split()[1:]
    for line in (HERE / "isaacgym_methods.txt").read_text().splitlines()
    if not line.startswith("#")
}
CONSTANTS = [
    "AXIS_ALL",
    "AXIS_ROTATION",
    "AXIS_TRANSLATION",
    "AXIS_X",
    "CC_ALL_SUBSTEPS",
    "CC_LAST_SUBSTEP",
    "CC_NEVER",
    "COMPUTE_PER_FACE",
    "COMPUTE_PER_VERTEX",
    "DEFAULT_VIEWER_HEIGHT",
    "DEFAULT_VIEWER_WIDTH",
    "DOF_MODE_EFFORT",
    "DOF_MODE_NONE",
    "DOF_MODE_POS",
    "DOF_MODE_VEL",
    "DOMAIN_ACTOR",
    "DOMAIN_ENV",
    "DOMAIN_SIM",
    "ENV_SPACE",
    "FROM_ASSET",
    "GLOBAL_SPACE",
    "IMAGE_COLOR",
    "IMAGE_DEPTH",
    "INVALID_HANDLE",
    "KEY_ESCAPE",
    "KEY_R",
    "KEY_SPACE",
    "KEY_V",
    "LOCAL_SPACE",
    "MESH_COLLISION",
    "MESH_NONE",
    "MESH_VISUAL",
    "MESH_VISUAL_AND_COLLISION",
    "MOUSE_LEFT_BUTTON",
    "SIM_FLEX",
    "SIM_PHYSX",
    "STATE_ALL",
    "STATE_NONE",
    "STATE_POS",
    "STATE_VEL",
    "UP_AXIS_Y",
    "UP_AXIS_Z",
]
CLASSES = [
    "ActuatorProperties",
    "Asset",
    "AssetOptions",
    "AttractorProperties",
    "CameraProperties",
    "ContactCollection",
    "Env",
    "FlexParams",
    "ForceSensorProperties",
    "Gym",
    "HeightFieldParams",
    "Mat33",
    "PhysXParams",
    "PlaneParams",
    "Quat",
    "RigidBodyProperties",
    "RigidShapeProperties",
    "Sim",
    "SimParams",
    "TendonProperties",
    "Tensor",
    "Transform",
    "TriangleMeshParams",
    "Vec3",
    "Velocity",
    "VhacdParams",
]
QUATERNIONS = [
    "axisangle2quat",
    "copysign",
    "get_axis_params",
    "get_basis_vector",
    "get_euler_xyz",
    "normalize",
    "normalize_angle",
    "quat_apply",
    "quat_conjugate",
    "quat_from_angle_axis",
    "quat_from_euler_xyz",
    "quat_mul",
    "quat_rotate",
    "quat_rotate_inverse",
    "quat_unit",
    "scale",
    "scale_np",
    "tensor_clamp",
    "tf_apply",
    "tf_combine",
    "tf_inverse",
    "tf_vector",
    "to_torch",
    "torch_rand_float",
    "torch_random_dir_2",
    "unscale",
    "unscale_np",
    "mem_report",
]
PYTHON_ONLY = ("get_axis_params", "mem_report", "scale_np", "to_torch", "unscale_np")
ANGLES, ROTATIONS = ("angle", "roll", "pitch", "yaw"), ("q", "a", "b", "q1", "q2")
TERRAINS = [
    "SubTerrain",
    "convert_heightfield_to_trimesh",
    "discrete_obstacles_terrain",
    "pyramid_sloped_terrain",
    "pyramid_stairs_terrain",
    "random_uniform_terrain",
    "sloped_terrain",
    "stairs_terrain",
    "stepping_stones_terrain",
    "wave_terrain",
]


def refusal(method) -> str | None:
    """The message of a method that refuses, None if it works."""
    return method.__doc__ if method.__doc__.startswith("Raises NotImplementedError") else None


def test_the_list_is_the_whole_interface():
    assert len(METHODS) == 312
    assert all(wanted.rstrip("=").isidentifier() for parameters in METHODS.values() for wanted in parameters)


def test_every_method_that_is_not_available_refuses_by_name():
    gym = gymapi.acquire_gym()
    refusing = [name for name in METHODS if refusal(getattr(gymapi.Gym, name))]
    assert refusing
    for name in refusing:
        arguments = [None] * max(len(METHODS[name]), 1)
        with pytest.raises(NotImplementedError, match=rf"gym\.{name} is not available over MuJoCo\. \w+"):
            getattr(gym, name)(*arguments)


def differs(parameter: inspect.Parameter, wanted: str) -> bool:
    """Whether a parameter has another name than is wanted, or lacks its default."""
    named = wanted in ("_", "_=") or parameter.name == wanted.rstrip("=")
    return not named or (wanted.endswith("=") and parameter.default is inspect.Parameter.empty)


def test_every_method_has_its_parameters():
    wrong = []
    for name, wanted in METHODS.items():
        method = getattr(gymapi.Gym, name)
        assert method.__doc__, name
        parameters = list(inspect.signature(method).parameters.values())[1:]
        if not refusal(method) and (len(parameters) != len(wanted) or any(map(differs, parameters, wanted))):
            wrong.append(f"{name}: {parameters} instead of {wanted}")
    assert wrong == [], "\n".join(wrong)


def test_most_of_what_is_used_anywhere_works():
    assert sum(refusal(getattr(gymapi.Gym, name)) is None for name in METHODS) >= 150


def test_no_method_is_invented():
    public = {name for name in dir(gymapi.Gym) if not name.startswith("_")}
    assert public == set(METHODS)


def test_an_unknown_method_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Gym has no method simulat"):
        gymapi.acquire_gym().simulat  # noqa: B018


@pytest.mark.parametrize("name", [name for name in QUATERNIONS if name not in PYTHON_ONLY])
def test_functions_can_be_called_from_scripted_ones(name):
    """Task code compiles its own functions, which call these, with `torch.jit.script`."""
    function = getattr(torch_utils, name)
    scripted = torch.jit.script(function)
    if name.startswith("torch_rand"):
        return  # other numbers each time
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is inspect.Parameter.empty]
    shapes = [(5,) if p.name in ANGLES else (5, 4 if p.name in ROTATIONS else 3) for p in needed]
    if name == "quat_apply":
        shapes[1] = (5, 3)
    tensors = [torch.rand(shape) - 0.3 for shape in shapes]
    if name == "copysign":
        tensors[0] = 2.0
    torch.testing.assert_close(scripted(*tensors), function(*tensors))


def test_names_of_the_other_modules():
    assert all(hasattr(gymapi, name) for name in [*CONSTANTS, *CLASSES])
    assert all(hasattr(torch_utils, name) for name in QUATERNIONS)
    assert all(hasattr(terrain_utils, name) for name in TERRAINS)
    assert all(hasattr(gymtorch, name) for name in ("wrap_tensor", "unwrap_tensor"))
    names = (
        "parse_arguments parse_sim_config parse_device_str draw_lines AxesGeometry WireframeSphereGeometry _indent_xml"
    )
    assert all(hasattr(gymutil, name) for name in names.split())

"""Numbers with names: the enumerations and flags that Isaac Gym's task code uses.

    DofDriveMode.DOF_MODE_POS == 1

Each is an `IntEnum`, so a member is accepted where task code writes a bare number, and the other way round.
"""

from __future__ import annotations

from enum import IntEnum


def _numbered(name: str, members: str) -> type[IntEnum]:
    return IntEnum(name, members.split(), start=0, module=__name__)  # type: ignore[return-value]  # mypy: a member


class DofDriveMode(IntEnum):
    """Drive of a DOF: none, toward a position, toward a velocity, or a force that the task sets."""

    DOF_MODE_NONE = 0
    DOF_MODE_POS = 1
    DOF_MODE_VEL = 2
    DOF_MODE_EFFORT = 3


class DofType(IntEnum):
    """Motion of a DOF."""

    DOF_INVALID = 0
    DOF_ROTATION = 1
    DOF_TRANSLATION = 2


class JointType(IntEnum):
    """Kind of a joint between two bodies."""

    JOINT_INVALID = 0
    JOINT_FIXED = 1
    JOINT_REVOLUTE = 2
    JOINT_PRISMATIC = 3
    JOINT_BALL = 4
    JOINT_PLANAR = 5
    JOINT_FLOATING = 6


class CameraFollowMode(IntEnum):
    """Part of a body's pose that an attached camera takes over."""

    FOLLOW_POSITION = 0
    FOLLOW_TRANSFORM = 1


class ContactCollection(IntEnum):
    """Substeps of which contact forces are reported."""

    CC_NEVER = 0
    CC_LAST_SUBSTEP = 1
    CC_ALL_SUBSTEPS = 2


class CoordinateSpace(IntEnum):
    """Axes in which a force or a position is given."""

    ENV_SPACE = 0
    LOCAL_SPACE = 1
    GLOBAL_SPACE = 2


class ImageType(IntEnum):
    """Content of a camera's image."""

    IMAGE_COLOR = 0
    IMAGE_DEPTH = 1
    IMAGE_SEGMENTATION = 2
    IMAGE_OPTICAL_FLOW = 3


class IndexDomain(IntEnum):
    """Scope in which an index counts: an actor, an environment, or the whole simulation."""

    DOMAIN_ACTOR = 0
    DOMAIN_ENV = 1
    DOMAIN_SIM = 2


class MeshType(IntEnum):
    """Meshes of an asset that a call concerns."""

    MESH_NONE = 0
    MESH_COLLISION = 1
    MESH_VISUAL = 2
    MESH_VISUAL_AND_COLLISION = 3


class MeshNormalMode(IntEnum):
    """Source of a mesh's normals; it concerns looks only."""

    FROM_ASSET = 0
    COMPUTE_PER_VERTEX = 1
    COMPUTE_PER_FACE = 2


class SimType(IntEnum):
    """Physics engine that task code asks for; MuJoCo stands in for the first."""

    SIM_PHYSX = 0
    SIM_FLEX = 1


class SoftMaterialType(IntEnum):
    """Material model of a soft body."""

    MAT_COROTATIONAL = 0
    MAT_NEOHOOKEAN = 1


class TendonType(IntEnum):
    """Kind of a tendon: a weighted sum of joint positions, or a path in space."""

    TENDON_FIXED = 0
    TENDON_SPATIAL = 1


class TensorDataType(IntEnum):
    """Number type of a tensor."""

    DTYPE_FLOAT32 = 0
    DTYPE_UINT32 = 1
    DTYPE_UINT64 = 2
    DTYPE_UINT8 = 3
    DTYPE_INT16 = 4


class UpAxis(IntEnum):
    """Axis that points up."""

    UP_AXIS_Y = 0
    UP_AXIS_Z = 1


class UsdMaterialMode(IntEnum):
    """Materials of a USD export."""

    USD_MATERIAL_PREVIEW_SURFACE = 0
    USD_MATERIAL_DISPLAY_COLOR = 1
    USD_MATERIAL_MDL = 2


KeyboardInput = _numbered(
    "KeyboardInput",
    """
    KEY_SPACE KEY_APOSTROPHE KEY_COMMA KEY_MINUS KEY_PERIOD KEY_SLASH KEY_0 KEY_1 KEY_2 KEY_3 KEY_4 KEY_5 KEY_6
    KEY_7 KEY_8 KEY_9 KEY_SEMICOLON KEY_EQUAL KEY_A KEY_B KEY_C KEY_D KEY_E KEY_F KEY_G KEY_H KEY_I KEY_J KEY_K
    KEY_L KEY_M KEY_N KEY_O KEY_P KEY_Q KEY_R KEY_S KEY_T KEY_U KEY_V KEY_W KEY_X KEY_Y KEY_Z KEY_LEFT_BRACKET
    KEY_BACKSLASH KEY_RIGHT_BRACKET KEY_GRAVE_ACCENT KEY_ESCAPE KEY_TAB KEY_ENTER KEY_BACKSPACE KEY_INSERT
    KEY_DEL KEY_RIGHT KEY_LEFT KEY_DOWN KEY_UP KEY_PAGE_UP KEY_PAGE_DOWN KEY_HOME KEY_END KEY_CAPS_LOCK
    KEY_SCROLL_LOCK KEY_NUM_LOCK KEY_PRINT_SCREEN KEY_PAUSE KEY_F1 KEY_F2 KEY_F3 KEY_F4 KEY_F5 KEY_F6 KEY_F7
    KEY_F8 KEY_F9 KEY_F10 KEY_F11 KEY_F12 KEY_NUMPAD_0 KEY_NUMPAD_1 KEY_NUMPAD_2 KEY_NUMPAD_3 KEY_NUMPAD_4
    KEY_NUMPAD_5 KEY_NUMPAD_6 KEY_NUMPAD_7 KEY_NUMPAD_8 KEY_NUMPAD_9 KEY_NUMPAD_DEL KEY_NUMPAD_DIVIDE
    KEY_NUMPAD_MULTIPLY KEY_NUMPAD_SUBTRACT KEY_NUMPAD_ADD KEY_NUMPAD_ENTER KEY_NUMPAD_EQUAL KEY_LEFT_SHIFT
    KEY_LEFT_CONTROL KEY_LEFT_ALT KEY_LEFT_SUPER KEY_RIGHT_SHIFT KEY_RIGHT_CONTROL KEY_RIGHT_ALT KEY_RIGHT_SUPER
    KEY_MENU
    """,
)
MouseInput = _numbered(
    "MouseInput",
    """
    MOUSE_LEFT_BUTTON MOUSE_RIGHT_BUTTON MOUSE_MIDDLE_BUTTON MOUSE_FORWARD_BUTTON MOUSE_BACK_BUTTON
    MOUSE_SCROLL_RIGHT MOUSE_SCROLL_LEFT MOUSE_SCROLL_UP MOUSE_SCROLL_DOWN MOUSE_MOVE_RIGHT MOUSE_MOVE_LEFT
    MOUSE_MOVE_UP MOUSE_MOVE_DOWN
    """,
)

ENUMERATIONS: tuple[type[IntEnum], ...] = (
    DofDriveMode,
    DofType,
    JointType,
    CameraFollowMode,
    ContactCollection,
    CoordinateSpace,
    ImageType,
    IndexDomain,
    MeshType,
    MeshNormalMode,
    SimType,
    SoftMaterialType,
    TendonType,
    TensorDataType,
    UpAxis,
    UsdMaterialMode,
    KeyboardInput,
    MouseInput,
)

AXIS_NONE = 0
AXIS_X = 1
AXIS_Y = 2
AXIS_Z = 4
AXIS_TRANSLATION = 7
AXIS_TWIST = 8
AXIS_SWING_1 = 16
AXIS_SWING_2 = 32
AXIS_ROTATION = 56
AXIS_ALL = 63
STATE_NONE = 0
STATE_POS = 1
STATE_VEL = 2
STATE_ALL = 3
RIGID_BODY_NONE = 0
RIGID_BODY_DISABLE_GRAVITY = 1
RIGID_BODY_DISABLE_SIMULATION = 2
RIGID_BODY_ENABLE_GYROSCOPIC_FORCES = 4
INVALID_HANDLE = -1
DEFAULT_VIEWER_WIDTH = 1600
DEFAULT_VIEWER_HEIGHT = 900


def constants() -> dict[str, int]:
    """The names of all members and flags, as task code reads them from `gymapi`: `DOF_MODE_POS`, `AXIS_X`, `KEY_A`."""
    flags = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)}
    return flags | {name: member for kind in ENUMERATIONS for name, member in kind.__members__.items()}

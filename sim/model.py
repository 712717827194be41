"""The model that an engine runs: the task's MJCF, the physics settings, and the requested sensors.

    world = MjcfModel(Path("ant.xml"), physics, decimation=5)
    model = world.build(Needs(fields={"body_pos_w"}, contacts=["torso"]))
    world.stage  # mjSTAGE_POS: what must be computed after a step

Two things here are not obvious, and each has a test:

- A contact sensor's force points from its first object to its second. With the body as the *second*
  (`reftype`, `refname`) and the first left open, it is the force on the body, in the world frame, +m*g at rest.
  mjOBJ_BODY is the body itself; mjOBJ_XBODY would be its whole subtree.
- MuJoCo computes `cfrc_ext` in a step only if a sensor needs it, so such a sensor is added.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

import mujoco
import numpy as np
import torch
from torch import Tensor

from livegym.schema import DriveConfig
from livegym.sim.assets import make_absolute
from livegym.sim.base import APPLIED
from livegym.sim.drives import Held, apply_drives, held_by_delays
from livegym.sim.rounding import possible
from livegym.utils.errors import UserError, did_you_mean, not_one_of

log = logging.getLogger(__name__)

CLASH = re.compile(r"repeated name '(?P<name>[^']*)' in (?P<kind>\w+)")
_logged: set[str] = set()  # warnings of MuJoCo that were logged in this process
STAGE_NONE, STAGE_POS, STAGE_VEL, STAGE_ACC = (
    int(getattr(mujoco.mjtStage, f"mjSTAGE_{name}")) for name in ("NONE", "POS", "VEL", "ACC")
)
# the stage that must be computed at the new state for a field to be current; forces are those of the last physics step
FIELD_STAGE = {
    "qpos": STAGE_NONE,
    "qvel": STAGE_NONE,
    "ctrl": STAGE_NONE,
    "body_pos_w": STAGE_POS,
    "body_quat_w": STAGE_POS,
    "body_vel_w": STAGE_VEL,
    "site_pos_w": STAGE_POS,
    "cinert": STAGE_POS,
    "cvel": STAGE_VEL,
    "cfrc_ext": STAGE_NONE,
    "actuator_force": STAGE_NONE,
    APPLIED: STAGE_NONE,
}
ALWAYS = ("qpos", "qvel", "ctrl", "unstable")  # fields that need no require
INTEGRATORS = {
    "euler": mujoco.mjtIntegrator.mjINT_EULER,
    "implicitfast": mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
    "implicit": mujoco.mjtIntegrator.mjINT_IMPLICIT,
    "rk4": mujoco.mjtIntegrator.mjINT_RK4,
}
CONES = {"pyramidal": mujoco.mjtCone.mjCONE_PYRAMIDAL, "elliptic": mujoco.mjtCone.mjCONE_ELLIPTIC}
ADDED = "livegym/"  # prefix of the added sensors, so that they do not clash with the user's names


Part = Union[Path, mujoco.MjSpec]
"""An MJCF file, or a model whose files have absolute paths, that is attached to a frame of another."""
Contact = tuple[str, "str | None"]
"""A body, and the other body whose forces on it count; None: those of all bodies."""


@dataclass
class Needs:
    """The names and fields that will be read from a simulator, as collected by `require` and `require_contact`."""

    fields: set[str] = field(default_factory=set)
    sensors: list[str] = field(default_factory=list)  # names in the user's model
    contacts: list[Contact] = field(default_factory=list)  # in the order of the buffer


class MjcfModel:
    """One MJCF with physics settings applied; `model` has the user's names from the start, `build` adds sensors.

    `stage` is the lowest forward stage (mjtStage) after a step that makes every needed kinematic field current.
    """

    def __init__(
        self,
        path: Path,
        physics: Any,
        decimation: int,
        parts: Mapping[str, Part] | None = None,
        drives: Mapping[str, DriveConfig] | None = None,
    ) -> None:
        silence_mujoco()
        self.path = path  # for error messages
        spec = load_spec(path)
        for frame, part in (parts or {}).items():
            self.path = Path(f"{self.path} with {part if isinstance(part, Path) else part.modelname}")
            added = load_spec(part, attached=True) if isinstance(part, Path) else part
            try:
                attach(spec, frame, added)
            except ValueError as error:
                raise _explained(error, self.path) from error
        self.control_dt = spec.option.timestep * decimation  # s
        self.decimation = decimation * physics.substeps
        apply_physics(spec, physics)
        if drives:
            apply_drives(spec, drives, self.path)
        self.held: Held | None = None  # once it is built, and if a motor has a delay
        self.model = compile_spec(spec, self.path)
        self._spec: mujoco.MjSpec | None = spec  # until it is built: it keeps another copy of all meshes
        self._xml = ""
        self.xml()  # raises if it has text that is not UTF-8
        self.stage = STAGE_NONE
        self.acceleration_sensors: frozenset[str] = frozenset()  # the needed sensors that are force-like

    def build(self, needs: Needs) -> mujoco.MjModel:
        """Compile again with the sensors that `needs` requires; ids of bodies, joints and sites stay.

        Raises RuntimeError if it is built already.
        """
        spec = self._spec
        if spec is None:
            raise RuntimeError(f"model {self.path}: it is built already")
        for contact in needs.contacts:
            add_contact_sensor(spec, contact)
        if "cfrc_ext" in needs.fields:
            add_acceleration_sensor(spec)
        self.model = compile_spec(spec, self.path)
        self._xml = _written(spec, self.path)
        self.held = held_by_delays(self.model)
        del spec
        self._spec = None
        forget_meshes()
        self.stage = forward_stage(self.model, needs)
        late = (name for name in needs.sensors if sensor_stage(self.model, name) == STAGE_ACC)
        self.acceleration_sensors = frozenset(late)
        return self.model

    def xml(self) -> str:
        """The model as MJCF. Raises UserError if it has text that is not UTF-8."""
        return self._xml if self._spec is None else _written(self._spec, self.path)

    def names(self, kind: str) -> list[str]:
        """Names of all objects of a kind ("body", "joint", "site", ...) in order of their ids; '' is unnamed."""
        counts = {
            "body": "nbody",
            "joint": "njnt",
            "geom": "ngeom",
            "site": "nsite",
            "sensor": "nsensor",
            "key": "nkey",
        }
        count = {**counts, "actuator": "nu"}[known("kind of object", kind, {**counts, "actuator": "nu"})]
        names = [getattr(self.model, kind)(i).name for i in range(getattr(self.model, count))]
        return [name for name in names if not name.startswith(ADDED)]  # added sensors come last

    def ids(self, kind: str, names: Iterable[str]) -> list[int]:
        """Ids of the named objects of a kind. Raises ValueError with the nearest name."""
        all_names = self.names(kind)
        return [all_names.index(known(kind, name, all_names)) for name in names]

    def joint_columns(self, joints: Iterable[str], first: np.ndarray, free: int, ball: int) -> list[int]:
        """Columns of joints: `first` (njnt,) has each one's first column; free and ball joints have several."""
        widths = {int(mujoco.mjtJoint.mjJNT_FREE): free, int(mujoco.mjtJoint.mjJNT_BALL): ball}
        columns: list[int] = []
        for joint in self.ids("joint", joints):
            start, width = int(first[joint]), widths.get(int(self.model.jnt_type[joint]), 1)
            columns += range(start, start + width)
        return columns


def load_spec(path: Path, attached: bool = False) -> mujoco.MjSpec:
    """The MJCF at `path`, unchanged except for absolute asset folders; `attached`: it will be part of another model.

    Raises UserError that names the path.
    """
    if not path.is_file():
        raise UserError(f"model {path}: there is no such file. Check the task's model path.")
    try:
        with warnings_logged_once():
            spec = mujoco.MjSpec.from_file(str(path))
    except (ValueError, UnicodeDecodeError) as error:
        raise UserError(f"model {path}: MuJoCo cannot read it: {error}") from error
    make_absolute(spec, path, attached)
    return spec


def attach(spec: mujoco.MjSpec, frame: str, part: mujoco.MjSpec) -> None:
    """Put everything in `part` into a named frame of `spec`, under its own names; options stay those of `spec`.

    Raises ValueError if there is no such frame, or if both have something of the same name.
    """
    where = spec.frame(frame)
    if where is None:
        raise ValueError(f"frame {frame}: unknown in {spec.modelname}")
    part.default.name = f"{frame}-main"  # otherwise the saved model would have a default class without a name
    with warnings_logged_once():
        spec.attach(part, prefix="", frame=where)


def _explained(error: ValueError, path: Path) -> UserError:
    """The error for a model that MuJoCo cannot compile, or that it cannot attach to another."""
    clash = CLASH.search(str(error))
    if clash is None:
        return UserError(f"model {path}: MuJoCo cannot compile it: {' '.join(str(error).split())}")
    return UserError(
        f"model {path}: there is more than one {clash['kind']} {clash['name']!r}. Allowed: each name once, in all "
        "models that are attached to one another. Rename one of them."
    )


@contextlib.contextmanager
def warnings_logged_once() -> Iterator[None]:
    """Log each warning of MuJoCo once, without lines of our source.

    The warning that names may clash is left out: parts are attached under their own names on purpose.
    """
    silence_mujoco()  # it would write the same warnings into a file
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        text = " ".join(str(warning.message).split())
        if text not in _logged and not text.startswith("Attaching a spec with an empty prefix"):
            _logged.add(text)
            log.warning("MuJoCo: %s", text)


def compile_spec(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    """The compiled model. Raises UserError that names the path."""
    try:
        with warnings_logged_once():
            return spec.compile()
    except ValueError as error:
        raise _explained(error, path) from error


def compiled(model_xml: str) -> mujoco.MjModel:
    """The model of an MJCF text, which leaves nothing else in memory.

    Raises UserError if it cannot be compiled, for example because a file that it needs is not there now.

    `MjModel.from_xml_string` keeps the last text with all its meshes, and twice: for `mj_saveLastXML`, and in a cache.
    """
    try:
        with warnings_logged_once():
            model = mujoco.MjSpec.from_string(possible(model_xml)).compile()
    except ValueError as error:
        raise UserError(f"the simulator's model cannot be compiled again: {' '.join(str(error).split())}") from error
    forget_meshes()
    return model


def forget_meshes() -> None:
    """Give back the memory in which MuJoCo compiled meshes: several times that of the compiled model."""
    mujoco.mj_clearCache(mujoco.mj_getCache())
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc, which otherwise keeps freed memory
    if trim is not None:
        trim(0)


def _written(spec: mujoco.MjSpec, path: Path) -> str:
    try:
        with warnings_logged_once():
            return spec.to_xml()
    except UnicodeDecodeError as error:
        raise UserError(
            f"model {path}: has text that is not UTF-8 ({error}). Allowed: UTF-8. Convert the file: "
            "iconv -f latin1 -t utf-8"
        ) from error


def apply_physics(spec: mujoco.MjSpec, physics: Any) -> None:
    """Set `PhysicsConfig` on the model; None keeps the model's own setting. Raises UserError for an unknown value."""
    option = spec.option
    for key, choices in (("integrator", INTEGRATORS), ("cone", CONES)):
        value = getattr(physics, key)
        if value is None:
            continue
        if value not in choices:
            raise not_one_of(f"physics.{key}", value, choices)
        setattr(option, key, choices[value])
    for key in ("iterations", "tolerance"):
        if getattr(physics, key) is not None:
            setattr(option, key, getattr(physics, key))
    option.timestep /= physics.substeps
    # with autoreset, MuJoCo would silently reset an environment whose state became non-finite to its default state
    option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)


def add_contact_sensor(spec: mujoco.MjSpec, contact: Contact) -> None:
    """Add a sensor of the net contact force on a body, N, world frame; the module's docstring explains it."""
    body, against = contact
    sensor = spec.add_sensor(name=contact_sensor_name(contact), type=mujoco.mjtSensor.mjSENS_CONTACT)
    sensor.reftype, sensor.refname = mujoco.mjtObj.mjOBJ_BODY, body
    if against is not None:
        sensor.objtype, sensor.objname = mujoco.mjtObj.mjOBJ_BODY, against
    # data: force only; reduce: 3 is netforce, the sum over all contacts; one slot
    sensor.intprm[0] = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE)
    sensor.intprm[1], sensor.intprm[2] = 3, 1


def contact_sensor_name(contact: Contact) -> str:
    """The name of the sensor that `add_contact_sensor` adds."""
    return ADDED + "/".join(["contact", *(body for body in contact if body is not None)])


def add_acceleration_sensor(spec: mujoco.MjSpec) -> None:
    """Add a sensor for which MuJoCo must run mj_rnePostConstraint, which fills `cfrc_ext`; its value is not used."""
    spec.add_sensor(
        name=f"{ADDED}rne",
        type=mujoco.mjtSensor.mjSENS_FRAMELINACC,
        objtype=mujoco.mjtObj.mjOBJ_XBODY,
        objname="world",
    )


def allocate(model: mujoco.MjModel, needs: Needs, num_envs: int) -> dict[str, Tensor]:
    """Zeroed float32 buffers (N, ...) of every field that will be read, and `unstable` (N,) bool."""
    bodies, sites = model.nbody, model.nsite
    shapes: dict[str, tuple[int, ...]] = {
        "qpos": (model.nq,),
        "qvel": (model.nv,),
        "ctrl": (model.nu,),
        "body_pos_w": (bodies, 3),
        "body_quat_w": (bodies, 4),
        "body_vel_w": (bodies, 6),
        "site_pos_w": (sites, 3),
        "cinert": (bodies, 10),
        "cvel": (bodies, 6),
        "cfrc_ext": (bodies, 6),
        "actuator_force": (model.nu,),
        APPLIED: (bodies, 6),
    }
    shapes = {name: shape for name, shape in shapes.items() if name in ALWAYS or name in needs.fields}
    shapes |= {f"sensor:{name}": (int(model.sensor(name).dim[0]),) for name in needs.sensors}
    shapes["contact_force_w"] = (len(needs.contacts), 3)
    fields = {name: torch.zeros(num_envs, *shape) for name, shape in shapes.items()}
    return fields | {"unstable": torch.zeros(num_envs, dtype=torch.bool)}


def sensor_slice(model: mujoco.MjModel, name: str) -> slice:
    """The slice of a sensor's values in `sensordata`."""
    sensor = model.sensor(name).id
    start = int(model.sensor_adr[sensor])
    return slice(start, start + int(model.sensor_dim[sensor]))


def sensor_stage(model: mujoco.MjModel, name: str) -> int:
    """The forward stage (mjtStage) at which a sensor is computed."""
    return int(model.sensor_needstage[model.sensor(name).id])


def forward_stage(model: mujoco.MjModel, needs: Needs) -> int:
    """The lowest forward stage (mjtStage) that computes every needed kinematic field."""
    sensors = [sensor_stage(model, name) for name in needs.sensors]
    kinematic = [stage for stage in sensors if stage < STAGE_ACC]
    return max([STAGE_NONE, *kinematic, *(FIELD_STAGE[name] for name in needs.fields)])


def known(kind: str, name: str, names: Iterable[str]) -> str:
    """`name`, if it is among `names`. Raises ValueError with the nearest name."""
    names = [n for n in names if n]
    if name not in names:
        raise ValueError(f"{kind} {name}: unknown. Allowed: {', '.join(names)}.{did_you_mean(name, names)}")
    return name


def model_field(model: mujoco.MjModel, name: str) -> np.ndarray:
    """A field of the model; fields of MjOption are named `opt.<name>`."""
    return np.asarray(getattr(model.opt, name[4:]) if name.startswith("opt.") else getattr(model, name))


def set_model_field(model: mujoco.MjModel, name: str, value: np.ndarray) -> None:
    """Write a field of the model; fields of MjOption are named `opt.<name>`."""
    owner, name = (model.opt, name[4:]) if name.startswith("opt.") else (model, name)
    if np.ndim(value):
        getattr(owner, name)[:] = value
    else:
        setattr(owner, name, value.item())


def silence_mujoco() -> None:
    """Keep MuJoCo from printing and from writing MUJOCO_LOG.TXT into the working directory.

    This is process-wide, safe on worker threads, and keeps handlers that other code has installed. Nothing is lost:
    engines report instability through `unstable`, and other warnings through `logging`.
    """
    config = mujoco.MjLogConfig.get()
    config.logto_console = config.logto_file = False
    config.set()

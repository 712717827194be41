"""MJCF files as assets, in the order of the file.

MuJoCo reads the cleaned file; what its actuators say becomes drive modes, gains and limits of the DOFs.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np

from livegym.compat.core import inertia, meshes, mjcf_file
from livegym.compat.core.asset_model import HINGE, AssetModel, finish, keep_as_given, listed
from livegym.compat.core.enums import DofDriveMode, TendonType
from livegym.compat.core.inertia import Inertial
from livegym.compat.core.mjcf_file import Document
from livegym.compat.core.records import NO_LIMIT, ActuatorProperties, AssetOptions, TendonProperties
from livegym.compat.core.urdf import DEFAULT_VELOCITY, NARROW
from livegym.utils.errors import UserError

SMALLEST_MASS = 1e-9
"""A body with less (kg) counts as one without mass."""
OLD_ATTRIBUTES = 50
"""Attributes that MuJoCo no longer knows are left out, up to this many."""

OF_JOINT = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
"""Transmissions of actuators that drive one joint."""
MODES = {
    "motor": DofDriveMode.DOF_MODE_EFFORT,
    "velocity": DofDriveMode.DOF_MODE_VEL,
    "position": DofDriveMode.DOF_MODE_POS,
}
"""Drive mode of the DOF under an actuator of each type; of several, the last one counts."""


def load(file: Path, root: Path, options: AssetOptions) -> AssetModel:
    """Import an MJCF file; meshes are searched from its folder upwards, and below `root`."""
    document = mjcf_file.read(file, root)
    if not options.fix_base_link:
        mjcf_file.remove_root_joints(document)
    mjcf_file.remove_dangling(document)
    _default_density(document, options)
    spec = _parse(document)
    _settle_meshes(spec, document)
    _settle_joints(spec, document)
    _refuse_root_joints(spec, document)
    _settle_geoms(spec, options)
    if spec.meshes and (options.vhacd_enabled or options.convex_decomposition_from_submeshes):
        document.notes.append("each mesh is one convex hull: only those of URDF files are decomposed")
    model = _settle_inertia(spec, document, options)
    actuators = _actuators(model)
    driven = _driven_joints(model)
    drives = _drives(actuators, driven)
    names = [model.actuator(i).name for i in range(model.nu)]
    while spec.actuators:  # the list is read again each time: a stale one crashes the process
        spec.delete(spec.actuators[0])
    dofs = {model.joint(j).name: _dof(model, j, drives.get(model.joint(j).name), options) for j in range(model.njnt)}
    _add_armature(spec, options)
    model = _compile(spec, document)
    asset = finish(spec, model, options, file, _joint_above(model), dofs, document.notes)
    asset.actuators = actuators
    asset.actuator_names = names
    asset.actuator_joints = driven
    asset.tendons, asset.tendon_names = _tendons(model, options)
    return asset


def _default_density(document: Document, options: AssetOptions) -> None:
    """Geoms whose file gives no density have that of the options."""
    default = document.tree.find("default")
    if default is None:
        default = ET.Element("default")
        document.tree.insert(0, default)
    geom = default.find("geom")
    if geom is None:
        geom = ET.SubElement(default, "geom")
    if "density" not in geom.attrib:
        geom.set("density", repr(options.density))


def _parse(document: Document) -> mujoco.MjSpec:
    """The specification; attributes that MuJoCo no longer knows are left out one by one."""
    for _ in range(OLD_ATTRIBUTES):
        try:
            return mujoco.MjSpec.from_string(ET.tostring(document.tree, encoding="unicode"))
        except ValueError as error:
            unknown = re.search(r"unrecognized attribute: '(\w+)'", str(error))
            if unknown is None:
                raise UserError(f"{document.file}: MuJoCo cannot read it: {_one_line(error)}") from None
            for element in document.tree.iter():
                element.attrib.pop(unknown[1], None)
            document.notes.append(f"attribute {unknown[1]} is left out, because MuJoCo no longer knows it")
    raise document.error("<mujoco>", f"more than {OLD_ATTRIBUTES} unknown attributes. Is it an MJCF file?")


def _compile(spec: mujoco.MjSpec, document: Document) -> mujoco.MjModel:
    try:
        model, notes = meshes.compile_spec(spec)
    except ValueError as error:
        raise UserError(f"{document.file}: MuJoCo refuses it: {_one_line(error)}") from None
    document.notes += notes
    return model


def _one_line(error: ValueError) -> str:
    return " ".join(str(error).split())


def _settle_meshes(spec: mujoco.MjSpec, document: Document) -> None:
    """Leave out meshes that MuJoCo cannot read, with the geoms that show them.

    Those that collide are read by trimesh; raises UserError if it cannot.
    """
    colliding = {geom.meshname for geom in spec.geoms if geom.contype or geom.conaffinity}
    for mesh in spec.meshes:
        if mesh.name in document.hollow and mesh.name in colliding:
            hollow = document.hollow.pop(mesh.name)
            if hollow.path is None or not meshes.can_be_read(hollow.path):
                raise hollow.error
            meshes.give_vertices(mesh, meshes.vertices(hollow.path))
    while geom := next((g for g in spec.geoms if g.meshname in document.hollow), None):
        spec.delete(geom)
    while drawn := next((m for m in spec.meshes if m.name in document.hollow), None):
        document.notes.append(f"mesh {drawn.name} is left out: it only draws, and is missing or of another format")
        spec.delete(drawn)


def _settle_joints(spec: mujoco.MjSpec, document: Document) -> None:
    """Hinges and slides only, with ranges in radians or metres that MuJoCo takes."""
    while free := next((j for j in spec.joints if j.type == mujoco.mjtJoint.mjJNT_FREE), None):
        spec.delete(free)
    for joint in spec.joints:
        if joint.type == mujoco.mjtJoint.mjJNT_BALL:
            raise document.error(f"joint {joint.name}", "a ball joint has no DOF of one number. Use three hinges.")
        if document.degree and joint.type == HINGE:
            joint.range = np.deg2rad(joint.range)
            joint.ref = np.deg2rad(joint.ref)
            joint.springref = np.deg2rad(joint.springref)
        low, high = joint.range
        if joint.limited == mujoco.mjtLimited.mjLIMITED_TRUE and low >= high:
            joint.range = (low - NARROW, low + NARROW)
            document.notes.append(f"joint {joint.name}: its range is empty, so +-{NARROW:g} around {low:g}")


def _refuse_root_joints(spec: mujoco.MjSpec, document: Document) -> None:
    """Raises UserError if a root that the options fix has hinges or slides of its own."""
    root = spec.bodies[1]
    if names := [joint.name for joint in root.joints]:
        raise document.error(
            f"<body> {root.name}",
            f"fix_base_link holds this root body, but it has joints ({listed(names)}). Put it inside a body without "
            "joints, or set fix_base_link to False, which leaves these joints out.",
        )


def _settle_geoms(spec: mujoco.MjSpec, options: AssetOptions) -> None:
    if options.replace_cylinder_with_capsule:
        for geom in spec.geoms:
            if geom.type == mujoco.mjtGeom.mjGEOM_CYLINDER:
                geom.type = mujoco.mjtGeom.mjGEOM_CAPSULE
    for mesh in spec.meshes:
        mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        if mesh.maxhullvert < 0:
            mesh.maxhullvert = meshes.HULL_VERTICES


def _settle_inertia(spec: mujoco.MjSpec, document: Document, options: AssetOptions) -> mujoco.MjModel:
    """Write down each body's mass and inertia, as the file has them or as its geoms give them.

    Returns the model as it was before.
    """
    for body in spec.bodies[1:]:
        if body.explicitinertial:
            _make_possible(body, document)
    spec.compiler.boundmass = max(spec.compiler.boundmass, SMALLEST_MASS / 10)
    spec.compiler.boundinertia = max(spec.compiler.boundinertia, inertia.SMALLEST)
    model = _compile(spec, document)
    matters = _matters(model)
    if options.override_com or options.override_inertia:
        spec.compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
        shaped = _matters(_compile(spec, document))
        matters = {name: _overridden(matter, shaped[name], options) for name, matter in matters.items()}
    keep_as_given(spec)
    massless = [name for name, matter in matters.items() if matter.mass < SMALLEST_MASS]
    for name, matter in matters.items():
        body = spec.body(name)
        if options.disable_gravity:
            body.gravcomp = 1.0
        matter = inertia.tiny() if name in massless else matter
        if not options.use_physx_armature:
            matter = replace(matter, tensor=matter.tensor + options.armature * np.eye(3))
        inertia.write(body, inertia.physical(matter))
    if massless:
        document.notes.append(f"{listed(massless)}: no mass, so {inertia.TINY_MASS:g} kg")
    return model


def _matters(model: mujoco.MjModel) -> dict[str, Inertial]:
    """Mass and inertia of each body of a model."""
    return {
        model.body(i).name: inertia.from_moments(
            model.body_mass[i], model.body_ipos[i].copy(), model.body_inertia[i], model.body_iquat[i]
        )
        for i in range(1, model.nbody)
    }


def _overridden(given: Inertial, shaped: Inertial, options: AssetOptions) -> Inertial:
    """Mass as given, the rest as the options say from the geoms, unless the body has none."""
    if shaped.mass < SMALLEST_MASS:
        return given
    return Inertial(
        given.mass,
        shaped.com if options.override_com else given.com,
        shaped.scaled_to(given.mass).tensor if options.override_inertia else given.tensor,
    )


def _make_possible(body: mujoco.MjsBody, document: Document) -> None:
    """Change an inertia of the file that no real body can have."""
    full = np.array(body.fullinertia)
    by_products = bool(np.isfinite(full).all())
    tensor = inertia.tensor_of(*full) if by_products else np.diag(body.inertia)
    given = Inertial(body.mass, np.array(body.ipos), tensor)
    if given.mass < SMALLEST_MASS:
        return
    if not inertia.is_physical(given):
        document.notes.append(f"{body.name}: {inertia.REPLACED}")
    if by_products:
        inertia.write(body, inertia.physical(given))
    else:
        body.inertia = np.diag(inertia.physical(given).tensor)


def _driven_joints(model: mujoco.MjModel) -> list[str]:
    """The joint of each actuator, '' if it drives something else."""
    joints = []
    for kind, (target, _) in zip(model.actuator_trntype.tolist(), model.actuator_trnid, strict=True):
        joints.append(model.joint(target).name if kind in OF_JOINT else "")
    return joints


def _drives(actuators: list[ActuatorProperties], driven: list[str]) -> dict[str, ActuatorProperties]:
    """The actuator that counts for each joint: of several, one toward a position, otherwise one toward a velocity."""
    return dict(sorted(zip(driven, actuators, strict=True), key=lambda pair: list(MODES).index(pair[1].type)))


def _actuators(model: mujoco.MjModel) -> list[ActuatorProperties]:
    properties = []
    for i in range(model.nu):
        kp, kv = 0.0 - model.actuator_biasprm[i, 1:3]
        low_control, high_control = model.actuator_ctrlrange[i]
        low_force, high_force = model.actuator_forcerange[i]
        properties.append(
            ActuatorProperties(
                type="position" if kp else "velocity" if kv else "motor",
                control_limited=bool(model.actuator_ctrllimited[i]),
                force_limited=bool(model.actuator_forcelimited[i]),
                kp=kp,
                kv=kv,
                lower_control_limit=low_control,
                upper_control_limit=high_control,
                lower_force_limit=low_force,
                upper_force_limit=high_force,
                motor_effort=model.actuator_gear[i, 0],
            )
        )
    return properties


def _dof(model: mujoco.MjModel, joint: int, drive: ActuatorProperties | None, options: AssetOptions) -> tuple:
    """A row of `DOF_PROPERTIES`."""
    address = model.jnt_dofadr[joint]
    limited = bool(model.jnt_limited[joint])
    lower, upper = model.jnt_range[joint] if limited else (-NO_LIMIT, NO_LIMIT)
    mode = MODES[drive.type] if drive else options.default_dof_drive_mode
    stiffness = drive.kp if drive and drive.kp else model.jnt_stiffness[joint]
    damping = model.dof_damping[address] + (drive.kv if drive else 0.0)
    effort = NO_LIMIT
    if drive and drive.force_limited:
        effort = max(abs(drive.lower_force_limit), abs(drive.upper_force_limit)) * abs(drive.motor_effort)
    if model.jnt_actfrclimited[joint]:
        effort = min(effort, float(np.abs(model.jnt_actfrcrange[joint]).max()))
    armature = model.dof_armature[address] + (options.armature if options.use_physx_armature else 0.0)
    friction = model.dof_frictionloss[address]
    return limited, lower, upper, mode, DEFAULT_VELOCITY, effort, stiffness, damping, friction, armature


def _add_armature(spec: mujoco.MjSpec, options: AssetOptions) -> None:
    if options.use_physx_armature:
        for joint in spec.joints:
            joint.armature += options.armature


def _joint_above(model: mujoco.MjModel) -> dict[str, str]:
    """The joint above each body: its first one, or a fixed one that has no name in the file."""
    names = {}
    for i in range(1, model.nbody):
        first = model.body_jntadr[i]
        names[model.body(i).name] = model.joint(first).name if first >= 0 else f"{model.body(i).name}_fixed"
    return names


def _tendons(model: mujoco.MjModel, options: AssetOptions) -> tuple[list[TendonProperties], list[str]]:
    properties = []
    for i in range(model.ntendon):
        path = slice(model.tendon_adr[i], model.tendon_adr[i] + model.tendon_num[i])
        fixed = bool((model.wrap_type[path] == int(mujoco.mjtWrap.mjWRAP_JOINT)).all())
        lower, upper = model.tendon_range[i]
        count = int(model.tendon_num[i])
        properties.append(
            TendonProperties(
                type=TendonType.TENDON_FIXED if fixed else TendonType.TENDON_SPATIAL,
                damping=model.tendon_damping[i].reshape(-1)[0],
                stiffness=model.tendon_stiffness[i].reshape(-1)[0],
                is_fixed_limited=bool(model.tendon_limited[i]),
                fixed_lower_limit=lower,
                fixed_upper_limit=upper,
                fixed_spring_rest_length=max(0.0, model.tendon_lengthspring[i, 0]),
                limit_stiffness=options.tendon_limit_stiffness,
                num_joints=count if fixed else 0,
                num_attachments=0 if fixed else count,
            )
        )
    return properties, [model.tendon(i).name for i in range(model.ntendon)]

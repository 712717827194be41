"""URDF files as assets, in Isaac Gym's order: depth first, children in alphabetical order of their joints' names.

MuJoCo's own URDF reader keeps another order, fuses links, and needs masses and mesh paths that such files often lack.
Here links keep their order, only those over fixed joints are merged, and only if the options ask for it; a link without
mass or inertia takes them from its collision shapes and the density.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np

from livegym.compat.core import inertia, meshes, urdf_file
from livegym.compat.core.asset_model import HINGE, SLIDE, AssetModel, finish, listed, new_spec, spec_name
from livegym.compat.core.frames import Pose, identity
from livegym.compat.core.inertia import Inertial
from livegym.compat.core.records import NO_LIMIT, AssetOptions
from livegym.compat.core.urdf_file import Joint, Link, Robot, Shape
from livegym.utils.errors import UserError

DEFAULT_VELOCITY = 100.0
"""Velocity limit (rad/s or m/s) of a joint whose file gives none, as PhysX has it."""
NARROW = 1e-4
"""Half range (rad or m) of a joint whose limits leave it none, because MuJoCo needs some."""
GYRATION = 0.1
"""Radius (m) of gyration of a link that has a mass, but neither an inertia nor a shape."""

GEOM = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "mesh": mujoco.mjtGeom.mjGEOM_MESH,
}


@dataclass
class Body:
    """A link of the simulation with what hangs below it; `joint` is None for the root."""

    name: str
    joint: Joint | None
    pose: Pose
    shapes: list[Shape]
    inertial: Inertial
    children: list[Body]

    def descend(self) -> Iterator[Body]:
        """This body and all below it, depth first."""
        yield self
        for child in self.children:
            yield from child.descend()


def load(file: Path, root: Path, options: AssetOptions, as_written: bool = False) -> AssetModel:
    """Import a URDF file; meshes are searched from its folder upwards, and below `root`.

    `as_written`: links in the order of the file's joints, and not in Isaac Gym's; a link without <inertial> that is
    fixed to one with mass has none, whereas Isaac Gym takes its mass from its shapes and the density.
    """
    robot = urdf_file.read(file, as_written)
    for link in robot.links.values():
        for shape in link.shapes:
            _locate(shape, link, robot.file, root)
    notes = list(robot.notes)
    masses = _link_inertials(robot, options, notes, _frames(robot) if as_written else set())
    tree = _tree(robot, robot.root, None, masses, options.collapse_fixed_joints)
    _settle(tree, options, notes)
    spec, model = _build(tree, options, robot.file, notes)
    joints = {body.name: body.joint.name for body in tree.descend() if body.joint}
    dofs = {body.joint.name: _dof(body.joint, options) for body in tree.descend() if body.joint and body.joint.moves}
    return finish(spec, model, options, file, joints, dofs, notes)


def _locate(shape: Shape, link: Link, file: Path, root: Path) -> None:
    """Replace a mesh's name by its path."""
    if shape.kind == "mesh":
        element = f"link {link.name} <collision> <mesh>"
        path, tried = meshes.find_mesh(shape.mesh, file.parent, root)
        if path is None:
            raise meshes.not_found(file, element, shape.mesh, tried)
        if not meshes.can_be_read(path):
            raise meshes.unreadable(file, element, path)
        shape.mesh = str(path)


def _needs_shapes(link: Link, options: AssetOptions) -> bool:
    """Whether its mass, its inertia or both come from its shapes."""
    complete = bool(link.mass) and link.tensor is not None and link.tensor.any()
    return bool(link.shapes) and (not complete or options.override_com or options.override_inertia)


def _frames(robot: Robot) -> set[str]:
    """Links without <inertial> that are fixed to one with mass: frames of reference, or a place for its shapes."""
    rigid: dict[str, list[Link]] = {}

    def collect(name: str, body: str) -> None:
        rigid.setdefault(body, []).append(robot.links[name])
        for joint in robot.below[name]:
            collect(joint.child, joint.child if joint.moves else body)

    collect(robot.root, robot.root)
    heavy = [links for links in rigid.values() if any(link.mass for link in links)]
    return {link.name for links in heavy for link in links if link.mass is None and link.density is None}


def _link_inertials(robot: Robot, options: AssetOptions, notes: list[str], frames: set[str]) -> dict[str, Inertial]:
    """Mass and inertia of each link by itself; `frames` have none."""
    links = [link for link in robot.links.values() if link.name not in frames]
    asking = [link for link in links if _needs_shapes(link, options)]
    shaped = _from_shapes(asking, options, robot.file)
    by_density = [link.name for link in asking if not link.mass]
    if by_density:
        notes.append(f"mass of {listed(by_density)} from density and collision shapes")
    by_shape = [link.name for link in asking if link.mass]
    if by_shape:
        notes.append(f"inertia of {listed(by_shape)} from mass and collision shapes")
    return {name: _inertial(link, shaped.get(name), options) for name, link in robot.links.items()}


def _from_shapes(links: list[Link], options: AssetOptions, file: Path) -> dict[str, Inertial]:
    """Mass and inertia of the collision shapes of each link."""
    if not links:
        return {}
    spec = new_spec()
    library = meshes.Meshes(spec, options)
    for link in links:
        density = options.density if link.density is None else link.density
        body = spec.worldbody.add_body(name=spec_name(link.name))
        for shape in link.shapes:
            _add_geom(body, shape, library, options, density)
    model = _compile(spec, file, [])
    return {
        link.name: inertia.from_moments(
            model.body_mass[i], model.body_ipos[i].copy(), model.body_inertia[i], model.body_iquat[i]
        )
        for i, link in enumerate(links, 1)
    }


def _inertial(link: Link, shaped: Inertial | None, options: AssetOptions) -> Inertial:
    """Mass and inertia of a link as the file has them; `shaped` fills the gaps."""
    if shaped and not shaped.mass:
        shaped = None
    mass = link.mass or (shaped.mass if shaped else 0.0)
    if not mass:
        return inertia.nothing()
    frame = link.com or identity()
    given = link.tensor if link.tensor is not None and link.tensor.any() else None
    if given is not None and not (options.override_inertia and shaped):
        tensor = frame.matrix() @ given @ frame.matrix().T
    elif shaped:
        tensor = shaped.scaled_to(mass).tensor
    else:
        tensor = mass * GYRATION**2 * np.eye(3)
    said = link.com is not None or given is not None
    com = shaped.com if shaped and (options.override_com or not said) else frame.pos
    return Inertial(mass, com, tensor)


def _tree(robot: Robot, name: str, joint: Joint | None, masses: dict[str, Inertial], collapse: bool) -> Body:
    """The bodies from one link downwards. A link that is merged gives shapes, mass and children to the one above."""
    body = Body(name, joint, joint.pose if joint else identity(), robot.links[name].shapes, masses[name], [])
    for below in robot.below[name]:
        child = _tree(robot, below.child, below, masses, collapse)
        if collapse and not below.moves and not below.keep:
            at = child.pose
            body.shapes = body.shapes + [replace(shape, pose=at.then(shape.pose)) for shape in child.shapes]
            body.inertial = body.inertial + child.inertial.seen_from(at)
            body.children += [replace(grandchild, pose=at.then(grandchild.pose)) for grandchild in child.children]
        else:
            body.children.append(child)
    return body


def _settle(tree: Body, options: AssetOptions, notes: list[str]) -> None:
    """Make each body one that MuJoCo can move."""
    massless, impossible = [], []
    for body in tree.descend():
        if not body.inertial.mass:
            massless.append(body.name)
            body.inertial = inertia.tiny()
        if options.armature and not options.use_physx_armature:
            body.inertial = replace(body.inertial, tensor=body.inertial.tensor + options.armature * np.eye(3))
        if not inertia.is_physical(body.inertial):
            impossible.append(body.name)
        body.inertial = inertia.physical(body.inertial)
    if massless:
        notes.append(f"{listed(massless)}: no mass, so {inertia.TINY_MASS:g} kg")
    if impossible:
        notes.append(f"{listed(impossible)}: {inertia.REPLACED}")


def _build(tree: Body, options: AssetOptions, file: Path, notes: list[str]) -> tuple[mujoco.MjSpec, mujoco.MjModel]:
    spec = new_spec()
    library = meshes.Meshes(spec, options)
    _add_body(spec.worldbody, tree, library, options)
    return spec, _compile(spec, file, notes)


def _compile(spec: mujoco.MjSpec, file: Path, notes: list[str]) -> mujoco.MjModel:
    try:
        model, others = meshes.compile_spec(spec)
    except ValueError as error:
        raise UserError(f"{file}: MuJoCo refuses it: {error}") from None
    notes += others
    return model


def _add_body(parent: mujoco.MjsBody, tree: Body, library: meshes.Meshes, options: AssetOptions) -> None:
    body = parent.add_body(name=spec_name(tree.name), pos=tree.pose.pos, quat=tree.pose.quat)
    body.gravcomp = 1.0 if options.disable_gravity else 0.0
    inertia.write(body, tree.inertial)
    if tree.joint is not None and tree.joint.moves:
        _add_joint(body, tree.joint, options)
    for shape in tree.shapes:
        _add_geom(body, shape, library, options, options.density)
    for child in tree.children:
        _add_body(body, child, library, options)


def _add_joint(body: mujoco.MjsBody, joint: Joint, options: AssetOptions) -> None:
    has_limits, lower, upper, *_, damping, friction, armature = _dof(joint, options)
    body.add_joint(
        name=joint.name,
        type=SLIDE if joint.kind == "prismatic" else HINGE,
        axis=joint.axis,
        limited=mujoco.mjtLimited.mjLIMITED_TRUE if has_limits else mujoco.mjtLimited.mjLIMITED_FALSE,
        range=(lower, upper) if has_limits else (0.0, 0.0),
        damping=damping,
        frictionloss=friction,
        armature=armature,
    )


def _add_geom(
    body: mujoco.MjsBody, shape: Shape, library: meshes.Meshes, options: AssetOptions, density: float
) -> None:
    kind = "capsule" if shape.kind == "cylinder" and options.replace_cylinder_with_capsule else shape.kind
    common = {"density": density, "contype": 1, "conaffinity": 1, "pos": shape.pose.pos, "quat": shape.pose.quat}
    if kind != "mesh":
        body.add_geom(type=GEOM[kind], size=shape.size, **common)
        return
    for name in library.names_of(Path(shape.mesh), shape.scale):
        body.add_geom(type=GEOM[kind], meshname=name, **common)


def _dof(joint: Joint, options: AssetOptions) -> tuple:
    """A row of `DOF_PROPERTIES`."""
    has_limits = joint.kind != "continuous" and (joint.lower is not None or joint.upper is not None)
    lower, upper = -NO_LIMIT, NO_LIMIT
    if has_limits:
        lower, upper = sorted((joint.lower or 0.0, joint.upper or 0.0))
        if lower == upper:
            lower, upper = lower - NARROW, upper + NARROW
    velocity = DEFAULT_VELOCITY if joint.velocity is None else joint.velocity
    effort = NO_LIMIT if joint.effort is None else joint.effort
    armature = options.armature if options.use_physx_armature else 0.0
    mode = options.default_dof_drive_mode
    return has_limits, lower, upper, mode, velocity, effort, 0.0, joint.damping, joint.friction, armature

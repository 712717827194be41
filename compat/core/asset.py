"""Assets of task code: files by their extension, and boxes, spheres and capsules.

asset = load_asset("assets", "urdf/robot.urdf", AssetOptions(fix_base_link=True))
asset.bodies, asset.dofs, asset.dof_properties["upper"]
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np

from livegym.compat.core import mjcf, urdf
from livegym.compat.core.asset_model import AssetModel, ForceSensor, finish, new_spec
from livegym.compat.core.inertia import from_moments, physical, write
from livegym.compat.core.records import AssetOptions
from livegym.utils.errors import UserError

__all__ = ["AssetModel", "ForceSensor", "box", "capsule", "load_asset", "sphere"]

READERS = {".urdf": urdf.load, ".xml": mjcf.load, ".mjcf": mjcf.load}
ALONG_X = (0.5**0.5, 0.0, 0.5**0.5, 0.0)
"""The rotation that lays the z axis of a capsule along x."""
_ALSO_IN: list[Path] = []


@contextlib.contextmanager
def also_in(folder: Path) -> Iterator[None]:
    """Inside, a relative root that is not in the current folder is searched in this one."""
    _ALSO_IN.append(folder)
    try:
        yield
    finally:
        _ALSO_IN.pop()


def load_asset(root: str, file: str, options: AssetOptions) -> AssetModel:
    """Import `file`, a path relative to `root`. Raises UserError that names file, element and remedy."""
    places = [Path(os.path.abspath(folder / root)) for folder in (Path(), *reversed(_ALSO_IN))]
    base = next((place for place in places if (place / file).is_file()), places[0])
    path = Path(os.path.abspath(base / file))  # not resolved: meshes may lie beside a link
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        remedy = " USD needs NVIDIA's libraries; export it as URDF or MJCF." if "usd" in path.suffix.lower() else ""
        raise UserError(f"{path}: {path.suffix or 'no extension'} is no asset. Allowed: {', '.join(READERS)}.{remedy}")
    if not path.is_file():
        others = "".join(f", nor in {place}" for place in places[1:] if place != base)
        raise UserError(
            f"{path}: no such file{others}. It is root {root} and file {file} of the task; correct one of them."
        )
    return reader(path, base, options)


def box(width: float, height: float, depth: float, options: AssetOptions | None = None) -> AssetModel:
    """A box, `width` along x, `height` along y, `depth` along z (m)."""
    lengths = {"width": width, "height": height, "depth": depth}
    return _primitive("box", mujoco.mjtGeom.mjGEOM_BOX, lengths, [width / 2, height / 2, depth / 2], options)


def sphere(radius: float, options: AssetOptions | None = None) -> AssetModel:
    """A sphere of `radius` (m)."""
    return _primitive("sphere", mujoco.mjtGeom.mjGEOM_SPHERE, {"radius": radius}, [radius, 0, 0], options)


def capsule(radius: float, length: float, options: AssetOptions | None = None) -> AssetModel:
    """A capsule along x: a cylinder of `length` (m) with half spheres of `radius` (m) at its ends."""
    lengths = {"radius": radius, "length": length}
    return _primitive("capsule", mujoco.mjtGeom.mjGEOM_CAPSULE, lengths, [radius, length / 2, 0], options)


def _primitive(
    name: str, kind: mujoco.mjtGeom, lengths: dict[str, float], size: list[float], options: AssetOptions | None
) -> AssetModel:
    for what, length in lengths.items():
        if not 0 < length < np.inf:
            raise UserError(f"{name}: {what}={length}: a length in metres, larger than 0, is expected.")
    options = options or AssetOptions()
    if not 0 < options.density < np.inf:
        raise UserError(f"{name}: density={options.density}: a density in kg/m^3, larger than 0, is expected.")
    spec = new_spec()
    body = spec.worldbody.add_body(name=name, gravcomp=1.0 if options.disable_gravity else 0.0)
    quat = ALONG_X if name == "capsule" else (1.0, 0.0, 0.0, 0.0)
    body.add_geom(name=name, type=kind, size=size, quat=quat, density=options.density)
    model = spec.compile()
    write(body, physical(from_moments(model.body_mass[1], np.zeros(3), model.body_inertia[1], model.body_iquat[1])))
    return finish(spec, spec.compile(), options, None, {}, {}, [])

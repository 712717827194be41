"""The files of a robot's model, so that it needs no other folder: one MJCF, and its meshes and pictures beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import mujoco

from livegym.sim.assets import elements_with_files
from livegym.sim.model import compile_spec
from livegym.utils.errors import UserError

FOLDER = "meshes"


def require_files(spec: mujoco.MjSpec, source: Path) -> None:
    """Raises UserError that names the element and the path of a mesh, texture or other file that is missing."""
    for element, attribute, directory in elements_with_files(spec):
        value = getattr(element, attribute)
        for name in [value] if isinstance(value, str) else value:
            if name:
                _existing(name, directory, element, source)


def write_model(spec: mujoco.MjSpec, source: Path, target: Path) -> None:
    """Write a model as `target`, and copy its files into the folder `meshes` beside it.

    Raises UserError that names the element whose file is missing, and if the written model has other sizes than the
    read one.
    """
    before = compile_spec(spec, source)
    taken: dict[str, Path] = {}
    for element, attribute, directory in elements_with_files(spec):
        value = getattr(element, attribute)
        names = [value] if isinstance(value, str) else list(value)
        moved = [_copied(name, directory, element, source, target.parent, taken) for name in names]
        setattr(element, attribute, moved[0] if isinstance(value, str) else moved)
    spec.meshdir = ""
    spec.texturedir = ""
    spec.modelfiledir = str(target.parent.resolve())
    compile_spec(spec, source)
    target.write_text(spec.to_xml())
    after = compile_spec(mujoco.MjSpec.from_file(str(target)), target)
    for size in ("nq", "nv", "nu", "nbody", "ngeom", "nmesh", "nkey", "nsensor"):
        if getattr(before, size) != getattr(after, size):
            raise UserError(
                f"{source}: written as {target.name}, it has another {size} ({getattr(after, size)} for "
                f"{getattr(before, size)}). This is a fault of livegym: please report it with the file."
            )


def _copied(name: str, directory: str, element: object, source: Path, folder: Path, taken: dict[str, Path]) -> str:
    """Copy one file; returns its path from the model's folder."""
    if not name:
        return name
    original = _existing(name, directory, element, source)
    place = name_for(original, taken)
    (folder / FOLDER).mkdir(exist_ok=True)
    shutil.copyfile(original, folder / FOLDER / place)
    return f"{FOLDER}/{place}"


def _existing(name: str, directory: str, element: object, source: Path) -> Path:
    original = Path(directory) / name
    if not original.is_file():
        kind = type(element).__name__.removeprefix("Mjs").lower()
        raise UserError(
            f"{source}: {kind} {getattr(element, 'name', '') or name}: there is no file {original}. Put it there, or "
            "correct its path."
        )
    return original


def name_for(original: Path, taken: dict[str, Path]) -> str:
    """A file name that no other file has; equal files share one."""
    number, place = 1, original.name
    while taken.setdefault(place, original.resolve()) != original.resolve():
        number += 1
        place = f"{original.stem}_{number}{original.suffix}"
    return place

"""One project: a folder with livegym's layout, the package that it is imported as, and its pyproject.toml.

    project = project_in("my_robot", "projectDir=my_robot")
    project.yaml_files("task")                 # {"Slider": .../my_robot/cfg/task/Slider.yaml}
    project.modules("tasks")                   # {"slider": "my_robot.tasks.slider"}

A folder that is not installed is imported as a package, too: `my_robot.tasks.slider` means the same whether the project
is installed or not.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from livegym.projects.names import fault_of_package
from livegym.projects.reading import bytes_of, pyproject_of, table, text_in
from livegym.utils.errors import UserError, not_one_of

KINDS = ("tasks", "algorithms", "gates", "simulators")
"""The kinds of parts that a project can have, which name its folders and its entry points `livegym.<kind>`."""
HASHED = ("cfg", *KINDS)
TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""The form of an entry point's value: module:attribute."""
KEYS = ("name", "folder")  # of the table [tool.livegym]


@dataclass(frozen=True, eq=False)
class Project:
    """A folder that holds `cfg/` and `tasks/`, and its name."""

    name: str  # also the package that it is imported as
    folder: Path
    source: str  # how it was found, for messages
    near: bool = False  # in projectDir or the current directory, and perhaps not installed
    version: str = ""
    folders: Mapping[str, str] = field(default_factory=lambda: {kind: kind for kind in KINDS})
    entry_points: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # kind -> name -> "module:attribute"

    @property
    def cfg(self) -> Path:
        """The folder with its yaml groups; it need not exist."""
        return self.folder / "cfg"

    def yaml_files(self, group: str) -> dict[str, Path]:
        """name -> file of one group of its configuration."""
        return {path.stem: path for path in sorted((self.cfg / group).glob("*.yaml"))}

    def modules(self, kind: str) -> dict[str, str]:
        """Stem -> importable name of the modules and packages in one of its folders, without importing any."""
        folder = self.folder / self.folders[kind]
        package = ".".join([self.name, *Path(self.folders[kind]).parts])
        stems = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
        stems += [path.parent.name for path in folder.glob("*/__init__.py")]
        return {stem: f"{package}.{stem}" for stem in sorted(stems)}

    def digest(self) -> str:
        """SHA-256 over its files in cfg/ and its folders of parts: names and contents.

        Raises UserError if one cannot be read.
        """
        total = hashlib.sha256()
        for path in self._hashed():
            content = hashlib.sha256(bytes_of(path)).hexdigest()
            total.update(f"{path.relative_to(self.folder).as_posix()} {content}\n".encode())
        return total.hexdigest()

    def _hashed(self) -> Iterator[Path]:
        for part in HASHED:
            for path in sorted((self.folder / part).rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    yield path


def project_in(folder: str, source: str) -> Project:
    """The project in a folder, by its pyproject.toml if it has one. Nothing is imported.

    Raises UserError if the folder or its pyproject.toml cannot be used.
    """
    full = os.path.realpath(os.path.expanduser(folder))
    if not os.path.isdir(full):
        fault = "that is a file" if os.path.exists(full) else "there is no such folder"
        raise UserError(f"{source}: {fault}. Allowed: a folder that holds cfg/ and tasks/. Name one, or leave it out.")
    file = Path(full) / "pyproject.toml"
    content = pyproject_of(file.parent)
    ours = table(file, content, "tool", "livegym")
    for key in ours:
        if key not in KEYS:
            raise not_one_of(f"{file}: key of [tool.livegym]", key, KEYS)
    described = table(file, content, "project")
    holds = os.path.realpath(os.path.join(full, text_in(file, ours, "folder")))
    if not os.path.isdir(os.path.join(holds, "cfg")):
        raise UserError(
            f"{source}: there is no {os.path.join(holds, 'cfg')}. Allowed: a folder that holds cfg/ and tasks/ (its "
            "pyproject.toml may name one below it: [tool.livegym] folder). To create one: livegym new <name>. A "
            "checkout of Isaac Gym tasks has a package with cfg/task and tasks, or with envs/__init__.py: "
            "docs/isaacgym.md"
        )
    name = text_in(file, ours, "name") or text_in(file, described, "name") or file.parent.name
    return Project(
        name=package_name(name, source),
        folder=Path(holds),
        source=source,
        near=True,
        version=text_in(file, described, "version"),
        entry_points={kind: _entry_points(file, content, kind) for kind in KINDS if kind != "tasks"},
    )


def _entry_points(file: Path, content: Mapping[str, Any], kind: str) -> dict[str, str]:
    """name -> "module:attribute" of a project's entry points. Raises UserError for a value of another form."""
    points = table(file, content, "project", "entry-points", f"livegym.{kind}")
    for name, target in points.items():
        if not isinstance(target, str) or not TARGET.fullmatch(target):
            raise UserError(
                f'{file}: {name} = {target!r} in [project.entry-points."livegym.{kind}"]. Allowed: the module and the '
                f'function that makes it. Write {name} = "<package>.{kind}.{name}:make", or remove it.'
            )
    return dict(points)


def package_name(name: str, source: str) -> str:
    """The package that a project is imported as: `my-robot` -> my_robot.

    Raises UserError if no package can have this name.
    """
    package = re.sub(r"[-.\s]+", "_", name)
    fault = fault_of_package(package)
    if fault:
        raise wrong_name(source, package, fault)
    return package


def wrong_name(source: str, package: str, fault: str) -> UserError:
    """The error for a project whose package cannot have this name."""
    return UserError(
        f"{source}: {package!r} cannot be the name of a package: it {fault}. Allowed: letters, digits and _, and a "
        'name that is not taken. Set it in pyproject.toml: [tool.livegym] name = "my_robot"'
    )


def make_importable(project: Project) -> None:
    """Lets `import <name>.tasks.x` find the project's folder, installed or not; its code is not run yet.

    The folder also comes first on `sys.path`, as it would for a script in it. Raises UserError if another package has
    the project's name.
    """
    package, folder = project.name, str(project.folder)
    imported = sys.modules.get(package)
    if imported is not None:
        if folder in [str(Path(path).resolve()) for path in getattr(imported, "__path__", [])]:
            return
        raise UserError(
            f"{project.source}: its name {package} is taken by a module that is already imported ({imported}). "
            'Allowed: a name that is not taken. Set it in pyproject.toml: [tool.livegym] name = "my_robot"'
        )
    initial = project.folder / "__init__.py"
    if initial.is_file():
        spec = importlib.util.spec_from_file_location(package, initial, submodule_search_locations=[folder])
        assert spec is not None  # it is None only for a suffix that Python does not load
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[package] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[package]  # otherwise the next import would find a module that is initialised in part
            raise
    else:
        spec = ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [folder]
        sys.modules[package] = importlib.util.module_from_spec(spec)
    if folder not in sys.path:
        sys.path.insert(0, folder)

"""One project: a folder with livegym's shape, the package that it is imported as, and what its pyproject.toml says.

    project = project_in(Path("my_robot"), "projectDir=my_robot")
    project.yaml_files("task")                 # {"Slider": .../my_robot/cfg/task/Slider.yaml}
    project.modules("tasks")                   # {"slider": "my_robot.tasks.slider"}

A folder that is not installed is imported as a package all the same: `my_robot.tasks.slider` means the same whether
the project is installed or not.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from livegym.utils.errors import UserError, not_one_of

KINDS = ("tasks", "algorithms", "gates", "simulators")
"""What a project can bring: the names of its folders, and of the entry points `livegym.<kind>`."""
HASHED = ("cfg", *KINDS)
TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
"""What an entry point names: module:attribute."""
KEYS = ("name", "folder")  # of the table [tool.livegym]


@dataclass(frozen=True, eq=False)
class Project:
    """A folder that holds `cfg/` and `tasks/`, and what it is called."""

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
        """SHA-256 over its files in cfg/ and its folders of parts: names and contents."""
        total = hashlib.sha256()
        for path in self._hashed():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(self.folder).as_posix()} {content}\n".encode())
        return total.hexdigest()

    def _hashed(self) -> Iterator[Path]:
        for part in HASHED:
            for path in sorted((self.folder / part).rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    yield path


def project_in(folder: Path, source: str) -> Project:
    """The project in a folder, by its pyproject.toml where it has one. Nothing is imported.

    Raises UserError if the folder or its pyproject.toml cannot be used.
    """
    if not folder.is_dir():
        raise UserError(f"{source}: there is no such folder. Allowed: a folder that holds cfg/ and tasks/.")
    folder = folder.resolve()
    content = read_pyproject(folder)
    ours = _table(content, ("tool", "livegym"), folder)
    for key in ours:
        if key not in KEYS:
            raise not_one_of(f"{folder / 'pyproject.toml'}: key of [tool.livegym]", key, KEYS)
    described = _table(content, ("project",), folder)
    holds = (folder / str(ours.get("folder", "."))).resolve()
    if not (holds / "cfg").is_dir():
        raise UserError(
            f"{source}: there is no {holds / 'cfg'}. Allowed: a folder that holds cfg/ and tasks/ (its pyproject.toml "
            "may name one below it: [tool.livegym] folder). To begin one: livegym new <name>"
        )
    name = str(ours.get("name") or described.get("name") or folder.name)
    points = _table(content, ("project", "entry-points"), folder)
    return Project(
        name=package_name(name, source),
        folder=holds,
        source=source,
        near=True,
        version=str(described.get("version", "")),
        entry_points={kind: dict(points.get(f"livegym.{kind}", {})) for kind in KINDS if kind != "tasks"},
    )


def read_pyproject(folder: Path) -> dict[str, Any]:
    """A folder's pyproject.toml; {} if it has none. Raises UserError if it cannot be read."""
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(file.read_text()) if file.is_file() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({error}). Mend it, or take it away.") from error


def _table(content: Mapping[str, Any], path: tuple[str, ...], folder: Path) -> dict[str, Any]:
    node: Any = content
    for key in path:
        node = node.get(key, {})
        if not isinstance(node, dict):
            raise UserError(f"{folder / 'pyproject.toml'}: {'.'.join(path)} must be a table, and is {node!r}.")
    return node


def package_name(name: str, source: str) -> str:
    """The package that a project is imported as: `my-robot` -> my_robot.

    Raises UserError if that is no name of a package, or is livegym's.
    """
    package = re.sub(r"[-.\s]+", "_", name)
    if not package.isidentifier() or package == "livegym":
        raise UserError(
            f"{source}: {package!r} cannot be the name of a package. Allowed: letters, digits and _, and not livegym. "
            'Give it one in pyproject.toml: [tool.livegym] name = "my_robot"'
        )
    return package


def make_importable(project: Project) -> None:
    """Lets `import <name>.tasks.x` find the project's folder, installed or not; its code is not run yet.

    The folder also comes first on `sys.path`, as it would for a script in it. Raises UserError if another package has
    the project's name.
    """
    package, folder = project.name, str(project.folder)
    there = sys.modules.get(package)
    if there is not None:
        if folder in [str(Path(place).resolve()) for place in getattr(there, "__path__", [])]:
            return
        raise UserError(
            f"{project.source}: its name {package} is that of a module that is in use ({there}). "
            'Allowed: a name of its own, in pyproject.toml: [tool.livegym] name = "my_robot"'
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
            del sys.modules[package]  # or the next import would find half of it
            raise
    else:
        spec = ModuleSpec(package, None, is_package=True)
        spec.submodule_search_locations = [folder]
        sys.modules[package] = importlib.util.module_from_spec(spec)
    if folder not in sys.path:
        sys.path.insert(0, folder)

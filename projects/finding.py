"""Find the projects of this process, without running any of their code.

found = find(project_dir=None)
found.projects          # livegym first, then the one in projectDir or the current directory, then installed ones
found.broken            # why an installed one cannot be used; the others still can
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import livegym
from livegym.projects.checkout import checkout_in
from livegym.projects.names import is_library
from livegym.projects.project import KINDS, Project, make_importable, package_name, project_in, wrong_name
from livegym.projects.reading import pyproject_of, table
from livegym.utils.errors import UserError

LIVEGYM = Project(
    name="livegym",
    folder=livegym.ROOT,
    source="livegym",
    version=livegym.__version__,
    folders={
        "tasks": "tasks",
        "algorithms": "rl/algorithms",
        "gates": "online/gates",
        "simulators": "sim/engines",
    },
)


@dataclass(frozen=True)
class EntryPart:
    """A part that is found by an entry point, such as one in the group `livegym.gates`, not by a file in a folder."""

    kind: str
    name: str
    target: str  # "module:attribute"
    source: str
    project: Project | None  # a folder that must be made importable first; None if it is installed


@dataclass(frozen=True)
class FoundProjects:
    """The projects of this process, and the parts that entry points name."""

    projects: tuple[Project, ...]
    entry_parts: tuple[EntryPart, ...]
    broken: Mapping[str, str]  # source -> reason


def find(project_dir: str | None) -> FoundProjects:
    """Search all three places. Raises UserError if `project_dir`, or the current directory's project, is unusable."""
    near = _near(project_dir)
    projects = [LIVEGYM, *([near] if near is not None else [])]
    broken: dict[str, str] = {}
    for point in _points("tasks"):
        try:
            project = _installed(point)
        except Exception as error:  # noqa: BLE001 - an error in one installed package must not disable the other projects
            broken[_source(point)] = str(error) or type(error).__name__
            continue
        if near is None or project.name != near.name:  # a project that is also installed is taken from the named folder
            projects.append(project)
    return FoundProjects(tuple(projects), tuple(_entry_parts(near)), broken)


def _near(project_dir: str | None) -> Project | None:
    """The project in `projectDir`, otherwise the current directory's."""
    here = str(Path.cwd())
    if project_dir is not None:
        source = f"projectDir={project_dir}"
        near = checkout_in(project_dir, source) or project_in(project_dir, source)
    elif is_project(Path(here)):
        near = project_in(here, f"the current directory {here}")
    else:
        return None
    if is_library(near.name):
        raise wrong_name(near.source, near.name, "is the name of an installed library")
    return near


def is_project(folder: Path) -> bool:
    """Whether its pyproject.toml has a table [tool.livegym]. Raises UserError if that cannot be read."""
    return "livegym" in table(folder / "pyproject.toml", pyproject_of(folder), "tool")


def project_above(path: Path | None = None) -> Path | None:
    """The nearest folder above `path` (None: the current folder) that is a project.

    It is for a hint: a project's code is loaded only in its own folder, or if it is named.
    """
    for folder in Path(os.path.abspath(path or Path.cwd())).parents:
        with contextlib.suppress(UserError):
            if is_project(folder):
                return folder
    return None


def _installed(point: EntryPoint) -> Project:
    package = package_name(point.value, _source(point))
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"there is no package {package}. Install it again.")
    folders = [Path(path) for path in spec.submodule_search_locations]
    folder = next((folder for folder in folders if (folder / "cfg").is_dir()), None)
    if folder is None:
        raise UserError(f"there is no cfg/ in {', '.join(map(str, folders))}. Its wheel must contain its yaml files.")
    version = point.dist.version if point.dist else ""
    return Project(package, folder.resolve(), _source(point), version=version)


def _points(kind: str) -> Iterator[EntryPoint]:
    """Installed entry points of a kind, each once: one distribution may be on the path twice."""
    yielded = set()
    for point in entry_points(group=f"livegym.{kind}"):
        if (point.name, point.value) not in yielded:
            yielded.add((point.name, point.value))
            yield point


def _source(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else f"entry point {point.name}"


def _entry_parts(near: Project | None) -> Iterator[EntryPart]:
    for kind in KINDS:
        if kind == "tasks":  # a project, not a part
            continue
        given = near.entry_points.get(kind, {}) if near is not None else {}
        for name, target in given.items():
            yield EntryPart(kind, name, target, near.source if near else "", near)
        for point in _points(kind):
            if given.get(point.name) != point.value:  # the same project, installed as well
                yield EntryPart(kind, point.name, point.value, _source(point), None)


def importable(project: Project | None) -> None:
    """Lets a project's modules be imported; does nothing for livegym and installed projects."""
    if project is not None and project.near:
        make_importable(project)

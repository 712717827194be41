"""Names of tasks, algorithms, gates and engines, and the code of each name, which is imported only when it is used.

    use(project_dir=None)             # find the projects of this process; called once, by the command line
    names("tasks")                    # ["Ant", "BaseTask", ...]
    load("tasks", "Ant")              # the class

A task `BlindGrasping` is `cfg/task/BlindGrasping.yaml` and the class of that name in `tasks/blind_grasping.py`. An
algorithm, a gate or an engine `x` is a module `x.py` in the project's folder with a function or class `make`, or an
entry point. A name that two projects have is refused when it is used.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import shlex
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from livegym.projects.checkout import Checkout
from livegym.projects.finding import LIVEGYM, FoundProjects, find, importable, project_above
from livegym.projects.foreign import foreign_code
from livegym.projects.project import TARGET, Project
from livegym.projects.reading import mapping_of, text_of
from livegym.utils.errors import UserError, did_you_mean, not_one_of

KEY = {"tasks": "task", "algorithms": "train.algorithm", "gates": "gate", "simulators": "sim.engine"}
"""The key that chooses a part, by its kind."""
MAKE = {
    "algorithms": "class make(Algorithm)",
    "gates": "def make(config, size)",
    "simulators": "def make(sim, physics, model, num_envs, decimation, parts)",
}
"""The name that the module of an algorithm, a gate or an engine must define."""

Made = TypeVar("Made")


@dataclass(frozen=True)
class Part:
    """A task, algorithm, gate or engine that can be loaded."""

    kind: str
    name: str
    target: str  # "module:attribute"
    source: str  # the project or distribution that it comes from, for messages
    project: Project | None
    where: Path | None = None  # the file that names it, for messages

    def load(self) -> Any:
        """Import the part. Raises UserError, with the traceback, for any exception in its code."""
        if not self.target:
            assert self.project is not None  # only a task, which a project's yaml names, can be without a target
            raise UserError(
                f"{self.typed}: {self.where} exists, but {self.project.folder / 'tasks'} does not have "
                f"exactly one module for it. Write the class {self.name} in {snake(self.name)}.py there, or remove the "
                "yaml."
            )
        if not TARGET.fullmatch(self.target):
            raise UserError(
                f"{self.typed}: the entry point of {self.source} is {self.target!r}. Allowed: module:attribute. Fix "
                "it in that project's pyproject.toml, and install the project again."
            )
        module_name, _, attribute = self.target.partition(":")
        with self.running("cannot be loaded"):
            importable(self.project)
            found: Any = import_module(module_name)
            for name in attribute.split("."):
                if not hasattr(found, name):
                    raise self._lacks(found, name)
                found = getattr(found, name)
        return found

    def make(self, result: type[Made], *arguments: Any) -> Made:
        """Call the `make` of an algorithm, a gate or an engine, and return its result.

        Raises UserError for any exception in its code, for a `make` that does not accept `arguments`, and for one that
        does not return a `result`.
        """
        function = load(self.kind, self.name)
        how = f"Allowed: {MAKE[self.kind]}, which makes a {result.__module__}.{result.__qualname__}"
        if not callable(function):
            raise self.wrong(f"is {function!r}. {how}")
        if self.project is LIVEGYM:  # an exception here is a bug of livegym, not an error of the user
            made: Made = function(*arguments)
            return made
        with self.running("cannot be called"):
            signature = inspect.signature(function)
            try:
                signature.bind(*arguments)
            except TypeError as error:
                raise self.wrong(f"takes {signature} ({error}). {how}") from error
        with self.running("failed"):
            made = function(*arguments)
        if not isinstance(made, result):
            raise self.wrong(f"returned {made!r}. {how}")
        return made

    @property
    def typed(self) -> str:
        """The argument that chooses the part, such as `gate=cost`."""
        return f"{KEY[self.kind]}={self.name}"

    def running(self, failed: str) -> AbstractContextManager[None]:
        """A context in which the part's code runs: an exception becomes a UserError that says that it `failed`."""
        folder = self.project.folder if self.project is not None else None
        advice = f"Fix it there, or leave {self.typed} out."
        return foreign_code(f"{self.typed}: {self.target} of {self.source}", failed, folder, advice)

    def wrong(self, what: str) -> UserError:
        """The error for invalid code; `what` completes the sentence and says what is allowed."""
        return UserError(f"{self.typed}: {self.target} of {self.source} {what}. Fix it there.")

    def _lacks(self, found: Any, name: str) -> UserError:
        file = getattr(found, "__file__", None) or found
        near = did_you_mean(name, [public for public in vars(found) if not public.startswith("_")])
        written = f"class {name}(Task): ..." if self.kind == "tasks" else MAKE[self.kind]
        return UserError(
            f"{self.typed}: {file} has no {name}.{near} Allowed: {self.target}, as {self.source} names it. "
            f"Write `{written}` there, or leave {self.typed} out."
        )


@dataclass(frozen=True)
class ForeignPart(Part):
    """A task of a checkout that was written for Isaac Gym; `livegym.compat.foreign` makes its class."""

    def load(self) -> Any:
        """The class of the task. Raises UserError for a task that cannot be loaded, or that is refused."""
        assert isinstance(self.project, Checkout)
        self.project.refuse_impossible(self.name)
        with self.running("cannot be loaded"):
            return import_module("livegym.compat.foreign.task").task_class(self)

    def about(self) -> str:
        """A sentence on the task, without reading its code."""
        assert isinstance(self.project, Checkout)
        if self.project.is_impossible(self.name):
            return "Refused, because its physics would be meaningless here: docs/isaacgym.md"
        upstream = self.project.upstream(self.name)
        return f"Foreign code, type task={self.project.name}:{upstream}. From {self.source}."

    def running(self, failed: str) -> AbstractContextManager[None]:
        """As `Part.running`, for code that is not the user's own."""
        assert isinstance(self.project, Checkout)
        what = f"task={self.project.name}:{self.project.upstream(self.name)} of {self.source}"
        return foreign_code(what, failed, None, "What such tasks need, and what is not there: docs/isaacgym.md")


class _Projects:
    """The projects of this process, which are found when they are first needed."""

    def __init__(self) -> None:
        self.project_dir: str | None = None
        self._found: FoundProjects | None = None

    def use(self, project_dir: str | None) -> FoundProjects:
        """Find the projects again. Raises UserError if `project_dir` cannot be used; then nothing changes."""
        self._found = find(project_dir)
        self.project_dir = project_dir
        _parts.cache_clear()
        load.cache_clear()
        return self._found

    @property
    def found(self) -> FoundProjects:
        """The projects, and the parts that entry points name."""
        return self._found if self._found is not None else self.use(self.project_dir)


_here = _Projects()


def use(project_dir: str | None) -> None:
    """Use the project in this folder; if None, the current directory's. Raises UserError if it cannot be used."""
    _here.use(project_dir)


def project_dir() -> str | None:
    """The folder that was passed to `use`."""
    return _here.project_dir


def projects() -> tuple[Project, ...]:
    """All projects, livegym first."""
    return _here.found.projects


def project_in_use() -> Project:
    """The project in `projectDir` or the current directory; without one, livegym."""
    near = [project for project in projects() if project.near]
    return near[0] if near else projects()[0]


def project_of(task: str) -> Project | None:
    """The project of a task; None if no project has the task, or several have it."""
    found = _parts("tasks").get(task, ())
    return found[0].project if len(found) == 1 else None


def broken() -> dict[str, str]:
    """The installed projects that cannot be used: source -> reason."""
    return dict(_here.found.broken)


def fold(name: str) -> str:
    """A name without case and underscores: BlindGrasping and blind_grasping are the same."""
    return name.replace("_", "").casefold()


def snake(name: str) -> str:
    """How a task's module is usually called: BlindGrasping -> blind_grasping."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


@functools.cache
def digest(project: Project) -> str:
    """`Project.digest`, computed once in this process, so that it describes the code that the process loaded."""
    return project.digest()


def names(kind: str) -> list[str]:
    """All names of a kind, sorted; nothing is imported."""
    return sorted(_parts(kind))


def part(kind: str, name: str) -> Part:
    """The part with this name. Raises UserError for an unknown name, and for one that two projects have."""
    found = _parts(kind).get(name, ())
    if len(found) == 1:
        return found[0]
    if found:
        raise _twice(f"{KEY[kind]}={name}", [_location(one) for one in found])
    if kind == "tasks":
        raise _no_such_task(name)
    raise not_one_of(KEY[kind], name, names(kind))


@functools.cache
def load(kind: str, name: str) -> Any:
    """The class or function behind a name. Raises UserError as `part` does, and for code that cannot be loaded."""
    return part(kind, name).load()


def make(kind: str, name: str, result: type[Made], *arguments: Any) -> Made:
    """Make the algorithm, gate or engine of this name. Raises UserError as `load` and `Part.make` do."""
    return part(kind, name).make(result, *arguments)


def yaml_files(group: str) -> dict[str, list[Path]]:
    """name -> files of one group of the configuration, livegym's first; more than one file is an error when used."""
    files: dict[str, list[Path]] = {}
    for project in projects():
        for name, path in project.yaml_files(group).items():
            files.setdefault(name, []).append(path)
    return files


def read_all(groups: Iterable[str]) -> None:
    """Raises UserError for the first yaml file of these groups that cannot be read."""
    for group in groups:
        for file in itertools.chain(*yaml_files(group).values()):
            mapping_of(file)


def refuse_twice(group: str, name: str) -> None:
    """Raises UserError if two projects have a yaml file of this name."""
    files = yaml_files(group).get(name, [])
    if len(files) > 1:
        raise _twice(f"{group}={name}", [str(path) for path in files])


def typed_names(project: Checkout) -> list[str]:
    """The tasks of a checkout as they are typed."""
    return [f"{project.name}:{name}" for name in project.tasks.values()]


def _twice(typed: str, locations: Iterable[str]) -> UserError:
    return UserError(
        f"{typed}: defined twice, in {' and in '.join(locations)}. Allowed: one definition. Rename one, or remove one."
    )


def _location(one: Part) -> str:
    return f"{one.where} ({one.source})" if one.where is not None else f"{one.target} ({one.source})"


@functools.cache
def _parts(kind: str) -> dict[str, tuple[Part, ...]]:
    found: dict[str, list[Part]] = {}
    for project in projects():
        made = _tasks_of(project) if kind == "tasks" else _modules_of(project, kind)
        for one in made:
            found.setdefault(one.name, []).append(one)
    for point in _here.found.entry_parts:
        if point.kind == kind:
            one = Part(kind, point.name, point.target, point.source, point.project)
            found.setdefault(one.name, []).append(one)
    return {name: tuple(parts) for name, parts in found.items()}


def _tasks_of(project: Project) -> list[Part]:
    if isinstance(project, Checkout):
        return [ForeignPart("tasks", name, "", project.source, project) for name in project.tasks]
    modules = project.modules("tasks")
    made = []
    for name, path in project.yaml_files("task").items():
        fits = [module for stem, module in modules.items() if fold(stem) == fold(name)]
        target = f"{fits[0]}:{name}" if len(fits) == 1 else ""
        made.append(Part("tasks", name, target, project.source, project, path))
    return made


def _modules_of(project: Project, kind: str) -> list[Part]:
    modules = project.modules(kind)
    return [Part(kind, stem, f"{module}:make", project.source, project) for stem, module in modules.items()]


def _no_such_task(name: str) -> UserError:
    """The error for an unknown task; if its code exists, it says that the yaml is missing."""
    for project in projects():
        if isinstance(project, Checkout) and name.startswith(f"{project.name}-"):
            return not_one_of("task", f"{project.name}:{name.removeprefix(f'{project.name}-')}", typed_names(project))
        for stem, module in project.modules("tasks").items():
            file = project.folder / "tasks" / f"{stem}.py"
            if fold(stem) == fold(name) and file.is_file() and f"class {name}(" in text_of(file):
                return UserError(
                    f"task={name}: there is {module}, but no {project.cfg / 'task' / name}.yaml. "
                    "A task needs both: add the yaml (docs/new-task.md)."
                )
    source, _, upstream = name.partition("-")
    here = project_in_use()
    if upstream and isinstance(here, Checkout):
        allowed = typed_names(here)
        return UserError(
            f"task={source}:{upstream}: there is no {source} here. The tasks of {here.root} have the source "
            f"{here.name}{here.why_not_the_folder}. Allowed: {', '.join(allowed)}."
            f"{did_you_mean(f'{here.name}:{upstream}', allowed)}"
        )
    if upstream:
        return UserError(
            f"task={source}:{upstream}: there is no {source} here. Allowed: a task of the folder that projectDir "
            f"names. Name the checkout of {source}: projectDir=<folder> (docs/isaacgym.md)"
        )
    unknown = not_one_of("task", name, names("tasks"))
    above = project_above() if project_dir() is None else None
    if above is None:
        return unknown
    return UserError(f"{unknown} {above} is a project: change into it, or add projectDir={shlex.quote(str(above))}")

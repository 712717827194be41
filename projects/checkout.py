"""A checkout of task code that was written for Isaac Gym: the names of its tasks and their files, without imports.

    checkout = checkout_in("IsaacGymEnvs", "projectDir=IsaacGymEnvs")     # None if it is not such a folder
    checkout.tasks                       # {"isaacgymenvs-Ant": "Ant", ...}
    checkout.code("Ant")                 # the module and the class that define it

Three layouts are known. In that of IsaacGymEnvs, a package has `cfg/task/X.yaml`, `cfg/train/XPPO.yaml` and `tasks/`.
In that of legged_gym, `envs/__init__.py` registers classes with their configurations. In that of dexrobot_isaac, Hydra
composes `cfg/config.yaml` with `cfg/task/X.yaml`, and `make_env` in `factory.py` makes the environment. Programs of the
first layout start in the package's folder, so its modules may import one another without the package's name.
`task=isaacgymenvs:Ant` is typed; the task's name everywhere else is `isaacgymenvs-Ant`, so it is never mistaken for
another task Ant. The source is the package's name; in the third layout, that of the checkout's folder if it can be one.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from livegym.projects import executed
from livegym.projects.names import fault_of_package
from livegym.projects.project import Project
from livegym.projects.reading import bytes_of, mapping_of, text_of
from livegym.utils.errors import UserError, not_one_of

YAML = "yaml"  # the layout of IsaacGymEnvs
CLASSES = "classes"  # the layout of legged_gym
FACTORY = "factory"  # the layout of dexrobot_isaac
TYPED = re.compile(r"(?<![\w:/.])([A-Za-z]\w*):([A-Za-z]\w*)(?![\w:/.])")
"""A task as it is typed: source:Name."""
NEEDS = (
    "a package that has cfg/task/*.yaml and tasks/ (as IsaacGymEnvs), envs/__init__.py (as legged_gym), or "
    "cfg/config.yaml and factory.py (as dexrobot_isaac)"
)
IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+([A-Za-z_]\w*)", re.M)
"""The first part of an imported name; relative imports begin with a dot."""
MAKER = "make_env"
"""The function in `factory.py` that makes an environment."""
NO_PHYSICS = re.compile(r"Factory|IndustReal")
"""Tasks whose parts fit into each other with less than a millimetre of play, by contact of signed distance fields."""


def task_name(source: str, name: str) -> str:
    """The name of a foreign task in livegym: isaacgymenvs, Ant -> isaacgymenvs-Ant."""
    return f"{source}-{name}"


def spelt_out(argument: str) -> str:
    """`task=isaacgymenvs:Ant` -> `task=isaacgymenvs-Ant`; any other argument is returned unchanged."""
    key, equals, value = argument.partition("=")
    return f"task={TYPED.sub(_named, value)}" if equals and key == "task" else argument


def _named(typed: re.Match[str]) -> str:
    return task_name(typed[1], typed[2])


@dataclass(frozen=True)
class Code:
    """Where a task's class is defined."""

    module: str  # importable name
    attribute: str
    file: Path
    by_function: bool = False
    """The attribute is a function that chooses the class."""


@dataclass(frozen=True)
class Origin:
    """The module, or the attribute of one, that an imported name stands for."""

    module: str  # importable name
    attribute: str = ""  # '': the module itself


@dataclass(frozen=True, eq=False, kw_only=True)
class Checkout(Project):
    """A package of foreign tasks; `folder` is the package's, `root` the one that must be on `sys.path`."""

    layout: str

    @property
    def package(self) -> str:
        """The package that its modules are in; `name` may be another."""
        return self.folder.name

    @property
    def root(self) -> Path:
        """The folder that holds the package."""
        return self.folder.parent

    @property
    def start(self) -> Path:
        """The folder in which upstream's program starts, so its relative paths mean files from there."""
        return self.folder if self.layout == YAML else self.root

    @cached_property
    def neighbours(self) -> dict[str, Path]:
        """The modules and folders of the package that its code imports without its name, by that name."""
        if self.layout != YAML:
            return {}
        texts = (_readable(file) for file in self.folder.rglob("*.py"))
        imported = {name for text in texts for name in IMPORTED.findall(text)} - sys.stdlib_module_names
        found = {}
        for name in sorted(imported - {"isaacgym"}):
            folder, file = self.folder / name, self.folder / f"{name}.py"
            if _has_modules(folder):  # not a folder of data, such as the one that wandb writes
                found[name] = folder
            elif file.is_file():
                found[name] = file
        return found

    @property
    def cfg(self) -> Path:
        """The folder with the upstream yaml; Hydra does not read it."""
        return self.folder / "cfg"

    def yaml_files(self, group: str) -> dict[str, Path]:
        """{}: the upstream yaml is no yaml of livegym."""
        return {}

    def modules(self, kind: str) -> dict[str, str]:
        """{}: its modules do not have livegym's names."""
        return {}

    @property
    def why_not_the_folder(self) -> str:
        """Why the package's name is the source of its tasks, if that of the checkout's folder should be; or ''."""
        fault = fault_of_package(self.root.name)
        if self.layout != FACTORY or not fault:
            return ""
        return f", because the folder's name, {self.root.name}, {fault}: rename the folder, or type that source"

    @cached_property
    def tasks(self) -> dict[str, str]:
        """Name in livegym -> upstream name."""
        found = self._registered if self.layout == CLASSES else self._yaml_names
        return {task_name(self.name, name): name for name in sorted(found)}

    def upstream(self, task: str) -> str:
        """The upstream name of a task. Raises UserError with the nearest name if the checkout does not have it."""
        if task not in self.tasks:
            name = task.removeprefix(f"{self.name}-")
            raise not_one_of(f"task of {self.folder}", name, [*self.tasks.values()])
        return self.tasks[task]

    def task_yaml(self, name: str) -> Path:
        """The yaml of a task, by its upstream name."""
        return self.cfg / "task" / f"{name}.yaml"

    def train_yaml(self, name: str) -> Path | None:
        """The learner's yaml of a task; None if there is none."""
        file = self.cfg / "train" / f"{name}PPO.yaml"
        return file if file.is_file() else None

    def is_impossible(self, task: str) -> bool:
        """Whether a task would run, but could not mean anything here."""
        return self.layout == YAML and NO_PHYSICS.match(self.tasks.get(task, "")) is not None

    def refuse_impossible(self, task: str) -> None:
        """Raises UserError for a task that would run, but could not mean anything here."""
        if self.is_impossible(task):
            possible = [name for name in self.tasks.values() if not NO_PHYSICS.match(name)]
            raise UserError(
                f"task={self.name}:{self.tasks[task]}: Factory and IndustReal tasks load and step with convex hulls, "
                "but their physics is meaningless: nuts, gears and pegs need contact of signed distance fields. "
                f"Allowed: {', '.join(possible)}"
            )

    def code(self, name: str) -> Code:
        """The class of a task, by its upstream name. Raises UserError if it is not found."""
        if self.layout == FACTORY:
            return Code(f"{self.package}.factory", MAKER, self.folder / "factory.py")
        return self._registered[name] if self.layout == CLASSES else self._class_of(self._class_name(name))

    def described(self, task: str) -> dict[str, str]:
        """The file of the task's class, and all others that this process has executed: name from `root` -> SHA-256."""
        name = self.code(self.upstream(task)).file.relative_to(self.root).as_posix()
        ran = executed.below(self.root)
        return ran if name in ran else {name: self.hash_of(name) or "", **ran}

    def hash_of(self, name: str) -> str | None:
        """The SHA-256 of a file, by its name from `root`: of what was executed, otherwise of what is there; or None."""
        ran = executed.below(self.root).get(name)
        file = self.root / name
        if ran is not None or not file.is_file():
            return ran
        return hashlib.sha256(bytes_of(file)).hexdigest()

    def digest(self) -> str:
        """SHA-256 over the package's Python and yaml files: names and contents."""
        total = hashlib.sha256()
        for file in sorted(path for path in self.folder.rglob("*") if path.suffix in (".py", ".yaml")):
            content = hashlib.sha256(bytes_of(file)).hexdigest()
            total.update(f"{file.relative_to(self.root).as_posix()} {content}\n".encode())
        return total.hexdigest()

    # the layout of IsaacGymEnvs

    @cached_property
    def _yaml_names(self) -> list[str]:
        files = sorted((self.cfg / "task").glob("*.yaml"))
        return [file.stem for file in files if self.layout == FACTORY or self._class_name(file.stem)]

    def _class_name(self, name: str) -> str:
        """The `name` in a task's yaml or in those that it extends; '' if there is none."""
        content = mapping_of(self.task_yaml(name))
        if "name" in content:
            return str(content["name"])
        above = (base for base in extended(content.get("defaults", [])) if self.task_yaml(base).is_file())
        return next((found for base in above if (found := self._class_name(base))), "")

    def _class_of(self, name: str) -> Code:
        """The class by the table of tasks/__init__.py, otherwise by a search for `class <name>`."""
        package = f"{self.package}.tasks"
        initial = self.folder / "tasks" / "__init__.py"
        tree = ast.parse(text_of(initial)) if initial.is_file() else ast.Module([], [])
        attribute = _table(tree).get(name, name)
        origin = imported(tree, package).get(attribute)
        if function_of(tree, attribute) is not None:
            return Code(package, attribute, initial, by_function=True)
        if origin is not None and (file := self._file(origin.module)) is not None:
            return Code(self._module(file), origin.attribute, file)
        for file in sorted((self.folder / "tasks").rglob("*.py")):
            if re.search(rf"^class {attribute}\b", text_of(file), re.M):
                return Code(self._module(file), attribute, file)
        raise UserError(
            f"task={self.name}:{name}: no module in {self.folder / 'tasks'} has a class {attribute}. Allowed: a class "
            "that tasks/__init__.py names, or one with the name that the yaml has."
        )

    def _file(self, module: str) -> Path | None:
        """The file of a module, by its name with the package, or without it as in a program that starts there."""
        files = (folder.joinpath(*module.split(".")).with_suffix(".py") for folder in (self.root, self.start))
        return next((file for file in files if file.is_file()), None)

    def _module(self, file: Path) -> str:
        """The importable name of a file. tasks/__init__.py is a module in that package, which is made without it."""
        is_package = file.name == "__init__.py" and file.parent != self.folder / "tasks"
        return ".".join((file.parent if is_package else file.with_suffix("")).relative_to(self.root).parts)

    # the layout of legged_gym

    @cached_property
    def _registered(self) -> dict[str, Code]:
        """Name of each registered task -> its class."""
        package = f"{self.package}.envs"
        initial = self.folder / "envs" / "__init__.py"
        tree = ast.parse(text_of(initial))
        modules = imported(tree, package)
        found = {}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if ast.unparse(call.func).endswith("task_registry.register") and len(call.args) >= 2:
                name, cls = call.args[:2]
                if isinstance(name, ast.Constant):
                    own = Origin(package, ast.unparse(cls))
                    origin = modules.get(own.attribute, own)
                    found[str(name.value)] = Code(origin.module, origin.attribute, self._file(origin.module) or initial)
        return found


def extended(defaults: Sequence[object]) -> list[str]:
    """The names of yaml files in the same folder that a Hydra defaults list extends."""
    return [name for name in defaults if isinstance(name, str) and name != "_self_" and not name.startswith("/")]


def function_of(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """The function of that name that a module defines; None if it defines none."""
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def _table(tree: ast.Module) -> dict[str, str]:
    """Text -> name, of all literal dictionaries {"Ant": Ant} of a module."""
    return {
        key.value: value.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
        for key, value in zip(node.value.keys, node.value.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Name)
    }


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those in a `try`: its body comes last, because it counts if it can be run."""
    for node in body:
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _statements(handler.body)
            yield from _statements([*node.body, *node.orelse, *node.finalbody])
        else:
            yield node


def imported(tree: ast.Module, package: str) -> dict[str, Origin]:
    """Imported name -> what it stands for, of the imports at the top of a package's __init__ and in a `try` there."""
    found: dict[str, Origin] = {}
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*parts, *([node.module] if node.module else [])])
            found.update({alias.asname or alias.name: Origin(module, alias.name) for alias in node.names})
        elif isinstance(node, ast.Import):
            whole = {alias.asname or alias.name.partition(".")[0]: alias for alias in node.names}
            found.update({name: Origin(alias.name if alias.asname else name) for name, alias in whole.items()})
    return found


def _has_modules(folder: Path) -> bool:
    """Whether a folder has Python files that can be imported, in it or in folders below."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return False
    names = [entry.name.removesuffix(".py") for entry in entries if entry.name.endswith(".py")]
    below = (Path(entry.path) for entry in entries if entry.name.isidentifier() and entry.is_dir())
    return any(name.isidentifier() for name in names) or any(map(_has_modules, below))


def checkout_in(folder: str, source: str) -> Checkout | None:
    """The foreign package in a folder, or the folder itself if it is one; None if it holds none. Nothing is imported.

    Raises UserError if it holds several.
    """
    full = Path(os.path.realpath(os.path.expanduser(folder)))
    found = list(_packages(full)) if os.path.isdir(full) else []
    if len(found) > 1:
        names = ", ".join(str(path) for path, _ in found)
        raise UserError(f"{source}: holds several packages of Isaac Gym tasks. Allowed: one of {names}")
    for path, layout in found:
        fault = fault_of_package(path.name)
        if fault:
            raise UserError(f"{source}: {path.name!r} cannot be imported: it {fault}. Rename that folder.")
        name = path.parent.name if layout == FACTORY and not fault_of_package(path.parent.name) else path.name
        return Checkout(name=name, folder=path, source=source, near=True, layout=layout)
    return None


def _packages(folder: Path) -> Iterator[tuple[Path, str]]:
    try:
        below = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return  # a folder that cannot be listed has no package; `project_in` says what it lacks
    for path in [folder, *map(Path, below)]:
        layout = _layout(path)
        if layout:
            yield path, layout


def _layout(folder: Path) -> str:
    """The layout of a package's folder; '' if it is none of those that are known."""
    if "task_registry.register" in _readable(folder / "envs" / "__init__.py"):
        return CLASSES
    if not os.path.isdir(folder / "tasks"):
        return ""
    isaac = (_is_isaac(file) for file in sorted((folder / "cfg" / "task").glob("*.yaml")))
    if not any(isaac):
        return ""
    composed = (folder / "cfg" / "config.yaml").is_file()
    return FACTORY if composed and f"def {MAKER}(" in _readable(folder / "factory.py") else YAML


def _is_isaac(file: Path) -> bool:
    """Whether a task's yaml has the sections of Isaac Gym's tasks; livegym's own has neither."""
    text = _readable(file)
    return all(re.search(rf"^{section}:", text, re.M) for section in ("env", "sim"))


def _readable(file: Path) -> str:
    """The text of a file; '' if there is none, or if it cannot be read."""
    with contextlib.suppress(UserError):
        return text_of(file)
    return ""

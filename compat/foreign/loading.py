"""Import foreign task code and make its environment; the only module that executes it.

    loaded = load_yaml(checkout, "Ant", {}, num_envs=64, seed=0, threads=0)
    loaded.env                           # the foreign object itself

Each module is named in the log before it is imported, with its SHA-256 (`announced.py`). Packages are made without
their `__init__`, because that of IsaacGymEnvs imports every task with all their libraries. The constructor runs in a
folder of its own, because some tasks write files to the current directory; `keep_files` moves them into the run.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import inspect
import os
import shutil
import symtable
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from livegym.compat.core.lines import is_expected
from livegym.compat.finders import install
from livegym.compat.foreign import composed, configs, settings
from livegym.compat.foreign.announced import announce, announce_below
from livegym.projects.checkout import Checkout, Code, Origin, function_of, imported
from livegym.utils.errors import UserError
from livegym.utils.seeding import seed_everything

ONE_SIM = "EXISTING_SIM"
"""The global of vec_task.py that holds the simulation of the process: a second environment would share it."""

TASKS = "tasks"
"""The package of tasks, whose `__init__` imports them all."""


@dataclass
class Loaded:
    """A foreign environment, and what its caller must know about it."""

    env: Any
    actions: int
    reach: float  # the environment's action that livegym's 1 means
    layout: str  # of its checkout: it decides the convention of its steps
    files: Path  # a folder with the files that its constructor wrote

    def keep_files(self, folder: Path) -> None:
        """Move the files that the constructor wrote to `folder`, if there are any."""
        if self.files.is_dir() and any(self.files.iterdir()):
            with contextlib.suppress(OSError):
                shutil.copytree(self.files, folder, dirs_exist_ok=True)
        self.discard()

    def discard(self) -> None:
        """Remove the files that the constructor wrote."""
        shutil.rmtree(self.files, ignore_errors=True)


def load_yaml(
    checkout: Checkout, name: str, changes: Mapping[str, Any], num_envs: int, seed: int, threads: int
) -> Loaded:
    """An environment in the layout of IsaacGymEnvs, with nested `changes` of its configuration."""
    code = checkout.code(name)
    cls = _class_of(checkout, code, name)
    number = {"numEnvs": num_envs}
    config = configs.yaml_config(checkout, name, {**changes, "env": {**changes.get("env", {}), **number}})
    config.setdefault("seed", seed)
    config["rl_device"] = "cpu"  # VecTask of the time when constructors did not take it reads it here; DeXtreme, too
    given = {
        "cfg": config,
        "rl_device": "cpu",
        "sim_device": "cpu:0",  # AllegroKuka takes the number
        "graphics_device_id": -1,
        "headless": not is_expected(),
        "virtual_screen_capture": False,
        "force_render": False,
    }
    env, files = _made(lambda: cls(**_accepted(cls, given)), checkout, seed, threads)
    reach = settings.yaml_range(config["env"], configs.yaml_settings(checkout, name))
    return Loaded(env, int(env.num_actions), reach, layout=checkout.layout, files=files)


def load_classes(
    checkout: Checkout, name: str, changes: Mapping[str, Any], num_envs: int, seed: int, threads: int
) -> Loaded:
    """An environment in the layout of legged_gym, with nested `changes` of its configuration."""
    tasks = registry_of(checkout)
    config = configs.independent(tasks.get_cfgs(name)[0])
    configs.write_into(config, changes)
    config.env.num_envs = num_envs
    config.seed = seed
    from isaacgym import gymapi

    arguments = types.SimpleNamespace(
        physics_engine=gymapi.SIM_PHYSX,
        sim_device="cpu",
        device="cpu",
        use_gpu=False,
        use_gpu_pipeline=False,
        subscenes=0,
        num_threads=0,
        num_envs=None,
        headless=not is_expected(),
    )
    reach = settings.action_range(configs.plain(config))
    (env, _), files = _made(lambda: tasks.make_env(name, arguments, config), checkout, seed, threads)
    return Loaded(env, int(env.num_actions), reach, layout=checkout.layout, files=files)


def load_factory(
    checkout: Checkout, name: str, changes: Mapping[str, Any], num_envs: int, seed: int, threads: int
) -> Loaded:
    """An environment in the layout of dexrobot_isaac, with nested `changes` of its configuration."""
    config = composed.config_of(checkout, name, {**changes, "env": {**changes.get("env", {}), "numEnvs": num_envs}})
    config["train"]["seed"] = seed
    _importable(checkout.root)
    _bare_package(checkout.package, checkout.folder)
    code = checkout.code(name)
    make_env = getattr(importlib.import_module(code.module), code.attribute)

    def make() -> Any:
        return make_env(
            task_name=config.get("task", {}).get("name", name),
            num_envs=num_envs,
            sim_device="cpu",
            rl_device="cpu",
            graphics_device_id=-1,
            cfg=config,
        )

    env, files = _made(make, checkout, seed, threads)
    return Loaded(env, int(env.num_actions), 1.0, layout=checkout.layout, files=files)


def registry_of(checkout: Checkout) -> Any:
    """The task registry of a package in the layout of legged_gym, which is imported now."""
    _importable(checkout.root)
    _is_imported(checkout.package, checkout.folder)
    importlib.import_module(f"{checkout.package}.envs")
    return importlib.import_module(f"{checkout.package}.utils.task_registry").task_registry


def _importable(root: Path) -> None:
    install(root)
    announce_below(root)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    import isaacgym  # noqa: F401 - before torch is used by foreign code, as its own programs do


def _accepted(cls: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a constructor takes: VecTask of IsaacGymEnvs took fewer at first."""
    known = inspect.signature(cls).parameters
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values()):
        return dict(given)
    return {name: value for name, value in given.items() if name in known}


def _class_of(checkout: Checkout, code: Code, name: str) -> Any:
    """Import the module of a task, and return its class."""
    _importable(checkout.root)
    _let_neighbours_be_found(checkout)
    parts = [*code.module.split("."), *([""] if code.by_function else [])]
    for depth in range(1, min(len(parts), 3)):  # the package and its `tasks`; those below are small
        _bare_package(".".join(parts[:depth]), checkout.root.joinpath(*parts[:depth]))
    if code.by_function:
        return _function_of(code)
    found = getattr(importlib.import_module(code.module), code.attribute)
    if not isinstance(found, type):
        raise UserError(
            f"task={checkout.name}:{name}: {code.attribute} in {code.file} is not a class. Allowed: a task class that "
            "takes cfg, rl_device, sim_device, graphics_device_id, headless"
        )
    return found


def _let_neighbours_be_found(checkout: Checkout) -> None:
    """Let modules of a package import one another without its name, as its own program does from its folder.

    Folders without `__init__` become packages here, because Python would prefer any other package of that name.
    """
    announce_below(checkout.root, checkout.neighbours)
    for name, place in checkout.neighbours.items():
        if place.is_dir() and (name == TASKS or not (place / "__init__.py").is_file()):
            _bare_package(name, place)
        else:
            _is_imported(name, place)


def _function_of(code: Code) -> Any:
    """A function of a package's `__init__` that chooses a class by the configuration, without the rest of that file.

    It sees what the file imports under the names that it uses, and nothing else. Raises UserError if it needs more.
    """
    content = code.file.read_bytes()
    tree = ast.parse(content)
    definition = function_of(tree, code.attribute)
    assert definition is not None, code  # `Checkout.code` has found it there
    announce(code.file, content)
    origins = imported(tree, code.module)
    used = _names_from_outside(definition) - {code.attribute}
    if missing := sorted(used - origins.keys() - set(dir(builtins))):
        raise UserError(
            f"{code.file}: the function {code.attribute} needs {', '.join(missing)}, which this file does not import "
            "at its top. Only those imports and that function run, because the whole file would import every task. "
            "Allowed: names that are imported there, outside of if. "
            f"Import {missing[0]} there, or define it inside of the function."
        )
    names = {name: _imported_value(origin) for name, origin in origins.items() if name in used}
    # compile has the future imports of this module, so annotations are not evaluated
    exec(compile(ast.Module([definition], []), code.file, "exec"), names)
    return names[code.attribute]


def _names_from_outside(definition: ast.FunctionDef) -> set[str]:
    """The names that a function reads, and does not define itself; annotations read none."""
    text = f"from __future__ import annotations\n{ast.unparse(definition)}"
    whole = symtable.symtable(text, "", "exec")
    used = {symbol.get_name() for symbol in whole.get_symbols() if symbol.is_referenced()}
    tables = whole.get_children()
    while tables:
        table = tables.pop()
        used |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
        tables += table.get_children()
    return used


def _imported_value(origin: Origin) -> Any:
    module = importlib.import_module(origin.module)
    if not origin.attribute:
        return module
    with contextlib.suppress(AttributeError):
        return getattr(module, origin.attribute)
    return importlib.import_module(f"{origin.module}.{origin.attribute}")


def _bare_package(name: str, folder: Path) -> None:
    """Make a package without running its `__init__`. Raises UserError if another package has its name already."""
    if not _is_imported(name, folder):
        module = types.ModuleType(name)
        module.__path__ = [str(folder)]
        sys.modules[name] = module


def _is_imported(name: str, place: Path) -> bool:
    """Whether a package's folder, or a module's file, has been imported. Raises UserError if another has its name."""
    known = sys.modules.get(name)
    if known is None:
        return False
    places = [*getattr(known, "__path__", []), getattr(known, "__file__", None) or ""]
    if str(place) not in [os.path.realpath(path) for path in places]:
        raise UserError(f"{place}: the name {name} is taken by {known}, which is imported already. Rename it.")
    return True


def _made(make: Any, checkout: Checkout, seed: int, threads: int) -> tuple[Any, Path]:
    """Call a constructor with seeded generators, in a folder of its own, without a simulation of an earlier one."""
    from livegym.compat.core import asset, scene

    scene.threads(threads)
    seed_everything(seed)
    _forget_simulation(checkout)
    folder = Path(tempfile.mkdtemp(prefix="livegym_foreign_"))
    try:
        with asset.also_in(checkout.start), _inside(folder), torch.no_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*precision lowered by casting.*")  # of its float64 spaces
            return make(), folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        _forget_simulation(checkout)


def _forget_simulation(checkout: Checkout) -> None:
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})  # not getattr: modules may make what they are asked for
        if names.get(ONE_SIM) is not None and Path(names.get("__file__") or "").is_relative_to(checkout.root):
            names[ONE_SIM] = None


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)

"""The groups of the configuration (`config=`, `task=`, `train=`, `sim=`, `physics=`) and the names in them."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override

import livegym
from livegym.cfg import overrides as ov
from livegym.projects import registry
from livegym.projects.reading import mapping_of, text_of
from livegym.schema.keys import Key, Schema
from livegym.schema.train import DEFAULT
from livegym.schema.values import plain_text
from livegym.tasks import TASKS
from livegym.utils.errors import UserError, not_one_of

CFG_DIR = livegym.ROOT / "cfg"
PARAMS = "task.params."
PACKAGE = re.compile(r"#\s*@package +_global_")
SETTING = re.compile(r"#\s*@")
GROUPS = ("config", "task", "train", "sim", "physics")


def algorithm_of_settings(name: str) -> str:
    """The algorithm that `train=<name>` is for: the one that its yaml names, otherwise the default.

    Without a yaml, it is the algorithm of that name. Raises UserError if the yaml cannot be read.
    """
    files = registry.yaml_files("train").get(name, [])
    if not files:
        return name if name in registry.names("algorithms") else DEFAULT
    return str(mapping_of(files[0]).get("algorithm", DEFAULT))


def check_group(override: Override, loader: ConfigLoader, parsed: Iterable[Override]) -> bool:
    """Whether the override chooses from a group. Raises UserError for a name that the group does not have."""
    group = override.key_or_group
    if group not in GROUPS and "/" not in group:
        return False
    if group not in GROUPS:
        raise not_one_of("group", group, GROUPS)
    if any(o.key_or_group == "hydra.searchpath" for o in parsed):
        return True  # that path may add options that are unknown here; Hydra checks them
    options = loader.get_group_options(group, results_filter=ObjectType.CONFIG)
    for value in ov.values(override):
        if not isinstance(value, (list, dict)) and plain_text(value) in options:
            continue
        shown = override.get_value_string() if not override.is_sweep_override() else plain_text(value)
        raise _no_such_option(group, shown, options)
    for name in map(plain_text, ov.values(override)):
        registry.refuse_twice(group, name)
        if group == "config":
            _refuse_without_package(name)
        if group == "task":
            _refuse_wrong_task(name)
    return True


def _refuse_without_package(name: str) -> None:
    """Raises UserError for a preset without `# @package _global_` at its top: its keys would be below `config`."""
    for file in registry.yaml_files("config").get(name, []):
        lines = (line.strip() for line in text_of(file).splitlines())
        # Hydra's header ends at the first line that is neither empty nor a setting such as this
        head = [line for line in itertools.takewhile(lambda line: not line or SETTING.match(line), lines) if line]
        if not any(PACKAGE.fullmatch(line) for line in head) or any(
            len(line.lstrip("# ").split()) != 2 for line in head
        ):
            raise UserError(
                f"config={name}: {file} does not say that its keys belong to the root. Allowed: a preset that begins "
                "with the line: # @package _global_"
            )


def _no_such_option(group: str, name: str, options: Sequence[str]) -> UserError:
    """The error for a name that a group does not have; for an incomplete task, it says what is missing."""
    if group == "task":
        try:
            registry.part("tasks", name)
        except UserError as error:
            return error
    if group == "train" and name.endswith("PPO"):
        return UserError(f"{not_one_of(group, name, options)} A task's own settings are in cfg/train/<Task>PPO.yaml.")
    return not_one_of(group, name, options)


def _refuse_wrong_task(name: str) -> None:
    """Raises UserError for a task that is incomplete or exists twice, and for a yaml that has another task's name."""
    file = registry.part("tasks", name).where
    registry.refuse_twice("train", f"{name}PPO")
    named = mapping_of(file).get("name") if file is not None else name
    if named != name:
        raise UserError(f"task={name}: {file} has name: {named}. Allowed: its own name. Write name: {name}")


def file_parameters(arguments: Iterable[str]) -> dict[str, Key]:
    """Short and full name -> its key, of each parameter that names a file, for the tasks in `arguments`.

    A task that is unknown or cannot be loaded is skipped here: `check_group` refuses it.
    """
    found = {}
    for argument in arguments:
        if ov.split(argument)[1] != "task" or "=" not in argument:
            continue
        for name in map(plain_text, ov.values(ov.parse([argument])[0])):
            with contextlib.suppress(UserError):
                files = [k for k in Schema().keys(TASKS[name].Params, PARAMS).values() if k.doc.file]
                found.update({typed: key for key in files for typed in (key.name, key.path)})
    return found


def refuse_bare_names(arguments: Iterable[str], loader: ConfigLoader) -> None:
    """Raises UserError for `Ant` if `task=Ant` is meant."""
    for argument in (a for a in arguments if "=" not in a):
        for group in GROUPS:
            options = loader.get_group_options(group, results_filter=ObjectType.CONFIG)
            if argument in options:
                raise UserError(f"{argument}: not key=value. Allowed: key=value. Write {group}={argument}")
            if argument == group:
                raise not_one_of(group, "", options)

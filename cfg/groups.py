"""The groups of the configuration (`config=`, `task=`, `train=`, `sim=`, `physics=`), and names that they lack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml
from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override

from livegym.cfg import overrides as ov
from livegym.schema.values import plain_text
from livegym.utils.errors import UserError, not_one_of

CFG_DIR = Path(__file__).resolve().parent
GROUPS = ("config", "task", "train", "sim", "physics")


def check_group(override: Override, loader: ConfigLoader, parsed: Iterable[Override]) -> bool:
    """Whether the override chooses from a group. Raises UserError for a name that the group does not have."""
    group = override.key_or_group
    if group not in GROUPS and "/" not in group:
        return False
    if group not in GROUPS:
        raise not_one_of("group", group, GROUPS)
    if any(o.key_or_group == "hydra.searchpath" for o in parsed):
        return True  # there may be more than we know of; Hydra checks
    options = loader.get_group_options(group, results_filter=ObjectType.CONFIG)
    for value in ov.values(override):
        if not isinstance(value, (list, dict)) and plain_text(value) in options:
            continue
        shown = override.get_value_string() if not override.is_sweep_override() else plain_text(value)
        raise _no_such_option(group, shown, options)
    if group == "task":
        _refuse_half_made_tasks(override)
    return True


def _no_such_option(group: str, name: str, options: Sequence[str]) -> UserError:
    """The error for a name that a group lacks; of a task that is half there, what is missing."""
    if group == "task":
        from livegym.tasks import TASKS

        if name in TASKS:
            return UserError(
                f"task={name}: it is in the task table, but there is no {CFG_DIR / 'task' / name}.yaml. Add it."
            )
    if group == "train" and name.endswith("PPO"):
        return UserError(f"{not_one_of(group, name, options)} A task's own settings are in cfg/train/<Task>PPO.yaml.")
    return not_one_of(group, name, options)


def _refuse_half_made_tasks(override: Override) -> None:
    """Raises UserError for a task with a yaml that is not in the table, or whose yaml has another task's name."""
    from livegym.tasks import TASKS

    for name in map(plain_text, ov.values(override)):
        file = CFG_DIR / "task" / f"{name}.yaml"
        if name not in TASKS:
            raise UserError(f"task={name}: {file} is there, but tasks/__init__.py has no {name} in its table. Add it.")
        named = (yaml.safe_load(file.read_text()) or {}).get("name") if file.is_file() else name
        if named != name:
            raise UserError(
                f"task={name}: {file} says name: {named}. A task's yaml says its own name: write name: {name}"
            )


def refuse_bare_names(arguments: Iterable[str], loader: ConfigLoader) -> None:
    """Raises UserError for `Ant` where `task=Ant` is meant."""
    for argument in (a for a in arguments if "=" not in a):
        for group in GROUPS:
            options = loader.get_group_options(group, results_filter=ObjectType.CONFIG)
            if argument in options:
                raise UserError(f"{argument}: not key=value. Allowed: key=value. Write {group}={argument}")
            if argument == group:
                raise not_one_of(group, "", options)

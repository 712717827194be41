"""Read the configuration of foreign tasks: Hydra yaml as in IsaacGymEnvs, or classes as in legged_gym.

    upstream = yaml_config(checkout, "Ant", {"env": {"episodeLength": 500}})
    upstream["env"]["numEnvs"]           # 4096, as its yaml says

The yaml is not composed by Hydra, but merged and resolved here, with the values that upstream's own config.yaml has at
its root, and those that choose the CPU.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from livegym.compat.core.lines import is_expected
from livegym.projects.checkout import Checkout, extended
from livegym.projects.reading import mapping_of
from livegym.utils.errors import UserError

ROOT = {
    "experiment": "",
    "num_envs": "",
    "seed": 0,
    "max_iterations": "",
    "physics_engine": "physx",
    "num_threads": 0,
    "solver_type": 1,
    "num_subscenes": 0,
    "test": False,
    "checkpoint": "",
    "multi_gpu": False,
    "wandb_activate": False,
    "capture_video": False,
}
"""Keys at the root that task and learner may refer to, if upstream's config.yaml does not have them."""
HERE = {
    "pipeline": "cpu",
    "sim_device": "cpu",
    "rl_device": "cpu",
    "graphics_device_id": -1,
    "force_render": False,
}
"""Keys at the root that are set here, whatever upstream says; so is `headless`."""
COUNTS = {"env.numEnvs": "numEnvs", "env.num_envs": "numEnvs"}
"""Upstream's keys of the number of environments -> livegym's, which makes them."""
RESOLVERS: dict[str, Callable[..., Any]] = {
    "eq": lambda x, y: str(x).lower() == str(y).lower(),
    "contains": lambda x, y: str(x).lower() in str(y).lower(),
    "if": lambda condition, then, otherwise: then if condition else otherwise,
    "resolve_default": lambda default, value: default if value == "" else value,
}
"""The resolvers that upstream's train.py registers."""


def yaml_config(checkout: Checkout, name: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The resolved task configuration, with nested `changes`; what refers to a changed key follows it.

    Raises UserError for yaml that cannot be read or resolved.
    """
    with resolvers():
        return _resolved(_root(checkout, name, changes or {}), "task", checkout.task_yaml(name))


def yaml_settings(checkout: Checkout, name: str) -> dict[str, Any]:
    """rl_games' parameters from the learner's yaml, resolved; {} if there is no such yaml."""
    file = checkout.train_yaml(name)
    if file is None:
        return {}
    with resolvers():
        root = _root(checkout, name, {})
        root["train"] = OmegaConf.create(_merged(file, checkout.cfg / "train"))
        found = _resolved(root, "train", file).get("params", {})
    return found if isinstance(found, dict) else {}


@contextlib.contextmanager
def resolvers() -> Iterator[None]:
    """Inside, yaml can use the resolvers of upstream's programs; afterwards, foreign code may register them itself."""
    added = [name for name in RESOLVERS if not OmegaConf.has_resolver(name)]
    for name in added:
        OmegaConf.register_new_resolver(name, RESOLVERS[name])
    try:
        yield
    finally:
        for name in added:
            OmegaConf.clear_resolver(name)


def _root(checkout: Checkout, name: str, changes: Mapping[str, Any]) -> DictConfig:
    own = checkout.cfg / "config.yaml"
    content = mapping_of(own) if own.is_file() else {}
    given = {key: value for key, value in content.items() if key not in ("defaults", "hydra", "task", "train")}
    here = {**HERE, "headless": not is_expected()}  # as for the constructor
    root = OmegaConf.create({**ROOT, **given, **_other_groups(checkout.cfg, content.get("defaults", [])), **here})
    task = OmegaConf.create(_merged(checkout.task_yaml(name), checkout.cfg / "task"))
    root["task"] = OmegaConf.merge(task, OmegaConf.create(dict(changes)))
    return root


def _other_groups(folder: Path, defaults: list[Any]) -> dict[str, Any]:
    """The groups that a root yaml chooses beside task and learner, such as `pbt: no_pbt`."""
    chosen = {group: option for entry in defaults if isinstance(entry, dict) for group, option in entry.items()}
    files = {group: folder / str(group) / f"{option}.yaml" for group, option in chosen.items()}
    return {
        str(group): _merged(file, folder / str(group))
        for group, file in files.items()
        if group not in ("task", "train") and file.is_file()
    }


def _merged(file: Path, folder: Path) -> dict[str, Any]:
    """A yaml file over those that its defaults list extends, in the list's order; interpolations stay."""
    content = mapping_of(file)
    order = content.pop("defaults", [])
    layers: list[Any] = []
    for entry in [*order, *([] if "_self_" in order else ["_self_"])]:
        if entry == "_self_":
            layers.append(OmegaConf.create(content))
        elif isinstance(entry, dict):  # `- env: reorientation`: a group below this one
            for group, option in entry.items():
                below = OmegaConf.create(_merged(folder / group / f"{option}.yaml", folder / group))
                layers.append(OmegaConf.create({str(group): below}))
        elif (folder / f"{entry}.yaml").is_file() and entry in extended(order):
            layers.append(OmegaConf.create(_merged(folder / f"{entry}.yaml", folder)))
    return dict(OmegaConf.to_container(OmegaConf.merge(*layers)))  # type: ignore[arg-type]


def _resolved(root: DictConfig, section: str, file: Path) -> dict[str, Any]:
    try:
        found = OmegaConf.to_container(root[section], resolve=True)  # not the whole: it may refer to absent parts
    except OmegaConfBaseException as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{file}: cannot be resolved: {reason}. Allowed: keys of this yaml and of config.yaml beside it, and the "
            f"resolvers {', '.join(RESOLVERS)}."
        ) from error
    return dict(found)  # type: ignore[arg-type]


def plain(config: object) -> dict[str, Any]:
    """Nested classes or objects as a dictionary: attributes without an underscore in front, as far as they are plain.

    Attributes that yaml cannot hold (functions, arrays) are left out; they keep what the class says.
    """
    found = {}
    for name in dir(config):
        if name.startswith("_"):
            continue
        value = getattr(config, name)
        if _is_plain(value):
            found[name] = list(value) if isinstance(value, tuple) else value
        elif isinstance(value, type) or (hasattr(value, "__dict__") and not callable(value)):
            found[name] = plain(value)
    return found


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return isinstance(value, (bool, int, float, str, type(None)))


def independent(config: Any) -> Any:
    """A copy of an object of nested classes; writing into it changes neither the original nor its classes."""
    made = type(config.__name__, (config,), {}) if isinstance(config, type) else copy.deepcopy(config)
    for name in dir(made):
        value = getattr(made, name)
        if name.startswith("_") or (callable(value) and not isinstance(value, type)):
            continue
        if isinstance(value, type) or hasattr(value, "__dict__"):
            setattr(made, name, independent(value))
        elif isinstance(value, list | dict):
            setattr(made, name, copy.deepcopy(value))
    return made


def write_into(config: Any, changes: Mapping[str, Any]) -> None:
    """Set nested `changes` in an object of nested classes; the rest stays."""
    for name, value in changes.items():
        inner = getattr(config, name, None)
        if isinstance(value, Mapping) and not _is_plain(inner):
            write_into(inner, value)
        else:
            setattr(config, name, tuple(value) if isinstance(inner, tuple) else value)


def changed(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """The nested part of `now` that differs from `before`."""
    return dict(_changed(now, before))


def _changed(now: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in now.items():
        other = before.get(name)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            inner = changed(value, other)
            if inner:
                yield name, inner
        elif value != other:
            yield name, value

"""Sources of Hydra besides livegym's yaml files: the schema, made on demand, and other projects' yaml.

    register()                      # before Hydra composes
    node_of("Ant")                  # TaskConfig with Ant's parameters
    settings_node_of("ppo")         # PPOConfig

Two parts of the schema are groups, because they depend on a choice: `schema/task/<Name>`, with `params` typed by the
task's own dataclass, so only real tasks are options of `task=`; and `schema/train/<settings>`, the keys of the
algorithm that `train=<settings>` is for.

A node is made from its classes once and then copied, which is faster. The schema is not in Hydra's `ConfigStore`,
because Hydra copies all of that each time it composes.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any, cast

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import MISSING, DictConfig, OmegaConf

from livegym.cfg.foreign import ForeignYaml
from livegym.cfg.groups import algorithm_of_settings
from livegym.projects import registry
from livegym.projects.checkout import Checkout
from livegym.schema import RootConfig, TaskConfig
from livegym.schema.keys import Schema, section, strip_optional
from livegym.schema.train import settings_class
from livegym.tasks import TASKS


def thawed(cls: type) -> type:
    """A twin of a frozen parameter dataclass that OmegaConf can merge into (it makes frozen ones read-only)."""
    members = []
    for key in Schema().keys(cls).values():
        hint, default = key.hint, key.default
        inner = section(hint)
        if inner is not None and not strip_optional(hint)[1]:
            twin = thawed(inner)
            made = functools.partial(_filled, twin, default) if isinstance(default, inner) else twin
            members.append((key.name, twin, dataclasses.field(default_factory=made)))
            continue
        if not _omegaconf_knows(hint):
            hint = Any
        value = list(default) if isinstance(default, tuple) else MISSING if default == "???" else default
        members.append((key.name, hint, dataclasses.field(default_factory=functools.partial(copy.copy, value))))
    return dataclasses.make_dataclass(cls.__name__, members)


def _filled(twin: type, values: Any) -> Any:
    """An instance of a twin with the values of the original's instance, sections inside it included."""
    inner = {
        field.name: cast(type, field.type) for field in dataclasses.fields(twin) if dataclasses.is_dataclass(field.type)
    }
    given = {name: _filled(inner[name], value) if name in inner else value for name, value in vars(values).items()}
    return twin(**given)


def _omegaconf_knows(hint: Any) -> bool:
    inner, _ = strip_optional(hint)
    return inner in (int, float, str, bool, list[int], list[float], list[str], dict[str, float])


def node_of(task: str) -> DictConfig:
    """The schema of `task.*` with the task's own parameters. Raises UserError for a task that cannot be loaded."""
    return copy.deepcopy(_task_node(task, TASKS[task].Params))


@functools.cache
def _task_node(task: str, cls: type) -> DictConfig:
    params = thawed(cls)
    member = ("params", params, dataclasses.field(default_factory=params))
    made: DictConfig = OmegaConf.structured(dataclasses.make_dataclass(f"{task}Config", [member], bases=(TaskConfig,)))
    return made


def settings_node_of(algorithm: str) -> DictConfig:
    """The schema of `train.*` of an algorithm. Raises UserError if it cannot be loaded."""
    return copy.deepcopy(_settings_node(algorithm, cast(Any, settings_class(algorithm))))


@functools.cache
def _settings_node(algorithm: str, settings: type[Any]) -> DictConfig:
    member = ("algorithm", str, dataclasses.field(default=algorithm))
    made: DictConfig = OmegaConf.structured(dataclasses.make_dataclass(settings.__name__, [member], bases=(settings,)))
    return made


@functools.cache
def _root_node() -> DictConfig:
    made: DictConfig = OmegaConf.structured(RootConfig)
    return made


OPTIONS = {"schema/task": "tasks", "train": "algorithms"}
"""A group -> the kind of part that its options name. `schema/train` accepts every name; Hydra looks for its yaml."""


def _group_and_name(config_path: str) -> tuple[str, str]:
    group, _, name = config_path.strip("/").rpartition("/")
    return group, name.removesuffix(".yaml")


class ProjectFolders(SearchPathPlugin):
    """Adds the yaml folders of outside projects to Hydra's search path, and `PartSchemas` for options without yaml."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add them; Hydra calls this each time it begins to compose."""
        for project in registry.projects()[1:]:
            if not isinstance(project, Checkout):
                search_path.append(project.name, f"file://{project.cfg}")
        search_path.append("foreign", f"{ForeignYaml.scheme()}://")
        search_path.append("livegym", f"{PartSchemas.scheme()}://")


class PartSchemas(ConfigSource):
    """The schema, and groups whose options are made when chosen, so that no other task's or algorithm's code is run.

    `schema` has the root keys. `schema/task` has an option for each task. `schema/train` has one for each name that
    `train=` can choose. `train` itself has one for each algorithm, with the algorithm's own defaults.
    """

    GROUPS = ("", "schema", "schema/task", "schema/train", "train")

    @staticmethod
    def scheme() -> str:
        """The URL scheme by which Hydra knows this source."""
        return "livegym"

    def load_config(self, config_path: str) -> ConfigResult:
        """Make one option. Raises UserError if its code cannot be loaded."""
        group, name = _group_and_name(config_path)
        if group == "train":
            node = OmegaConf.create({"algorithm": name})
        elif group == "schema/train":
            node = settings_node_of(algorithm_of_settings(name))
        else:
            node = node_of(name) if group else copy.deepcopy(_root_node())
        return ConfigResult(provider=self.provider, path=self.full_path(), config=node, header={"package": None})

    def available(self) -> bool:
        """True: this source is always available."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Whether the path is a group."""
        return config_path.strip("/") in self.GROUPS

    def is_config(self, config_path: str) -> bool:
        """Whether the path is an option of a group."""
        group, name = _group_and_name(config_path)
        if group in OPTIONS:
            return name in registry.names(OPTIONS[group])
        return group == "schema/train" or (group, name) == ("", "schema")

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The names of the options and groups in a group."""
        path = config_path.strip("/")
        if path in OPTIONS:
            return [] if results_filter is ObjectType.GROUP else registry.names(OPTIONS[path])
        inner = {"": ["schema", "train"], "schema": ["task", "train"]}.get(path, [])
        return inner if results_filter is not ObjectType.CONFIG else []


def register() -> None:
    """Lets Hydra find the schema and the yaml files of all projects; may be called again."""
    Plugins.instance().register(ProjectFolders)
    Plugins.instance().register(PartSchemas)
    Plugins.instance().register(ForeignYaml)

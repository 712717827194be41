"""The yaml of foreign tasks for Hydra: `task/isaacgymenvs-Ant` and `train/isaacgymenvs-AntPPO`, made when chosen.

They are derived from the upstream configuration (`compat/foreign/task.py`), so no yaml of livegym stands for them.
"""

from __future__ import annotations

from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import OmegaConf

from livegym.projects import registry
from livegym.projects.checkout import Checkout

LEARNER = "PPO"


def foreign_tasks() -> list[str]:
    """The tasks of all checkouts."""
    return [name for project in registry.projects() if isinstance(project, Checkout) for name in project.tasks]


class ForeignYaml(ConfigSource):
    """The groups `task` and `train`, with an option for each foreign task."""

    @staticmethod
    def scheme() -> str:
        """The URL scheme by which Hydra knows this source."""
        return "foreign"

    def load_config(self, config_path: str) -> ConfigResult:
        """Make one option. Raises UserError if the checkout's configuration cannot be read."""
        from livegym.compat.foreign.task import task_yaml, train_yaml  # imports torch, which --help need not wait for

        group, _, option = config_path.strip("/").removesuffix(".yaml").rpartition("/")
        part = registry.part("tasks", option.removesuffix(LEARNER) if group == "train" else option)
        with part.running("has a configuration that cannot be read"):
            content = train_yaml(part) if group == "train" else task_yaml(part)
        node = OmegaConf.create(content)
        return ConfigResult(provider=self.provider, path=self.full_path(), config=node, header={"package": None})

    def available(self) -> bool:
        """True: this source is always available."""
        return True

    def is_group(self, config_path: str) -> bool:
        """Whether the path is a group."""
        return config_path.strip("/") in ("", "task", "train")

    def is_config(self, config_path: str) -> bool:
        """Whether the path is an option of a group."""
        group, _, option = config_path.strip("/").removesuffix(".yaml").rpartition("/")
        return option in self.list(group, ObjectType.CONFIG)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """The names of the options and groups in a group."""
        if results_filter is ObjectType.GROUP:
            return ["task", "train"] if not config_path.strip("/") else []
        options = {"task": foreign_tasks(), "train": [f"{name}{LEARNER}" for name in foreign_tasks()]}
        return options.get(config_path.strip("/"), [])

"""Make livegym's class of a foreign task: its parameters, and the yaml of `task.*` and `train.*` that stands for it.

    cls = task_class(registry.part("tasks", "isaacgymenvs-Ant"))
    cls.Params().env.episodeLength       # 1000

`task.params.*` is the upstream configuration, key by key, so an unknown key is refused with the nearest name. A value
that differs from upstream's is written into the unresolved yaml, or into the classes, when the environment is made.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import keyword
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from livegym.compat.core.lines import expected
from livegym.compat.foreign import composed, configs, loading, settings
from livegym.compat.foreign.env import OBSERVATION, REWARD, STATES, TERMINATED, ForeignEnv
from livegym.projects import registry
from livegym.projects.checkout import CLASSES, FACTORY, YAML, Checkout
from livegym.schema import PhysicsConfig, SimConfig, TaskConfig
from livegym.schema.engines import refuse_physics
from livegym.schema.keydoc import key
from livegym.sim.base import Simulator
from livegym.tasks.base import ActionSpec, Box, Task
from livegym.tasks.env import Env
from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

MAX_LENGTH = 1e6  # s, the time limit in the yaml of a task that does not say one


class ForeignTask(Task):
    """A task whose environment is foreign code. Its own methods are never called: `ForeignEnv` steps it."""

    part: ClassVar[registry.Part]
    own_env: ClassVar[bool] = True

    def __init__(self, params: Any, actions: int = 0) -> None:
        super().__init__(params)
        self._actions = actions

    @property
    def action_spec(self) -> ActionSpec:
        """Continuous actions, as many as the environment says."""
        return Box(self._actions)

    @classmethod
    def make_env(
        cls, config: TaskConfig, sim: SimConfig, physics: PhysicsConfig, num_envs: int, seed: int, shown: bool
    ) -> Env:
        """The environments; if they are `shown`, they have a viewer for their lines.

        Raises UserError for keys that a foreign task cannot obey.
        """
        refuse_unused(cls.part, config, sim, physics, num_envs)
        _note_left(cls.part)
        with cls.part.running("failed"), expected(shown):
            loaded = cls.loaded(config.params, num_envs, seed, sim.threads)
        return ForeignEnv(cls(config.params, loaded.actions), config, loaded, num_envs, cls.part)

    @classmethod
    def loaded(cls, params: Any, num_envs: int, seed: int, threads: int) -> loading.Loaded:
        """The foreign environment itself, made with these parameters."""
        checkout, name = origin(cls.part)
        changes = configs.changed(_as_dict(params), _as_dict(cls.Params()))
        make = {YAML: loading.load_yaml, CLASSES: loading.load_classes, FACTORY: loading.load_factory}
        return make[checkout.layout](checkout, name, changes, num_envs, seed, threads)

    def model_path(self) -> Path:
        """None: the foreign code builds its world by itself."""
        raise NotImplementedError

    def bind(self, sim: Simulator) -> None:
        """Nothing to bind."""

    def reset(self, env_ids: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """The foreign code resets by itself."""
        raise NotImplementedError

    def control(self, action: Tensor) -> Tensor:
        """The foreign code acts by itself."""
        raise NotImplementedError

    def observe(self, state: Simulator) -> dict[str, Tensor]:
        """The foreign code observes by itself."""
        raise NotImplementedError

    def reward(self, state: Simulator, action: Tensor) -> dict[str, Tensor]:
        """The foreign code rewards by itself."""
        raise NotImplementedError

    def terminate(self, state: Simulator) -> dict[str, Tensor]:
        """The foreign code ends episodes by itself."""
        raise NotImplementedError


def origin(part: registry.Part) -> tuple[Checkout, str]:
    """The checkout of a task, and its name there."""
    assert isinstance(part.project, Checkout)
    return part.project, part.project.upstream(part.name)


def task_class(part: registry.Part) -> type[ForeignTask]:
    """The class of a foreign task. Its configuration is read now; classes are imported for that, yaml is not."""
    content = upstream_config(part)
    params = section_class("Params", content)
    return type(part.name, (ForeignTask,), {"part": part, "Params": params, "__doc__": _about(part)})


def _about(part: registry.Part) -> str:
    checkout, name = origin(part)
    return f"{name} of {checkout.root}, as it is."


@functools.cache
def upstream_config(part: registry.Part) -> dict[str, Any]:
    """The upstream configuration of a task, resolved, as plain values."""
    checkout, name = origin(part)
    if checkout.layout == CLASSES:
        return configs.plain(loading.registry_of(checkout).get_cfgs(name)[0])
    return composed.task_part(checkout, name) if checkout.layout == FACTORY else configs.yaml_config(checkout, name)


def decided_here(part: registry.Part) -> dict[str, str]:
    """Upstream's keys that livegym decides, whether or not the task has them -> livegym's keys."""
    checkout, _ = origin(part)
    return {**configs.COUNTS, **(composed.OF_LIVEGYM if checkout.layout == FACTORY else {})}


def section_class(name: str, content: Mapping[str, Any]) -> type:
    """A dataclass with the keys of a section, and these values as defaults; any value is accepted for a key."""
    members: list[tuple[str, Any, Any]] = []
    for field, value in content.items():
        if isinstance(value, Mapping) and value and all(_is_field(inner) for inner in value):
            inner = section_class(field, value)
            members.append((field, inner, dataclasses.field(default_factory=inner)))
        elif isinstance(value, (list, dict)):
            members.append((field, Any, dataclasses.field(default_factory=functools.partial(copy.deepcopy, value))))
        else:
            members.append((field, Any, key(value, "")))
    return dataclasses.make_dataclass(name, members)


def _is_field(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)


def _as_dict(params: Any) -> dict[str, Any]:
    return dataclasses.asdict(params)


# yaml of livegym for a foreign task


def task_yaml(part: registry.Part) -> dict[str, Any]:
    """The keys of `task.*`, except `params`, which has its defaults."""
    content = upstream_config(part)
    env = content.get("env", {})
    states = int(env.get("numStates") or env.get("num_privileged_obs") or 0)
    return {
        "name": part.name,
        "num_envs": int(env.get("numEnvs", env.get("num_envs", 64))),
        **_times(content),
        "observations": {"policy": [OBSERVATION], "privileged": [STATES] if states else []},
        "rewards": {REWARD: 1.0},
        "terminations": {TERMINATED: True},
        "params": {},
    }


def _times(content: Mapping[str, Any]) -> dict[str, Any]:
    """The time limit and the number of simulated steps in a control step, as an upstream configuration says them.

    IsaacGymEnvs has episodes in control steps or, for its walkers, in seconds.
    """
    dt = _number(content, "sim.dt") or 1 / 60
    repeated = _number(content, "env.controlFrequencyInv") or 1
    decimation = int(repeated * (_number(content, "env.control.decimation", "control.decimation") or 1))
    seconds = _number(content, "env.episode_length_s", "env.learn.episodeLength_s", "env.episodeLength_s")
    steps = _number(content, "env.maxEpisodeLength", "env.episodeLength")
    length = seconds or (steps * dt * decimation if steps else MAX_LENGTH)
    return {"episode_length_s": length, "decimation": decimation}


def _number(content: Mapping[str, Any], *paths: str) -> float | None:
    """The first of these keys that has a positive number; None if none has."""
    for path in paths:
        value: Any = content
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, int | float) and value > 0:
            return float(value)
    return None


def train_yaml(part: registry.Part) -> dict[str, Any]:
    """The keys of `train.*`."""
    return {"algorithm": "ppo", **_learner(part)[0]}


@functools.cache
def _learner(part: registry.Part) -> tuple[settings.Settings, list[str]]:
    """The settings of the learner, and what was not taken over."""
    checkout, name = origin(part)
    if checkout.layout == CLASSES:
        reach = settings.action_range(upstream_config(part))
        return settings.from_rsl_rl(configs.plain(loading.registry_of(checkout).get_cfgs(name)[1]), reach)
    factory = checkout.layout == FACTORY
    params = composed.settings_of(checkout, name) if factory else configs.yaml_settings(checkout, name)
    reach = settings.yaml_range(upstream_config(part).get("env", {}), params)
    return settings.from_rl_games(params, int(task_yaml(part)["num_envs"]), reach)


_noted: set[str] = set()


def _note_left(part: registry.Part) -> None:
    """Log once what livegym's settings of the learner do not have of upstream's."""
    left = _learner(part)[1]
    if left and part.name not in _noted:
        _noted.add(part.name)
        log.info("not taken over from the settings of %s's learner: %s", part.name, ", ".join(left))


UNUSED = {
    "episode_length_s": "the time limit",
    "decimation": "the number of simulated steps in a control step",
    "observations": "what is observed",
    "noise": "noise",
    "delay": "delay",
    "history": "the history of observations",
    "terminations": "what ends an episode",
    "randomization": "what is randomised",
    "randomize": "whether anything is randomised",
    "curriculum": "the curriculum",
}
"""Keys of `task.*` that the environments of foreign code do not read -> what its own code or configuration decides."""
WHERE = {
    "episode_length_s": (
        "env.episode_length_s", "env.learn.episodeLength_s", "env.episodeLength_s", "env.maxEpisodeLength",
        "env.episodeLength",
    ),
    "decimation": ("env.control.decimation", "control.decimation", "env.controlFrequencyInv"),
    "noise": ("noise", "env.learn.addNoise", "task.randomize"),
    "randomization": ("domain_rand", "task.randomization_params", "env.learn"),
    "randomize": ("domain_rand", "task.randomize"),
    "curriculum": ("terrain.curriculum", "env.terrain.curriculum"),
}  # fmt: skip
"""Key of `task.*` -> the upstream keys that may mean the same; the first that a task has is the next move."""


def refuse_unused(
    part: registry.Part, config: TaskConfig, sim: SimConfig, physics: PhysicsConfig, num_envs: int
) -> None:
    """Raises UserError for a key of livegym's own tasks that was set for a foreign one, which does not read it."""
    typed = f"task={part.name.replace('-', ':', 1)}"
    instead = "Its own configuration is in task.params.*"
    upstream = _as_dict(config.params)
    standard, times = dataclasses.asdict(TaskConfig()) | task_yaml(part), _times(upstream)
    for name, what in UNUSED.items():
        value = _plain(getattr(config, name))
        if value == _plain(standard[name]) or (name in times and value == times[name]):  # of a run with other params
            continue
        raise UserError(
            f"task.{name}={_short(value)}: {typed} is foreign code, which decides {what} by itself. Allowed: "
            f"{_short(_plain(standard[name]))}. {_next_move(upstream, name)}"
        )
    _refuse_count(part, upstream, num_envs, typed)
    refuse_physics(physics, f"{typed} sets its own physics", f"{instead}, such as task.params.sim.substeps")
    if sim.engine != "mujoco":
        raise UserError(f"sim={sim.engine}: {typed} runs over isaacgym on MuJoCo. Allowed: mujoco. Leave sim= out.")


def _refuse_count(part: registry.Part, upstream: Mapping[str, Any], num_envs: int, typed: str) -> None:
    """Raises UserError for upstream's number of environments, if it was changed: `numEnvs` counts."""
    for path in configs.COUNTS:
        count = _number(upstream, path)
        if count is not None and count not in (num_envs, _number(upstream_config(part), path)):
            raise UserError(
                f"task.params.{path}={count:g}: {typed} has as many environments as numEnvs says, which is {num_envs}. "
                f"Leave it out, and type numEnvs={count:g}"
            )


def _next_move(upstream: Mapping[str, Any], name: str) -> str:
    for path in WHERE.get(name, ()):
        value: Any = upstream
        for part in path.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping):
            return f"Leave it out; its own keys are task.params.{path}.*"
        if value is not None:
            return f"Leave it out, and set task.params.{path}, which is {_short(value)}"
    return "Leave it out; its own keys are task.params.*"


def _plain(value: Any) -> Any:
    """A key's value as plain ones, without groups of observations that are empty."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return {k: v for k, v in value.items() if v != []} if isinstance(value, dict) else value
    return _plain(dataclasses.asdict(value))


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)

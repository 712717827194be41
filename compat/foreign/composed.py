"""Compose the configuration of a checkout in the layout of dexrobot_isaac: by Hydra, from its own `cfg/config.yaml`.

    config = config_of(checkout, "BlindGrasping", {"task": {"max_box_distance": 0.5}})
    config["env"]["numEnvs"]             # 1024, as its config.yaml says

Everything is in one configuration: `env`, `sim`, `task` and `train`. `train` holds the learner's settings, which become
livegym's `train.*`; the rest is `task.params.*`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from livegym.compat.foreign.configs import resolvers
from livegym.projects.checkout import Checkout
from livegym.utils.errors import UserError

TRAIN = "train"
HERE = {
    "device": "cpu",
    "env": {"device": "cpu", "viewer": False, "videoRecord": False, "videoStream": False},
    "sim": {"graphicsDeviceId": -1},
}
"""Values that are set here, whatever upstream says, if it has such a key: livegym's own viewers show the task.

There is no viewer for the task's lines: a task of dexrobot_isaac that has one sleeps until real time has caught up.
"""
OF_LIVEGYM = {
    "env.device": "device",
    "env.viewer": "viewer",
    "env.videoRecord": "videoRecord",
    "env.videoStream": "watch",
}
"""Keys of `HERE` -> livegym's key of the same meaning; the others have none."""


def config_of(checkout: Checkout, name: str, changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The resolved configuration of a task, with nested `changes`; what refers to a changed key follows it.

    Raises UserError for yaml that cannot be composed or resolved.
    """
    try:
        with resolvers():
            base = _composed(checkout, name)
            config = OmegaConf.merge(base, dict(changes or {}), _known(HERE, base))
            found: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    except (HydraException, OmegaConfBaseException) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{checkout.task_yaml(name)}: cannot be composed with {checkout.cfg / 'config.yaml'}: {reason}. Allowed: "
            "what Hydra composes, and references to keys that exist."
        ) from error
    engine = found.get("sim", {}).get("physics_engine")
    return {**found, "physics_engine": engine} if engine else found


def task_part(checkout: Checkout, name: str) -> dict[str, Any]:
    """The configuration without the learner's settings, and without what is set here."""
    return _without({TRAIN: None, **HERE}, config_of(checkout, name))


def settings_of(checkout: Checkout, name: str) -> dict[str, Any]:
    """rl_games' parameters."""
    found = config_of(checkout, name).get(TRAIN, {})
    return found if isinstance(found, dict) else {}


def _composed(checkout: Checkout, name: str) -> DictConfig:
    with _hydra_of(checkout):
        config = hydra.compose("config", [f"task={name}"])
        plain = hydra.compose("config", ["~task"]) if _refers_to_itself(config) else config
    OmegaConf.set_struct(config, False)
    if plain is not config:  # upstream's programs always pass a number
        config.env.numEnvs = plain.env.numEnvs
    return config


@contextlib.contextmanager
def _hydra_of(checkout: Checkout) -> Iterator[None]:
    """Hydra composes a checkout's configuration, perhaps while it composes livegym's."""
    held = GlobalHydra.instance().hydra
    GlobalHydra.instance().hydra = None
    try:
        with hydra.initialize_config_dir(str(checkout.cfg), version_base=None):
            yield
    finally:
        GlobalHydra.instance().hydra = held


def _refers_to_itself(config: DictConfig) -> bool:
    """Whether a task's yaml says `numEnvs: ${env.numEnvs}`, which means the number of config.yaml."""
    plain: Any = OmegaConf.to_container(config)
    return bool(plain["env"].get("numEnvs") == "${env.numEnvs}")


def _without(left: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """A nested configuration without the keys of `left`, at any depth."""
    return {
        key: _without(left[key], value) if isinstance(value, Mapping) and key in left else value
        for key, value in config.items()
        if key not in left or isinstance(left[key], Mapping)
    }


def _known(values: Mapping[str, Any], config: Any) -> dict[str, Any]:
    """The part of nested values whose keys a configuration has."""
    return {
        key: _known(value, config[key]) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if key in config
    }

"""Check a composed configuration: names, types, ranges, and the rules between keys.

    validate(cfg)                  # UserError: the value, what is allowed, the next move
    num_envs_of(cfg)               # numEnvs, or the default of the mode and the task

An algorithm's own rules (how it splits a batch) are not applied to a test, since one environment can always be watched,
nor if another library trains.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from typing import Any

from omegaconf import DictConfig, OmegaConf

from livegym.cfg.bodies import check_bodies
from livegym.cfg.typed import build, plain, schema_of, to_typed
from livegym.projects import registry
from livegym.schema import RootConfig
from livegym.schema.comparing import WandbKeys
from livegym.schema.keys import Key, Schema, section, value_hint
from livegym.schema.values import check, show
from livegym.utils.errors import UserError

TEST_ENVS = 4  # environments of a test without numEnvs
ENGINE_DEVICE = re.compile(r"cpu|cuda(:\d+)?")


def num_envs_of(cfg: Any) -> int:
    """How many environments a run has; `cfg` is a DictConfig or a RootConfig."""
    if cfg.numEnvs is not None:
        return int(cfg.numEnvs)
    return TEST_ENVS if cfg.mode == "test" else int(cfg.task.num_envs)


def validate(cfg: DictConfig, algorithm: bool = True) -> None:
    """Raises UserError for the first fault; changes nothing. `algorithm`: apply the rules of the trainer, too."""
    content = plain(cfg)
    content.pop("hydra", None)
    _require(Schema(), RootConfig, content, "")
    schema = schema_of(content)
    _require(schema, RootConfig, content, "")
    known = schema.keys(RootConfig)
    for name, value in content.items():
        if name not in known:
            raise schema.unknown(name, f"{name}={value}", "", known)
        check(known[name], value, schema)
    _check_noise(content, schema)
    config = build(RootConfig, content, schema)
    if config.projectDir != registry.project_dir():
        raise UserError(
            f"projectDir={config.projectDir}: a yaml file sets it, and would load code that the command line does not "
            "name. Allowed: on the command line only. Remove it from the yaml."
        )
    check_device(config.device)
    check_bodies(config)
    check_wandb(config)
    _check_start(config)
    _check_episodes_per_version(config)
    if config.online.min_batch_size > config.online.batch_size:
        raise UserError(
            f"online.min_batch_size={config.online.min_batch_size} is more than online.batch_size="
            f"{config.online.batch_size}: nothing would ever be learned. Allowed: at most the batch's size."
        )
    if config.online.min_batch_size > config.online.buffer_capacity:
        raise UserError(
            f"online.min_batch_size={config.online.min_batch_size} is more than online.buffer_capacity="
            f"{config.online.buffer_capacity}: nothing would ever be learned. Allowed: at most the buffer's capacity."
        )
    if algorithm and config.mode == "train":
        config.train.check(num_envs_of(config))


def _require(schema: Schema, cls: type, content: dict[str, Any], prefix: str) -> None:
    for key in schema.keys(cls, prefix).values():
        value = content.get(key.name, key.default)
        if isinstance(value, str) and value == "???":
            raise UserError(
                f"{key.path} is not set, and has no default. Set it in the yaml of its group, or on the command line: "
                f"{key.path}=... ({key.doc.help or 'no description'})"
            )
        if not isinstance(value, dict):
            continue
        inner = section(key.hint)
        if inner is not None:
            _require(schema, inner, value, f"{key.path}.")
        entry = section(value_hint(key.hint))
        if entry is not None:
            for name, entry_content in value.items():
                _require(schema, entry, entry_content, f"{key.path}.{name}.")


def _check_noise(content: dict[str, Any], schema: Schema) -> None:
    blocks = content["task"]["observations"]["policy"]
    for name, value in content["task"].get("noise", {}).items():
        if name not in blocks:
            path = f"task.noise.{name}"
            raise schema.unknown(path, f"{path}={value}", "task.noise", blocks)


def check_device(device: str) -> None:
    """Raises UserError unless the device is cpu, or a CUDA device of this machine."""
    if not ENGINE_DEVICE.fullmatch(device):
        raise UserError(f"device={device}: unknown. Allowed: cpu, cuda, cuda:<n>. For example device=cpu.")
    if device == "cpu":
        return
    import torch  # imported here because it takes seconds, and --help or a wrong key should not wait for it

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    here = ["cpu", *(f"cuda:{i}" for i in range(count))]
    if count == 0 or int(device.partition(":")[2] or 0) >= count:
        what = "there is no CUDA device" if count == 0 else "there is no such CUDA device"
        raise UserError(f"device={device}: {what} on this machine. Allowed: {', '.join(here)}. Use device={here[-1]}.")


def check_wandb(keys: WandbKeys) -> None:
    """Raises UserError if `wandb=true` and the package is missing, or if it is not logged in and must be."""
    if not keys.wandb:
        return
    found = importlib.util.find_spec("wandb")
    if found is None or found.origin is None:  # the stand-in for foreign code has no file
        raise UserError(
            "wandb=true: the package wandb is not installed. Install the extra wandb: pip install 'livegym[wandb]' (in "
            "a checkout: pip install -e '.[wandb]'). Or leave wandb=true out; TensorBoard has the same curves."
        )
    import wandb

    try:
        known = keys.wandbMode == "offline" or wandb.login(prompt=False)
    except (ValueError, wandb.Error) as error:
        raise UserError(
            f"wandb=true: W&B refuses its own settings ({' '.join(str(error).split())[:200]}). Allowed: those in W&B's "
            "documentation. Check the variables WANDB_... and ~/.config/wandb, or leave wandb=true out."
        ) from error
    if not known:
        raise UserError("wandb=true: not logged in to W&B. Log in first: wandb login. Or: wandbMode=offline")


def _check_start(config: RootConfig) -> None:
    if config.keepLast == 0:
        raise UserError("keepLast=0: the newest checkpoint is always kept. Allowed: 1 or more; null or -1 keeps all.")
    if not config.resume:
        return
    if config.mode not in ("train", "continuous"):
        raise UserError(
            f"resume={show(config.resume)}: only a training run can be resumed. Allowed in mode={config.mode}: "
            "resume=false. Use config=train."
        )
    if config.resume is True and config.checkpoint is None:
        raise UserError(
            "resume=true: it needs a run, but checkpoint=null. Allowed: latest, best, a run directory, a unique part "
            "of its name, or a .pth. For example resume=true checkpoint=latest"
        )


def _check_episodes_per_version(config: RootConfig) -> None:
    """Raises UserError for keys that contradict `episodesPerVersion`."""
    if config.mode != "test" or config.episodesPerVersion == 0:
        return
    for given, contradicts, allowed in (
        (
            f"testGamesNum={config.testGamesNum}",
            config.testGamesNum != 0,
            "testGamesNum=0, because the test is endless",
        ),
        ("watch=true", config.watch, "a test without a page"),
        ("viewer=true", config.viewer, "a test without a window"),
        ("swap=blend", config.swap == "blend", "swap=now, because no version begins within an episode"),
        (f"poolEnvs={config.poolEnvs}", config.poolEnvs > 0, "poolEnvs=0, because older versions play there"),
        ("reloadInterval=0", config.reloadInterval == 0, "more than 0 s, because versions would never change"),
        (f"agent={config.agent}", config.agent != "policy", "agent=policy, because others have no versions"),
    ):
        if contradicts:
            raise UserError(
                f"{given} does not fit episodesPerVersion={config.episodesPerVersion}. Allowed: {allowed}. "
                "Leave one of the two out."
            )


STRONGER = (  # (key, the key that replaces it)
    ("saveInterval", "saveFrequency"),
    ("train.max_iterations", "maxIterations"),
    ("task.num_envs", "numEnvs"),
)


def unused_keys(cfg: DictConfig, is_explicit: Callable[[str], bool]) -> list[str]:
    """A sentence for each typed key that has no effect, in this mode or because of another key."""
    beside = [
        f"{weak}={OmegaConf.select(cfg, weak)} has no effect: {strong}={OmegaConf.select(cfg, strong)} replaces it"
        for weak, strong in STRONGER
        if is_explicit(weak) and is_explicit(strong)
    ]
    for key, needed, holds in (
        ("blendSeconds", "swap=blend", cfg.swap == "blend"),
        ("swapGuardMargin", "swapGuard", cfg.swapGuard > 0),
        ("swapGuardConfidence", "swapGuard", cfg.swapGuard > 0),
    ):
        if is_explicit(key) and not holds:
            beside.append(f"{key}={OmegaConf.select(cfg, key)} has no effect: it belongs to {needed}")
    beside += [
        f"train.{name}={OmegaConf.select(cfg, f'train.{name}')} has no effect: it belongs to {needed}"
        for name, needed in to_typed(cfg).train.unused().items()
        if is_explicit(f"train.{name}")
    ]
    return beside + [
        f"{key.path}={cfg[key.name]} has no effect in mode={cfg.mode}: it belongs to {_where(key)}"
        for key in Schema().keys(RootConfig).values()
        if key.doc.mode and not _applies(key, cfg) and is_explicit(key.path)
    ]


def _applies(key: Key, cfg: DictConfig) -> bool:
    watched = cfg.mode == "train" and (cfg.watch or cfg.viewer or cfg.videoRecord or cfg.trainVideoEvery)
    return cfg.mode in key.doc.mode.split() or bool(key.doc.viewers and watched)


def _where(key: Key) -> str:
    modes = " or ".join(f"mode={mode}" for mode in key.doc.mode.split())
    return f"{modes}, or to a training run with watch=true or viewer=true" if key.doc.viewers else modes

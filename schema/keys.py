"""The schema as a tree of named keys, which finds the right name for a mistyped one.

schema = Schema(params=CartpoleParams, train=PPOConfig)
[k.path for k in schema.walk()]        # ["mode", "checkpoint", ..., "train.learning_rate", ...]
schema.find("task.params.max_push")    # Key(path=..., hint=float, ...)
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Optional

from livegym.projects.commands import command
from livegym.schema import KeyDoc, RootConfig, TaskConfig
from livegym.schema.train import DEFAULT, TrainConfig, settings_class
from livegym.utils.errors import UserError, did_you_mean

NO_DOC = KeyDoc(help="")
PRESETS = "config"  # a group at the root that is not a key of the composed configuration

NO_COUNTERPART = {  # a name in similar tools that has no counterpart, folded -> what to use instead
    "multigpu": "A run trains in one process. Several seeds or settings at a time: -m seed=1,2",
    "logger": "The curves are written for TensorBoard (tensorboard --logdir runs), and with wandb=true for W&B",
    "pipeline": "Engine and device are chosen by sim=<engine> and device=cpu or device=cuda",
    "pbt": "There is no population-based training. Several settings in one command: -m train.learning_rate=1e-3,3e-4",
}
NO_COUNTERPART |= {
    "dt": "The physics step is the model's own (MJCF: option timestep); physics.substeps=2 halves it",
    "envspacing": "Environments do not share a scene; viewers place them side by side by themselves",
    "scoretowin": "Training ends after maxIterations; the best checkpoint is kept: checkpoint=best",
    "savebestafter": "The best checkpoint is kept from the first mean return on: checkpoint=best",
    **dict.fromkeys(("distributed", "numgpus", "ddp", "nproc"), NO_COUNTERPART["multigpu"]),
    **dict.fromkeys(("tensorboard", "neptune", "comet", "mlflow"), NO_COUNTERPART["logger"]),
    **dict.fromkeys(("physicsengine", "usegpu", "usegpupipeline", "graphicsdeviceid"), NO_COUNTERPART["pipeline"]),
}

ALIASES = {  # a name in similar tools, folded -> what to type here
    "algo": "train.algorithm",
    "agentcfg": "train",
    "capturevideo": "videoRecord in a test, trainVideoEvery in training",
    "capturevideofreq": "trainVideoEvery",
    "controlfrequencyinv": "task.decimation",
    "episodelength": "task.episode_length_s, which is in seconds",
    "env": "task",
    "experiment": "runsDir",
    "forcerender": "viewer",
    "headless": "config=train_headless or config=test",
    "loadcheckpoint": "checkpoint",
    "loadrun": "checkpoint",
    "logdir": "runsDir",
    "maxepochs": "maxIterations",
    "numactors": "numEnvs",
    "numthreads": "sim.threads",
    "play": "config=test",
    "preset": "config",
    "randomizationparams": "task.randomization",
    "resumepath": "checkpoint",
    "rldevice": "device",
    "rnn": "train.network.recurrent",
    "scalevalue": "train.reward_scale",
    "simdevice": "device",
    "test": "config=test",
}


@dataclass(frozen=True)
class Key:
    """One key of the schema: its path, type, documentation and default."""

    path: str
    hint: Any
    doc: KeyDoc
    default: Any

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


SWITCH = typing.Union[bool, str]
"""The type of a key that is true, false or one of the other words in its `choices`."""


def strip_optional(hint: Any) -> tuple[Any, bool]:
    """(Optional[X]) -> (X, True); (X) -> (X, False). Of several types, X is `Any`, except for a `SWITCH`."""
    if hint == SWITCH:
        return hint, False
    if typing.get_origin(hint) in (typing.Union, UnionType):
        rest = [a for a in typing.get_args(hint) if a is not NoneType]
        optional = len(rest) < len(typing.get_args(hint))
        return (rest[0] if len(rest) == 1 else Any), optional
    return hint, hint is NoneType


def section(hint: Any) -> type | None:
    """The dataclass of a key that is a section; None for any other key."""
    inner, _ = strip_optional(hint)
    return inner if isinstance(inner, type) and dataclasses.is_dataclass(inner) else None


def is_mapping(hint: Any) -> bool:
    """Whether a key is a mapping whose names the yaml chooses (reward terms, noise)."""
    return typing.get_origin(strip_optional(hint)[0]) is dict


def value_hint(hint: Any) -> Any:
    """The type of a mapping's values; None if the key is not a mapping."""
    return typing.get_args(strip_optional(hint)[0])[1] if is_mapping(hint) else None


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default if field.default is not dataclasses.MISSING else "???"


@dataclass(frozen=True)
class Schema:
    """The keys of `RootConfig`.

    `params` is the chosen task's dataclass of parameters, or None if the task is not known. `train` is the settings
    class of the chosen algorithm; None means the default algorithm.
    """

    params: Optional[type] = None
    train: Optional[type[TrainConfig]] = None

    def keys(self, cls: type, prefix: str = "") -> dict[str, Key]:
        """name -> Key of one dataclass; `prefix` is the path of its section with a dot, or '' at the root."""
        hints = typing.get_type_hints(cls)
        if cls is TaskConfig and self.params is not None:
            hints["params"] = self.params
        if issubclass(cls, RootConfig):
            hints["train"] = self.train or settings_class(DEFAULT)
        return {
            f.name: Key(
                path=f"{prefix}{f.name}",
                hint=hints[f.name],
                doc=f.metadata.get("doc", NO_DOC),
                default=_default(f),
            )
            for f in dataclasses.fields(cls)
        }

    def walk(self, cls: type = RootConfig, prefix: str = "") -> Iterator[Key]:
        """Every key below `cls`, sections before their content."""
        for key in self.keys(cls, prefix).values():
            yield key
            inner = section(key.hint)
            if inner is not None:
                yield from self.walk(inner, f"{key.path}.")

    def find(self, path: str, typed: str = "", names: dict[str, list[str]] | None = None) -> Key:
        """The key at a dotted `path`.

        `names` says which names the mappings hold ("task.rewards" -> terms); `typed` is the whole argument, for the
        message. Raises UserError with the nearest name if there is no such key.
        """
        here: Any = RootConfig
        key = Key("", RootConfig, NO_DOC, None)
        for part in path.split("."):
            where = key.path
            if is_mapping(here):
                allowed = (names or {}).get(where)
                if allowed is not None and part not in allowed:
                    raise self.unknown(path, typed, where, allowed)
                key = Key(f"{where}.{part}", value_hint(here), key.doc, None)
            elif (inner := section(here)) is not None:
                siblings = self.keys(inner, f"{where}." if where else "")
                if part not in siblings:
                    raise self.unknown(path, typed, where, siblings)
                key = siblings[part]
            elif here is not Any:
                raise UserError(f"{typed or path}: {where} is a single value and has no keys. Set {where}=...")
            here = key.hint
        return key

    def unknown(self, path: str, typed: str, where: str, siblings: Iterable[str]) -> UserError:
        """The error for a `path` that is not in the schema; `where` is the deepest section that is."""
        names = [*siblings] if where else [PRESETS, *siblings]
        value = f"={typed.partition('=')[2]}" if "=" in typed else ""
        right = self.right_path(path, where, names)
        hint = f" Use {right}{'' if '=' in right or ' ' in right else value}." if right else ""
        instead = "" if right else self.instead_of(path)
        if instead:
            hint = f" {instead}."
        elif not right:
            missing = path[len(where) :].lstrip(".").split(".")[0]
            hint = did_you_mean(missing, names).replace("mean ", f"mean {where}." if where else "mean ")
        scope = f"in {where}" if where else "at the root"
        allowed = f"Allowed {scope}: {', '.join(names) or 'nothing'}. "
        if hint and not where:
            allowed = ""  # the hint would be lost among so many
        return UserError(f"{typed or path}: there is no such key.{hint}\n{allowed}All keys: {command('--help')}")

    def instead_of(self, path: str) -> str:
        """The advice for a key of similar tools that has no counterpart; '' for any other key."""
        return next((NO_COUNTERPART[part] for part in map(fold, path.split(".")) if part in NO_COUNTERPART), "")

    def right_path(self, path: str, where: str, siblings: Iterable[str]) -> str:
        """The right path for a name that was typed in the wrong place or style; '' if it is not known."""
        leaf = path.rpartition(".")[2]
        root = self.keys(RootConfig)
        if where and leaf in root:
            return leaf
        same = [s for s in siblings if fold(s) == fold(path[len(where) :].lstrip("."))]
        if same:
            return f"{where}.{same[0]}" if where else same[0]
        if fold(leaf) in ALIASES:
            return ALIASES[fold(leaf)]
        called = [k.path for k in self.walk() if fold(leaf) in k.doc.aliases]
        if called:
            return called[0]
        elsewhere = [k.path for k in self.walk() if fold(k.name) == fold(leaf)]
        return min(elsewhere, key=lambda p: p.count("."), default="")


def fold(name: str) -> str:
    """A name without case and underscores: num_envs and numEnvs are the same."""
    return name.replace("_", "").replace("-", "").casefold()

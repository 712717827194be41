"""The schema as a tree of named keys, and the way from a mistyped name to the right one.

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
PRESETS = "config"  # a group at the root that leaves no key behind

ALIASES = {  # what other tools of this kind call it, folded -> what to type here
    "env": "task",
    "experiment": "runsDir",
    "headless": "config=train_headless or config=test",
    "maxepochs": "maxIterations",
    "numactors": "numEnvs",
    "play": "config=test",
    "preset": "config",
    "rldevice": "device",
    "simdevice": "device",
    "test": "config=test",
}


@dataclass(frozen=True)
class Key:
    """One key of the schema: where it is, what may be in it, what is known of it."""

    path: str
    hint: Any
    doc: KeyDoc
    default: Any

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


def strip_optional(hint: Any) -> tuple[Any, bool]:
    """(Optional[X]) -> (X, True); (X) -> (X, False)."""
    if typing.get_origin(hint) in (typing.Union, UnionType):
        rest = [a for a in typing.get_args(hint) if a is not NoneType]
        optional = len(rest) < len(typing.get_args(hint))
        return (rest[0] if len(rest) == 1 else Any), optional
    return hint, hint is NoneType


def section(hint: Any) -> type | None:
    """The dataclass that a key holds, if it holds one."""
    inner, _ = strip_optional(hint)
    return inner if isinstance(inner, type) and dataclasses.is_dataclass(inner) else None


def is_mapping(hint: Any) -> bool:
    """Whether a key holds names that the yaml chooses (reward terms, noise)."""
    return typing.get_origin(strip_optional(hint)[0]) is dict


def value_hint(hint: Any) -> Any:
    """What the names of a mapping hold; None if a key is no mapping."""
    return typing.get_args(strip_optional(hint)[0])[1] if is_mapping(hint) else None


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default if field.default is not dataclasses.MISSING else "???"


@dataclass(frozen=True)
class Schema:
    """The keys of `RootConfig`, with `task.params` of the chosen task's dataclass if that is known.

    `train`: the chosen algorithm's keys; None: those of the default one.
    """

    params: Optional[type] = None
    train: Optional[type[TrainConfig]] = None

    def keys(self, cls: type, prefix: str = "") -> dict[str, Key]:
        """name -> Key of one dataclass; `prefix` is the path of the place where it stands."""
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
                raise UserError(f"{typed or path}: {where} holds a value and has no keys of its own. Set {where}=...")
            here = key.hint
        return key

    def unknown(self, path: str, typed: str, where: str, siblings: Iterable[str]) -> UserError:
        """The error for a `path` that is not in the schema; `where` is the deepest section that is."""
        names = [*siblings] if where else [PRESETS, *siblings]
        value = f"={typed.partition('=')[2]}" if "=" in typed else ""
        right = self.right_path(path, where, names)
        hint = f" Use {right}{'' if '=' in right else value}." if right else ""
        if not right:
            missing = path[len(where) :].lstrip(".").split(".")[0]
            hint = did_you_mean(missing, names).replace("mean ", f"mean {where}." if where else "mean ")
        place = f"in {where}" if where else "at the root"
        return UserError(
            f"{typed or path}: there is no such key.{hint}\n"
            f"Allowed {place}: {', '.join(names) or 'nothing'}. All keys: {command('--help')}"
        )

    def right_path(self, path: str, where: str, siblings: Iterable[str]) -> str:
        """Where a name that was typed in the wrong place or style belongs; '' if that is not known."""
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

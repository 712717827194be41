"""A composed configuration as plain Python: dataclasses for code, dictionaries and strict YAML for files.

config = to_typed(cfg)            # RootConfig; config.task.params is the task's own dataclass
text = yaml_text(cfg)             # resolved, secrets hidden, readable by any YAML parser
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from livegym.projects.record import PROJECT, record
from livegym.rundir.provenance import REDACTED, SECRET_WORDS, redact_values, redact_yaml, secret_values
from livegym.schema import RootConfig
from livegym.schema.keys import Schema, section, strip_optional
from livegym.schema.train import DEFAULT, settings_class
from livegym.tasks import TASKS
from livegym.utils.errors import UserError, not_one_of
from livegym.utils.files import atomic_write_text
from livegym.utils.nested import look_up

T = TypeVar("T")


def plain(cfg: DictConfig) -> dict[str, Any]:
    """The resolved configuration as a dictionary. Raises UserError for an interpolation that does not resolve."""
    try:
        content = OmegaConf.to_container(cfg, resolve=True)
    except (OmegaConfBaseException, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        key = getattr(error, "full_key", "") or ""
        raise UserError(
            f"{key}={_raw(cfg, key)}: the interpolation does not resolve: {reason}.\n"
            "Allowed: the path of another key, such as ${numEnvs}, or ${oc.env:NAME}, in single quotes for the shell."
        ) from error
    return typing.cast(dict[str, Any], content)


def _raw(cfg: DictConfig, path: str) -> str:
    return str(look_up(OmegaConf.to_container(cfg, resolve=False), path))


def params_class(content: dict[str, Any]) -> type:
    """The parameter dataclass of the task that `content` names. Raises UserError for an unknown task."""
    name = content["task"]["name"]
    if name not in TASKS:
        raise not_one_of("task.name", name, TASKS)
    return TASKS[name].Params


def schema_of(content: dict[str, Any]) -> Schema:
    """The schema with the keys of the task and the algorithm that `content` names.

    Raises UserError if one of them is unknown, or cannot be loaded.
    """
    return Schema(params_class(content), settings_class(content["train"].get("algorithm", DEFAULT)))


def to_typed(cfg: DictConfig) -> RootConfig:
    """Plain dataclass instances, all interpolations resolved; keys that are missing take the schema's default."""
    content = plain(cfg)
    return build(RootConfig, content, schema_of(content))


def build(cls: type[T], content: dict[str, Any], schema: Schema) -> T:
    """An instance of `cls` (a dataclass of the schema) from a dictionary; unknown names are dropped."""
    keys = schema.keys(cls)
    return cls(**{name: _convert(keys[name].hint, v, schema) for name, v in content.items() if name in keys})


def _convert(hint: Any, value: Any, schema: Schema) -> Any:
    inner, _ = strip_optional(hint)
    cls = section(hint)
    if value is None:
        return None
    if cls is not None:
        return build(cls, value, schema)
    origin, args = typing.get_origin(inner), typing.get_args(inner)
    if origin is tuple:
        hints = [args[0]] * len(value) if Ellipsis in args else args
        return tuple(_convert(h, v, schema) for h, v in zip(hints, value, strict=True))
    if origin is list:
        return [_convert(args[0], v, schema) for v in value]
    if origin is dict:
        return {k: _convert(args[1], v, schema) for k, v in value.items()}
    return float(value) if inner is float else value


def is_secret(name: str) -> bool:
    """Whether a key's value must not reach files and logs."""
    return any(word in name.casefold() for word in SECRET_WORDS)


def redacted(content: Any) -> Any:
    """A copy in which the values of secret keys are hidden, even in lists of `key=value` texts."""
    if isinstance(content, dict):
        return {k: REDACTED if is_secret(str(k)) and v is not None else redacted(v) for k, v in content.items()}
    if isinstance(content, list):
        return [redacted(v) for v in content]
    if isinstance(content, str) and "=" in content and is_secret(content.partition("=")[0]):
        return f"{content.partition('=')[0]}={REDACTED}"
    return content


def resolved_dict(cfg: DictConfig) -> dict[str, Any]:
    """The resolved configuration with secrets hidden, for files and logs."""
    return typing.cast(dict[str, Any], redacted(plain(cfg)))


def as_dict(config: RootConfig) -> dict[str, Any]:
    """A typed configuration as plain values with secrets hidden, as it is embedded in checkpoints.

    In addition to the keys, `project` names the task's project (`projects.record`).
    """
    content = redacted(plain_dict(config))
    return {**content, PROJECT: record(config.task.name)}


def plain_dict(config: RootConfig) -> dict[str, Any]:
    """A typed configuration as plain values, including secrets, for a child process."""
    return typing.cast(dict[str, Any], _listed(dataclasses.asdict(config)))


def _listed(content: Any) -> Any:
    if isinstance(content, dict):
        return {k: _listed(v) for k, v in content.items()}
    return [_listed(v) for v in content] if isinstance(content, (list, tuple)) else content


def yaml_text(cfg: DictConfig, *, resolve: bool = True) -> str:
    """Strict YAML with secrets hidden; `resolve=False` keeps interpolations."""
    content = resolved_dict(cfg) if resolve else redacted(OmegaConf.to_container(cfg, resolve=False))
    return to_yaml(content)


def to_yaml(content: dict[str, Any]) -> str:
    """Strict YAML of plain values: every YAML parser reads numbers as numbers."""
    return OmegaConf.to_yaml(OmegaConf.create(content))


def hide_secrets(path: Any) -> None:
    """Rewrite a YAML file, such as one by Hydra, without its secrets; the replacement is atomic."""
    text = path.read_text()
    hidden = redact_values(redact_yaml(text), secret_values([], text))
    if hidden != text:
        atomic_write_text(path, hidden)

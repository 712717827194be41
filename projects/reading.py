"""Read the files of a project, which are written by hand: text, yaml, TOML.

    mapping_of(Path("my_robot/cfg/task/MyRobot.yaml"))["name"]

Each fault in a file becomes a UserError that names the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from livegym.utils.errors import UserError


def text_of(file: Path) -> str:
    """The text of a file. Raises UserError if it cannot be read, or is not UTF-8."""
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise _unreadable(file, error, "text in UTF-8") from error


def bytes_of(file: Path) -> bytes:
    """The bytes of a file. Raises UserError if it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error, "a file that you may read") from error


def mapping_of(file: Path) -> dict[str, Any]:
    """A yaml file's keys; {} if it is empty. Raises UserError if it cannot be read, or holds no keys."""
    try:
        content = yaml.safe_load(text_of(file))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a 13th month
        raise _unreadable(file, error, "a yaml file of key: value") from error
    if not isinstance(content, (dict, type(None))):
        raise UserError(f"{file}: holds {content!r:.60}. Allowed: key: value, one per line. Fix it, or remove it.")
    return content or {}


def pyproject_of(folder: Path) -> dict[str, Any]:
    """A folder's pyproject.toml; {} if it has none. Raises UserError if it cannot be read."""
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(text_of(file)) if file.is_file() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(file, error, "TOML") from error


def table(file: Path, content: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """A table of a TOML file; {} if it is missing. Raises UserError if the name holds a value instead."""
    node: Any = content
    for i, key in enumerate(path):
        node = node.get(key, {})
        if not isinstance(node, dict):
            name = ".".join(f'"{part}"' if "." in part else part for part in path[: i + 1])
            raise UserError(f"{file}: {name} must be a table, but is {node!r}. Write [{name}], or remove it.")
    return node


def text_in(file: Path, values: Mapping[str, Any], key: str) -> str:
    """A text of a TOML table; '' if it is missing. Raises UserError for anything but text in one line."""
    value = values.get(key, "")
    if not isinstance(value, str) or not (value.isprintable() or not value):
        raise UserError(f'{file}: {key} = {value!r} must be text. Write {key} = "..." in quotes, or remove it.')
    return value


def _unreadable(file: Path, error: Exception, allowed: str) -> UserError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return UserError(f"{file}: cannot be read ({reason}). Allowed: {allowed}. Fix it, or remove it.")

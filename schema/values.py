"""Check the value of a key: its type, range and choices. The error says what to type instead.

OmegaConf converts values silently (`resume=2` becomes true, `numEnvs=true` becomes 1), so values are checked as they
were typed, before OmegaConf sees them, and again after composition.

    check(key, 2)     # UserError: resume=2: not true or false. Allowed: true, false. ...
"""

from __future__ import annotations

import math
import shlex
import typing
from dataclasses import dataclass, replace
from typing import Any

from hydra.core.override_parser.types import Quote, QuotedString

from livegym.schema import KeyDoc
from livegym.schema.keys import SWITCH, Key, Schema, is_mapping, section, strip_optional
from livegym.utils.errors import UserError, did_you_mean

NULL_WORDS = ("", "none", "null", "nil", "~")


def show(value: Any) -> str:
    """A value as it is typed on the command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, QuotedString):
        return value.with_quotes()
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "}"
    return str(value)


def allowed(key: Key) -> str:
    """The values that a key accepts, as text: 'a whole number of at least 1, or null'."""
    inner, optional = strip_optional(key.hint)
    return _kind(key, inner) + (", or null" if optional else "")


def _kind(key: Key, inner: Any) -> str:
    if key.doc.allowed:
        return ", ".join(key.doc.allowed)
    if inner is bool:
        return "true, false"
    if inner in (int, float):
        return ("a whole number" if inner is int else "a number") + _range(key.doc)
    if inner is str:
        return "text"
    if inner is Any:
        return "any value"
    if typing.get_origin(inner) in (list, tuple):
        return "a list such as [64, 64]" if int in typing.get_args(inner) else "a list such as [a, b]"
    return "names with values, such as {name: value}"


def _range(doc: KeyDoc) -> str:
    if doc.above is not None:
        return f" above {doc.above:.12g}" + (f", up to {doc.high:.12g}" if doc.high is not None else "")
    if doc.low is not None and doc.high is not None:
        return f" from {doc.low:.12g} to {doc.high:.12g}"
    return f" of at least {doc.low:.12g}" if doc.low is not None else ""


def check(key: Key, value: Any, schema: Schema | None = None, typed: str | None = None) -> None:
    """Raises UserError unless `key` accepts `value`.

    `value` is a plain value or a result of Hydra's parser; `typed` is the text that the user wrote, for the message.
    """
    _Check(schema or Schema(), key.path, typed).value(key, value)


@dataclass(frozen=True)
class _Check:
    schema: Schema
    asked: str  # the key that the user named; errors inside a list or mapping name their own path
    typed: str | None  # the value as the user wrote it

    def value(self, key: Key, value: Any) -> None:
        inner, optional = strip_optional(key.hint)
        if value is None and optional:
            return
        if isinstance(value, str) and "${" in value:
            return  # an interpolation: checked when it is resolved
        cls = section(key.hint)
        if cls is not None:
            self._section(key, cls, value)
        elif is_mapping(key.hint) or typing.get_origin(inner) in (list, tuple):
            self._container(key, inner, value)
        elif inner in _SCALARS:
            problem = _SCALARS[inner](key, value)
            if problem:
                raise refuse(key, value, problem, self.typed if key.path == self.asked else None)

    def _section(self, key: Key, cls: type, value: Any) -> None:
        if not isinstance(value, dict):
            example = next(iter(self.schema.keys(cls, f"{key.path}.").values()), None)
            hint = f" Set its keys one by one, e.g. {example.path}={show(example.default)}." if example else ""
            raise UserError(f"{key.path}={show(value)}: {key.path} is a section, not a value.{hint}")
        known = self.schema.keys(cls, f"{key.path}.")
        for name, item in value.items():
            text = plain_text(name)
            if text not in known:
                raise self.schema.unknown(f"{key.path}.{text}", f"{key.path}.{text}={show(item)}", key.path, known)
            self.value(known[text], item)

    def _container(self, key: Key, inner: Any, value: Any) -> None:
        args = typing.get_args(inner)
        if is_mapping(key.hint):
            if not isinstance(value, dict):
                raise refuse(key, value, "not names with values")
            for name, item in value.items():
                self.value(replace(key, path=f"{key.path}.{plain_text(name)}", hint=args[1]), item)
            return
        if not isinstance(value, (list, tuple)):
            raise refuse(key, value, "not a list")
        fixed = typing.get_origin(inner) is tuple and Ellipsis not in args
        if fixed and len(value) != len(args):
            raise refuse(key, value, f"{len(value)} entries instead of {len(args)}")
        for i, item in enumerate(value):
            self.value(replace(key, path=f"{key.path}.{i}", hint=args[i] if fixed else args[0]), item)


def plain_text(value: Any) -> str:
    """Text without the quotes of Hydra's grammar."""
    return value.text if isinstance(value, QuotedString) else str(value)


def _bool(key: Key, value: Any) -> str:
    return "" if isinstance(value, bool) else "not true or false"


def _switch(key: Key, value: Any) -> str:
    """A key that is true, false or one of its other words."""
    words = [word for word in key.doc.allowed if word not in ("true", "false")]
    return "" if isinstance(value, bool) or plain_text(value) in words else "unknown"


def _number(key: Key, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "no value given" if plain_text(value) == "" else "not a number"
    if not math.isfinite(value):
        return "not a finite number"
    doc = key.doc
    below = (doc.low is not None and value < doc.low) or (doc.above is not None and value <= doc.above)
    return "too small" if below else "too large" if doc.high is not None and value > doc.high else ""


def _whole(key: Key, value: Any) -> str:
    problem = _number(key, value)
    if not problem and not isinstance(value, int):
        return "not a whole number"
    return problem


def _text(key: Key, value: Any) -> str:
    if isinstance(value, (list, dict)) or value is None:
        return "not text"
    text = plain_text(value)
    if text == "":
        return "no value given"
    if strip_optional(key.hint)[1] and text.casefold() in NULL_WORDS:
        return "text, not null"
    return "unknown" if key.doc.allowed and text not in key.doc.allowed else ""


_SCALARS = {bool: _bool, int: _whole, float: _number, str: _text, SWITCH: _switch}


def refuse(key: Key, value: Any, problem: str, typed: str | None = None) -> UserError:
    """The error for a value: what it is, what is allowed, what to type instead."""
    shown = show(value) if typed is None else typed
    hint = did_you_mean(plain_text(value), key.doc.allowed) or _next_move(key, value, shown)
    return UserError(f"{key.path}={shown}: {problem}. Allowed: {allowed(key)}.{hint}")


def _next_move(key: Key, value: Any, shown: str) -> str:
    inner, optional = strip_optional(key.hint)
    text = plain_text(value)
    if optional and isinstance(value, (str, QuotedString)) and text.casefold() in NULL_WORDS:
        return f" Write {key.path}=null for none."
    if inner is int and isinstance(value, float) and math.isfinite(value) and value == int(value):
        return f" Write {key.path}={int(value)}."
    if inner is bool:
        return f" Write {key.path}=true or {key.path}=false."
    if inner in (int, float) and isinstance(value, QuotedString):
        return " Leave the quotes out."
    if inner is str and isinstance(value, (list, dict)):
        quoted = QuotedString(shown, Quote.double).with_quotes()
        return f" To take it as text, quote it: {shlex.quote(f'{key.path}={quoted}')}"
    return f" For example {key.doc.example}." if key.doc.example else ""

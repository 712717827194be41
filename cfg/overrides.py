"""Parse the command line's `key=value` arguments with Hydra's grammar, and check them before Hydra composes them.

parse(["task=Ant", "seed=1,2"])        # Hydra's Override objects; UserError with the right quoting
jobs(parsed)                           # the override lists that a sweep must be able to compose
quoted("checkpoint", "/a b/ep=1.pth")  # checkpoint="/a b/ep=1.pth"  (as Hydra must get it)
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, Quote, QuotedString
from hydra.errors import HydraException

from livegym.projects.commands import program
from livegym.schema.keys import Key
from livegym.utils.errors import UserError

OWN_OPTIONS = ("--help", "--list-tasks", "--multirun", "--cfg", "--resolve", "--package", "--info", "--hydra-help")
RANDOMIZATION = re.compile(r"task\.randomization\.\w+")
DRIVE = re.compile(r"task\.drives\.\w+")
PLAIN_PATH = re.compile(r"[\w.-]*/[\w./-]+", re.ASCII)  # neither the shell nor Hydra reads anything into it
_MARKS = set("\"'[({\\")  # in a list that is more than names
KEY_SHAPE = re.compile(r"\w[\w$-]*([./]\w[\w$-]*)*(@[\w.:]*)?")


def quoted(key: str, text: str) -> str:
    """`key="text"`, quoted so that Hydra's parser returns exactly `text`."""
    quote = Quote.double if '"' not in text else Quote.single
    return f"{key}={QuotedString(text.replace('${', chr(92) + '${'), quote).with_quotes()}"


def typed_safely(key: str, text: str) -> str:
    """The argument to type in a shell so that `key` becomes `text`; ~ is expanded, as no shell does there."""
    text = os.path.expanduser(text)
    return f"{key}={text}" if PLAIN_PATH.fullmatch(text) else shlex.quote(quoted(key, text))


def split(argument: str) -> tuple[str, str, str]:
    """'++a.b=1' -> ('++', 'a.b', '=1'); without '=' the last part is ''."""
    name = argument.lstrip("+~")
    key, equals, value = name.partition("=")
    return argument[: len(argument) - len(name)], key, equals + value


def spelt_out(argument: str, files: Mapping[str, Key]) -> str:
    """Turn `asset=hand.xml` into `task.params.asset="/home/you/hand.xml"`, which is valid from any directory.

    `files` maps what may be typed for a parameter that names a file to its key; those of its values that are names
    (`KeyDoc.names`) stay as they are. Raises UserError for an empty path.
    """
    _, typed, value = split(argument)
    if typed not in files or not value:
        return argument
    key, names = files[typed].path, files[typed].doc.names
    if value == "=null":
        return f"{key}=null"
    if value in ("=", '=""', "=''"):
        raise UserError(f"{argument}: no value given. Allowed: the path of a file; {typed}=null for the task's own.")
    paths = [v.text if isinstance(v, QuotedString) else str(v) for v in values(parse([argument])[0])]
    full = [
        quoted("", p if p in names else os.path.abspath(os.path.expanduser(p))) for p in paths
    ]  # each begins with =
    return f"{key}={','.join(text.removeprefix('=') for text in full)}"


def as_list(argument: str, lists: Iterable[str]) -> str:
    """Turn `runs=Ant` into `runs=[Ant]` if the key is one of `lists`, which hold texts; numbers in it become texts.

    A sweep is left as it is: each of its values must be a list.
    """
    prefix, key, value = split(argument)
    if key not in lists or value in ("", "="):
        return argument
    typed = parse([argument])[0]._value
    raw = value[1:].strip()
    if isinstance(typed, list) and any(isinstance(v, (bool, int, float)) for v in typed) and not set(raw[1:]) & _MARKS:
        return f"{prefix}{key}=[{','.join(_quote(part.strip()) for part in raw[1:-1].split(','))}]"
    if isinstance(typed, (bool, int, float)):
        return f"{prefix}{key}=[{_quote(raw)}]"
    return f"{prefix}{key}=[{raw}]" if isinstance(typed, (str, QuotedString)) else argument


def parse(arguments: Sequence[str], loader: ConfigLoader | None = None) -> list[Override]:
    """Parse the arguments as Hydra does; glob sweeps need the `loader`.

    Raises UserError for malformed and repeated arguments, deletions and `+defaults`.
    """
    parser = OverridesParser.create(config_loader=loader)
    parsed: list[Override] = []
    first_typed: dict[str, str] = {}
    for argument in arguments:
        _refuse_shape(argument)
        try:
            override = parser.parse_overrides([argument])[0]
        except HydraException as error:
            raise _malformed(argument) from error
        _refuse_kind(override, argument)
        if override.key_or_group in first_typed:
            raise UserError(
                f"{argument}: {override.key_or_group} is given twice, first as {first_typed[override.key_or_group]}. "
                f"Keep one of them; to run both, type -m {override.key_or_group}=<one>,<other>"
            )
        first_typed[override.key_or_group] = argument
        parsed.append(override)
    return parsed


def _refuse_shape(argument: str) -> None:
    _, key, value = split(argument)
    if f"--{key}" in OWN_OPTIONS and not value:
        raise UserError(f"{argument}: an option is typed with two dashes. Write --{key}")
    if not value and not argument.startswith("~"):
        raise UserError(f"{argument}: not key=value. Allowed: key=value, such as seed=0. Write {key or 'key'}=<value>")
    if not key.strip():
        raise UserError(f"{argument}: no key before '='. Allowed: key=value, such as seed=0")
    if key != key.strip():
        raise UserError(f"{argument}: no blanks around '='. Allowed: key=value. Write {key.strip()}{value}")
    if not KEY_SHAPE.fullmatch(key):
        raise UserError(f"{argument}: {key} cannot be a key. Allowed: names joined by dots, e.g. train.learning_rate")


def _malformed(argument: str) -> UserError:
    _, key, value = split(argument)
    if value.startswith(("==", "=+=")):
        return UserError(f"{argument}: one '=' too many. Allowed: key=value. Write {key}={value.lstrip('=+')}")
    text = value[1:].strip("\"'")
    return UserError(
        f"{argument}: the value cannot be read: blanks, quotes and = , : [ ] {{ }} ( ) ~ have a meaning for Hydra.\n"
        f"Allowed: the value in quotes, and the whole argument in quotes for the shell:\n    {typed_safely(key, text)}"
    )


def _refuse_kind(override: Override, argument: str) -> None:
    key = override.key_or_group
    if key == "defaults":
        raise UserError(
            f"{argument}: Hydra ignores a defaults list on the command line. "
            "Choose groups by name: config=..., task=..., train=..., sim=..., physics=..."
        )
    if override.is_delete() and not override.is_hydra_override():
        instead = f"{key}.enabled=false" if RANDOMIZATION.fullmatch(key) else f"{key}=null if the key may be null"
        raise UserError(f"{argument}: keys cannot be deleted. Allowed: key=value; {instead}.")
    if RANDOMIZATION.fullmatch(key) and override._value is None:
        raise UserError(f"{argument}: an entry cannot be null. To switch it off: {key}.enabled=false")
    if DRIVE.fullmatch(key) and override._value is None:
        raise UserError(f"{argument}: an entry cannot be null. Change its values: {key}.stiffness=...")
    if override.package is not None and not override.is_hydra_override():
        raise UserError(f"{argument}: a group's place is fixed. Allowed: {key}=<name>. Leave @{override.package} out.")


def refuse_intervals(parsed: Iterable[Override]) -> None:
    """Raises UserError for an interval if Hydra's own sweeper runs the jobs: it needs single values."""
    if any(override.key_or_group == "hydra/sweeper" for override in parsed):
        return
    for override in parsed:
        if override.is_sweep_override() and not override.is_discrete_sweep():
            raise UserError(
                f"{override.input_line}: an interval does not name single values. Allowed: a,b,c, "
                "range(start,stop,step) or choice(a,b,c), with -m; with hydra/sweeper=optuna also intervals"
            )


def values(override: Override) -> list[object]:
    """The value, each value of a sweep, or the ends of an interval, as Hydra's grammar reads them.

    Quoted text stays a QuotedString.
    """
    if not override.is_sweep_override():
        return [override._value]
    if isinstance(override._value, IntervalSweep):
        return [override._value.start, override._value.end]
    return list(override.sweep_iterator())


def texts(override: Override) -> list[str]:
    """The override, or one override for each value of a sweep, as text."""
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if not override.is_discrete_sweep():
        return [f"{override.get_key_element()}={end}" for end in values(override)]
    return [f"{override.get_key_element()}={text}" for text in override.sweep_string_iterator()]


def typed_texts(override: Override) -> list[str]:
    """As `texts`, but values as they were typed: `train.learning_rate=3e-4` instead of `0.0003`."""
    raw, value = override.get_value_string(), override._value
    if isinstance(value, ChoiceSweep) and value.simple_form and not set(raw) & _MARKS:
        return [f"{override.get_key_element()}={part.strip()}" for part in raw.split(",")]
    return texts(override)


def refuse_sweep(override: Override, is_text: bool) -> None:
    """Raises UserError for several values in one key, in a run without -m."""
    if not override.is_sweep_override():
        return
    key, raw = override.key_or_group, override.get_value_string()
    hint = f"\nFor one text with commas: {typed_safely(key, raw)}" if is_text else ""
    raise UserError(
        f"{override.input_line}: one value is allowed here. "
        f"Several values need -m, one job each: {program()} -m {shlex.quote(str(override.input_line))}{hint}"
    )


def jobs(parsed: Sequence[Override]) -> list[list[str]]:
    """Override lists that together contain each value of a sweep.

    The first list has the first value of every key. Each further list changes one key to another of its values.
    Composing them finds each value that is invalid by itself, without composing the whole product.
    """
    columns = [texts(o) for o in parsed]
    if not all(columns):
        empty = next(o for o, c in zip(parsed, columns, strict=True) if not c)
        raise UserError(f"{empty.input_line}: matches no value, so there is nothing to run. Give at least one.")
    first = [c[0] for c in columns]
    others = [[*first[:i], text, *first[i + 1 :]] for i, c in enumerate(columns) for text in c[1:]]
    return [first, *others]


def count_jobs(parsed: Iterable[Override]) -> int:
    """How many jobs a sweep runs."""
    return math.prod(len(texts(o)) for o in parsed)


def as_text(override: Override) -> str:
    """The override with numbers and booleans turned back into the text that was typed.

    Hydra reads `checkpoint=20250801_095943` as the number 20250801095943; a key that holds text must keep the text.
    """
    raw = override.get_value_string().strip()
    value = override._value
    if isinstance(value, (bool, int, float)):
        return f"{override.get_key_element()}={_quote(raw)}"
    numeric = isinstance(value, ChoiceSweep) and any(isinstance(v, (bool, int, float)) for v in value.list)
    if numeric and not set(raw) & set("\"'[](){}\\"):
        return f"{override.get_key_element()}={','.join(_quote(part.strip()) for part in raw.split(','))}"
    return str(override.input_line)


def _quote(text: str) -> str:
    return QuotedString(text, Quote.single).with_quotes()

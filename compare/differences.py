"""Differences between the typed settings of several runs: the seed, a learning rate, a physics preset.

    differences(runs)[run]      # {"seed": "1", "train.learning_rate": "1e-3"}

Compared are the keys that were typed for at least one of the runs; a run for which a key was not typed has the value of
its configuration. Keys that only say where a run is stored and who watches it are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from livegym.rundir.provenance import read_overrides, read_yaml
from livegym.rundir.run import Run
from livegym.schema.watching import WatchingKeys
from livegym.utils.nested import look_up

IGNORED = {
    "config", "mode", "task", "checkpoint", "resume", "runsDir", "projectDir", "logLevel",
    *(field.name for field in dataclasses.fields(WatchingKeys)),
}  # fmt: skip
UNKNOWN = "?"

Differences = dict[Run, dict[str, str]]
"""Run -> key -> value, for the keys whose values are not the same in all of the runs that are compared."""


def differences(runs: Sequence[Run]) -> Differences:
    """Run -> key -> value, for the keys whose values are not the same in all of these runs.

    Names are no keys here: runs of two machines may have the same one.
    """
    typed = {run: typed_settings(run) for run in runs}
    keys = list(dict.fromkeys(key for settings in typed.values() for key in settings if key not in IGNORED))
    values = {run: _values(run, typed[run], keys) for run in runs}
    differ = [key for key in keys if len({settings[key] for settings in values.values()}) > 1]
    return {run: {key: settings[key] for key in differ} for run, settings in values.items()}


def differences_by_kind(runs: Sequence[Run]) -> Differences:
    """As `differences`, but only runs of the same task and kind are compared with one another."""
    found: Differences = {}
    for kind in dict.fromkeys((run.task, run.kind) for run in runs):
        found |= differences([run for run in runs if (run.task, run.kind) == kind])
    return found


def in_words(settings: dict[str, str]) -> str:
    """`{"seed": "1", "train.tau": "0.9"}` -> "seed=1 train.tau=0.9"."""
    return " ".join(f"{key}={value}" for key, value in settings.items())


def typed_settings(run: Run) -> dict[str, str]:
    """Key -> value as typed; {} if the record cannot be read."""
    found = {}
    for argument in read_overrides(run.path):
        key, equals, value = argument.lstrip("+~").partition("=")
        if equals:
            found[key] = value
    return found


def _values(run: Run, typed: dict[str, str], keys: Sequence[str]) -> dict[str, str]:
    """Key -> value. The configuration is read only if a key was not typed."""
    config = read_yaml(run.config_file) if set(keys) - typed.keys() else None
    return {key: typed[key] if key in typed else _value(config, key) for key in keys}


def _value(config: Any, path: str) -> str:
    """The value at `path` as it would be typed; `?` if the configuration has none, or a section."""
    node = look_up(config, path, UNKNOWN)
    if isinstance(node, dict):
        return "default"  # a group, such as physics=fast, that was not typed
    if node is None or isinstance(node, bool):
        return {None: "null", True: "true", False: "false"}[node]
    return str(node)

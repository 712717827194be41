"""A run's saved configuration, seen again by a later session.

A test knows its run: task and training settings come from the run, everything else from the session. Keys that an
old run lacks take the schema's default; keys that the schema no longer has are dropped with a word. What the command
line says inside `task.` applies last.

    config = with_run_config(config, state["config"], explicit_task="Ant", overrides=["task.rewards.forward=2"])
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import MISSING, OmegaConf

from cfg.keys import Schema, section
from cfg.schema import PPOConfig, RootConfig, TaskConfig
from cfg.typed import as_dict, build
from utils.errors import UserError, not_one_of

log = logging.getLogger(__name__)

FROM_RUN = ("task", "train")
SESSION = (  # keys that a resumed run takes from the command line where they are given there
    "maxIterations", "saveInterval", "saveFrequency", "keepLast", "keepEvery", "logLevel", "checks", "device",
    "sim.threads",
)  # fmt: skip
ALWAYS_SESSION = ("mode", "checkpoint", "resume", "runsDir")


def with_run_config(
    config: RootConfig, saved: dict[str, Any] | None, explicit_task: str | None, overrides: Iterable[str]
) -> RootConfig:
    """The session's configuration with the run's task and training settings. `config` is not changed.

    `saved`: the configuration out of a checkpoint, None in a plain rl_games file, which is then of `explicit_task`.
    Raises UserError where the command line contradicts the run, or the run's configuration cannot be used.
    """
    if saved is None:
        if explicit_task is None:
            raise UserError(
                "this is a plain rl_games checkpoint: it does not say what it was trained for. "
                "Name its task, and its network where that is not the task's own: task=<Task> train.network.units=[...]"
            )
        return config
    name = _task_name(saved)
    if explicit_task not in (None, name):
        raise UserError(
            f"task={explicit_task} contradicts the checkpoint, which is of task {name}. "
            f"Leave task= out, or choose a checkpoint of {explicit_task}."
        )
    content = {part: copy.deepcopy(saved[part]) for part in FROM_RUN}
    _apply(content, overrides)
    return dataclasses.replace(config, **typed_parts(content, name))


def resumed_config(config: RootConfig, saved: dict[str, Any], given: Iterable[str]) -> RootConfig:
    """The run's own configuration, but for the few keys that may change while it is continued.

    `config` is this command line's, `given` the paths of the keys that it names itself. Raises UserError where one of
    those contradicts the run.
    """
    name, session = _task_name(saved), as_dict(config)
    before = _typed(saved, name)
    saved = as_dict(before)  # what an old run lacks has the schema's default
    given = [path for path in given if path not in ("config", *ALWAYS_SESSION)]
    for path in given:
        mine, theirs = _at(session, path), _at(saved, path)
        if path not in SESSION and mine != theirs:
            raise UserError(
                f"{path}={_shown(mine)} contradicts the run, which has {_shown(theirs)}: "
                f"resume=true continues it exactly. "
                f"Leave {path} out, or start a new run from these weights: leave resume=true out."
            )
    content = {**saved, **{part: session[part] for part in ALWAYS_SESSION}}
    for path in given:
        parent, _, leaf = path.rpartition(".")
        if path in SESSION:
            (content[parent] if parent else content)[leaf] = _at(session, path)
    return _typed(content, name)


def _typed(content: dict[str, Any], task_name: str) -> RootConfig:
    """A whole saved configuration as dataclasses."""
    rest = {k: v for k, v in content.items() if k not in FROM_RUN}
    _say_dropped(list(_unknown(rest, RootConfig, Schema(), "")))
    return dataclasses.replace(build(RootConfig, rest, Schema()), **typed_parts(content, task_name))


def _say_dropped(unknown: list[str]) -> None:
    if unknown:
        log.warning("dropped keys of the run that this version does not know: %s", ", ".join(unknown))


def _at(content: dict[str, Any], path: str) -> Any:
    node: Any = content
    for name in path.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node


def _shown(value: Any) -> Any:
    return value.get("name", "{...}") if isinstance(value, dict) else value


def typed_parts(content: dict[str, Any], task_name: str) -> dict[str, Any]:
    """`task` and `train` of a saved configuration as dataclasses.

    Raises UserError where a key without a default is missing.
    """
    from tasks import TASKS

    schema = Schema(TASKS[task_name].Params)
    parts: dict[str, Any] = {}
    for part, cls in (("task", TaskConfig), ("train", PPOConfig)):
        _say_dropped(list(_unknown(content[part], cls, schema, part)))
        parts[part] = build(cls, content[part], schema)
        missing = [f.name for f in dataclasses.fields(cls) if getattr(parts[part], f.name) == MISSING]
        if missing:
            raise UserError(
                f"the run's configuration lacks {part}.{missing[0]}, which has no default. "
                f"Give it on the command line: {part}.{missing[0]}=..."
            )
    return parts


def _task_name(saved: dict[str, Any]) -> str:
    from tasks import TASKS

    if not all(isinstance(saved.get(part), dict) for part in FROM_RUN):
        raise UserError("the checkpoint's configuration has no task and train sections; it cannot be used.")
    name = saved["task"].get("name")
    if name not in TASKS:
        raise not_one_of("the checkpoint's task", name, TASKS)
    return str(name)


def _apply(content: dict[str, Any], overrides: Iterable[str]) -> None:
    """Sets the keys of `overrides` that lie inside `task.`; those inside `train.` contradict the run."""
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        part, _, rest = override.key_or_group.partition(".")
        if part == "train" and rest:
            raise UserError(
                f"{override.input_line}: training settings come from the checkpoint's run in a test. Leave it out."
            )
        if part == "task" and rest:
            node = OmegaConf.create(content[part])
            OmegaConf.update(node, rest, override.value(), merge=True, force_add=True)
            content[part] = OmegaConf.to_container(node)


def _unknown(content: dict[str, Any], cls: type, schema: Schema, path: str) -> Iterator[str]:
    keys = schema.keys(cls)
    for name, value in content.items():
        if name not in keys:
            yield f"{path}.{name}".lstrip(".")
        elif (inner := section(keys[name].hint)) is not None and isinstance(value, dict):
            yield from _unknown(value, inner, schema, f"{path}.{name}")

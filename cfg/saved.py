"""Use a run's saved configuration in a later session.

In a test, what the policy was trained with (task, training settings, physics) comes from the run, and everything else
from the session; `cfg/origin.py` lists every key. Keys that an old run lacks get the schema's default; keys that the
schema no longer has are dropped, and the log names them. Typed keys of `task.*` and `physics.*` are applied last, and
one line of the log says how they differ from the run.

    config = with_run_config(config, state["config"], explicit_task="Ant", overrides=["task.rewards.forward=2"])
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import MISSING, OmegaConf

from livegym.cfg.bodies import check_bodies
from livegym.cfg.origin import Origin, paths
from livegym.cfg.overrides import split
from livegym.cfg.typed import as_dict, build
from livegym.projects import registry
from livegym.projects.record import PROJECT, no_such_task, remember_change
from livegym.schema import PhysicsConfig, RootConfig, SimConfig, TaskConfig
from livegym.schema.engines import BODILESS
from livegym.schema.keys import Schema, section
from livegym.schema.train import DEFAULT, TrainConfig, settings_class
from livegym.schema.values import check
from livegym.tasks import TASKS
from livegym.utils.errors import UserError
from livegym.utils.nested import look_up

log = logging.getLogger(__name__)

T = TypeVar("T")
C = TypeVar("C", bound=RootConfig)
FROM_RUN = ("task", "train")
IDENTITIES = {"task": "name", "train": "algorithm", "sim": "engine"}
"""A group -> the key in it that a resumed run cannot change."""
UNUSED_BLOCKS = "task.observations.unused"  # may change on resume, because neither policy nor critic sees them
SHOWN = 60  # characters of a value in the line about differences


def with_run_config(config: C, saved: dict[str, Any] | None, explicit_task: str | None, overrides: Iterable[str]) -> C:
    """The session's configuration with what the run's policy was trained with. `config` is not changed.

    `saved` is the configuration in a checkpoint, or None for a plain rl_games file, which then is of `explicit_task`.
    Raises UserError if the command line contradicts the run, or the run's configuration cannot be used.
    """
    if saved is None:
        if explicit_task is None:
            raise UserError(
                "this is a plain rl_games checkpoint: it does not say what it was trained for. "
                "Name its task, and its network if that is not the task's own: task=<Task> train.network.units=[...]"
            )
        return config
    name = _task_name(saved)
    if explicit_task not in (None, name):
        raise UserError(
            f"task={explicit_task} contradicts the checkpoint, which is of task {name}. "
            f"Leave task= out, or choose a checkpoint of {explicit_task}."
        )
    content, overrides = {part: copy.deepcopy(saved[part]) for part in FROM_RUN}, list(overrides)
    given = [split(override)[1] for override in overrides]
    _apply(content, overrides)
    trained = _checked(saved.get("physics", {}), PhysicsConfig, Schema(), "physics")
    physics = _with_typed(trained, config.physics, "physics", given)
    config = dataclasses.replace(config, **typed_parts(content, name), physics=physics)
    if "sim" not in given and "sim.engine" not in given:
        config = dataclasses.replace(config, sim=_engine_of(config))
    check_bodies(config)
    before = {
        "task": saved["task"],
        "physics": dataclasses.asdict(trained),
        "sim": {"engine": look_up(saved, "sim.engine")},
    }
    _log_differences({**content, "physics": dataclasses.asdict(physics), "sim": {"engine": config.sim.engine}}, before)
    return config


def _with_typed(run: T, session: T, path: str, given: list[str]) -> T:
    """A section of the run, with the session's values of the typed keys, or of all if the whole section was typed."""
    names = [f.name for f in dataclasses.fields(run) if path in given or f"{path}.{f.name}" in given]  # type: ignore[arg-type]
    return dataclasses.replace(run, **{name: getattr(session, name) for name in names})  # type: ignore[type-var]


def _log_differences(now: dict[str, Any], before: dict[str, Any]) -> None:
    """Log in one line how this test differs from what the run was trained with, if it does."""
    found = [f"{path}={_short(mine)} (the run: {_short(theirs)})" for path, mine, theirs in _differing(now, before, "")]
    if found:
        log.info("this test differs from what the policy was trained with: %s", ", ".join(found))


def _differing(now: dict[str, Any], before: dict[str, Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    """(path, value now, value before) of the keys in `before` that have changed, and of new keys in its sections."""
    for name, theirs in before.items():
        mine = now.get(name)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            added = {key: None for key in mine if key not in theirs}
            yield from _differing(mine, {**theirs, **added}, f"{path}{name}.")
        elif mine != theirs:
            yield f"{path}{name}", mine, theirs


def _short(value: Any) -> str:
    text = "null" if value is None else str(_shown(value))
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _engine_of(config: RootConfig) -> SimConfig:
    """The session's engine, or the engine without bodies if the run's task has none."""
    return dataclasses.replace(config.sim, engine=BODILESS) if TASKS[config.task.name].own_dynamics else config.sim


def resumed_config(config: RootConfig, saved: dict[str, Any], given: Iterable[str]) -> RootConfig:
    """The run's own configuration, except for the few keys that may change when it is resumed.

    `config` is the configuration of this command line, and `given` are the paths of the keys that were typed. Raises
    UserError if a typed key contradicts the run.
    """
    name, session = _task_name(saved), as_dict(config)
    always = paths(Origin.SESSION)
    given = [path for path in given if path not in ("config", *always)]
    before = _typed(_with_new_names(saved, session, given), name)
    saved = as_dict(before)  # keys that an old run lacks get the schema's default
    files = [key.path for key in Schema().keys(TASKS[name].Params, "task.params.").values() if key.doc.file]
    free = (*paths(Origin.ADJUSTABLE), UNUSED_BLOCKS, *files)  # a file may have been moved since the run
    for path in given:
        session_value, run_value = (_identity(part, path, given) for part in (session, saved))
        if path not in free and session_value != run_value:
            raise UserError(
                f"{path}={_shown(session_value)} contradicts the run, which has {_shown(run_value)}: "
                f"resume=true continues it exactly. "
                f"Leave {path} out, or start a new run from these weights: leave resume=true out."
            )
    content = {**saved, **{part: session[part] for part in always}}
    for path in given:
        parent, _, leaf = path.rpartition(".")
        if path in free:
            (look_up(content, parent) if parent else content)[leaf] = look_up(session, path)
    return _typed(content, name)


def _with_new_names(saved: dict[str, Any], session: dict[str, Any], given: Iterable[str]) -> dict[str, Any]:
    """The run's configuration with the typed names that it lacks because the task got them later.

    A typed value cannot contradict a run that has none: the weight of a reward term, whether a reason ends episodes.
    """
    saved = copy.deepcopy(saved)
    for path in given:
        parent, _, leaf = path.rpartition(".")
        names = look_up(saved, parent) if parent in ("task.rewards", "task.terminations") else None
        if isinstance(names, dict):
            names.setdefault(leaf, look_up(session, path))
    return saved


def whole_config(saved: dict[str, Any]) -> RootConfig:
    """The typed configuration from a result of `as_dict`. Raises UserError if it cannot be used."""
    return _typed(saved, _task_name(saved))


def algorithm_in(saved: Any) -> str:
    """The algorithm of a run by its saved configuration; a run that names none was made before there was a choice."""
    train = saved.get("train") if isinstance(saved, dict) else None
    return str(train.get("algorithm", DEFAULT)) if isinstance(train, dict) else DEFAULT


def _settings_class(saved: dict[str, Any]) -> type[TrainConfig]:
    """The settings class of the run's algorithm. Raises UserError if the algorithm is not installed."""
    algorithm = algorithm_in(saved)
    try:
        return settings_class(algorithm)
    except UserError as error:
        if algorithm in registry.names("algorithms"):
            raise
        raise UserError(
            f"the checkpoint's {error} If it is an algorithm of your own, add projectDir=<its folder>"
        ) from error


def _typed(content: dict[str, Any], task_name: str) -> RootConfig:
    """A complete saved configuration as dataclasses."""
    parts = typed_parts(content, task_name)
    rest = {k: v for k, v in content.items() if k not in (*FROM_RUN, PROJECT)}
    return dataclasses.replace(_checked(rest, RootConfig, Schema(), ""), **parts)


def _checked(content: Any, cls: type[T], schema: Schema, path: str) -> T:
    """One section as its dataclass, without keys that the schema does not know. Raises UserError for a wrong value."""
    if not isinstance(content, dict):
        raise UserError(f"the run's configuration has no {path} section; it cannot be used.")
    kept = _known(content, cls, schema, path)
    keys = schema.keys(cls, f"{path}." if path else "")
    for name, value in kept.items():
        try:
            check(keys[name], value, schema)
        except UserError as error:
            raise UserError(f"the run's configuration is damaged: {error}") from error
    return build(cls, kept, schema)


def _known(content: dict[str, Any], cls: type, schema: Schema, path: str) -> dict[str, Any]:
    """The keys that the schema knows; the log names those that are dropped."""
    dropped = list(_unknown(content, cls, schema, path))
    if dropped:
        log.warning("dropped keys of the run that this version does not know: %s", ", ".join(dropped))
    return _without(content, cls, schema)


def _without(content: dict[str, Any], cls: type, schema: Schema) -> dict[str, Any]:
    keys, kept = schema.keys(cls), {}
    for name, value in content.items():
        if name in keys:
            inner = section(keys[name].hint)
            kept[name] = _without(value, inner, schema) if inner and isinstance(value, dict) else value
    return kept


def _identity(content: dict[str, Any], path: str, given: list[str]) -> Any:
    """The part of a value that a resumed run must keep: a group's name, or the physics keys that were not typed."""
    value = look_up(content, path)
    if path in IDENTITIES:
        return value[IDENTITIES[path]]
    if path == "physics":
        return {name: v for name, v in value.items() if f"physics.{name}" not in given}
    return value


def _shown(value: Any) -> Any:
    if not isinstance(value, dict):
        return "null" if value is None else value
    return "{" + ", ".join(f"{name}: {v}" for name, v in value.items() if v is not None) + "}"


def typed_parts(content: dict[str, Any], task_name: str) -> dict[str, Any]:
    """`task` and `train` of a saved configuration as dataclasses.

    Raises UserError if a key without a default is missing, or a value is invalid.
    """
    settings = _settings_class(content)
    schema = Schema(TASKS[task_name].Params, settings)
    task = content["task"]
    if isinstance(task, dict) and task.get("params") is None:
        task = {**task, "params": {}}  # every parameter of a task has a default
    parts = {
        "task": _checked(task, TaskConfig, schema, "task"),
        "train": _checked(content["train"], settings, schema, "train"),
    }
    _refuse_missing(parts)
    return parts


def train_settings(saved: dict[str, Any]) -> TrainConfig:
    """`train` of a saved configuration, for which the code of its task is not needed.

    Raises UserError as `typed_parts` does.
    """
    settings = _settings_class(saved)
    train = _checked(saved.get("train"), settings, Schema(train=settings), "train")
    _refuse_missing({"train": train})
    return train


def _refuse_missing(parts: dict[str, Any]) -> None:
    missing = [path for part, value in parts.items() for path in _missing(value, part)]
    if missing:
        raise UserError(
            f"the run's configuration lacks {missing[0]}, which has no default. "
            f"Give it on the command line: {missing[0]}=..."
        )


def _missing(value: Any, path: str) -> Iterator[str]:
    for f in dataclasses.fields(value):
        inner = getattr(value, f.name)
        if isinstance(inner, str) and inner == MISSING:
            yield f"{path}.{f.name}"
        elif dataclasses.is_dataclass(inner):
            yield from _missing(inner, f"{path}.{f.name}")
        elif isinstance(inner, dict):
            for name, entry in inner.items():
                if dataclasses.is_dataclass(entry):
                    yield from _missing(entry, f"{path}.{f.name}.{name}")


def _task_name(saved: dict[str, Any]) -> str:
    if not all(isinstance(saved.get(part), dict) for part in FROM_RUN):
        raise UserError("the checkpoint's configuration has no task and train sections; it cannot be used.")
    name = saved["task"].get("name")
    if name not in TASKS:
        raise no_such_task(name, saved.get(PROJECT))
    remember_change(name, saved.get(PROJECT))
    return str(name)


def _apply(content: dict[str, Any], overrides: Iterable[str]) -> None:
    """Set the keys of `overrides` inside `task.`. Raises UserError for a key inside `train.`."""
    for override in OverridesParser.create().parse_overrides(list(overrides)):
        part, _, rest = override.key_or_group.partition(".")
        if part == "train" and rest:
            raise UserError(
                f"{override.input_line}: in a test, training settings come from the checkpoint's run. Leave it out."
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

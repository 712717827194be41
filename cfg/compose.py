"""Compose one configuration from the yaml files of `cfg/` and the command line, checked against the schema.

    cfg = compose(["task=Ant", "config=debug", "train.learning_rate=1e-3"])

`cfg/config.yaml` names the schema first (`cfg/schemas.py`) and each group's yaml after it, so a misspelt key or a wrong
type in a yaml file fails while Hydra merges it. Arguments are checked before Hydra sees them (`prepare`), because
Hydra's errors do not say what would be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import hydra
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from livegym.cfg import overrides as ov
from livegym.cfg.checkpoint_task import as_named
from livegym.cfg.groups import (
    CFG_DIR,
    GROUPS,
    algorithm_of_settings,
    check_group,
    file_parameters,
    refuse_bare_names,
)
from livegym.cfg.schemas import register
from livegym.cfg.typed import plain, schema_of
from livegym.cfg.upstream_keys import with_upstream_keys
from livegym.projects import registry
from livegym.projects.checkout import spelt_out as foreign_spelt_out
from livegym.projects.commands import command
from livegym.schema import RootConfig
from livegym.schema.keys import Key, Schema, is_mapping, section, strip_optional
from livegym.schema.train import settings_class
from livegym.schema.values import check, plain_text
from livegym.tasks import TASKS
from livegym.utils.errors import UserError, did_you_mean

VERSION_BASE = "1.3"
FIXED = {"task.name": "task=<Name>"}  # keys that follow from a group
ALGORITHM = "train.algorithm"
ENTRIES = {
    "randomization": "{what: mass, names: [...], range: [0.5, 2.0]}",
    "drives": "{joints: [...], stiffness: 40, damping: 1}",
}
"""Mappings of a task whose entries are sections -> how a complete new entry is typed."""
LISTS = [key.path for key in Schema().keys(RootConfig).values() if key.hint == list[str]]
"""Root keys that hold a list of texts; a single text is a list of one."""
IN_FILE = re.compile(r"In '(\w+)/([^']+)'")
"""Where Hydra says in which yaml file it found a mistake."""
NOISE = ("full_key:", "object_type=", "reference_type=", "See ", "To append")  # lines of Hydra that help no user
COMPOSE_ERRORS = (HydraException, OmegaConfBaseException, YAMLError, AssertionError, UnicodeDecodeError, RecursionError)


@contextmanager
def config_loader() -> Iterator[ConfigLoader]:
    """Hydra's config loader, which reads the `cfg/` of all projects."""
    register()
    with hydra.initialize_config_dir(str(CFG_DIR), version_base=VERSION_BASE):
        yield GlobalHydra.instance().config_loader()


def compose(arguments: Sequence[str] = ()) -> DictConfig:
    """The configuration of one run, as the command line would give it. Raises UserError for a wrong argument."""
    with config_loader() as loader:
        return _prepare(arguments, loader, multirun=False).samples[0]


@dataclass(frozen=True)
class Prepared:
    """A command line that was checked and can be composed."""

    overrides: list[str]  # the overrides that Hydra is given
    typed: dict[str, str]  # an override that Hydra is given -> the argument that was typed
    added: list[str]  # overrides that Hydra is given, and that were not typed
    sweep: bool
    jobs: int
    samples: list[DictConfig]  # the run's configuration; for a sweep, enough of them that each value occurs in one


def prepare(arguments: Sequence[str], multirun: bool = False) -> Prepared:
    """Check all arguments, and compose each value of a sweep once. Raises UserError; leaves nothing on disk."""
    with config_loader() as loader:
        return _prepare(arguments, loader, multirun)


def _prepare(arguments: Sequence[str], loader: ConfigLoader, multirun: bool) -> Prepared:
    arguments = [foreign_spelt_out(argument) for argument in arguments]
    chosen = as_named(arguments, _compose)
    arguments = with_upstream_keys([*chosen, *arguments])
    files = file_parameters(arguments)
    arguments = [ov.as_list(ov.spelt_out(argument, files), LISTS) for argument in arguments]
    refuse_bare_names(arguments, loader)
    arguments, typed_argument = _with_settings(arguments, loader)
    parsed = ov.parse(arguments, loader)
    sweep = multirun or any(o.key_or_group == "hydra.mode" and o.value() == "MULTIRUN" for o in parsed)
    ov.refuse_intervals(parsed)
    ours = [o for o in parsed if not o.is_hydra_override()]
    groups = [o for o in ours if check_group(o, loader, parsed)]
    settings = [o for o in ours if o not in groups]
    bases = [_compose(job) for job in ov.jobs(groups)] if _depends_on_groups(settings) else []
    schemas = [Schema(train=settings_class(str(base.train.algorithm))) for base in bases] or [Schema()]
    for override in ours if not sweep else ():
        ov.refuse_sweep(override, override in settings and _holds_text(_find(override, schemas[0])))
    for schema in schemas:
        _check_settings(settings, schema, {})
    for base in bases:
        _check_for_task(settings, base, any(o.key_or_group == "task" for o in groups))
    typed = {
        _normalised(o, schemas[0]): typed_argument.get(str(o.input_line), str(o.input_line))
        for o in parsed
        if o.input_line not in chosen
    }
    added = [*chosen, *_switched_on(settings, bases, schemas[0])]
    ready = [*added, *typed]
    reread = ov.OverridesParser.create(config_loader=loader).parse_overrides(ready)
    samples = [_compose(job) for job in ov.jobs(reread)]
    typed |= _typed_in_jobs(parsed, reread[len(added) :], typed)
    for sample in samples:
        plain(sample)
    return Prepared(ready, typed, added, sweep, ov.count_jobs(reread), samples)


def _typed_in_jobs(parsed: Sequence[Override], given: Sequence[Override], typed: dict[str, str]) -> dict[str, str]:
    """An override that Hydra gives to a job of a sweep, for a key of several values -> the typed argument."""
    written = {str(override.input_line): override for override in parsed}
    found: dict[str, str] = {}
    for override in given:
        original = written.get(typed[str(override.input_line)])
        if original is not None and override.is_sweep_override():
            found |= zip(ov.texts(override), ov.typed_texts(original), strict=True)
    return found


def _with_settings(arguments: list[str], loader: ConfigLoader) -> tuple[list[str], dict[str, str]]:
    """Replace `train.algorithm=x` by `train=x`, unless the chosen settings are for x already.

    Returns the arguments, and `train=x` -> the argument that was typed for it. Raises UserError for an unknown
    algorithm, for several, and for one that contradicts `train=`.
    """
    if all(ov.split(argument)[1] != ALGORITHM for argument in arguments):
        return arguments, {}
    parsed = ov.parse(arguments, loader)
    typed = next(o for o in parsed if o.key_or_group == ALGORITHM)
    if typed.is_sweep_override():
        names = ",".join(plain_text(value) for value in ov.values(typed))
        raise UserError(
            f"{typed.input_line}: other keys depend on it. Allowed: one algorithm. For several: -m train={names}"
        )
    _check_settings([typed], Schema(), {})
    name = plain_text(ov.values(typed)[0])
    groups = [o for o in parsed if not o.is_hydra_override() and check_group(o, loader, parsed)]
    chosen = sorted({str(_compose(job).train.algorithm) for job in ov.jobs(groups)})
    if chosen == [name]:
        return arguments, {}
    for given in groups:
        if given.key_or_group == "train":
            raise UserError(
                f"{typed.input_line}: {given.input_line} chooses settings for {', '.join(chosen)}. Leave one of the "
                f"two out; train={name} chooses settings for {name}."
            )
    instead = f"train={name}"
    typed_argument = str(typed.input_line)
    return [instead if argument == typed_argument else argument for argument in arguments], {instead: typed_argument}


def _find(override: Override, schema: Schema, names: dict[str, list[str]] | None = None) -> Key:
    return schema.find(override.key_or_group, str(override.input_line), names)


def _holds_text(key: Key) -> bool:
    return strip_optional(key.hint)[0] is str


def _check_settings(settings: Iterable[Override], schema: Schema, names: dict[str, list[str]]) -> None:
    for override in settings:
        key = _find(override, schema, names)
        if key.path in FIXED:
            raise UserError(f"{override.input_line}: {key.path} follows from the group. Use {FIXED[key.path]}")
        typed = None if override.is_sweep_override() else override.get_value_string()
        for value in ov.values(override):
            if value == {}:
                raise UserError(
                    f"{override.input_line}: an empty mapping changes nothing, because it is merged into the existing "
                    f"one. Name what should change: {key.path}.<name>=<value>"
                )
            for name in value if isinstance(value, dict) and key.path in names else ():
                schema.find(f"{key.path}.{plain_text(name)}", str(override.input_line), names)
            if _holds_text(key) and isinstance(value, (bool, int, float)):
                value = typed or str(value)
            check(key, value, schema, typed)


def _check_for_task(settings: Iterable[Override], base: DictConfig, task_given: bool) -> None:
    try:
        for override in settings:
            for group, example in ENTRIES.items():
                _refuse_incomplete_entry(override, group, [str(name) for name in base.task[group]], example)
        _check_settings(settings, schema_of({"task": base.task, "train": base.train}), _names(base))
    except UserError as error:
        if task_given:
            raise
        name = base.task.name
        raise UserError(
            f"{error}\n(This is about task={name}, the default. For another task, add task=<Name>.)"
        ) from error


def _refuse_incomplete_entry(override: Override, group: str, entries: list[str], example: str) -> None:
    """Raises UserError for a key inside an entry of `task.<group>` that is not there: a new entry must be complete."""
    before, _, rest = override.key_or_group.partition(f"task.{group}.")
    name, _, inside = rest.partition(".")
    if not before and inside and name not in entries:
        raise UserError(
            f"{override.input_line}: the task's {group} has no {name}. Allowed: {', '.join(entries) or 'none'}."
            f"{did_you_mean(name, entries)} To add an entry, give all of it: 'task.{group}.{name}={example}'"
        )


def _names(base: DictConfig) -> dict[str, list[str]]:
    """The names that each mapping of the chosen task may hold."""
    return {
        "task.rewards": [str(n) for n in base.task.rewards],
        "task.terminations": [str(n) for n in base.task.terminations],
    }


def _normalised(override: Override, schema: Schema) -> str:
    """The override as Hydra must get it: text stays text, and a mapping may get a name that its yaml leaves out."""
    if override.is_hydra_override() or override.key_or_group in GROUPS:
        return str(override.input_line)
    key = schema.find(override.key_or_group)
    text = ov.as_text(override) if _holds_text(key) else str(override.input_line)
    _, path, value = ov.split(text)
    parent, _, name = path.rpartition(".")
    if parent and section(key.hint) and is_mapping(schema.find(parent).hint):
        return f"++{parent}={{{name}:{value.removeprefix('=')}}}"  # a new section in a mapping cannot be set directly
    return f"{'++' if _reaches_a_mapping(key, schema) else ''}{path}{value}"


def _reaches_a_mapping(key: Key, schema: Schema) -> bool:
    """Whether the key, a key above it or a key inside it is a mapping, whose names the yaml chooses."""
    parts = key.path.split(".")
    above = (schema.find(".".join(parts[: i + 1])) for i in range(len(parts)))
    inner = section(key.hint)
    return any(is_mapping(k.hint) for k in [*above, *(schema.walk(inner) if inner else ())])


def _depends_on_groups(settings: Iterable[Override]) -> bool:
    """Whether the allowed keys depend on the chosen task and algorithm, and on what their yaml leaves null."""
    return any(o.key_or_group.startswith(("task.", "train.")) for o in settings)


def _switched_on(settings: Iterable[Override], bases: Sequence[DictConfig], schema: Schema) -> list[str]:
    """Overrides that create the optional sections in which a key is set: OmegaConf cannot merge into null."""
    found = []
    for key in (k for k in schema.walk() if section(k.hint) and strip_optional(k.hint)[1]):
        touched = any(_sets_inside(o, key) for o in settings)
        if touched and any(OmegaConf.select(base, key.path) is None for base in bases):
            parent, _, name = key.path.rpartition(".")
            found.append(f"++{parent}={{{name}:{{}}}}")
    return found


def _sets_inside(override: Override, key: Key) -> bool:
    inside = override.key_or_group.startswith(f"{key.path}.")
    return inside or (override.key_or_group == key.path and any(isinstance(v, dict) for v in ov.values(override)))


def _compose(overrides: list[str]) -> DictConfig:
    try:
        return hydra.compose("config", overrides)
    except COMPOSE_ERRORS as error:
        raise explained(error) from error


def explained(error: BaseException) -> UserError:
    """A UserError for what Hydra or OmegaConf found wrong in the yaml files (arguments were checked before)."""
    texts = [line.strip() for cause in _causes(error) for line in str(cause).splitlines() if line.strip()]
    key = next((t.partition(":")[2].strip() for t in texts if t.startswith("full_key:")), "")
    kept = [t.rstrip(".:") for t in dict.fromkeys(texts) if not t.startswith(NOISE)]
    reason = "; ".join(kept[:3]) or type(error).__name__
    options = getattr(error, "options", None)
    if options:
        advice = _to_write(getattr(error, "missing_cfg_file", None))
        return UserError(f"The configuration cannot be composed: {kept[0]}. Allowed: {', '.join(options)}.{advice}")
    if isinstance(error, (UnicodeDecodeError, RecursionError)):  # their messages do not name the file
        registry.read_all(GROUPS)
    return _wrong_key(key, texts) or UserError(
        f"The configuration cannot be composed: {reason}{f' (key {key})' if key else ''}.\n"
        f"Allowed keys: {command('--help')}; Hydra's own: {command('--cfg hydra')}"
    )


def _to_write(missing: object) -> str:
    """The advice for a task without learner settings: which file to write; '' for anything else that is missing."""
    group, _, name = str(missing).partition("/")
    project = registry.project_of(name.removesuffix("PPO")) if group == "train" else None
    return f" Write {project.cfg / 'train' / name}.yaml, or choose one: train=<name>" if project is not None else ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _wrong_key(path: str, texts: Iterable[str]) -> UserError | None:
    """The error for a key in a yaml file that the schema does not have; None for any other error."""
    if not path or path.startswith("hydra"):
        return None
    found = next((match for match in map(IN_FILE.match, texts) if match is not None), None)
    try:
        if found is None:
            Schema().find(path)
            return None
        group, name = found.groups()
        _schema_for(group, name).find(path)
    except UserError as unknown:
        files = registry.yaml_files(found[1]).get(found[2], []) if found is not None else []
        place = f"{files[0]}: " if files else ""
        return UserError(f"{place}{unknown}")
    return None


def _schema_for(group: str, name: str) -> Schema:
    """The schema of the yaml file `name` in `group`, with the keys that depend on a task or an algorithm."""
    if group == "task":
        return Schema(params=TASKS[name].Params)
    return Schema(train=settings_class(algorithm_of_settings(name))) if group == "train" else Schema()

"""Explain a run whose configuration and today's task do not have the same names.

The configuration of a run is stored with it, and the task's code may have changed since. The error says what is new or
gone, and which command tests, resumes or replaces the run.

    with explained_for_run(file, config.task, ["config=test", "checkpoint=latest"]):
        env = make_env(...)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from livegym.cfg.overrides import split, typed_safely
from livegym.projects import registry
from livegym.projects.commands import command
from livegym.projects.reading import mapping_of
from livegym.rundir.provenance import redact_arguments
from livegym.rundir.run import run_of
from livegym.schema import TaskConfig
from livegym.tasks.terms import NameMismatch
from livegym.utils.errors import UserError

SECTIONS = {"reward term": "rewards", "termination reason": "terminations", "observation block": "observations"}
"""Where a task's configuration has each kind of name."""
VALUES = {"rewards": "0", "terminations": "false"}
"""Values with which a new name changes nothing."""
MEANING = {
    "rewards": "0 logs it without counting it",
    "terminations": "false does not end the episode",
    "observations": "the policy does not see it",
}


@contextmanager
def explained_for_run(file: Path | None, task: TaskConfig, typed: Sequence[str]) -> Iterator[None]:
    """Inside, raises UserError with the next command for a name that only the run's configuration or the task has.

    `file` is the checkpoint whose configuration is used, or None if the weight bus delivered it; `task` is that
    configuration, and `typed` are this session's arguments.
    """
    try:
        yield
    except NameMismatch as mismatch:
        raise UserError(_explanation(mismatch, file, task, typed)) from mismatch


def _explanation(mismatch: NameMismatch, file: Path | None, task: TaskConfig, typed: Sequence[str]) -> str:
    source = _source(file)
    if mismatch.name not in mismatch.in_code:
        return _gone(mismatch, source, file, task.name)
    section = SECTIONS[mismatch.what]
    new = [name for name in mismatch.in_code if name not in mismatch.in_config]
    added = _given(section, new, task)
    kept = [a for a in redact_arguments(typed) if split(a)[1] not in (split(argument)[1] for argument in added)]
    again = command(*map(shlex.quote, [*kept, *added]))
    yaml = registry.part("tasks", task.name).where
    unnamed = [name for name in new if yaml is not None and name not in _names_in(yaml, section)]
    first = f"Name {', '.join(unnamed)} in {yaml} first, then type:" if unnamed else "To use the run nevertheless:"
    return (
        f"{mismatch.what} {', '.join(map(repr, new))} is in the task, but not in this run's configuration ({source}), "
        f"which is older. {first} {again}\n({MEANING[section]}.)"
    )


def _gone(mismatch: NameMismatch, source: str, file: Path | None, task: str) -> str:
    """A name that the task no longer has cannot be computed; weights that still fit can begin a new run."""
    gone = [name for name in mismatch.in_config if name not in mismatch.in_code]
    start = [typed_safely("checkpoint", str(file))] if file and SECTIONS[mismatch.what] != "observations" else []
    what = "To train a new run from its weights" if start else "To train a new run"
    return (
        f"{mismatch.what} {', '.join(map(repr, gone))} is in this run's configuration ({source}), but no longer in the "
        f"task, which has: {', '.join(mismatch.in_code) or 'none'}. Put it back into the task. "
        f"{what}: {command('config=train_headless', f'task={task}', *start)}"
    )


def _source(file: Path | None) -> str:
    if file is None:
        return "received over the weight bus"
    run = run_of(file)
    recorded = None if run is None else run / "config.yaml"
    return str(recorded if recorded is not None and recorded.is_file() else file)


def _given(section: str, new: Sequence[str], task: TaskConfig) -> list[str]:
    """The arguments that name the new names, with values that change nothing."""
    if section != "observations":
        return [f"task.{section}.{name}={VALUES[section]}" for name in new]
    return [f"task.observations.unused=[{','.join([*task.observations.unused, *new])}]"]


def _names_in(yaml: Path, section: str) -> list[str]:
    """The names that the task's yaml has now."""
    content = mapping_of(yaml).get(section) or {}
    if section != "observations":
        return list(content)
    return [name for group in content.values() for name in group or []]

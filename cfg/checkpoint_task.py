"""The task of the checkpoint that a command line tests or resumes, if the command line does not name the task.

    as_named(["config=test", "checkpoint=latest", "task.rewards.effort=0"])     # ["task=Slider"]

It decides which `task.*` keys there are. Without it, they would be compared with those of the default task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from omegaconf import DictConfig

from livegym.cfg.overrides import parse, split
from livegym.projects import registry
from livegym.schema import RootConfig
from livegym.schema.keys import PRESETS, Schema
from livegym.utils.errors import UserError

DECIDING = (PRESETS, "mode", "checkpoint", "resume", "runsDir")
"""Keys from which it follows whether there is a checkpoint whose task is used, and which one."""


def as_named(arguments: Sequence[str], compose: Callable[[list[str]], DictConfig]) -> list[str]:
    """`["task=<Name>"]` if the task of a checkpoint decides about these arguments, otherwise [].

    Errors of the command line and of the checkpoint are not reported here, but where it is used.
    """
    keys = [split(argument)[1] for argument in arguments]
    if "checkpoint" not in keys or "task" in keys or not _about_a_task(keys):
        return []
    deciding = [argument for argument, key in zip(arguments, keys, strict=True) if key in DECIDING]
    with contextlib.suppress(UserError):
        if any(override.is_sweep_override() for override in parse(deciding)):
            return []
        config = compose(deciding)
        if config.mode == "test" or config.resume is True:  # auto does not resume the checkpoint that was typed
            name = _task_of(str(config.checkpoint), Path(config.runsDir))
            return [f"task={name}"] if name in registry.names("tasks") else []
    return []


def _about_a_task(keys: Sequence[str]) -> bool:
    """Whether a key may be one of a task: `task.*`, or the short name of a parameter that names a file."""
    root = Schema().keys(RootConfig)
    return any(key.startswith("task.") or (key not in root and "." not in key and key != PRESETS) for key in keys)


def _task_of(checkpoint: str, runs_dir: Path) -> str | None:
    from livegym.rundir.checkpoint import read_checkpoint  # imports torch, which takes seconds
    from livegym.rundir.run import open_run
    from livegym.rundir.select import resolve_checkpoint

    selection = resolve_checkpoint(checkpoint, runs_dir)
    if selection.run is not None:
        return open_run(selection.run).task
    config = read_checkpoint(selection.file).get("config")
    return config["task"].get("name") if isinstance(config, dict) and isinstance(config.get("task"), dict) else None

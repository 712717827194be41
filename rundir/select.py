"""The meaning of `checkpoint=<selector>`.

    resolve_checkpoint("latest", Path("runs"), "Ant")
    # Selection(run=runs/Ant_train_20250801_095943, file=.../nn/Ant_v7_ep7.pth, fixed=False, follow="newest", note="")

| selector | meaning |
| --- | --- |
| latest, latest_train | newest checkpoint of the run that `latest_train` names; if there is none, of the newest run |
| best | best checkpoint of that one run, not of all runs |
| latest_test | the newest checkpoint on disk that the latest test played |
| a run directory, or a unique part of a run's name | newest checkpoint of that run |
| a .pth or .policy | that file; it is never replaced by a newer one |

In a copy without complete checkpoints (`rundir/rsync_filter.py`), all of these select policy files.

Nothing here creates a file. If there is no checkpoint *yet*, `NothingYet` is raised, so that the caller can wait.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from livegym.projects.commands import command
from livegym.rundir.checkpoint_io import COMPLETE, POLICY, policy_of, read_checkpoint
from livegym.rundir.last_test import last_played
from livegym.rundir.listing import BEST, best_checkpoint_file, first_usable, list_playable, newest_usable
from livegym.rundir.run import NN, TRAINING_KINDS, Run, latest_dangles, list_runs, nn_of, open_run, read_latest, run_of
from livegym.rundir.safe_load import CheckpointError
from livegym.utils.addresses import is_address, shown
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.words import count

READ_ATTEMPTS = 5
WORDS = ("latest", "latest_train", "latest_test", "best")


class NothingYet(UserError):
    """There is no such checkpoint so far, but there may be one later."""


@dataclass(frozen=True)
class Selection:
    """The checkpoint that a selector names now, and what to follow afterwards."""

    run: Path | None  # None for a lone file
    file: Path
    fixed: bool  # the user named the file: never replace it by another
    follow: str | None  # newest, best or None
    note: str = ""  # what the user should know about the choice


def resolve_checkpoint(selector: str, runs_dir: Path, task: str | None = None) -> Selection:
    """The run and the checkpoint that `selector` names; paths are relative to the working directory.

    `task` limits latest, best and latest_test to one task. The file is verified, except for latest_test and a file
    that was given by name.

    Raises:
        NothingYet: there is no such run, or no usable checkpoint in it so far.
        UserError: the selector matches nothing, or several runs.
    """
    if is_address(selector):
        raise UserError(
            f"checkpoint={shown(selector)}: a server's weights can be watched and tested (config=test, "
            "test_viewer, test_stream, test_record), but this needs files. Copy the run: docs/hot-reload.md"
        )
    if runs_dir.is_dir() and not os.access(runs_dir, os.R_OK | os.X_OK):
        raise UserError(f"runsDir={runs_dir}: {runs_dir.absolute()} cannot be read (no permission).")
    if selector in ("latest", "latest_train"):
        return _latest(selector, runs_dir, task)[1]
    if selector == "best":
        return _best(*_latest(selector, runs_dir, task))
    if selector == "latest_test":
        return _latest_test(runs_dir, task)
    path = _existing_path(selector, runs_dir)
    if path is None and selector.endswith((COMPLETE, POLICY)):
        return _missing_file(selector)
    if path is None:
        return _in_named_run(_run_by_part(selector, runs_dir))
    return _in_named_run(_run_at(path)) if path.is_dir() else _named_file(selector, path)


def read_selected(selector: str, runs_dir: Path, task: str | None = None) -> tuple[Selection, dict[str, Any]]:
    """The checkpoint that `selector` names, and its state. Tries again if a live run prunes the file meanwhile.

    Raises:
        NothingYet, UserError: as `resolve_checkpoint` does, and if the file cannot be used.
    """
    for _ in range(READ_ATTEMPTS - 1):
        selection = resolve_checkpoint(selector, runs_dir, task)
        try:
            return selection, read_checkpoint(selection.file)
        except CheckpointError:
            if selection.fixed:
                raise
    selection = resolve_checkpoint(selector, runs_dir, task)
    return selection, read_checkpoint(selection.file)


def read_complete(selector: str, runs_dir: Path, task: str | None = None) -> tuple[Selection, dict[str, Any]]:
    """As `read_selected`, for training: a complete checkpoint, not a policy file.

    If the newest version of a run has only a policy file, the run's newest complete checkpoint is used, and the note
    says so. Raises UserError if there is none.
    """
    selection, state = read_selected(selector, runs_dir, task)
    if selection.file.suffix != POLICY:
        return selection, state
    usable = newest_usable(selection.run) if selection.run and selection.follow == "newest" else None
    if usable is None:
        raise UserError(
            f"checkpoint={selector}: {selection.file.absolute()} is a policy file. It can be watched and tested, but "
            "training needs the complete checkpoint (.pth). If this is a copy of the run, copy it without the filter "
            "(rsync -a instead of rsync -aF)"
        )
    note = (
        f"{selection.file.name} is a policy file, from which training cannot start. {usable.path.name} is used, the "
        "newest complete checkpoint of the run. To get a newer one, copy the run without the filter "
        "(rsync -a instead of rsync -aF)"
    )
    notes = [selection.note, note] if selection.note else [note]
    return replace(selection, file=usable.path, note="; ".join(notes)), usable.state


def _latest(selector: str, runs_dir: Path, task: str | None) -> tuple[Run, Selection]:
    """The newest training run that has a usable checkpoint, and that checkpoint; `selector` is for messages."""
    if not runs_dir.is_dir():
        raise NothingYet(f"checkpoint={selector}: there is no directory {runs_dir.absolute()}. {_train_first(task)}")
    pointed, note = _pointed_run(runs_dir, task)
    notes, empty = [note] if note else [], []
    for run in _with_first(pointed, list_runs(runs_dir, TRAINING_KINDS, task)):
        usable, reasons = first_usable(list_playable(run))
        if usable:
            return run, Selection(run.path, usable.path, False, "newest", "; ".join([*notes, *reasons]))
        empty.append(run)
        notes.append(f"{run.name} is skipped: {reasons[0] if reasons else 'it has no checkpoint yet'}")
    raise _nothing_in(f"checkpoint={selector}", runs_dir, task, empty)


def _with_first(first: Run | None, runs: list[Run]) -> Iterator[Run]:
    if first:
        yield first
    yield from (run for run in runs if first is None or not _same(run.path, first.path))


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _pointed_run(runs_dir: Path, task: str | None) -> tuple[Run | None, str]:
    """The run of `latest_train` if it can be used, or the reason why it cannot."""
    link = runs_dir / "latest_train"  # a file that the user can look at; what was typed may be `latest` or `best`
    if latest_dangles(runs_dir, "train"):
        return None, f"the target of {link} does not exist, so the newest run is used"
    path = read_latest(runs_dir, "train")
    if path is None:
        return None, ""
    try:
        run = open_run(path)
    except UserError as error:
        return None, f"{link} is not used: {error}"
    if run.kind not in TRAINING_KINDS:
        return None, f"{link} is not used: {run.name} is a test"
    if task and run.task and run.task != task:
        return None, f"the latest run, {run.name}, is of task {run.task}, so the newest run of {task} is used"
    return run, ""


def _nothing_in(typed: str, runs_dir: Path, task: str | None, empty: list[Run]) -> NothingYet:
    folder = runs_dir.absolute()
    if empty:
        nn = empty[0].nn.absolute()
        files = list_playable(empty[0])
        _, reasons = first_usable(files[:1])
        unusable = f"none of {count(len(files), 'file')} in {nn} is usable ({'; '.join(reasons)})"
        found = unusable if reasons else f"there is no checkpoint in {nn} yet"
        train = _command(task or empty[0].task)
        return NothingYet(f"{typed}: {found}. Wait for the first one. If nothing is training: {train}")
    if latest_dangles(runs_dir, "train"):
        return NothingYet(
            f"{typed}: the target of {folder / 'latest_train'} does not exist, and {folder} has no other "
            f"training run{_of(task)}. Copy the run that it names to this directory, or: {_command(task)}"
        )
    others = sorted({run.task for run in list_runs(runs_dir, TRAINING_KINDS)})
    known = f" (there are runs of: {', '.join(others)})" if others else ""
    return NothingYet(f"{typed}: {folder} has no training run{_of(task)}{known}. {_train_first(task)}")


def _of(task: str | None) -> str:
    return f" of {task}" if task else ""


def _command(task: str | None) -> str:
    return command("config=train_headless", f"task={task or '<Task>'}")


def _train_first(task: str | None) -> str:
    return f"Train first: {_command(task)}"


def _best(run: Run, latest: Selection) -> Selection:
    """The best checkpoint of the latest run; the newest one until there is a best."""
    best = best_checkpoint_file(run)
    notes = [latest.note] if latest.note else []
    if best is None:
        notes.append(f"{run.name} has no best checkpoint yet, so its newest one is used")
        return replace(latest, follow="best", note="; ".join(notes))
    try:
        read_checkpoint(best)
    except CheckpointError as error:
        notes.append(f"{error}, so the newest checkpoint is used")
        return replace(latest, follow="best", note="; ".join(notes))
    return replace(latest, file=best, follow="best")


def _latest_test(runs_dir: Path, task: str | None) -> Selection:
    pointed = read_latest(runs_dir, "test")
    runs = list_runs(runs_dir, "test", task)
    first = next((run for run in runs if pointed and _same(run.path, pointed)), None)
    notes: list[str] = []
    for run in _with_first(first, runs):
        played = last_played(run, runs_dir)
        if played is not None:
            file, note = played
            return Selection(run_of(file), file, True, None, "; ".join([*notes, *([note] if note else [])]))
        notes.append(f"{run.name} is skipped: its results.json names no checkpoint that still exists")
    raise NothingYet(
        f"checkpoint=latest_test: {runs_dir.absolute()} has no test{_of(task)} whose checkpoint still "
        f"exists. Test first: {command('config=test', 'checkpoint=latest')}"
    )


def _existing_path(selector: str, runs_dir: Path) -> Path | None:
    if not selector.strip():
        raise UserError(f"checkpoint={selector!r}: empty. Allowed: {', '.join(WORDS)}, a run, a .pth")
    try:
        typed = Path(os.path.expanduser(selector))
        os.stat(typed)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise UserError(f"checkpoint={selector[:80]}: cannot be looked up ({error.strerror}).") from error
    except ValueError as error:
        raise UserError(f"checkpoint={selector[:80]!r}: cannot be a path ({error}).") from error
    if typed.exists() and not _is_word_for_run(selector, typed):
        return typed
    return runs_dir / typed if (runs_dir / typed).exists() else None


def _is_word_for_run(selector: str, typed: Path) -> bool:
    """True if the selector is one word that is also the name of a directory here, but that directory is not a run."""
    return "/" not in selector and typed.is_dir() and not nn_of(typed).is_dir()


def _run_at(path: Path) -> Run:
    path = _target(path)  # latest_train may change later; the selected run must not
    return open_run(_target(path.parent) if path.name == NN else path)


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _missing_file(selector: str) -> Selection:
    path = Path(os.path.expanduser(selector))
    if not path.parent.is_dir():
        raise UserError(f"checkpoint={selector}: no such file, and no directory {path.parent.absolute()}")
    best = best_checkpoint_file(path.parent.parent) if path.name == BEST else None
    instead = best or policy_of(path)
    if instead.is_file():  # a copy without links, or without complete checkpoints
        return _named_file(selector, instead)
    names = [entry.path.name for entry in list_playable(path.parent.parent)]
    there = f" Available: {', '.join(names[:5])}" if names else ""
    raise UserError(f"checkpoint={selector}: no such file in {path.parent.absolute()}.{there}")


def _named_file(selector: str, path: Path) -> Selection:
    if path.suffix not in (COMPLETE, POLICY):
        raise UserError(f"checkpoint={selector}: {path.absolute()} is neither a .pth nor a .policy file")
    file = _target(path)  # best.pth may change later; the selected file must not
    return Selection(run_of(file), file, True, None)


def _run_by_part(part: str, runs_dir: Path) -> Run:
    if "/" in part or os.sep in part:
        raise UserError(f"checkpoint={part}: no such file or directory ({Path(os.path.expanduser(part)).absolute()})")
    runs = list_runs(runs_dir)
    found = [run for run in runs if part in run.name and run.kind in TRAINING_KINDS]
    if len(found) == 1:
        return found[0]
    names = [run.name for run in found[:10]]
    if found:
        more = f" and {len(found) - 10} more" if len(found) > 10 else ""
        raise UserError(
            f"checkpoint={part}: matches {len(found)} runs: {', '.join(names)}{more}. Type more of the name"
        )
    known = [*WORDS, *(run.name for run in runs)]
    raise UserError(
        f"checkpoint={part}: neither {', '.join(WORDS)}, nor a path, nor part of a training run's name in "
        f"{runs_dir.absolute()}.{did_you_mean(part, known)}"
    )


def _in_named_run(run: Run) -> Selection:
    if run.kind == "test":
        raise UserError(f"checkpoint={run.path}: a test has no checkpoints. Name a training run, or latest_test")
    usable, reasons = first_usable(list_playable(run))
    if usable is None:
        raise NothingYet(f"{run.nn.absolute()}: {reasons[0] if reasons else 'there is no checkpoint yet'}")
    return Selection(run.path, usable.path, False, "newest", "; ".join(reasons))

"""`config=export_log`: writes the decisions of a continuous run to files that other programs read.

    python train.py config=export_log checkpoint=latest
    python train.py config=export_log checkpoint=latest logStreams=[north] logFrom=2026-01-02T12:00

The run may be live. What can be exported is described in `online/run_log.py`, the files in `online/log_files.py`.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from rich.console import Console

from livegym.cfg.session import Session
from livegym.online.chosen_log import chosen, extent_of
from livegym.online.log_files import JSONL, PARQUET, arrow, to_jsonl, to_parquet, write_files
from livegym.online.run_log import FILE, decisions_of
from livegym.rundir.run import Run, open_run
from livegym.rundir.select import resolve_checkpoint
from livegym.schema import RootConfig
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.files import discard, is_left_over
from livegym.utils.words import count

WRITERS = {"parquet": (PARQUET, to_parquet), "jsonl": (JSONL, to_jsonl)}


def export_log(session: Session, console: Console) -> int:
    """Write the files, and print what is in them and where they are; return the exit status.

    Raises UserError if there is no such run, no decision that fits, or if a file cannot be written.
    """
    config = session.config
    formats = _formats(config.exportFormats)
    run = _run(config, session.task)
    data = chosen(decisions_of(run), config, run.path)
    folder = run.path / "export" if config.exportDir is None else Path(os.path.expanduser(config.exportDir))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _discard_left_over(folder)
        write_files(data, {folder / f"{FILE}{suffix}": write for suffix, write in map(WRITERS.__getitem__, formats)})
    except FileExistsError as error:
        raise UserError(
            f"{folder.absolute()} is not a directory. Choose another place for the decisions: exportDir=..."
        ) from error
    except OSError as error:
        raise UserError(
            f"the decisions cannot be written to {folder.absolute()} ({error.strerror or error}). Choose another "
            "directory: exportDir=..."
        ) from error
    lines = [f"{run.path}: {extent_of(data)}"]
    incomplete, intervened = int((~data.complete).sum()), int(data.intervened.sum())
    if incomplete:
        lines.append(f"{count(incomplete, 'decision')} without a reward or a next observation")
    if intervened:
        why = "human intervention, a failure of gate or policy, or learn: false"
        lines.append(f"{count(intervened, 'decision')} excluded from training: {why}")
    for name, (suffix, _) in WRITERS.items():
        file = folder / f"{FILE}{suffix}"
        if name in formats:
            lines.append(f"written: {file.absolute()}")
        elif file.exists():
            lines.append(f"of an earlier export, and not written now: {file.absolute()}")
    if "parquet" not in formats and config.exportFormats is None:
        lines.append("Parquet is left out; it needs the extra export: pip install 'livegym[export]'")
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    return 0


def _discard_left_over(folder: Path) -> None:
    """Delete what an export that was killed has left, which may be large."""
    for path in folder.glob(f".{FILE}.*"):
        if is_left_over(path):
            discard(path)


def _formats(typed: list[str] | None) -> list[str]:
    """Return the formats to write. Raises UserError if one is unknown, or needs a package that is not installed."""
    if typed is None:
        return [name for name in WRITERS if name != "parquet" or importlib.util.find_spec("pyarrow") is not None]
    for name in typed or [""]:
        if name not in WRITERS:
            raise UserError(
                f"exportFormats=[{name}]: no such format. Allowed: {', '.join(WRITERS)}.{did_you_mean(name, WRITERS)}"
            )
    if "parquet" in typed:
        arrow()
    return typed


def _run(config: RootConfig, task: str | None) -> Run:
    """Return the run that `checkpoint` names. Raises UserError if it names none."""
    if config.checkpoint is None:
        raise UserError("config=export_log needs checkpoint=...: latest, or a continuous run. Type checkpoint=latest")
    selection = resolve_checkpoint(config.checkpoint, Path(config.runsDir), task)
    if selection.run is None:
        raise UserError(
            f"checkpoint={config.checkpoint}: {selection.file} is not in a run, so it has no decisions. Name a "
            "continuous run"
        )
    return open_run(selection.run)

"""`config=runs`: lists the runs in a table, plots their curves, and protects or deletes runs.

    python train.py config=runs                                  # a table, newest first
    python train.py config=runs runsSelect=Ant runsPlot=ant.png  # their curves in one picture
    python train.py config=runs runsPin=Ant_train_20260102_120008
    python train.py config=runs runsDelete=Ant_train_20260102_120008

A run that is live (a process holds its lock) or protected (`runsPin`) is never deleted. A run is renamed before it is
deleted, so that no reader follows a partly deleted directory; then `latest_train` is pointed at the newest run that is
left.
"""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from livegym.compare.chosen import choose
from livegym.compare.comparison import NAMES, check_tag, compare, panels_of
from livegym.compare.differences import differences_by_kind, in_words
from livegym.compare.picture import Picture, check_format, draw
from livegym.compare.table import WIDEST
from livegym.rundir.checkpoint import CheckpointError, highest_version, list_playable, meta_of, read_checkpoint
from livegym.rundir.lock import lock_holder
from livegym.rundir.run import TRAINING_KINDS, Run, list_runs, point_latest, read_latest, unpoint_latest
from livegym.schema import RootConfig
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.words import count

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Facts:
    """The table's facts about one run."""

    run: Run
    live: bool
    protected: bool
    checkpoints: int
    version: int
    best_score: float | None
    bytes: int


def facts_of(run: Run) -> Facts:
    """Reads the facts about a run; the run may change meanwhile."""
    entries = list_playable(run)
    return Facts(
        run=run,
        live=lock_holder(run) is not None,
        protected=run.pin_file.exists(),
        checkpoints=len(entries),
        version=highest_version(run),
        best_score=_best_score(entries[0].path) if entries else None,
        bytes=sum(_size(file) for file in run.path.rglob("*")),
    )


def _size(file: Path) -> int:
    try:
        return file.lstat().st_size
    except OSError:  # pruned meanwhile
        return 0


def _best_score(file: Path) -> float | None:
    try:
        meta = meta_of(read_checkpoint(file))
    except CheckpointError:
        return None
    return meta.best_score if meta else None


def manage_runs(config: RootConfig, task: str | None, console: Console) -> int:
    """Executes the `runs...` keys, or prints the table; returns the exit status.

    Raises UserError if a run does not exist or must not be deleted.
    """
    runs_dir = Path(config.runsDir)
    if not runs_dir.is_dir():
        raise UserError(f"runsDir={config.runsDir}: there is no directory {runs_dir.absolute()}.")
    runs = list_runs(runs_dir, None, task)
    if config.runsPin is not None:
        return _pin(find_run(runs, "runsPin", config.runsPin))
    if config.runsDelete is not None:
        return _delete(find_run(runs, "runsDelete", config.runsDelete), runs_dir)
    named = choose(config.runs, runs_dir, task).runs if config.runs else runs
    chosen = _selected(named, config.runsSelect)
    if config.runsPlot is not None:
        return _plot(chosen, Path(config.runsPlot), config.runsTag)
    facts = [facts_of(run) for run in chosen]
    console.print(f"{runs_dir.absolute()}: {count(len(facts), 'run')}", soft_wrap=True, highlight=False, markup=False)
    table = runs_table(facts, console.width if console.is_terminal else None)
    if not console.is_terminal:  # another program reads whole lines
        console.width = Console(width=WIDEST).measure(table).maximum
    console.print(table)
    return 0


def _selected(runs: list[Run], part: str | None) -> list[Run]:
    if part is None:
        return runs
    chosen = [run for run in runs if part in run.name]
    if not chosen:
        names = [run.name for run in runs]
        raise UserError(
            f"runsSelect={part}: no run has that in its name. Available: {', '.join(names[:10]) or 'none'}."
            f"{did_you_mean(part, names)}"
        )
    return chosen


def find_run(runs: list[Run], key: str, name: str) -> Run:
    """The run of exactly this name, or the only run whose name contains `name`; otherwise raises UserError."""
    found = [run for run in runs if run.name == name] or [run for run in runs if name in run.name]
    if len(found) == 1:
        return found[0]
    names = [run.name for run in found or runs]
    what = f"matches {len(found)} runs" if found else "no such run"
    raise UserError(
        f"{key}={name}: {what}. Allowed: one of {', '.join(names[:10]) or 'none'}.{did_you_mean(name, names)}"
    )


def runs_table(facts: list[Facts], width: int | None = None) -> Table:
    """A table with one row per run, newest first.

    Names of runs are never wrapped, so that they can be copied. If the table is wider than `width` columns (None: no
    limit), what was typed differently moves from a column to a line below the name.
    """
    wide = _table(facts, beside=True)
    if width is None or Console(width=WIDEST).measure(wide).maximum <= width:
        return wide
    return _table(facts, beside=False)


def _table(facts: list[Facts], beside: bool) -> Table:
    """`beside`: differences have a column of their own."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2 if beside else 0, 0, 0))
    table.add_column("run", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for name in ("age", "version", "files", "best", "size"):  # short: eighty columns hold a row
        table.add_column(name, justify="right", no_wrap=True)
    if beside:
        table.add_column("differs in", no_wrap=True)
    differ = differences_by_kind([f.run for f in facts])
    for f in facts:
        state = ", ".join(name for name, holds in (("live", f.live), ("protected", f.protected)) if holds)
        best = "–" if f.best_score is None else f"{f.best_score:.2f}"
        row = [_age(f.run), str(f.version or "–"), str(f.checkpoints), best, _mebibytes(f.bytes)]
        differs = in_words(differ[f.run])
        if beside:
            table.add_row(f.run.name, state, *row, Text(differs))
        else:
            table.add_row(Text(f"{f.run.name}\n  {differs}" if differs else f.run.name), state, *row)
    return table


def _age(run: Run) -> str:
    if run.started is None:
        return "–"
    hours, seconds = divmod(max(0, round(time.time() - run.started[0].timestamp())), 3600)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {seconds // 60} min" if hours else f"{seconds // 60} min"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _pin(run: Run) -> int:
    """Protects a run from deletion, or removes its protection."""
    if run.pin_file.exists():
        run.pin_file.unlink()
        log.info("%s is no longer protected from deletion.", run.name)
    else:
        run.pin_file.touch()
        log.info("%s is protected from deletion.", run.name)
    return 0


def _delete(run: Run, runs_dir: Path) -> int:
    holder = lock_holder(run)
    if holder is not None:
        raise UserError(f"runsDelete={run.name}: it is live, written by {holder}. Stop that process first.")
    if run.pin_file.exists():
        raise UserError(f"runsDelete={run.name}: it is protected. Remove its protection first: runsPin={run.name}")
    size = sum(_size(file) for file in run.path.rglob("*"))
    pointed = {kind: read_latest(runs_dir, kind) for kind in ("train", "test")}
    doomed = run.path.with_name(f".deleting.{run.name}")
    try:
        run.path.rename(doomed)
    except OSError as error:
        raise UserError(
            f"runsDelete={run.name}: {run.path.absolute()} cannot be removed ({error.strerror})."
        ) from error
    for kind, target in pointed.items():
        if target is not None and target.name == run.name:
            _point_at_what_is_left(runs_dir, kind)
    shutil.rmtree(doomed, ignore_errors=True)
    if doomed.exists():
        raise UserError(
            f"runsDelete={run.name}: some files could not be removed; they are in {doomed.absolute()}. "
            "Remove them by hand."
        )
    log.info("deleted %s (%s).", run.name, _mebibytes(size))
    return 0


def _point_at_what_is_left(runs_dir: Path, kind: str) -> None:
    kinds = TRAINING_KINDS if kind == "train" else (kind,)
    left = [run for run in list_runs(runs_dir, kinds) if kind == "test" or list_playable(run)]
    if left:
        point_latest(runs_dir, kind, left[0])
    else:
        unpoint_latest(runs_dir, kind)


def _plot(runs: list[Run], picture: Path, tag: str) -> int:
    """Draws one curve of the training runs, as a report does."""
    check_format("runsPlot", picture)
    comparison = compare(run for run in runs[::-1] if run.kind in TRAINING_KINDS)  # the oldest first
    check_tag(comparison, tag)
    panels = panels_of(comparison, lambda outcome: outcome.curves.get(tag))
    try:
        draw(panels, Picture(NAMES.get(tag, tag)), [picture])
    except (OSError, ValueError) as error:
        raise UserError(f"runsPlot={picture}: cannot be written ({error}). Allowed: a .png, .svg or .pdf.") from error
    drawn = sum(tag in outcome.curves for outcome in comparison.outcomes)
    log.info("%s: %s of %s", picture, tag, count(drawn, "run"))
    return 0

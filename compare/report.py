"""`config=report`: compares runs in a table, in pictures and in one HTML file.

    python train.py config=report                                      # all training runs
    python train.py config=report runs=sweeps/20260102_120008_000000   # the runs of a sweep
    python train.py config=report 'runs=[Ant_train_20260102_*,Ant_train_20260103_120008]'

No run is left out silently: one without curves, a live or an incomplete one has its row, and a run of a sweep that was
deleted has a sentence.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from livegym.compare.chosen import Chosen, choose
from livegym.compare.comparison import NAMES, Comparison, check_tag, compare, panels_of
from livegym.compare.curves import Curve
from livegym.compare.groups import SECONDS
from livegym.compare.outcome import RETURN, Outcome
from livegym.compare.page import page
from livegym.compare.picture import FORMATS, Picture, draw
from livegym.compare.table import WIDEST, group_rows, groups_table, runs_table
from livegym.schema import RootConfig
from livegym.utils.errors import UserError
from livegym.utils.files import atomic_write_text


def report(config: RootConfig, task: str | None, console: Console) -> int:
    """Prints the tables, writes the files, and prints their paths; returns the exit status.

    Raises UserError if a name in `runs` means no run, or if the files cannot be written.
    """
    runs_dir = Path(config.runsDir)
    if not runs_dir.is_dir():
        raise UserError(f"runsDir={config.runsDir}: there is no directory {runs_dir.absolute()}.")
    chosen = choose(config.runs, runs_dir, task)
    comparison = compare(chosen.runs, chosen.missing)
    if config.runsTag != RETURN:
        check_tag(comparison, config.runsTag)
    print_tables(comparison, console)
    place = _place(config, chosen)
    written = write(comparison, place, config.runsTag)
    others = [str(file.relative_to(place)) for file in written[1:]]
    console.print(f"report: {written[0].absolute()}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"beside it: {', '.join(others)}", soft_wrap=True, highlight=False, markup=False)
    return 0


def _place(config: RootConfig, chosen: Chosen) -> Path:
    if config.reportDir is not None:
        return Path(os.path.expanduser(config.reportDir))
    if chosen.sweep is not None:
        return chosen.sweep / "report"
    return Path(config.runsDir) / "reports" / f"{datetime.now():%Y%m%d_%H%M%S}"


def print_tables(comparison: Comparison, console: Console) -> None:
    """Prints the runs and, if there are several seeds, the means of the groups."""
    width = console.width if console.is_terminal else None
    groups = group_rows(comparison.groups)
    for table in (runs_table(comparison.rows, width), *([groups_table(groups)] if groups else [])):
        if width is None:  # another program reads whole lines
            console.width = max(console.width, Console(width=WIDEST).measure(table).maximum)
        console.print(table)
    if groups:
        console.print("[low, high]: 95 % bootstrap interval of the mean over the seeds", markup=False, highlight=False)
    for sentence in comparison.missing:
        console.print(f"left out: {sentence}", soft_wrap=True, highlight=False, markup=False)


def write(comparison: Comparison, place: Path, tag: str = RETURN) -> list[Path]:
    """Writes the HTML file, the table and the pictures into `place`, which is made; returns their paths.

    Raises UserError if that is impossible; then a new directory is removed again.
    """
    new = [folder for folder in (place, *place.parents) if not os.path.lexists(folder)]
    try:
        place.mkdir(parents=True, exist_ok=True)
        pictures = _draw_all(comparison, place, tag)
        files = [place / "report.html", place / "runs.csv"]
        atomic_write_text(files[0], _html(comparison, pictures))
        atomic_write_text(files[1], _spreadsheet(comparison))
    except (OSError, ValueError) as error:
        _remove_new(new)
        raise UserError(
            f"the report cannot be written to {place.absolute()} ({error}). Choose another directory: reportDir=..."
        ) from error
    return [*files, *(stem.with_suffix(suffix) for _, stem in pictures for suffix in FORMATS)]


def _remove_new(folders: Sequence[Path]) -> None:
    """Remove the first of these directories, which were made one in the other, and the others if they are empty."""
    with contextlib.suppress(OSError, ValueError):
        for folder in folders[:1]:
            shutil.rmtree(folder)
        for folder in folders[1:]:
            folder.rmdir()


def _draw_all(comparison: Comparison, place: Path, tag: str) -> list[tuple[str, Path]]:
    """(caption, path without suffix) of each picture that was drawn."""

    def scalar(outcome: Outcome) -> Curve | None:
        return outcome.curves.get(tag)

    def success(outcome: Outcome) -> Curve | None:
        return outcome.success_curve

    name = NAMES.get(tag, tag)
    stem = "return" if tag == RETURN else tag.replace("/", "_")
    wanted = (
        (name[0].upper() + name[1:], stem, scalar, Picture(name)),
        (f"{name[0].upper() + name[1:]}, by time", f"{stem}_by_time", scalar, Picture(name, SECONDS)),
        ("Success rate", "success", success, Picture("success rate", percent=True)),
    )
    drawn = []
    for caption, file, curve_of, picture in wanted:
        panels = panels_of(comparison, curve_of, picture.axis)
        if panels:
            files = [place / f"{file}{suffix}" for suffix in FORMATS]
            draw(panels, picture, files)
            drawn.append((caption, place / file))
    return drawn


def _html(comparison: Comparison, pictures: Sequence[tuple[str, Path]]) -> str:
    notes = [f"Written by livegym on {datetime.now():%Y-%m-%d %H:%M}."]
    notes += [f"Left out: {sentence}" for sentence in comparison.missing]
    embedded = [(caption, stem.with_suffix(".png").read_bytes()) for caption, stem in pictures]
    return page(comparison.title, comparison.rows, group_rows(comparison.groups), embedded, notes)


def _spreadsheet(comparison: Comparison) -> str:
    """The runs as CSV, with all digits; an unknown number is empty."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["run", "task", "final", "best", "success", "seconds", "frames", "differs in", "note"])
    for o, row in zip(comparison.outcomes, comparison.rows, strict=True):
        table.writerow([row.name, row.task, o.final, o.best, o.success, o.seconds, o.frames, row.differs, row.notes])
    return text.getvalue()

"""Outcomes of runs as text: one table of the runs, one of the groups, for a terminal, a web page and a spreadsheet.

console.print(runs_table(rows_of(outcomes, groups, differ), width=80))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from livegym.compare.differences import Differences, in_words
from livegym.compare.groups import Group, interval, too_short
from livegym.compare.outcome import Outcome
from livegym.utils.words import count

WIDEST = 10_000  # columns, for measuring
NONE = "–"
NUMBERS = ("final", "best", "success", "time", "frames", "frames/s")
MEANING = {
    "final": "the last mean return in training; of a test, the mean over its episodes",
    "best": "the best mean return of a saved checkpoint, or the last if that is higher; if no checkpoint has a score, "
    "the highest of the curve",
    "success": "fraction of episodes that ended in success, over the last tenth of the curve",
    "time": "training time (s, or h:min:s), without the pauses between sessions",
    "frames": "control steps of all environments",
    "frames/s": "frames per second of training",
}
"""The meaning of the columns."""


@dataclass(frozen=True)
class Row:
    """One run in words."""

    name: str
    task: str
    numbers: tuple[str, ...]  # one for each of NUMBERS
    differs: str
    notes: str


def rows_of(outcomes: Sequence[Outcome], groups: Sequence[Group], differ: Differences) -> list[Row]:
    """One row for each run, in the order of the outcomes."""
    apart = {o.run for group in groups for o in too_short(group)}
    rows = []
    for o in outcomes:
        notes = [*o.notes, *(["not averaged: far shorter than the others"] if o.run in apart else [])]
        numbers = (
            value(o.final),
            value(o.best),
            percent(o.success),
            NONE if o.seconds is None else clock(o.seconds),
            NONE if o.frames is None else f"{o.frames:,}",
            NONE if o.frames_per_second is None else f"{o.frames_per_second:,.0f}",
        )
        rows.append(Row(o.run.name, o.run.task, numbers, in_words(differ[o.run]), "; ".join(notes)))
    return rows


def value(number: float | None) -> str:
    """A return with four significant digits; from 1,000 on, as a whole number."""
    if number is None:
        return NONE
    return f"{number:,.0f}" if abs(number) >= 999.5 else f"{number:.4g}"


def percent(share: float | None) -> str:
    """A share from 0 to 1 in percent."""
    return NONE if share is None else f"{100 * share:.0f} %"


def clock(seconds: float) -> str:
    """A duration as h:min:s; below a minute, in seconds."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, s = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{s:02d}"


def runs_table(rows: Sequence[Row], width: int | None) -> Table:
    """A table with one row for each run.

    Names are never wrapped, so that they can be copied. If the table is wider than `width` columns (None: no limit),
    the numbers share three columns of two lines, and what differs is below the name.
    """
    wide = _wide(rows)
    if width is None or Console(width=WIDEST).measure(wide).maximum <= width:
        return wide
    return _narrow(rows)


def _wide(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0))
    table.add_column("run", no_wrap=True)
    for name in NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("differs in", no_wrap=True)
    noted = any(row.notes for row in rows)
    if noted:
        table.add_column("note", no_wrap=True)
    for row in rows:
        table.add_row(row.name, *row.numbers, Text(row.differs), *([Text(row.notes)] if noted else []))
    return table


def _narrow(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("run\n  differs in", no_wrap=False)
    for upper, lower in (NUMBERS[0:2], NUMBERS[2:4], NUMBERS[4:6]):
        table.add_column(f"{upper}\n{lower}", justify="right", no_wrap=True)
    for row in rows:
        below = [text for text in (row.differs, row.notes) if text]
        name = Text("\n  ".join([row.name, *below]))
        n = row.numbers
        table.add_row(name, f"{n[0]}\n{n[1]}", f"{n[2]}\n{n[3]}", f"{n[4]}\n{n[5]}")
    return table


GROUP_HEADS = ("settings", "runs", "final return", "best return", "success")


def group_rows(groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """One row for each group that has several runs: means, with their 95 % intervals."""
    rows: list[tuple[str, ...]] = []
    for group in groups:
        left_out = {o.run for o in too_short(group)}
        averaged = [o for o in group.outcomes if o.run not in left_out]
        if len(averaged) < 2:
            continue
        success = [100 * o.success for o in averaged if o.success is not None]
        rows.append(
            (
                group.name,
                count(len(averaged), "seed"),
                _mean([o.final for o in averaged if o.final is not None]),
                _mean([o.best for o in averaged if o.best is not None]),
                _mean(success, " %"),
            )
        )
    return rows


def _mean(values: Sequence[float], unit: str = "") -> str:
    if not values:
        return NONE
    found = interval(values)
    if found.low is None or found.high is None:
        return f"{value(found.mean)}{unit}"
    return f"{value(found.mean)} [{value(found.low)}, {value(found.high)}]{unit}"


def groups_table(rows: Sequence[tuple[str, ...]]) -> Table:
    """The groups as a table; in a narrow terminal, long settings take several lines."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, head in enumerate(GROUP_HEADS):
        table.add_column(head, justify="right" if i else "left", overflow="fold", no_wrap=bool(i))
    for row in rows:
        table.add_row(*map(Text, row))
    return table

"""Several runs with their outcomes and groups, for a report, a plot and the end of a sweep.

comparison = compare(runs)
comparison.rows                                     # for a table
panels_of(comparison, lambda o: o.curves.get(tag))  # for a picture
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from livegym.compare.curves import Curve
from livegym.compare.differences import Differences, differences_by_kind
from livegym.compare.groups import FRAMES, Axis, Group, grouped, lines_of
from livegym.compare.outcome import RETURN, Outcome, outcome_of
from livegym.compare.picture import Panel
from livegym.compare.table import Row, rows_of
from livegym.rundir.run import Run
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.words import count

NAMES = {RETURN: "mean return per episode", "episode_lengths/step": "mean episode length (control steps)"}
"""Axis labels of curves whose TensorBoard tag does not describe them."""


@dataclass(frozen=True)
class Comparison:
    """Runs with their outcomes."""

    outcomes: list[Outcome]
    missing: list[str]  # a sentence for each run of a sweep that does not exist

    @cached_property
    def differences(self) -> Differences:
        """How the runs of each task and kind differ."""
        return differences_by_kind([outcome.run for outcome in self.outcomes])

    @cached_property
    def groups(self) -> list[Group]:
        """The runs by their settings."""
        return grouped(self.outcomes, self.differences)

    @cached_property
    def rows(self) -> list[Row]:
        """The runs as rows of a table."""
        return rows_of(self.outcomes, self.groups, self.differences)

    @property
    def title(self) -> str:
        """How many runs of which tasks."""
        tasks = sorted({o.run.task for o in self.outcomes})
        return f"{count(len(self.outcomes), 'run')} of {', '.join(task or 'an unknown task' for task in tasks)}"


def compare(runs: Iterable[Run], missing: Sequence[str] = ()) -> Comparison:
    """Reads the outcomes of the runs."""
    return Comparison([outcome_of(run) for run in runs], list(missing))


def check_tag(comparison: Comparison, tag: str) -> None:
    """Raises UserError if no run has the curve `tag`; the message lists the tags that exist."""
    tags = sorted({tag for o in comparison.outcomes for tag in o.curves})
    if tag not in tags:
        raise UserError(
            f"runsTag={tag}: none of {count(len(comparison.outcomes), 'run')} has this curve. "
            f"Available: {', '.join(tags) or 'none'}.{did_you_mean(tag, tags)}"
        )


def panels_of(comparison: Comparison, curve_of: Callable[[Outcome], Curve | None], axis: Axis = FRAMES) -> list[Panel]:
    """A panel for each task that has such curves."""
    panels = []
    groups = comparison.groups
    for task in dict.fromkeys(group.task for group in groups):
        lines = [line for g in groups if g.task == task for line in lines_of(g, curve_of, axis)]
        if lines:
            panels.append(Panel(task, lines))
    return panels

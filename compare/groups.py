"""Runs grouped by what differs in their configuration, and the mean of each group with an interval.

    for group in grouped(outcomes):
        group.label                                              # "train.learning_rate=1e-3, 4 seeds"
        lines_of(group, lambda o: o.curves.get("rewards/step"))   # its mean over the seeds, with an interval

The interval is the percentile bootstrap of the mean over the runs, 95 %, at each point of the curve, as Agarwal et al.
recommend for few runs ("Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021,
https://arxiv.org/abs/2108.13264). It shows how well the *mean* is known, not how much runs vary. With two or three
seeds it is too narrow; with one, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from livegym.compare.curves import Curve
from livegym.compare.differences import Differences, in_words
from livegym.compare.outcome import Outcome
from livegym.utils.words import count

CONFIDENCE = 0.95
RESAMPLES = 2000
GRID = 500
"""Points of a mean curve at most."""
SHORT = 0.5
"""A run that has a smaller share of its group's median frames is not averaged: the mean would end where it does."""

FRAMES, SECONDS = "frames", "seconds"
Axis = str
"""The x axis of a curve: FRAMES or SECONDS."""


@dataclass(frozen=True)
class Line:
    """One line of a picture: a run, or the mean of runs that differ only in their seed."""

    label: str
    x: np.ndarray  # (n,) frames, or seconds of training
    mean: np.ndarray  # (n,)
    low: np.ndarray | None = None  # (n,) the ends of the interval; None for a single run
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Group:
    """Runs of one task that have the same settings except the seed, or one run."""

    task: str
    name: str  # the settings that distinguish it, such as "train.tau=0.9"; without any, the task or the run
    outcomes: list[Outcome]

    @property
    def label(self) -> str:
        """Its name and its number of seeds, for a legend."""
        return self.name if len(self.outcomes) == 1 else f"{self.name}, {count(len(self.outcomes), 'seed')}"


@dataclass(frozen=True)
class Interval:
    """A mean and its 95 % interval, whose ends are None for a single value."""

    mean: float
    low: float | None = None
    high: float | None = None


def grouped(outcomes: Sequence[Outcome], differ: Differences) -> list[Group]:
    """The groups, in the order of their first runs; each run with the same settings *and* seed as another is alone.

    Equal runs are not averaged because nothing recorded explains why their results differ; their code may.
    """
    alike: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        settings = {key: value for key, value in differ[outcome.run].items() if key != "seed"}
        alike.setdefault((outcome.run.task, outcome.run.kind, in_words(settings)), []).append(outcome)
    groups = []
    for (task, _, name), members in alike.items():
        seeds = {differ[o.run].get("seed", o.run.name) for o in members}
        if len(members) > 1 and len(seeds) == len(members) and "seed" in differ[members[0].run]:
            groups.append(Group(task, name or task, members))
        else:
            alone = len(members) == 1
            names = [in_words(differ[o.run]) if alone else "" for o in members]
            groups += [Group(task, own or o.run.name, [o]) for own, o in zip(names, members, strict=True)]
    return groups


def lines_of(group: Group, curve_of: Callable[[Outcome], Curve | None], axis: Axis = FRAMES) -> list[Line]:
    """The lines of a group: its mean, and each run that is too short for it; [] if no run has the curve."""
    short = {o.run for o in too_short(group)}
    curves = [(o, curve) for o in group.outcomes if (curve := curve_of(o)) is not None]
    apart = [Group(group.task, f"{group.name}, {o.run.name}", [o]) for o, _ in curves if o.run in short]
    averaged = Group(group.task, group.name, [o for o, _ in curves if o.run not in short])
    lines = []
    for part in [averaged, *apart]:
        found = [curve for o, curve in curves if any(o is member for member in part.outcomes)]
        if found:
            make = _single if len(found) == 1 else _mean
            lines.append(make(part.label, found, axis))
    return lines


def too_short(group: Group) -> list[Outcome]:
    """The runs of a group that ended so early that they are left out of its mean."""
    frames = [o.frames for o in group.outcomes if o.frames]
    if len(frames) < 2:
        return []
    return [o for o in group.outcomes if o.frames and o.frames < SHORT * float(np.median(frames))]


def interval(values: Sequence[float]) -> Interval:
    """The mean of single numbers, such as the final returns of several seeds."""
    if len(values) < 2:
        return Interval(float(np.mean(values)))
    low, high = _bootstrap(np.array(values, dtype=float)[:, None])
    return Interval(float(np.mean(values)), float(low[0]), float(high[0]))


def _x(curve: Curve, axis: Axis) -> np.ndarray:
    return curve.frames if axis == FRAMES else curve.seconds


def _single(label: str, curves: Sequence[Curve], axis: Axis) -> Line:
    return Line(label, _x(curves[0], axis), curves[0].values)


def _mean(label: str, curves: Sequence[Curve], axis: Axis) -> Line:
    """The mean of several curves and its interval, over the part of the axis that all of them have."""
    xs = [_x(curve, axis) for curve in curves]
    start, end = max(x[0] for x in xs), min(x[-1] for x in xs)
    grid = np.unique(np.concatenate(xs))
    grid = grid[(grid >= start) & (grid <= end)]
    if len(grid) > GRID:
        grid = np.linspace(start, end, GRID)
    if not len(grid):  # they have no part in common
        grid = np.array([end])
    values = np.stack([np.interp(grid, x, curve.values) for x, curve in zip(xs, curves, strict=True)])
    low, high = _bootstrap(values)
    return Line(label, grid, values.mean(0), low, high)


def _bootstrap(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ends of the 95 % interval of the mean over axis 0; `values`: (runs, n). The same for the same values."""
    runs = len(values)
    drawn = np.random.default_rng(0).multinomial(runs, np.full(runs, 1 / runs), RESAMPLES)  # (RESAMPLES, runs)
    means = drawn @ values / runs
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(means, [tail, 100 - tail], axis=0)
    return low, high

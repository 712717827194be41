"""Curves of several runs in one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from livegym.rundir.differences import differences, in_words
from livegym.rundir.run import Run
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.words import count

FORMATS = (".png", ".svg", ".pdf")
AXES = {"rewards/step": "mean return"}
"""Names of axes, for curves whose TensorBoard name says something else."""
POINTS = 1000  # drawn per curve; longer curves are subsampled


Curve = tuple[list[int], list[float]]
"""Frames and values."""


def read_curve(run: Run, tag: str) -> Curve:
    """(frames, values) of one scalar; both empty if the run has no such curve."""
    accumulator = _events(run)
    if tag not in accumulator.Tags()["scalars"]:
        return [], []
    events = accumulator.Scalars(tag)
    return [e.step for e in events], [e.value for e in events]


def _events(run: Run) -> Any:  # tensorboard has no types
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(run.summaries), size_guidance={"scalars": POINTS})
    accumulator.Reload()
    return accumulator


def draw_curves(runs: Sequence[Run], picture: Path, tag: str) -> int:
    """Writes a PNG, SVG or PDF, as the picture's suffix says; returns how many runs had the curve.

    Raises UserError if no run has the curve (the message lists the tags that exist), or if the picture cannot be
    written.
    """
    if picture.suffix not in FORMATS:
        raise UserError(f"runsPlot={picture}: the name must end with one of {', '.join(FORMATS)}.")
    curves = {run.name: read_curve(run, tag) for run in runs}
    curves = {name: curve for name, curve in curves.items() if curve[0]}
    if not curves:
        tags = sorted({t for run in runs for t in _events(run).Tags()["scalars"]})
        raise UserError(
            f"runsTag={tag}: none of {count(len(runs), 'run')} has this curve. "
            f"Available: {', '.join(tags) or 'none'}.{did_you_mean(tag, tags)}"
        )
    _draw(lines_of([run for run in runs if run.name in curves], curves), picture, tag)
    return len(curves)


@dataclass(frozen=True)
class Line:
    """One line of the picture: a run, or the mean of runs that differ only in their seed, with their range."""

    label: str
    frames: np.ndarray  # (n,)
    mean: np.ndarray  # (n,)
    low: np.ndarray | None = None  # (n,) lowest and highest of the seeds; None: a single run
    high: np.ndarray | None = None


def lines_of(runs: Sequence[Run], curves: Mapping[str, Curve]) -> list[Line]:
    """The lines of these runs, labelled by what was typed differently; runs that differ only in their seed are one."""
    differ = differences(runs)
    if len({run.task for run in runs}) > 1:
        differ = {run.name: {"task": run.task, **differ[run.name]} for run in runs}
    groups: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.name):
        settings = {key: value for key, value in differ[run.name].items() if key != "seed"}
        groups.setdefault(in_words(settings), []).append(run)
    lines = []
    for label, group in groups.items():
        seeds = {differ[run.name].get("seed", run.name) for run in group}
        if len(group) > 1 and len(seeds) == len(group) and "seed" in differ[group[0].name]:
            lines.append(_mean(f"{label or group[0].task}, {len(group)} seeds", [curves[run.name] for run in group]))
        else:  # also runs with the same settings: their code may differ
            alone = len(group) == 1
            lines += [_single(in_words(differ[run.name]) if alone else "", run, curves[run.name]) for run in group]
    return lines


def _single(label: str, run: Run, curve: Curve) -> Line:
    return Line(label or run.name, np.array(curve[0]), np.array(curve[1]))


def _mean(label: str, curves: Sequence[Curve]) -> Line:
    """Mean, lowest and highest of curves, over the frames that all of them have."""
    start, end = max(frames[0] for frames, _ in curves), min(frames[-1] for frames, _ in curves)
    grid = np.unique([frame for frames, _ in curves for frame in frames if start <= frame <= end])
    if not len(grid):  # they have no frame in common
        grid = np.array([end])
    values = np.stack([np.interp(grid, frames, values) for frames, values in curves])
    return Line(label, grid, values.mean(0), values.min(0), values.max(0))


def _draw(lines: Sequence[Line], picture: Path, tag: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5), dpi=150)
    for line in lines:
        (drawn,) = axes.plot(line.frames, line.mean, linewidth=1.6, label=line.label)
        if line.low is not None and line.high is not None:
            axes.fill_between(line.frames, line.low, line.high, color=drawn.get_color(), alpha=0.2, linewidth=0)
    if any(line.low is not None for line in lines):
        axes.set_title("line: mean of the seeds; band: lowest to highest", fontsize=8, loc="left")
    axes.set_xlabel("frames")
    axes.set_ylabel(AXES.get(tag, tag))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    try:
        figure.savefig(picture)
    except (OSError, ValueError) as error:
        raise UserError(f"runsPlot={picture}: cannot be written ({error}). Allowed: a .png, .svg or .pdf.") from error
    finally:
        pyplot.close(figure)

"""Curves of several runs in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from livegym.rundir.run import Run
from livegym.utils.errors import UserError, did_you_mean

FORMATS = (".png", ".svg", ".pdf")
POINTS = 1000  # drawn per curve; longer curves are subsampled


def read_curve(run: Run, tag: str) -> tuple[list[int], list[float]]:
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
            f"runsTag={tag}: none of {len(runs)} runs has this curve. "
            f"Available: {', '.join(tags) or 'none'}.{did_you_mean(tag, tags)}"
        )
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5), dpi=150)
    for name, (frames, values) in sorted(curves.items()):
        axes.plot(frames, values, linewidth=1.6, label=name)
    axes.set_xlabel("frames")
    axes.set_ylabel(tag)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    try:
        figure.savefig(picture)
    except (OSError, ValueError) as error:
        raise UserError(f"runsPlot={picture}: cannot be written ({error}). Allowed: a .png, .svg or .pdf.") from error
    finally:
        pyplot.close(figure)
    return len(curves)

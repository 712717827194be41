"""Learning curves as a picture that can be printed: PNG, SVG or PDF.

    draw([Panel("Ant", lines)], Picture("mean return per episode"), [Path("curves.png"), Path("curves.svg")])

Colours are those of Okabe and Ito, which people with any kind of colour vision tell apart ("Color Universal Design",
2008), with a darker yellow; with more than eight lines, the style of the line changes, too.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livegym.compare.groups import FRAMES, Axis, Line
from livegym.utils.errors import UserError
from livegym.utils.files import atomic_write_bytes

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")
STYLES = ("-", "--", ":", "-.")
INSIDE = 4
"""Lines whose legend fits into the axes; longer legends are below them."""
WIDE = 44
"""Characters of a label of which two fit beside each other."""
UNITS = ((3 * 86400, 86400, "days"), (3 * 3600, 3600, "h"), (300, 60, "min"), (0, 1, "s"))
"""(From this many seconds on, seconds of the unit, its name.)"""
BAND = "mean over seeds; band: its 95 % interval (bootstrap)"
SETTINGS: dict[Any, Any] = {
    "font.size": 9, "axes.titlesize": 9, "legend.fontsize": 8, "legend.title_fontsize": 8, "axes.linewidth": 0.8,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#E5E5E5",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False, "pdf.fonttype": 42,
    "svg.hashsalt": "livegym",
}  # fmt: skip
"""matplotlib's settings. Fonts of a PDF are embedded as TrueType, which publishers require."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes: the curves of one task."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Picture:
    """The labels and the kind of the axes of all panels."""

    y: str
    axis: Axis = FRAMES
    percent: bool = False  # values from 0 to 1 are shown in percent


def check_format(key: str, picture: Path) -> None:
    """Raises UserError unless the file's suffix is that of a picture."""
    if picture.suffix not in FORMATS:
        raise UserError(f"{key}={picture}: the name must end with one of {', '.join(FORMATS)}.")


def draw(panels: Sequence[Panel], picture: Picture, files: Sequence[Path]) -> None:
    """Draws the panels below each other and writes each file in the format of its suffix.

    A file is complete or absent. Raises OSError or ValueError if it cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = list(dict.fromkeys(line.label for panel in panels for line in panel.lines))
    below = len(labels) > INSIDE
    columns = 2 if max(map(len, labels), default=0) <= WIDE else 1
    rows = -(-len(labels) // columns) + 1 if below else 0  # of the legend
    height = 3.3 * len(panels) + 0.17 * rows
    with matplotlib.rc_context(SETTINGS):
        figure, grid = pyplot.subplots(
            len(panels), figsize=(6, height), dpi=200, squeeze=False, layout="constrained", sharex=False
        )
        try:
            for axes, panel in zip(grid[:, 0], panels, strict=True):
                _draw_panel(axes, panel, picture, labels)
                axes.set_title(panel.title if len(panels) > 1 else "", loc="left")
            _add_legend(figure, grid[0, 0], [line for panel in panels for line in panel.lines], columns if below else 0)
            for file in files:
                data = io.BytesIO()
                figure.savefig(data, format=file.suffix[1:], metadata=_undated(file))
                atomic_write_bytes(file, data.getvalue())
        finally:
            pyplot.close(figure)


def _undated(file: Path) -> dict[str, Any]:
    """Metadata without the time of day, so that the same curves are the same file."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(file.suffix, {})


def _draw_panel(axes: Any, panel: Panel, picture: Picture, labels: Sequence[str]) -> None:
    from matplotlib.ticker import EngFormatter, PercentFormatter

    scale, x_label = 1, "frames (control steps of all environments)"
    if picture.axis == FRAMES:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    else:
        longest = max(float(line.x[-1]) for line in panel.lines)
        _, scale, unit = next(row for row in UNITS if longest >= row[0])
        x_label = f"training time ({unit})"
    for line in panel.lines:
        number = labels.index(line.label)
        colour = COLOURS[number % len(COLOURS)]
        style = STYLES[number // len(COLOURS) % len(STYLES)]
        marker = "o" if len(line.x) == 1 else None  # a line of one point would be invisible
        x = line.x / scale
        axes.plot(x, line.mean, style, color=colour, linewidth=1.5, marker=marker, label=line.label)
        if line.low is not None and line.high is not None:
            axes.fill_between(x, line.low, line.high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel(x_label)
    axes.set_ylabel(picture.y)
    axes.margins(x=0.01)
    if picture.percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_ylim(-0.02, 1.02)


def _add_legend(figure: Any, axes: Any, lines: Sequence[Line], columns: int) -> None:
    """`columns` of a legend below the axes; 0: it is inside."""
    drawn = {label: handle for a in figure.axes for handle, label in zip(*a.get_legend_handles_labels(), strict=True)}
    title = BAND if any(line.low is not None for line in lines) else None
    place: dict[str, Any] = {"title": title, "alignment": "left"}
    if columns:
        figure.legend(drawn.values(), drawn.keys(), loc="outside lower left", ncols=columns, **place)
    else:
        axes.legend(drawn.values(), drawn.keys(), loc="best", **place)

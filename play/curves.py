"""TensorBoard curves of an endless test: return, length and success of what was played.

A point is the mean over the episodes that ended since the last one. Its step is the version that acts, so TensorBoard's
"Step" axis shows the curves by version, and "Relative" and "Wall" show them by time.
"""

from __future__ import annotations

import time
from pathlib import Path

from livegym.rl.scalars import ScalarWriter
from livegym.utils.moments import Moments
from livegym.weights.candidate import Label, split_label

POINT_INTERVAL = 10.0  # s between two points, at least


class TestCurves:
    """The curves of one test, in `directory`."""

    __test__ = False  # this is no test case of pytest

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: ScalarWriter | None = None
        self._sums: dict[str, Moments] = {}
        self._point_at = time.monotonic()

    def add(self, values: dict[str, float | None]) -> None:
        """Add the values of an episode that has ended: `return`, and others. None: the task has no such value."""
        for name, value in values.items():
            if value is not None:
                self._sums.setdefault(name, Moments()).add(value)

    def refresh(self, acting: Label) -> None:
        """Write a point if one is due; `acting`: the version that acts."""
        if self._sums and time.monotonic() - self._point_at >= POINT_INTERVAL:
            self._write(acting)

    def close(self, acting: Label) -> None:
        """Write the last point, and close the file."""
        if self._sums:
            self._write(acting)
        if self._writer is not None:
            self._writer.close()

    def _write(self, acting: Label) -> None:
        _, version = split_label(acting)
        if self._writer is None:
            self._writer = ScalarWriter(self._directory)
        for name, moments in self._sums.items():
            self._writer.add_scalar(f"test/{name}", moments.mean, version)
        self._writer.add_scalar("test/episodes", float(self._sums["return"].count), version)
        self._writer.flush()
        self._sums = {}
        self._point_at = time.monotonic()

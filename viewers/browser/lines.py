"""Draws a simulation's lines (`sim/lines.py`) for one client of the 3D scene."""

from __future__ import annotations

import numpy as np
import viser

from livegym.sim.lines import Lines
from livegym.viewers.browser.scene import ROOT

WIDTH = 2.0  # pixels


class ClientLines:
    """The lines that one client sees: one node of its scene, sent only if it has changed."""

    def __init__(self, client: viser.ClientHandle) -> None:
        self._client = client
        self._node: viser.LineSegmentsHandle | None = None
        self._points, self._colours = np.zeros((0, 2, 3), np.float32), np.zeros((0, 2, 3), np.uint8)

    def show(self, lines: Lines, places: np.ndarray) -> None:
        """Shows these lines instead of the former ones. places: (n, 3) m, where each environment stands."""
        if not len(lines):
            if self._node is not None:
                self._node.remove()
                self._node = None
            return
        points = (lines.ends + places[lines.envs][:, None]).astype(np.float32)
        colours = np.repeat(np.round(255 * lines.colours).astype(np.uint8)[:, None], 2, axis=1)
        if self._node is None or len(points) != len(self._points):
            self._node = self._client.scene.add_line_segments(
                f"{ROOT}/lines", points, colours, thickness=WIDTH, thickness_units="screen"
            )
        else:
            with self._client.atomic():
                if not np.array_equal(points, self._points):
                    self._node.points = points
                if not np.array_equal(colours, self._colours):
                    self._node.colors = colours
        self._points, self._colours = points, colours

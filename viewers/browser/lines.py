"""Draws a simulation's lines (`sim/lines.py`) for one client of the 3D scene."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import viser

from livegym.sim.lines import MOST, Lines
from livegym.viewers.browser.scene import ROOT

WIDTH = 2.0  # pixels
RATE = 1_000_000.0
"""Bytes per second that a client gets, before compression: 10,000 moving lines come four times a second."""
SPARE = 1.25
"""Room of a new node, in lines that it must hold."""


class ClientLines:
    """The lines that one client sees: one node of its scene, sent if it has changed and `RATE` allows it.

    The node has more lines than there are to show, and the others repeat the last one, so that their number can change
    without a new node.
    """

    def __init__(self, client: viser.ClientHandle) -> None:
        self.waiting = False  # whether what was to be shown has not been sent
        self._client = client
        self._node: viser.LineSegmentsHandle | None = None
        self._points, self._colours = np.zeros((0, 2, 3), np.float32), np.zeros((0, 2, 3), np.uint8)
        self._owed = 0.0  # bytes that were sent earlier than RATE allows

    def show(self, lines: Lines, env_ids: Sequence[int], places: np.ndarray, seconds: float) -> None:
        """Shows the lines of some environments instead of the former ones, or not yet: then it is `waiting`.

        The next call after the wait sends what it is given, so the newest state is the one that is seen.

        Args:
            lines: those of all environments.
            env_ids: n environments, the most important first.
            places: (n, 3) m, where each of them stands.
            seconds: s since the last call.
        """
        self._owed = max(0.0, self._owed - RATE * seconds)
        self.waiting = self._owed > 0.0
        if self.waiting:
            return
        chosen = lines.of(env_ids)
        if not len(chosen):
            self._remove()
            return
        points = (chosen.ends + places[chosen.envs][:, None]).astype(np.float32)
        colours = np.repeat(np.round(255 * chosen.colours).astype(np.uint8)[:, None], 2, axis=1)
        if self._node is None or not len(points) <= len(self._points) <= 2 * SPARE * len(points):
            self._add(points, colours)
        else:
            self._change(points, colours)

    def _remove(self) -> None:
        if self._node is not None:
            self._node.remove()
            self._node = None

    def _add(self, points: np.ndarray, colours: np.ndarray) -> None:
        room = min(MOST, int(SPARE * len(points)))
        self._points, self._colours = _filled(points, room), _filled(colours, room)
        self._node = self._client.scene.add_line_segments(
            f"{ROOT}/lines", self._points, self._colours, thickness=WIDTH, thickness_units="screen"
        )
        self._owed += self._points.nbytes + self._colours.nbytes

    def _change(self, points: np.ndarray, colours: np.ndarray) -> None:
        assert self._node is not None
        points, colours = (_filled(values, len(self._points)) for values in (points, colours))
        with self._client.atomic():
            if not np.array_equal(points, self._points):
                self._node.points = self._points = points
                self._owed += points.nbytes
            if not np.array_equal(colours, self._colours):
                self._node.colors = self._colours = colours
                self._owed += colours.nbytes


def _filled(values: np.ndarray, room: int) -> np.ndarray:
    """(room, 2, 3): the last of the values (n, 2, 3) is repeated."""
    return np.concatenate([values, np.repeat(values[-1:], room - len(values), axis=0)])

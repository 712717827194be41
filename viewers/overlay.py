"""The window's text over its picture: the status of the test, unusual states, the last notice, and the keys."""

from __future__ import annotations

import time

import mujoco
import mujoco.viewer

from livegym.viewers.key_bindings import WindowState, help_text
from livegym.viewers.status import ascii_of, marks, status

INTERVAL = 0.1  # s between two updates of the text
NOTICE_SECONDS = 6.0  # s that a notice stays
_GRID, _FONT = mujoco.mjtGridPos, mujoco.mjtFont

Text = tuple[int, int, str, str]
"""(font, place, left column, right column)"""


class OverlayText:
    """The text that a window shows now."""

    def __init__(self) -> None:
        self._texts: list[Text] = []
        self._due = 0.0
        self._heard: tuple[int, str] = (0, "")  # the newest notices, of the control loop and of the window
        self._notice, self._until = "", 0.0

    def show(self, handle: mujoco.viewer.Handle, window_state: WindowState) -> None:
        """Updates the text if it has changed. Waits until the window has drawn the previous one."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + INTERVAL
        texts = self._texts_now(window_state, now)
        if texts != self._texts:
            self._texts = texts
            handle.set_texts(texts)

    def _texts_now(self, window_state: WindowState, now: float) -> list[Text]:
        state = window_state.board.state
        texts = [(_FONT.mjFONT_NORMAL, _GRID.mjGRID_TOPLEFT, *status(state, window_state.view, time.time()))]
        if marks(state):
            texts.append((_FONT.mjFONT_BIG, _GRID.mjGRID_BOTTOM, marks(state), ""))
        if window_state.help_open:
            texts.append((_FONT.mjFONT_NORMAL, _GRID.mjGRID_TOPRIGHT, *help_text()))
        self._listen(window_state, now)
        if now < self._until:
            texts.append((_FONT.mjFONT_NORMAL, _GRID.mjGRID_BOTTOMLEFT, ascii_of(self._notice), ""))
        return texts

    def _listen(self, window_state: WindowState, now: float) -> None:
        """Shows a new notice of the control loop or of the window itself."""
        number, notice = (list(window_state.controls.notices) or [(0, "")])[-1]
        if (number, window_state.word) != self._heard:
            self._notice = notice if number != self._heard[0] else window_state.word
            self._heard, self._until = (number, window_state.word), now + NOTICE_SECONDS

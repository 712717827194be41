"""Calls to MuJoCo's window after it has been closed do nothing, instead of ending the process.

MuJoCo's window is freed by its render thread as soon as the user has closed it. What the thread that feeds it calls
then reads freed memory: `Handle` looks before some of its calls whether the window is still there, before `set_texts`
not even that, and the window may go between the look and the call. So here a call and the freeing exclude each other.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import mujoco.viewer


class GuardedWindow(mujoco.viewer._Simulate):
    """MuJoCo's window (`mujoco.viewer._Simulate`), with calls that know whether it has been freed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._call = threading.RLock()  # the viewport is asked for within `lock`
        self._freed = False

    def destroy(self) -> None:
        """Frees the window once no call is under way; `set_texts`, which waits for a frame, ends with the drawing."""
        with self._call:
            self._freed = True
            super().destroy()

    def set_texts(self, texts: list[tuple[int, int, str, str]]) -> None:
        """Shows texts (font, place, left column, right column)."""
        with self._call:
            if not self._freed:
                super().set_texts(texts)

    def sync(self, state_only: bool = False) -> None:
        """Hands the state over to the render thread."""
        with self._call:
            if not self._freed:
                super().sync(state_only)

    @property
    def viewport(self) -> mujoco.MjrRect | None:
        """The part of the window that shows the scene; None after the window was freed."""
        with self._call:
            return None if self._freed else super().viewport

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps the render thread away from what both use."""
        with self._call, contextlib.nullcontext() if self._freed else super().lock():
            yield


def install() -> None:
    """Makes windows that MuJoCo opens from now on guarded ones. It has no setting for this."""
    mujoco.viewer._Simulate = GuardedWindow

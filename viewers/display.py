"""Checks that this machine can open a window.

    check_display()    # raises UserError, which says what to do instead

A failure deep inside a window system ends the whole process, so a child process tries to open a window first.
"""

from __future__ import annotations

import os
import subprocess
import sys

from livegym.utils.errors import UserError

PATIENCE = 20.0  # s for a display to answer
_PROBE = """
import glfw, sys, warnings
warnings.simplefilter("ignore")
glfw.init() or sys.exit("no connection to it")
glfw.window_hint(glfw.VISIBLE, False)
glfw.create_window(64, 64, "", None, None) or sys.exit("it has no OpenGL")
"""
_INSTEAD = (
    "Watch in a browser with config=test_stream, or log in with `ssh -X`, or put `xvfb-run -a` before the command "
    "if the window need not be seen."
)


def check_display() -> None:
    """Raises UserError if no window can be opened."""
    if sys.platform == "darwin":
        return _check_mjpython()
    if sys.platform.startswith("linux"):
        display = _display()
        if display is None:
            raise UserError(f"no window here: neither DISPLAY nor WAYLAND_DISPLAY is set. {_INSTEAD}")
        problem = _probe()
        if problem is not None:
            raise UserError(f"no window here: {display} is set, but {problem}. {_INSTEAD}")
    return None


def _display() -> str | None:
    named = [f"{name}={os.environ[name]}" for name in ("DISPLAY", "WAYLAND_DISPLAY") if os.environ.get(name)]
    return " and ".join(named) or None


def _probe() -> str | None:
    """The reason why no window can be opened; None if one can be opened."""
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, errors="replace", timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return f"it does not answer within {PATIENCE:g} s"
    if probe.returncode == 0:
        return None
    return (
        probe.stderr.strip().splitlines()[-1] if probe.stderr.strip() else f"the attempt ended with {probe.returncode}"
    )


def _check_mjpython() -> None:
    """On macOS, windows need the main thread, and only MuJoCo's own launcher keeps it free for them."""
    if os.environ.get("MJPYTHON_BIN") is None:
        command = " ".join(["mjpython", *sys.argv])
        raise UserError(f"no window here: on macOS MuJoCo's window needs its own launcher. Run: {command}")

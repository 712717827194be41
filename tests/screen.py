"""A real X server without a screen, with keys, a mouse and pictures of what is on it."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import subprocess

import numpy as np
from PIL import Image

WINDOW = (854, 600)  # pixels, two thirds of the screen


class Screen:
    """An X server without a screen."""

    def __init__(self) -> None:
        reads, writes = os.pipe()
        # Without -noreset it begins anew when its last client goes, such as xdotool, and refuses who comes meanwhile.
        self.process = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writes), "-screen", "0", "1280x900x24", "-noreset"],
            pass_fds=[writes], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(writes)
        with os.fdopen(reads) as numbers:
            self.name = f":{numbers.readline().strip()}"

    def do(self, *arguments: str) -> str:
        """Keys and mouse, as `xdotool` has them."""
        env = {**os.environ, "DISPLAY": self.name}
        return subprocess.run(["xdotool", *arguments], env=env, check=True, capture_output=True, text=True).stdout

    def picture(self) -> np.ndarray:
        """(height, width, 3) of the window."""
        env = {**os.environ, "DISPLAY": self.name}
        png = subprocess.run(["import", "-window", "root", "png:-"], env=env, check=True, capture_output=True).stdout
        return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)[: WINDOW[1], : WINDOW[0]]

    def press_close_button(self) -> None:
        """Does what a window manager does: xdotool of 2016 can only destroy a window."""
        x11 = ctypes.CDLL("libX11.so.6")
        x11.XOpenDisplay.restype = ctypes.c_void_p
        display = ctypes.c_void_p(x11.XOpenDisplay(self.name.encode()))
        window = int(self.do("search", "--name", "MuJoCo").split()[-1])
        protocols, delete = (x11.XInternAtom(display, name, False) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
        event = (ctypes.c_long * 24)(33, 0, 0, 0, window, protocols, 32, delete, 0)  # an XClientMessageEvent
        x11.XSendEvent(display, ctypes.c_ulong(window), False, ctypes.c_long(0), event)
        x11.XCloseDisplay(display)

    def close(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait()

"""Chooses this process's off-screen OpenGL backend, and makes contexts of it.

    context = make_context(640, 480)    # EGL or OSMesa; no display needed
    context.make_current()

MuJoCo reads MUJOCO_GL when it is first imported, and fixes the backend of `mujoco.Renderer` then. If the variable is
unset, that is GLFW, which needs a display. Contexts here come directly from `mujoco.egl` or `mujoco.osmesa`, so they
work even if MuJoCo was imported before. The choice is made once per process: PyOpenGL supports only one of the two.

This module imports neither MuJoCo nor OpenGL, so that a wrong MUJOCO_GL is reported in one line before they fail on it.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib
import logging
import os
from typing import Any

from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

_EGL_PLATFORM_DEVICE = 0x313F
_MAX_DEVICES = 16
_PACKAGES = {"egl": "libegl1 libgl1-mesa-dri", "osmesa": "libosmesa6"}  # as Debian and Ubuntu name them
_WITHOUT_GL = "config=test and config=test_stream need no GL."


@functools.cache
def choose_backend() -> str:
    """The backend that MUJOCO_GL names, "egl" or "osmesa"; if it is unset or empty, the first that works here.

    Raises UserError if MUJOCO_GL has another value, or if the backend does not work on this machine.
    """
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked and asked not in _PACKAGES:
        raise UserError(
            f"no off-screen rendering here with MUJOCO_GL={asked}. Put MUJOCO_GL=egl or MUJOCO_GL=osmesa before the "
            "command, or unset it to let livegym choose."
        )
    probes = {"egl": _has_egl, "osmesa": _has_osmesa}
    for name in [asked] if asked else probes:
        if probes[name]():
            log.info("off-screen rendering with %s", name)
            return name
    raise _none_here(asked)


def make_context(width: int, height: int) -> Any:
    """A context of the chosen backend, for pictures up to width x height pixels, with make_current() and free().

    It belongs to the thread that makes it. Raises UserError if no context can be made.
    """
    backend = choose_backend()
    logging.getLogger("OpenGL.acceleratesupport").setLevel(logging.WARNING)  # it reports an optional module as missing
    try:
        return importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
    except (ImportError, AttributeError, RuntimeError, _gl_error()) as error:
        raise UserError(
            f"no off-screen rendering here: {backend} is installed, but cannot make a context ({type(error).__name__}: "
            f"{error}). Try MUJOCO_GL={'osmesa' if backend == 'egl' else 'egl'} before the command. {_WITHOUT_GL}"
        ) from error


def _gl_error() -> type[Exception]:
    """PyOpenGL's own error class. It must be imported after MuJoCo, which sets PyOpenGL's platform."""
    return importlib.import_module("OpenGL.error").Error


def _none_here(asked: str) -> UserError:
    cures = [f"sudo apt-get install {packages}" for name, packages in _PACKAGES.items() if asked in ("", name)]
    missing = f"{asked}, which MUJOCO_GL selects," if asked else "neither EGL nor OSMesa"
    verb = "does not work" if asked else "works"
    return UserError(f"no off-screen rendering here: {missing} {verb}. Try: {' or: '.join(cures)}. {_WITHOUT_GL}")


def _has_egl() -> bool:
    """True if an EGL device can be initialised without a display, as MuJoCo's context does it.

    libEGL alone proves nothing: it is often installed without any driver.
    """
    try:
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    pointers = ctypes.POINTER(ctypes.c_void_p)
    query = _extension(egl, "eglQueryDevicesEXT", ctypes.c_int, pointers, ctypes.POINTER(ctypes.c_int))
    display_of = _extension(egl, "eglGetPlatformDisplayEXT", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    devices, count = (ctypes.c_void_p * _MAX_DEVICES)(), ctypes.c_int()
    if query is None or display_of is None or not query(_MAX_DEVICES, devices, ctypes.byref(count)):
        return False
    egl.eglInitialize.argtypes = [ctypes.c_void_p] * 3
    displays = (display_of(_EGL_PLATFORM_DEVICE, device, None) for device in devices[: count.value])
    return any(display and egl.eglInitialize(display, None, None) for display in displays)


def _extension(egl: ctypes.CDLL, name: str, *arguments: Any) -> Any:
    """A function of an EGL extension that returns a pointer or a boolean; None if it does not exist."""
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    address = egl.eglGetProcAddress(name.encode())
    return ctypes.CFUNCTYPE(ctypes.c_void_p, *arguments)(address) if address else None


def _has_osmesa() -> bool:
    name = ctypes.util.find_library("OSMesa")
    try:
        return name is not None and bool(ctypes.CDLL(name))
    except OSError:
        return False

"""Which off-screen OpenGL this process has, and contexts of it.

    context = make_context(640, 480)    # of EGL or OSMesa; no display needed
    context.make_current()

MuJoCo reads MUJOCO_GL when it is first imported and settles then what `mujoco.Renderer` can do: GLFW, which needs a
display, if the variable is unset. Contexts here come from `mujoco.egl` or `mujoco.osmesa` themselves, so they work
whoever imported MuJoCo before. The choice is made once a process: PyOpenGL serves one of the two.

This module imports neither MuJoCo nor OpenGL, so a bad MUJOCO_GL can be told in one line before they stumble over it.
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
    """What MUJOCO_GL names, "egl" or "osmesa", and if it is unset or empty the first of them that works here.

    Raises UserError if MUJOCO_GL names something else, or what is wanted is not on this machine.
    """
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked and asked not in _PACKAGES:
        raise UserError(
            f"no off-screen rendering here with MUJOCO_GL={asked}. Put MUJOCO_GL=egl or MUJOCO_GL=osmesa before the "
            "command, or unset it to have one of them chosen."
        )
    probes = {"egl": _has_egl, "osmesa": _has_osmesa}
    for name in [asked] if asked else probes:
        if probes[name]():
            log.info("off-screen rendering with %s", name)
            return name
    raise _none_here(asked)


def make_context(width: int, height: int) -> Any:
    """A context of the chosen backend, for pictures up to width x height pixels, with make_current() and free().

    It belongs to the thread that makes it. Raises UserError if there is none to be had.
    """
    backend = choose_backend()
    logging.getLogger("OpenGL.acceleratesupport").setLevel(logging.WARNING)  # it misses a module that we do not need
    try:
        return importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
    except (ImportError, AttributeError, RuntimeError, _gl_error()) as error:
        raise UserError(
            f"no off-screen rendering here: {backend} is installed but gives no context ({type(error).__name__}: "
            f"{error}). Try MUJOCO_GL={'osmesa' if backend == 'egl' else 'egl'} before the command. {_WITHOUT_GL}"
        ) from error


def _gl_error() -> type[Exception]:
    """PyOpenGL's own error; not to be imported before MuJoCo has told PyOpenGL its platform."""
    return importlib.import_module("OpenGL.error").Error


def _none_here(asked: str) -> UserError:
    cures = [f"sudo apt-get install {packages}" for name, packages in _PACKAGES.items() if asked in ("", name)]
    missing = f"{asked}, which MUJOCO_GL asks for," if asked else "neither EGL nor OSMesa"
    verb = "does not work" if asked else "works"
    return UserError(f"no off-screen rendering here: {missing} {verb}. Try: {' or: '.join(cures)}. {_WITHOUT_GL}")


def _has_egl() -> bool:
    """Whether a device of EGL can be initialised without a display, as MuJoCo's context does it.

    libEGL alone is no sign: it is often there without any driver.
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
    """A function of an EGL extension that returns a pointer or a truth value; None if it is not there."""
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    address = egl.eglGetProcAddress(name.encode())
    return ctypes.CFUNCTYPE(ctypes.c_void_p, *arguments)(address) if address else None


def _has_osmesa() -> bool:
    name = ctypes.util.find_library("OSMesa")
    try:
        return name is not None and bool(ctypes.CDLL(name))
    except OSError:
        return False

"""Shows a test in MuJoCo's own window.

    check_display()
    window = Window(controls, board)         # a viewer of `live.audience`

There are three threads, so that a window that is dragged, covered or stuck never stalls the simulation. The control
loop copies a state only when the window wants one, at most 60 times a second; that takes it some 100 microseconds. The
window's own thread turns the newest state into a scene. MuJoCo's render thread draws the scene and calls back for keys,
which only append requests (`viewers/key_bindings.py`).

The chosen environment is an `MjData` of the window, so the mouse can select and pull its bodies; the others are extra
geoms around it. All are drawn with the nominal model, so a randomised size or colour is not visible.

Google's MuJoCo Studio is not used: it needs a secure context, binds every interface and has no authentication.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import glfw
import mujoco
import mujoco.viewer
import numpy as np
import torch

from livegym.play.audience import Viewer
from livegym.play.board import Board
from livegym.play.control_requests import Push
from livegym.play.controls import Controls
from livegym.play.play import Listener, Player
from livegym.play.world import World
from livegym.rundir.run import Run
from livegym.sim.base import Simulator
from livegym.sim.lines import Lines
from livegym.sim.model import compiled
from livegym.tasks.env import Env, Step
from livegym.utils.attempt import attempt
from livegym.viewers import lines as drawn_lines
from livegym.viewers import window_guard
from livegym.viewers.display import check_display
from livegym.viewers.framing import bounds_of, grid_offsets
from livegym.viewers.key_bindings import WindowState, press, take_back, with_modifier
from livegym.viewers.look import drawn_xml
from livegym.viewers.neighbours import NeighbourEnvs
from livegym.viewers.offscreen import put_camera
from livegym.viewers.overlay import OverlayText
from livegym.viewers.status import WINDOW
from livegym.viewers.view import View, aim, follows_at_first, tracked_body

log = logging.getLogger(__name__)

FRAME = 1 / 60  # s between two frames, at least
PATIENCE = 0.1  # s to wait for a new state before the texts and the camera are updated without one
CLOSING = 3.0  # s that a window may take to close
LEAVING = 10.0  # s that the end of the process may take longer for one that has not closed by then
SHADOW_MAP = 2048  # pixels along a side, at most; MuJoCo's default of 4096 is slow if a CPU draws
ASPECT = 4 / 3  # width divided by height of a window that has not been drawn yet
SHOWN = 64  # environments in one picture, at most: a block of them with the chosen one in it


class Window(Viewer):
    """A viewer that opens a new window for each world."""

    def __init__(self, controls: Controls, board: Board) -> None:
        """Raises UserError if no window can be opened. The window opens in `begin`."""
        check_display()
        self._controls, self._board = controls, board
        self._show: WindowThread | None = None

    @property
    def gone(self) -> bool:
        """True if the user closed the window."""
        return self._show is not None and self._show.gone

    def begin(self, world: World, run: Run) -> Listener:
        """Opens a window for these environments; closes the previous one."""
        self.close()
        self._show = WindowThread(self._controls, self._board, world.env)
        return self._show

    def close(self) -> None:
        """Closes the window within 3 s. A window that does not respond stays open until the process ends."""
        if self._show is not None:
            self._show.close()
            self._show = None


@dataclass(frozen=True)
class State:
    """The state of the environments, the chosen one first."""

    env_ids: list[int]
    qpos: np.ndarray  # (n, nq)
    qvel: np.ndarray  # (nv,) of the chosen one
    ctrl: np.ndarray  # (nu,) of the chosen one
    lines: Lines  # of these environments


class WindowThread(Listener):
    """A window for one model, and the thread that feeds it."""

    def __init__(self, controls: Controls, board: Board, env: Env) -> None:
        self.gone = False
        self._model = compiled(drawn_xml(env))
        self._model.vis.quality.shadowsize = min(SHADOW_MAP, self._model.vis.quality.shadowsize)
        self._data = mujoco.MjData(self._model)
        self._bounds = bounds_of(self._model)
        offsets = grid_offsets(min(SHOWN, env.num_envs), self._bounds.spacing)
        self._model.vis.map.shadowclip *= 1 + 2 * np.linalg.norm(offsets, axis=1).max() / self._bounds.radius
        self._others = NeighbourEnvs(self._model, offsets)
        self._window_state = WindowState(controls, board, View(follow=follows_at_first(self._model)), env.num_envs)
        self._overlay_text = OverlayText()
        self._at = 0  # the chosen environment of the last frame
        self._state: State | None = None
        self._wanted = True
        self._arrived = threading.Event()
        self._ended = False
        self._handle: mujoco.viewer.Handle | None = None
        self._on_lost: object = None  # called by the window system if the display is lost; must not be freed before
        env.sim.show_lines(self, True)
        self._thread = threading.Thread(target=self._work, name="window", daemon=True)
        self._thread.start()

    # the control loop's thread

    def on_step(self, step: Step, player: Player) -> None:
        """Called after each control step."""
        self._offer(player.env.sim)

    def on_rest(self, player: Player) -> None:
        """Called while the loop is paused, or ahead of its clock."""
        self._offer(player.env.sim)

    def _offer(self, sim: Simulator) -> None:
        """Copies the state if the window wants one."""
        if self._wanted:
            self._wanted = False
            self._state = _state_of(sim, self._window_state.view)
            self._arrived.set()

    def close(self) -> None:
        """Ends the thread and the window."""
        self._ended = True
        self._arrived.set()
        self._thread.join(CLOSING)
        if self._thread.is_alive():
            log.warning("the window does not respond, so it is left open until the process ends")
            _leave_at_exit(self._thread)

    # the window's own thread

    def _work(self) -> None:
        if not attempt("the window", self._run):
            self.gone = True  # the test would run on unseen

    def _run(self) -> None:
        self._on_lost = _on_lost_display(self._lose)
        window_guard.install()
        handle = mujoco.viewer.launch_passive(
            self._model, self._data, key_callback=self._on_key, show_left_ui=False, show_right_ui=False
        )
        handle.opt.sitegroup[:] = 0  # sites mark positions of sensors; they are not objects
        self._handle = handle
        due = time.monotonic()
        while not self._ended and handle.is_running():
            self._wanted = True
            self._arrived.wait(PATIENCE)
            self._arrived.clear()
            self._draw(handle)
            due = max(due + FRAME, time.monotonic() - FRAME)  # at most one frame behind schedule
            time.sleep(max(0.0, due - time.monotonic()))
        self.gone = not self._ended
        handle.close()
        while handle.m is not None:  # the render thread is still freeing the window; an exit meanwhile would crash
            time.sleep(0.01)

    def _lose(self) -> None:
        """Handles the loss of the X server. It never returns: Xlib would then end the process before the results."""
        self.gone = True
        log.warning("the display is gone, so the test ends")
        while True:
            time.sleep(3600)

    def _draw(self, handle: mujoco.viewer.Handle) -> None:
        state = self._state
        if state is None:
            return
        data = self._data
        data.qpos[:] = state.qpos[0]
        data.qvel[:] = state.qvel
        data.ctrl[:] = state.ctrl
        mujoco.mj_forward(self._model, data)
        self._others.draw(handle.user_scn, handle.opt, state.env_ids, state.qpos)
        drawn_lines.add_to(handle.user_scn, state.lines, self._others.around(state.env_ids))
        self._move_camera(handle, state.env_ids[0])
        handle.sync()
        self._overlay_text.show(handle, self._window_state)
        self._push(handle.perturb, state.env_ids[0])

    def _move_camera(self, handle: mujoco.viewer.Handle, chosen: int) -> None:
        window_state = self._window_state
        moved = self._others.place(chosen) - self._others.place(self._at) if window_state.view.show_all else np.zeros(3)
        self._at = chosen
        if window_state.aimed and not moved.any():
            return
        with handle.lock():
            if window_state.aimed:
                handle.cam.lookat[:] -= moved  # the grid has moved, so the camera moves with it
            else:
                window_state.aimed = True
                view = replace(window_state.view, env_id=chosen)
                where = aim(view, self._bounds, self._others.offsets, _aspect(handle))
                put_camera(handle.cam, where, tracked_body(self._model) if window_state.view.follow else -1)

    def _push(self, pull: mujoco.MjvPerturb, env_id: int) -> None:
        """Requests the mouse's pull, which `sync` has just turned into a force, for the next frames."""
        controls, name = self._window_state.controls, self._model.body(pull.select).name
        wrench = self._data.xfrc_applied[pull.select].tolist()
        if not pull.active or controls.paused or not name or not any(wrench):
            return
        pace = 8.0 if controls.speed is None else controls.speed
        controls.ask(Push(env_id, name, tuple(wrench[:3]), 2 * FRAME * pace, tuple(wrench[3:])), WINDOW)

    # MuJoCo's render thread, which holds the window's lock

    def _on_key(self, code: int) -> None:
        handle = self._handle
        if handle is None or with_modifier() or not press(self._window_state, code):
            return
        take_back(handle.opt, code)
        handle.opt.flags[mujoco.mjtVisFlag.mjVIS_CONTACTPOINT] = self._window_state.view.contacts
        handle.opt.flags[mujoco.mjtVisFlag.mjVIS_CONTACTFORCE] = self._window_state.view.forces


def _state_of(sim: Simulator, view: View) -> State:
    chosen = view.env_id
    first = chosen - chosen % SHOWN
    others = range(first, min(first + SHOWN, sim.num_envs)) if view.show_all else ()
    ids = [chosen, *(env_id for env_id in others if env_id != chosen)]
    return State(ids, _copy(sim.qpos[ids]), _copy(sim.qvel[chosen]), _copy(sim.ctrl[chosen]), sim.lines_of(ids).of(ids))


def _aspect(handle: mujoco.viewer.Handle) -> float:
    """Width divided by height of the window's picture."""
    view = handle.viewport
    return view.width / view.height if view is not None and view.height else ASPECT


def _copy(values: torch.Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


class _LaunchersExit:
    """Equals the local function that `launch_passive` registers with `atexit`, which waits for the window."""

    def __eq__(self, other: object) -> bool:
        return getattr(other, "__qualname__", "").startswith("_launch_internal.<locals>")

    __hash__ = None  # type: ignore[assignment]

    def __call__(self) -> None:
        """Only makes this object callable, as `atexit.unregister` expects; it is never called."""


def _leave_at_exit(thread: threading.Thread) -> None:
    """Makes the process exit without calling the window system, because one that hangs would block the exit too.

    Before that, it waits for the window's thread: on a busy machine it may only be slow, and Python crashes if it ends
    while that thread draws. One that hangs in the window system does not run any more Python.

    GLFW's library has an exit handler of its own in C. Glibc calls the newest handler first, and passes the status to
    it, so `_exit` is registered last.
    """
    atexit.unregister(_LaunchersExit())
    atexit.unregister(glfw.terminate)
    atexit.register(thread.join, LEAVING)
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)


def _on_lost_display(lost: Callable[[], None]) -> object:
    """Has `lost` called if the X server is lost, in the thread that notices. The caller must keep the result alive."""

    def handle(display: int | None) -> int:
        lost()
        return 0

    handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(handle)
    with contextlib.suppress(OSError):  # no X11 here
        ctypes.CDLL("libX11.so.6").XSetIOErrorHandler(handler)
    return handler

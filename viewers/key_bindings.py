"""The window's keys and their effects.

    desk = WindowState(controls, board, View(), num_envs=4)
    press(desk, glfw.KEY_SPACE)        # -> True: livegym uses this key
    help_text()                        # -> (keys, meanings), a line each

Requests to the control loop are in `play/control_requests.py`; the keys defined here change only the view.

MuJoCo's window binds nearly every letter to a rendering option of its own, and the digits to groups of geoms. Letters
outside this table keep that meaning; for keys in the table, `take_back` undoes MuJoCo's action. S W R L K G are not
used, because their effect cannot be undone before it is drawn. C and F have the same meaning in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import glfw
import mujoco

from livegym.play.board import Board
from livegym.play.control_requests import CONTROLS, Control, Press, Situation
from livegym.play.controls import Controls
from livegym.viewers.status import WINDOW
from livegym.viewers.view import PRESETS, View

MODIFIERS = (
    glfw.KEY_LEFT_CONTROL, glfw.KEY_RIGHT_CONTROL, glfw.KEY_LEFT_SHIFT, glfw.KEY_RIGHT_SHIFT,
    glfw.KEY_LEFT_ALT, glfw.KEY_RIGHT_ALT,
)  # fmt: skip


@dataclass
class WindowState:
    """The state that the window's keys read and change."""

    controls: Controls
    board: Board
    view: View
    num_envs: int
    help_open: bool = False
    aimed: bool = False  # False: the camera has yet to move to where the view says
    word: str = "press H for the keys"  # the latest notice of the window itself


@dataclass(frozen=True)
class KeyBinding:
    """One line of the list of keys. `does` lists the effects in the order of `names`."""

    names: tuple[str, ...]  # GLFW's name of a key, or its character
    does: str
    act: Callable[[WindowState, int], None]  # the second argument is the index of the key in `names`

    @property
    def codes(self) -> tuple[int, ...]:
        """The GLFW key codes; a character's is its ASCII code."""
        return tuple(ord(name) if len(name) == 1 else getattr(glfw, f"KEY_{name.upper()}") for name in self.names)


def press(window_state: WindowState, code: int) -> bool:
    """Performs the action of a key. Returns False if livegym does not use the key."""
    for key in KEYS:
        if code in key.codes:
            key.act(window_state, key.codes.index(code))
            return True
    return False


def with_modifier() -> bool:
    """True if Ctrl, Shift or Alt is pressed in the window of the calling thread: such keys are MuJoCo's."""
    window = glfw.get_current_context()
    return any(glfw.get_key(window, key) == glfw.PRESS for key in MODIFIERS)


def take_back(option: mujoco.MjvOption, code: int) -> None:
    """Undoes the rendering option that MuJoCo itself has just toggled for a key without modifiers."""
    for flag, (_, _, letter) in enumerate(mujoco.mjVISSTRING):
        if letter and ord(letter) == code:
            option.flags[flag] ^= 1
    if glfw.KEY_0 <= code < glfw.KEY_0 + mujoco.mjNGROUP:
        option.geomgroup[code - glfw.KEY_0] ^= 1


def help_text() -> tuple[str, str]:
    """Two texts with one line per key: the names and the effects."""
    lines = [(" ".join(key.names), key.does) for key in KEYS] + MOUSE
    return "\n".join(name for name, _ in lines), "\n".join(does for _, does in lines)


def _choose(window_state: WindowState, forward: int) -> None:
    window_state.view.env_id = (window_state.view.env_id + (1 if forward else -1)) % window_state.num_envs


def _show_all(window_state: WindowState, _: int) -> None:
    window_state.view.show_all = not window_state.view.show_all
    window_state.aimed = False


def _follow(window_state: WindowState, _: int) -> None:
    window_state.view.follow = not window_state.view.follow
    window_state.aimed = False


def _preset(window_state: WindowState, index: int) -> None:
    window_state.view.preset = list(PRESETS)[index]
    window_state.aimed = False


def _contacts(window_state: WindowState, _: int) -> None:
    window_state.view.contacts = not window_state.view.contacts


def _forces(window_state: WindowState, _: int) -> None:
    window_state.view.forces = not window_state.view.forces


def _help(window_state: WindowState, _: int) -> None:
    window_state.help_open = not window_state.help_open


def _key_of(control: Control, press: Press) -> KeyBinding:
    """The window's key for a request to the control loop."""

    def act(window_state: WindowState, index: int) -> None:
        asked = press(Situation(window_state.controls, window_state.board.state, window_state.view.env_id), index)
        if isinstance(asked, str):
            window_state.word = asked
        else:
            window_state.controls.ask(asked, WINDOW)

    return KeyBinding(control.window, control.does, act)


KEYS = (
    *(_key_of(control, control.press) for control in CONTROLS if control.press is not None),
    KeyBinding(("Up", "Down"), "other environment", _choose),
    KeyBinding(("A",), "show all, one", _show_all),
    KeyBinding(("T",), "camera: track the robot, free", _follow),
    KeyBinding(("1", "2", "3", "4"), f"from {', '.join(PRESETS)}", _preset),
    KeyBinding(("C",), "contact points", _contacts),
    KeyBinding(("F",), "contact forces", _forces),
    KeyBinding(("H",), "these keys", _help),
)
MOUSE = [
    ("double click", "choose a body"),
    ("Ctrl + drag", "push it (right), turn it (left)"),
    ("drag, scroll", "move the camera"),
    ("Ctrl+Q", "end the test"),
]

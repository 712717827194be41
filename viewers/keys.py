"""The keys of the window, and what they do.

    desk = Desk(controls, board, View(), num_envs=4)
    press(desk, glfw.KEY_SPACE)        # -> True: it is one of ours
    help_text()                        # -> (keys, meanings), a line each

MuJoCo's window binds nearly every letter to a rendering option of its own, and its digits to groups of geoms. Letters
that are not in this table keep that meaning; for those that are, MuJoCo's part is taken back (`take_back`). None of
S W R L K G is used: what those toggle cannot be taken back before it is drawn. C and F mean the same to both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import glfw
import mujoco

from livegym.play import requests as ask_for
from livegym.play.board import Board
from livegym.play.controls import HOW, SPEEDS, Controls
from livegym.viewers.view import PRESETS, View

MODIFIERS = (
    glfw.KEY_LEFT_CONTROL, glfw.KEY_RIGHT_CONTROL, glfw.KEY_LEFT_SHIFT, glfw.KEY_RIGHT_SHIFT,
    glfw.KEY_LEFT_ALT, glfw.KEY_RIGHT_ALT,
)  # fmt: skip
LADDER = (*SPEEDS, math.inf)  # inf: as fast as possible


@dataclass
class Desk:
    """What a person at the window has in hand."""

    controls: Controls
    board: Board
    view: View
    num_envs: int
    help_open: bool = False
    aimed: bool = False  # False: the camera is to be put where the view says
    word: str = "press H for the keys"  # the last answer of the window itself

    @property
    def policy(self) -> dict[str, Any] | None:
        """The policy's part of the board; None for a scripted agent, and before there is one."""
        return self.board.state.get("policy")


@dataclass(frozen=True)
class Key:
    """One line of the table. The first of `codes` does the first of what `does` says."""

    codes: tuple[int, ...]  # of GLFW
    name: str
    does: str
    act: Callable[[Desk, int], None]  # the second argument is the place of the code among `codes`


def press(desk: Desk, code: int) -> bool:
    """Does what a key stands for. False where it is none of ours."""
    for key in KEYS:
        if code in key.codes:
            key.act(desk, key.codes.index(code))
            return True
    return False


def with_modifier() -> bool:
    """Whether Ctrl, Shift or Alt is held in the window of the calling thread: such keys are MuJoCo's."""
    window = glfw.get_current_context()
    return any(glfw.get_key(window, key) == glfw.PRESS for key in MODIFIERS)


def take_back(option: mujoco.MjvOption, code: int) -> None:
    """Undoes what MuJoCo's own meaning of a key, without modifiers, has just done to what is drawn."""
    for flag, (_, _, letter) in enumerate(mujoco.mjVISSTRING):
        if letter and ord(letter) == code:
            option.flags[flag] ^= 1
    if glfw.KEY_0 <= code < glfw.KEY_0 + mujoco.mjNGROUP:
        option.geomgroup[code - glfw.KEY_0] ^= 1


def help_text() -> tuple[str, str]:
    """Names of keys and what they do, a line each."""
    lines = [(key.name, key.does) for key in KEYS] + MOUSE
    return "\n".join(name for name, _ in lines), "\n".join(does for _, does in lines)


def _pause(desk: Desk, _: int) -> None:
    desk.controls.ask(ask_for.Pause(not desk.controls.paused))


def _step(desk: Desk, _: int) -> None:
    desk.controls.ask(ask_for.StepOnce())


def _speed(desk: Desk, faster: int) -> None:
    now = math.inf if desk.controls.speed is None else desk.controls.speed
    near = min((s for s in LADDER if s > now), default=now) if faster else max(s for s in (0.0, *LADDER) if s < now)
    speed = max(near, LADDER[0])
    desk.controls.ask(ask_for.Speed(None if math.isinf(speed) else speed))


def _restart(desk: Desk, everywhere: int) -> None:
    desk.controls.ask(ask_for.Restart(None if everywhere else desk.view.env_id))


def _choose(desk: Desk, forward: int) -> None:
    desk.view.env_id = (desk.view.env_id + (1 if forward else -1)) % desk.num_envs


def _show_all(desk: Desk, _: int) -> None:
    desk.view.show_all = not desk.view.show_all
    desk.aimed = False


def _follow(desk: Desk, _: int) -> None:
    desk.view.follow = not desk.view.follow
    desk.aimed = False


def _preset(desk: Desk, place: int) -> None:
    desk.view.preset = list(PRESETS)[place]
    desk.aimed = False


def _contacts(desk: Desk, _: int) -> None:
    desk.view.contacts = not desk.view.contacts


def _forces(desk: Desk, _: int) -> None:
    desk.view.forces = not desk.view.forces


def _pin(desk: Desk, _: int) -> None:
    pinned = desk.policy is not None and desk.policy["pinned"]
    desk.controls.ask(ask_for.Follow() if pinned else ask_for.Pin())


def _roll_back(desk: Desk, _: int) -> None:
    desk.controls.ask(ask_for.RollBack(None))


def _swap(desk: Desk, _: int) -> None:
    policy = desk.policy
    if policy is None:
        desk.word = "a scripted agent acts here: there are no versions"
        return
    how = HOW[(HOW.index(policy["how"]) + 1) % len(HOW)]
    seconds = policy["blend_steps"] * desk.board.state["control_dt"]
    desk.controls.ask(ask_for.TakeOver(how, seconds))


def _compare(desk: Desk, _: int) -> None:
    if desk.board.state.get("comparing"):
        desk.controls.ask(ask_for.EndCompare())
        return
    policy = desk.policy
    labels = [kept["label"] for kept in policy["history"]] if policy is not None else []
    place = labels.index(policy["label"]) if policy is not None and policy["label"] in labels else 0
    if place == 0:
        desk.word = "there is no earlier version to compare with"
        return
    desk.controls.ask(ask_for.Compare(labels[place], labels[place - 1]))


def _record(desk: Desk, _: int) -> None:
    desk.controls.ask(ask_for.Record(not desk.controls.recording))


def _help(desk: Desk, _: int) -> None:
    desk.help_open = not desk.help_open


KEYS = (
    Key((glfw.KEY_SPACE,), "Space", "pause, go on", _pause),
    Key((glfw.KEY_RIGHT, glfw.KEY_PERIOD), "Right", "one step", _step),
    Key((glfw.KEY_MINUS, glfw.KEY_EQUAL), "- =", "slower, faster", _speed),
    Key((glfw.KEY_ENTER, glfw.KEY_BACKSPACE), "Enter Backspace", "new episode here, everywhere", _restart),
    Key((glfw.KEY_UP, glfw.KEY_DOWN), "Up Down", "other environment", _choose),
    Key((glfw.KEY_A,), "A", "show all, one", _show_all),
    Key((glfw.KEY_T,), "T", "camera: track the robot, free", _follow),
    Key((glfw.KEY_1, glfw.KEY_2, glfw.KEY_3, glfw.KEY_4), "1 2 3 4", f"from {', '.join(PRESETS)}", _preset),
    Key((glfw.KEY_C,), "C", "contact points", _contacts),
    Key((glfw.KEY_F,), "F", "contact forces", _forces),
    Key((glfw.KEY_P,), "P", "pin, follow the newest version", _pin),
    Key((glfw.KEY_B,), "B", "back to the version before, pinned", _roll_back),
    Key((glfw.KEY_M,), "M", f"take over: {', '.join(HOW)}", _swap),
    Key((glfw.KEY_V,), "V", "versus the version before", _compare),
    Key((glfw.KEY_O,), "O", "record, stop recording", _record),
    Key((glfw.KEY_H,), "H", "these keys", _help),
)
MOUSE = [
    ("double click", "choose a body"),
    ("Ctrl + drag", "push it (right), turn it (left)"),
    ("drag, scroll", "move the camera"),
    ("Ctrl+Q", "end the test"),
]

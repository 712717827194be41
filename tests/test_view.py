"""What is looked at, what keys ask for and what is said of a test, without any window."""

from __future__ import annotations

import re
from pathlib import Path

import glfw
import mujoco
import numpy as np
import pytest

from livegym.play import control_requests as ask_for
from livegym.play.board import Board
from livegym.play.control_requests import CONTROLS
from livegym.play.controls import ControlRequest, Controls
from livegym.viewers.framing import bounds_of, grid_offsets
from livegym.viewers.key_bindings import KEYS, WindowState, help_text, press, take_back
from livegym.viewers.neighbours import NeighbourEnvs
from livegym.viewers.status import age, marks, status
from livegym.viewers.view import PRESETS, View, aim, follows_at_first, tracked_body


def model_of(body: str) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")


PLANE = '<geom type="plane" size="0 0 1"/>'
BOX = '<geom type="box" size="1 2 3"/>'
SLIDER = f'<body name="sled" pos="0 0 5"><joint type="slide" axis="1 0 0" limited="true" range="-4 8"/>{BOX}</body>'
FLYER = f'<body name="still"/><body name="robot"><freejoint/>{BOX}</body>'


@pytest.mark.parametrize(("body", "tracked", "follows"), [(SLIDER, 1, False), (FLYER, 2, True), (BOX, 0, False)])
def test_a_camera_follows_a_free_robot(body, tracked, follows):
    model = model_of(body)
    assert tracked_body(model) == tracked
    assert follows_at_first(model) == follows


def test_a_camera_shows_one_environment_or_the_grid_around_it():
    bounds, offsets = bounds_of(model_of(BOX)), grid_offsets(4, 10.0)
    one = aim(View(show_all=False, env_id=3, preset="top"), bounds, offsets, aspect=1.5)
    assert (one.azimuth, one.elevation) == (PRESETS["top"].azimuth, PRESETS["top"].elevation)
    assert np.allclose(one.lookat, 0, atol=0.1)
    grid = aim(View(env_id=3, preset="top"), bounds, offsets, aspect=1.5)
    assert np.allclose(grid.lookat, [-5, -5, 0], atol=0.3)  # the chosen one stands at the origin, in a corner
    assert grid.distance > one.distance
    again = aim(View(env_id=7, preset="top"), bounds, offsets, aspect=1.5)
    assert np.allclose(again.lookat, grid.lookat)  # the same place of the next block


def test_a_camera_that_follows_has_everything_in_sight_around_the_chosen_one():
    bounds, offsets = bounds_of(model_of(BOX)), grid_offsets(2, 10.0)
    still = aim(View(preset="front"), bounds, offsets, aspect=1.0)
    following = aim(View(preset="front", follow=True), bounds, offsets, aspect=1.0)
    assert np.allclose(following.lookat, bounds.center, atol=0.05)
    assert following.distance > 1.5 * still.distance


def test_others_stand_beside_the_chosen_one_without_their_planes():
    model = model_of(PLANE + f'<body name="cube"><freejoint/>{BOX}</body>')
    others = NeighbourEnvs(model, grid_offsets(2, 10.0))
    scene = mujoco.MjvScene(model, 100)
    qpos = np.tile(model.qpos0, (2, 1))
    others.draw(scene, mujoco.MjvOption(), [1, 0], qpos)
    boxes = [geom for geom in scene.geoms[: scene.ngeom] if geom.type == mujoco.mjtGeom.mjGEOM_BOX]
    labels = [geom.label for geom in scene.geoms[: scene.ngeom] if geom.type == mujoco.mjtGeom.mjGEOM_LABEL]
    assert scene.ngeom == 3
    assert np.allclose(boxes[0].pos, others.place(0) - others.place(1))
    assert labels == ["[1]", "0"]
    others.draw(scene, mujoco.MjvOption(), [1], qpos[:1])
    assert scene.ngeom == 0


class Asked(Controls):
    """Controls that note what they are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[ControlRequest] = []

    def ask(self, request: ControlRequest, who: str = "") -> bool:
        self.requests.append(request)
        return True


POLICY = {
    "run": "Ant_1", "label": 12, "epoch": 120, "made": 1000.0, "newest": 12, "pinned": False, "swapping": False,
    "how": "blend", "blend_steps": 30, "history": [{"label": 11}, {"label": 12}],
}  # fmt: skip
STATE = {
    "phase": "playing", "task": "Ant", "policy": POLICY, "num_envs": 4, "control_dt": 0.05, "labels": [12] * 4,
    "lengths": [7] * 4, "paused": False, "speed": 1.0, "real_time": 0.998, "recording": False, "comparing": None,
    "episodes": 2, "return_mean": 3.14159, "success_rate": None, "agent": "policy", "level": None,
    "newer_run": None,
}  # fmt: skip


@pytest.fixture
def window_state():
    board = Board()
    board.state = STATE
    return WindowState(Asked(), board, View(), num_envs=4)


@pytest.mark.parametrize(
    ("code", "request_"),
    [
        (glfw.KEY_SPACE, ask_for.Pause(True)),
        (glfw.KEY_RIGHT, ask_for.StepOnce()),
        (glfw.KEY_MINUS, ask_for.Speed(0.5)),
        (glfw.KEY_EQUAL, ask_for.Speed(2.0)),
        (glfw.KEY_ENTER, ask_for.Restart(0)),
        (glfw.KEY_BACKSPACE, ask_for.Restart(None)),
        (glfw.KEY_P, ask_for.Pin()),
        (glfw.KEY_B, ask_for.RollBack(None)),
        (glfw.KEY_M, ask_for.TakeOver("now", 1.5)),
        (glfw.KEY_V, ask_for.Compare(12, 11)),
        (glfw.KEY_O, ask_for.Record(True)),
    ],
)
def test_a_key_asks_for(window_state, code, request_):
    assert press(window_state, code)
    assert window_state.controls.requests == [request_]


@pytest.mark.parametrize(
    ("speed", "code", "asked"),
    [
        (8.0, glfw.KEY_EQUAL, None),
        (None, glfw.KEY_EQUAL, None),
        (None, glfw.KEY_MINUS, 8.0),
        (1 / 16, glfw.KEY_MINUS, 1 / 16),
        (3.0, glfw.KEY_MINUS, 2.0),
        (3.0, glfw.KEY_EQUAL, 4.0),
    ],
)
def test_speeds_have_a_slowest_and_a_fastest(window_state, speed, code, asked):
    window_state.controls.speed = speed
    press(window_state, code)
    assert window_state.controls.requests == [ask_for.Speed(asked)]


def test_keys_that_undo_what_they_did(window_state):
    window_state.board.state = STATE | {"policy": POLICY | {"pinned": True}, "comparing": [12, 11]}
    press(window_state, glfw.KEY_P)
    press(window_state, glfw.KEY_V)
    assert window_state.controls.requests == [ask_for.Follow(), ask_for.EndCompare()]


def test_there_may_be_nothing_to_compare_with(window_state):
    window_state.board.state = STATE | {"policy": POLICY | {"history": [{"label": 12}]}}
    press(window_state, glfw.KEY_V)
    assert not window_state.controls.requests
    assert window_state.word == "there is no earlier version to compare with"


def test_keys_of_the_view(window_state):
    view = window_state.view
    window_state.aimed = True
    for code in (glfw.KEY_UP, glfw.KEY_A, glfw.KEY_T, glfw.KEY_4, glfw.KEY_C, glfw.KEY_F, glfw.KEY_H):
        assert press(window_state, code)
    assert view == View(3, show_all=False, follow=True, preset="top", contacts=True, forces=True)
    assert window_state.help_open
    assert not window_state.aimed
    assert not press(window_state, glfw.KEY_J)


def test_no_key_means_what_mujoco_does_before_it_can_be_taken_back():
    ours = {code for key in KEYS for code in key.codes}
    assert len(ours) == sum(len(key.codes) for key in KEYS)
    rendering = {letter for _, _, letter in mujoco.mjRNDSTRING if letter}
    assert not {chr(code) for code in ours if code < 256} & rendering
    option = mujoco.MjvOption()
    before = option.flags.copy(), option.geomgroup.copy()
    take_back(option, glfw.KEY_H)
    take_back(option, glfw.KEY_2)
    take_back(option, glfw.KEY_SPACE)
    assert (option.flags != before[0]).sum() == (option.geomgroup != before[1]).sum() == 1


def test_help_fits_into_mujocos_overlay():
    assert all(len(text) < 500 and text.isascii() for text in help_text())


def test_the_status_in_words():
    names, values = status(STATE, View(env_id=2), now=1012.4)
    assert dict(zip(names.split("\n"), values.split("\n"), strict=True)) == {
        "task": "Ant",
        "run": "Ant_1",
        "version": "12, epoch 120, 12 s old",
        "takes over": "blend",
        "return": "3.142, mean of 2",
        "environment": "2 (0 to 3), step 7",
        "speed": "1 x real time, measured 1.00 x",
    }
    assert status({"phase": "waiting", "text": "für später"}, View(), 0.0) == ("waiting", "f?r sp?ter")


def test_marks_name_what_is_unusual():
    assert marks(STATE) == ""
    unusual = STATE | {"paused": True, "recording": True, "comparing": [12, 11], "policy": POLICY | {"pinned": True}}
    assert marks(unusual) == "PAUSED   PINNED   REC   A/B 12 | 11"


@pytest.mark.parametrize(("seconds", "text"), [(-3, "0 s"), (59.9, "59 s"), (60, "1 min"), (7300, "2 h"), (2e5, "2 d")])
def test_ages_are_rounded_down(seconds, text):
    assert age(seconds) == text


# -- one table, and what is written by hand beside it

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "viewers" / "browser" / "page"
SCRIPT = "\n".join(file.read_text() for file in sorted(PAGE.glob("*.js")))
HTML = (PAGE / "index.html").read_text()


def keys_in(cell: str, words: dict[str, str]) -> list[str]:
    """The keys of one cell of the document's table, named as the code does by `words`; of `1` – `4`, all of them."""
    keys = [words.get(key, key) for key in re.findall(r"`([^`]+)`", cell)]
    return [str(n) for n in range(int(keys[0]), int(keys[1]) + 1)] if "–" in cell else keys


def documented() -> list[tuple[list[str], list[str]]]:
    """(keys of the page, keys of the window) of each row of docs/watching.md's table."""
    table = (ROOT / "docs" / "watching.md").read_text().partition("## Controls\n\n")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    in_window = {"space": "Space", "→": "Right", "↑": "Up", "↓": "Down"}
    return [(keys_in(page, {"space": " "}), keys_in(window, in_window)) for page, window in rows]


def page_keys() -> list[str]:
    """The keys that the page's script listens to, without the other names of `+` and without the cameras' digits."""
    table = SCRIPT.partition("const keys = {")[2].partition("\n};")[0]
    return [key for key in re.findall(r'"(.)":', table) if key != "="]


def test_the_documents_table_has_every_key():
    cameras = [str(n) for n in range(1, len(PRESETS) + 1)]
    assert sorted(k for _, keys in documented() for k in keys) == sorted(k for key in KEYS for k in key.names)
    assert sorted(k for keys, _ in documented() for k in keys) == sorted([*page_keys(), *cameras])


def test_a_control_has_its_keys_in_one_row_of_the_document_and_on_the_page():
    for control in CONTROLS:
        assert set(control.page) <= set(page_keys())
        if control.page or control.window:
            assert (list(control.page), list(control.window)) in documented(), control.name
        for key in control.page:
            assert f"<kbd>{'space' if key == ' ' else key}</kbd>" in HTML


def test_the_page_asks_for_nothing_else_and_can_ask_for_everything():
    asked = re.findall(r'ask\((?:[^")]*\? )?"(\w+)"(?: : "(\w+)")?', SCRIPT)
    assert {name for names in asked for name in names if name} == {control.name for control in CONTROLS}

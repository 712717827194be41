"""What pages may say, and what they are shown, without a browser: the wire, the frames, the 3D scene."""

from __future__ import annotations

import contextlib
import json
import math
import warnings
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
import websockets
from hypothesis import given, settings
from hypothesis import strategies as st

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.play.board import Board
from livegym.play.control_requests import Pause
from livegym.play.controls import Controls
from livegym.schema import PhysicsConfig, SimConfig
from livegym.tasks.build import make_env
from livegym.viewers.browser.contacts import _rotations
from livegym.viewers.browser.frames import LatestFrame
from livegym.viewers.browser.pages import REFUSALS, Pages
from livegym.viewers.browser.protocol import MAX_MESSAGE, REQUESTS, PageMessageError, ViewSettings, read
from livegym.viewers.browser.scene_server import SceneServer
from livegym.viewers.view import View
from livegym.web.access import Access
from livegym.web.pages import UNKNOWN
from livegym.web.viser_seam import expect_departures, scale_for
from tests.dummy import counting_env
from tests.page_fixtures import Line, SceneLine
from tests.patience import until
from tests.web_fixtures import doors

NUMBERS = st.integers() | st.integers(10**300, 10**320) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)
FIELDS = ["env_id", "on", "label", "body", "force", "seconds", "factor", "how", "preset", "first", "second"]
KEYS = st.sampled_from([*FIELDS, "place_camera"])
MESSAGES = st.builds(
    lambda do, fields: {"do": do, **fields},
    st.sampled_from([*REQUESTS, "view", "nothing"]) | VALUES,
    st.dictionaries(KEYS | st.text(max_size=9), VALUES, max_size=5),
)
PUSH = {"do": "push", "env_id": 0, "body": "torso", "force": [1.0, 0.0, 0.0], "seconds": 0.5}


def answer(text):
    """What `read` makes of a message; None if it is refused."""
    try:
        return read(text)
    except PageMessageError:
        return None


@given(MESSAGES | VALUES)
@settings(max_examples=200, deadline=None)
def test_any_json_is_a_request_or_refused(message):
    found = answer(json.dumps(message))
    assert found is None or isinstance(found, (ViewSettings, *REQUESTS.values()))
    if isinstance(found, ViewSettings):
        assert found.view.env_id >= 0


def why_refused(message):
    try:
        read(json.dumps(message))
    except PageMessageError as error:
        return str(error)
    return ""


@given(MESSAGES)
@settings(max_examples=200, deadline=None)
def test_a_refusal_is_in_our_words(message):
    why = why_refused(message)
    assert UNKNOWN not in why
    assert not any(words in why for words in ("Input should", "Field required", "Extra inputs", "should have"))


def test_a_refusal_names_the_field_and_what_is_allowed():
    assert why_refused({"do": "push", "env_id": 1.5}) == "push: env_id: given 1.5; expected a whole number"
    assert why_refused({**PUSH, "seconds": "x"}) == 'push: seconds: given "x"; expected a number'
    assert why_refused({**PUSH, "strength": 1}) == "push: strength: unknown; leave it out"


@given(st.text(max_size=100) | st.binary(max_size=100).map(lambda raw: raw.decode("utf-8", "replace")))
@settings(max_examples=200, deadline=None)
def test_any_text_is_a_request_or_refused(text):
    assert answer(text) is None or "do" in text


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000 + "]" * 10_000,
        '{"do": "view", "x": ' + "[" * 190 + "]" * 190 + "}",
        '{"do": "restart", "env_id": ' + "9" * 4299 + "}",
        '{"do": "follow", "' + "k" * 50_000 + '": 1}',
        '{"do": "roll_back", "label": "' + "x" * 300 + '"}',
        '{"do": "roll_back", "label": "\\ud800"}',
        '{"do": "roll_back", "label": true}',
        '{"do": "pause", "on": 1}',
        '{"do": "pause"}',
        '{"do": "pause", "on": true, "more": 1}',
        '{"do": "speed", "factor": NaN}',
        '{"do": "speed", "factor": 1e400}',
        '{"do": ["pause"], "on": true}',
        json.dumps(PUSH | {"force": [1.0, 2.0]}),
        json.dumps(PUSH | {"force": "xyz"}),
        json.dumps(PUSH | {"seconds": math.inf}),
        json.dumps({"do": "view", "preset": "from nowhere"}),
        json.dumps({"do": "view", "place_camera": "yes"}),
    ],
)
def test_what_is_malformed_is_refused_in_few_words(text):
    with pytest.raises(PageMessageError) as refused:
        read(text)
    assert len(str(refused.value)) < MAX_MESSAGE


def test_a_negative_environment_is_refused():
    """It was looked up in arrays, from their end or past it, and ended the thread that draws for everybody."""
    with pytest.raises(PageMessageError, match="env_id=-1: must be at least 0"):
        read('{"do": "view", "env_id": -1}')
    assert read('{"do": "view", "env_id": 7}').view.env_id == 7


def offers(slot, env, moved=True):
    slot.offer(SimpleNamespace(env=env), moved)
    return slot.frame


def test_only_the_newest_frame_is_kept_and_none_is_copied_for_nobody():
    env, slot = counting_env(num_envs=3, length=50), LatestFrame(fps=1e6, shown=2)
    assert offers(slot, env) is None
    slot.want("a", True)
    first = offers(slot, env)
    env.sim.qpos[:, 1] = 7.0
    assert first.qpos[:, 1].tolist() == [0.0, 0.0]  # a copy, of as many environments as are shown
    assert offers(slot, env).qpos[:, 1].tolist() == [7.0, 7.0]
    slot.want("a", False)
    kept = slot.frame
    assert offers(slot, env) is kept


def test_who_begins_to_look_while_nothing_moves_gets_a_frame():
    env, slot = counting_env(num_envs=1, length=50), LatestFrame(fps=1e6, shown=1)
    slot.want("a", True)
    first = offers(slot, env)
    assert offers(slot, env, moved=False) is first
    slot.want("b", True)
    assert offers(slot, env, moved=False) is not first


def test_frames_are_as_many_as_asked_for():
    env, slot = counting_env(num_envs=1, length=50), LatestFrame(fps=0.001, shown=1)
    slot.want("a", True)
    assert len({offers(slot, env).time for _ in range(50)}) <= 3  # one period may be caught up on


def test_forces_turn_the_shaft_along_them():
    """wxyz by hand: up is none, along x a quarter around y, along y a quarter around -x, down half around x."""
    half = math.sqrt(0.5)
    turned = _rotations(np.array([[0, 0, 2.0], [3.0, 0, 0], [0, 0.5, 0], [0, 0, -1.0], [0, 0, 0]]))
    expected = [[1, 0, 0, 0], [half, 0, half, 0], [half, -half, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert turned == pytest.approx(np.array(expected), abs=1e-12)
    for force, quat in zip(
        ([3.0, 0, 0], [1.0, -2.0, 0.5]), _rotations(np.array([[3.0, 0, 0], [1, -2, 0.5]])), strict=True
    ):
        along = np.zeros(3)
        mujoco.mju_rotVecQuat(along, np.array([0.0, 0, 1]), quat)
        assert along == pytest.approx(np.array(force) / np.linalg.norm(force))


@pytest.fixture
def ants():
    """A stage with three ants that stand still, and what draws them anew."""
    config = to_typed(compose(["task=Ant"]))
    env = make_env(config.task, SimConfig(engine="mujoco"), PhysicsConfig(), 3, 0)
    env.reset()
    scene_server = SceneServer(fps=60)
    scene_server.begin(SimpleNamespace(env=env))
    yield SimpleNamespace(
        env=env, scene_server=scene_server, draw=lambda: scene_server.slot.offer(SimpleNamespace(env=env), True)
    )
    scene_server.close()
    env.sim.close()


def test_bodies_that_look_alike_are_one_mesh_and_what_rests_is_not_sent(ants):
    scene = ants.scene_server._scene
    assert [drawn.frames.tolist() for drawn in scene.kinds][:3] == [[1], [2, 3], [4]]
    with SceneLine(ants.scene_server) as line:
        until(lambda: ants.scene_server.client_cameras)
        ants.draw()
        assert line.updates() >= {(kind.handle.name, "batched_positions") for kind in scene.kinds}
        ants.draw()
        assert line.updates() == set()
        ants.env.sim.qpos[1, -1] += 0.3  # one ankle of one ant
        ants.draw()
        moved = {name for name, _ in line.updates()}
        assert moved == {scene.kinds[-1].handle.name}


def test_positions_and_turns_are_rounded_to_what_packs_well(ants):
    with SceneLine(ants.scene_server):
        until(lambda: ants.scene_server.client_cameras)
        ants.draw()
        until(lambda: all(len(kind.sent) for kind in ants.scene_server._scene.kinds))
    sent = np.concatenate([kind.sent for kind in ants.scene_server._scene.kinds]).astype(float)
    assert np.array_equal(sent[:, :3] * 2**13, np.round(sent[:, :3] * 2**13))
    assert np.array_equal(sent[:, 3:] * 2**12, np.round(sent[:, 3:] * 2**12))


def test_each_client_hides_for_itself_and_finds_its_page_by_its_port(ants):
    """Through attributes of viser that are not public: another version of viser may lack them."""
    scene_server = ants.scene_server
    scene_server.apply("one", ViewSettings(View(env_id=1, show_all=False), True))
    with SceneLine(scene_server, page="one") as one, SceneLine(scene_server) as other:
        until(lambda: len(scene_server.client_cameras) == 2)
        assert sorted(client_camera.page for client_camera in scene_server.client_cameras.values()) == ["", "one"]
        ants.draw()
        scaled = {name for name, field in one.updates() if field == "batched_scales"}
        assert scaled == {kind.handle.name for kind in scene_server._scene.kinds}
        assert not [field for _, field in other.updates() if field == "batched_scales"]
    until(lambda: not scene_server.client_cameras)


def test_a_new_client_of_a_page_has_its_camera_put(ants):
    """A page whose scene was loaded anew, in other colours, after any other wish kept viser's own camera."""
    ants.scene_server.apply("one", ViewSettings(View(preset="top"), False))
    with SceneLine(ants.scene_server, page="one") as line:
        until(lambda: ants.scene_server.client_cameras)
        ants.draw()
        (put,) = [m["position"] for m in line.messages() if m["type"] == "SetCameraPositionMessage"]
        assert put[2] > 5 * abs(put[0])


def test_a_client_that_has_just_left_is_no_warning(ants):
    """It stood on the terminal of the training run that was watched, with two lines of viser's source."""
    with SceneLine(ants.scene_server):
        until(lambda: ants.scene_server.client_cameras)
        (client,) = ants.scene_server.server.get_clients().values()
    until(lambda: not ants.scene_server.server.get_clients())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        scale_for(client, "anything", np.ones(1, np.float32))
        (warning,) = warned  # viser warns once for each client
        expect_departures()
        warnings.warn(warning.message, stacklevel=1)
        assert warned == [warning]


def test_a_frame_that_is_drawn_anew_for_another_view_is_not_old(ants):
    """Its age was measured again each time: 10 s of lag in a test that was paused for 10 s."""
    with SceneLine(ants.scene_server, page="one") as line:
        until(lambda: ants.scene_server.client_cameras)
        ants.draw()
        line.messages()
        lag = ants.scene_server.lag
        ants.scene_server.apply("one", ViewSettings(View(preset="top"), True))
        assert [m for m in line.messages() if m["type"] == "SetCameraPositionMessage"]
        assert ants.scene_server.lag == lag


@pytest.fixture
def pages():
    """The pages of a board, behind a door: (door, board, controls)."""
    board, controls = Board(), Controls()
    board.state = {"phase": "playing", "now": 1.0, "a": 1, "b": [1, 2]}
    looks = []
    routes = Pages(
        board, controls, Access(None, False), lambda: {"scene": 1}, lambda page, look: looks.append((page, look))
    )
    with doors() as opened:
        gateway = opened(routers=[routes.router])
        yield SimpleNamespace(port=gateway.port, board=board, controls=controls, looks=looks, routes=routes)


def test_a_page_is_sent_what_has_changed(pages):
    with Line(pages) as line:
        line.until(lambda state: "b" in state)
        assert line.messages[0]["hello"] == {"scene": 1, "read_only": False}
        pages.board.state = {**pages.board.state, "now": 2.0}
        assert not line.read()  # the time alone is no news
        pages.board.state = {**pages.board.state, "now": 3.0, "b": [1, 3]}
        assert line.read()
        assert line.messages[-1]["state"] == {"now": 3.0, "b": [1, 3]}
        assert "hello" not in line.messages[-1]
        pages.board.add("swap", {"t": 1.0})
        assert line.read()
        assert (line.messages[-1]["state"], line.messages[-1]["points"]) == ({}, [[1, "swap", {"t": 1.0}]])
    until(lambda: pages.routes.open == 0)
    assert pages.looks[-1] == (line.page, None)


def test_requests_arrive_and_a_client_that_sends_nonsense_is_refused_and_at_last_dropped(pages):
    with Line(pages) as line:
        line.ask("pause", on=True)
        line.say("nonsense")
        line.say(b"\x80\x04")
        while len(line.refused) < 2:
            assert line.read(10)
        assert "not JSON" in line.refused[0]
        assert "a binary frame" in line.refused[1]
        assert pages.controls._requests.pop() == (Pause(True), "operator 1")
        with contextlib.suppress(websockets.ConnectionClosed):  # dropped before the last one was said
            for _ in range(REFUSALS):
                line.say("{}")
        while line.read(10):
            pass
        assert line.socket.close_code == 1008


def test_many_requests_at_once_are_too_many(pages):
    with Line(pages) as line:
        for _ in range(115):
            line.ask("step")
        while not line.refused:
            assert line.read(10)
        assert line.refused[0] == "too many messages at once"
    assert len(pages.controls._requests) < 115

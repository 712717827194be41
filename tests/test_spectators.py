"""Operators control, spectators only watch; who did something is known, and each has a view of their own."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import websockets.sync.client
from websockets.exceptions import InvalidStatus

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.play.board import Board
from livegym.play.control_requests import Pause, Record, StepOnce
from livegym.play.controls import Controls
from livegym.schema import PhysicsConfig, SimConfig
from livegym.serve.server import PREFIX
from livegym.tasks.build import make_env
from livegym.utils.errors import UserError
from livegym.viewers.browser.pages import Pages
from livegym.viewers.browser.scene_server import SceneServer
from livegym.viewers.status import WINDOW, marks
from livegym.web import opening
from livegym.web.access import WRONG_TOKENS, Role
from livegym.web.opening import announce, page_address
from livegym.web.scene_proxy import SceneProxy
from livegym.web.visitors import KEPT, LONGEST_NAME, Visitors
from tests.online_fixtures import serving
from tests.online_status import Script, dashboards
from tests.page_fixtures import Line, scene_client
from tests.patience import until
from tests.web_fixtures import client_of, doors, messages_in

OPERATE, WATCH = "operators-0123", "spectators-4567"
PAGE = {"accept": "text/html,*/*"}


def bearer(token):
    return {"authorization": f"Bearer {token}"}


# tokens


def tokens(*overrides):
    access = page_address(to_typed(compose(["config=test_stream", *overrides]))).access
    return access.token, access.spectator_token


def test_a_page_for_other_machines_has_two_tokens_and_one_on_this_machine_none(monkeypatch):
    monkeypatch.setattr(opening, "others_use_this_machine", lambda: False)
    operators, spectators = tokens("streamBindAll=true")
    assert len(spectators) >= 16
    assert operators != spectators
    assert tokens() == (None, None)


def test_tokens_are_those_that_were_given():
    assert tokens(f"streamToken={OPERATE}", f"streamSpectatorToken={WATCH}") == (OPERATE, WATCH)
    assert tokens(f"streamToken={OPERATE}", "streamSpectatorToken=off") == (OPERATE, None)
    operators, spectators = tokens(f"streamSpectatorToken={WATCH}")  # on this machine too, operators then need one
    assert len(operators) >= 16
    assert spectators == WATCH


def test_where_all_are_spectators_one_token_is_enough():
    assert tokens("streamBindAll=true", "streamReadOnly=true")[1] is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((f"streamToken={OPERATE}", f"streamSpectatorToken={OPERATE}"), "is the same as streamToken"),
        (("streamBindAll=true", "streamSpectatorToken=short"), "streamSpectatorToken: 5 characters are too few"),
        (("streamToken=off", f"streamSpectatorToken={WATCH}"), "streamToken=off: then everyone is an operator"),
    ],
)
def test_tokens_that_protect_nothing_are_refused_without_being_shown(overrides, message):
    with pytest.raises(UserError, match=message) as refused:
        tokens(*overrides)
    assert OPERATE not in str(refused.value)
    assert WATCH not in str(refused.value)


def test_both_addresses_are_printed_and_neither_is_logged(caplog, capfd):
    caplog.set_level("DEBUG")
    given = ("streamBindAll=true", f"streamToken={OPERATE}", f"streamSpectatorToken={WATCH}")
    address = page_address(to_typed(compose(["config=test_stream", *given])))
    announce(address, "watch at")
    address.warn_of_others()
    shown = capfd.readouterr().err.splitlines()
    assert shown[0].startswith("watch at http://")
    assert shown[0].endswith(f":58080/?token={OPERATE}")
    assert shown[1].startswith("for spectators, who cannot control: http://")
    assert shown[1].endswith(f":58080/?token={WATCH}")
    assert "watch and control this, and anyone with the spectators' token watch it" in caplog.text
    assert OPERATE not in caplog.text
    assert WATCH not in caplog.text


# the role of a request


@pytest.fixture
def gateway():
    with doors() as opened:
        yield opened(OPERATE, spectators=WATCH)


def role(client, **more):
    """What the server takes a client for: nobody's POST is served here, but a spectator's is refused before."""
    status = client.post("/stats", **more).status_code
    return {405: Role.OPERATOR, 403: Role.SPECTATOR, 401: None, 429: None}[status]


def test_each_token_gives_its_role_however_it_is_offered(gateway):
    for token, expected in ((OPERATE, Role.OPERATOR), (WATCH, Role.SPECTATOR), ("neither-of-both", None)):
        with client_of(gateway) as client:
            assert role(client, headers=bearer(token)) is expected
            assert role(client, params={"token": token}) is expected
            assert client.post("/login", data={"token": token}).status_code == (401 if expected is None else 303)
            assert role(client) is expected  # by the cookie that the form gave


def test_a_spectator_sees_what_an_operator_sees(gateway):
    with client_of(gateway, headers=bearer(WATCH)) as client:
        assert client.get("/stats").status_code == 200
        assert client.head("/stats").status_code in (200, 405)
        refused = client.post("/stats")
        assert "the spectators' token; operators have another one" in refused.text


def test_only_the_operators_token_makes_an_operator_of_a_spectator(gateway):
    with client_of(gateway, headers=PAGE) as client:
        assert client.get("/", params={"token": WATCH}).status_code == 303
        assert role(client) is Role.SPECTATOR
        for _ in range(2):
            assert client.get("/stats").status_code == 200  # the address that an operator sees after signing in
            assert client.get("/stats", params={"token": "wrong"}).status_code == 303  # what it is stays
            assert role(client) is Role.SPECTATOR
        assert role(client, headers=bearer("wrong")) is Role.SPECTATOR
        assert client.get("/", params={"token": OPERATE}).status_code == 303
        assert role(client) is Role.OPERATOR
        client.get("/", params={"token": WATCH})
        assert role(client) is Role.SPECTATOR


def test_wrong_guesses_of_a_spectator_keep_no_operator_out(gateway):
    with client_of(gateway, headers=PAGE) as client:
        client.get("/", params={"token": WATCH})
        for _ in range(WRONG_TOKENS + 1):
            assert role(client, params={"token": "wrong"}) is Role.SPECTATOR
        assert role(client, params={"token": OPERATE}) is Role.OPERATOR
    with client_of(gateway) as stranger:
        assert stranger.get("/stats", params={"token": "wrong"}).status_code == 429


def test_a_changed_cookie_is_nobodys(gateway):
    with client_of(gateway, headers=PAGE) as client:
        client.get("/", params={"token": WATCH})
        (cookie,) = client.cookies.jar
    for value in (cookie.value[:-1], cookie.value.upper(), "operator", ""):
        with client_of(gateway, cookies={cookie.name: value}) as client:
            assert role(client) is None


def test_without_a_token_everybody_is_an_operator_unless_all_only_watch():
    with doors() as opened:
        for read_only, expected in ((False, Role.OPERATOR), (True, Role.SPECTATOR)):
            with client_of(opened(read_only=read_only)) as client:
                assert role(client) is expected
        with client_of(opened(OPERATE, read_only=True, spectators=WATCH)) as client:
            assert role(client, headers=bearer(OPERATE)) is Role.SPECTATOR
            assert role(client, headers=bearer(WATCH)) is Role.SPECTATOR


# the page of a test


@pytest.fixture
def page():
    """A page's server, its controls, and what was seen of the views of its pages."""
    controls, board, looks = Controls(), Board(), {}
    board.state = {"phase": "playing", "now": 1.0}
    with doors() as opened:
        gateway = opened(OPERATE, spectators=WATCH)
        pages = Pages(board, controls, gateway.access, lambda: {"scene": 1}, looks.__setitem__)
        gateway.app.include_router(pages.router)
        yield SimpleNamespace(port=gateway.port, controls=controls, board=board, looks=looks)


def line_of(page, token):
    return Line(page, additional_headers=bearer(token))


def test_a_spectators_requests_are_refused_while_an_operators_are_carried_out(page):
    with line_of(page, OPERATE) as operator, line_of(page, WATCH) as spectator:
        for line, read_only, name in ((operator, False, "operator 1"), (spectator, True, "spectator 1")):
            assert line.until(lambda state: "you" in state)["you"] == name
            assert line.hello["read_only"] is read_only
        spectator.ask("pause", on=True)
        spectator.until(lambda state: spectator.refused)
        (why,) = spectator.refused
        assert "read-only" in why
        assert "operators have another one" in why
        assert not page.controls._requests
        operator.ask("pause", on=True)
        until(lambda: page.controls._requests)
        assert list(page.controls._requests) == [(Pause(True), "operator 1")]
        assert operator.refused == []


def test_a_name_of_ones_own_is_shown_and_credited(page):
    with line_of(page, OPERATE) as first, line_of(page, OPERATE) as second:
        first.ask("name", name="  Ada   L. ")
        assert first.until(lambda state: state["you"] != "operator 1")["you"] == "Ada L."
        second.ask("name", name="x" * (LONGEST_NAME + 1))
        second.ask("name", name="a\u202eb")
        second.until(lambda state: len(second.refused) == 2)
        assert second.drain()["you"] == "operator 2"
        first.ask("pause", on=True)
        second.ask("step")
        until(lambda: len(page.controls._requests) == 2)
        assert set(page.controls._requests) == {(Pause(True), "Ada L."), (StepOnce(), "operator 2")}


def test_a_page_that_connects_again_keeps_its_number_and_a_spectator_does_not_become_an_operator_by_it(page):
    def names(token, visitor):
        url = f"ws://127.0.0.1:{page.port}/ws?page=a&visitor={visitor}"
        with contextlib.closing(
            websockets.sync.client.connect(url, proxy=None, additional_headers=bearer(token))
        ) as socket:
            message = json.loads(socket.recv(20))
            return message["state"]["you"], message["hello"]["read_only"]

    assert names(OPERATE, "one") == ("operator 1", False)
    assert names(OPERATE, "two") == ("operator 2", False)
    assert names(OPERATE, "one") == ("operator 1", False)
    assert names(WATCH, "one") == ("spectator 1", True)
    with pytest.raises(InvalidStatus):
        names("neither-of-both", "one")


def test_visitors_are_forgotten_in_number():
    visitors = Visitors()
    for number in range(2 * KEPT):
        scope = {"livegym.role": Role.OPERATOR}
        visitors.of(SimpleNamespace(query_params={"visitor": str(number)}, scope=scope))
    assert len(visitors._known) == KEPT


def test_each_page_chooses_its_own_view_whatever_its_role(page):
    with line_of(page, OPERATE) as operator, line_of(page, WATCH) as spectator:
        operator.ask("view", env_id=2, show_all=False, preset="top", follow=True)
        until(lambda: operator.page in page.looks)
        assert spectator.page not in page.looks
        spectator.ask("view", env_id=1)
        until(lambda: spectator.page in page.looks)
        views = [page.looks[line.page].view for line in (operator, spectator)]
        assert [(view.env_id, view.show_all, view.preset, view.follow) for view in views] == [
            (2, False, "top", True),
            (1, True, "three-quarter", False),
        ]


@pytest.mark.slow
def test_one_client_chooses_an_environment_and_moves_its_camera_and_the_other_is_sent_nothing_of_it():
    """Both see one scene through the gateway, an operator and a spectator."""
    env = make_env(to_typed(compose(["task=Cartpole"])).task, SimConfig(engine="mujoco"), PhysicsConfig(), 3, 0)
    env.reset()
    scene_server = SceneServer(fps=60)
    scene_server.begin(SimpleNamespace(env=env))
    proxy = SceneProxy(scene_server.server, scene_server.opened, scene_server.closed)
    with doors() as opened, contextlib.ExitStack() as stack:
        stack.callback(env.sim.close)
        stack.callback(scene_server.close)
        gateway = opened(OPERATE, spectators=WATCH, routers=[proxy.router])
        pages = Pages(Board(), Controls(), gateway.access, lambda: {"scene": 1}, scene_server.apply)
        gateway.app.include_router(pages.router)
        lines = [stack.enter_context(line_of(gateway, token)) for token in (OPERATE, WATCH)]
        scenes = [
            stack.enter_context(contextlib.closing(scene_client(gateway, line.page, additional_headers=bearer(token))))
            for line, token in zip(lines, (OPERATE, WATCH), strict=True)
        ]
        until(lambda: len(scene_server.client_cameras) == 2)
        scene_server.slot.offer(SimpleNamespace(env=env), True)
        first, second = map(received, scenes)
        assert {"SetCameraPositionMessage"} <= first.keys() & second.keys()
        lines[0].ask("view", env_id=2, show_all=False, preset="top", place_camera=True)
        first, second = received(scenes[0]), received(scenes[1])
        assert "SetCameraPositionMessage" in first
        assert any("batched_scales" in m["updates"] for m in first["SceneNodeUpdateMessage"])  # the others are hidden
        assert second == {}


def received(client, quiet: float = 1.0) -> dict[str, list[dict]]:
    """Messages of viser by type, until none has come for a while."""
    found: dict[str, list[dict]] = {}
    with contextlib.suppress(TimeoutError):
        while True:
            for message in messages_in(client.recv(quiet)):
                found.setdefault(message["type"], []).append(message)
    return found


# who did it


class Nobody:
    """Stands for a player that requests do not touch."""


def test_who_paused_stays_until_another_resumes():
    controls = Controls(no_recording="")
    for request, who in ((Pause(True), "Ada"), (Pause(True), "Bob"), (Record(True), "Bob")):
        controls.ask(request, who)
        controls.obey(Nobody())
    assert controls.by == {"paused": "Ada", "recording": "Bob"}
    controls.ask(Pause(False), "Bob")
    controls.ask(StepOnce(), "Cleo")  # pauses a test that plays
    controls.obey(Nobody())
    assert (controls.paused, controls.by["paused"]) == (True, "Cleo")


def test_the_window_names_others_but_not_itself():
    state = {"paused": True, "policy": {"pinned": True}, "by": {"paused": "Ada", "pinned": WINDOW}}
    assert marks(state) == "PAUSED by Ada   PINNED"
    assert marks({"paused": True}) == "PAUSED"
    state = {"recording": True, "comparing": [12, 11], "by": {"recording": "Ada", "comparing": "Bob"}}
    assert marks(state) == "REC by Ada   A/B 12 | 11 by Bob"


# continuous training


def test_a_spectator_of_continuous_training_cannot_pin_and_an_operator_is_credited():
    script = Script()
    with dashboards(script) as opened:
        gateway = opened(token=OPERATE, spectators=WATCH)
        url = f"ws://127.0.0.1:{gateway.port}/ws"
        for token in (WATCH, OPERATE):
            with contextlib.closing(
                websockets.sync.client.connect(url, proxy=None, max_size=None, additional_headers=bearer(token))
            ) as socket:
                assert json.loads(socket.recv(20))["hello"]["read_only"] is (token == WATCH)
                socket.send(json.dumps({"do": "name", "name": "Ada"}))
                socket.send(json.dumps({"do": "pin"}))
                messages = [json.loads(socket.recv(20))]
                while not {"refused", "answer"} & messages[-1].keys():
                    messages.append(json.loads(socket.recv(20)))
                if token == WATCH:
                    assert "this page is read-only (you used the spectators' token" in messages[-1]["refused"]
                    assert script.asked == []
    assert script.asked == [{"do": "pin", "version": None}]
    assert script.asked_by == ["Ada"]


def test_a_spectators_observations_are_refused_because_they_would_be_trained_on():
    with serving(token=OPERATE, spectators=WATCH) as served:
        with served.http(headers=bearer(WATCH)) as http:
            assert http.get("/spec").status_code == 200
            for path in ("/observe", "/reward"):
                refused = http.post(path, json={})
                assert refused.status_code == 403
                assert "the spectators' token" in refused.text
        with pytest.raises(InvalidStatus) as refused:
            websockets.sync.client.connect(
                f"ws://127.0.0.1:{served.gateway.port}{PREFIX}/ws?token={quote(WATCH)}", proxy=None
            )
        assert refused.value.response.status_code == 403
        assert b"it accepts no observations and no rewards" in refused.value.response.body
        assert served.inbox.asked == 0

"""Who may come in: token, cookie, form, Host, Origin, and the limits on trying."""

from __future__ import annotations

import asyncio
import logging
from urllib.parse import quote

import httpx
import pytest
import websockets.exceptions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from livegym.web.access import ADDRESSES, WRONG_TOKENS, WrongTokens, host_name, local_path
from livegym.web.scene_proxy import SceneProxy
from tests.web_fixtures import TOKEN, client_of, doors, scene_socket

pytest_plugins = ["web_fixtures"]

PAGE = {"accept": "text/html,*/*"}


@pytest.fixture(scope="module")
def shared_gateway():
    with doors() as opened:
        yield opened(TOKEN)


@pytest.fixture
def gateway(shared_gateway):
    shared_gateway.access.wrong = WrongTokens()
    return shared_gateway


@pytest.fixture(scope="module")
def open_to_all(scene):
    with doors() as opened:
        yield opened(hosts=frozenset({"robots.lab"}), routers=[SceneProxy(scene).router])


def test_a_page_with_the_token_in_its_address_gets_a_cookie_and_a_clean_address(gateway):
    with client_of(gateway, headers=PAGE) as client:
        answer = client.get("/stats", params={"token": TOKEN, "a": "1 2"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/stats?a=1+2")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith(f"livegym_{gateway.port}=")
        assert all(part in cookie for part in ("HttpOnly", "SameSite=lax", "Path=/"))
        assert TOKEN not in cookie
        assert client.get("/stats").status_code == 200


def test_tools_show_the_token_in_the_address_or_in_a_header(gateway):
    with client_of(gateway) as client:
        assert client.get("/stats", params={"token": TOKEN}).status_code == 200
        assert client.get("/stats", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get("/stats", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert not client.cookies


def test_a_token_of_any_letters_is_taken_as_it_is_typed(open_gateway):
    with client_of(open_gateway(token="pässwörter")) as client:
        typed = {"authorization": "Bearer pässwörter".encode()}
        assert client.get("/stats", headers=typed).status_code == 200


def test_the_cookie_of_another_server_is_worth_nothing(gateway, open_gateway):
    with client_of(gateway, headers=PAGE) as client:
        client.get("/", params={"token": TOKEN})
        (cookie,) = client.cookies.jar
    other = open_gateway(TOKEN)
    with client_of(other, cookies={f"livegym_{other.port}": cookie.value}) as client:
        assert client.get("/stats").status_code == 401


def test_the_bare_address_shows_a_form_that_works_without_scripts(gateway):
    with client_of(gateway, headers=PAGE) as client:
        form = client.get("/scene/?view=top")
        assert form.status_code == 401
        assert 'action="/login"' in form.text
        assert 'value="/scene/?view=top"' in form.text
        assert "<script" not in form.text
        fields = {"token": TOKEN, "next": "/stats?a=1"}
        answer = client.post("/login", data=fields, headers={"origin": f"http://127.0.0.1:{gateway.port}"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/stats?a=1")
        assert client.get("/stats").status_code == 200


def test_a_wrong_token_is_reported_on_the_form_and_a_tool_gets_a_line(gateway):
    with client_of(gateway) as client:
        form = client.post("/login", data={"token": "wrong", "next": '/"><b>'})
        assert form.status_code == 401
        assert "That token is wrong." in form.text
        assert '"><b>' not in form.text
        line = client.get("/stats")
        assert (line.status_code, line.headers["content-type"]) == (401, "text/plain; charset=utf-8")


@pytest.mark.parametrize("path", ["//evil.example", "/\\evil.example", "\\/evil.example", "\t//evil.example"])
def test_nobody_is_sent_to_another_host(gateway, path):
    assert local_path(path) == "/evil.example"
    with client_of(gateway) as client:
        answer = client.post("/login", data={"token": TOKEN, "next": path})
        assert answer.headers["location"] == "/evil.example"


def test_after_ten_wrong_tokens_another_wrong_one_waits_but_the_right_one_is_let_in(gateway):
    with client_of(gateway, headers=PAGE) as known, client_of(gateway) as client:
        known.get("/", params={"token": TOKEN})
        for _ in range(WRONG_TOKENS):
            assert client.get("/stats", params={"token": "wrong"}).status_code == 401
        answer = client.get("/stats", params={"token": "wrong"})
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert client.post("/login", data={"token": "wrong"}).status_code == 429
        assert client.get("/stats").status_code == 401  # no token is no attempt
        assert client.get("/stats", params={"token": TOKEN}).status_code == 200
        assert client.get("/stats", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.post("/login", data={"token": TOKEN}).status_code == 303
        assert known.get("/stats").status_code == 200


def test_wrong_tokens_are_forgotten_in_time_and_in_number():
    now = [0.0]
    wrong = WrongTokens(lambda: now[0])
    for _ in range(WRONG_TOKENS):
        wrong.note("a")
    assert (wrong.wait("a"), wrong.wait("b")) == (60, 0)
    now[0] = 60.0
    assert wrong.wait("a") == 0
    for number in range(2 * ADDRESSES):
        wrong.note(str(number))
    assert len(wrong._times) == ADDRESSES


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("192.168.7.7", 200),
        ("[::1]:9", 200),
        ("localhost:58080", 200),
        ("LocalHost.", 200),
        ("robots.lab:80", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:58080", 421),
        ("", 421),
        ("[::1", 421),
        ("a b", 421),
    ],
)
def test_host_must_be_ours(open_to_all, host, status):
    with client_of(open_to_all) as client:
        answer = client.get("/stats", headers={"host": host})
    assert answer.status_code == status
    if status != 200:
        assert "streamHosts" in answer.text


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("https://127.0.0.1:{port}", 200),
        ("HTTP://127.0.0.1:{port}", 200),
        ("http://127.0.0.1", 403),
        ("http://127.0.0.1:1", 403),
        ("http://evil.example", 403),
        ("http://127.0.0.1:{port}.evil.example", 403),
        ("file://127.0.0.1:{port}", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_origin_must_be_the_host(open_to_all, origin, status):
    gateway = open_to_all
    origin = origin.format(port=gateway.port)
    with client_of(gateway, headers={"origin": origin, "x-forwarded-host": "evil.example"}) as client:
        assert client.get("/stats").status_code == status
        assert client.post("/login", data={"token": "x"}).status_code == (303 if status == 200 else 403)

    async def connect():
        async with scene_socket(gateway, additional_headers={"origin": origin}):
            return 200

    try:
        got = asyncio.run(connect())
    except websockets.exceptions.InvalidStatus as refused:
        got = refused.response.status_code
    assert got == status


def test_a_websocket_needs_the_token_too(open_scene):
    gateway, _ = open_scene(token=TOKEN)

    async def status(**settings):
        try:
            async with scene_socket(gateway, **settings):
                return 101
        except websockets.exceptions.InvalidStatus as refused:
            return refused.response.status_code

    assert asyncio.run(status()) == 401
    assert asyncio.run(status(query="?token=wrong")) == 401
    assert asyncio.run(status(query=f"?token={quote(TOKEN)}")) == 101
    assert asyncio.run(status(additional_headers={"authorization": f"Bearer {TOKEN}"})) == 101


def test_who_may_only_look_gives_no_orders(open_gateway):
    gateway = open_gateway(read_only=True)
    with client_of(gateway) as client:
        assert client.get("/stats").status_code == 200
        for method in ("POST", "PUT", "DELETE", "PATCH", "BREW"):
            assert client.request(method, "/stats").status_code == 403


def test_large_bodies_are_not_taken(gateway):
    def chunks():
        for _ in range(20):
            yield b"x" * 8192

    with client_of(gateway) as client:
        assert client.post("/login", content=b"x" * 100_000).status_code == 413
    with client_of(gateway) as client:
        assert client.post("/login", content=chunks()).status_code == 413


def test_answers_carry_headers_that_keep_the_address_here(gateway):
    with client_of(gateway, headers=PAGE) as client:
        for path in ("/", "/healthz"):
            headers = client.get(path).headers
            assert headers["referrer-policy"] == "same-origin"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert "frame-ancestors 'self'" in headers["content-security-policy"]


def test_the_token_is_in_no_log(open_scene, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.WARNING, "httpx")  # the client's own
    caplog.set_level(logging.WARNING, "httpcore")
    gateway, _ = open_scene(token="hidden")

    async def connect():
        async with scene_socket(gateway, "?token=hidden", logger=logging.getLogger("client")) as socket:
            await socket.recv()

    caplog.set_level(logging.WARNING, "client")
    asyncio.run(connect())
    with client_of(gateway, headers=PAGE) as client:
        client.get("/?token=hidden")
        client.post("/login", data={"token": "hidden"})
        client.get("/?token=hidden", headers={"host": "evil.example"})
    gateway.stop()
    assert "hidden" not in caplog.text
    assert "hidden" not in "".join(capfd.readouterr())


@given(st.text(max_size=40))
def test_a_host_name_is_read_from_anything(text):
    assert isinstance(host_name(text), str)


def test_whatever_is_asked_the_gateway_answers(gateway):
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS"]),
        st.sampled_from(["", "stats", "metrics", "login", "scene/", "healthz", "%00", "..%2f"]),
        st.dictionaries(st.sampled_from(["token", "next", "fps", "page"]), st.text(max_size=20), max_size=3),
        st.dictionaries(
            st.sampled_from(["cookie", "authorization", "accept", "origin", "content-type"]),
            st.binary(max_size=20).map(lambda b: b.translate(None, b"\r\n\0").strip()),
            max_size=3,
        ),
        st.binary(max_size=100),
    )
    def ask(method, path, query, headers, body):
        request = client.build_request(method, f"/{path}", params=query, headers=headers, content=body)
        try:
            answer = client.send(request)
        except (httpx.RemoteProtocolError, httpx.LocalProtocolError):
            return  # h11 refuses the header
        assert answer.status_code in (200, 303, 400, 401, 403, 404, 405, 429)
        assert answer.status_code != 200 or path == "healthz"

    with client_of(gateway) as client:
        ask()
        assert client.get("/healthz").json() == {"status": "ok"}

"""Other users of the machine need a token on loopback; the owner's programs are told from theirs by the kernel."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess

import pytest
import websockets.exceptions

from livegym.cfg.compose import compose
from livegym.cfg.typed import to_typed
from livegym.web import opening
from livegym.web.access import Role
from livegym.web.neighbours import others_use_this_machine
from livegym.web.opening import announce, page_address, warn_of_typed_tokens
from livegym.web.peers import peer_uid, tells_users
from tests.web_fixtures import TOKEN, client_of, scene_socket

pytest_plugins = ["web_fixtures"]
NOBODY = 65534
BASH = shutil.which("bash")
needs_linux = pytest.mark.skipif(not tells_users(), reason="this kernel does not tell whose connections are whose")
needs_another_user = pytest.mark.skipif(os.getuid() != 0 or not tells_users(), reason="only root can be another user")
ASK = """
exec 3<>/dev/tcp/127.0.0.1/{port}
printf 'GET %s HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' '{path}' >&3
{then}
"""


def as_another_user(port, path="/stats", then="cat <&3"):
    """The answer to a request of the user nobody."""
    script = ASK.format(port=port, path=path, then=then)
    done = subprocess.run([BASH, "-c", script], user=NOBODY, group=NOBODY, capture_output=True, text=True, cwd="/")
    return done.stdout


@needs_linux
def test_the_owners_programs_need_no_token_and_the_link_has_none(open_scene):
    gateway, _ = open_scene(token=TOKEN, owner=os.getuid())
    assert gateway.url == f"http://127.0.0.1:{gateway.port}/"
    with client_of(gateway) as client:
        assert client.get("/stats").status_code == 200
        assert client.post("/stats").status_code == 405  # an operator may
        assert client.get("/stats", headers={"authorization": "Bearer wrong"}).status_code == 200
        assert client.get("/stats", headers={"origin": "http://evil.example"}).status_code == 403

    async def connect():
        async with scene_socket(gateway) as browser:
            assert await browser.recv()

    asyncio.run(connect())


@needs_another_user
def test_another_user_needs_the_token(open_gateway):
    gateway = open_gateway(TOKEN, owner=os.getuid())
    assert as_another_user(gateway.port).startswith("HTTP/1.1 401 ")
    assert as_another_user(gateway.port, "/stats?token=wrong").startswith("HTTP/1.1 401 ")
    right = "/stats?token=a%20token%2Fwith%2Bsigns"
    assert as_another_user(gateway.port, right).startswith("HTTP/1.1 200 ")


@needs_linux
def test_another_owner_is_not_this_user(open_scene):
    gateway, _ = open_scene(token=TOKEN, owner=os.getuid() + 1)
    with client_of(gateway) as client:
        assert client.get("/stats").status_code == 401

    async def connect():
        async with scene_socket(gateway):
            pass

    with pytest.raises(websockets.exceptions.InvalidStatus):
        asyncio.run(connect())


@needs_linux
def test_a_socket_that_nobody_has_open_belongs_to_nobody_and_not_to_root():
    """The kernel says 0 for it, so whoever sends a request and hangs up would otherwise be root."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, peer = listener.accept()
        with accepted:
            assert peer_uid(peer, listener.getsockname()) == os.getuid()
            client.shutdown(socket.SHUT_WR)
            assert peer_uid(peer, listener.getsockname()) == os.getuid()
            client.close()
            assert peer_uid(peer, listener.getsockname()) is None
    assert peer_uid(("127.0.0.1", 1), ("127.0.0.1", 2)) is None


def account(uid, shell="/bin/bash"):
    return f"name{uid}:x:{uid}:{uid}::/nowhere:{shell}\n"


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        ([account(os.getuid())], False),
        ([account(os.getuid()), account(33), account(65534), account(1234, "/usr/sbin/nologin"), "broken:\n"], False),
        ([account(os.getuid()), account(1234)], True),
    ],
)
def test_other_people_have_accounts(tmp_path, lines, others):
    passwd = tmp_path / "passwd"
    passwd.write_text("".join(lines))
    assert others_use_this_machine(passwd, (tmp_path / "no homes",)) is others


def test_other_people_have_homes_or_come_from_a_directory_service(tmp_path, monkeypatch):
    passwd = tmp_path / "passwd"
    passwd.write_text(account(os.getuid()))
    homes = tmp_path / "home"
    (homes / "me").mkdir(parents=True)
    assert not others_use_this_machine(passwd, (homes,))
    if os.getuid() == 0:
        os.chown(homes / "me", 1234, 1234)
        assert others_use_this_machine(passwd, (homes,))
    passwd.write_text(account(1))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: "known")
    assert others_use_this_machine(passwd, ())

    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)  # the number that a container runs as
    assert not others_use_this_machine(passwd, ())


def access_of(*overrides):
    return page_address(to_typed(compose(["config=test_stream", *overrides]))).access


@pytest.mark.slow
@pytest.mark.parametrize(("told", "owner"), [(True, os.getuid()), (False, None)])
def test_a_machine_with_other_users_has_a_token_on_loopback(monkeypatch, capfd, told, owner):
    monkeypatch.setattr(opening, "others_use_this_machine", lambda: True)
    monkeypatch.setattr(opening, "tells_users", lambda: told)
    address = page_address(to_typed(compose(["config=test_stream"])))
    assert address.access.owner == owner
    assert len(address.access.token) >= 16
    announce(address, "watch at")
    shown = capfd.readouterr().err.splitlines()
    link = f"http://127.0.0.1:58080/?token={address.access.token}"
    if told:
        assert shown == ["watch at http://127.0.0.1:58080/", f"for other users of this machine: {link}"]
    else:
        assert shown == [f"watch at {link}"]
    assert access_of("streamToken=off").token is None
    for given in ("streamToken=0123456789", "streamBindAll=true", "streamSpectatorToken=0123456789"):
        assert access_of(given).owner is None  # a token that was asked for is needed by everybody


@pytest.mark.slow
def test_tokens_come_from_the_environment_unless_they_are_typed(monkeypatch):
    monkeypatch.setenv("LIVEGYM_STREAM_TOKEN", "operators-0123")
    monkeypatch.setenv("LIVEGYM_STREAM_SPECTATOR_TOKEN", "spectators-4567")
    assert (access_of().token, access_of().spectator_token) == ("operators-0123", "spectators-4567")
    assert access_of("streamToken=another-0123").token == "another-0123"
    assert access_of("streamToken=off", "streamSpectatorToken=off").token is None
    monkeypatch.setenv("LIVEGYM_STREAM_TOKEN", "short")
    with pytest.raises(opening.UserError, match="5 characters are too few"):
        access_of()


@pytest.mark.parametrize(
    ("typed", "warned"),
    [
        ("streamToken=0123456789", True),
        ("streamSpectatorToken=0123456789", True),
        ("streamToken=off", False),
        ("streamToken=null", False),
        ("streamToken=${oc.env:MINE}", False),
        ("seed=1", False),
    ],
)
def test_a_token_in_the_process_list_is_warned_of_without_being_shown(caplog, typed, warned):
    warn_of_typed_tokens(["config=test_stream", typed])
    assert ("the process list (ps) shows" in caplog.text) is warned
    assert "0123456789" not in caplog.text


def test_the_roles_of_an_owner_follow_read_only(open_gateway):
    gateway = open_gateway(TOKEN, read_only=True, owner=os.getuid())
    assert gateway.access._highest is Role.SPECTATOR
    if tells_users():
        with client_of(gateway) as client:
            assert client.post("/stats").status_code == 403

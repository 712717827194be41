"""Weights over the network, on real sockets: the routes, a follower behind a bad line, and servers that lie."""

from __future__ import annotations

import logging
import os
import socket
import stat
import threading
import time

import httpx
import pytest

from livegym.rundir.run import create_run
from livegym.utils.errors import UserError
from livegym.weights.address import TOKEN, Address, given_token
from livegym.weights.link import Denied, LinkError, TokenNeeded
from livegym.weights.message import HEAD, encode
from tests.network_fixtures import (
    CONFIG,
    RUN,
    RUN_ID,
    Liar,
    Relay,
    awaited,
    bias_of,
    following,
    link_of,
    offering,
    version,
)
from tests.patience import PATIENCE_S, until
from tests.test_live import spec_with
from tests.test_sources import save

GOOD, WRONG, SPECTATOR = "the right token", "a wrong token", "for spectators"


@pytest.fixture
def relay():
    """relay(gateway): a line of 10 ms each way to a server; closed after the test."""
    made = []

    def between(gateway) -> Relay:
        made.append(Relay(gateway.port))
        return made[-1]

    yield between
    for line in made:
        line.close()


@pytest.fixture
def liar():
    server = Liar()
    yield server
    server.close()


def get(gateway, path, token=None, **headers):
    headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx.get(f"http://127.0.0.1:{gateway.port}{path}", headers=headers, trust_env=False)


# the routes


def test_runs_versions_and_bytes():
    with offering(1, 2) as (_, gateway):
        assert get(gateway, "/weights").json()["runs"] == [{"run": RUN, "run_id": RUN_ID, "version": 2}]
        for name in (RUN, RUN_ID):
            listed = get(gateway, f"/weights/{name}").json()
            assert (listed["run"], [v["version"] for v in listed["versions"]]) == (RUN, [1, 2])
        assert get(gateway, f"/weights/{RUN_ID}/1").content == encode(version(1))
        for path in ("/weights/none", f"/weights/{RUN_ID}/3", f"/weights/{RUN_ID}/x", f"/weights/{RUN_ID}/{'9' * 40}"):
            assert get(gateway, path).status_code == 404, path


def test_a_proxy_may_keep_the_bytes_for_ever_but_only_for_those_with_the_token():
    with offering(1) as (_, gateway):
        answer = get(gateway, f"/weights/{RUN_ID}/1")
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "vary" not in answer.headers
        again = get(gateway, f"/weights/{RUN_ID}/1", **{"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert get(gateway, "/weights").headers["cache-control"] == "no-store"
    with offering(1, token=GOOD) as (_, gateway):
        answer = get(gateway, f"/weights/{RUN_ID}/1", GOOD)
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["vary"] == "authorization"
        in_url = get(gateway, f"/weights/{RUN_ID}/1?token={GOOD}")
        assert in_url.headers["cache-control"] == "private, max-age=31536000, immutable"


@pytest.mark.parametrize("token", [None, WRONG])
def test_without_the_token_there_is_nothing(token):
    with offering(1, token=GOOD) as (_, gateway):
        for path in ("/weights", f"/weights/{RUN}", f"/weights/{RUN_ID}/1"):
            answer = get(gateway, path, token)
            assert answer.status_code == 401
            assert RUN not in answer.text
            assert len(answer.content) < 5000
        link = link_of(gateway.port, token)
        kind = TokenNeeded if token is None else Denied
        with pytest.raises(kind, match="weightsTokenFile"), link.news():
            pass
        with pytest.raises(kind):
            link.newest()
        right = link_of(gateway.port, GOOD)
        assert right.newest().version == 1
        with right.news() as news:
            assert news.next(PATIENCE_S).version == 1


def test_spectators_get_weights_only_where_there_is_nothing_else():
    with offering(1, token=GOOD, spectators=SPECTATOR) as (_, gateway):
        link = link_of(gateway.port, SPECTATOR)
        with pytest.raises(Denied, match="only for operators"):
            link.newest()
        with pytest.raises(Denied, match="only for operators"), link.news():
            pass
    with offering(1, read_only=True) as (_, gateway):
        assert get(gateway, "/weights").status_code == 403
    with offering(1, token=GOOD, spectators=SPECTATOR, for_spectators=True) as (_, gateway):
        assert link_of(gateway.port, SPECTATOR).fetch(RUN_ID, 1).version == 1
        assert get(gateway, "/weights", WRONG).status_code == 401


def test_older_versions_come_from_checkpoints(tmp_path):
    run = create_run(tmp_path, "Counting", "train")
    for number in (3, 5):
        save(run, number, config=CONFIG)
    with offering(runs_dir=tmp_path) as (_, gateway):
        link = link_of(gateway.port)
        assert [(v["version"], v["score"]) for v in link.versions(run.run_id)] == [(3, 3.0), (5, 5.0)]
        found = link.fetch(run.run_id, 3)
        assert (found.version, found.run, found.run_id) == (3, run.name, run.run_id)
        assert link.newest() is None  # nothing is followed there
        assert link_of(gateway.port, path=f"/weights/{run.name}").newest().version == 5
        (run.nn / "Counting_v5_ep5.pth").write_bytes(b"broken")
        with pytest.raises(UserError, match="no version 5"):
            link.fetch(run.run_id, 5)
        with pytest.raises(UserError, match="has no run 'other'"):
            link_of(gateway.port, path="/weights/other").newest()


def test_a_client_that_reads_slowly_gets_everything_and_one_that_does_not_read_is_disconnected(monkeypatch):
    monkeypatch.setattr("livegym.web.server.HEAD_S", 0.5)  # it counts from the end of an answer
    big = spec_with(observations=(("episode", 1), ("step", 200_000)))
    with offering() as (offer, gateway):
        offer.publish(version(1, spec=big))
        size = len(offer.newest.data)
        assert size > 4_000_000  # more than the system's buffers hold
        assert _read_slowly(gateway, size, pieces=20, pause=0.1) == offer.newest.data
        monkeypatch.setattr("livegym.web.weights.PATIENCE_S", 0.1)
        monkeypatch.setattr("livegym.web.weights.SLOWEST", 10**9)
        assert len(_read_slowly(gateway, size, pieces=1, pause=2.0)) < size


def _read_slowly(gateway, size, pieces, pause) -> bytes:
    """The body of version 1, of which about 1 / pieces is read after each pause."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.connect(("127.0.0.1", gateway.port))
        client.sendall(f"GET /weights/{RUN_ID}/1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        found = b""
        while len(found) < size:
            time.sleep(pause)
            wanted, more = len(found) + size // pieces + 1000, b"?"
            while more and len(found) < wanted and len(found.partition(b"\r\n\r\n")[2]) < size:
                try:
                    more = client.recv(65536)
                except ConnectionResetError:
                    more = b""
                found += more
            if not more:
                break
        return found.partition(b"\r\n\r\n")[2]


def test_what_cannot_be_sent_is_not_offered(caplog):
    with offering(1) as (offer, gateway):
        offer.publish(version(2, config=None))
        offer.publish(version(3, run_id=""))
        assert link_of(gateway.port).newest().version == 1
    assert caplog.text.count("is not offered to other machines") == 1  # of one run, which is said once


# a follower


def test_a_follower_gets_each_newer_version(tmp_path):
    with offering(1) as (offer, gateway), following(link_of(gateway.port), version(1), tmp_path) as source:
        acting = version(1)
        for number in (2, 3, 7):
            offer.publish(version(number))
            acting = awaited(source, acting, number)
            assert (acting.source, acting.run, acting.made) == ("network", RUN, 100.0 + number)
        assert source.poll(acting) is None
        assert source.kind == "network"


def test_of_many_versions_the_newest_comes(tmp_path, relay):
    """A slow line must not be a queue."""
    with offering(1) as (offer, gateway), following(link_of(relay(gateway).port), version(1), tmp_path) as source:
        until(lambda: source.connected)
        for number in range(2, 300):
            offer.publish(version(number))
        awaited(source, version(1), 299)


def test_stalls_and_cuts_cost_time_and_nothing_else(tmp_path, relay, monkeypatch):
    monkeypatch.setattr("livegym.weights.link.PING_S", 0.3)
    with offering(1) as (offer, gateway):
        line = relay(gateway)
        with following(link_of(line.port), version(1), tmp_path) as source:
            acting = awaited_after(offer, source, version(1), 2)
            line.stall()
            offer.publish(version(3))
            until(lambda: not source.connected)  # the silence was noticed
            assert source.poll(acting) is None
            line.go_on()
            acting = awaited(source, acting, 3)
            line.cut(and_refuse=True)
            offer.publish(version(4))
            until(lambda: not source.connected)
            assert source.poll(acting) is None
            line.go_on()
            acting = awaited(source, acting, 4)
            for number in range(5, 15):  # in the middle of whatever happens
                offer.publish(version(number))
                line.cut()
            awaited(source, acting, 14)


def awaited_after(offer, source, acting, number):
    offer.publish(version(number))
    return awaited(source, acting, number)


def test_a_server_that_begins_anew_with_an_older_version_is_not_followed_back(tmp_path, relay):
    with offering(5) as (_, gateway):
        line = relay(gateway)
        with following(link_of(line.port), version(4), tmp_path) as source:
            acting = awaited(source, version(4), 5)
            with offering(3) as (offer, other):
                line.target = other.port
                line.cut()
                until(lambda: source.connected)
                for number in (4, 5):
                    offer.publish(version(number))
                    time.sleep(0.2)
                    assert source.poll(acting) is None
                offer.publish(version(6))
                awaited(source, acting, 6)


def test_another_run_is_followed_if_the_server_follows_it_and_not_if_the_address_names_one(tmp_path):
    other = {"run_id": "c3d4", "run_name": "Counting_train_20260102_130000"}
    with offering(50) as (offer, gateway), following(link_of(gateway.port), version(50), tmp_path) as source:
        until(lambda: source.connected)
        offer.publish(version(2, **other))
        found = []
        until(lambda: found.append(source.poll(version(50))) or found[-1] is not None)
        assert (found[-1].version, found[-1].run_id) == (2, "c3d4")
        assert source.poll(found[-1]) is None
    with offering(50) as (offer, gateway):
        named = link_of(gateway.port, path=f"/weights/{RUN}")
        with following(named, version(50), tmp_path) as source:
            until(lambda: source.connected)
            offer.publish(version(2, **other))
            offer.publish(version(51))
            assert awaited(source, version(50), 51).run_id == RUN_ID


def test_after_a_roll_back_the_newest_version_is_offered_again(tmp_path):
    with offering(1) as (offer, gateway), following(link_of(gateway.port), version(1), tmp_path) as source:
        newest = awaited_after(offer, source, version(1), 3)
        assert source.poll(newest) is None
        assert source.poll(version(2)).version == 3  # the user has gone back to 2
        source.refuse(newest, for_good=False)
        assert source.poll(version(2)) is None
        assert awaited_after(offer, source, newest, 4).version == 4
        source.refuse(version(4), for_good=True)
        offer.publish(version(5))
        time.sleep(0.3)
        assert source.poll(version(2)) is None


def test_without_a_connection_the_files_of_the_run_are_followed_and_then_the_server_again(
    tmp_path, relay, monkeypatch, caplog
):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr("livegym.weights.address_source.LOCAL_AFTER_S", 0.1)
    run = create_run(tmp_path, "Counting", "train")
    mine = {"run_id": run.run_id, "run_name": run.name}
    with offering() as (offer, gateway):
        line = relay(gateway)
        with following(link_of(line.port), version(1, **mine), tmp_path) as source:
            offer.publish(version(2, **mine))
            acting = awaited(source, version(1, **mine), 2)
            line.cut(and_refuse=True)
            until(lambda: source.poll(acting) is None and source.kind == "files")
            assert source.run.path == run.path
            save(run, 1, config=CONFIG), save(run, 3, config=CONFIG)
            found = []
            until(lambda: found.append(source.poll(acting)) or found[-1] is not None)
            assert (found[-1].version, found[-1].source) == (3, "files")
            line.go_on()
            until(lambda: source.poll(found[-1]) is None and source.kind == "network")
            offer.publish(version(4, **mine))
            assert awaited(source, found[-1], 4).source == "network"
    assert "following its run on this machine" in caplog.text
    assert "again" in caplog.text


def test_the_history_of_a_server(tmp_path):
    with offering(1, 2) as (_, gateway), following(link_of(gateway.port), version(1), tmp_path) as source:
        archive = source.archive
        until(lambda: archive.refresh() or len(archive.entries) == 2)
        assert [(e.label, e.file) for e in archive.entries] == [(1, None), (2, None)]
        assert bias_of(archive.load(1)) == 1.0
        with pytest.raises(UserError, match="version 9 is not on"):
            archive.load(9)


# servers that lie


def test_huge_sizes_wrong_bytes_and_old_versions_do_no_harm(tmp_path, liar, caplog):
    link = link_of(liar.port)
    with following(link, version(5), tmp_path) as source:
        liar.announce(6, size=2**50)
        liar.offers(7, b"x" * 5_000_000)
        liar.offers(8, b"rubbish")
        liar.offers(9, encode(version(9))[:-8] + b"\1" * 8)
        liar.offers(10, encode(version(4)))  # an old version under a new number
        liar.offers(11, HEAD.pack(b"LGYMNET", 1, 2**31, 2**40) + b"0" * 1000)
        liar.announce(4)
        liar.offers(12)
        found = awaited(source, version(5), 12)
        assert 4 not in liar.asked
        assert 6 not in liar.asked
        liar.announce(11)
        liar.announce(12)
        liar.offers(13)
        awaited(source, found, 13)
        assert liar.asked.count(12) == 1
    refused = source.refusals()
    assert all(not event.accepted and event.source == "network" for event in refused)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"run": 5}', "[" * 4000, "9" * 4000, '{"run":"a","run_id":"b"}']
)
def test_an_announcement_that_is_none_ends_the_connection_which_is_made_anew(tmp_path, liar, caplog, text):
    with following(link_of(liar.port), version(1), tmp_path) as source:
        until(lambda: source.connected)
        liar.say(text)
        until(lambda: "announcement is none" in caplog.text)
        liar.offers(2)
        awaited(source, version(1), 2)


def test_a_flood_of_announcements_is_cut_off(tmp_path, liar, caplog):
    with following(link_of(liar.port), version(10**6), tmp_path) as source:
        until(lambda: source.connected)
        for number in range(5000):
            liar.announce(number)
        until(lambda: "versions a second" in caplog.text)


def test_an_endless_trickle_is_given_up(monkeypatch):
    """Every byte comes in time, but never the last one."""
    monkeypatch.setattr("livegym.weights.link.HEAD_S", 1.0)
    monkeypatch.setattr("livegym.weights.link.CONNECT_S", 0.5)
    heads = [
        b"HTTP/1.1 200 OK\r\nx: ",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
    ]
    monkeypatch.setattr("livegym.weights.link.SLOWEST", 10**6)
    listener, ended = _trickling(heads)
    try:
        for _ in heads:
            link = link_of(listener.getsockname()[1])
            start = time.monotonic()
            with pytest.raises(LinkError, match=r"too slowly|timed out"):
                link.fetch(RUN_ID, 1)
            assert time.monotonic() - start < PATIENCE_S / 10
    finally:
        ended.set()
        listener.close()


def _trickling(heads):
    listener, ended, left = socket.create_server(("127.0.0.1", 0)), threading.Event(), list(heads)

    def trickle(end, head):
        try:
            end.recv(65536)
            end.sendall(head)
            while not ended.wait(0.05):
                end.sendall(b"x")
        except OSError:
            return

    def accept():
        while left:
            try:
                end, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=trickle, args=(end, left.pop(0)), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener, ended


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "how large"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999999\r\n\r\n", "wants to send 9999999999999 bytes"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000, "cannot be reached"),
        (b"HTTP/1.1 303 See Other\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n", "answers 303"),
        (b"\x00\x01\x02garbage\r\n\r\n", "cannot be reached"),
        (b"", "cannot be reached"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\n\x1b[2J evil", "evil"),
    ],
)
def test_answers_that_no_livegym_server_gives(answer, words):
    listener = _answering(answer)
    try:
        with pytest.raises(UserError, match=words) as refused:
            link_of(listener.getsockname()[1]).fetch(RUN_ID, 1)
        assert "\x1b" not in str(refused.value)
    finally:
        listener.close()


def _answering(answer):
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            try:
                end, _ = listener.accept()
                end.recv(65536)
                end.sendall(answer)
                end.close()
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    return listener


# addresses and tokens


@pytest.mark.parametrize(
    ("text", "name", "path"),
    [
        ("http://server:58080", "http://server:58080", "/weights/r/1"),
        ("http://server:58080/", "http://server:58080", "/weights/r/1"),
        ("https://server", "https://server:443", "/weights/r/1"),
        ("http://[::1]:80/weights/", "http://[::1]:80", "/weights/r/1"),
        ("https://server/robots/two", "https://server:443/robots/two", "/robots/two/weights/r/1"),
    ],
)
def test_addresses(text, name, path):
    address = Address.parse(text)
    assert (address.name, address.path("r", 1), address.run, address.version) == (name, path, None, None)


def test_addresses_of_runs_and_versions():
    assert Address.parse("http://s/weights/Ant_train_1").run == "Ant_train_1"
    found = Address.parse("http://s/a/weights/r/41")
    assert (found.prefix, found.run, found.version, found.host_header) == ("/a", "r", 41, "s")


@pytest.mark.parametrize(
    "text",
    ["http://s:58080/?token=s3cret9", "http://you:s3cret9@s", "http://s/#s3cret9", "https://s/x?s3cret9"],
)
def test_a_token_in_an_address_is_refused_and_not_repeated(text):
    with pytest.raises(UserError, match="process list") as refused:
        Address.parse(text)
    assert "s3cret9" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["http://", "ftp://s", "http://s:99999", "http://s:x", "http://s/weights/r/x", "http://s//"]
)
def test_what_is_no_address(text):
    with pytest.raises(UserError, match="Allowed: http://server:58080"):
        Address.parse(text)


def test_tokens_come_from_a_private_file_or_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(TOKEN, "from the environment")
    assert given_token(None) == "from the environment"
    file = tmp_path / "token"
    file.write_text("from the file\n")
    file.chmod(0o600)
    assert given_token(str(file)) == "from the file"
    file.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        given_token(str(file))
    file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    for content in ("", "\n", "x" * 600, "ü"):
        file.write_text(content)
        with pytest.raises(UserError, match="no usable token"):
            given_token(str(file))
    os.unlink(file)
    with pytest.raises(UserError, match="cannot be read"):
        given_token(str(file))
    monkeypatch.delenv(TOKEN)
    assert given_token(None) is None

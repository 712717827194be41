"""Observations in, decisions out, over real sockets: one client's troubles are no other's."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import json
import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from livegym.online.pending import SESSION
from livegym.serve import clients, connection, leases, server
from livegym.serve.inbox import Asked
from livegym.utils.signals import StopFlag
from livegym.web import server as web_server
from tests.online_fixtures import serving
from tests.patience import PATIENCE_S, until
from tests.test_live import live_of, spec_with
from tests.test_service import Setting
from tests.test_turns import run_loop
from tests.web_fixtures import TOKEN, complaints

pytest_plugins = ["online_fixtures"]

CHILD = """
import asyncio, sys, websockets.asyncio.client as ws
async def main():
    async with ws.connect(sys.argv[1], proxy=None) as socket:
        await socket.send(sys.argv[2]); print(await socket.recv(), flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def observe(stream="a", obs=(1, 2, 3, 4), id_=None, **fields):
    return json.dumps(
        {"v": 1, "type": "observe", "id": id_, "observations": [{"stream": stream, "obs": list(obs), **fields}]}
    )


def reward(stream, decision, value, **fields):
    given = {"stream": stream, "decision": decision, "reward": value, **fields}
    return json.dumps({"v": 1, "type": "reward", "rewards": [given]})


async def ask(ws, text):
    """The answer to a message: the first one of it, or the error about all."""
    await ws.send(text)
    content = json.loads(await asyncio.wait_for(ws.recv(), PATIENCE_S))
    return content["answers"][0] if content["type"] == "answers" else content


async def ended(ws):
    """Code and reason with which the server ends a connection."""
    try:
        while True:
            await asyncio.wait_for(ws.recv(), PATIENCE_S)
    except ConnectionClosed:
        return ws.close_code, ws.close_reason


def peak_kib():
    """The most memory that this process has held, since that was last asked to begin anew."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def ends(caplog):
    return [
        r.getMessage()
        for r in caplog.records
        if r.name == "livegym.serve.connection" or ": connection ended after " in r.getMessage()
    ]


def upgraded(served):
    """A TCP connection that has become a WebSocket, and takes little before it is read."""
    raw = socket.socket()
    raw.settimeout(30)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    raw.connect(("127.0.0.1", served.gateway.port))
    key = base64.b64encode(os.urandom(16)).decode()
    raw.sendall(
        f"GET /online/v1/ws HTTP/1.1\r\nHost: 127.0.0.1:{served.gateway.port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n".encode()
    )
    assert b" 101 " in raw.recv(4096)
    return raw


class Real:
    """The real decision loop on a service, in place of the stand-in."""

    def __init__(self, setting) -> None:
        self.setting = setting
        self.go = threading.Event()  # cleared: what the loop has taken from the inbox waits
        self.go.set()

    def __call__(self, inbox, max_streams):
        take, self._stop = inbox.take, StopFlag()

        def taken(timeout):
            waiting = take(timeout)
            self.go.wait(PATIENCE_S)
            return waiting

        inbox.take = taken
        self._thread = threading.Thread(target=run_loop, args=(self.setting, inbox, self._stop))
        self._thread.start()
        return self

    def stop(self) -> None:
        self.go.set()
        self._stop.request()
        self._thread.join(PATIENCE_S)


class TestDecisions:
    def test_an_observation_is_answered_with_a_decision_and_takes_its_reward(self, serve):
        served = serve()

        async def talk_to():
            async with served.socket() as ws:
                first = await ask(ws, observe(obs=[1, 2, 3, 4]))
                accepted = await ask(ws, reward("a", 1, 0.5))
                again = await ask(ws, reward("a", 1, 0.5))
                unknown = await ask(ws, reward("a", 99, 0.5))
                return first, accepted, again, unknown

        first, accepted, again, unknown = asyncio.run(talk_to())
        assert first == {
            "type": "decision", "stream": "a", "decision": 1, "proposed": [20.0], "executed": [20.0],
            "verdict": "SEND", "expected": 20.0, "components": {"double": 20.0, "count": 4.0}, "confidence": 0.5,
            "version": 7, "previous": None,
        }  # fmt: skip
        assert accepted == {"type": "accepted", "stream": "a", "decision": 1}
        assert (again["kind"], unknown["kind"]) == ("duplicate", "unknown")
        assert served.loop.rewards == {1: 0.5}
        until(lambda: served.api.counts()["clients"] == 0)
        assert served.api.counts() == {"clients": 0, "messages": 4, "refused": 2, "busy": 0}

    def test_many_streams_are_decided_in_one_pass_and_answered_in_order(self, serve):
        served = serve()
        items = [{"stream": f"s{i}", "obs": [i, 0, 0, 0]} for i in range(64)]
        with served.http() as http:
            content = http.post("/observe", json={"v": 1, "id": 5, "observations": items}).json()
        assert (content["id"], served.loop.batches) == (5, [64])
        assert [(a["stream"], a["executed"]) for a in content["answers"]] == [(f"s{i}", [2.0 * i]) for i in range(64)]

    def test_raw_observations_are_packed(self, serve):
        served = serve(raw=True)
        raw = {"energy": 8, "minerals": [[1, 0, 0], [0, 0, 0.5]]}
        with served.http() as http:
            (answer,) = http.post("/observe", json={"v": 1, "observations": [{"stream": "a", "raw": raw}]}).json()[
                "answers"
            ]
        assert answer["executed"] == [19.0]
        assert answer["components"]["count"] == 7.0

    def test_the_twin_over_http_does_the_same(self, serve):
        served = serve()
        with served.http() as http:
            one = http.post("/observe", json={"v": 1, "observations": [{"stream": "a", "obs": [1, 1, 1, 1]}]})
            two = http.post(
                "/observe", json={"v": 1, "observations": [{"stream": "a", "obs": [0, 0, 0, 1], "reward": 3.5}]}
            )
            bad = http.post("/reward", json={"v": 1, "rewards": [{"stream": "a", "decision": 1, "reward": 1}]})
            good = http.post("/reward", json={"v": 1, "rewards": [{"stream": "a", "decision": 2, "reward": 1}]})
            end = http.post(
                "/observe", json={"v": 1, "observations": [{"stream": "a", "obs": [0, 0, 0, 1], "done": True}]}
            )
        assert [r.status_code for r in (one, two, bad, good, end)] == [200] * 5
        assert one.json()["answers"][0]["executed"] == [8.0]
        assert two.json()["answers"][0]["previous"] is None
        assert bad.json()["answers"][0]["kind"] == "duplicate"
        assert good.json()["answers"] == [{"type": "accepted", "stream": "a", "decision": 2}]
        assert end.json()["answers"] == [{"type": "ended", "stream": "a"}]
        assert served.loop.rewards == {1: 3.5, 2: 1.0}

    def test_each_reward_joins_its_own_decision_over_episodes_and_reconnects(self, serve):
        """The reward is the action's own value, 500 times, with a new connection every 7 and an end every 11 steps."""
        served = serve()

        async def drive():
            step, last, sent = 0, None, 0
            while step < 500:
                async with served.socket() as ws:
                    for _ in range(7):
                        step += 1
                        done = step % 11 == 0
                        fields = {} if last is None else {"reward": last}
                        answer = await ask(ws, observe(obs=[step, 0, 0, 0], sequence=step, done=done, **fields))
                        sent += last is not None
                        last = None if done else answer["executed"][0]
                await until_left(served)
            return sent

        sent = asyncio.run(drive())
        assert len(served.loop.rewards) == sent > 400
        assert all(served.loop.decided[decision] == value for decision, value in served.loop.rewards.items())

    def test_a_repeat_after_a_reconnect_gets_the_same_answer_and_a_lower_number_is_refused(self, serve):
        served = serve()

        async def drive():
            async with served.socket() as ws:
                await ws.send(observe(sequence=5))
                await until_async(lambda: served.loop.decided)
            await until_left(served)
            async with served.socket() as ws:
                return [await ask(ws, observe(sequence=n)) for n in (5, 5, 4, 6)]

        same, again, lower, higher = asyncio.run(drive())
        assert same == again
        assert same["decision"] == 1
        assert lower["kind"] == "out_of_order"
        assert higher["decision"] == 2
        assert len(served.loop.decided) == 2


async def until_async(condition):
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.01)


async def until_left(served, clients=0):
    await until_async(lambda: served.api.counts()["clients"] == clients)


class TestOwners:
    def test_a_stream_is_its_connections_until_that_ends(self, serve):
        served = serve()

        async def drive():
            async with served.socket() as mine:
                await ask(mine, observe("north", sequence=1))
                async with served.socket() as other:
                    answers = [await ask(other, observe("north", sequence=2)), await ask(other, reward("north", 1, 9))]
                    both = {"v": 1, "type": "observe", "observations": []}
                    both["observations"] = [{"stream": s, "obs": [0, 0, 0, 0]} for s in ("south", "north")]
                    answers.append(await ask(other, json.dumps(both)))
                    (await asyncio.to_thread(lambda: answers.append(posted(served, "north"))))
                    assert "south" not in served.loop.streams
                    await mine.close()
                    await until_left(served, 1)
                    return answers, await ask(other, observe("north", sequence=2))

        answers, taken_up = asyncio.run(drive())
        assert [answer["kind"] for answer in answers] == ["foreign_stream"] * 4
        assert "'north' belongs to another client" in answers[0]["message"]
        assert taken_up["decision"] == 2
        assert served.loop.rewards == {}

    def test_a_client_that_comes_back_by_name_need_not_wait_for_its_old_connection(self, serve):
        served = serve()

        async def drive():
            async with served.socket("?client=robot") as old, served.socket("?client=other") as other:
                await ask(old, observe(sequence=1))
                await ask(other, observe("b", sequence=1))
                async with served.socket("?client=robot") as new:
                    answer = await ask(new, observe(sequence=2))
                    ending = await ended(old)
                    return answer, ending, (await ask(other, observe("b", sequence=2)))["type"], served.api.counts()

        answer, ending, others, counts = asyncio.run(drive())
        assert answer["decision"] == 3
        assert ending == (1008, "another connection has the same client id")
        assert others == "decision"
        assert counts["clients"] == 2

    def test_a_client_over_http_keeps_its_streams_for_a_while(self, serve, monkeypatch):
        served = serve()
        assert posted(served, "north", "me")["type"] == "decision"
        assert posted(served, "north", "you")["kind"] == "foreign_stream"
        assert posted(served, "north")["kind"] == "foreign_stream"
        assert posted(served, "south")["type"] == "decision"  # without a name nothing is kept
        assert posted(served, "south", "you")["type"] == "decision"
        monkeypatch.setattr(served.api._leases, "_clock", lambda: 1e9)
        assert posted(served, "north", "you")["type"] == "decision"

    def test_names_that_are_refused_use_up_nothing(self, serve, tmp_path):
        """Among them those that a client reports after the server was killed: of these, it knows no decision."""
        served = serve(max_streams=3, kind=Real(Setting(tmp_path, live_of(num_envs=3))), spec=spec_with())

        async def drive():
            async with served.socket() as ws, served.socket() as other:
                kinds = [(await ask(ws, reward(f"old{i}", 7, 0))).get("kind") for i in range(10)]
                kinds += [(await ask(ws, reward(f"new{i}", 2 * SESSION, 0))).get("kind") for i in range(10)]
                kinds += [(await ask(other, observe(f"s{i}", [1, 2]))).get("kind") for i in range(10)]
                return kinds, dict(served.api._leases._owners)

        kinds, owners = asyncio.run(drive())
        assert kinds == ["late"] * 10 + ["unknown"] * 10 + [None] * 3 + ["too_many_streams"] * 7
        assert owners == dict.fromkeys(("s0", "s1", "s2"), "connection 2")

    def test_a_stream_whose_first_report_was_refused_is_its_clients_once_one_is_accepted(self, serve, tmp_path):
        """Both wait at once: the refusal of the first frees the stream, though the second is about to be accepted."""
        served = serve(kind=Real(Setting(tmp_path, live_of())), spec=spec_with())

        async def drive():
            async with served.socket() as mine, served.socket() as other:
                served.loop.go.clear()
                await mine.send(reward("a", 7, 0.5))
                await mine.send(observe("a", [1, 2]))
                await until_async(lambda: served.inbox.asked == 2)
                served.loop.go.set()
                answers = [json.loads(await mine.recv())["answers"][0]["type"] for _ in range(2)]
                refused = await ask(other, observe("a", [1, 2]))
                return answers, refused["kind"]

        assert asyncio.run(drive()) == (["error", "decision"], "foreign_stream")

    def test_a_name_is_free_though_its_client_left_before_the_refusal(self, serve, tmp_path):
        """A connection under the same name takes the old one's place, and with it the streams of the client."""
        served = serve(max_streams=1, kind=Real(Setting(tmp_path, live_of())), spec=spec_with())

        async def drive():
            async with served.socket("?client=robot") as old:
                served.loop.go.clear()
                await old.send(reward("a", 7, 0.5))
                await until_async(lambda: served.inbox.asked == 1)
                async with served.socket("?client=robot") as new:
                    await ended(old)
                    served.loop.go.set()
                    await until_async(lambda: not served.api._leases._owners)
                    return (await ask(new, observe("b", [1, 2])))["type"]

        assert asyncio.run(drive()) == "decision"


def posted(served, stream, client=None):
    params = {} if client is None else {"client": client}
    with served.http() as http:
        content = {"v": 1, "observations": [{"stream": stream, "obs": [0, 0, 0, 0]}]}
        answer = http.post("/observe", json=content, params=params).json()
    return answer["answers"][0] if answer["type"] == "answers" else answer


class TestLeaving:
    def test_clients_leave_in_all_ways_and_the_others_notice_nothing(self, serve, caplog):
        caplog.set_level(logging.INFO)
        served = serve()
        url = f"ws://127.0.0.1:{served.gateway.port}/online/v1/ws"
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, url, observe("killed")], stdout=subprocess.PIPE, text=True
        )
        assert '"decision"' in child.stdout.readline()

        async def drive():
            steady = [await served.socket(ping_interval=0.2) for _ in range(3)]
            for i, ws in enumerate(steady):
                await ask(ws, observe(f"steady-{i}"))

            async def all_well():
                for i, ws in enumerate(steady):
                    assert (await ask(ws, observe(f"steady-{i}")))["type"] == "decision"

            async def politely(ws):
                await ws.close()

            async def by_cutting_the_link(ws):
                ws.transport.abort()

            async def by_garbage(ws):
                for _ in range(connection.REFUSALS):
                    assert (await ask(ws, "garbage"))["kind"] == "malformed"
                assert (await ended(ws))[0] == 1008

            async def by_bytes_and_another_kind_of_json(ws):
                assert (await ask(ws, b"\x80\x04N."))["kind"] == "malformed"
                assert (await ask(ws, '["observe"]'))["kind"] == "malformed"
                await ws.close()

            async def by_half_a_frame(ws):
                ws.transport.write(b"\x81\xfe\x01\x00half")
                ws.transport.abort()

            async def by_a_frame_that_is_none(ws):
                ws.transport.write(b"\xff\xff\xff\xff")
                assert (await ended(ws))[0] == 1002

            async def while_its_answer_is_made(ws):
                served.loop.go.clear()
                await ws.send(observe("leaves", sequence=1))
                await until_async(lambda: served.inbox.asked > before)
                ws.transport.abort()
                served.loop.go.set()

            await asyncio.to_thread(os.kill, child.pid, signal.SIGKILL)
            await until_left(served, 3)
            ways = [politely, by_cutting_the_link, by_garbage, by_bytes_and_another_kind_of_json, by_half_a_frame,
                    by_a_frame_that_is_none, while_its_answer_is_made]  # fmt: skip
            for way in ways:
                before = served.inbox.asked
                ws = await served.socket()
                await way(ws)
                await until_left(served, 3)
                await all_well()
            for ws in steady:
                await ws.close()
            await until_left(served)
            async with served.socket() as ws:
                return len(ways), await ask(ws, observe("leaves", sequence=1))

        ways, found = asyncio.run(drive())
        child.wait(PATIENCE_S)
        assert found["decision"] in served.loop.decided
        until(lambda: len(ends(caplog)) == ways + 5)
        assert [r for r in complaints(caplog) if r.name.startswith(("online", "uvicorn", "web"))] == []

    def test_what_was_asked_by_who_left_is_decided_and_kept(self, serve):
        served = serve()
        served.loop.go.clear()
        body = observe("a", sequence=1).encode()
        with pytest.raises(httpx.ReadTimeout), served.http(timeout=0.3) as http:
            http.post("/observe", content=body, headers={"content-type": "application/json"})
        served.loop.go.set()
        until(lambda: served.loop.decided)
        with served.http() as http:
            answer = http.post("/observe", content=body, headers={"content-type": "application/json"}).json()
        assert answer["answers"][0]["decision"] == 1
        assert len(served.loop.decided) == 1

    def test_the_end_of_a_question_whose_client_has_left_is_no_error(self, serve, caplog):
        served = serve()

        async def drive():
            async with served.socket() as ws:
                served.loop.go.clear()
                await ws.send(observe())
                await until_async(served.loop.thinking.is_set)
            await until_left(served)

        asyncio.run(drive())
        served.inbox.close()
        with served.http() as http:  # the event loop has seen it
            assert http.get("/spec").status_code == 200
        gc.collect()
        assert complaints(caplog) == []

    def test_at_the_end_all_clients_are_notified(self, serve):
        served = serve()

        async def drive():
            async with served.socket() as waiting, served.socket() as idle:
                served.loop.go.clear()
                await waiting.send(observe())
                await until_async(served.loop.thinking.is_set)
                served.inbox.close()
                error = json.loads(await waiting.recv())
                second = await ask(idle, observe("b"))
                return error, await ended(waiting), second, await ended(idle)

        error, ending, second, ending_too = asyncio.run(drive())
        assert error["kind"] == second["kind"] == "closing"
        assert error["retry_after"] > 0
        assert ending == ending_too == (1001, "the server stops")
        with served.http() as http:
            answer = http.post("/observe", json={"v": 1, "observations": [{"stream": "a", "obs": [0, 0, 0, 0]}]})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0


class TestPlacesAndRates:
    """One client's silence or hurry is no other's trouble."""

    def test_a_client_that_never_says_anything_valid_is_disconnected(self, serve, monkeypatch):
        """What a client is told that sent nonsense in time: `test_clients.py`, without a clock."""
        served = serve()

        async def drive():
            async with served.socket() as speaks:
                await ask(speaks, observe())
                monkeypatch.setattr(connection, "SILENT_S", 0.05)
                async with served.socket() as silent, served.socket() as nonsense:
                    with contextlib.suppress(ConnectionClosed):  # its time is over already
                        await nonsense.send("{}")
                    endings = await ended(silent), await ended(nonsense)
                return endings, await ask(speaks, observe())

        endings, decision = asyncio.run(drive())
        assert endings == ((1008, "no valid message within 0.05 s"),) * 2
        assert decision["type"] == "decision"

    def test_if_all_places_are_taken_the_client_that_was_silent_longest_gives_way(self, serve, monkeypatch):
        monkeypatch.setattr(clients, "MAX_CLIENTS", 2)
        served = serve()

        async def drive():
            async with served.socket("?client=old") as old, served.socket("?client=new") as new:
                await ask(old, observe("a"))
                await ask(new, observe("b"))
                with pytest.raises(InvalidStatus):  # nobody has been silent for long
                    await served.socket("?client=robot")
                monkeypatch.setattr(clients, "QUIET_S", 0.0)
                async with served.socket("?client=robot") as robot:
                    assert served.api.counts()["clients"] == 3  # it takes a place with its first message
                    decisions = [await ask(ws, observe(name)) for ws, name in ((robot, "c"), (new, "b"))]
                    ending = await ended(old)
                    await ask(robot, observe("a"))  # which is free
                    return decisions, ending, served.api.counts()["clients"]

        decisions, ending, left = asyncio.run(drive())
        assert [decision["type"] for decision in decisions] == ["decision"] * 2
        assert ending[0] == 1013
        assert "another client needs the place" in ending[1]
        assert left == 2

    def test_who_says_nothing_keeps_no_newcomer_out(self, serve, monkeypatch):
        """They held all places for 2 s each, and took those that became free before anyone else."""
        monkeypatch.setattr(clients, "MAX_CLIENTS", 4)
        monkeypatch.setattr(clients, "MAX_UNHEARD", 3)
        served = serve()

        async def drive():
            silent, kinds = [], []
            async with served.socket("?client=there") as there:
                await ask(there, observe("there"))
                for k in range(5):
                    silent += [await served.socket(f"?client=silent-{k}-{i}") for i in range(3)]
                    async with served.socket() as newcomer:
                        kinds.append((await ask(newcomer, observe("new")))["type"])
                kinds.append((await ask(there, observe("there")))["type"])
                codes = [await ended(ws) for ws in silent[:-3]]
                left = served.api.counts()["clients"]
                for ws in silent[-3:]:
                    await ws.close()
                return kinds, codes, left

        kinds, codes, left = asyncio.run(drive())
        assert kinds == ["decision"] * 6
        assert codes == [(1013, clients.CROWDED)] * 12
        assert left <= 1 + 3

    def test_a_client_for_whose_first_message_there_is_no_place_is_told_to_resend_it(self, serve, monkeypatch):
        monkeypatch.setattr(clients, "MAX_CLIENTS", 1)
        served = serve()

        async def drive():
            async with served.socket("?client=second") as second:
                async with served.socket("?client=first") as first:
                    await ask(first, observe("a"))
                    refused = await ask(second, observe("b", id_=5))
                await until_async(lambda: served.api.counts()["clients"] == 1)
                return refused, (await ask(second, observe("b")))["type"]

        refused, later = asyncio.run(drive())
        assert (refused["kind"], refused["id"], refused["retry_after"]) == ("busy", 5, 1.0)
        assert "1 clients are connected already" in refused["message"]
        assert later == "decision"
        assert served.api.counts()["busy"] == 1

    def test_the_client_for_pages_is_served_as_a_module(self, serve):
        with serve().http() as http:
            answer = http.get("/client.js")
        assert answer.headers["content-type"].startswith("text/javascript")
        assert "export function play(" in answer.text

    def test_clients_and_newcomers_have_places_of_their_own_at_the_front_door(self, serve):
        served = serve()
        assert (
            served.gateway.places.sockets_of("/online/v1/ws")
            == server.SOCKETS
            > clients.MAX_CLIENTS + clients.MAX_UNHEARD
        )
        assert served.gateway.places.sockets_of("/ws") < server.SOCKETS

    def test_a_client_of_which_nothing_was_accepted_holds_no_place(self, serve, monkeypatch):
        monkeypatch.setattr(clients, "MAX_CLIENTS", 2)
        served = serve()

        async def drive():
            async with (
                served.socket("?client=owner") as owner,
                served.socket("?client=thief") as thief,
                served.socket("?client=third") as third,
            ):
                await ask(owner, observe("a"))
                return (await ask(thief, observe("a")))["kind"], (await ask(third, observe("c")))["type"]

        assert asyncio.run(drive()) == ("foreign_stream", "decision")

    def test_a_client_with_many_requests_leaves_room_for_others(self, serve, monkeypatch):
        monkeypatch.setattr(server, "MAX_REQUESTS", 2)
        served = serve()
        body = {"v": 1, "observations": [{"stream": "a", "obs": [0, 0, 0, 0]}]}

        async def drive():
            async with httpx.AsyncClient(base_url=f"{served.address}/online/v1", trust_env=False) as http:
                served.loop.go.clear()
                held = [asyncio.create_task(http.post("/observe?client=greedy", json=body)) for _ in range(2)]
                await until_async(lambda: served.api.counts()["clients"] == 2)
                refused = await http.post("/observe?client=greedy", json=body)
                other = asyncio.create_task(
                    http.post("/observe?client=other", json={**body, "observations": [{"stream": "b", "obs": [1] * 4}]})
                )
                await until_async(lambda: served.api.counts()["clients"] == 3)
                served.loop.go.set()
                return refused.status_code, (await other).status_code, [(await task).status_code for task in held]

        assert asyncio.run(drive()) == (503, 200, [200, 200])

    def test_requests_under_many_names_leave_room_for_other_addresses(self, serve, monkeypatch):
        """Each request had a new name, and so they held all places of HTTP requests."""
        monkeypatch.setattr(server, "MAX_REQUESTS_FROM", 2)
        monkeypatch.setattr(server, "address_of", lambda request: request.headers["x-test-address"])
        served = serve()

        async def drive():
            async with httpx.AsyncClient(base_url=f"{served.address}/online/v1", trust_env=False) as http:

                def asked(number, address):
                    body = {"v": 1, "observations": [{"stream": f"s{number}", "obs": [0, 0, 0, 0]}]}
                    given = {"json": body, "headers": {"x-test-address": address}}
                    return asyncio.create_task(http.post(f"/observe?client=name-{number}", **given))

                served.loop.go.clear()
                held = [asked(k, "192.0.2.1") for k in range(2)]
                await until_async(lambda: served.api.counts()["clients"] == 2)
                refused = await asked(2, "192.0.2.1")
                held.append(asked(3, "192.0.2.2"))
                await until_async(lambda: served.api.counts()["clients"] == 3)
                served.loop.go.set()
                return refused, [(await task).status_code for task in held]

        refused, served_ones = asyncio.run(drive())
        assert (refused.status_code, served_ones) == (503, [200] * 3)
        assert "2 requests of your address (192.0.2.1) are waiting already" in refused.json()["message"]
        assert not served.api._requests_from

    def test_names_that_own_no_stream_are_not_kept(self, serve):
        """Each was kept for a minute, and all were looked through for each message of every client."""
        served = serve()
        content = {"v": 1, "rewards": [{"stream": "free", "decision": 1, "reward": 0.0}]}
        with served.http() as http:
            kinds = [http.post(f"/reward?client=new-{k}", json=content).json()["answers"][0]["kind"] for k in range(5)]
        assert kinds == ["unknown"] * 5
        assert posted(served, "north", "me")["type"] == "decision"
        assert list(served.api._leases._until) == ["me"]

    def test_a_stream_that_is_too_fast_is_told_when_to_resend_and_others_are_not_slowed(self, serve):
        served = serve(stream_rate=0.01)  # and 64 at once

        async def drive():
            async with served.socket() as ws:
                for _ in range(64):
                    assert (await ask(ws, observe("fast")))["type"] == "decision"
                return await ask(ws, observe("fast")), await ask(ws, observe("other"))

        error, other = asyncio.run(drive())
        assert (error["kind"], error["given"], other["type"]) == ("busy", "fast", "decision")
        assert 0 < error["retry_after"] <= 100
        with served.http() as http:
            body = {"v": 1, "observations": [{"stream": "fast", "obs": [0, 0, 0, 0]}]}
            answer = http.post("/observe", json=body)
        assert answer.status_code in (409, 429)  # the stream is still its client's, or free
        assert served.loop.streams["fast"].answer.decision == 64

    def test_latency_counts_from_arrival_until_the_answer_was_sent(self, serve):
        took = []
        served = serve(took=took.append)
        body = {"v": 1, "observations": [{"stream": "h", "obs": [0, 0, 0, 0]}]}

        async def drive():
            async with served.socket() as ws:
                decision = await ask(ws, observe())
                await ask(ws, reward("a", decision["decision"], 1.0))  # not counted
                await ask(ws, "{}")
                served.loop.go.clear()
                served.loop.thinking.clear()
                before = time.perf_counter()
                await ws.send(observe())
                await until_async(served.loop.thinking.is_set)
                await asyncio.sleep(0.2)
                served.loop.go.set()
                await ws.recv()
                await until_async(lambda: len(took) == 2)
                return time.perf_counter() - before

        longest = asyncio.run(drive())
        assert 0.2 < took[1] <= longest
        with served.http() as http:
            http.post("/observe", json=body)
            until(lambda: len(took) == 3)
            http.post("/observe", json=body)
        until(lambda: len(took) == 4)
        assert all(0 < seconds < longest + PATIENCE_S for seconds in took)


def failing(requests, share):
    """Instead of an inbox's `ask`: the loop takes the question and fails."""
    asked = Asked(requests, share)
    asked.fail(RuntimeError("the gate raised"))
    return asked.future


class TestSlowDecisions:
    def test_a_slow_decision_holds_up_nothing_else(self, serve, monkeypatch):
        """Pings must be answered within 1.5 s; the decision takes longer than the first one allows."""
        monkeypatch.setattr(web_server, "PING_S", 0.1)
        monkeypatch.setattr(web_server, "PONG_S", 1.5)
        served = serve()
        order = []

        async def drive():
            async with served.socket() as slow, served.socket() as other:
                served.loop.go.clear()
                for i in range(connection.UNANSWERED + 4):  # more than are read: pongs wait behind them
                    await slow.send(observe("slow", sequence=i))
                await until_async(served.loop.thinking.is_set)
                reader = asyncio.create_task(slow.recv())
                reader.add_done_callback(lambda _: order.append("decision"))
                async with httpx.AsyncClient(trust_env=False) as http:
                    for _ in range(20):
                        assert (await http.get(f"{served.address}/healthz")).status_code == 200
                        assert (await http.get(f"{served.address}/online/v1/spec")).status_code == 200
                        await (await other.ping())
                        order.append("alive")
                        await asyncio.sleep(0.1)
                assert (await ask(other, "{"))["kind"] == "malformed"
                served.loop.go.set()
                answers = [json.loads(await reader)] + [
                    json.loads(await slow.recv()) for _ in range(connection.UNANSWERED + 3)
                ]
                assert [a["answers"][0]["decision"] for a in answers] == list(range(1, connection.UNANSWERED + 5))
                return (await ask(slow, observe("slow", sequence=99)))["type"]

        assert asyncio.run(drive()) == "decision"
        assert order == ["alive"] * 20 + ["decision"]

    def test_over_http_the_wait_has_an_end_and_the_decision_is_found_again(self, serve, monkeypatch):
        monkeypatch.setattr(server, "ANSWER_S", 0.2)
        served = serve()
        served.loop.go.clear()
        content = {"v": 1, "observations": [{"stream": "a", "sequence": 1, "obs": [0, 0, 0, 1]}]}
        with served.http() as http:
            late = http.post("/observe", json=content)
            served.loop.go.set()
            monkeypatch.setattr(server, "ANSWER_S", 30)
            found = http.post("/observe", json=content)
        assert (late.status_code, late.json()["kind"]) == (503, "busy")
        assert found.json()["answers"][0]["decision"] == 1
        assert len(served.loop.decided) == 1

    def test_a_loop_that_fails_reports_it_and_continues(self, serve, caplog):
        served = serve()
        served.inbox.ask = failing
        with served.http() as http:
            answer = http.post("/observe", json={"v": 1, "observations": [{"stream": "a", "obs": [0, 0, 0, 0]}]})
        assert (answer.status_code, answer.json()["kind"]) == (500, "failed")
        assert [r.exc_info[1].args for r in complaints(caplog)] == [("the gate raised",)]


def frame_of(payload, first):
    """A client's frame with a mask of zeros; `first`: its first byte."""
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return bytes([first]) + size + b"\0\0\0\0" + payload


def sent_until_stuck(raw, frame, most):
    """How many frames could be sent before the other side took no more, or hung up."""
    for count in range(most):
        try:
            raw.sendall(frame)
        except OSError:
            return count
    return most


class TestLimits:
    def test_a_large_message_ends_its_connection(self, serve):
        served = serve()

        async def drive():
            async with served.socket() as ws, served.socket() as other:
                await ws.send("x" * 70_000)
                return await ended(ws), (await ask(other, observe()))["type"]

        (code, _), others = asyncio.run(drive())
        assert (code, others) == (1009, "decision")

    def test_a_frame_of_2_gb_is_refused_by_its_head(self, serve):
        served = serve()
        with upgraded(served) as raw:
            raw.sendall(b"\x81\xff" + (2 << 30).to_bytes(8, "big") + b"mask" + b"x" * 1000)
            assert (1009).to_bytes(2, "big") in raw.recv(4096)

    def test_a_message_that_unpacks_to_a_thousand_times_its_size_does_not_fill_memory(self, serve):
        """One read of the socket would bring 200 MB that wait for the application."""
        served = serve()
        packer = zlib.compressobj(wbits=-15)
        packed = (packer.compress(b" " * 60_000) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
        frame = frame_of(packed, 0xC1)
        with upgraded(served) as raw:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before = peak_kib()
            assert sent_until_stuck(raw, frame * 20_000, 10) < 10  # it was cut off
            until(lambda: served.api.counts()["clients"] == 0)
        assert served.api.counts()["messages"] < 20
        assert peak_kib() - before < 32 * 1024

    def test_a_body_over_the_limit_is_not_read(self, serve):
        served = serve()
        with socket.create_connection(("127.0.0.1", served.gateway.port), timeout=PATIENCE_S) as raw:
            head = f"POST /online/v1/observe HTTP/1.1\r\nHost: 127.0.0.1:{served.gateway.port}\r\n"
            raw.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {2 << 30}\r\n\r\n".encode())
            assert b" 413 " in raw.recv(4096)  # though not a byte of it was sent

    def test_a_hundred_thousand_messages_that_nobody_reads_the_answers_of(self, serve, monkeypatch):
        monkeypatch.setattr(connection, "SEND_S", 0.5)
        monkeypatch.setattr(web_server, "LEFT_S", 0.1)
        served = serve()
        frame = frame_of(observe("flood").encode(), 0x81)
        other_answers = []

        async def other():
            async with served.socket() as ws:
                for i in range(200):
                    other_answers.append((await ask(ws, observe("other", sequence=i)))["type"])

        with upgraded(served) as raw:
            raw.settimeout(0.5)
            sent = sent_until_stuck(raw, frame, 100_000)
            asyncio.run(other())
            until(lambda: served.api.counts()["clients"] == 0)
            until(lambda: not served.gateway._server.server_state.connections)
        assert other_answers == ["decision"] * 200
        assert sent < 100_000
        assert served.inbox.most_waiting <= connection.UNANSWERED + 1

    def test_a_full_inbox_is_reported_and_nothing_is_accepted(self, serve):
        served = serve(capacity=3)

        async def drive():
            async with served.socket() as ws, served.socket() as other:
                served.loop.go.clear()
                await ws.send(observe("a"))
                await until_async(served.loop.thinking.is_set)
                await ws.send(observe("b"))
                await ws.send(observe("c"))
                await until_async(lambda: served.inbox.asked == 3)
                turned_away = await ask(other, observe("d", id_=4))
                over_http = await asyncio.to_thread(
                    httpx.post, f"{served.address}/online/v1/observe",
                    json={"v": 1, "observations": [{"stream": "d", "obs": [0, 0, 0, 0]}]}, trust_env=False,
                )  # fmt: skip
                served.loop.go.set()
                await until_async(lambda: len(served.loop.decided) == 3)
                return turned_away, over_http, (await ask(other, observe("d")))["type"]

        turned_away, over_http, later = asyncio.run(drive())
        assert (turned_away["kind"], turned_away["id"], turned_away["retry_after"]) == ("busy", 4, 1.0)
        assert (over_http.status_code, over_http.headers["retry-after"]) == (503, "1")
        assert later == "decision"
        assert served.api.counts()["busy"] == 2
        assert len(served.loop.decided) == 4

    def test_so_many_clients_and_no_more(self, serve, monkeypatch):
        monkeypatch.setattr(clients, "MAX_CLIENTS", 2)
        served = serve()

        async def drive():
            async with served.socket("?client=one") as one, served.socket() as other:
                await ask(one, observe("b"))
                await ask(other, observe("c"))
                with pytest.raises(InvalidStatus) as caught:
                    await served.socket()
                async with served.socket("?client=one") as again:  # its old connection makes room
                    assert (await ask(again, observe()))["type"] == "decision"
                return caught.value.response

        response = asyncio.run(drive())
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")

    def test_nonsense_changes_nothing(self, serve):
        served = serve()
        wrong = [
            "[" * 60_000, '{"a":' * 10_000, "{}", observe(obs=[1]), observe(obs=[0] * 9), observe(obs=[math.nan] * 4),
            observe(reward=float("inf")), observe(stream="../../etc"), observe(sequence=-1), reward("a", -1, 0), "\x00",
        ]  # fmt: skip

        async def drive():
            async with served.socket() as ws:
                return [await ask(ws, text) for text in wrong]

        answers = asyncio.run(drive())
        assert {a["type"] for a in answers} == {"error"}
        assert {a["kind"] for a in answers} <= {"malformed", "invalid"}
        assert (served.inbox.asked, served.loop.streams, served.api._leases._owners) == (0, {}, {})
        assert served.api.counts()["refused"] == len(wrong)
        with served.http() as http:
            codes = [http.post("/observe", content=t, headers=JSON).status_code for t in wrong]
        assert set(codes) <= {400, 422}


JSON = {"content-type": "application/json"}


class TestWhoMayComeIn:
    def test_foreign_pages_and_names_are_refused_and_clients_without_a_page_are_not(self, serve):
        served = serve()
        body = {"v": 1, "observations": [{"stream": "a", "obs": [0, 0, 0, 0]}]}
        with served.http() as http:
            evil = http.post("/observe", json=body, headers={"origin": "http://evil.example"})
            named = http.post("/observe", json=body, headers={"host": "evil.example"})
            form = http.post("/observe", data={"stream": "a"})
            text = http.post("/observe", content=json.dumps(body), headers={"content-type": "text/plain"})
            own = http.post("/observe", json=body, headers={"origin": served.address})
            tool = http.post("/observe", json=body)
        assert [r.status_code for r in (evil, named, form, text, own, tool)] == [403, 421, 400, 400, 200, 200]

        async def statuses():
            found = []
            with pytest.raises(InvalidStatus) as caught:
                await served.socket(origin="http://evil.example")
            found.append(caught.value.response.status_code)
            evil = {"host": "127.0.0.1", "port": served.gateway.port}
            with pytest.raises(InvalidStatus) as caught:
                await connect(f"ws://evil.example:{served.gateway.port}/online/v1/ws", proxy=None, **evil)
            found.append(caught.value.response.status_code)
            async with served.socket(additional_headers={"Origin": served.address}) as ws:
                found.append((await ask(ws, observe()))["type"])
            return found

        assert asyncio.run(statuses()) == [403, 421, "decision"]

    def test_the_token_is_asked_for_everywhere(self, serve):
        served = serve(token=TOKEN)
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        with served.http() as http:
            for path in ("/spec", "/openapi.json", "/docs", "/docs/swagger-ui.css"):
                assert http.get(path).status_code == 401
                assert http.get(path, headers=bearer).status_code == 200
            assert http.post("/observe", json={}).status_code == 401
            assert http.post("/observe", json={}, headers=bearer).status_code == 400

        async def drive():
            with pytest.raises(InvalidStatus) as caught:
                await served.socket()
            async with served.socket(additional_headers=bearer) as ws:
                return caught.value.response.status_code, (await ask(ws, observe()))["type"]

        assert asyncio.run(drive()) == (401, "decision")

    def test_a_read_only_server_learns_from_nobody(self, serve):
        served = serve(read_only=True)
        with served.http() as http:
            assert http.get("/spec").status_code == 200
            assert http.post("/observe", json={}).status_code == 403
            assert http.post("/reward", json={}).status_code == 403

        async def drive():
            with pytest.raises(InvalidStatus) as caught:
                await served.socket()
            return caught.value.response

        response = asyncio.run(drive())
        assert response.status_code == 403
        assert b"streamReadOnly" in response.body
        assert served.inbox.asked == 0


class TestDescription:
    def test_the_spec_says_what_is_served_and_its_limits(self, serve):
        with serve(raw=True).http() as http:
            spec = http.get("/spec").json()
        assert (spec["task"], spec["v"], spec["control_dt"]) == ("Cartpole", 1, 1 / 60)
        assert spec["observation"]["fields"]["minerals"] == {
            "shape": [2, 3], "low": 0.0, "high": 1.0, "help": "share of a chunk",
        }  # fmt: skip
        assert spec["limits"]["message_bytes"] == spec["limits"]["body_bytes"] == 65_536
        assert spec["limits"]["lease_s"] == leases.LEASE_S

    def test_the_document_describes_this_tasks_messages(self, serve):
        with serve(raw=True).http() as http:
            document = http.get("/openapi.json").json()
        schemas = document["components"]["schemas"]
        body = document["paths"]["/observe"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": "#/components/schemas/ObserveMessage"}
        assert schemas["Raw"]["properties"]["minerals"]["maxItems"] == 2
        assert {"Answers", "ErrorMessage", "RewardMessage", "StreamObservation"} <= set(schemas)
        missing = [ref for ref in refs(document) if ref.rpartition("/")[2] not in schemas]
        assert missing == []

    def test_the_page_loads_nothing_from_elsewhere(self, serve):
        with serve().http() as http:
            page = http.get("/docs").text
            assert "://" not in page
            assert "<script>" not in page  # inline scripts are not allowed
            for name in ("swagger-ui.css", "swagger-ui-bundle.js", "start.js"):
                assert f'"docs/{name}"' in page
                assert http.get(f"/docs/{name}").status_code == 200
            assert http.get("/docs/index.html").status_code == 404


def refs(value):
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for inner in value.values() for ref in refs(inner)]
    return [ref for inner in value for ref in refs(inner)] if isinstance(value, list) else []


def test_a_server_that_comes_back_knows_what_it_decided():
    """Same port, same memory: what a run directory does for the real one."""
    with serving() as first:
        port = first.gateway.port

        async def begin():
            async with first.socket() as ws:
                return await ask(ws, observe(sequence=5))

        before = asyncio.run(begin())
    with serving(port=port, loop=first.loop) as second:

        async def go_on():
            async with second.socket() as ws:
                return [await ask(ws, observe(sequence=5)), await ask(ws, reward("a", before["decision"], 1.5))]

        assert second.gateway.port == port
        assert asyncio.run(go_on()) == [before, {"type": "accepted", "stream": "a", "decision": before["decision"]}]

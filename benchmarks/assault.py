"""The latency of an honest client of continuous training beside clients that misbehave, and what it loses.

The server needs a token, which the honest client has. It asks for a decision over a WebSocket 60 times a second, over a
kept HTTP connection 10 times a second, and once a second a new client with a new connection joins and asks for one.
Beside it, a process of its own does one of the following, as fast as it can:

- `spinning`: computes, and does not connect. What the others add to this is what they do to the server;
- `churn`: connects and disconnects;
- `idle`: connects and sends nothing, or half of a request's head;
- `wrong tokens`: asks with a wrong token, from the same address as the honest client;
- `slow bodies`: signs in with a body that does not come;
- `silent`: opens WebSockets with the right token and says nothing;
- `greedy`: sends observations of many streams over several WebSockets with the right token, without a pause; one of
  them asks for all streams, and takes as many as it gets;
- `names`: with the right token, takes a new name (`?client=`) for each of its requests, which are rewards of unknown
  decisions and so take no stream, and a new WebSocket for each of its observations.

Budgets: no decision is lost, no client with the right token is refused, and the WebSocket's p99 is at most three times
that beside `spinning` in the same round. An attack of which nothing was accepted in a round is no measurement. A
decision over a kept HTTP connection, of a client that is alone, takes 3 ms at most (median). At full size, five rounds
of 11 minutes in all are interleaved, and the medians count.

    python -m benchmarks.assault
    python -m benchmarks.assault --quick
    python -m benchmarks.assault --only silent greedy --rounds 3
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import itertools
import json
import os
import secrets
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from benchmarks.harness import ROOT, Spread, arguments, begin, free_port, report, rounds_of, wait_for_quiet
from livegym.serve.messages import MAX_ITEMS

SECONDS = {"full": 11.0, "quick": 8.0, "toy": 0.5}
MOST_TIMES, MOST_POST_MS = 3.0, 3.0  # budgets: p99 / p99 beside `spinning`; p50 of HTTP alone
RATE, HTTP_RATE, JOIN_EVERY = 60.0, 10.0, 1.0  # 1/s, 1/s, s
ALONE_RATE = 60.0  # 1/s, of HTTP requests of a client that is alone
JOIN_TRIES, PAUSE_S = 8, 0.5  # of a new client that the server cannot serve yet
HOST = "127.0.0.1"


@dataclass
class Seen:
    """Observations of the honest client beside one attack."""

    decisions: list[float] = field(default_factory=list)  # ms, over the WebSocket
    posts: list[float] = field(default_factory=list)  # ms, over HTTP
    joined: list[float] = field(default_factory=list)  # ms, from the first try to connect to the decision
    lost: int = 0  # questions without a decision
    refused: int = 0  # answers that do not let the right token in
    accepted: int = 0  # messages of the attack; at most 64 Ki are counted, and only of those in `ACCEPTED`


# attacks: each is an endless loop in a process of its own


def _note() -> None:
    """Tell the measuring process that the attack has begun, or that one more of its messages was accepted."""
    with contextlib.suppress(BlockingIOError):  # the pipe is full
        os.write(sys.stdout.fileno(), b".")


def _connected(port: int) -> socket.socket | None:
    try:
        return socket.create_connection((HOST, port), timeout=2.0)
    except OSError:
        return None


def spinning(port: int, token: str) -> None:
    """Computes."""
    for _ in itertools.count():
        pass


def churn(port: int, token: str) -> None:
    """Connects and disconnects."""
    while True:
        connection = _connected(port)
        if connection is not None:
            connection.close()


def _kept(port: int, most: int, sent: Callable[[int], bytes]) -> None:
    """Opens 500 connections a second and keeps the last `most`."""
    kept: list[socket.socket] = []
    for number in itertools.count():
        connection = _connected(port)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.sendall(sent(number))
            kept.append(connection)
        if len(kept) > most:
            kept.pop(0).close()
        time.sleep(0.002)


def idle(port: int, token: str) -> None:
    """Sends nothing, or half a head."""
    _kept(port, 500, lambda number: b"GET /stats HT" if number % 2 else b"")


def slow_bodies(port: int, token: str) -> None:
    """Signs in without an end."""
    head = f"POST /login HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Length: 100\r\n\r\n".encode()
    _kept(port, 500, lambda number: head)


def wrong_tokens(port: int, token: str) -> None:
    """Tries tokens."""
    with httpx.Client(base_url=f"http://{HOST}:{port}", trust_env=False) as client:
        for number in itertools.count():
            with contextlib.suppress(httpx.HTTPError):
                client.get("/stats", params={"token": f"wrong-{number}"})


def silent(port: int, token: str) -> None:
    """Opens WebSockets and says nothing."""

    async def hold() -> None:
        kept: list[ClientConnection] = []
        while True:
            with contextlib.suppress(OSError, InvalidHandshake):
                kept.append(await _open(port, token, f"silent-{secrets.token_hex(4)}"))
            kept = [client for client in kept if client.close_code is None]
            await asyncio.sleep(0.01 if len(kept) < 100 else 0.1)

    asyncio.run(hold())


def greedy(port: int, token: str) -> None:
    """Sends observations without a pause."""

    async def flood(number: int, count: int) -> None:
        streams = [f"greedy-{number}-{k}" for k in range(count)]
        while True:
            with contextlib.suppress(OSError, InvalidHandshake, ConnectionClosed):
                async with await _open(port, token, f"greedy-{number}") as client:
                    await client.send(_observe(streams))
                    while not _is_decision(await client.recv()):
                        streams = streams[: max(1, len(streams) // 2)]
                        await client.send(_observe(streams))
                    for _ in range(8):
                        await client.send(_observe(streams))
                    while True:
                        if _is_decision(await client.recv()):
                            _note()
                        await client.send(_observe(streams))

    async def all_of_them() -> None:
        await asyncio.gather(*(flood(number, 4 if number else MAX_ITEMS) for number in range(4)))

    asyncio.run(all_of_them())


def names(port: int, token: str) -> None:
    """Takes a new name for each request, and a new WebSocket for each message."""

    async def post(number: int) -> None:
        head = f"Host: {HOST}:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        reward = {"stream": f"names-{number}", "decision": 1, "reward": 0.0}
        body = json.dumps({"v": 1, "type": "reward", "rewards": [reward]})
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection(HOST, port)
                while True:
                    line = f"POST /online/v1/reward?client={secrets.token_hex(8)} HTTP/1.1\r\n"
                    writer.write(f"{line}{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                    told = await reader.readuntil(b"\r\n\r\n")
                    if told.split(None, 2)[1] == b"200":
                        _note()
                    length = next(row for row in told.lower().split(b"\r\n") if row.startswith(b"content-length:"))
                    await reader.readexactly(int(length.partition(b":")[2]))

    async def socket_of(number: int) -> None:
        while True:
            with contextlib.suppress(OSError, InvalidHandshake, ConnectionClosed):
                async with await _open(port, token, secrets.token_hex(8)) as client:
                    await client.send(_observe([f"names-of-sockets-{number}"]))
                    await client.recv()

    async def all_of_them() -> None:
        await asyncio.gather(*(post(number) for number in range(32)), *(socket_of(number) for number in range(8)))

    asyncio.run(all_of_them())


ATTACKS: dict[str, Callable[[int, str], None]] = {
    "spinning": spinning, "churn": churn, "idle": idle, "wrong tokens": wrong_tokens, "slow bodies": slow_bodies,
    "silent": silent, "greedy": greedy, "names": names,
}  # fmt: skip
ACCEPTED = ("greedy", "names")
"""Attacks that the server has to serve. They note each message that it accepts, the others only that they begin."""
BEGIN_S = 120.0


# the honest client


def _observe(streams: list[str]) -> str:
    observations = [{"stream": stream, "obs": [0.1, 0.0, 0.01, 0.0]} for stream in streams]
    return json.dumps({"v": 1, "type": "observe", "observations": observations})


async def _open(port: int, token: str, client: str) -> ClientConnection:
    headers = {"authorization": f"Bearer {token}"}
    url = f"ws://{HOST}:{port}/online/v1/ws?client={client}"
    return await connect(url, additional_headers=headers, proxy=None, compression=None, open_timeout=20)


def _is_decision(text: str | bytes) -> bool:
    answer = json.loads(text)
    return answer["type"] == "answers" and answer["answers"][0]["type"] == "decision"


async def _decide(client: ClientConnection, seen: Seen, seconds: float) -> None:
    """Ask 60 times a second over a connection that was there before the attack."""
    due = time.perf_counter()
    end = due + seconds
    while due < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        start = time.perf_counter()
        await client.send(_observe(["honest"]))
        seen.lost += not _is_decision(await client.recv())
        seen.decisions.append(1000 * (time.perf_counter() - start))
        due = max(due + 1 / RATE, start)


async def _post(http: httpx.AsyncClient, seen: Seen, seconds: float) -> None:
    """Ask over HTTP, on one connection."""
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        answer = await http.post("/online/v1/observe?client=poster", content=_observe(["posted"]))
        seen.refused += answer.status_code in (401, 403, 429, 503)
        seen.lost += answer.status_code != 200 or not _is_decision(answer.text)
        seen.posts.append(1000 * (time.perf_counter() - start))
        await asyncio.sleep(1 / HTTP_RATE)


async def _join(port: int, token: str, seen: Seen, seconds: float) -> None:
    """Join as a new client, once a second; a try that fails is repeated, as clients do."""
    end = time.perf_counter() + seconds
    for number in itertools.count():
        start = time.perf_counter()
        if start >= end:
            return
        for _ in range(JOIN_TRIES):
            with contextlib.suppress(OSError, InvalidHandshake, ConnectionClosed):
                async with await _open(port, token, f"new-{number}") as client:
                    await client.send(_observe([f"new-{number % 4}"]))
                    seen.lost += not _is_decision(await client.recv())
                    seen.joined.append(1000 * (time.perf_counter() - start))
                    break
            await asyncio.sleep(PAUSE_S)
        else:
            seen.refused += 1
        await asyncio.sleep(JOIN_EVERY)


def _alone(port: int, token: str, seconds: float) -> list[float]:
    """The ms of decisions over one kept HTTP connection, while no other client asks."""
    kept = http.client.HTTPConnection(HOST, port, timeout=60)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    took, end = list[float](), time.perf_counter() + seconds
    with contextlib.closing(kept):
        while time.perf_counter() < end:
            start = time.perf_counter()
            kept.request("POST", "/online/v1/observe?client=alone", _observe(["alone"]), headers)
            answer = kept.getresponse().read()
            took.append(1000 * (time.perf_counter() - start))
            if not _is_decision(answer):
                raise RuntimeError(answer.decode())
            time.sleep(max(0.0, start + 1 / ALONE_RATE - time.perf_counter()))
    return took


async def _beside(port: int, token: str, attack: str | None, seconds: float) -> Seen:
    seen = Seen()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    address = f"http://{HOST}:{port}"
    async with (
        await _open(port, token, "honest") as client,
        httpx.AsyncClient(base_url=address, headers=headers, trust_env=False, timeout=60) as http,
    ):
        await _decide(client, Seen(), 0.2)
        async with _attacking(attack, port, token, seen):
            await asyncio.gather(
                _decide(client, seen, seconds), _post(http, seen, seconds), _join(port, token, seen, seconds)
            )
    return seen


@contextlib.asynccontextmanager
async def _attacking(attack: str | None, port: int, token: str, seen: Seen) -> AsyncIterator[None]:
    """Runs an attack, which has begun when the block is entered, in a process of its own."""
    if attack is None:
        yield
        return
    command = [sys.executable, "-m", "benchmarks.assault", "--attack", attack, "--port", str(port)]
    environment = {**os.environ, "ASSAULT_TOKEN": token}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as process:
        noted = process.stdout
        assert noted is not None, "it is a pipe"
        try:
            can_read, _, _ = await asyncio.to_thread(select.select, [noted], [], [], BEGIN_S)
            if not can_read or not os.read(noted.fileno(), 1):
                raise RuntimeError(f"{attack}: the server accepted nothing of it within {BEGIN_S:g} s, or it has ended")
            yield
            if process.poll() is not None:
                raise RuntimeError(f"{attack}: the attack ended with status {process.returncode}")
        finally:
            process.kill()
            seen.accepted = len(noted.read())


@contextlib.contextmanager
def _served(token: str) -> Iterator[int]:
    """Yields the port of a continuous run of Cartpole, without training."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as name:
        port = free_port()
        given = ["config=continuous", "task=Cartpole", "simulator=external", f"streamPort={port}", f"runsDir={name}"]
        given += ["online.training_interval=3600", "online.spare_trainer=false"]
        log = Path(name) / "log.txt"
        with (
            log.open("w") as written,
            subprocess.Popen(
                [sys.executable, str(ROOT / "train.py"), *given],
                stdout=written,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LIVEGYM_STREAM_TOKEN": token},
            ) as served,
        ):
            try:
                while "dashboard at" not in log.read_text():
                    if served.poll() is not None:
                        raise RuntimeError(log.read_text())
                    time.sleep(0.1)
                yield port
            finally:
                served.send_signal(signal.SIGINT)


def _figures(seen: Seen) -> dict[str, float]:
    """The figures of one measurement."""
    ws, posts = sorted(seen.decisions), sorted(seen.posts)
    return {
        "decisions": len(ws), "p50": statistics.median(ws), "p99": _p99(ws), "max": ws[-1],
        "post_p50": statistics.median(posts), "post_p99": _p99(posts),
        "joined": len(seen.joined), "join_max": max(seen.joined, default=0.0),
        "lost": seen.lost, "refused": seen.refused, "accepted": seen.accepted,
    }  # fmt: skip


def _p99(ordered: list[float]) -> float:
    return ordered[int(0.99 * (len(ordered) - 1))]


def _over(rounds: list[dict[str, dict[str, float]]], name: str, key: str) -> Spread:
    """The spread of a figure over the rounds; `times`: p99 to that beside `spinning` in the same round."""
    of = [each[name]["p99"] / each["spinning"]["p99"] if key == "times" else each[name][key] for each in rounds]
    return Spread(statistics.median(of), min(of), max(of))


def _row(rounds: list[dict[str, dict[str, float]]], name: str) -> list[str]:
    def told(key: str) -> str:
        spread = _over(rounds, name, key)
        return f"{spread.median:.1f} [{spread.low:.1f} .. {spread.high:.1f}]"

    def total(key: str) -> int:
        return int(sum(each[name][key] for each in rounds))

    return [
        name, str(total("decisions")), told("p50"), told("p99"), f"{_over(rounds, name, 'max').high:.0f}",
        "" if name in ("nothing", "spinning") else told("times"), told("post_p50"), told("post_p99"),
        f"{total('joined')} in {_over(rounds, name, 'join_max').high:.0f}",
        f"{total('lost')} lost, {total('refused')} refused",
    ]  # fmt: skip


def missed(rounds: list[dict[str, dict[str, float]]], alone: list[float]) -> list[str]:
    """The budgets that are missed, in words. `alone`: the median ms over HTTP of each round."""
    found = []
    for name in rounds[0]:
        for key in ("lost", "refused"):
            count = int(sum(each[name][key] for each in rounds))
            found += [f"beside {name}: {count} {key}; allowed: none"] if count else []
        if name in ACCEPTED and not all(each[name]["accepted"] for each in rounds):
            found.append(f"beside {name}: the server accepted none of its messages in a round, so it was no attack")
        times = _over(rounds, name, "times").median
        if name != "nothing" and times > MOST_TIMES:
            found.append(f"beside {name}: p99 is {times:.1f} times that beside spinning; allowed: {MOST_TIMES:g}")
    post = statistics.median(alone)
    if post > MOST_POST_MS:
        found.append(f"HTTP alone: p50 is {post:.1f} ms; allowed: {MOST_POST_MS:g}")
    return found


def _round(port: int, token: str, attacks: list[str], seconds: float, quiet: bool) -> dict[str, dict[str, float]]:
    """Measures once beside each of the attacks, in the order given."""
    found = {}
    for attack in attacks:
        if quiet:
            wait_for_quiet()
        found[attack] = _figures(asyncio.run(_beside(port, token, None if attack == "nothing" else attack, seconds)))
    return found


def main() -> int:
    """Prints the table; with --attack, is the attacker. Returns 1 if a budget is missed; a toy run has no latencies."""
    parser = arguments(__doc__.splitlines()[0])
    some = "measure beside these only; always beside nothing and beside `spinning`, to which the others are compared"
    parser.add_argument("--only", nargs="+", choices=ATTACKS, metavar="ATTACK", help=some)
    parser.add_argument("--attack", choices=ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        os.set_blocking(sys.stdout.fileno(), False)
        if options.attack not in ACCEPTED:
            _note()
        ATTACKS[options.attack](options.port, os.environ["ASSAULT_TOKEN"])
    begin(options)
    token, seconds = secrets.token_urlsafe(12), SECONDS[options.effort]
    attacks = ["nothing", *(name for name in ATTACKS if name in ("spinning", *(options.only or ATTACKS)))]
    rounds, alone = [], []
    with _served(token) as port:
        for number in range(rounds_of(options)):
            turned = number % len(attacks)
            order = attacks[turned:] + attacks[:turned]
            if not options.force:
                wait_for_quiet()
            alone.append(statistics.median(_alone(port, token, seconds)))
            rounds.append(_round(port, token, order, seconds, quiet=not options.force))
            p99s = ", ".join(f"{name} {found['p99']:.1f}" for name, found in rounds[-1].items())
            print(f"round {number + 1}, p99 in ms: {p99s}", file=sys.stderr)
    head = [
        "beside",
        "decisions",
        "p50 ms",
        "p99 ms",
        "max",
        "p99 to spinning",
        "POST p50",
        "POST p99",
        "joined, ms",
        "",
    ]
    report(options, [head, *(_row(rounds, name) for name in attacks)], {"rounds": rounds, "alone": alone})
    print(f"HTTP alone: p50 {statistics.median(alone):.1f} ms [{min(alone):.1f} .. {max(alone):.1f}]")
    found = missed(rounds, alone)
    if options.effort == "toy":
        found = [text for text in found if text.endswith("none")]
    print("\n".join(f"missed: {text}" for text in found) or "all budgets are met")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())

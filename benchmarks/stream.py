"""The cost of watching: bytes per client, and processor time. `benchmarks.neighbours` has the cost to a training run.

The server is `config=test_stream` with 4 environments in real time. The clients are programs in this file, which speak
the protocol of a browser and do nothing else, so that their own cost is not counted:

- `page`: the two WebSockets of an open page, for the 3D scene and the state, with the compression of browsers;
- `mjpeg`: the peer, `/stream` of the same server, 640x480, quality 80, which tools and old browsers read;
- `unwatched`: the server without a client, whose cost is that of playing.

Bytes are counted on the wire. A CPU draws fewer than 30 pictures per second, so the result of MJPEG is also scaled to
30.

    python -m benchmarks.stream --quick
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import viser
import websockets.asyncio.client

from benchmarks.harness import (
    ROOT,
    Side,
    arguments,
    begin,
    effort,
    free_port,
    measure,
    report,
    rounds_of,
    some,
    summary,
)

KEPT = ROOT / "docs" / "policies" / "BlindGrasping.pth"
PLAYED = {
    "Cartpole": ["task=Cartpole", "agent=random"],
    "Ant": ["task=Ant", "agent=random"],
    "BlindGrasping": [f"checkpoint={KEPT}"],
}
CLIENTS = ("unwatched", "page", "mjpeg")
METRICS = {"cpu": "cores in use", "kB_s": "kB/s", "updates_s": "updates/s", "real_time": "real time"}


@dataclass(frozen=True)
class Plan:
    """The size of a measurement."""

    seconds: float  # of serving
    settle: float = 3.0  # s until a client has received the initial messages


PLANS = {"full": Plan(30.0), "quick": Plan(8.0), "toy": Plan(1.0, 0.5)}
MJPEG_FPS = 30.0
CAMERA = {
    "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (3.0, 3.0, 3.0), "fov": 0.8,
    "near": 0.01, "far": 1000.0, "image_height": 480, "image_width": 640, "look_at": (0.0, 0.0, 0.0),
    "up_direction": (0.0, 0.0, 1.0),
}  # fmt: skip


class Counting(websockets.asyncio.client.ClientConnection):
    """A WebSocket client that counts the bytes it receives on the wire."""

    received = 0

    def data_received(self, data: bytes) -> None:
        """Counts the received bytes, and processes them as usual."""
        Counting.received += len(data)
        super().data_received(data)


class Server:
    """A process that runs `config=test_stream`."""

    def __init__(self, played: Sequence[str], folder: Path) -> None:
        """Starts the server on a free port; returns when it plays."""
        self.port = free_port()
        command = [sys.executable, str(ROOT / "train.py"), "config=test_stream", f"streamPort={self.port}"]
        self.process = subprocess.Popen(
            [*command, "testGamesNum=0", *played], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while self.stats().get("phase") != "playing":
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError("the server did not start to play within 60 s")
            time.sleep(0.2)

    def stats(self) -> dict[str, Any]:
        """The answer of `/stats`; empty if the server does not respond."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/stats") as answer:
            return json.load(answer)
        return {}

    def cpu(self) -> float:
        """Processor time so far of all its threads, in s."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.wait()


async def read_page(port: int, seconds: float, settle: float, began: Callable[[], None]) -> dict[str, float]:
    """Bytes per second of an open page; `began` is called when the initial messages have arrived.

    Raises RuntimeError if the server closes the connection.
    """
    connect = functools.partial(websockets.asyncio.client.connect, max_size=None, create_connection=Counting)
    server = f"ws://127.0.0.1:{port}"
    async with (
        connect(f"{server}/ws?page=bench") as news,
        connect(f"{server}/scene/ws?page=bench", subprotocols=[f"viser-v{viser.__version__}"]) as frames,
    ):
        await frames.send(_as_viser(CAMERA))
        readers = [asyncio.create_task(_drain(socket)) for socket in (news, frames)]
        await asyncio.sleep(settle)
        began()
        Counting.received = 0
        start = time.perf_counter()
        await asyncio.wait(readers, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        taken = time.perf_counter() - start
        if any(reader.done() for reader in readers):
            raise RuntimeError("the server closed the page's connection")
        for reader in readers:
            reader.cancel()
        return {"kB_s": Counting.received / taken / 1000}


def _as_viser(message: dict[str, Any]) -> bytes:
    """A message in the format of viser's client."""
    return msgspec.msgpack.encode(message)


async def _drain(socket: websockets.asyncio.client.ClientConnection) -> None:
    async for _ in socket:
        pass


def read_mjpeg(port: int, seconds: float, settle: float, began: Callable[[], None]) -> dict[str, float]:
    """Bytes and pictures per second of `/stream`, and bytes per picture; `began` as in `read_page`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stream?fps=30") as stream:
        deadline = time.perf_counter() + settle
        while time.perf_counter() < deadline:
            stream.read1()
        began()
        total = 0
        pictures = 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            data = stream.read1()
            total, pictures = total + len(data), pictures + data.count(b"Content-Type")
        taken = time.perf_counter() - start
    return {"kB_s": total / taken / 1000, "pictures_s": pictures / taken, "kB_picture": total / max(1, pictures) / 1000}


def serve(client: str, task: str, plan: Plan) -> dict[str, float]:
    """The cost of one server with one kind of client."""
    with tempfile.TemporaryDirectory(prefix="livegym-bench-") as folder, Server(PLAYED[task], Path(folder)) as server:
        time.sleep(plan.settle)
        found: dict[str, float] = {"kB_s": 0.0}
        before: list[tuple[float, float]] = []

        def began() -> None:
            before.append((server.cpu(), time.perf_counter()))

        if client == "page":
            found = asyncio.run(read_page(server.port, plan.seconds, plan.settle, began))
        elif client == "mjpeg":
            found = read_mjpeg(server.port, plan.seconds, plan.settle, began)
        else:
            began()
            time.sleep(plan.seconds)
        (cpu, start), stats = before[0], server.stats()
        share = (server.cpu() - cpu) / (time.perf_counter() - start)
        return {"cpu": share, "updates_s": stats["fps"], "real_time": stats["real_time"], **found}


def main() -> None:
    """Prints the table; with --side, measures one side and prints its JSON."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--task", default="Cartpole", choices=PLAYED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side is not None:
        print(json.dumps(_side(options.side, options.task, PLANS[options.effort])))
        return
    begin(options)
    table: list[list[str]] = [["", "unwatched", "page", "mjpeg"]]
    figures: dict[str, float] = {}
    for task in some(options, list(PLAYED)):
        _served(options, task, table, figures)
    report(options, table, figures)


def _side(side: str, task: str, plan: Plan) -> dict[str, float]:
    return serve(side, task, plan)


def _sides(options: argparse.Namespace, names: Sequence[str], extra: Sequence[str] = ()) -> list[dict]:
    sides = {name: Side("benchmarks.stream", [*extra, *effort(options)]) for name in names}
    return measure(sides, rounds_of(options), not options.force)


def _served(options: argparse.Namespace, task: str, table: list[list[str]], figures: dict[str, float]) -> None:
    rounds = _sides(options, CLIENTS, ["--task", task])
    for metric, meaning in METRICS.items():
        found = summary(rounds, metric)
        table.append([f"{task}: {meaning}", *(str(found[client]) for client in CLIENTS)])
        figures |= {f"{task}_{metric}_{client}": found[client].median for client in CLIENTS}
    pictures = summary([{"mjpeg": r["mjpeg"]} for r in rounds], "kB_picture")["mjpeg"].median
    at_30 = MJPEG_FPS * pictures
    ratio = at_30 / figures[f"{task}_kB_s_page"]
    table.append([f"{task}: MJPEG at 30/s, kB/s; the page needs 1/x of it", "", f"1/{ratio:.0f}", f"{at_30:,.0f}"])
    figures[f"{task}_mjpeg_over_page"] = ratio


if __name__ == "__main__":
    main()

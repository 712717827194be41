"""A server of weights on loopback, a relay that delays, stalls and cuts, and a server that lies."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import socket
import threading
import time
from collections import deque

from websockets.sync.server import serve

from livegym.web.access import Access
from livegym.web.gateway import Gateway
from livegym.web.weights import WeightRoutes
from livegym.weights.address import Address
from livegym.weights.address_source import AddressSource
from livegym.weights.link import Link
from livegym.weights.message import encode
from livegym.weights.offer import Offer
from tests.patience import until
from tests.test_live import TRAIN, candidate

RUN, RUN_ID = "Counting_train_20260102_120008", "a1b2"
CONFIG = {"task": {"name": "Counting"}, "train": dataclasses.asdict(TRAIN)}


def version(number: int, **changes):
    """A version whose mean action is its number."""
    facts = {"run_id": RUN_ID, "run_name": RUN, "file": None, "config": CONFIG, "made": 100.0 + number}
    return candidate(number, **{"bias": float(number), **facts, **changes})


def bias_of(found) -> float:
    return float(found.model["a2c_network.mu.bias"])


@contextlib.contextmanager
def offering(*numbers, token=None, spectators=None, read_only=False, runs_dir=None, **more):
    """(offer, gateway): a server that offers these versions."""
    offer = Offer(runs_dir)
    gateway = Gateway(Access(token, read_only, None, spectators), "127.0.0.1", 0)
    gateway.app.include_router(WeightRoutes(offer, gateway, **more).router)
    gateway.start()
    try:
        for number in numbers:
            offer.publish(version(number))
        yield offer, gateway
    finally:
        gateway.stop()


def link_of(port: int, token: str | None = None, path: str = "") -> Link:
    return Link(Address.parse(f"http://127.0.0.1:{port}{path}"), token)


@contextlib.contextmanager
def following(link: Link, first, runs_dir, interval: float = 0.05):
    source = AddressSource(link, first, runs_dir, interval)
    try:
        yield source
    finally:
        source.close()


def awaited(source: AddressSource, acting, number: int):
    """Version `number`, once the source offers it; whatever it offers before is newer than what acted."""
    seen = [acting]

    def comes() -> bool:
        found = source.poll(seen[-1])
        if found is not None:
            assert found.version > seen[-1].version
            assert bias_of(found) == found.version
            seen.append(found)
        return seen[-1].version == number

    until(comes, lambda: f"offered: {[found.version for found in seen]}")
    return seen[-1]


class Relay:
    """Passes bytes on after a delay in each direction; it can stall, and cut all of its connections."""

    def __init__(self, target: int, delay: float = 0.01) -> None:
        self.target, self._delay = target, delay
        self._moving = threading.Event()
        self._moving.set()
        self._open: list[socket.socket] = []
        self._refuses = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stall(self) -> None:
        """Pass on nothing, until `go_on`; the connections stay open."""
        self._moving.clear()

    def go_on(self) -> None:
        self._moving.set()
        self._refuses = False

    def cut(self, and_refuse: bool = False) -> None:
        """Close all connections; with `and_refuse`, also each new one until `go_on`."""
        self._refuses = and_refuse
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        self._moving.set()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._refuses:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self.target))
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += [near, far]
                for one, other in ((near, far), (far, near)):
                    pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    threading.Thread(target=self._read, args=(one, pieces), daemon=True).start()
                    threading.Thread(target=self._write, args=(other, pieces), daemon=True).start()

    def _read(self, end: socket.socket, pieces: queue.SimpleQueue) -> None:
        data = b"?"
        while data:
            try:
                data = end.recv(65536)
            except OSError:
                data = b""
            pieces.put((time.monotonic() + self._delay, data))

    def _write(self, end: socket.socket, pieces: queue.SimpleQueue) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                self._moving.wait()
                if not data:
                    end.shutdown(socket.SHUT_WR)
                    return
                end.sendall(data)


class Liar:
    """A server whose announcements and answers a test chooses. `answers[version]` is sent for a request as it is."""

    def __init__(self) -> None:
        self.answers: dict[int, bytes] = {}
        self.asked: list[int] = []
        self._ended = threading.Event()
        self._said: deque[str] = deque()
        self._server = serve(self._news, "127.0.0.1", 0, process_request=self._answer, compression=None)
        self.port = self._server.socket.getsockname()[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def announce(self, number: int, size: int = 1000, run_id: str = RUN_ID, run: str = RUN) -> None:
        self.say(json.dumps({"v": 1, "run": run, "run_id": run_id, "version": number, "bytes": size}))

    def say(self, text: str) -> None:
        self._said.append(text)

    def offers(self, number: int, body: bytes | None = None) -> None:
        """Announces a version, and has its bytes."""
        body = encode(version(number)) if body is None else body
        self.answers[number] = body
        self.announce(number, len(body))

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()

    def _answer(self, connection, request):
        if request.path.endswith("/ws"):
            return None
        number = int(request.path.rpartition("/")[2])
        self.asked.append(number)
        body = self.answers[number]
        answer = connection.respond(200, "")
        answer.body = body
        del answer.headers["Content-Length"]
        answer.headers["Content-Length"] = str(len(body))
        return answer

    def _news(self, connection) -> None:
        while not self._ended.is_set():
            while self._said:
                connection.send(self._said.popleft())
            with contextlib.suppress(TimeoutError):
                connection.recv(0.01)

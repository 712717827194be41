"""A stand-in for the decision loop, and servers on loopback that it answers for."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field

import httpx
import numpy as np
import pytest
import websockets.asyncio.client

from livegym.online.experience import Decision, Verdict
from livegym.online.stream_requests import Accepted, Observed, Refusal
from livegym.rl.spec import PolicySpec
from livegym.serve.inbox import Inbox
from livegym.serve.messages import Description
from livegym.serve.server import PREFIX, OnlineApi
from livegym.tasks.base import Box
from livegym.tasks.stream_task import RawField
from livegym.web.access import Access
from livegym.web.gateway import Gateway
from tests.patience import PATIENCE_S

SPEC = PolicySpec("Cartpole", (("cart", 2), ("pole", 2)), (), Box(1), 1 / 60)


GRID = {"minerals": RawField((2, 3), 0.0, 1.0, "share of a chunk"), "energy": RawField((), 0.0, 200.0, "units")}


class Unbounded(Decision):
    """One that is done as it is: the stand-in's actions are sums, which tell the observations apart."""

    @property
    def action(self) -> np.ndarray:
        return self.executed


def decision_of(stream: str, number: int, action: float, kind: type[Decision] = Decision, **more) -> Decision:
    """What version 7 decides with a gate that sends it."""
    done = np.array([action])
    values = {"verdict": Verdict.SEND, "expected": action, "confidence": 0.5, "version": 7}
    return kind(**{"stream": stream, "decision": number, "proposed": done, "executed": done, **values, **more})


@dataclass
class Stream:
    """What the stand-in remembers of a stream."""

    sequence: int = -1
    answer: Decision | None = None
    open: list[int] = field(default_factory=list)


class FakeLoop:
    """Decides the sum of an observation, doubled; keeps each reward with its decision. A thread, like the real one."""

    def __init__(self, inbox: Inbox, max_streams: int = 100) -> None:
        self.inbox, self.max_streams = inbox, max_streams
        self.streams: dict[str, Stream] = {}
        self.decided: dict[int, float] = {}  # decision -> its action
        self.rewards: dict[int, float] = {}  # decision -> its reward
        self.ended_episodes: list[tuple[bool, bool]] = []  # done and truncated of the last observations of episodes
        self.first: list[tuple[str, float]] = []  # stream and first number of observations that begin an episode
        self.sources: list[str | None] = []  # of observations
        self.batches: list[int] = []  # requests that came together
        self.go = threading.Event()  # cleared: the thread thinks
        self.go.set()
        self.thinking = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self.go.set()
        self._thread.join(PATIENCE_S)
        self.inbox.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            for asked in self.inbox.take(0.05):
                self.thinking.set()
                self.go.wait(PATIENCE_S)
                self.batches.append(len(asked.requests))
                asked.answer([self._answer(request) for request in asked.requests])

    def _answer(self, request):
        try:
            return self._decide(request) if isinstance(request, Observed) else self._credit(request)
        except Refusal as refusal:
            return refusal

    def _decide(self, observed: Observed) -> Decision | None:
        if observed.stream not in self.streams and len(self.streams) >= self.max_streams:
            raise Refusal("too_many_streams", f"{self.max_streams} streams are served")
        row = observed.obs if observed.obs is not None else observed.raw
        self.sources.append(observed.source)
        self.first += [(observed.stream, float(row[0]))] if observed.first else []
        stream = self.streams.setdefault(observed.stream, Stream())
        if observed.sequence is not None and observed.sequence <= stream.sequence:
            if observed.sequence == stream.sequence:
                return stream.answer
            raise Refusal("out_of_order", f"sequence {observed.sequence} after {stream.sequence}")
        previous = None
        if observed.reward is not None and stream.answer is not None:
            previous = self._join(stream, stream.answer.decision, observed.reward)
        stream.sequence = stream.sequence if observed.sequence is None else observed.sequence
        self.ended_episodes += [(observed.done, observed.truncated)] if observed.ends_episode else []
        stream.answer = None if observed.ends_episode else self._decision(observed, previous)
        stream.open += [] if observed.ends_episode else [stream.answer.decision]
        return stream.answer

    def _decision(self, observed: Observed, previous: str | None) -> Decision:
        row = observed.obs if observed.obs is not None else observed.raw
        number, action = len(self.decided) + 1, 2 * float(np.sum(row, dtype=np.float64))
        self.decided[number] = action
        parts = {"double": action, "count": float(row.size)}
        return decision_of(observed.stream, number, action, Unbounded, components=parts, previous=previous)

    def _join(self, stream: Stream, decision: int, reward: float) -> str | None:
        if decision in self.rewards:
            return f"decision {decision} has its reward already"
        stream.open.remove(decision)
        self.rewards[decision] = reward
        return None

    def _credit(self, given) -> Accepted:
        stream = self.streams.get(given.stream, Stream())
        if given.decision in self.rewards:
            raise Refusal("duplicate", f"decision {given.decision} has its reward already")
        if given.decision not in stream.open:
            raise Refusal("unknown", f"stream {given.stream!r} has made no decision {given.decision}")
        self._join(stream, given.decision, given.reward)
        return Accepted(given.stream, given.decision)


class Choosing(FakeLoop):
    """One whose decisions are whole numbers from 0 on: those of a Discrete."""

    choices = 3

    def _decision(self, observed, previous):
        made = super()._decision(observed, previous)
        return decision_of(observed.stream, made.decision, len(self.decided) % self.choices, previous=previous)


@dataclass
class Served:
    """A server and what is behind it."""

    gateway: Gateway
    api: OnlineApi
    inbox: Inbox
    loop: FakeLoop

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"

    def socket(self, query="", **settings):
        """`async with served.socket() as ws`."""
        url = f"ws://127.0.0.1:{self.gateway.port}{PREFIX}/ws{query}"
        return websockets.asyncio.client.connect(url, proxy=None, **settings)

    def http(self, **settings):
        return httpx.Client(base_url=f"{self.address}{PREFIX}", trust_env=False, **settings)


@contextlib.contextmanager
def serving(
    raw=False, token=None, read_only=False, port=0, capacity=4096, max_streams=100, loop=None, spectators=None,
    took=lambda seconds: None, stream_rate=None, not_learned=None, kind=FakeLoop, spec=SPEC, page=None,
):  # fmt: skip
    """A server, which is closed after the block; `loop`: what decided behind an earlier one."""
    access, inbox = Access(token, read_only, None, spectators), Inbox(capacity)
    gateway = Gateway(access, "127.0.0.1", port)
    api = OnlineApi(
        inbox, Description(spec, GRID if raw else {}), access, took=took, stream_rate=stream_rate,
        not_learned=not_learned, page=page,
    )  # fmt: skip
    api.mount(gateway)
    mind = kind(inbox, max_streams)
    if loop is not None:
        mind.streams, mind.decided, mind.rewards = loop.streams, loop.decided, loop.rewards
    gateway.start()
    try:
        yield Served(gateway, api, inbox, mind)
    finally:
        mind.stop()
        gateway.stop()


@pytest.fixture
def serve():
    """serve(raw=True): a server for the test."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: stack.enter_context(serving(**settings))

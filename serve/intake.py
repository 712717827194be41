"""The part that WebSocket and HTTP share: accepts messages, and returns their answers.

    sender = Sender("connection 1", ("192.168.7.7", "connection 1"), "192.168.7.7")
    waiting = await intake.put("client a", text, reader.read, sender)    # raises MessageRefused
    answers = await intake.settle(waiting)                 # in the form to send; raises MessageRefused

A message is checked, its streams are leased to the client, and its requests go into the inbox; if one of these fails,
nothing is changed. Few messages are checked in one turn of the event loop (`web/turnstile.py`). Once the answers are
known, the streams of which nothing was accepted are free again: otherwise invented names, and those of an earlier run,
would use up the streams that are allowed. All of it runs on the server's event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from livegym.online.stream_requests import Answer, Observed, Refusal, Request
from livegym.serve.inbox import Busy, Closed, Inbox
from livegym.serve.leases import HERE, StreamLeases
from livegym.serve.messages import MAX_ITEMS
from livegym.serve.protocol import Message, MessageRefused, answers_of
from livegym.tasks.stream_task import ActionUnits
from livegym.utils.fair_queue import Share
from livegym.web.rates import TokenBuckets
from livegym.web.turnstile import Turnstile

log = logging.getLogger(__name__)

RETRY_S = 1.0
BYTES = 4 * 1024
"""Size of the messages that are checked in one turn of the event loop, or one that is larger: about 0.5 ms."""
OVERHEAD = 512
"""Cost of checking any message besides its size, in bytes."""
BURST_S = 2.0
"""Seconds at the full rate that a stream may save up, if its rate is limited."""
UNCHANGED = "Nothing was accepted; resend it in {:.3g} s."
AGAIN = "Resend it with the same sequence: if a decision was made, you get the same one."


class TooFast(MessageRefused):
    """The refusal of a stream that asks faster than it may. To clients, it is a server that is busy."""

    def __init__(self, stream: str, rate: float, wait: float) -> None:
        text = f"stream {stream!r} sends more than {rate:g} requests per second (online.stream_rate). {UNCHANGED}"
        super().__init__("busy", text.format(wait), wait, field="stream", given=stream)

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return 429


@dataclass(frozen=True)
class Sender:
    """Where a message came from. `name`: one connection, or all HTTP requests of one client or address."""

    name: str
    share: Share  # of the server's time, which it uses
    address: str = HERE


@dataclass(frozen=True)
class Waiting:
    """A message that has been put into the inbox."""

    message: Message
    owner: str | None  # of its streams
    address: str  # of the client
    future: Future[list[Answer]]  # which the decision loop answers
    told: asyncio.Future[None]  # done once the event loop knows that `future` is
    arrived: float  # s, by time.perf_counter


class _Returns:
    """Wakes the event loop for answers: once for all that come until it has woken up, because each time costs both
    threads more than an answer does.
    """

    def __init__(self, received: Callable[[Waiting, list[str]], None]) -> None:
        """`received`: is called on the event loop with a message that is answered, and its new streams."""
        self._received = received
        self._answered: deque[tuple[Waiting, list[str]]] = deque()
        self._called = False

    def note(self, waiting: Waiting, new: list[str], _: Future[list[Answer]]) -> None:
        """Note that a message is answered. Any thread may call it."""
        self._answered.append((waiting, new))
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the event loop is closed, so no client waits any more
                waiting.told.get_loop().call_soon_threadsafe(self._receive)

    def _receive(self) -> None:
        self._called = False  # first: what is noted from here on calls again
        while self._answered:
            self._received(*self._answered.popleft())


class Intake:
    """Accepts the messages of all clients."""

    def __init__(
        self,
        inbox: Inbox,
        leases: StreamLeases,
        took: Callable[[float], None] = lambda seconds: None,
        stream_rate: float | None = None,
        units: ActionUnits | None = None,
    ) -> None:
        """`took`: is given the s from the arrival of observations to the moment when their answer had been sent.

        `stream_rate`: requests per second that a stream may send; None: no limit. `units`: how clients number actions.
        """
        self._rate = stream_rate
        self._asked = TokenBuckets(stream_rate, max(BURST_S * stream_rate, MAX_ITEMS)) if stream_rate else None
        self._inbox, self._leases = inbox, leases
        self._took, self._units = took, units
        self._turnstile = Turnstile(BYTES)
        self._returns = _Returns(self._tell)
        self.messages = 0
        self.refused = 0  # messages and requests

    async def put(
        self,
        owner: str | None,
        text: str | bytes | None,
        read: Callable[[Any], Message],
        sender: Sender,
        arrived: float | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> Waiting:
        """Check a message by `read` and put it into the inbox. Raises MessageRefused; nothing has changed then.

        `arrived`: s, by time.perf_counter, when it was read from its connection; None: now. `check()`: raises
        MessageRefused if a message that is valid is not accepted now; nothing is awaited between it and the return.
        """
        arrived = time.perf_counter() if arrived is None else arrived
        await self._turnstile.enter(sender.share, OVERHEAD + len(text or ""))
        self.messages += 1
        message = None
        try:
            message = read(text)
            self._leases.check(owner, message.streams, sender.address)
            check()
            self._check_rate(message)
            asked = self._ask([_from(sender.name, request) for request in message.requests], sender.share)
        except MessageRefused as refused:
            if message is not None:
                refused.about(message.id)
            self.refused += refused.kind not in ("busy", "closing")
            raise
        told = asyncio.get_running_loop().create_future()
        waiting = Waiting(message, owner, sender.address, asked, told, arrived)
        new = self._leases.take(owner, message.streams, sender.address)
        asked.add_done_callback(partial(self._returns.note, waiting, new))
        return waiting

    def _tell(self, waiting: Waiting, new: list[str]) -> None:
        """Free those of the `new` streams of a message of which nothing was accepted, and tell who waits for it."""
        answers = [] if waiting.future.exception() else waiting.future.result()
        pairs = zip(waiting.message.requests, answers, strict=False)  # no answers: the message failed
        used = {request.stream for request, answer in pairs if not isinstance(answer, Refusal)}
        self._leases.answered(waiting.owner, new, used, waiting.address)
        if not waiting.told.done():  # otherwise its client has left
            waiting.told.set_result(None)

    def _check_rate(self, message: Message) -> None:
        """Count the requests of each stream. Raises TooFast, and counts none, if one of the streams is too fast."""
        if self._asked is None or self._rate is None:
            return
        counts = Counter(request.stream for request in message.requests)
        for stream, count in counts.items():
            wait = self._asked.of(stream).wait(count)
            if wait > 0:
                raise TooFast(stream, self._rate, wait)
        for stream, count in counts.items():
            self._asked.of(stream).take(count)

    def _ask(self, requests: list[Request], share: Share) -> Future[list[Answer]]:
        try:
            return self._inbox.ask(requests, share)
        except Busy as error:
            text = f"The server is busy: {error}. {UNCHANGED.format(RETRY_S)}"
            raise MessageRefused("busy", text, RETRY_S) from None
        except Closed:
            raise _closing() from None

    async def settle(self, waiting: Waiting, timeout: float | None = None) -> list[dict[str, Any]]:
        """Await the answers, in the form to send, for at most `timeout` s. Raises MessageRefused."""
        made = await _answers_to(waiting, timeout)
        answers = answers_of(waiting.message.requests, made, self._units)
        self.refused += sum(answer["type"] == "error" for answer in answers)
        return answers

    def sent(self, waiting: Waiting) -> None:
        """Record the latency of a message whose answer has just been sent."""
        if any(isinstance(request, Observed) for request in waiting.message.requests):
            self._took(time.perf_counter() - waiting.arrived)


def _from(source: str, request: Request) -> Request:
    return replace(request, source=source) if isinstance(request, Observed) else request


async def _answers_to(waiting: Waiting, timeout: float | None = None) -> list[Answer]:
    """Await the answers of the decision loop, which makes them even if this task is cancelled.

    Raises:
        MessageRefused: the requests failed, or were not answered within `timeout` s.
    """
    try:
        async with asyncio.timeout(timeout):
            await waiting.told
    except TimeoutError:
        refused = MessageRefused("busy", f"No answer within {timeout:g} s. {AGAIN}", retry_after=1.0)
        raise refused.about(waiting.message.id) from None
    error = waiting.future.exception()
    if isinstance(error, Closed):
        raise _closing().about(waiting.message.id)
    if error is not None:
        log.error("a message was not answered", exc_info=error)
        refused = MessageRefused("failed", f"The server failed to decide; its log has the reason. {AGAIN}")
        raise refused.about(waiting.message.id)
    return waiting.future.result()


def _closing() -> MessageRefused:
    """Return the refusal of a server that is stopping."""
    return MessageRefused("closing", f"This server is stopping. Reconnect when it is back. {AGAIN}", retry_after=5.0)

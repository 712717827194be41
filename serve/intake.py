"""The part that WebSocket and HTTP share: accepts messages, and returns their answers.

    waiting = intake.put("client a", text, reader.read)    # raises MessageRefused
    answers = await intake.settle(waiting)                 # in the form to send; raises MessageRefused

A message is checked, its streams are leased to the client, and its requests go into the inbox; if one of these fails,
nothing is changed. All of it runs on the server's event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from livegym.online.stream_requests import Answer, Observed, Request
from livegym.serve.inbox import Busy, Closed, Inbox
from livegym.serve.leases import StreamLeases
from livegym.serve.protocol import Message, MessageRefused, answers_of
from livegym.tasks.stream_task import ActionUnits

log = logging.getLogger(__name__)

RETRY_S = 1.0
AGAIN = "Resend it with the same sequence: if a decision was made, you get the same one."


@dataclass(frozen=True)
class Waiting:
    """A message that has been put into the inbox."""

    message: Message
    future: Future[list[Answer]]
    owner: str | None
    leased: list[str]  # streams that this message leased to the owner


class Intake:
    """Accepts the messages of all clients."""

    def __init__(self, inbox: Inbox, leases: StreamLeases, units: ActionUnits | None = None) -> None:
        """`units`: how clients number an action."""
        self._inbox, self._leases = inbox, leases
        self._units = units
        self.messages = 0
        self.refused = 0  # messages and requests

    def put(self, owner: str | None, text: str | bytes | None, read: Callable[[Any], Message], source: str) -> Waiting:
        """Check a message by `read` and put it into the inbox. Raises MessageRefused; nothing has changed then.

        `source`: what sent it: one connection, or all HTTP requests under one name.
        """
        self.messages += 1
        message = None
        try:
            message = read(text)
            self._leases.check(owner, message.streams)
            future = self._ask([_from(source, request) for request in message.requests])
        except MessageRefused as refused:
            refused.about(message.id if message else None)
            self.refused += refused.kind not in ("busy", "closing")
            raise
        return Waiting(message, future, owner, self._leases.take(owner, message.streams))

    def _ask(self, requests: list[Request]) -> Future[list[Answer]]:
        try:
            return self._inbox.ask(requests)
        except Busy as error:
            text = f"The server is busy: {error}. Nothing was accepted; resend it in {RETRY_S:g} s."
            raise MessageRefused("busy", text, RETRY_S) from None
        except Closed:
            raise _closing() from None

    async def settle(self, waiting: Waiting, timeout: float | None = None) -> list[dict[str, Any]]:
        """Await the answers, in the form to send, for at most `timeout` s. Raises MessageRefused."""
        made = await _answers_to(waiting, timeout)
        answers = answers_of(waiting.message.requests, made, self._units)
        errors = [answer for answer in answers if answer["type"] == "error"]
        self.refused += len(errors)
        # A stream that was refused needs no owner; otherwise invented names would use up the streams allowed.
        unknown = {str(answer["stream"]) for answer in errors if answer["kind"] in ("unknown", "too_many_streams")}
        self._leases.give_back(waiting.owner, unknown & set(waiting.leased))
        return answers


def _from(source: str, request: Request) -> Request:
    return replace(request, source=source) if isinstance(request, Observed) else request


async def _answers_to(waiting: Waiting, timeout: float | None = None) -> list[Answer]:
    """Await the answers of the decision loop, which makes them even if this task is cancelled.

    Raises:
        MessageRefused: the requests failed, or were not answered within `timeout` s.
    """
    future = asyncio.shield(asyncio.wrap_future(waiting.future))
    try:
        await asyncio.wait([future], timeout=timeout)
    finally:
        left = not future.done() and future.cancel()  # cancels the shield only; the answer that comes later is dropped
    if left:
        refused = MessageRefused("busy", f"No answer within {timeout:g} s. {AGAIN}", retry_after=1.0)
        raise refused.about(waiting.message.id)
    error = future.exception()
    if isinstance(error, Closed):
        raise _closing().about(waiting.message.id)
    if error is not None:
        log.error("a message was not answered", exc_info=error)
        refused = MessageRefused("failed", f"The server failed to decide; its log has the reason. {AGAIN}")
        raise refused.about(waiting.message.id)
    return future.result()


def _closing() -> MessageRefused:
    """Return the refusal of a server that is stopping."""
    return MessageRefused("closing", f"This server is stopping. Reconnect when it is back. {AGAIN}", retry_after=5.0)

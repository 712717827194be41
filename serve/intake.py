"""What the WebSocket and its HTTP twin share: messages are taken in, and their answers given, however a client asks.

    waiting = intake.put("client a", text, reader.read)    # raises Refused
    answers = await intake.settle(waiting)                 # as they are sent; raises Refused

A message is checked, its streams are leased to the client, and its requests are put into the inbox, or none of that.
All of it is done on the server's event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from livegym.online.stream_requests import Answer
from livegym.serve.inbox import Busy, Closed, Inbox
from livegym.serve.leases import StreamLeases
from livegym.serve.protocol import Message, MessageRefused, answers_of

log = logging.getLogger(__name__)

RETRY_S = 1.0
AGAIN = "Send it again with the same sequence: a decision that was made is found again."


@dataclass(frozen=True)
class Waiting:
    """A message that has been put into the inbox."""

    message: Message
    future: Future[list[Answer]]
    owner: str | None
    leased: list[str]  # streams that became the owner's with it


class Intake:
    """Takes in the messages of all clients."""

    def __init__(self, inbox: Inbox, leases: StreamLeases) -> None:
        self._inbox, self._leases = inbox, leases
        self.messages = 0
        self.refused = 0  # messages and requests

    def put(self, owner: str | None, text: str | bytes | None, read: Callable[[Any], Message]) -> Waiting:
        """Puts a message into the inbox; `read` checks it. Raises Refused, and nothing has changed then."""
        self.messages += 1
        message = None
        try:
            message = read(text)
            self._leases.check(owner, message.streams)
            future = self._ask(message)
        except MessageRefused as refused:
            refused.about(message.id if message else None)
            self.refused += refused.kind not in ("busy", "closing")
            raise
        return Waiting(message, future, owner, self._leases.take(owner, message.streams))

    def _ask(self, message: Message) -> Future[list[Answer]]:
        try:
            return self._inbox.ask(message.requests)
        except Busy as error:
            words = f"Too much waits here: {error}. Nothing was taken; send it again in {RETRY_S:g} s."
            raise MessageRefused("busy", words, RETRY_S) from None
        except Closed:
            raise _closing() from None

    async def settle(self, waiting: Waiting, timeout: float | None = None) -> list[dict[str, Any]]:
        """The answers, as they are sent, within `timeout` s. Raises Refused."""
        answers = await _answers_to(waiting, timeout)
        errors = [answer for answer in answers if answer["type"] == "error"]
        self.refused += len(errors)
        # A stream that was not taken in needs no owner; else made-up names would use up all that there may be.
        unknown = {str(answer["stream"]) for answer in errors if answer["kind"] in ("unknown", "too_many_streams")}
        self._leases.give_back(waiting.owner, unknown & set(waiting.leased))
        return answers


async def _answers_to(waiting: Waiting, timeout: float | None = None) -> list[dict[str, Any]]:
    """The answers, when the decision loop has made them, which it does also where whoever waits goes away.

    Raises:
        Refused: there will be none, or there was none within `timeout` s.
    """
    future = asyncio.shield(asyncio.wrap_future(waiting.future))
    try:
        await asyncio.wait([future], timeout=timeout)
    finally:
        left = not future.done() and future.cancel()  # the shield only: nobody will look at what comes
    if left:
        refused = MessageRefused("busy", f"No answer within {timeout:g} s. {AGAIN}", retry_after=1.0)
        raise refused.about(waiting.message.id)
    error = future.exception()
    if isinstance(error, Closed):
        raise _closing().about(waiting.message.id)
    if error is not None:
        log.error("a message was not answered", exc_info=error)
        refused = MessageRefused("failed", f"The server could not decide, and has logged why. {AGAIN}")
        raise refused.about(waiting.message.id)
    return answers_of(waiting.message.requests, future.result())


def _closing() -> MessageRefused:
    """The refusal of a server that stops."""
    return MessageRefused(
        "closing", f"This server is stopping. Connect again when it is back. {AGAIN}", retry_after=5.0
    )

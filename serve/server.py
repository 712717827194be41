"""The endpoints that take observations and return decisions: a WebSocket, and the same over HTTP.

    api = OnlineApi(inbox, Description(spec, raw_fields), access)
    api.mount(gateway)                # before gateway.start()

They are mounted at `/online/v1` of the gateway, whose middleware has already checked host, origin, size and token. No
decision is made here: messages are checked and put into the inbox, and the event loop awaits the decision loop's
answers without blocking. Spectators' observations and rewards are refused, because the policy would be trained on them;
`/spec` and the documentation remain readable. `docs/protocol.md` explains the messages.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, WebSocket
from fastapi.responses import FileResponse, PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.background import BackgroundTask
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from livegym.online.not_learned import NotLearned
from livegym.serve.clients import MAX_CLIENTS, MAX_UNHEARD, Clients
from livegym.serve.connection import UNANSWERED, StreamConnection
from livegym.serve.inbox import Inbox
from livegym.serve.intake import RETRY_S, Intake, Sender, Waiting
from livegym.serve.json_schema import schema_of
from livegym.serve.leases import LEASE_S, StreamLeases
from livegym.serve.messages import (
    MAX_ITEMS,
    NAME,
    STATUS,
    VERSION,
    Answers,
    Description,
    ErrorMessage,
    LearningAnswer,
    LearningMessage,
)
from livegym.serve.openapi import add_documentation
from livegym.serve.protocol import Message, MessageRefused, Reader, text_of
from livegym.utils.fair_queue import Share
from livegym.utils.files import strict_json
from livegym.web.access import Access, Role, address_of, role_of
from livegym.web.gateway import Gateway
from livegym.web.middleware import MAX_BODY, SOCKET
from livegym.web.places import REQUESTS
from livegym.web.server import ARRIVED, MAX_MESSAGE

log = logging.getLogger(__name__)

PAGE = "/page"
SCRIPT = Path(__file__).parent / "browser" / "client.js"
"""The client for pages, which is served with the endpoints."""
PREFIX = f"/online/v{VERSION}"
SOCKETS = MAX_CLIENTS + MAX_UNHEARD + 32
"""WebSockets at once: clients and newcomers, with some room for those that close."""
MAX_REQUESTS = 32
"""HTTP requests of one client, or of all without a client id from one address, that may wait at once."""
MAX_REQUESTS_FROM = REQUESTS // 2
"""HTTP requests of one address that may wait at once, whatever names they have."""
ANSWER_S = 60.0
"""How long an HTTP request waits for a decision."""

INTRODUCTION = (
    "The WebSocket `/online/v1/ws` takes the same messages as text; there, each message must have a `type`. "
    "`docs/protocol.md` in the repository explains the messages."
)
ClientId = Annotated[
    str | None,
    Query(description=f"a name that you choose; your streams stay yours for {LEASE_S:g} s after each request"),
]


class OnlineApi:
    """The API of one server, for all its clients. Methods run on the server's event loop; `counts` on any thread."""

    def __init__(
        self,
        inbox: Inbox,
        description: Description,
        access: Access,
        leases: StreamLeases | None = None,
        took: Callable[[float], None] = lambda seconds: None,
        stream_rate: float | None = None,
        not_learned: NotLearned | None = None,
        page: Path | None = None,
    ) -> None:
        """`leases`: who has which streams; None: at most `MAX_STREAMS` of them.

        `took`: is given the s from the arrival of each message of observations until its answer had been sent.

        `stream_rate`: requests per second that a stream may send; None: no limit. `not_learned`: the learning switches
        of the streams; without it, they cannot be switched. `page`: a folder with the page of a client in the browser,
        which is served at `PAGE`.
        """
        self._page = page
        self._inbox = inbox
        self._not_learned = not_learned
        self._read_only = (
            f"This server is read-only for you ({access.only_watch}); it accepts no observations and no rewards."
        )
        self._reader = Reader(description)
        self._schema = schema_of(self._reader.observe_schema, self._reader.reward_schema)
        self._leases = StreamLeases() if leases is None else leases
        self._intake = Intake(inbox, self._leases, took, stream_rate, description.units)
        self._clients = Clients(self._leases)  # of WebSockets
        self._numbers = itertools.count(1)
        self._requests: Counter[str] = Counter()  # HTTP requests that wait for their answers, by client
        self._requests_from: Counter[str] = Counter()  # the same, by address: names are the clients' choice
        self._refused = 0  # HTTP requests refused before they were read
        self._turned_away = 0  # HTTP requests beyond a limit
        self._spec = description.to_dict() | {"limits": _limits(self._leases.max_streams, inbox.capacity)}
        self.app = FastAPI(
            title="livegym online", version=str(VERSION), description=INTRODUCTION, docs_url=None, redoc_url=None
        )
        self._add_routes()
        bodies: dict[str, type[BaseModel]] = {"/observe": self._reader.observe_schema}
        bodies["/reward"] = self._reader.reward_schema
        add_documentation(self.app, bodies if not_learned is None else bodies | {"/learning": LearningMessage})

    def mount(self, gateway: Gateway) -> None:
        """Mount the endpoints of this API at `PREFIX`, and the client's page, if there is one, at `PAGE`."""
        gateway.places.allow(f"{PREFIX}/ws", SOCKETS)
        gateway.app.mount(PREFIX, self.app)
        gateway.give_way(self._inbox.is_busy)
        gateway.answer("POST", f"{PREFIX}/observe", _plain(self._observe))
        gateway.answer("POST", f"{PREFIX}/reward", _plain(self._reward))
        gateway.answer(SOCKET, f"{PREFIX}/ws", self._socket)
        if self._page is not None:
            gateway.app.mount(PAGE, StaticFiles(directory=self._page, html=True))

    def counts(self) -> dict[str, int]:
        """Return the number of connected clients, and the messages, refusals and busy answers so far."""
        return {
            "clients": len(self._clients) + self._requests.total(),
            "messages": self._intake.messages,
            "refused": self._refused + self._intake.refused,
            "busy": self._inbox.busy + self._turned_away + self._clients.turned_away,
        }

    def _add_routes(self) -> None:
        app = self.app
        app.add_api_websocket_route("/ws", self._connect)
        app.add_api_route("/spec", self._tell, methods=["GET"], summary="What is served, and its limits")
        app.add_route("/client.js", _script)
        app.add_api_route("/schema.json", self._tell_schema, methods=["GET"], summary="The messages as JSON Schema")
        errors: dict[int | str, dict[str, Any]] = {status: {"model": ErrorMessage} for status in STATUS.values()}
        for path, handler, summary in (
            ("/observe", self._observe, "Observations, each answered with a decision"),
            ("/reward", self._reward, "Rewards of decisions"),
        ):
            app.add_api_route(
                path, handler, methods=["POST"], summary=summary,
                responses={200: {"model": Answers}, **errors}, response_model=None,
            )  # fmt: skip

        if self._not_learned is not None:
            learning: dict[str, Any] = {"summary": "Which streams are not learned from", "response_model": None}
            learning["responses"] = {200: {"model": LearningAnswer}}
            app.add_api_route("/learning", self._tell_learning, methods=["GET"], **learning)
            learning = learning | {"summary": "Switch learning from a stream on or off"}
            learning["responses"] = {**learning["responses"], **errors}
            app.add_api_route("/learning", self._switch_learning, methods=["POST"], **learning)

    async def _tell_learning(self) -> Response:
        return self._learning(None)

    def _learning(self, message_id: int | None) -> Response:
        assert self._not_learned is not None, "the routes exist only then"
        off = sorted(self._not_learned.streams)
        return _json(strict_json({"v": VERSION, "type": "learning", "id": message_id, "not_learned": off}), 200)

    async def _switch_learning(self, request: Request) -> Response:
        assert self._not_learned is not None, "the routes exist only then"
        try:
            self._check_request(request, None, address_of(request))
            asked = self._reader.learning(await request.body())
            await asyncio.to_thread(self._not_learned.set, asked.stream, asked.learn)
        except MessageRefused as refused:
            return _json(refused.text(), refused.status)
        except (OSError, ValueError) as error:
            return _json(MessageRefused("failed", f"the switch could not be saved ({error})").text(), STATUS["failed"])
        return self._learning(asked.id)

    async def _tell_schema(self) -> Response:
        return _json(strict_json(self._schema), 200)

    async def _tell(self) -> Response:
        return _json(strict_json(self._spec), 200)

    # HTTP. FastAPI documents these routes; requests do not pass through it (`Gateway.answer`).

    async def _observe(self, request: Request, client: ClientId = None) -> Response:
        return await self._answered(request, client, self._reader.observations)

    async def _reward(self, request: Request, client: ClientId = None) -> Response:
        return await self._answered(request, client, self._reader.rewards)

    async def _answered(self, request: Request, client: str | None, read: Callable[[bytes], Message]) -> Response:
        address = address_of(request)
        asker = client or address
        self._requests[asker] += 1
        self._requests_from[address] += 1
        try:
            self._check_request(request, client, asker)
            sender = Sender(f"HTTP {asker}", (*_shares(request), "HTTP", _port_of(request)), address)
            waiting = await self._intake.put(client, await request.body(), read, sender, request.scope.get(ARRIVED))
            if client is not None:
                self._leases.lease(client)
            answer = _json(text_of(waiting.message.id, await self._intake.settle(waiting, ANSWER_S)), 200)
            answer.background = BackgroundTask(self._sent, waiting)  # which runs when the answer has been sent
            return answer
        except MessageRefused as refused:
            headers = {} if refused.retry_after is None else {"retry-after": str(math.ceil(refused.retry_after))}
            return _json(refused.text(), refused.status, headers)
        finally:
            for counts, who in ((self._requests, asker), (self._requests_from, address)):
                counts[who] -= 1
                if not counts[who]:
                    del counts[who]

    async def _sent(self, waiting: Waiting) -> None:
        self._intake.sent(waiting)

    def _check_request(self, request: Request, client: str | None, asker: str) -> None:
        """Check a request before its body is read. Raises MessageRefused."""
        problem = self._problem_of(request, client)
        if problem is not None:
            self._refused += 1
            raise problem
        address = address_of(request)
        for count, most, whose in (
            (self._requests[asker], MAX_REQUESTS, ""),
            (self._requests_from[address], MAX_REQUESTS_FROM, f" of your address ({address})"),
        ):
            if count > most:
                self._turned_away += 1
                text = f"{most} requests{whose} are waiting already. Use the WebSocket."
                raise MessageRefused("busy", text, RETRY_S)

    def _problem_of(self, request: Request, client: str | None) -> MessageRefused | None:
        if role_of(request) is Role.SPECTATOR:
            return MessageRefused("read_only", self._read_only)
        if client is not None and not re.fullmatch(NAME, client):
            return MessageRefused("invalid", CLIENT, field="client")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # a plain form of a cross-origin page cannot send this type
            message = f"content-type: given {kind or 'none'!r}; expected 'application/json'. Set that header."
            return MessageRefused("malformed", message, field="content-type")
        return None

    # WebSocket

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._connect(WebSocket(scope, receive, send))

    async def _connect(self, socket: WebSocket) -> None:
        refusal = self._no_entry(socket)
        if refusal is not None:
            await socket.send_denial_response(refusal)
            return
        source = f"connection {next(self._numbers)}"
        owner, address = socket.query_params.get("client") or source, address_of(socket)
        sender = Sender(source, (*_shares(socket), source), address)
        connection = StreamConnection(socket, owner, self._intake, self._reader, sender, self._clients)
        self._clients.enter(owner, connection, address)  # before the first await, so that the limits hold
        try:
            await socket.accept()
            ending = await connection.run()
        finally:
            self._clients.leave(owner, connection)
        who = f"{socket.client.host}:{socket.client.port}" if socket.client else "a client"
        sent, refused = connection.messages, connection.refused
        log.info("%s: connection ended after %d messages, %d refused: %s", who, sent, refused, ending.why)

    def _no_entry(self, socket: WebSocket) -> Response | None:
        if role_of(socket) is Role.SPECTATOR:
            return PlainTextResponse(f"{self._read_only}\n", 403)
        client = socket.query_params.get("client")
        if client is not None and not re.fullmatch(NAME, client):
            return PlainTextResponse(f"{CLIENT}\n", 400)
        why = self._clients.refusal(address_of(socket)) if client not in self._clients else None
        if why is not None:
            self._clients.turned_away += 1
            return PlainTextResponse(f"{why}\n", 503, {"retry-after": "1"})
        return None


CLIENT = f"client: invalid name. Allowed: letters, digits, '_', '.' and '-', at most 64 characters ({NAME})."


def _plain(handler: Callable[[Request, str | None], Awaitable[Response]]) -> ASGIApp:
    """Return an application that answers by a handler, which gets its arguments without FastAPI."""

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        answer = await handler(request, request.query_params.get("client"))
        await answer(scope, receive, send)

    return answering


async def _script(request: Request) -> Response:
    return FileResponse(SCRIPT, headers={"cache-control": "no-cache"}, media_type="text/javascript")


def _shares(connection: HTTPConnection) -> Share:
    """Return whose share of the server's time a client uses: that of its address, with its token's role."""
    return (f"{address_of(connection)} {role_of(connection).value}",)


def _port_of(request: Request) -> str:
    """Return what tells the connections of one address apart. Unlike `?client=`, it is none of the client's choice."""
    return str(request.client.port if request.client else "")


def _json(text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    return Response(text, status, headers, "application/json")


def _limits(max_streams: int, capacity: int) -> dict[str, Any]:
    return {
        "message_bytes": MAX_MESSAGE,
        "body_bytes": MAX_BODY,
        "items": MAX_ITEMS,
        "streams": max_streams,
        "clients": MAX_CLIENTS,
        "unanswered": UNANSWERED,
        "waiting": capacity,
        "lease_s": LEASE_S,
    }

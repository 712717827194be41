"""The HTTP gateway: one app on one port, on which viewers mount their pages.

    gateway = Gateway(Access(token=None, read_only=False), "127.0.0.1", 58080, stats=lambda: {"fps": 60})
    gateway.app.include_router(proxy.router)
    gateway.start()
    print(gateway.url)  # http://127.0.0.1:58080/
    ...
    gateway.stop()

The gateway binds the port when it is created, so `url` is valid from then on. `/healthz`, `/stats` and `/metrics` are
built in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.responses import Response
from starlette.types import ASGIApp

from livegym.utils.files import strict_json
from livegym.web.access import Access
from livegym.web.listen import listen, url_of
from livegym.web.metrics import CONTENT_TYPE, Reading, registry_of, text_of
from livegym.web.middleware import AccessMiddleware
from livegym.web.server import Server


class Gateway:
    """An HTTP server that binds its port on creation, and serves between `start` and `stop`."""

    def __init__(
        self,
        access: Access,
        host: str,
        port: int,
        stats: Callable[[], Mapping[str, Any]] = dict,
        metrics: Callable[[], Iterable[Reading]] = tuple,
        trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`stats`, `metrics` and `trouble` are called on other threads at each request.

        `trouble()`: why `/healthz` answers 503; None if all is well, and it answers 200.

        Raises:
            UserError: neither `port` nor one of the following ports is free.
        """
        listener = listen(host, port)
        self.access = access
        self.host = host
        self.port: int = listener.getsockname()[1]
        self.app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
        guarded = AccessMiddleware(self.app, access)
        self.places = guarded.places
        self._direct = guarded.direct
        self._server = Server(guarded, listener)
        _add_readings(self.app, stats, metrics, trouble)

    @property
    def url(self) -> str:
        """The address for a browser. It contains the token, so print it on the console, but never to a file."""
        return url_of(self.access.link_token, self.host, self.port)

    def answer(self, method: str, path: str, answering: ASGIApp) -> None:
        """Let `answering` answer one method of one path, which is then not looked up among the routes of `app`.

        `method`: in capitals; `middleware.SOCKET` for WebSockets. FastAPI takes as long to find a route as all of
        livegym's checks take.
        """
        self._direct[f"{method} {path}"] = answering

    def give_way(self, busy: Callable[[], bool]) -> None:
        """While `busy()`, let the requests of a crowd begin more slowly, so that other threads get on with their work.

        A request that needs not wait for others begins at once all the same.
        """
        self._server.requests.busy = busy

    def start(self) -> None:
        """Start to serve, on a thread of its own; return once requests are answered."""
        self._server.start()

    def stop(self) -> None:
        """End all connections and free the port, within about a second; may be called more than once."""
        self._server.stop()


def _add_readings(
    app: FastAPI,
    stats: Callable[[], Mapping[str, Any]],
    metrics: Callable[[], Iterable[Reading]],
    trouble: Callable[[], str | None],
) -> None:
    """Add the routes for tools. They run in FastAPI's thread pool, so a slow one delays no other request."""
    registry = registry_of(metrics)

    @app.get("/healthz")
    def healthz() -> Response:
        why = trouble()
        answer = {"status": "ok"} if why is None else {"status": "failing", "why": why}
        return Response(strict_json(answer), 200 if why is None else 503, media_type="application/json")

    @app.get("/stats")
    def statistics() -> Response:
        return Response(strict_json(stats()), media_type="application/json")

    @app.get("/metrics")
    def readings() -> Response:
        return Response(text_of(registry), headers={"content-type": CONTENT_TYPE})

"""The HTTP server of continuous training: dashboard, clients, `/stats` and `/metrics`, all on one port."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from livegym.live.swap import LivePolicy
from livegym.online.champion import Champion
from livegym.online.not_learned import NotLearned
from livegym.serve.dashboard import Dashboard
from livegym.serve.metrics import Readings
from livegym.serve.server import OnlineApi
from livegym.serve.status import Status
from livegym.serve.watchdog import Watchdog
from livegym.utils.errors import UserError
from livegym.web.gateway import Gateway
from livegym.web.opening import PageAddress, announce
from livegym.web.weights import WeightRoutes
from livegym.weights.offer import Offer


@contextlib.contextmanager
def served(address: PageAddress, api: OnlineApi, dashboard: Dashboard, status: Status, offer: Offer) -> Iterator[None]:
    """Serve dashboard, clients and followers of the weights inside the `with` block.

    Raises UserError if no port is free.
    """
    reading = status.reading
    gateway = Gateway(address.access, address.host, address.port, reading, Readings(reading), status.trouble)
    gateway.app.include_router(dashboard.router)
    gateway.app.include_router(WeightRoutes(offer, gateway).router)
    api.mount(gateway)
    address.warn_of_others()
    gateway.start()
    announce(replace(address, port=gateway.port), "dashboard at")
    try:
        yield
    finally:
        gateway.stop()


def control_of(
    live: LivePolicy, watchdog: Watchdog, champion: Champion | None, not_learned: NotLearned
) -> Callable[[dict[str, Any], str], str | None]:
    """Return the function that carries out a dashboard's request, on any thread.

    It returns None if the request succeeded, else the reason why it was refused.
    """

    def control(asked: dict[str, Any], who: str) -> str | None:
        what = asked["do"]
        try:
            if what == "pin":
                live.pin(who)
            elif what == "follow":
                live.follow()
            elif what == "train":
                watchdog.start_again()
            elif what == "allow":
                if champion is not None:
                    champion.allow()
            elif what == "learn":
                not_learned.set(asked["stream"], asked["on"])
            else:
                live.rollback(asked.get("version") if what == "rollback" else None, who)
        except (UserError, ValueError) as error:
            return str(error)
        except OSError as error:
            return f"it cannot be saved ({error.strerror or error})"
        return None

    return control

"""What viser does not offer publicly, in one place; tests say so when a version changes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import numpy as np
import viser
from viser._messages import SceneNodeUpdateMessage
from viser.infra import WebsockClientConnection
from websockets.asyncio.server import ServerConnection


def port_of(server: viser.ViserServer, client: viser.ClientHandle) -> int | None:
    """The port from which viser sees a client connect; None if it has gone already."""
    connection = server._websock_server._live_connections.get(client.client_id)
    return connection.remote_address[1] if connection is not None else None


def scale_for(client: viser.ClientHandle, name: str, scales: np.ndarray) -> None:
    """Gives the instances of a batched mesh other sizes, (n,) float32, for one client alone; 0 hides an instance."""
    client._websock_connection.queue_message(SceneNodeUpdateMessage(name, {"batched_scales": scales}))


def take_no_orders(server: viser.ViserServer) -> None:
    """Forgets what viser does at a client's word: a public tunnel, uploads, commands. Cameras are heard elsewhere."""
    server._websock_server._incoming_handlers.clear()


def on_connection(server: viser.ViserServer, greet: Callable[[ServerConnection], Awaitable[None]]) -> None:
    """Awaits `greet` for each connection, on viser's event loop, before anything is read from it or sent to it."""
    websock = server._websock_server

    async def connected(client: WebsockClientConnection) -> None:
        await greet(websock._live_connections[client.client_id])

    websock.on_client_connect(connected)

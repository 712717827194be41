"""All uses of viser's private API, in one place; tests fail if a new version of viser changes it."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable

import numpy as np
import viser
from viser._messages import SceneNodeUpdateMessage, ViewerCameraMessage
from viser.infra import WebsockClientConnection
from websockets.asyncio.server import ServerConnection


def port_of(server: viser.ViserServer, client: viser.ClientHandle) -> int | None:
    """Return the port from which a client is connected to viser; None if it has disconnected."""
    connection = server._websock_server._live_connections.get(client.client_id)
    return connection.remote_address[1] if connection is not None else None


def scale_for(client: viser.ClientHandle, name: str, scales: np.ndarray) -> None:
    """Set the sizes (n,) float32 of a batched mesh's instances, for one client only; 0 hides an instance."""
    client._websock_connection.queue_message(SceneNodeUpdateMessage(name, {"batched_scales": scales}))


def expect_departures() -> None:
    """Silence viser's warning about messages to a client that has just disconnected.

    A thread that draws may write to a client before it learns that the client is gone, which is harmless.
    """
    warnings.filterwarnings("ignore", r"Queued a \w+ on a closed connection", UserWarning)


def take_no_orders(server: viser.ViserServer) -> None:
    """Remove viser's handlers of client requests (public tunnel, uploads, commands). Camera messages still work."""
    server._websock_server._incoming_handlers.clear()


def on_connection(server: viser.ViserServer, greet: Callable[[ServerConnection], Awaitable[None]]) -> None:
    """Let viser's event loop await `greet` for each new connection, before any data is exchanged.

    Of viser's handlers of the connection's requests (uploads, commands, controls) only that of the camera stays.
    """
    websock = server._websock_server

    async def connected(client: WebsockClientConnection) -> None:
        handlers = client._incoming_handlers
        for kind in handlers.keys() - {ViewerCameraMessage}:
            del handlers[kind]
        await greet(websock._live_connections[client.client_id])

    websock.on_client_connect(connected)

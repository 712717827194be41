"""The two things that viser does not offer publicly, in one place; a test says so when a version changes them."""

from __future__ import annotations

import numpy as np
import viser
from viser._messages import SceneNodeUpdateMessage


def port_of(server: viser.ViserServer, client: viser.ClientHandle) -> int | None:
    """The port from which viser sees a client connect; None where it has gone already."""
    connection = server._websock_server._live_connections.get(client.client_id)
    return connection.remote_address[1] if connection is not None else None


def scale_for(client: viser.ClientHandle, name: str, scales: np.ndarray) -> None:
    """Gives the instances of a batched mesh other sizes, (n,) float32, for one client alone; 0 hides an instance."""
    client._websock_connection.queue_message(SceneNodeUpdateMessage(name, {"batched_scales": scales}))

"""The listening socket, bound before anything else starts, so that the address is known early.

listener = listen("127.0.0.1", 58080)  # the first free port, from 58080
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

SEND_BUFFER = 64 * 1024
"""Bytes that the kernel buffers for a client; a larger buffer would hold outdated pictures."""
UNSENT = 16 * 1024
"""Bytes of that buffer that are not sent yet."""
STALLED_MS = 60_000
"""Time after which a client that accepts no data is disconnected."""
BACKLOG = 1024
"""Connections that the kernel keeps until they are accepted; a short queue would turn away who comes in a rush."""
LISTENING = "0A"  # the state in /proc/net/tcp


def listen(host: str, port: int, tries: int = 20) -> socket.socket:
    """Return a socket that listens at `port`, or at the first free one of the next `tries - 1`; 0: any free port.

    Raises:
        UserError: none of them is free, or the address cannot be used at all.
    """
    for candidate in range(port, min(port + tries, 65536)):
        try:
            listener = _bound(host, candidate)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            raise UserError(
                f"streamPort={candidate}: cannot listen on {host} ({error.strerror}). "
                "Choose another port, for example streamPort=58080."
            ) from None
        if candidate != port:
            log.warning("streamPort=%d is in use%s; using port %d instead", port, _user_of(port), candidate)
        return listener
    raise UserError(
        f"streamPort={port}: in use{_user_of(port)}, like each port up to {port + tries - 1}. "
        "Stop the processes that use them, or choose another streamPort."
    )


def _bound(host: str, port: int) -> socket.socket:
    """Return a listening socket; accepted connections inherit its settings."""
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named; without it, the second part of an HTTP answer
    # waits 40 ms for the acknowledgement of the first.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # otherwise a restart has to wait a minute
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if sys.platform == "linux":
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_MS)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def reachable_host(host: str) -> str:
    """Return the name or address at which others reach a server bound to `host`; for 0.0.0.0, the routed address."""
    if host != "0.0.0.0":
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # a documentation address; connecting a UDP socket sends nothing
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])


def url_of(token: str | None, host: str, port: int) -> str:
    """The address for a browser. It contains the token, so print it on the console, but never to a file."""
    query = "" if token is None else f"?token={quote(token, safe='')}"
    return f"http://{reachable_host(host)}:{port}/{query}"


def _user_of(port: int) -> str:
    """Return ' by python (pid 12)' if /proc shows which process listens on `port`, else ''."""
    inodes = set(_listening_inodes(port))
    for process in Path("/proc").glob("[0-9]*") if inodes else ():
        if inodes & _sockets_of(process):
            return f" by {_name_of(process)} (pid {process.name})"
    return ""


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in map(str.split, rows):
            if row[3] == LISTENING and int(row[1].rpartition(":")[2], 16) == port:
                yield f"socket:[{row[9]}]"


def _sockets_of(process: Path) -> set[str]:
    found = set()
    try:
        for descriptor in (process / "fd").iterdir():
            found.add(os.readlink(descriptor))
    except OSError:  # another user's process, or one that has just ended
        pass
    return found


def _name_of(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a process"

"""The socket that is listened on: found before anything else starts, so that the address can be told at once.

listener = listen("127.0.0.1", 58080)  # the first free port from 58080 on
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from livegym.utils.errors import UserError

log = logging.getLogger(__name__)

SEND_BUFFER = 64 * 1024
"""Bytes that the kernel keeps on their way to a client; more would be old pictures."""
UNSENT = 16 * 1024
"""Bytes of them that wait to be sent."""
STALLED_MS = 60_000
"""A client that takes nothing for so long is cut off."""
LISTENING = "0A"  # as /proc/net/tcp writes the state


def listen(host: str, port: int, tries: int = 20) -> socket.socket:
    """A listening socket at `port`, or at the first free one of the `tries - 1` that follow; 0: any.

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
                f"streamPort={candidate}: {host} cannot be listened on ({error.strerror}). "
                "Choose another, for example streamPort=58080."
            ) from None
        if candidate != port:
            log.warning("streamPort=%d is taken%s; port %d is used instead", port, _by_whom(port), candidate)
        return listener
    raise UserError(
        f"streamPort={port}: taken{_by_whom(port)}, and so is each port up to {port + tries - 1}. "
        "Stop what holds them or choose another streamPort."
    )


def _bound(host: str, port: int) -> socket.socket:
    """A socket whose settings each accepted connection inherits."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else a restart waits a minute for the port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if sys.platform == "linux":
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_MS)
        listener.bind((host, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def reachable_host(host: str) -> str:
    """What others write to reach a server bound to `host`: for 0.0.0.0 the address that routes lead to."""
    if host != "0.0.0.0":
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation; connecting a UDP socket sends nothing
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])


def _by_whom(port: int) -> str:
    """' by python (pid 12)' where /proc tells who listens on `port`, else ''."""
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
    except OSError:  # another user's, or it just ended
        pass
    return found


def _name_of(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a process"

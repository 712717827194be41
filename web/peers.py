"""Which user is at the other end of a connection within this machine, asked of the kernel (Linux's sock_diag).

    uid = peer_uid(("127.0.0.1", 40312), ("127.0.0.1", 58080))     # None: unknown

TCP does not tell who is at the other end, unlike Unix sockets. But within one machine, that end is a socket of this
kernel too, and each socket has an owner. A socket whose process has closed it, or ended, has no owner: the kernel
then says 0, which is root. It is unknown here; otherwise a client that hangs up quickly could pass for root.
"""

from __future__ import annotations

import socket
import struct

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
STATES = (1, 4, 5)
"""ESTABLISHED, FIN_WAIT1, FIN_WAIT2: of a client that has sent its request, and maybe ended its own side."""
ANY = 0xFFFFFFFF
HEAD = struct.Struct("=IHHII")  # netlink: length, type, flags, sequence, port
ASKED = struct.Struct("=BBBBI")  # family, protocol, extensions, states
ENDS = struct.Struct("!HH4s12x4s12x")  # ports and addresses
REST = struct.Struct("=III")  # interface, cookie
ANSWER = struct.Struct("=BBBB48xIIIII")  # family, state, timer, retransmissions; expires, queues, uid, inode
TIMEOUT_S = 1.0


def peer_uid(peer: tuple[str, int], own: tuple[str, int]) -> int | None:
    """Return the user at the other end of an IPv4 connection of this machine; `peer` and `own` are its two ends.

    None: the kernel does not tell, or the socket is not there, or no process has it open any more.
    """
    try:
        ends = ENDS.pack(peer[1], own[1], socket.inet_aton(peer[0]), socket.inet_aton(own[0]))
        asked = ASKED.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ANY) + ends + REST.pack(0, ANY, ANY)
        head = HEAD.pack(HEAD.size + len(asked), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(TIMEOUT_S)
            kernel.send(head + asked)
            answer = kernel.recv(4096)
    except (OSError, AttributeError):  # no such socket family: another system, or a sandbox
        return None
    _, kind, _, _, _ = HEAD.unpack_from(answer)
    if kind != SOCK_DIAG_BY_FAMILY:
        return None
    _, state, _, _, _, _, _, uid, inode = ANSWER.unpack_from(answer, HEAD.size)
    return int(uid) if state in STATES and inode else None


def tells_users() -> bool:
    """Return whether this machine's kernel tells whose connections are whose."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        return peer_uid(client.getsockname(), listener.getsockname()) is not None

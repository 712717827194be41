"""What can go wrong, by what one can do about it."""

from __future__ import annotations


class LivegymError(Exception):
    """Anything that this package raises about a server."""


class Unreachable(LivegymError):
    """The server did not answer in spite of several tries. Try again later: nothing that it had taken is lost."""


class Denied(LivegymError):
    """The server does not let this client in (a token, the host's name, a read-only server); the text says why."""


class Refused(LivegymError):
    """The server did not take a request, and nothing was changed; `kind` is in the table of docs/protocol.md."""

    def __init__(self, kind: str, message: str, field: str | None = None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.field = field

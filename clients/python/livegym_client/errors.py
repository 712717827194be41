"""The exceptions of this package, grouped by what the caller can do about them."""

from __future__ import annotations


class LivegymError(Exception):
    """Base class of all exceptions about a server."""


class Unreachable(LivegymError):
    """The server did not answer for `patience`. Try again later: nothing that it has accepted is lost."""


class Denied(LivegymError):
    """The server denies access (wrong token, unknown host name, read-only server); the text has the reason."""


class Refused(LivegymError):
    """The server refused a request, and nothing was changed; docs/protocol.md has a table of `kind`."""

    def __init__(self, kind: str, message: str, field: str | None = None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.field = field

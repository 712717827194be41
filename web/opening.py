"""The HTTP gateway's address and access rules, from the configuration."""

from __future__ import annotations

import contextlib
import logging
import secrets
from dataclasses import dataclass

from livegym.schema.watching import PageKeys
from livegym.utils.errors import UserError
from livegym.web.access import Access
from livegym.web.listen import listen, url_of

log = logging.getLogger(__name__)

OPEN = "off"  # streamToken=off
SHORTEST = 8  # characters of a token
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"


@dataclass(frozen=True)
class PageAddress:
    """The address at which a page is served, and its access rules."""

    access: Access
    host: str  # address to bind
    port: int  # if it is taken, the next free one is used; 0: any

    def warn_of_others(self) -> None:
        """Log a warning if other machines can connect."""
        if self.host != EVERYWHERE:
            return
        token = self.access.token
        who = "anyone with the token" if token is not None else "ANYONE who can reach this machine (streamToken=off)"
        may = "watch" if self.access.read_only else "watch and control"
        log.warning(
            "security: streamBindAll=true lets %s %s this, over plain HTTP. docs/streaming.md explains safer ways: "
            "an SSH tunnel or a reverse proxy.",
            who,
            may,
        )


def address_of(keys: PageKeys) -> PageAddress:
    """Return the page's address, with a generated token if one is needed. Raises UserError for a token too short."""
    host = EVERYWHERE if keys.streamBindAll else LOOPBACK
    return PageAddress(Access(_token(keys), keys.streamReadOnly, frozenset(keys.streamHosts)), host, keys.streamPort)


def reserved(keys: PageKeys) -> tuple[str, int, str | None]:
    """The address, port and token of a page that another process will serve in a moment, so that it can be shown now.

    The port is free now. Raises UserError if none is, or for a token that is too short.
    """
    address = address_of(keys)
    with contextlib.closing(listen(address.host, address.port)) as listener:
        port = listener.getsockname()[1]
    token = address.access.token
    return url_of(token, address.host, port), port, token


def _token(keys: PageKeys) -> str | None:
    token = keys.streamToken
    if token == OPEN or (token is None and not keys.streamBindAll):
        return None
    if token is None:
        return secrets.token_urlsafe(12)
    if len(token) < SHORTEST:
        raise UserError(
            f"streamToken: {len(token)} characters are too few to be safe. Use {SHORTEST} or more, leave it out to "
            "have one generated, or set streamToken=off for none."
        )
    return token

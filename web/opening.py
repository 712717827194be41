"""What the configuration says of the HTTP gateway: who may come in, and from where."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass

from livegym.schema.watching import PageKeys
from livegym.utils.errors import UserError
from livegym.web.access import Access

log = logging.getLogger(__name__)

OPEN = "off"  # streamToken=off
SHORTEST = 8  # characters of a token
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"


@dataclass(frozen=True)
class PageAddress:
    """Where a page is served, and to whom."""

    access: Access
    host: str  # that is listened on
    port: int  # the next free one if it is taken; 0: any

    def warn_of_others(self) -> None:
        """Says who else can come in, if others can."""
        if self.host != EVERYWHERE:
            return
        token = self.access.token
        who = "whoever has the token" if token is not None else "EVERYBODY who reaches this machine (streamToken=off)"
        may = "watch" if self.access.read_only else "watch and control"
        log.warning(
            "security: streamBindAll=true lets %s %s this, over plain HTTP. docs/streaming.md has an SSH tunnel and a "
            "reverse proxy.",
            who,
            may,
        )


def address_of(keys: PageKeys) -> PageAddress:
    """Where the page is; a token is made anew each time if one is needed. Raises UserError for one that is no help."""
    host = EVERYWHERE if keys.streamBindAll else LOOPBACK
    return PageAddress(Access(_token(keys), keys.streamReadOnly, frozenset(keys.streamHosts)), host, keys.streamPort)


def _token(keys: PageKeys) -> str | None:
    token = keys.streamToken
    if token == OPEN or (token is None and not keys.streamBindAll):
        return None
    if token is None:
        return secrets.token_urlsafe(12)
    if len(token) < SHORTEST:
        raise UserError(
            f"streamToken: {len(token)} characters are too few to keep anybody out. Give {SHORTEST} or more, leave it "
            "out to have one made, or streamToken=off for none."
        )
    return token

"""What the configuration says of the front door: who may come in, and from where."""

from __future__ import annotations

import logging
import secrets

from livegym.schema import RootConfig
from livegym.utils.errors import UserError
from livegym.web.access import Access

log = logging.getLogger(__name__)

OPEN = "off"  # streamToken=off
SHORTEST = 8  # characters of a token
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"


def access_of(config: RootConfig) -> Access:
    """Who may open the page. Raises UserError for a token that would keep nobody out."""
    token = config.streamToken
    if token == OPEN or (token is None and not config.streamBindAll):
        token = None
    elif token is None:
        token = secrets.token_urlsafe(12)
    elif len(token) < SHORTEST:
        raise UserError(
            f"streamToken: {len(token)} characters are too few to keep anybody out. Give {SHORTEST} or more, leave it "
            "out to have one made, or streamToken=off for none."
        )
    return Access(token, config.streamReadOnly, frozenset(config.streamHosts))


def host_of(config: RootConfig) -> str:
    """The address that is listened on."""
    return EVERYWHERE if config.streamBindAll else LOOPBACK


def warn_of_others(config: RootConfig, access: Access) -> None:
    """Says who else can come in, where others can."""
    if not config.streamBindAll:
        return
    who = (
        "whoever has the token" if access.token is not None else "EVERYBODY who reaches this machine (streamToken=off)"
    )
    may = "watch" if access.read_only else "watch and control"
    log.warning(
        "security: streamBindAll=true lets %s %s this, over plain HTTP. docs/streaming.md has an SSH tunnel and a "
        "reverse proxy.",
        who,
        may,
    )

"""The HTTP gateway's address and access rules, from the configuration."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from livegym.schema.watching import PageKeys
from livegym.utils.errors import UserError
from livegym.utils.log import console
from livegym.web.access import Access
from livegym.web.listen import listen, url_of
from livegym.web.neighbours import others_use_this_machine
from livegym.web.peers import tells_users

log = logging.getLogger(__name__)

OPEN = "off"  # streamToken=off
SHORTEST = 8  # characters of a token
TOKEN, SPECTATOR_TOKEN = "LIVEGYM_STREAM_TOKEN", "LIVEGYM_STREAM_SPECTATOR_TOKEN"
"""Environment variables that are used if streamToken and streamSpectatorToken are not set."""
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"


@dataclass(frozen=True)
class PageAddress:
    """The address at which a page is served, and its access rules."""

    access: Access
    host: str  # address to bind
    port: int  # if it is taken, the next free one is used; 0: any

    @property
    def url(self) -> str:
        """The address for a browser. It contains the token, if its owner needs one."""
        return url_of(self.access.link_token, self.host, self.port)

    @property
    def others_url(self) -> str | None:
        """The address for other users of this machine, if its owner needs no token; else None."""
        access = self.access
        return None if access.owner is None else url_of(access.token, self.host, self.port)

    @property
    def spectators_url(self) -> str | None:
        """The address for spectators, with their token; None if they have none of their own."""
        token = self.access.spectator_token
        return None if token is None else url_of(token, self.host, self.port)

    def warn_of_others(self) -> None:
        """Log a warning if other machines can connect, or if other users see the token in the command."""
        warn_of_typed_tokens(sys.argv[1:])
        if self.host != EVERYWHERE:
            return
        token = self.access.token
        who = "anyone with the token" if token is not None else "ANYONE who can reach this machine (streamToken=off)"
        may = "watch" if self.access.read_only else "watch and control"
        others = ", and anyone with the spectators' token watch it" if self.access.spectator_token is not None else ""
        log.warning(
            "security: streamBindAll=true lets %s %s this%s, over plain HTTP. docs/streaming.md explains safer ways: "
            "an SSH tunnel or a reverse proxy.",
            who,
            may,
            others,
        )


def page_address(keys: PageKeys) -> PageAddress:
    """Return the page's address, with generated tokens if they are needed. Raises UserError for unsafe tokens."""
    host = EVERYWHERE if keys.streamBindAll else LOOPBACK
    given, spectators = _given(keys.streamToken, TOKEN), _given(keys.streamSpectatorToken, SPECTATOR_TOKEN)
    token, spectators = _tokens(given, spectators, keys)
    owner = None
    if token is None and given is None and others_use_this_machine():
        token = secrets.token_urlsafe(12)
        owner = os.getuid() if tells_users() else None
    hosts = frozenset(keys.streamHosts)
    access = Access(token, keys.streamReadOnly, hosts, spectators, owner, keys.streamRate)
    return PageAddress(access, host, keys.streamPort)


def _given(key: str | None, variable: str) -> str | None:
    """Return a token: that of the key, else that of the environment variable, else None."""
    return os.environ.get(variable) or None if key is None else key


def warn_of_typed_tokens(arguments: Sequence[str]) -> None:
    """Log a warning if a token is among a command's arguments, which every user of the machine can see."""
    for name, variable in (("streamToken", TOKEN), ("streamSpectatorToken", SPECTATOR_TOKEN)):
        typed = [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{name}=")]
        if any(value not in ("", "null", OPEN) and not value.startswith("${") for value in typed):
            log.warning(
                "security: the process list (ps) shows %s to every user of this machine. Leave it out and set the "
                'environment variable instead, for example from a file: %s="$(cat token.txt)"',
                name,
                variable,
            )


def reserved(keys: PageKeys) -> PageAddress:
    """Return the address of a page that another process will serve soon; its port is free now.

    Raises UserError if no port is free, or for unsafe tokens.
    """
    address = page_address(keys)
    with contextlib.closing(listen(address.host, address.port)) as listener:
        return replace(address, port=listener.getsockname()[1])


def announce(address: PageAddress, before: str, after: str = "") -> None:
    """Print a page's address on the console, and that of spectators if they have a token of their own.

    It is printed and not logged, because a log must not contain tokens.
    """
    lines = [f"{before} {address.url}{after}"]
    if address.others_url is not None:
        lines.append(f"for other users of this machine: {address.others_url}")
    if address.spectators_url is not None:
        lines.append(f"for spectators, who cannot control: {address.spectators_url}")
    for line in lines:
        console.print(line, style="bold", soft_wrap=True, highlight=False, markup=False)


def _tokens(given: str | None, spectators: str | None, keys: PageKeys) -> tuple[str | None, str | None]:
    """Return the tokens of operators and of spectators, None if they need none. Raises UserError for unsafe ones."""
    for name, token in (("streamToken", given), ("streamSpectatorToken", spectators)):
        if token not in (None, OPEN) and len(token) < SHORTEST:
            raise UserError(
                f"{name}: {len(token)} characters are too few to be safe. Use {SHORTEST} or more, leave it out to "
                f"have one generated, or set {name}={OPEN} for none."
            )
    own = spectators not in (None, OPEN)
    if given == OPEN and own:
        raise UserError(
            "streamToken=off: then everyone is an operator, and streamSpectatorToken has no effect. "
            "Leave out one of the two"
        )
    if given == OPEN or (given is None and not keys.streamBindAll and not own):
        return None, None
    if given is not None and given == spectators:
        raise UserError(
            "streamSpectatorToken: is the same as streamToken, so spectators could control. Choose another one, or "
            "leave it out to have one generated"
        )
    if spectators is None and not keys.streamReadOnly:
        spectators = secrets.token_urlsafe(12)
    return given or secrets.token_urlsafe(12), None if spectators == OPEN else spectators

"""Addresses of servers on the command line: how they are recognised, and what must not stand in them."""

from __future__ import annotations

from urllib.parse import urlsplit

from livegym.utils.errors import UserError

SCHEMES = ("http://", "https://")
TOKEN = "LIVEGYM_WEIGHTS_TOKEN"
"""Environment variable with the token of the server whose weights are followed."""


def is_address(selector: str) -> bool:
    """Whether a selector is the address of a server, whose weights are followed over the network."""
    return selector.startswith(SCHEMES)


def shown(address: str) -> str:
    """An address without anything in which a token may stand, for messages."""
    scheme, _, rest = address.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    host, slash, path = place.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"[:200]


def refuse_secrets(address: str) -> None:
    """Raises UserError if an address has a user, a query or a fragment; the message does not repeat them."""
    try:
        parts = urlsplit(address)
        extra = parts.query or parts.fragment or "@" in parts.netloc or "?" in address or "#" in address
    except ValueError:
        return  # it is no address, which is reported where it is used
    if extra:
        raise UserError(
            f"checkpoint={shown(address)}: a token or anything else in an address is refused, because every user of "
            "this machine can see it in the process list. Leave it out, and give the token by "
            f'weightsTokenFile=<file> or {TOKEN}="$(cat <file>)"'
        )

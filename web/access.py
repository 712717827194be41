"""Access control: checks the host, the origin and the token of each request.

    access = Access(token="s3cret", read_only=False, spectator_token="0ther")
    refusal = access.cross_origin(connection)      # a response, or None: allowed
    admitted = access.admit(connection)            # a Role, or the response that refuses or redirects

A browser sends requests on behalf of any page that is open in it, so even an address that only this machine can reach
is not private. Therefore the name in `Host` must be ours (an attacker's name may resolve to this machine), and
`Origin`, which names the requesting page's host, must be the same host. Only then is the token checked. It comes in the
URL, in a header or from the form. A browser then gets a cookie instead, which is valid for this process only.

On this machine, the owner's programs may be let in without a token, because the kernel knows whose they are
(`peers.py`).

There are two tokens: operators watch and control, spectators only watch. A cookie has the role of the token that it
replaces, and every connection keeps the role that it was admitted with. A right token is always accepted, however many
wrong ones its address has sent.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import ipaddress
import math
import secrets
import socket
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from livegym.web.form import POLICY, token_form
from livegym.web.peers import peer_uid

ROLE = "livegym.role"
"""Key of an admitted request's role in its ASGI scope; `role_of` reads it."""
WRONG_TOKENS = 10
"""Wrong tokens from one address within `WINDOW_S`, after which more of them are answered by 429."""
WINDOW_S = 60.0
ADDRESSES = 1024
"""Addresses that are remembered at once; the one whose last wrong token is oldest is forgotten first."""


class Role(enum.Enum):
    """The rights of a client."""

    OPERATOR = "operator"  # watch and control
    SPECTATOR = "spectator"  # only watch


def role_of(connection: HTTPConnection) -> Role:
    """Return the role with which the middleware admitted a request or WebSocket."""
    role: Role = connection.scope[ROLE]
    return role


class WrongTokens:
    """The times of recent wrong tokens, by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def note(self, address: str) -> None:
        """Record a wrong token from `address`."""
        self._times.setdefault(address, deque(maxlen=WRONG_TOKENS)).append(self._clock())
        self._times.move_to_end(address)
        if len(self._times) > ADDRESSES:
            self._times.popitem(last=False)

    def wait(self, address: str) -> int:
        """Return the seconds until `address` may try again, rounded up; 0 if it may try now."""
        times = self._times.get(address)
        if times is None or len(times) < WRONG_TOKENS:
            return 0
        return max(0, math.ceil(times[0] + WINDOW_S - self._clock()))


@dataclass
class Access:
    """The access rules of one server."""

    token: str | None  # of operators; None: no token is needed
    read_only: bool  # whether all clients are spectators
    hosts: frozenset[str] | None = None  # host names in addition to the machine's own, from streamHosts
    spectator_token: str | None = None  # different from `token`; None: spectators have no token of their own
    owner: int | None = None  # user number; programs of this user on this machine are let in without a token
    rate: float | None = None  # requests per second of one address with one token; None: no limit
    wrong: WrongTokens = field(default_factory=WrongTokens)

    def __post_init__(self) -> None:
        self._names = own_names() | {name.lower() for name in self.hosts or ()}
        self._highest = Role.SPECTATOR if self.read_only else Role.OPERATOR
        tokens = ((self._highest, self.token), (Role.SPECTATOR, self.spectator_token))
        self._tokens = [(role, token) for role, token in tokens if token is not None]
        key = secrets.token_bytes(32)
        self._cookies = [(role, hmac.new(key, role.value.encode(), hashlib.sha256).hexdigest()) for role in Role]

    @property
    def link_token(self) -> str | None:
        """The token that the owner's link needs."""
        return self.token if self.owner is None else None

    @property
    def only_watch(self) -> str:
        """The reason why spectators may not control."""
        if self.read_only:
            return "streamReadOnly"
        return "you used the spectators' token; operators have another one"

    def cross_origin(self, connection: HTTPConnection) -> Response | None:
        """Return the 421 or 403 for an unknown host or a cross-origin request; None if the request is allowed."""
        host = connection.headers.get("host", "")
        name = host_name(host)
        if not (name in self._names or _is_address(name)):
            message = f"The host {name!r} is unknown. If it is yours, start with streamHosts=[{name}].\n"
            return PlainTextResponse(message, 421)
        origin = connection.headers.get("origin")
        if origin is not None and not _same_host(origin, host):
            return PlainTextResponse(f"A page of {origin!r} may not send requests to {host!r}.\n", 403)
        return None

    def admit(self, connection: HTTPConnection) -> Role | Response:
        """Return the role of a request, or the answer to one without a valid token or cookie.

        A page request with a valid token in its URL is redirected to the same URL without it. A valid token determines
        the role even if there is a cookie; with a wrong token, the role is that of the cookie, or of the owner.
        """
        if self.token is None:
            return self._highest
        in_url = connection.query_params.get("token")
        offered = _bearer(connection) if in_url is None else in_url
        role = _role_with(self._cookies, connection.cookies.get(_cookie_name(connection), ""))
        role = role or self._role_of_owner(connection)
        if role is None or offered is not None:
            judged = self._judge(connection, offered)
            if isinstance(judged, Role):
                role = judged
            elif role is None:
                return judged
        # A page's address is copied and bookmarked, so the token leaves it immediately.
        if in_url and wants_page(connection):
            return self._redirect(connection, _path_without_token(connection), role)
        return role

    def _role_of_owner(self, connection: HTTPConnection) -> Role | None:
        """Return the role of a client that is a program of the owner; None for any other client."""
        scope = connection.scope
        if self.owner is None or scope.get("client") is None or scope.get("server") is None:
            return None
        return self._highest if peer_uid(scope["client"], scope["server"]) == self.owner else None

    def login(self, connection: HTTPConnection, body: bytes) -> Response:
        """Return the answer to a submitted form with the fields `token` and `next`."""
        fields = parse_qs(body.decode("utf-8", "replace"))
        next_path = local_path(fields.get("next", ["/"])[0])
        if self.token is None:
            return RedirectResponse(next_path, 303)
        judged = self._judge(connection, fields.get("token", [""])[0].strip(), next_path)
        return self._redirect(connection, next_path, judged) if isinstance(judged, Role) else judged

    def _judge(self, connection: HTTPConnection, offered: str | None, next_path: str | None = None) -> Role | Response:
        """Check an offered token; return its role, or the refusal if the token is wrong."""
        if offered is None:
            return _ask(connection, next_path, 401, "")
        # Compared first: who shares an address with an attacker, as behind a proxy, must not be kept out by him.
        role = _role_with(self._tokens, offered)
        if role is not None:
            return role
        address = address_of(connection)
        wait = self.wrong.wait(address)
        if wait:
            answer = _ask(connection, next_path, 429, f"That token is wrong, like many before; wait {wait} s.")
            answer.headers["retry-after"] = str(wait)
            return answer
        self.wrong.note(address)
        return _ask(connection, next_path, 401, "That token is wrong.")

    def _redirect(self, connection: HTTPConnection, path: str, role: Role) -> Response:
        """Return the redirect to `path` that gives the browser the cookie of a role."""
        answer = RedirectResponse(path, 303)
        cookie = dict(self._cookies)[role]
        # Lax: with a strict cookie, a link in a mail or a chat would not work, because browsers do not send it in a
        # redirect that another site's link began. Opening a link changes nothing here.
        answer.set_cookie(_cookie_name(connection), cookie, path="/", httponly=True, samesite="lax")
        return answer


def address_of(connection: HTTPConnection) -> str:
    """Return the address of a client; empty if it has none."""
    return connection.client.host if connection.client else ""


def own_names() -> frozenset[str]:
    """Return the names of this machine. No name server is asked, because it may take seconds to time out."""
    name = socket.gethostname().lower()
    short = name.partition(".")[0]
    return frozenset({"localhost", name, short, f"{short}.local", *(f"{short}.{domain}" for domain in _domains())})


def _domains() -> list[str]:
    """Return the domains in which this machine looks up short names."""
    try:
        lines = Path("/etc/resolv.conf").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [
        word.lower().strip(".") for line in lines if line.startswith(("search", "domain")) for word in line.split()[1:]
    ]


def host_name(host: str) -> str:
    """Return the name in a `Host` header, in lower case, without port, brackets and final dot; empty if invalid."""
    try:
        return (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def wants_page(connection: HTTPConnection) -> bool:
    """Return whether a browser asks for a page, rather than a tool or a script for data."""
    is_read = connection.scope["type"] == "http" and connection.scope["method"] in ("GET", "HEAD")
    return is_read and "text/html" in connection.headers.get("accept", "")


def local_path(path: str) -> str:
    """Return `path` in a form that cannot lead to another host: browsers read `//name` and `/\\name` as hosts."""
    return "/" + path.lstrip("/\\\t\r\n ")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_host(origin: str, host: str) -> bool:
    scheme, _, rest = origin.lower().partition("://")
    return scheme in ("http", "https") and rest == host.lower()


def _role_with(secrets_of: list[tuple[Role, str]], offered: str) -> Role | None:
    """Return the role whose secret was offered; None if it is no role's. All are compared, each in constant time."""
    found = [role for role, secret in secrets_of if hmac.compare_digest(_bytes(offered), _bytes(secret))]
    return found[0] if found else None


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _bearer(connection: HTTPConnection) -> str | None:
    scheme, _, value = connection.headers.get("authorization", "").partition(" ")
    value = value.strip().encode("latin-1").decode("utf-8", "replace")  # a header is bytes, and users type UTF-8
    return value if scheme.lower() == "bearer" else None


def _cookie_name(connection: HTTPConnection) -> str:
    """Return the cookie's name. It contains the port, because browsers send a host's cookies to all of its ports."""
    digits = connection.headers.get("host", "").rpartition(":")[2]
    return f"livegym_{digits}" if digits.isdecimal() else "livegym"


def _path_without_token(connection: HTTPConnection) -> str:
    query = urlencode([(k, v) for k, v in connection.query_params.multi_items() if k != "token"])
    path = local_path(connection.scope["raw_path"].decode("latin-1"))
    if path == "/login":  # the form's own address, which the browser shows after a wrong token
        path = "/"
    return f"{path}?{query}" if query else path


def _ask(connection: HTTPConnection, next_path: str | None, status: int, problem: str) -> Response:
    """Return the form that asks for the token; to a tool, a line of text."""
    if next_path is not None or wants_page(connection):
        form = token_form(next_path or _path_without_token(connection), problem)
        return HTMLResponse(form, status, {"content-security-policy": POLICY})
    message = problem or "A token is needed."
    how = "Add ?token=... to the address or send it as Authorization: Bearer."
    return PlainTextResponse(f"{message} {how}\n", status, headers={"www-authenticate": "Bearer"})

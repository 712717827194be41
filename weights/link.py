"""The connections of a follower to a livegym server: bounded requests, and the news of new versions.

    link = Link(Address.parse("http://server:58080"), token=None)
    candidate = link.fetch(run_id, 41, most=2**20)       # LinkError: try again later; UserError: it cannot be used
    with link.news() as news:
        announced = news.next(timeout=1.0)                # Announced, or None

The server is not trusted. A request has a deadline for all of its answer, not only for the next byte, and the size of
an answer is known and allowed before memory is used for it. Redirects are not followed, so the token goes nowhere else.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import h11
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from livegym.rundir.safe_load import in_one_line
from livegym.utils.errors import UserError
from livegym.weights.address import TOKEN, Address
from livegym.weights.candidate import Candidate
from livegym.weights.message import LARGEST, MAX_BYTES, RUN_ID, RUN_NAME, decode

CONNECT_S = 5.0
HEAD_S = 10.0
"""Time for the head of an answer."""
SLOWEST = 16 * 1024  # bytes a second; a version that arrives more slowly is given up
PING_S = 5.0
"""Time after which a silent connection is tested, and again until it counts as lost."""
MAX_JSON = 2**20  # bytes of a list
MAX_NEWS = 4096  # bytes of an announcement
MAX_HEAD = 16 * 1024
PIECE = 64 * 1024


class LinkError(UserError):
    """The server cannot be reached, or does not answer in time: try again later."""


class Denied(UserError):
    """The server refuses this client; only its user can change that."""


class TokenNeeded(Denied):
    """The server asks for a token, and none was given."""


@dataclass(frozen=True)
class Announced:
    """A version that the server has."""

    run: str
    run_id: str
    version: int
    size: int  # bytes


@dataclass
class Answer:
    """The answer to one request."""

    status: int
    body: bytearray


class Link:
    """One follower's connections to one server. Used by one thread at a time."""

    def __init__(self, address: Address, token: str | None) -> None:
        self.address = address
        self.token = token
        self._tls = ssl.create_default_context() if address.secure else None
        self._socket: socket.socket | None = None
        self._http = h11.Connection(h11.CLIENT)

    def newest(self) -> Announced | None:
        """The newest version of the run that is followed there, or of the run in the address; None if there is none.

        Raises LinkError, Denied, or UserError if there is no such run.
        """
        listed = self._json("runs")
        wanted = self.address.run
        runs = [run for run in _dicts(listed) if wanted in (None, run.get("run_id"), run.get("run"))]
        if wanted is not None and not runs:
            known = ", ".join(str(run.get("run"))[:80] for run in _dicts(listed)[:5]) or "none"
            raise UserError(f"{self.address.name}: has no run {wanted!r}. Its runs: {known}")
        current = next((run for run in runs if type(run.get("version")) is int), None)
        if current is not None:
            return _announced({**current, "bytes": 0})
        if wanted is None or not runs:
            return None
        listed_versions = self.versions(str(runs[0].get("run_id")))
        last = listed_versions[-1]["version"] if listed_versions else None
        return None if last is None else _announced({**runs[0], "version": last, "bytes": 0})

    def versions(self, run_id: str) -> list[dict[str, Any]]:
        """The versions of a run, the oldest first. Raises LinkError, Denied, or UserError."""
        found = [entry for entry in _dicts(self._json("versions", run_id)) if _is_version(entry.get("version"))]
        return sorted(found, key=lambda entry: entry["version"])

    def fetch(self, run_id: str, version: int, most: int = MAX_BYTES) -> Candidate:
        """One version, verified. Raises LinkError, Denied, or UserError if it cannot be used.

        `most`: bytes that it may have.
        """
        start = time.perf_counter()
        answer = self._get(self.address.path(run_id, version), most)
        found = decode(answer.body, self.address.name, 1000 * (time.perf_counter() - start))
        if (found.run_id, found.version) != (run_id, version):
            raise UserError(f"{self.address.name} sent version {found.version} of another run, or another version")
        return found

    def _json(self, name: str, *path: str) -> list[Any]:
        """The list `name` in an answer."""
        body = self._get(self.address.path(*path), MAX_JSON).body
        try:
            listed = json.loads(bytes(body))[name]
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise UserError(
                f"{self.address.name}: its answer has no list of {name}. Is it a livegym server?"
            ) from error
        return listed if isinstance(listed, list) else []

    def _get(self, path: str, most: int) -> Answer:
        """The answer to a GET, if its status is 200. A kept connection that the server has closed is made again."""
        kept = self._socket is not None
        try:
            answer = self._ask(path, most)
        except (OSError, h11.RemoteProtocolError) as error:
            self.close()
            if not kept or isinstance(error, TimeoutError):
                raise self._unreachable(error) from error
            try:
                answer = self._ask(path, most)
            except (OSError, h11.RemoteProtocolError) as again:
                self.close()
                raise self._unreachable(again) from again
        except UserError:
            self.close()
            raise
        if answer.status != 200:
            raise self._refused(answer.status, bytes(answer.body[:500]).decode("utf-8", "replace"))
        return answer

    def _ask(self, path: str, most: int) -> Answer:
        deadline = time.monotonic() + CONNECT_S + HEAD_S
        if self._socket is None:
            self._socket = self._connected()
            self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        headers = [*self._headers().items(), ("Accept", "*/*")]
        request = h11.Request(method="GET", target=path, headers=[("Host", self.address.host_header), *headers])
        sent = [self._http.send(request), self._http.send(h11.EndOfMessage())]
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        self._socket.sendall(b"".join(data for data in sent if data))
        head = self._event(deadline)
        while isinstance(head, h11.InformationalResponse):
            head = self._event(deadline)
        if not isinstance(head, h11.Response):
            raise h11.RemoteProtocolError("no answer")
        size = self._size(head, most if head.status_code == 200 else MAX_JSON)
        body = self._body(size, time.monotonic() + HEAD_S + size / SLOWEST)
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        else:
            self.close()
        return Answer(head.status_code, body)

    def _size(self, head: h11.Response, most: int) -> int:
        lengths = [value for name, value in head.headers if name == b"content-length"]
        if len(lengths) != 1:
            raise UserError(f"{self.address.name}: does not say how large its answer is. Is it a livegym server?")
        size = int(lengths[0])  # h11 has checked that it is a number
        if size > most:
            raise UserError(f"{self.address.name}: wants to send {size} bytes; allowed: at most {most}")
        return size

    def _body(self, size: int, deadline: float) -> bytearray:
        body = bytearray()
        while True:
            event = self._event(deadline)
            if isinstance(event, h11.EndOfMessage):
                return body
            if not isinstance(event, h11.Data):
                raise h11.RemoteProtocolError("the connection was closed")
            body += event.data
            if len(body) > size:
                raise h11.RemoteProtocolError("more than it said")

    def _event(self, deadline: float) -> Any:
        assert self._socket is not None, "it is connected"
        while (event := self._http.next_event()) is h11.NEED_DATA:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("it answers too slowly")
            self._socket.settimeout(left)
            self._http.receive_data(self._socket.recv(PIECE))
        return event

    def _connected(self) -> socket.socket:
        plain = socket.create_connection((self.address.host, self.address.port), CONNECT_S)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return self._tls.wrap_socket(plain, server_hostname=self.address.host) if self._tls else plain
        except BaseException:
            plain.close()
            raise

    def _headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    @contextlib.contextmanager
    def news(self) -> Iterator[News]:
        """The news of new versions, inside the block. Raises LinkError or Denied if they cannot be had."""
        address = self.address
        uri = f"ws{address.name.removeprefix('http')}/weights/ws"
        try:
            socket_ = connect(
                uri, ssl=self._tls, additional_headers=self._headers(), open_timeout=CONNECT_S, close_timeout=1.0,
                ping_interval=PING_S, ping_timeout=PING_S, max_size=MAX_NEWS, max_queue=4, compression=None, proxy=None,
            )  # fmt: skip
        except InvalidStatus as error:
            text = (error.response.body or b"")[:500].decode("utf-8", "replace")
            raise self._refused(error.response.status_code, text) from error
        except (OSError, InvalidHandshake, WebSocketException, EOFError) as error:
            raise self._unreachable(error) from error
        with socket_:
            yield News(self, socket_)

    def lost(self, error: BaseException) -> LinkError:
        """The error for a connection that has ended."""
        return LinkError(f"the connection to {self.address.name} was lost ({in_one_line(error)})")

    def _unreachable(self, error: BaseException) -> UserError:
        name = self.address.name
        if isinstance(error, ssl.SSLCertVerificationError):
            return Denied(
                f"{name}: its certificate is not accepted ({error.verify_message}). Allowed: one of a known authority "
                "for this host name. For one of your own, name the file of its authority: SSL_CERT_FILE=<file>"
            )
        if isinstance(error, ssl.SSLError):
            return LinkError(f"{name}: no TLS connection ({in_one_line(error)}). Without TLS: http://")
        return LinkError(f"{name}: cannot be reached ({in_one_line(error)})")

    def _refused(self, status: int, text: str) -> UserError:
        name, said = self.address.name, in_one_line(ValueError(text))
        if status == 401:
            kind, what = (TokenNeeded, "it needs a token") if self.token is None else (Denied, "that token is wrong")
            return kind(
                f"{name}: {what}. It is in the address that the server printed. Write it to a file that only you can "
                f'read, and give weightsTokenFile=<file>, or set {TOKEN}="$(cat <file>)"'
            )
        if status in (403, 421):
            return Denied(f"{name}: refuses this client: {said}")
        if status == 404:
            return UserError(f"{name}: {said}")
        return LinkError(f"{name}: answers {status}: {said}")

    def close(self) -> None:
        """Close the kept connection; the next request makes another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class News:
    """The announcements on one open connection."""

    def __init__(self, link: Link, opened: ClientConnection) -> None:
        self._link, self._opened = link, opened

    def next(self, timeout: float) -> Announced | None:
        """The next announcement; None if there is none within `timeout` s.

        Raises LinkError if the connection was lost, and UserError if what came is no announcement.
        """
        try:
            text = self._opened.recv(timeout)
        except TimeoutError:
            return None
        except (ConnectionClosed, OSError, EOFError) as error:
            raise self._link.lost(error) from error
        try:
            return _announced(json.loads(text))
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise UserError(f"{self._link.address.name}: its announcement is none. Is it a livegym server?") from error


def _announced(content: dict[str, Any]) -> Announced:
    """Raises LookupError, TypeError or ValueError if this is no announcement."""
    run, run_id, version, size = (content[name] for name in ("run", "run_id", "version", "bytes"))
    if not (RUN_NAME.fullmatch(run) and RUN_ID.fullmatch(run_id) and _is_version(version) and _is_version(size)):
        raise ValueError("an invalid value")
    return Announced(run, run_id, version, size)


def _is_version(value: object) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _dicts(listed: list[Any]) -> list[dict[str, Any]]:
    return [entry for entry in listed if isinstance(entry, dict)]

"""An address of a livegym server, as `checkpoint=` takes it, and the token that the server asks for.

    Address.parse("http://server:58080")                      # the run that is followed there
    Address.parse("https://server/robots/weights/<run>")      # behind a proxy; one run, by name or id
    Address.parse("http://server:58080/weights/<run>/41")     # one version

A token never stands in an address: every user of a machine sees the arguments of its processes. It comes from a file
that only its owner can read, from an environment variable, or from a prompt.
"""

from __future__ import annotations

import getpass
import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlsplit

from livegym.utils.addresses import TOKEN as TOKEN
from livegym.utils.addresses import is_address, refuse_secrets, shown
from livegym.utils.errors import UserError

LONGEST_TOKEN = 512  # characters
_PATH = re.compile(r"(?P<prefix>(/(?!weights(/|$))[^/?#]+)*)(/weights(/(?P<run>[^/]+)(/(?P<version>\d{1,15}))?)?)?/?")
_FORMS = "http://server:58080, https://server, or one of these with /weights/<run> or /weights/<run>/<version>"


@dataclass(frozen=True)
class Address:
    """One server, and what of it is meant."""

    secure: bool  # https
    host: str
    port: int
    prefix: str = ""  # of all paths, if a proxy serves livegym below one: "" or "/robots"
    run: str | None = None  # name or id; None: the run that is followed there
    version: int | None = None  # None: the newest

    @classmethod
    def parse(cls, text: str) -> Address:
        """Raises UserError unless `text` is such an address; the message never contains a token."""
        refuse_secrets(text)
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise UserError(f"checkpoint={shown(text)}: is not an address ({error}). Allowed: {_FORMS}") from error
        found = _PATH.fullmatch(parts.path)
        if not is_address(text) or not parts.hostname or found is None or not text.isprintable():
            raise UserError(f"checkpoint={shown(text)}: is not such an address. Allowed: {_FORMS}")
        secure = parts.scheme == "https"
        version = None if found["version"] is None else int(found["version"])
        return cls(secure, parts.hostname, port or (443 if secure else 80), found["prefix"], found["run"], version)

    @property
    def name(self) -> str:
        """The address of the server, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.prefix}"

    @property
    def host_header(self) -> str:
        """The `Host` of a request."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    def path(self, *parts: str | int) -> str:
        """The path of a route below /weights."""
        return "/".join([f"{self.prefix}/weights", *(quote(str(part), safe="") for part in parts)])


def given_token(file: str | None) -> str | None:
    """The token in `file`; without a file, that of the environment variable; None if neither is given.

    Raises UserError if the file cannot be read, is empty, or if other users can read it.
    """
    if file is None:
        return os.environ.get(TOKEN) or None
    path = Path(file).expanduser()
    try:
        with path.open(encoding="utf-8") as opened:
            found = os.fstat(opened.fileno())
            text = opened.read(LONGEST_TOKEN + 2).strip()
    except (OSError, ValueError) as error:
        raise UserError(f"weightsTokenFile={file}: cannot be read ({error}). Allowed: a file with the token") from error
    if found.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        raise UserError(f"weightsTokenFile={file}: other users can read it. Allow only yourself: chmod 600 {file}")
    return checked_token(text, f"weightsTokenFile={file}")


def checked_token(token: str, where: str) -> str:
    """The token. Raises UserError if it cannot be one. The message says `where` it is from, and not what it is."""
    if not token or len(token) > LONGEST_TOKEN or not (token.isascii() and token.isprintable()):
        raise UserError(f"{where}: has no usable token. Allowed: 1 to {LONGEST_TOKEN} printable ASCII characters")
    return token


def ask_for_token(address: Address) -> str | None:
    """The token that the user types without an echo; None if there is no terminal, or nothing is typed."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    try:
        typed = getpass.getpass(f"token of {address.name}: ")
    except EOFError:
        return None
    return checked_token(typed.strip(), "the typed token") if typed.strip() else None

"""Whether other people use this machine: each of them can connect to a port that is bound to loopback.

    others_use_this_machine()

They do if there are accounts of people besides this one: an account in the password file with a shell, a home or a
session that belongs to another person (the accounts of a directory service are in no file), or if this account itself
comes from a directory service.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

PEOPLE = range(1000, 60_000)
"""Numbers of people's accounts; those of services are outside."""
PASSWD = Path("/etc/passwd")
PLACES = (Path("/home"), Path("/run/user"))
NO_SHELLS = ("nologin", "false", "sync", "")


def others_use_this_machine(passwd: Path = PASSWD, places: tuple[Path, ...] = PLACES) -> bool:
    """Return whether another person may use this machine."""
    own = os.getuid()
    listed = list(_listed(passwd))
    if any(uid != own and uid in PEOPLE and shell not in NO_SHELLS for uid, shell in listed):
        return True
    if any(uid != own and uid in PEOPLE for place in places for uid in _owners(place)):
        return True
    return own not in {uid for uid, _ in listed} and _is_known(own)


def _listed(passwd: Path) -> Iterator[tuple[int, str]]:
    """Yield the user number and the name of the shell of each account in the password file."""
    with contextlib.suppress(OSError):
        for line in passwd.read_text("utf-8", "replace").splitlines():
            fields = line.split(":")
            if len(fields) == 7 and fields[2].isdecimal():
                yield int(fields[2]), fields[6].rpartition("/")[2]


def _owners(place: Path) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            with contextlib.suppress(OSError):
                yield entry.stat().st_uid


def _is_known(uid: int) -> bool:
    """Return whether any service knows this account; a container may run as a number without a name."""
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True

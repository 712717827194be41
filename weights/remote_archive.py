"""The versions that a server has, from which older ones are loaded if a user asks for them.

It is to an address what `Archive` is to a run's directory: `refresh`, `entries`, `get` and `load` are used in the same
way. The list is brought up to date by the thread of the connection, so that no other thread waits for the network.
Only `load` does.
"""

from __future__ import annotations

import math
import time
from typing import Any

from livegym.utils.errors import UserError
from livegym.weights.archive import ArchivedVersion
from livegym.weights.candidate import Candidate, Label
from livegym.weights.link import Link
from livegym.weights.message import LARGEST

RELIST_S = 10.0  # age of the list after which it is made again
SHOWN = 200  # the newest versions of the list


class RemoteArchive:
    """The versions of the run that an address follows now."""

    def __init__(self, link: Link, first: Candidate) -> None:
        """`link`: a connection for loading; `first`: a version of the run whose labels are plain numbers."""
        self._link = link
        self._first_run = first.run
        self._wanted = False
        self._listed_at = float("-inf")
        self._listed: tuple[str, str] = ("", "")  # name and id of the run whose versions are listed
        self.entries: tuple[ArchivedVersion, ...] = ()

    def refresh(self) -> None:
        """Ask for a list that is up to date; it is there after a while."""
        self._wanted = True

    def bring_up_to_date(self, newest: Candidate, link: Link) -> None:
        """List the versions of the run again by `link` if the list is old. Raises LinkError if that fails."""
        moved = self._listed[1] != newest.run_id
        if not self._wanted or (not moved and time.monotonic() - self._listed_at < RELIST_S):
            return
        self._listed_at = time.monotonic()
        self._listed = (newest.run, newest.run_id)
        prefix = "" if newest.run == self._first_run else f"{newest.run}: "
        listed = link.versions(newest.run_id)[-SHOWN:]
        self.entries = tuple(_entry(f"{prefix}{v['version']}" if prefix else v["version"], v) for v in listed)

    def get(self, label: Label) -> ArchivedVersion | None:
        """The entry of this version; None if there was none when the list was made."""
        return next((entry for entry in self.entries if entry.label == label), None)

    def load(self, label: Label) -> Candidate:
        """The verified weights of a version. Raises UserError if the server does not have it any more."""
        if self.get(label) is None:
            raise UserError(f"version {label} is not on {self._link.address.name} any more")
        version = int(str(label).rpartition(": ")[2])
        try:
            return self._link.fetch(self._listed[1], version)
        except UserError as error:
            raise UserError(f"version {label} cannot be loaded: {error}") from error


def _entry(label: Label, listed: dict[str, Any]) -> ArchivedVersion:
    epoch = listed.get("epoch")
    score = listed.get("score")
    made = listed.get("made")
    known = epoch if type(epoch) is int and 0 <= epoch <= LARGEST else 0
    return ArchivedVersion(label, None, known, _finite(score), _finite(made))


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None

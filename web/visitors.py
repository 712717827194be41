"""The visitors of a page: each browser has a role and a name, so that others see who paused or pinned.

    visitors = Visitors()
    visitor = visitors.of(socket)      # of the pages in one browser
    visitor.name                       # "operator 2", or the name that its user has chosen
    visitor.rename("Ada")

A browser has an id of its own, which its pages send in the address of their WebSocket. So it keeps its number when a
page is reloaded or connects again.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from starlette.websockets import WebSocket

from livegym.web.access import Role, role_of
from livegym.web.pages import PageMessageError

KEPT = 256  # browsers that are remembered; the one that connected longest ago is forgotten first
LONGEST_ID = 64  # characters
LONGEST_NAME = 24  # characters


@dataclass
class Visitor:
    """One browser in one role."""

    role: Role
    number: int  # counts the visitors in this role, from 1
    chosen: str = ""  # the name that its user has chosen

    @property
    def name(self) -> str:
        """The name that the others see."""
        return self.chosen or f"{self.role.value} {self.number}"

    @property
    def may_control(self) -> bool:
        """Whether requests of this visitor are carried out."""
        return self.role is Role.OPERATOR

    def rename(self, name: str) -> None:
        """Choose a name; an empty one restores the number. Raises PageMessageError if it cannot be shown."""
        words = " ".join(name.split())
        if len(words) > LONGEST_NAME or not words.isprintable():
            raise PageMessageError(f"name: allowed are at most {LONGEST_NAME} printable characters")
        self.chosen = words


class Visitors:
    """The visitors of one server."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Role], Visitor] = OrderedDict()
        self._counts = dict.fromkeys(Role, 0)

    def of(self, socket: WebSocket) -> Visitor:
        """Return the visitor whose WebSocket this is. Without an id in the address it is a new one."""
        key = (socket.query_params.get("visitor", "")[:LONGEST_ID] or secrets.token_hex(8), role_of(socket))
        if key not in self._known:
            self._counts[key[1]] += 1
            self._known[key] = Visitor(key[1], self._counts[key[1]])
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

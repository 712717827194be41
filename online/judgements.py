"""The champion's last judgement of each version.

said = Judgements()
said.say(version=7, state="live", why="...", gain=0.1)   # the watching thread
said.last                                                # any thread: of the newest version
said.of(7)                                               # any thread
"""

from __future__ import annotations

from typing import Any

KEPT = 500  # versions, counted back from the newest
GAIN = ("gain", "gain_low", "gain_high")


class Judgements:
    """The judgements of the newest versions. Dictionaries are replaced and never changed, so readers need no lock."""

    def __init__(self) -> None:
        self.last: dict[str, Any] = {"version": None, "state": None, "why": "", "kl": None, **dict.fromkeys(GAIN)}
        self._of: dict[int, dict[str, Any]] = {}

    def say(self, **entries: Any) -> None:
        """Change entries of the last judgement; with another `version`, it is the judgement of that one."""
        self.last = {**self.last, **entries}
        version = self.last["version"]
        newer = {known: said for known, said in self._of.items() if known > version - KEPT}
        self._of = {**newer, version: self.last}

    def of(self, version: int) -> dict[str, Any] | None:
        """Return `state`, `why`, `kl` and the entries of `GAIN` of a version; None if nothing is known of it."""
        return self._of.get(version)

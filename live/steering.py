"""What people and programs may ask of a live policy, from any thread; it takes effect between two control steps."""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from livegym.live.history import History, Kept
from livegym.live.pool import Pool
from livegym.live.transition import SwapRule
from livegym.utils.errors import UserError
from livegym.weights.candidate import Label, SwapEvent

Command = Callable[[], "SwapEvent | None"]


class Steerable(ABC):
    """The part of a live policy that others may call; it only queues commands."""

    history: History
    pool: Pool
    rule: SwapRule

    def __init__(self) -> None:
        self.pinned = False
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()

    @property
    @abstractmethod
    def label(self) -> Label:
        """The acting version's label."""

    @abstractmethod
    def _roll_back(self, label: Label | None) -> SwapEvent: ...

    def pin(self) -> None:
        """From now on no other version takes over by itself."""
        self._commands.put(lambda: self._set_pinned(True))

    def follow(self) -> None:
        """The end of `pin`: the newest version takes over, and those that come."""
        self._commands.put(lambda: self._set_pinned(False))

    def rollback(self, label: Label | None = None) -> None:
        """Goes back to a version of the history, None: the one before the acting one, and pins it.

        Raises UserError where that is not kept.
        """
        self._kept_or_refused(label)
        self._commands.put(lambda: self._roll_back(label))

    def cast(self, env_id: int, label: Label) -> None:
        """Version `label` acts in an environment of the pool, until `release`. Raises UserError; see `Pool.cast`."""
        self.pool.check(env_id, label)
        self._commands.put(lambda: self.pool.cast(env_id, label))

    def release(self, env_id: int) -> None:
        """The end of `cast`, with the environment's next episode."""
        self._commands.put(lambda: self.pool.release(env_id))

    def compare(self, first: Label, second: Label) -> None:
        """Two kept versions act, in even and in odd environments, until `end_comparison`.

        Raises UserError where one is not kept.
        """
        self.pool.kept(first), self.pool.kept(second)
        self._commands.put(lambda: self.pool.compare(first, second))

    def end_comparison(self) -> None:
        """The acting version acts again, and in the pool's environments what it was drawn for."""
        self._commands.put(lambda: self.pool.end_comparison(self.label))

    def set_rule(self, how: str, blend_steps: int) -> None:
        """How the next versions take over; one that is taking over goes on as it began."""
        self._commands.put(lambda: self._set_rule(how, blend_steps))

    def _set_rule(self, how: str, blend_steps: int) -> None:
        self.rule = replace(self.rule, how=how, blend_steps=blend_steps)

    def _set_pinned(self, pinned: bool) -> None:
        self.pinned = pinned

    def _kept_or_refused(self, label: Label | None) -> Kept:
        kept = self.history.before(self.label) if label is None else self.history.get(label)
        if kept is None:
            wanted = "there is none before the acting one" if label is None else f"version {label} is not kept"
            labels = ", ".join(map(str, self.history.labels)) or "none"
            raise UserError(f"rollback: {wanted}. Kept: {labels} (historySize={self.rule.history})")
        return kept

"""A line a minute about learning, for the run's log file; on a terminal, a table shows the same at any time.

    learning: 1,234 update rounds (+60), version 1,235, loss 0.031, batch 32.0, reward 0.980, agreement 100 %, training

If episodes end, their mean return follows the reward, which may be the same for every decision. There is no line while
nothing changes. A trainer that stops to wait says so once.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from livegym.utils.log import ROUTINE
from livegym.utils.words import count

log = logging.getLogger(__name__)

EVERY = 60.0  # s between lines


class LearningLog:
    """Logs how learning proceeds."""

    def __init__(self, quiet: bool) -> None:
        """`quiet`: to the log file only, because the terminal shows a table."""
        self._extra = ROUTINE if quiet else None
        self._due = time.monotonic() + EVERY
        self._last: tuple[Any, ...] = ()
        self._rounds = 0  # at the last line

    def update(self, reading: dict[str, Any], now: float | None = None) -> None:
        """Log the `reading` of a `Status` if a line is due; `now`: monotonic s, None: the present."""
        now = time.monotonic() if now is None else now
        if now < self._due:
            return
        self._due = now + EVERY
        trainer = reading["trainer"]
        changing = (trainer["state"], trainer["training_steps"], reading["serving"]["version"])
        if changing == self._last:
            return
        self._last = changing
        log.info("learning: %s", ", ".join(self._facts(reading)), extra=self._extra)

    def _facts(self, reading: dict[str, Any]) -> list[str]:
        trainer, reward = reading["trainer"], reading["rewards"]["mean"]
        rounds = trainer["training_steps"]
        known = "unknown number of update rounds"
        if rounds is not None:
            known = f"{count(rounds, 'update round')} (+{max(0, rounds - self._rounds):,})"
            self._rounds = rounds
        facts = [known, f"version {reading['serving']['version']:,}"]
        for name, value, form in (
            ("loss", trainer["average_loss"], "{:.3g}"),
            ("batch", trainer["average_batch_size"], "{:.1f}"),
            ("reward", reward, "{:.3f}"),
            ("return", reading["episodes"]["return_mean"], "{:.1f}"),
            ("agreement", trainer["agreement"], "{:.0%}"),
        ):
            if value is not None:
                facts.append(f"{name} {form.format(value)}".replace("%", " %"))
        why = f" ({trainer['why']})" if trainer.get("why") else ""
        return [*facts, f"{trainer['state']}{why}"]

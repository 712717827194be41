"""Progress display of continuous training, in the style of training's: decisions, reward, version, buffer.

It shows nothing new while nothing changes: a stream may give an observation only every few minutes.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from livegym.serve.learning_log import LearningLog
from livegym.utils.display import Display, Facts
from livegym.utils.words import count, number

FEW = 100
"""A mean of fewer decisions is shown with their number."""


class StreamProgress(Display):
    """Shows the status of a continuous run on the console."""

    def __init__(self, title: str, console: Console) -> None:
        super().__init__(console)
        self._title = title
        self._last: tuple[Any, ...] = ()
        self._learning = LearningLog(quiet=console.is_terminal)

    def update(self, reading: dict[str, Any]) -> None:
        """Show the `reading` of a `Status` if it is time to, and something has changed since it was last shown.

        Learning is also logged, once a minute.
        """
        self._learning.update(reading)
        trainer = reading["trainer"]
        changing = (reading["decisions"]["total"], reading["serving"]["version"], trainer["state"], trainer["restarts"])
        if changing != self._last:
            self.show(self._title, Text(), lambda: self._facts(reading, changing))

    def _facts(self, reading: dict[str, Any], changing: tuple[Any, ...]) -> Facts:
        self._last = changing
        decisions, buffer = reading["decisions"], reading["buffer"]
        rate, rewards = decisions["per_second"], reading["rewards"]
        returned = reading["episodes"]["return_mean"]
        few = f" (of {count(rewards['count'], 'decision')})" if rewards["count"] < FEW else ""
        facts = {
            "decisions": f"{decisions['total']:,}",
            "decisions/s": "unknown" if rate is None else number(rate),
            "mean reward": "none yet" if rewards["mean"] is None else f"{rewards['mean']:.3f}{few}",
            **({} if returned is None else {"mean return": number(returned)}),
            "version": f"{reading['serving']['version']:,}",
            "buffer": f"{buffer['size']:,}/{buffer['capacity']:,}",
        }
        if reading["gate"] != "off":
            share = decisions["send_rate"]
            facts["sent"] = "none yet" if share is None else f"{100 * share:.0f} %"
        facts["trainer"] = str(reading["trainer"]["state"])
        return facts

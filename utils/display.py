"""A progress display: a table that is redrawn in a terminal, otherwise one plain line every few seconds.

with Display(console) as display:
    display.show("training Ant", head, facts)   # facts() -> {"iteration": "3/500", ...}; called only if it is shown

`rl/progress.py` and `serve/progress.py` derive from it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

log = logging.getLogger(__name__)

PLAIN_INTERVAL = 5.0  # s between plain lines
REFRESH_RATE = 4.0  # 1/s, of the table

Facts = dict[str, str]
"""Facts to show: name -> value."""


class Display:
    """Shows facts about a run on the console. It carries on without a terminal if that is gone."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._shown_at = 0.0

    def show(self, title: str, head: RenderableType, facts: Callable[[], Facts], now: bool = False) -> None:
        """Show `facts()` if it is time to, or if `now`. The table begins with `title` and `head`."""
        interval = PLAIN_INTERVAL if self._live is None else 1 / REFRESH_RATE
        if not now and time.monotonic() - self._shown_at < interval:
            return
        self._shown_at = time.monotonic()
        live = self._live
        if live is None:
            log.info("%s", ", ".join(f"{name} {value}" for name, value in facts().items()))
        else:
            self._guarded(lambda: live.update(_table(title, head, facts()), refresh=True))

    def _guarded(self, draw: Callable[[], None]) -> None:
        try:
            draw()
        except OSError as error:  # if an ssh session ends, its terminal is gone, but the run must continue
            self._live = None
            log.warning("the terminal is gone (%s); the run continues without a display.", error)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._guarded(self._live.start)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._guarded(self._live.stop)


def _table(title: str, head: RenderableType, facts: Facts) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    table.add_row(title, head)
    for name, value in facts.items():
        table.add_row(name, value)
    return table

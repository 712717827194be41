"""Progress display of a training run: a live table in a terminal, otherwise one plain line every few seconds."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from livegym.rl.learner import Iteration
from livegym.tasks.stats import EpisodeSummary

log = logging.getLogger(__name__)

PLAIN_INTERVAL = 5.0  # s between plain lines
REFRESH_RATE = 4.0  # 1/s, of the live table


class Throughput:
    """Frames per second and remaining time, averaged over the last iterations."""

    def __init__(self, max_iterations: int) -> None:
        self.max_iterations = max_iterations
        self._seconds_per_iteration: float | None = None
        self._fps: float | None = None

    def add(self, it: Iteration) -> None:
        """Add an iteration to the exponential moving averages, whose decay is 0.9 per iteration."""
        fade = 0.9 if self._fps is not None else 0.0
        self._fps = fade * (self._fps or 0.0) + (1 - fade) * it.frames / it.seconds
        self._seconds_per_iteration = fade * (self._seconds_per_iteration or 0.0) + (1 - fade) * it.seconds

    @property
    def fps(self) -> float:
        """Control steps of all environments per second."""
        return self._fps or 0.0

    def eta(self, epoch: int) -> float:
        """Estimated time to the end of the last iteration, in s."""
        return (self.max_iterations - epoch) * (self._seconds_per_iteration or 0.0)


class EpisodeTally:
    """Summary of all episodes since the last display, not only of those of the last iteration."""

    def __init__(self, success_reason: str | None) -> None:
        self.success_reason = success_reason
        self._reasons: Counter[str] = Counter()
        self._metrics: dict[str, float] = {}  # sums
        self._metric_episodes = 0
        self._level: float | None = None
        self._facts: dict[str, str] = {}

    def add(self, report: EpisodeSummary) -> None:
        """Add the episodes of one iteration."""
        self._reasons.update(report.reason_counts)
        self._metric_episodes += report.metric_episodes
        for name, mean in report.metric_mean.items():
            self._metrics[name] = self._metrics.get(name, 0.0) + mean * report.metric_episodes
        self._level = report.level

    def take(self) -> dict[str, str]:
        """Return the summary since the last call, and clear it. If no episode has ended, repeat the previous one."""
        episodes = self._reasons.total()
        if episodes:
            rates = [(name, count) for name, count in self._reasons.most_common() if count]
            self._facts = {"ends": ", ".join(f"{name} {100 * count / episodes:.0f} %" for name, count in rates)}
            if self.success_reason is not None:
                success = {"success": f"{100 * self._reasons[self.success_reason] / episodes:.0f} %"}
                self._facts = success | self._facts
            if self._metrics:
                means = (f"{name} {total / self._metric_episodes:.2f}" for name, total in self._metrics.items())
                self._facts["episodes"] = ", ".join(means)
            self._reasons.clear()
            self._metrics, self._metric_episodes = {}, 0
        level = {} if self._level is None else {"level": f"{self._level:.2f}"}
        return self._facts | level


def duration(seconds: float) -> str:
    """A duration as text: '1:02:03' or '2:03'."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


class Progress:
    """Shows iterations as they end. `saved_age` gives the seconds since the last checkpoint, None before the first."""

    def __init__(
        self,
        title: str,
        max_iterations: int,
        saved_age: Callable[[], float | None],
        success_reason: str | None,
        console: Console | None = None,
    ) -> None:
        self.title = title
        self._episodes = EpisodeTally(success_reason)
        self._saved_age = saved_age
        self._rate = Throughput(max_iterations)
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._shown_at = 0.0
        self._last_line = 0.0

    def update(self, it: Iteration) -> None:
        """Show a finished iteration."""
        self._rate.add(it)
        self._episodes.add(it.report)
        if self._live is not None:
            self._draw(self._live, it)
        elif time.monotonic() - self._last_line >= PLAIN_INTERVAL or it.epoch in (1, self._rate.max_iterations):
            self._last_line = time.monotonic()
            log.info("%s", ", ".join(f"{name} {value}" for name, value in self._facts(it).items()))

    def _draw(self, live: Live, it: Iteration) -> None:
        """Redraw the table, at most `REFRESH_RATE` times a second. Stops drawing if the terminal is gone."""
        now = time.monotonic()
        if now - self._shown_at < 1 / REFRESH_RATE and it.epoch < self._rate.max_iterations:
            return
        self._shown_at = now
        self._guarded(lambda: live.update(self._table(it), refresh=True))

    def _guarded(self, draw: Callable[[], None]) -> None:
        try:
            draw()
        except OSError as error:  # if an ssh session ends, its terminal is gone, but training must continue
            self._live = None
            log.warning("the terminal is gone (%s); training continues without a display.", error)

    def _facts(self, it: Iteration) -> dict[str, str]:
        age = self._saved_age()
        facts = {
            "iteration": f"{it.epoch}/{self._rate.max_iterations}",
            "frames": f"{it.frame:,}",
            "frames/s": f"{self._rate.fps:,.0f}",
            "left": duration(self._rate.eta(it.epoch)),
            "mean return": "no episode yet" if it.mean_return is None else f"{it.mean_return:.2f}",
        }
        facts |= self._episodes.take()
        facts["checkpoint"] = "none yet" if age is None else f"{age:.0f} s ago"
        return facts

    def _table(self, it: Iteration) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column()
        table.add_row(self.title, ProgressBar(total=self._rate.max_iterations, completed=it.epoch, width=40))
        for name, value in self._facts(it).items():
            table.add_row(name, value)
        return table

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._guarded(self._live.start)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._guarded(self._live.stop)

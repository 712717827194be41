"""Progress display of a training run: a live table in a terminal, otherwise one plain line every few seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from rich.console import Console
from rich.progress_bar import ProgressBar

from livegym.rl.learner import Iteration
from livegym.tasks.stats import EpisodeSummary
from livegym.utils.display import Display


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
            self._facts = {"episodes": f"{episodes:,}"} | self._facts  # how many the rates are of
            if self._metrics:
                means = (f"{name} {total / self._metric_episodes:.2f}" for name, total in self._metrics.items())
                self._facts["metrics"] = ", ".join(means)
            self._reasons.clear()
            self._metrics, self._metric_episodes = {}, 0
        level = {} if self._level is None else {"level": f"{self._level:.2f}"}
        return self._facts | level


def _mean_return(it: Iteration) -> str:
    """The mean return, marked if it is that of a few episodes, because the first ones to end are the shortest."""
    if it.mean_return is None:
        return "no episode yet"
    return f"{it.mean_return:.2f}{'' if it.mean_is_full else ' (of few episodes)'}"


def duration(seconds: float) -> str:
    """A duration as text: '1:02:03' or '2:03'."""
    hours, rest = divmod(round(seconds), 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


class Progress(Display):
    """Shows iterations as they end. `saved_age` gives the seconds since the last checkpoint, None before the first."""

    def __init__(
        self,
        title: str,
        max_iterations: int,
        saved_age: Callable[[], float | None],
        success_reason: str | None,
        console: Console | None = None,
    ) -> None:
        super().__init__(console or Console(stderr=True))
        self.title = title
        self._episodes = EpisodeTally(success_reason)
        self._saved_age = saved_age
        self._rate = Throughput(max_iterations)

    def update(self, it: Iteration) -> None:
        """Show a finished iteration; the first and the last one at once."""
        self._rate.add(it)
        self._episodes.add(it.report)
        total = self._rate.max_iterations
        bar = ProgressBar(total=total, completed=it.epoch, width=40)
        self.show(self.title, bar, lambda: self._facts(it), now=it.epoch in (1, total))

    def _facts(self, it: Iteration) -> dict[str, str]:
        age = self._saved_age()
        facts = {
            "iteration": f"{it.epoch}/{self._rate.max_iterations}",
            "frames": f"{it.frame:,}",
            "frames/s": f"{self._rate.fps:,.0f}",
            "left": duration(self._rate.eta(it.epoch)),
            "mean return": _mean_return(it),
        }
        facts |= self._episodes.take()
        facts["checkpoint"] = "none yet" if age is None else f"{age:.0f} s ago"
        return facts

"""Reports a test: counts episodes, logs swaps, writes `results.json`, and prints the table at the end."""

from __future__ import annotations

import logging
import queue
from pathlib import Path

from rich.console import Console
from rich.table import Table

from livegym.live.swap import LivePolicy
from livegym.play.curves import TestCurves
from livegym.play.play import Listener, Player
from livegym.play.results import DRAW, Results, VersionTrace
from livegym.play.results_file import ResultsFile
from livegym.play.status_log import StatusLog, at_level
from livegym.tasks.env import Env, Step
from livegym.tasks.stats import FinishedEpisodes
from livegym.utils.log import ROUTINE
from livegym.utils.words import count
from livegym.weights.candidate import Label, SwapEvent, split_label

log = logging.getLogger(__name__)

VERSIONS_SHOWN = 10


class Reporter:
    """Collects a test's results, logs them, and writes them."""

    def __init__(self, results: Results, file: Path, endless: bool, summaries: Path | None = None) -> None:
        """`endless`: the test has no quota, so its status is logged, and its curves are written to `summaries`."""
        self.results = results
        self.file = ResultsFile(results, file)
        self.refusals: queue.SimpleQueue[SwapEvent] = queue.SimpleQueue()
        self._status = StatusLog(results) if endless else None
        self._curves = TestCurves(summaries) if endless and summaries is not None else None
        self._acting: Label = 0
        self._run = ""  # of the last swap

    def begin(self, env: Env, live: LivePolicy | None) -> Listener:
        """A listener that counts the episodes of `env`. They are played by `live`; None: by a scripted agent.

        It must be attached to the control loop of `env`.
        """
        self.results.begin(env.reason_names, env.success_reason, env.task.seat_names if env.seats > 1 else ())
        self.results.level = env.level
        if live is not None:
            self.results.note_level(live.label, live.acting.level)
        return _Counting(self, env.num_envs, live)

    def note_new_world(self, live: LivePolicy) -> None:
        """Record that a version that did not fit acts in environments that were built for it."""
        self.note_refusals()
        self.results.note(SwapEvent.of(live.acting, accepted=True, reason="reinit"))

    def note_swap(self, event: SwapEvent) -> None:
        """Record and log that new weights act from the next step on.

        The first swap of each run is shown on the terminal, and the later ones are only counted there.
        """
        self.note_refusals()
        routine = self.results.adopted > 0 and event.run == self._run
        self._run = event.run
        self.results.note(event)
        log.info(
            "now acting: version %s, epoch %s, training score %s%s (%s%s)",
            event.version,
            event.epoch,
            _number(event.score),
            at_level(event.level),
            event.reason or event.file or event.source,
            f", loaded in {event.load_ms:.3g} ms" if event.load_ms else "",
            extra=ROUTINE if routine else None,
        )

    def note_episode(self, ended: FinishedEpisodes, index: int, versions: list[Label], version: Label) -> None:
        """Count the episode at `index` of `ended`; see `Results.add`."""
        self.results.add(ended, index, versions, version)
        if self._curves is not None:
            episode = self.results.episodes[-1]
            success = self.results.success_reason
            self._curves.add({
                "return": episode["return"],
                "length": episode["length"],
                "success": None if success is None else float(episode["reason"] == success),
                "level": episode["level"] if self.results.level is not None else None,
            })  # fmt: skip

    def refresh(self, acting: Label) -> None:
        """Bring status line, curves and `results.json` up to date if they are due; `acting`: the version that acts."""
        self._acting = acting
        self.note_refusals()
        if self._status is not None:
            self._status.refresh(acting)
        if self._curves is not None:
            self._curves.refresh(acting)
        self.file.refresh()

    def write(self) -> bool:
        """Write the final results.json and the last points. Logs a warning and returns False if the file failed."""
        self.note_refusals()
        if self._curves is not None:
            self._curves.close(self._acting)
        return self.file.write()

    def note_refusals(self) -> None:
        """Record the versions that the watching thread has refused since the last call."""
        while not self.refusals.empty():
            self.results.note(self.refusals.get())

    def print_table(self, console: Console) -> None:
        """Print the summary on `console`."""
        results = self.results
        title = f"{results.header['task']}: {count(results.returns.count, 'episode')}"
        table = Table(title=title, title_justify="left")
        table.add_column("")
        table.add_column("value", justify="right")
        for name, value in self._summary().items():
            table.add_row(name, value)
        console.print(table)
        if len(results.by_version) > 1:
            console.print(self._versions_table())

    def _summary(self) -> dict[str, str]:
        results = self.results
        if not results.returns.count:
            return {"mean return": "no episode ended"}
        mean, stderr = _number(results.returns.mean), results.returns.stderr
        rows = {"mean return": mean}
        if stderr is not None:
            rows = {"mean return ± standard error": f"{mean} ± {_number(stderr)}"}
        rows["mean length"] = f"{results.lengths.mean:.1f} steps"
        if results.level is not None and results.levels_played is not None:
            rows["curriculum level"] = " to ".join(f"{level:.2f}" for level in sorted(set(results.levels_played)))
        if results.success_rate is not None:
            rows["success rate"] = f"{100 * results.success_rate:.1f} %"
        for winner, won in results.winners.most_common():
            rows["drawn" if winner == DRAW else f"won by {winner}"] = str(won)
        for reason, ended in results.reasons.most_common():
            rows[f"ended by {reason}"] = str(ended)
        if results.swaps:
            rows["swaps"] = f"{results.adopted} adopted, {results.refused} refused"
        return rows

    def _versions_table(self) -> Table:
        title = (
            f"the last {VERSIONS_SHOWN} versions; an episode counts for the version that acted in more of its steps "
            "than any other"
        )
        table = Table(title=title, title_justify="left")
        levels = self.results.levels
        for name in ("version", *(["level"] if levels else []), "episodes", "mean return", "standard error"):
            table.add_column(name, justify="right")
        in_order = sorted(self.results.by_version.items(), key=lambda item: split_label(item[0]))
        for version, m in in_order[-VERSIONS_SHOWN:]:
            level = [_number(levels.get(version))] if levels else []
            table.add_row(str(version), *level, str(m.count), _number(m.mean), _number(m.stderr))
        return table


class _Counting(Listener):
    """Counts the episodes of one world, and how many steps each version played in them."""

    def __init__(self, reporter: Reporter, num_envs: int, live: LivePolicy | None) -> None:
        self._reporter, self._results = reporter, reporter.results
        self._live = live
        self._acting: Label = live.label if live is not None else 0
        self._trace = VersionTrace(num_envs, self._acting)

    def on_change(self, env_ids: list[int], label: Label, player: Player) -> None:
        """Record that version `label` acts in these environments from the next step on."""
        lengths = player.env.episode_length[env_ids].tolist()
        for env_id, length in zip(env_ids, lengths, strict=True):
            self._trace.change(env_id, label, length)

    def on_restart(self, env_ids: list[int], player: Player) -> None:
        """Drop the open episodes of these environments, which a user restarts: they count for no version."""
        for env_id in env_ids:
            self._trace.close(env_id, int(player.env.episode_length[env_id]))

    def on_swap(self, event: SwapEvent, player: Player) -> None:
        """Report that new weights act from the next step on."""
        if self._live is not None:
            self._acting = self._live.label
            self._results.note_level(self._acting, event.level)
        self._reporter.note_swap(event)

    def on_step(self, step: Step, player: Player) -> None:
        """Count the episodes that ended in this step."""
        if step.ended is not None:
            self._count(step.ended, player)
        self._results.level = player.env.level
        self._reporter.refresh(self._acting)

    def on_rest(self, player: Player) -> None:
        """Bring the report up to date while the loop is paused or ahead of its clock."""
        self._reporter.refresh(self._acting)

    def _count(self, episodes: FinishedEpisodes, player: Player) -> None:
        for index, env_id in enumerate(episodes.env_ids.tolist()):
            versions, version = self._trace.close(env_id, int(episodes.lengths[index]))
            self._results.note_player(env_id, version)
            if player.counts(env_id):
                self._reporter.note_episode(episodes, index, versions, version)
                if self._live is not None:
                    self._live.history.note(version, float(episodes.returns[index]))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"

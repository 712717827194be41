"""The board that viewers read: the state of the test, the history of its policy, and the points of the plots.

    board = Board()
    player.attach(BoardWriter(board, world, results, controls))
    board.state                       # any thread: the newest snapshot, plain values for strict JSON
    board.since(seq)                  # any thread: the points that were added to the plots after number `seq`

A test has one board, and one writer for each world in which it plays. The control loop makes a new snapshot a few times
a second and exchanges one reference, so neither readers nor the loop ever wait. Lists are bounded: a page that is
opened after a week gets the recent points, and fewer of the older ones.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any

from livegym.live.swap import LivePolicy
from livegym.play.controls import Controls
from livegym.play.play import Listener, Player, ScriptedActor
from livegym.play.results import Results
from livegym.play.world import World
from livegym.tasks.env import Step
from livegym.tasks.stats import FinishedEpisodes
from livegym.utils.thinning import least_missed
from livegym.weights.candidate import Label, SwapEvent

SNAPSHOT_INTERVAL = 0.25  # s
TERMS_INTERVAL = 1.0  # s between points of the reward terms
POINTS = 1000  # of each kind; page/state.js keeps as many
VERSIONS_SHOWN = 50

Point = tuple[int, str, dict[str, Any]]
"""(sequence number, kind: episode, swap or terms; its values)"""


class Board:
    """The state and the plot points of one test, for its viewers."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"phase": "waiting", "text": "starting"}
        self._points: dict[str, list[Point]] = {"episode": [], "swap": [], "terms": []}
        self._seq = 0
        self._refused = 0  # number of the last refusal that has a point

    # for any thread

    def since(self, seq: int) -> list[Point]:
        """The points after number `seq`, in order."""
        last = self._seq  # read first: a point may be added to one list while another one is read
        found: list[Point] = []
        for points in self._points.values():
            found += [point for point in list(points) if seq < point[0] <= last]
        return sorted(found, key=lambda point: point[0])

    @property
    def seq(self) -> int:
        """The sequence number of the last point."""
        return self._seq

    # for the thread of the test only

    def wait(self, text: str) -> None:
        """Show that there is no policy yet, and the reason, which is `text`."""
        self.state = {"phase": "waiting", "text": text}

    def end(self) -> None:
        """Show that the test has ended; its last state stays."""
        self.state = {**self.state, "phase": "ended", "text": "the test has ended"}

    def show(self, state: dict[str, Any]) -> None:
        """Replace the snapshot. `state`: plain values, which must not be changed afterwards."""
        self.state = state

    def add(self, kind: str, values: dict[str, Any]) -> None:
        """Add a point to the plots. `values["t"]`: s since 1970; older points are thinned out with age."""
        points = self._points[kind]
        points.append((self._seq + 1, kind, values))
        if len(points) > POINTS:
            del points[least_missed([values["t"] for _, _, values in points])]
        self._seq += 1

    def add_refusals(self, refusals: Iterable[tuple[int, SwapEvent]]) -> None:
        """Add a point for each of these numbered refusals that has none yet."""
        for number, event in refusals:
            if number > self._refused:
                self._refused = number
                values = {"version": event.version, "epoch": event.epoch, "source": event.source}
                values |= {"label": None, "reason": event.reason}
                self.add("swap", {"t": round(event.time, 2), **values})


class BoardWriter(Listener):
    """Listens to the control loop of one world, and updates the board."""

    def __init__(self, board: Board, world: World, results: Results, controls: Controls) -> None:
        self._board = board
        self._results = results
        self._controls = controls
        self._env, self._live = world.env, world.live
        self._guard = world.guard
        actor = world.actor
        self._acting: Label = actor.kind if isinstance(actor, ScriptedActor) else actor.label
        self._labels: dict[int, Label] = dict.fromkeys(range(world.env.num_envs), self._acting)
        self._steps = 0
        self._shown_at = 0.0  # s, monotonic: the last snapshot
        self._terms_at = 0.0  # s, monotonic: the last point of reward terms
        self._rate = _Rate()
        self._snapshot(None)

    def on_swap(self, event: SwapEvent, player: Player) -> None:
        """Add a point for the swap: new weights act from the next step on."""
        self._acting = self._live.label if self._live is not None else self._acting
        values = {"version": event.version, "epoch": event.epoch, "source": event.source, "reason": event.reason}
        self._board.add("swap", {"t": round(event.time, 2), "label": self._acting, **values})
        self._shown_at = 0.0

    def on_change(self, env_ids: list[int], label: Label, player: Player) -> None:
        """Record that version `label` acts in these environments from the next step on."""
        self._labels |= dict.fromkeys(env_ids, label)

    def on_step(self, step: Step, player: Player) -> None:
        """Update the board after a control step."""
        self._steps += 1
        if step.ended is not None:
            self._add_episodes(step.ended, player)
        self._board.add_refusals(list(self._results.refusals))
        now = time.monotonic()
        if now - self._terms_at >= TERMS_INTERVAL:
            self._terms_at = now
            report = self._env.drain_report()
            if report.steps:
                means = {name: round(value, 5) for name, value in report.term_step_mean.items()}
                self._board.add("terms", {"t": round(time.time(), 2), "terms": means})
        self._refresh(player, now)

    def on_rest(self, player: Player) -> None:
        """Keep the snapshot fresh while the loop is paused or ahead of its clock."""
        self._refresh(player, time.monotonic())

    def _refresh(self, player: Player, now: float) -> None:
        if now - self._shown_at >= SNAPSHOT_INTERVAL:
            self._shown_at = now
            self._snapshot(player)

    def _add_episodes(self, episodes: FinishedEpisodes, player: Player) -> None:
        for index, env_id in enumerate(episodes.env_ids.tolist()):
            values = {
                "t": round(time.time(), 2),
                "env": env_id,
                "return": round(float(episodes.returns[index]), 4),
                "length": int(episodes.lengths[index]),
                "reason": self._env.reason_names[int(episodes.reasons[index])],
                "label": self._results.played_by.get(env_id, self._labels[env_id]),
                "level": float(episodes.levels[index]) if self._env.level is not None else None,
                "counts": player.counts(env_id),
            }
            self._board.add("episode", values)

    def _snapshot(self, player: Player | None) -> None:
        env = self._env
        controls = self._controls
        results = self._results
        comparing = controls.comparing
        played = results.returns.count
        state = {
            "phase": "playing",
            "now": round(time.time(), 2),
            "task": env.config.name,
            "level": env.level,
            "num_envs": env.num_envs,
            "control_dt": env.sim.control_dt,
            "paused": controls.paused,
            "by": {**controls.by, "pinned": self._live.pinned_by if self._live is not None else ""},
            "speed": controls.speed,
            "real_time": self._rate.update(self._steps * env.sim.control_dt),
            "recording": controls.recording,
            "comparing": list(comparing) if comparing else None,
            "episodes": played,
            "return_mean": round(results.returns.mean, 4) if played else None,
            "success_rate": results.success_rate,
            "reasons": dict(results.reasons),
            "lengths": env.episode_length.tolist(),
            "labels": [self._labels[env_id] for env_id in range(env.num_envs)],
            "left": player.left if player is not None else None,
            "newer_run": results.newer_run,
            "notices": list(controls.notices),
            "policy": _policy(self._live) if self._live is not None else None,
            "guard": self._guard.status._asdict() if self._guard is not None else None,
            "agent": self._acting if self._live is None else "policy",
        }
        self._board.show(state)


class _Rate:
    """Real-time factor: simulated seconds per second of wall time, over about the last two seconds."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, float]] = deque(maxlen=round(2 / SNAPSHOT_INTERVAL))

    def update(self, simulated: float) -> float | None:
        """The real-time factor, given the simulated time so far in s; None at first."""
        self._marks.append((time.monotonic(), simulated))
        (start, first), (now, last) = self._marks[0], self._marks[-1]
        return round((last - first) / (now - start), 3) if now - start > 0.1 else None


def _policy(live: LivePolicy) -> dict[str, Any]:
    acting, newest = live.acting, live.newest
    kept_versions = list(live.history)[-VERSIONS_SHOWN:]
    in_memory = {kept.label for kept in kept_versions}
    return {
        "run": acting.run,
        "label": live.label,
        "version": acting.version,
        "epoch": acting.epoch,
        "reward": acting.score,
        "level": acting.level,
        "made": acting.made,
        "source": acting.source,
        "newest": newest.label(live.first_run),
        "pinned": live.pinned,
        "swapping": live.swapping,
        "how": live.rule.how,
        "blend_steps": live.rule.blend_steps,
        "history": [
            {
                "label": kept.label,
                "epoch": kept.candidate.epoch,
                "level": kept.candidate.level,
                "made": kept.candidate.made,
                "episodes": kept.returns.count,
                "return": round(kept.returns.mean, 4) if kept.returns.count else None,
            }
            for kept in kept_versions
        ],
        "files": [
            {"label": entry.label, "epoch": entry.epoch, "made": entry.made, "reward": entry.score}
            for entry in live.archived[-VERSIONS_SHOWN:]
            if entry.label not in in_memory
        ],
    }

"""Logged decisions as a data set: one array for each field.

    data = read_log("runs/Territory_continuous_20260102_120008")    # or a file that config=export_log wrote
    data.reward, data.propensity                     # (n,) each, in the order in which they were decided
    data.of(["north"]).between(since, until)         # a part of it
    data.arrays()                                    # observations, actions, rewards, terminals, timeouts
    data.episodes()                                  # the same in episodes, as Minari stores them

Numbers come back bit by bit as they were stored, from Parquet and from JSON lines.

**Propensity** is the probability (of a continuous action: the density) with which the policy that acted chose the
proposed action; it was recorded with the decision. The executed action differs after a WAIT with a fallback. A gate
forced it, so a discrete one has propensity 1. It also differs if the client executed an action of its own, with the
propensity that the client gave, or an unknown one (NaN; its logarithm is inf). Estimates of other policies use the
*proposed* action (`online/estimate.py`), or the client's own if its propensity is known; decisions with an unknown one
are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from livegym.online.experience import chosen_actions, clipped


@dataclass(frozen=True)
class Episode:
    """Consecutive decisions of a stream, in the form of Minari's episodes: T steps, T + 1 observations."""

    stream: str
    observations: np.ndarray  # (T + 1, W) float32
    actions: np.ndarray  # (T, A) as executed; continuous ones are clipped to [-1, 1]
    rewards: np.ndarray  # (T,) float32
    terminations: np.ndarray  # (T,) bool: only the last can be True
    truncations: (
        np.ndarray
    )  # (T,) bool: the last is True if the episode did not terminate, or its next step is not in the log


@dataclass(frozen=True)
class LoggedDecisions:
    """Decisions with their propensities. All arrays have n entries.

    Those of a run are in the order in which they were decided, by their ids: the system clock may have been set back.
    """

    run: np.ndarray  # (n,) str, name of the run when it was created
    run_id: np.ndarray  # (n,) str, the same wherever the run is copied to; "": unknown
    stream: np.ndarray  # (n,) str
    decision: np.ndarray  # (n,) int64, its id, unique in its run
    time: np.ndarray  # (n,) float64, s since 1970
    clock: np.ndarray  # (n,) float64, s that the run had been served
    version: np.ndarray  # (n,) int64, version of the policy that acted
    obs: np.ndarray  # (n, W) float32
    proposed: np.ndarray  # (n, A) the policy's action: float32, or int64 choices
    executed: np.ndarray  # (n, A) what was executed, before clipping; meaningless if `held`
    log_prob: np.ndarray  # (n,) float32, of `proposed`
    executed_log_prob: np.ndarray  # (n,) float32, of `executed`; 0: discrete, forced by the gate; inf: by the client
    verdict: np.ndarray  # (n,) int8: Verdict.OFF, SEND or WAIT
    held: np.ndarray  # (n,) bool: blocked without a fallback, so no action was executed
    expected: np.ndarray  # (n,) float32, reward that the gate expected of `proposed`; NaN without a gate
    confidence: np.ndarray  # (n,) float32 in [0, 1]
    reward: np.ndarray  # (n,) float32; NaN: none has come
    next_obs: np.ndarray  # (n, W) float32; NaN: none has come
    done: np.ndarray  # (n,) bool: the episode terminated here
    intervened: np.ndarray  # (n,) bool: excluded from training, by a person, a failure or `learn: false`

    def __len__(self) -> int:
        return len(self.decision)

    @property
    def complete(self) -> np.ndarray:
        """(n,) whether reward and next observation are known."""
        return np.isfinite(self.reward) & np.isfinite(self.next_obs).all(1)

    @property
    def propensity(self) -> np.ndarray:
        """(n,) float64, probability or density of `proposed` under the policy that acted."""
        return np.exp(self.log_prob.astype(np.float64))

    @property
    def executed_propensity(self) -> np.ndarray:
        """(n,) float64, likewise for `executed`."""
        known = np.isfinite(self.executed_log_prob)
        return np.exp(np.where(known, self.executed_log_prob.astype(np.float64), np.nan))

    @property
    def chosen(self) -> tuple[np.ndarray, np.ndarray]:
        """(n, A) actions that earned the rewards, and their log-probabilities (n,); see `chosen_actions`."""
        names = ("verdict", "proposed", "executed", "log_prob", "executed_log_prob")
        return chosen_actions({name: getattr(self, name) for name in names})

    def __getitem__(self, chosen: Any) -> LoggedDecisions:
        """Return the decisions that a mask (n,), indices or a slice choose."""
        return LoggedDecisions(**{f.name: getattr(self, f.name)[chosen] for f in fields(self)})

    def of(self, streams: Collection[str]) -> LoggedDecisions:
        """Return the decisions of some streams."""
        return self[np.isin(self.stream, list(streams))]

    def between(self, since: float | None = None, until: float | None = None) -> LoggedDecisions:
        """Return the decisions made from `since` on and before `until`, in s since 1970; None: no limit."""
        chosen = np.ones(len(self), bool)
        if since is not None:
            chosen &= self.time >= since
        if until is not None:
            chosen &= self.time < until
        return self[chosen]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return observations, actions, rewards, terminals and timeouts, stream by stream, as d3rlpy takes them.

        Only complete decisions with an executed action; `timeouts` ends an episode that did not terminate, and one
        whose next decision is not in the log.
        """
        chosen, ends = self._steps()
        return {
            "observations": chosen.obs,
            "actions": clipped(chosen.executed),
            "rewards": chosen.reward,
            "terminals": chosen.done,
            "timeouts": ends & ~chosen.done,
        }

    def episodes(self) -> list[Episode]:
        """Return the same decisions as `arrays`, as episodes, which include the last observation."""
        chosen, ends = self._steps()
        stops = (np.flatnonzero(ends) + 1).tolist()
        return [chosen[start:stop]._episode() for start, stop in zip([0, *stops], stops, strict=False)]

    def _episode(self) -> Episode:
        last = np.zeros(len(self), bool)
        last[-1] = True
        return Episode(
            stream=str(self.stream[0]), observations=np.concatenate([self.obs, self.next_obs[-1:]]),
            actions=clipped(self.executed), rewards=self.reward, terminations=self.done, truncations=last & ~self.done,
        )  # fmt: skip

    def _steps(self) -> tuple[LoggedDecisions, np.ndarray]:
        """Return the decisions for `arrays`, sorted by stream and decision, and (k,) where an episode ends."""
        chosen = self[self.complete & ~self.held]
        chosen = chosen[np.lexsort((chosen.decision, chosen.stream, chosen.run))]
        follows = (chosen.run[1:] == chosen.run[:-1]) & (chosen.stream[1:] == chosen.stream[:-1])
        follows &= (chosen.obs[1:] == chosen.next_obs[:-1]).all(1)
        ends = np.ones(len(chosen), bool)
        ends[:-1] = chosen.done[:-1] | ~follows
        return chosen, ends


def joined(parts: Collection[LoggedDecisions]) -> LoggedDecisions:
    """Return all decisions of several logs of a run in their order, each once, from the first log that has it.

    Those of several runs are in order of time.

    Raises ValueError if observations or actions differ in width.
    """
    names = [f.name for f in fields(LoggedDecisions)]
    together = LoggedDecisions(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
    _, run = np.unique(together.run, return_inverse=True)
    order = np.lexsort((together.decision, run))  # stable: the first part's comes first
    again = (np.diff(run[order]) == 0) & (np.diff(together.decision[order]) == 0)
    once = together[order[np.concatenate([[True], ~again])]] if len(order) else together
    return once if len(set(run.tolist())) < 2 else once[np.lexsort((once.decision, once.time))]


def no_decisions(obs: int = 0, action: int = 0, discrete: bool = True) -> LoggedDecisions:
    """Return an empty log for observations and actions of these widths."""
    number = np.int64 if discrete else np.float32
    wide = {"obs": (obs, np.float32), "next_obs": (obs, np.float32), "proposed": (action, number)}
    wide["executed"] = (action, number)
    arrays: dict[str, np.ndarray] = {name: np.zeros((0, width), kind) for name, (width, kind) in wide.items()}
    arrays |= {name: np.zeros(0, kind) for name, kind in SCALARS.items()}
    return LoggedDecisions(**arrays)


SCALARS: dict[str, Any] = {
    "run": "U1", "run_id": "U1", "stream": "U1", "decision": np.int64, "time": np.float64, "clock": np.float64,
    "version": np.int64, "log_prob": np.float32, "executed_log_prob": np.float32, "verdict": np.int8, "held": np.bool_,
    "expected": np.float32, "confidence": np.float32, "reward": np.float32, "done": np.bool_, "intervened": np.bool_,
}  # fmt: skip
"""The fields with one value for each decision, and their types."""

ROWS = ("obs", "proposed", "executed", "next_obs")
"""The fields with a row for each decision."""

"""Exact statistics of rewards and finished episodes: every step and every episode counts, not one step per horizon.

`Env` adds each step; a report drains what was added since the last one. Sums are float64, so that a mean over millions
of steps stays accurate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from livegym.tasks.rows import rows_of_envs


@dataclass(frozen=True)
class FinishedEpisodes:
    """The episodes that ended in one step. Tensors are (n,), on the CPU."""

    env_ids: Tensor  # int64
    returns: Tensor  # float64, sum of weighted rewards; the mean of the seats in a match
    lengths: Tensor  # int64, control steps
    reasons: Tensor  # int64, index into Env.reason_names
    levels: Tensor  # float64, of the curriculum when the episode began; 1: the full task
    winners: Tensor | None = None  # int64, the seat that won, or NO_WINNER; None if the task has one seat


@dataclass(frozen=True)
class Largest:
    """The largest magnitudes among the numbers that a policy has learned from."""

    reward: float = 0.0
    observation: float = 0.0


@dataclass
class EpisodeSummary:
    """Statistics since the last drain. Means are None if there was nothing to average."""

    steps: int = 0
    episodes: int = 0
    unstable: int = 0  # environments whose numbers became non-finite or absurd, at a step or at a reset
    huge_rewards: int = 0  # those of them whose reward was beyond task.max_reward
    largest: Largest = field(default_factory=Largest)
    term_step_mean: dict[str, float] = field(default_factory=dict)
    term_episode_mean: dict[str, float] = field(default_factory=dict)
    reason_counts: dict[str, int] = field(default_factory=dict)
    success_reason: str | None = None  # the reason that means success, if it is active
    metric_mean: dict[str, float] = field(default_factory=dict)
    metric_episodes: int = 0  # the number of episodes in `metric_mean`: all except unstable ones
    wins: tuple[int, ...] = ()  # episodes that each seat has won; empty if the task has one seat
    level: float | None = None  # of the curriculum, if there is one
    return_mean: float | None = None
    length_mean: float | None = None


class EpisodeStats:
    """Running sums for N environments, T reward terms, R reasons and M metrics of an episode."""

    def __init__(
        self,
        num_envs: int,
        term_names: tuple[str, ...],
        reason_names: tuple[str, ...],
        device: torch.device,
        metric_names: tuple[str, ...] = (),
        seats: int = 1,
    ) -> None:
        self.seats = seats
        self._wins = torch.zeros(seats, dtype=torch.int64)
        self.term_names = term_names
        self.reason_names = reason_names
        self.metric_names = metric_names
        self.episode_terms = torch.zeros(
            num_envs * seats, len(term_names), dtype=torch.float64, device=device
        )  # (R, T)
        self._step_terms = torch.zeros(len(term_names), dtype=torch.float64, device=device)  # (T,)
        self._ended_terms = torch.zeros(len(term_names), dtype=torch.float64)
        self._reason_counts = torch.zeros(len(reason_names), dtype=torch.int64)
        self._metric_sums = torch.zeros(len(metric_names), dtype=torch.float64)
        self._steps = self._episodes = self._metric_episodes = 0
        self._length_sum = 0

    def state_dict(self, rows: Tensor) -> dict[str, Tensor]:
        """The rewards so far of the unfinished episodes of rows (n,): `episode_terms` (n, T).

        The sums for reports are not included, because they do not affect how the environments continue.
        """
        return {"episode_terms": self.episode_terms[rows].clone()}

    def load_state_dict(self, state: Mapping[str, Any], rows: Tensor) -> None:
        """Restore a `state_dict` into rows (n,)."""
        self.episode_terms[rows] = state["episode_terms"].to(self.episode_terms.device)

    def drop(self, env_ids: Tensor) -> None:
        """Drop the unfinished episodes of environments (n,)."""
        self.episode_terms[rows_of_envs(env_ids, self.seats)] = 0.0

    def add(self, weighted: Tensor) -> None:
        """Add one step's weighted terms (R, T)."""
        self.episode_terms += weighted
        self._step_terms += weighted.sum(0, dtype=torch.float64)
        self._steps += weighted.shape[0]

    def end(
        self,
        env_ids: Tensor,
        lengths: Tensor,
        reasons: Tensor,
        levels: Tensor,
        metrics: Mapping[str, Tensor],
        sound: Tensor,
        winners: Tensor | None = None,
    ) -> FinishedEpisodes:
        """Finish the episodes of environments (n,).

        lengths and reasons (n,) int64; levels (n,) float64, at which they began; metrics: name -> (n,).
        winners (n,) int64: the seats that won, or NO_WINNER; None if the task has one seat.
        Metrics count only if `sound` (n,) bool is true: those of a non-finite state mean nothing.
        """
        for index, name in enumerate(self.metric_names):
            self._metric_sums[index] += metrics[name][sound].double().sum().cpu()
        self._metric_episodes += int(sound.sum())
        rows = rows_of_envs(env_ids, self.seats)
        terms = self.episode_terms[rows].view(-1, self.seats, len(self.term_names)).mean(1).cpu()
        won = None if winners is None else winners.cpu()
        episodes = FinishedEpisodes(env_ids.cpu(), terms.sum(1), lengths.cpu(), reasons.cpu(), levels.cpu(), won)
        self.episode_terms[rows] = 0.0
        if won is not None:
            self._wins += torch.bincount(won[won >= 0], minlength=self.seats)
        self._ended_terms += terms.sum(0)
        self._reason_counts += torch.bincount(episodes.reasons, minlength=len(self.reason_names))
        self._episodes += len(env_ids)
        self._length_sum += int(episodes.lengths.sum())
        return episodes

    def drain(self, unstable: int) -> EpisodeSummary:
        """Return the report since the last drain, and reset the sums."""
        report = EpisodeSummary(steps=self._steps, episodes=self._episodes, unstable=unstable)
        if self._steps:
            report.term_step_mean = self._named(self._step_terms, self._steps)
        if self._episodes:
            report.term_episode_mean = self._named(self._ended_terms, self._episodes)
            report.return_mean = float(self._ended_terms.sum()) / self._episodes
            report.length_mean = self._length_sum / self._episodes
        if self._metric_episodes:
            means = (self._metric_sums / self._metric_episodes).tolist()
            report.metric_mean = dict(zip(self.metric_names, means, strict=True))
            report.metric_episodes = self._metric_episodes
        report.wins = tuple(self._wins.tolist()) if self.seats > 1 else ()
        report.reason_counts = dict(zip(self.reason_names, self._reason_counts.tolist(), strict=True))
        self._step_terms.zero_()
        self._ended_terms.zero_()
        self._reason_counts.zero_()
        self._wins.zero_()
        self._metric_sums.zero_()
        self._steps = self._episodes = self._length_sum = self._metric_episodes = 0
        return report

    def _named(self, sums: Tensor, count: int) -> dict[str, float]:
        return dict(zip(self.term_names, (sums / count).tolist(), strict=True))

"""The result of one control step of an `Env`."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from livegym.tasks.stats import FinishedEpisodes


@dataclass(frozen=True)
class Step:
    """The result of one step; every tensor has a leading axis of R rows, one for each seat (`Env.num_rows`)."""

    obs: dict[str, Tensor]  # group -> (R, width), for the next action
    reward: Tensor  # (R,) float32
    terminated: Tensor  # (R,) bool: success or failure
    truncated: Tensor  # (R,) bool: the time limit, if nothing else ended the episode
    final_obs: dict[str, Tensor]  # group -> (R, width), before the reset; equals obs if the episode continues
    ended: FinishedEpisodes | None  # by environment; None if no episode ended
    terms: Tensor  # (R, T) weighted reward terms, as in Env.terms.names

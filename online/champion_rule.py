"""The rule and the data of the champion (`online/champion.py`), and its actions on the trainer and on the streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from livegym.weights.candidate import Candidate

WITHIN = 600.0  # s in which it is counted how often the trainer was set back


@dataclass(frozen=True)
class ChampionRule:
    """The keys that decide."""

    rows: int  # newest decisions to judge by
    interval: float  # least s between two judgements
    confidence: float
    kl: float  # greatest mean KL of a version that is not shown to be better, in nats
    share: float  # of the streams in which a challenger acts; 0: no challengers
    challenge: float  # longest time of a challenge, in s; inf: no limit
    max_rollbacks: int  # within `WITHIN`


class Decisions(NamedTuple):
    """The replay buffer, as the champion sees it."""

    added: Callable[[], int]  # experiences that were ever added, including those that versions are not judged by
    newest: Callable[[int], np.ndarray]  # the last n experiences without those, in order of time


class Hooks(NamedTuple):
    """Actions on the trainer and on the streams; called by the watching thread."""

    start_over: Callable[[Candidate, str], None]  # let the trainer continue from these weights, for this reason
    challenge: Callable[[Candidate | None], None]  # let this version act in a share of the streams; None: no version

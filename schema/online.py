"""Continuous training: the keys of `online.*`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from livegym.schema.keydoc import key


@dataclass
class OnlineConfig:
    """How a policy is served and learned at the same time."""

    training_interval: float = key(1.0, "time from one update round to the next; 0: without a pause", unit="s", low=0)
    batch_size: int = key(32, "experiences in a gradient step", low=1, high=65536)
    min_batch_size: int = key(8, "least experiences to learn from", low=1)
    updates: int = key(1, "gradient steps of one update round, each on a separate batch", low=1)
    buffer_capacity: int = key(10_000, "experiences that are kept, the newest", low=8, high=10_000_000)
    priority_sampling: bool = key(False, "draw rare and highly rewarded experiences, and great errors, more often")
    max_age_s: Optional[float] = key(
        None, "age beyond which an experience is not learned from, in time served; null: any", unit="s", above=0
    )
    pending_ttl_s: float = key(120.0, "time that a decision waits for its reward", unit="s", above=0)
    pending_capacity: int = key(10_000, "decisions that wait at once; the oldest is given up", low=1)
    max_streams: int = key(64, "streams that are served at once, the simulator's included", low=1, high=65536)
    expected_weight: float = key(0.3, "weight of the reward that the re-evaluated gate expects", low=0, high=1)
    actual_weight: float = key(0.7, "weight of the reward that came", low=0, high=1)
    train_on_wait: bool = key(True, "learn the reward of what was done instead of an action that had to wait")
    train_on_blocked: bool = key(True, "learn the gate's expectation of the action that had to wait")
    wait_multiplier: float = key(0.5, "m: a reward after a WAIT counts r - (1 - m) |r|", low=0, high=1)
    on_disagreement: str = key(
        "skip", "what becomes of an experience that the gate now judges otherwise", choices=("penalty", "skip")
    )
    disagreement_penalty: float = key(0.5, "taken from its reward under on_disagreement=penalty", low=0)
    gate_threshold: Optional[float] = key(
        None, "least expected reward that is sent; null: the gate's own (cost: 0, lookahead: none)"
    )
    look_ahead: int = key(10, "control steps that gate=lookahead rolls a proposed action forward", low=1, high=1000)
    learning_rate: float = key(1e-3, "step size of Adam at first", above=0, high=1)
    lr_decay: float = key(0.99, "factor on it every 100 update rounds", above=0, high=1)
    min_learning_rate: float = key(1e-4, "where it stays", above=0, high=1)
    ratio_clip: float = key(1.0, "upper bound of importance ratios pi / mu", above=0)
    trust: float = key(
        3.0, "ratio pi / mu, or its inverse, from which on an experience pushes the policy no further", above=1
    )
    entropy_coef: float = key(0.01, "weight of the entropy bonus", low=0)
    divergence_factor: float = key(
        20.0, "a critic's loss so many times the median of the last hundred rolls back", above=1
    )
    checkpoint_versions: int = key(20, "versions between two checkpoints", unit="versions", low=1)
    hang_timeout_s: float = key(30.0, "silence after which the trainer counts as hung, and is restarted", above=1)
    max_restarts: int = key(5, "restarts within ten minutes, after which the trainer stays dead", low=0)

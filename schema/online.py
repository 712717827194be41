"""Continuous training: the keys of `online.*`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from livegym.schema.keydoc import key


@dataclass
class OnlineConfig:
    """How a policy is served and trained at the same time."""

    training_interval: float = key(1.0, "time from one update round to the next; 0: no pause", unit="s", low=0)
    batch_size: int = key(32, "experiences per gradient step", low=1, high=65536)
    min_batch_size: int = key(8, "minimum number of experiences to learn from", low=1)
    updates: int = key(1, "gradient steps per update round, each on its own batch", low=1)
    buffer_capacity: int = key(
        10_000, "number of experiences that the replay buffer keeps, the newest ones", low=8, high=10_000_000
    )
    priority_sampling: bool = key(
        False, "sample experiences more often if they are rare, highly rewarded, or have a large error"
    )
    max_age_s: Optional[float] = key(
        None, "maximum age of an experience to learn from, in time served; null: any", unit="s", above=0
    )
    pending_ttl_s: float = key(
        120.0, "time that a decision waits for its reward before it is dropped", unit="s", above=0
    )
    log_decisions: int = key(
        100,
        "disk space for the log of all decisions, which is for export and evaluation; beyond it, the oldest are "
        "deleted; 0: no log, only the replay buffer",
        unit="MB",
        low=0,
        high=1_000_000,
    )
    pending_capacity: int = key(
        10_000, "number of decisions that may wait for a reward at once; beyond it, the oldest is dropped", low=1
    )
    stream_rate: Optional[float] = key(
        None,
        "observations and rewards that one stream may send; more are refused as `busy` (HTTP: 429); null: no limit, "
        "because a stream that sends more than its share only waits longer, and a fast stream may be right",
        unit="1/s",
        low=1,
    )
    max_streams: int = key(
        64, "number of streams that are served at once, including the simulator's", low=1, high=65536
    )
    expected_weight: float = key(
        0.3, "weight of the reward that the gate expects when it re-evaluates the experience", low=0, high=1
    )
    actual_weight: float = key(0.7, "weight of the reward that was received", low=0, high=1)
    train_on_wait: bool = key(True, "after a WAIT, learn the reward of the action that was applied instead")
    train_on_blocked: bool = key(True, "after a WAIT, learn the gate's expected reward of the blocked action")
    wait_multiplier: float = key(0.5, "m: after a WAIT, a reward r counts as r - (1 - m) |r|", low=0, high=1)
    on_disagreement: str = key(
        "skip", "how to treat an experience if the gate's verdict on it has changed", choices=("penalty", "skip")
    )
    disagreement_penalty: float = key(0.5, "amount that on_disagreement=penalty subtracts from its reward", low=0)
    gate_threshold: Optional[float] = key(
        None, "minimum expected reward of an action that is sent; null: the gate's own (cost: 0, lookahead: none)"
    )
    look_ahead: int = key(
        10, "control steps for which gate=lookahead simulates a proposed action and what follows", low=1, high=1000
    )
    look_ahead_policy: Optional[str] = key(
        None,
        "policy that gate=lookahead lets act after the proposed action, and instead of it: what checkpoint= takes; "
        "it stays the same file for the whole run; null: zero, or a discrete action is held",
        example="online.look_ahead_policy=runs/<run>/nn/<file>.pth",
    )
    look_ahead_trigger: bool = key(False, "gate=lookahead simulates only states that the task calls at risk")
    learning_rate: float = key(1e-3, "initial step size of Adam", above=0, high=1)
    lr_decay: float = key(0.99, "factor on the learning rate every 100 update rounds", above=0, high=1)
    min_learning_rate: float = key(1e-4, "lower bound of the decaying learning rate", above=0, high=1)
    trace_steps: int = key(
        32,
        "experiences of a stream over which a reward counts directly, not only by the value; 1: its own",
        low=1,
        high=1000,
    )
    trace_decay: float = key(
        0.95, "lambda: factor on the importance of each further one of these experiences", low=0, high=1
    )
    kl_limit: Optional[float] = key(
        0.25,
        "mean KL divergence from the policy that acted last, beyond which the policy is drawn back to it; null: none",
        unit="nats",
        above=0,
    )
    idle_rounds: Optional[int] = key(
        60, "update rounds after the last completed experience until the trainer waits for another; null: none", low=1
    )
    ratio_clip: float = key(1.0, "upper bound of the importance ratio pi / mu", above=0)
    trust: float = key(
        3.0, "ratio pi / mu, or its inverse, beyond which an experience pushes the policy no further", above=1
    )
    entropy_coef: float = key(0.01, "weight of the entropy bonus", low=0)
    divergence_factor: float = key(
        20.0, "critic loss that triggers a rollback, as a multiple of the median of the last hundred", above=1
    )
    outlier_factor: Optional[float] = key(
        1e4,
        "reward that is left out of training, either way, as a multiple of the usual size: the median of the rewards "
        "that are not 0, at least 1; of fewer than 30: 1; null: only beyond task.max_reward",
        low=10,
    )
    checkpoint_versions: int = key(20, "versions between two checkpoints", unit="versions", low=1)
    judge_rows: int = key(
        2000,
        "newest decisions in the replay buffer by which a new version is judged before it goes live; 0: versions are "
        "not judged",
        low=0,
        high=100_000,
    )
    judge_interval: float = key(0.25, "minimum time from one judgement to the next", unit="s", low=0)
    judge_confidence: float = key(
        0.99, "confidence of the intervals by which a version is refused or rolled back", low=0.5, high=0.9999
    )
    adopt_kl: float = key(
        0.5,
        "mean KL divergence from the acting version up to which a version goes live without being shown to be better",
        unit="nats",
        above=0,
    )
    challenge_limit_s: Optional[float] = key(
        14400.0,
        "longest time that a challenger acts in a share of the streams; if its outcomes are too few then, it goes live "
        "without being judged by them, because newer versions wait; also the longest time that they wait after a "
        "rollback for outcomes of the stable version; null: no limit",
        unit="s",
        above=0,
    )
    max_rollbacks: int = key(
        3,
        "how often the trainer may be set back within ten minutes; after that, no version goes live until a person "
        "allows it",
        low=0,
    )
    hang_timeout_s: float = key(
        30.0, "time without a heartbeat after which the trainer counts as hung and is restarted", above=1
    )
    max_restarts: int = key(5, "restarts within ten minutes after which the trainer is not restarted any more", low=0)
    spare_trainer: bool = key(
        True, "keep a spare trainer process that takes over at once from one that ends; costs about 250 MB of memory"
    )

"""Connects the champion (`online/champion.py`) to the run that it guards."""

from __future__ import annotations

import itertools
import math

import numpy as np

from livegym.live.model_slot import ModelSlot, load
from livegym.online.champion import Champion
from livegym.online.champion_rule import ChampionRule, Decisions, Hooks
from livegym.online.decider import Decider
from livegym.online.experience import Layout, sound_rows
from livegym.online.judge import Judge
from livegym.online.outcomes import Outcomes
from livegym.online.replay import ReplayReader
from livegym.online.saving import save_earlier
from livegym.online.service_state import STREAMS
from livegym.online.trainer import RECENT
from livegym.online.trial import Trial
from livegym.rl.algorithm import algorithm_of
from livegym.rl.policy import Policy
from livegym.rundir.run import Run
from livegym.schema.settled import SettledConfig
from livegym.serve.watchdog import Watchdog
from livegym.weights.candidate import Candidate


def champion_of(
    config: SettledConfig, run: Run, layout: Layout, decider: Decider, outcomes: Outcomes, watchdog: Watchdog
) -> Champion | None:
    """Return the champion that guards `decider.live`; None with `online.judge_rows=0`."""
    online = config.online
    if not online.judge_rows:
        return None
    reader = ReplayReader(run.replay_file, layout, online.buffer_capacity)
    judge = Judge(algorithm_of(config.train).actor_critic(decider.spec, config.train), online.judge_confidence)
    seeds = itertools.count(config.seed + 1)

    def rows(count: int) -> np.ndarray:
        newest = reader.newest_unseen(count)
        return newest[sound_rows(newest, outcomes.rewards.limit)]

    def start_over(weights: Candidate, why: str) -> None:
        def save(after: int) -> None:
            last = reader.newest(RECENT)
            others = last["number"][last["version"] != weights.version]
            # Otherwise the next trainer would be held to the last decisions of the version that was given up.
            save_earlier(run, config, weights, after, int(others[-1]) + 1 if len(others) else None)

        watchdog.replace(save, why)

    def challenge(candidate: Candidate | None) -> None:
        if candidate is None:
            decider.trial = outcomes.challenger = None
            return
        outcomes.challenger = candidate.version
        slots = decider.live.num_envs
        policy = Policy(decider.spec, config.train, slots, config.device)
        loaded = load(ModelSlot(policy), candidate)
        decider.trial = Trial(loaded, config.challengerShare, judge.discount != 0, next(seeds), max(STREAMS, slots))

    rule = ChampionRule(
        rows=online.judge_rows,
        interval=online.judge_interval,
        confidence=online.judge_confidence,
        kl=online.adopt_kl,
        share=config.challengerShare,
        challenge=math.inf if online.challenge_limit_s is None else online.challenge_limit_s,
        max_rollbacks=online.max_rollbacks,
    )
    decisions = Decisions(lambda: reader.added, rows)
    return Champion(decider.live, judge, decisions, outcomes, rule, Hooks(start_over, challenge))

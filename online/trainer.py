"""Training of a policy from the replay buffer, in update rounds; `online/worker.py` decides when they run.

    trainer = Trainer(learner, reader, gate, rule, seed=0)
    report = trainer.train()          # `updates` gradient steps; None if there is too little experience

In an update round, new observations and value targets enter the normalisers, once each. Then, for each gradient step,
the trainer samples a batch, re-evaluates the gate on it, combines the rewards (`online/rewards.py`), and updates the
training copy of the policy (`rl/actor_critic.py`). A successful round makes one new version.

An outlier (`online/outliers.py`) is not trained on, and is not in the scale of the value targets. If the limit moves so
that known rewards count from now on, or count no more, the scale is found again from the buffer.

If no experience is completed for `idle_rounds` update rounds, the trainer waits for one. Otherwise a stream that is
idle for a night would be learned by heart: the policy moves further and further from the one that acted, and nothing
tells that it got worse.

A failed update is never published: the learner undoes a step that makes the weights non-finite, and after a divergence
the trainer rolls back to the last good state (`online/divergence.py`).
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from livegym.online.divergence import DivergenceDetector, GoodState
from livegym.online.experience import Verdict, chosen_actions, clipped, sound_rows
from livegym.online.gate import Gate, Judgement, check_judgement
from livegym.online.replay import BETA, ReplayReader, Sieve
from livegym.online.rewards import TrainingSamples, combine, later_rewards
from livegym.rl.actor_critic import ActorCritic, Choices, Following, OffPolicyRule, StepResult, Transitions
from livegym.rl.algorithm import ActorCriticNetwork
from livegym.schema import OnlineConfig
from livegym.tasks.stability import MAX_REWARD

WINDOW = 100  # update rounds over which averages are taken
RECENT = 64  # last experiences, which show the policy that acted
ANNEALED = 100_000  # gradient steps in which the exponent of the importance weights rises from BETA to 1


@dataclass(frozen=True)
class UpdateReport:
    """The result of one update round."""

    batches: int  # gradient steps made
    samples: float  # mean number of samples in a batch
    loss: float
    critic_loss: float
    entropy: float
    kl: float  # in nats, from the policy that acted
    seconds: float
    gated: int
    agreed: int
    skipped: int  # batches that were non-finite or too small
    rolled_back: bool


@dataclass
class Counts:
    """Counts since the run began."""

    trainings: int = 0
    batches: int = 0
    skipped: int = 0  # batches
    broken: int = 0  # rows with non-finite or huge numbers, each counted once
    outliers: int = 0  # other rows whose reward was an outlier when they came
    largest: float = 0.0  # greatest |reward| that the value normaliser has used
    rollbacks: int = 0
    overruns: int = 0  # update rounds that took longer than the interval
    learned_until: int = 0  # number of the first experience that the normalisers have not used
    looked_until: int = 0  # number of the first experience not examined; greater than `learned_until` after a rollback
    seen: int = 0  # experiences that were ever added, at the last update round
    trusted_from: int = 0  # number of the first experience after the last rollback; those before show a bad policy
    since: int = 0  # update rounds since the last experience was added


class Trainer:
    """Trains the policy on the replay buffer. Not thread-safe."""

    def __init__(
        self,
        learner: ActorCritic,
        reader: ReplayReader,
        gate: Gate | None,
        rule: OnlineConfig,
        seed: int,
        max_reward: float = MAX_REWARD,
    ) -> None:
        """`max_reward`: experiences whose reward is larger, either way, are not trained on (`task.max_reward`)."""
        self.learner = learner
        self.reader = reader
        self.gate = gate
        self.rule = rule
        self.max_reward = max_reward
        self.reward_limit = min(max_reward, reader.reward_limit)  # as of this round; see `online/outliers.py`
        self._applied = math.nan  # the limit of rewards that priorities and value normaliser have
        self.sieve = sieve_of(rule, gated=gate is not None)
        self.rng = np.random.default_rng(seed)
        self.counts = Counts()
        self.recent: deque[UpdateReport] = deque(maxlen=WINDOW)
        self.problem = ""  # why no update is made although there is enough experience
        self.agreements: deque[tuple[int, int]] = deque(maxlen=WINDOW)  # gated, agreed; even of rounds without a step
        self.divergence = DivergenceDetector(rule.divergence_factor, self._good_state())

    @property
    def learning_rate(self) -> float:
        """Learning rate of the next update round: rate x decay^(rounds / 100), at least the least rate.

        Each rollback halves both.
        """
        least = min(1.0, self.rule.min_learning_rate / self.rule.learning_rate)
        decay = max(self.rule.lr_decay ** (self.counts.trainings / 100), least)
        return self.rule.learning_rate * self.divergence.rate_factor * decay

    def train(self) -> UpdateReport | None:
        """Make one update round; return None if there is too little experience. Exceptions of the gate propagate."""
        start = time.perf_counter()
        if self.idle or len(self.reader.usable(self.sieve)) < self.rule.min_batch_size:
            return None
        self._count_rounds()
        self._apply_limit()
        self._normalise()
        self.learner.learning_rate = self.learning_rate
        samples, results = [], []
        for _ in range(self.rule.updates):
            each, result = self._update()
            samples.append(each)
            results += [result] if result is not None else []
        return self._report(samples, results, start)

    @property
    def idle(self) -> bool:
        """Whether the trainer waits for an experience: it has made `idle_rounds` update rounds since the last one."""
        most, counts = self.rule.idle_rounds, self.counts
        return most is not None and counts.since >= most and counts.seen == self.reader.added

    def _count_rounds(self) -> None:
        added = self.reader.added
        self.counts.since = self.counts.since + 1 if added == self.counts.seen else 1
        self.counts.seen = added

    def _apply_limit(self) -> None:
        """Take over the limit of this round. If that changes which known rewards count, find their scale again."""
        self.reward_limit = min(self.max_reward, self.reader.reward_limit)
        if self.reward_limit == self._applied:
            return
        self._applied = self.reward_limit
        if self.reader.priorities is not None:
            self.reader.priorities.max_reward = self.reward_limit
        rows = self.reader.newest_unseen(self.reader.capacity)
        rows = rows[(rows["number"] < self.counts.learned_until) & sound_rows(rows, self.reward_limit)]
        if _largest(rows) > self.counts.largest or self.counts.largest > self.reward_limit:
            self._learn_scale(rows)

    def _learn_scale(self, rows: np.ndarray) -> None:
        """Rebuild the value normaliser from rows (n,). Losses and priorities in the scale before count no more."""
        self.learner.forget_returns()
        self.learner.normalise(torch.zeros(0), self._value_targets(rows))
        self.counts.largest = _largest(rows)
        self.divergence.forget_losses()
        if self.reader.priorities is not None:
            self.reader.priorities.forget()

    def expired(self) -> int:
        """Return how many experiences in the buffer are too old to train on."""
        return self.reader.expired(self.sieve.max_age)

    def _normalise(self) -> None:
        fresh = self.reader.fresh(self.counts.learned_until)
        whole, sound = (sound_rows(fresh, limit) for limit in (self.max_reward, self.reward_limit))
        rows = fresh[sound]
        new = fresh["number"] >= self.counts.looked_until
        self.counts.broken += int((new & ~whole).sum())
        self.counts.outliers += int((new & whole & ~sound).sum())
        if len(fresh):
            self.counts.learned_until = int(fresh["number"][-1]) + 1
            self.counts.looked_until = max(self.counts.looked_until, self.counts.learned_until)
        self.counts.largest = max(self.counts.largest, _largest(rows))
        # The observation of an outlier is one like any other, and it may be trained on later.
        self.learner.normalise(_floats(fresh["obs"][whole]), self._value_targets(rows))

    def _value_targets(self, rows: np.ndarray) -> torch.Tensor:
        """Return the value targets (m,) of those of the rows (n,) from which the value learns."""
        if not len(rows):
            return torch.zeros(0)
        samples = combine(rows, None, self.rule)
        targets = self.learner.targets(self._transitions(rows, samples, np.ones(len(rows)), following=None))
        return targets[torch.from_numpy(samples.value)]

    def _update(self) -> tuple[TrainingSamples, StepResult | None]:
        rows, weights = self.reader.sample(self.rule.batch_size, self.rng, self.sieve, self._beta())
        sound = sound_rows(rows, self.reward_limit)
        problem = f"all {len(rows)} sampled experiences have non-finite or huge numbers, or rewards that are outliers"
        self.problem = "" if sound.any() or not len(rows) else problem
        self.reader.prioritise(rows[~sound], np.zeros(int((~sound).sum())))  # they have no error, and need no draws
        rows, weights = rows[sound], weights[sound]
        if len(rows):
            weights = weights / weights.max()  # the greatest may have been that of an unsound one
        samples = combine(rows, self._judge(rows), self.rule)
        if len(samples) < self.rule.min_batch_size:
            return samples, None
        following = self._following(rows[samples.index], samples.terminal)
        result = self.learner.update(self._transitions(rows, samples, weights, following), self._acted())
        if result.finite:
            judged = samples.value
            self.reader.prioritise(rows[samples.index[judged]], result.errors.numpy()[judged])
        return samples, result

    def _beta(self) -> float:
        """Exponent of the importance weights: it rises to 1, since their bias matters most near the end (Schaul)."""
        return BETA + (1 - BETA) * min(1.0, self.counts.batches / ANNEALED)

    def _acted(self) -> Choices:
        rows = self.reader.newest(RECENT)
        rows = rows[rows["number"] >= self.counts.trusted_from]
        rows = rows[sound_rows(rows, math.inf)]
        return Choices(_floats(rows["obs"]), torch.from_numpy(rows["proposed"].copy()), _floats(rows["log_prob"]))

    def _judge(self, rows: np.ndarray) -> Judgement | None:
        if self.gate is None or not len(rows):
            return None
        judgement = self.gate.evaluate(rows["seen"].copy(), clipped(rows["proposed"]), rows["confidence"])
        check_judgement(judgement, len(rows), self.learner.spec.action)
        return judgement

    def _transitions(
        self, rows: np.ndarray, samples: TrainingSamples, weights: np.ndarray, following: Following | None
    ) -> Transitions:
        chosen = rows[samples.index]
        return Transitions(
            obs=_floats(chosen["obs"]),
            action=torch.from_numpy(np.ascontiguousarray(samples.action)),
            log_prob=_floats(samples.log_prob),
            reward=_floats(samples.reward),
            next_obs=_floats(chosen["next_obs"]),
            done=torch.from_numpy(samples.terminal),
            weight=_floats(weights[samples.index]),
            policy=torch.from_numpy(samples.policy),
            value=torch.from_numpy(samples.value),
            following=following,
        )

    def _following(self, chosen: np.ndarray, terminal: np.ndarray) -> Following | None:
        """Return what came after the chosen rows (k,), unless nothing that comes later counts."""
        steps = self.rule.trace_steps - 1
        if not steps or not self.learner.rule.discount or not self.learner.rule.trace or terminal.all():
            return None
        going = np.flatnonzero(~terminal)
        rows, row, step = self.reader.follow(chosen[going], steps, lambda found: sound_rows(found, self.reward_limit))
        action, log_prob = chosen_actions(rows)
        return Following(
            row=torch.from_numpy(going[row]),
            step=torch.from_numpy(step),
            obs=_floats(rows["obs"]),
            action=torch.from_numpy(action),
            log_prob=_floats(log_prob),
            reward=_floats(later_rewards(rows, self.rule, gated=self.gate is not None)),
            next_obs=_floats(rows["next_obs"]),
            done=torch.from_numpy(rows["done"].copy()),
        )

    def _report(self, samples: list[TrainingSamples], results: list[StepResult], start: float) -> UpdateReport | None:
        """Count an update round and return its report; roll back if it diverged."""
        made = [result for result in results if result.finite]
        skipped = len(samples) - len(made)
        self.counts.skipped += skipped
        self.counts.batches += len(made)
        gated, agreed = sum(each.gated for each in samples), sum(each.agreed for each in samples)
        self.agreements.append((gated, agreed))
        critic = _mean([result.critic_loss for result in made])
        diverged = self.divergence.detect(critic, broken=bool(results) and not made)
        if diverged:
            self._roll_back()
        elif made:
            self.counts.trainings += 1
            self.divergence.succeeded(self.counts.trainings, self._good_state)
        if not results:
            return None
        report = UpdateReport(
            batches=len(made),
            samples=_mean([float(len(each)) for each in samples]),
            loss=_mean([result.loss for result in made]),
            critic_loss=critic,
            entropy=_mean([result.entropy for result in made]),
            kl=_mean([result.kl for result in made]),
            seconds=time.perf_counter() - start,
            gated=gated,
            agreed=agreed,
            skipped=skipped,
            rolled_back=diverged,
        )
        self.recent.append(report)
        return report

    def _good_state(self) -> GoodState:
        return GoodState(self.learner.state(), self.counts.learned_until, self.counts.largest)

    def _roll_back(self) -> None:
        good = self.divergence.roll_back()
        self.learner.load_state(good.learner)
        self.counts.learned_until, self.counts.largest = good.learned_until, good.largest
        self._applied = math.nan  # the limit may have been another one then
        self.counts.trusted_from = self.reader.added
        self.counts.rollbacks += 1

    def state(self) -> dict[str, Any]:
        """Return the trainer's state as plain values and tensors. Priorities are in a file of their own."""
        counts = dict(vars(self.counts))
        generator = self.rng.bit_generator.state
        numbers = [str(generator["state"]["state"]), str(generator["state"]["inc"])]
        rest = [generator["has_uint32"], generator["uinteger"]]
        online = {**self.divergence.state(), "counts": counts, "rng": [*numbers, *rest]}
        return {**self.learner.state(), "online": online}

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned. Raises UserError, ValueError or LookupError if it is invalid."""
        self.learner.load_state(state)
        saved = state["online"]
        self.counts = Counts(**saved["counts"])
        self._applied = math.nan
        for name in ("learned_until", "looked_until", "seen", "trusted_from"):  # the buffer may be a new one
            setattr(self.counts, name, min(getattr(self.counts, name), self.reader.added))
        word, step, has_uint32, uinteger = saved["rng"]
        self.rng.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": int(word), "inc": int(step)},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }
        self.divergence.load_state(saved, self._good_state())


def sieve_of(rule: OnlineConfig, gated: bool) -> Sieve:
    """Return the sieve that excludes experiences without a training sample, which would only fill up the batches."""
    asks_of_blocked = rule.train_on_blocked and gated
    return Sieve(
        max_age=math.inf if rule.max_age_s is None else rule.max_age_s,
        without=None if rule.train_on_wait or asks_of_blocked else Verdict.WAIT,
        without_held=not asks_of_blocked,
    )


def rule_of(online: OnlineConfig, network: ActorCriticNetwork) -> OffPolicyRule:
    """Return the rule of the gradient steps, from the keys of `online.*` and the network's algorithm."""
    return OffPolicyRule(
        discount=network.discount,
        ratio_clip=online.ratio_clip,
        trust=online.trust,
        entropy_coef=online.entropy_coef,
        grad_norm=network.grad_norm,
        trace=online.trace_decay,
        kl_limit=math.inf if online.kl_limit is None else online.kl_limit,
    )


def _largest(rows: np.ndarray) -> float:
    return float(np.abs(rows["reward"]).max(initial=0.0))


def _floats(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.array(values, np.float32))


def _mean(values: list[float]) -> float:
    return statistics.fmean(values) if values else math.nan

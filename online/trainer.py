"""The training of a policy from the replay buffer, one training at a time: what is done, not when.

    trainer = Trainer(learner, reader, gate, rule, seed=0)
    report = trainer.train()          # `updates` gradient steps; None where there is too little to learn from

One training: new observations go into the normaliser, once each; then, for each update, sample a batch, ask the gate
again about what it saw, combine the rewards (`online/rewards.py`) and make one gradient step (`rl/actor_critic.py`) on
the training copy. A good end of that is one new version.

What goes wrong is not published. A step that is not finite is undone by the learner; three in a row, or a critic's loss
far beyond that of the last hundred trainings, is a divergence: back to the last good state, with half the learning
rate, which is doubled again after each `CALM` trainings without one. Good is a state after which `PROBATION` trainings
went well: one that has just been reached may be bad already. Where it diverges at the least rate too, nothing can be
learned from what there is: the trainer is stuck, and says so.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from cfg.schema import OnlineConfig, RootConfig
from online.experience import Verdict
from online.gate import Gate, Judgement, check_judgement
from online.replay import ReplayReader
from online.rewards import Lessons, combine
from rl.actor_critic import ActorCritic, OffPolicyRule, Outcome, Transitions

PROBATION = 10  # trainings
WINDOW = 100  # trainings over which averages are taken
ENOUGH = 20  # losses, from which on one can be called far beyond them
LEAST = 0.1  # critic's losses below this, in squared standard deviations of the targets, are all alike
STRIKES = 3  # trainings in a row that were not finite
CALM = 1000  # trainings in a row without a divergence, after which a rate that was halved is doubled
LEAST_RATE = 1 / 1024  # of the configured rate: ten halvings
HUGE = 1e15  # numbers beyond it are as good as not finite: their squares would be, in the normalisers


@dataclass(frozen=True)
class Report:
    """One training."""

    batches: int  # gradient steps that were made
    lessons: float  # mean number in a batch
    loss: float
    critic_loss: float
    entropy: float
    seconds: float
    gated: int
    agreed: int
    skipped: int  # batches that were not finite, or too small
    rolled_back: bool


@dataclass
class Counts:
    """Since the run began."""

    trainings: int = 0
    batches: int = 0
    skipped: int = 0  # batches
    broken: int = 0  # rows that were not finite, each once
    rollbacks: int = 0
    learned_until: int = 0  # number of the first experience that the normalisers do not know


@dataclass
class _Watch:
    """What divergence is told by."""

    losses: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    strikes: int = 0
    calm: int = 0
    stuck: bool = False
    good: dict[str, Any] = field(default_factory=dict)
    probation: list[tuple[int, dict[str, Any]]] = field(default_factory=list)


class Trainer:
    """Learns from the buffer. Not for several threads."""

    def __init__(
        self, learner: ActorCritic, reader: ReplayReader, gate: Gate | None, rule: OnlineConfig, seed: int
    ) -> None:
        self.learner, self.reader, self.gate, self.rule = learner, reader, gate, rule
        self.reader.max_age = rule.max_age_s
        self.reader.without_held = not self._asks_of_blocked  # after those nothing was done that could be learned
        self.rng = np.random.default_rng(seed)
        self.counts = Counts()
        self.base_rate = rule.learning_rate  # halved by each roll back, doubled again by calm
        self.recent: deque[Report] = deque(maxlen=WINDOW)
        self.agreements: deque[tuple[int, int]] = deque(maxlen=WINDOW)  # gated, agreed; also of nothing learned
        self._watch = _Watch(good=learner.state())

    @property
    def learning_rate(self) -> float:
        """Of the next training: base x decay^(trainings / 100), not below the least; a roll back halves both."""
        least = min(1.0, self.rule.min_learning_rate / self.rule.learning_rate)
        return self.base_rate * max(self.rule.lr_decay ** (self.counts.trainings / 100), least)

    @property
    def stuck(self) -> bool:
        """Whether it diverges even at the least rate."""
        return self._watch.stuck

    def train(self) -> Report | None:
        """One training; None where there is too little to learn from. What the gate raises passes."""
        start = time.perf_counter()
        if len(self.reader.usable(self._left_out())) < self.rule.min_batch_size:
            return None
        self._normalise()
        self.learner.learning_rate = self.learning_rate
        lessons, outcomes = [], []
        for _ in range(self.rule.updates):
            lesson, outcome = self._update()
            lessons.append(lesson)
            outcomes += [outcome] if outcome is not None else []
        return self._judged(lessons, outcomes, start)

    def _left_out(self) -> Verdict | None:
        """WAITs that nothing is learned from are not sampled either: they would fill batches with nothing."""
        return None if self.rule.train_on_wait or self._asks_of_blocked else Verdict.WAIT

    @property
    def _asks_of_blocked(self) -> bool:
        return self.rule.train_on_blocked and self.gate is not None

    def _normalise(self) -> None:
        fresh = self.reader.fresh(self.counts.learned_until)
        rows = fresh[_sound(fresh)]
        self.counts.broken += len(fresh) - len(rows)  # here, where each one comes once
        if len(fresh):
            self.counts.learned_until = int(fresh["number"][-1]) + 1
        if not len(rows):
            return
        t = self._transitions(rows, combine(rows, None, self.rule), np.ones(len(rows)))
        self.learner.normalise(torch.from_numpy(rows["obs"].copy()), self.learner.targets(t))

    def _update(self) -> tuple[Lessons, Outcome | None]:
        rows, weights = self.reader.sample(self.rule.batch_size, self.rng, self._left_out())
        sound = _sound(rows)
        rows, weights = rows[sound], weights[sound]
        lessons = combine(rows, self._judge(rows), self.rule)
        if len(lessons) < self.rule.min_batch_size:
            return lessons, None
        outcome = self.learner.update(self._transitions(rows, lessons, weights))
        if outcome.finite and self.reader.prioritised:
            self.reader.prioritise(rows[lessons.index], outcome.errors.numpy())
        return lessons, outcome

    def _judge(self, rows: np.ndarray) -> Judgement | None:
        if self.gate is None or not len(rows):
            return None
        judgement = self.gate.evaluate(rows["seen"].copy(), rows["proposed"].copy(), rows["confidence"])
        check_judgement(judgement, len(rows), rows["proposed"].shape[1])
        return judgement

    def _transitions(self, rows: np.ndarray, lessons: Lessons, weights: np.ndarray) -> Transitions:
        chosen = rows[lessons.index]

        def floats(values: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(values, np.float32))

        return Transitions(
            obs=floats(chosen["obs"]),
            action=torch.from_numpy(np.ascontiguousarray(lessons.action)),
            log_prob=floats(lessons.log_prob),
            reward=floats(lessons.reward),
            next_obs=floats(chosen["next_obs"]),
            done=torch.from_numpy(lessons.ends),
            weight=floats(weights[lessons.index]),
        )

    def _judged(self, lessons: list[Lessons], outcomes: list[Outcome], start: float) -> Report | None:
        """What a training came to; a state that went wrong is left."""
        made = [outcome for outcome in outcomes if outcome.finite]
        skipped = len(lessons) - len(made)
        self.counts.skipped += skipped
        self.counts.batches += len(made)
        gated, agreed = sum(lesson.gated for lesson in lessons), sum(lesson.agreed for lesson in lessons)
        self.agreements.append((gated, agreed))
        critic = _mean([outcome.critic_loss for outcome in made])
        diverged = self._diverges(critic, broken=bool(outcomes) and not made)
        if diverged:
            self._roll_back()
        elif made:
            self.counts.trainings += 1
            self._put_on_probation()
            self._calm_down()
        if not outcomes:
            return None
        report = Report(
            batches=len(made),
            lessons=_mean([float(len(lesson)) for lesson in lessons]),
            loss=_mean([outcome.loss for outcome in made]),
            critic_loss=critic,
            entropy=_mean([outcome.entropy for outcome in made]),
            seconds=time.perf_counter() - start,
            gated=gated,
            agreed=agreed,
            skipped=skipped,
            rolled_back=diverged,
        )
        self.recent.append(report)
        return report

    def _diverges(self, critic: float, broken: bool) -> bool:
        watch = self._watch
        watch.strikes = watch.strikes + 1 if broken else 0
        if watch.strikes >= STRIKES:
            return True
        if not math.isfinite(critic):
            return False
        usual = max(statistics.median(watch.losses), LEAST) if len(watch.losses) >= ENOUGH else math.inf
        if critic > self.rule.divergence_factor * usual:
            return True
        watch.losses.append(critic)
        return False

    def _put_on_probation(self) -> None:
        watch, now = self._watch, self.counts.trainings
        if now % PROBATION == 0:
            watch.probation.append((now, self.learner.state()))
        while watch.probation and now - watch.probation[0][0] >= PROBATION:
            watch.good = watch.probation.pop(0)[1]

    def _calm_down(self) -> None:
        watch, full = self._watch, self.rule.learning_rate
        watch.calm += 1
        if watch.calm >= CALM and self.base_rate < full:
            self.base_rate, watch.calm = min(2 * self.base_rate, full), 0

    def _roll_back(self) -> None:
        watch, least = self._watch, self.rule.learning_rate * LEAST_RATE
        self.learner.load_state(watch.good)
        watch.stuck = self.base_rate <= least
        self.base_rate = max(self.base_rate / 2, least)
        self.counts.rollbacks += 1
        watch.strikes, watch.calm, watch.probation = 0, 0, []
        watch.losses.clear()

    def state(self) -> dict[str, Any]:
        """What decides the next training, as plain values and tensors; priorities, usual losses and calm begin anew."""
        counts = dict(vars(self.counts))
        generator = self.rng.bit_generator.state
        words = [generator["state"]["state"], generator["state"]["inc"]]
        rest = [generator["has_uint32"], generator["uinteger"]]
        return {**self.learner.state(), "online": {"counts": counts, "base_rate": self.base_rate, "rng": [
            *(str(word) for word in words), *rest,
        ]}}  # fmt: skip

    def load_state(self, state: dict[str, Any]) -> None:
        """The inverse of `state`. Raises UserError, ValueError, LookupError where it is not one."""
        self.learner.load_state(state)
        saved = state["online"]
        self.counts = Counts(**saved["counts"])
        self.counts.learned_until = min(self.counts.learned_until, self.reader.added)  # it may be another buffer
        self.base_rate = float(saved["base_rate"])
        word, step, has_uint32, uinteger = saved["rng"]
        self.rng.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": int(word), "inc": int(step)},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }
        self._watch.good = self.learner.state()


def rule_of(config: RootConfig) -> OffPolicyRule:
    """How updates are made."""
    online, train = config.online, config.train
    return OffPolicyRule(
        discount=train.gamma,
        ratio_clip=online.ratio_clip,
        trust=online.trust,
        entropy_coef=online.entropy_coef,
        grad_norm=train.grad_norm,
    )


def _sound(rows: np.ndarray) -> np.ndarray:
    """Which rows (n,) can be learned from: all their numbers are finite, and no larger than can be squared."""
    numbers = [rows[name] for name in ("obs", "next_obs", "reward", "log_prob", "executed_log_prob")]
    return np.logical_and.reduce([(np.abs(v) < HUGE).all(tuple(range(1, v.ndim))) for v in numbers])


def _mean(values: list[float]) -> float:
    return statistics.fmean(values) if values else math.nan

"""Champion and challenger: a version goes live unless the data show that it is worse, or it is too far away to tell.

    champion = Champion(live, judge, decisions, outcomes, rule, hooks)
    Watcher(live, source, refusals, guard=champion, regularly=champion.review)
    champion.reading()                       # any thread: what became of the newest version, and the counts

The champion is the version that acts. Each newer one is judged when it would go live, the newest one at most every
`online.judge_interval` s; in between, the champion acts on. (A learner makes up to 20 versions a second. Testing each
of them would refuse many good ones by chance, and would cost more than it tells.)

**It is judged** on the newest `online.judge_rows` decisions in the replay buffer (`online/judge.py`), against the
acting version, and with discount 0 against the *stable* one too. The first comparison finds a version that is spoiled
at once, the second one a decline in many steps, each too small to be seen. `Finding` defines *worse* and *better*.

| evidence | what happens |
| --- | --- |
| it is worse than the acting or than the stable version | refused |
| it is worse than neither, and its mean KL to the acting version is at most `online.adopt_kl` | it goes live |
| the same, but there is too little data for an interval | it goes live, and is shown as not judged |
| its KL is larger, and it is not better than the acting version | refused |

With `challengerShare`, a version that was not refused acts as a challenger in a share of the streams at first
(`online/trial.py`). When both sides have `ENOUGH` outcomes, it is refused if its interval lies wholly below the
champion's, and goes live otherwise. The two are compared once and not repeatedly, so the confidence level holds. A
trial that takes longer than `online.challenge_limit_s` ends without a finding, because newer versions wait for it: the
challenger goes live, as it would without a trial, and is shown as not judged.

**The stable version** is the last one that was found to be no worse than the stable one before it. After at least
`ENOUGH` new outcomes and `REVIEW_S`, the acting version is reviewed. With discount 0, it is compared with the stable
one on the newest decisions, which also tells what the stable one would earn *now*: a change of the environment does not
look like a bad version. With a larger discount, or if the two are too far apart, the new outcomes are compared with
those that made the stable version stable. Several versions may have earned them: the *subject* of the review, which
acted when the first of them came, and its successors.

- The acting version's interval lies wholly below the stable one's: the stable version acts again.
- The mean is not lower, or `AGE` reviews found nothing: the acting version, or by outcomes the subject, is the stable
  one from now on. It is not the acting version by outcomes, because that may have begun to act only after they came.

The champion's outcomes during a trial count in these reviews too. If it is rolled back, the trial ends.

After a rollback because of outcomes, no version goes live until it is measured what the stable version earns now, by
outcomes of its own decisions. If the environment has changed, it earns as little, and this becomes the measure: there
is one rollback, not a series. If these outcomes do not come, versions go live again after `online.challenge_limit_s`;
what the stable version once earned is no measure any more, and the next outcomes become the new one.

**The trainer goes back too**, to the weights that act, because it would otherwise publish the same version again: after
a rollback, after a challenger has lost, and after `STREAK` refusals in a row, if the last was for its KL, or if half of
the rows are new since the first: the same rows would refuse the same versions again.

**Alarm.** After `online.max_rollbacks` of these within ten minutes, going back evidently does not help. Then no version
goes live until a person allows it, or until a version is shown to be better than the acting and the stable one.

An automatic rollback is no intervention: the stable version decides with its own propensities, so its decisions are
trained on. While a person has pinned a version, nothing is judged; the first version after that may be far away.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from livegym.live.model_slot import snapshot_of
from livegym.live.swap import LivePolicy
from livegym.online.challenge import ENOUGH, Challenge
from livegym.online.champion_rule import WITHIN, ChampionRule, Decisions, Hooks
from livegym.online.estimate import Estimate, mean_of
from livegym.online.judge import Finding, Judge, View, in_words
from livegym.online.judgements import GAIN, Judgements
from livegym.online.outcomes import Outcome, Outcomes
from livegym.utils.log import ROUTINE
from livegym.utils.words import count
from livegym.weights.candidate import Candidate

log = logging.getLogger(__name__)

REVIEW_S = 10.0  # least time between two reviews
AGE = 10  # reviews without a finding, after which the acting version is the stable one
STREAK = 10  # refusals in a row, after which the trainer goes back
COST = 20.0  # the pause after a judgement, as a multiple of the processor time that it took


@dataclass
class _Counts:
    judged: int = 0
    not_judged: int = 0
    refused: int = 0
    rolled_back: int = 0
    started_over: int = 0


@dataclass
class _Streak:
    """Refusals in a row."""

    count: int = 0
    since: int = 0  # number of experiences added at the first of them


class Champion:
    """Guards the acting policy of one continuous run. All methods without a note belong to the watching thread."""

    def __init__(
        self,
        live: LivePolicy,
        judge: Judge,
        decisions: Decisions,
        outcomes: Outcomes,
        rule: ChampionRule,
        hooks: Hooks,
    ) -> None:
        """`decisions`: what versions are judged by."""
        self._live = live
        self._judge = judge
        self._decisions = decisions
        self._outcomes = outcomes
        self._rule = rule
        self._hooks = hooks
        self._stable = self._acting()
        self._reference: Estimate | None = None  # outcomes that made it stable
        self._measuring: float | None = None  # until this monotonic s, it is measured what the stable version earns now
        self._age = 0  # reviews since then without a finding
        self._values: list[float] = []  # outcomes since the last review
        self._subject = self._stable  # the version that acted when the first of them came
        self._trial: Challenge | None = None
        self._counts = _Counts()
        self._streak = _Streak()
        self._set_back: deque[float] = deque()  # monotonic s, when the trainer was set back
        self._alarm = ""
        self._allowed = False  # a person has ended the alarm
        self._judged_at: tuple[int, int] = (-1, -1)  # version and number of experiences of the last judgement
        self._lost = 0  # version that lost as a challenger
        self._arrived = 0  # newest version that was offered
        self._unpinned = False  # a person has ended a pin: the next version may be far away
        self._due = -math.inf
        self._review_due = time.monotonic() + REVIEW_S
        self.said = Judgements()

    # any thread

    def reading(self) -> dict[str, Any]:
        """Return the newest version's state, the stable version, the alarm and the counts, as plain values."""
        counts = dict(vars(self._counts))
        trial, alarm = self._trial, self._alarm
        return {  # the counts were read first: the reason for a rollback is there once it is counted
            **self.said.last,
            "stable": self._stable.version,
            "challenger": trial.candidate.version if trial is not None else None,
            "measuring": self._measuring is not None,
            "alarm": bool(alarm),
            "alarm_why": alarm,
            **counts,
        }

    @property
    def arrived(self) -> int:
        """The newest version that was offered; 0 if there was none."""
        return self._arrived

    def allow(self) -> None:
        """End the alarm, or the measurement after a rollback: versions go live again if nothing speaks against them."""
        self._allowed = True

    # the watching thread

    def judge(self, candidate: Candidate, live: LivePolicy, ended: Callable[[], bool]) -> bool:
        """Return whether a version that fits may go live; False: not now. It is offered again."""
        self._arrived = max(self._arrived, candidate.version)
        self._unpinned |= live.pinned
        if live.pinned or self._trial is not None or self._measuring is not None or time.monotonic() < self._due:
            return False
        known = (candidate.version, self._decisions.added())
        if known == self._judged_at or candidate.version == self._lost:
            return False
        began, busy = time.monotonic(), time.thread_time()
        self._judged_at = known
        passed = self._decide(candidate)
        busy = time.thread_time() - busy  # not the time that other processes took
        self._due = max(began + self._rule.interval, time.monotonic() + COST * busy)
        return passed and not ended()

    def review(self) -> None:
        """Compare what was earned; called regularly. It may roll back, end a trial, or find a new stable version."""
        taken = self._outcomes.take()
        if self._allowed:
            self._end_alarm()
        if self._live.pinned:
            self._values.clear()
            self._give_up_measuring()
            self._end_trial()
            return
        if self._trial is not None:
            self._trial.add(taken, self._live.acting.version)
        self._collect([o for o in taken if not o.challenger])
        if len(self._values) >= ENOUGH and time.monotonic() >= self._review_due:
            self._review_acting()
            self._values.clear()
            self._review_due = time.monotonic() + REVIEW_S
        if self._trial is not None:  # otherwise the review has ended it
            self._finish_trial(self._trial)
        if self._measuring is not None and time.monotonic() >= self._measuring:
            log.warning("too few outcomes of version %d came: versions go live again.", self._stable.version)
            self._give_up_measuring()

    def _collect(self, outcomes: list[Outcome]) -> None:
        if self._measuring is not None:  # those of versions that were rolled back may still come
            outcomes = [o for o in outcomes if o.version == self._stable.version]
        if outcomes and not self._values:
            self._subject = self._acting()
        self._values += [o.value for o in outcomes]

    def _give_up_measuring(self) -> None:
        if (
            self._measuring is not None
        ):  # the environment may have changed, so earlier outcomes would be a false measure
            self._measuring = self._reference = None
            self._values.clear()

    def _end_alarm(self) -> None:
        self._allowed, self._alarm = False, ""
        self._give_up_measuring()
        self._set_back.clear()
        self._judged_at = (-1, -1)  # the newest version is judged again, even if no decision has been made since

    def _acting(self) -> Candidate:
        """The acting version with a copy of its weights."""
        while True:
            acting = self._live.acting
            label, weights = self._live.weights()
            if acting.label(self._live.first_run) == label:  # otherwise another version has just taken over
                return replace(acting, model=weights)

    def _decide(self, candidate: Candidate) -> bool:
        acting, rows = self._acting(), self._decisions.newest(self._rule.rows)
        if not len(rows):
            return self._pass(candidate, None)
        findings = self._findings(self._judge.view(rows, acting.model), candidate, acting)
        against = findings[0]
        if any(finding.worse for finding in findings):
            name = "acting" if against.worse else "stable"
            finding = against if against.worse else findings[-1]
            return self._refuse(candidate, finding, f"worse than the {name} version: {finding.words}")
        if self._alarm and not all(finding.better for finding in findings):
            return self._refuse(candidate, against, "after the alarm, only a version that is better goes live")
        if against.kl > self._rule.kl and not against.better and not self._unpinned:
            why = f"its KL to the acting version is {against.kl:.3g}, more than online.adopt_kl={self._rule.kl:g}"
            return self._refuse(candidate, against, why, far=True)
        return self._pass(candidate, against)

    def _findings(self, view: View, candidate: Candidate, acting: Candidate) -> list[Finding]:
        """Return how a candidate compares with the acting version, and with the stable one if the data can tell."""
        findings = [view.compare(candidate.model, acting.model)]
        if self._judge.discount == 0 and self._stable.version != acting.version:
            findings.append(view.compare(candidate.model, self._stable.model))
        return findings

    def _pass(self, candidate: Candidate, finding: Finding | None) -> bool:
        known = finding is not None and finding.gain.known
        self._counts.judged += known
        self._counts.not_judged += not known
        self._streak = _Streak()
        self._alarm = ""
        self._unpinned = False
        why = finding.words if finding is not None else "there are no decisions to judge by"
        state = "live" if known else "not judged"
        self._note(candidate, state, why, finding)
        if self._rule.share and finding is not None:
            self._begin_trial(candidate)
            return False
        return True

    def _refuse(self, candidate: Candidate, finding: Finding, why: str, far: bool = False) -> bool:
        self._counts.judged += finding.gain.known
        self._counts.refused += 1
        self._note(candidate, "refused", why, finding)
        added = self._judged_at[1]
        if not self._streak.count:
            self._streak = _Streak(since=added)
        self._streak.count += 1
        quiet = ROUTINE if self._streak.count > 1 else None
        log.warning("refused version %d: %s. The champion acts on.", candidate.version, why, extra=quiet)
        renewed = added - self._streak.since >= self._rule.rows // 2
        if self._streak.count >= STREAK and (far or renewed) and not self._alarm:
            self._streak = _Streak()
            self._start_over(f"{STREAK} versions in a row were refused; the last: {why}", self._acting())
        return False

    def _note(self, candidate: Candidate, state: str, why: str, finding: Finding | None) -> None:
        gain = finding.gain if finding is not None else None
        known = gain is not None and gain.known
        kl = finding.kl if finding is not None and math.isfinite(finding.kl) else None
        numbers = (gain.mean, gain.low, gain.high) if gain is not None and known else (None, None, None)
        shown = dict(zip(GAIN, numbers, strict=True))
        self.said.say(version=candidate.version, state=state, why=why, kl=kl, **shown)

    # trials

    def _begin_trial(self, candidate: Candidate) -> None:
        kept = snapshot_of(candidate, self._live.first_run).candidate
        self._hooks.challenge(kept)
        self._trial = Challenge(kept, self._live.acting.version, time.monotonic() + self._rule.challenge)
        self.said.say(state="challenger", why=f"it acts in {self._rule.share:.0%} of the streams")

    def _end_trial(self) -> None:
        if self._trial is not None:
            self._hooks.challenge(None)
            self._trial = None

    def _finish_trial(self, trial: Challenge) -> None:
        enough = trial.enough
        if not enough and time.monotonic() < trial.ends:
            return
        worse, why, sides = trial.compare(self._rule.confidence)
        self._end_trial()
        if not enough:
            why = f"too few outcomes within online.challenge_limit_s={self._rule.challenge:g}: {sides}"
        self.said.say(state="refused" if worse else "live" if enough else "not judged", why=why)
        if worse:
            self._counts.refused += 1
            self._lost = trial.candidate.version
            log.warning("refused challenger %d: %s.", trial.candidate.version, why)
            self._start_over(f"the challenger was worse: {why}", self._acting())
        else:
            self._live.prepare(trial.candidate)

    # the acting version, and the stable one

    def _review_acting(self) -> None:
        acting, subject = self._acting(), self._subject
        earned = mean_of(np.array(self._values), confidence=self._rule.confidence)
        self._measuring = None
        if acting.version == self._stable.version:
            self._reference = earned
            return
        gain, why = self._gain_over_stable(acting), ""
        if gain is not None:
            subject = acting
            fallen, holds = gain.high < 0, gain.mean >= 0
            why = f"{in_words(gain)} against the stable version"
        elif self._reference is None:
            fallen, holds = False, True
        else:
            fallen, holds = earned.below(self._reference), earned.mean >= self._reference.mean
            why = f"it earns {in_words(earned)}, the stable version earned {in_words(self._reference)}"
        self._age += 1
        if fallen:
            self._roll_back(acting, why, gain)
        elif holds or self._age >= AGE:
            self._stable, self._reference = subject, earned
            self._age = 0

    def _gain_over_stable(self, acting: Candidate) -> Estimate | None:
        """Estimate the acting version's gain over the stable one, now; None if only outcomes can tell."""
        if self._judge.discount != 0:
            return None
        view = self._judge.view(self._decisions.newest(self._rule.rows), self._stable.model)
        gain = view.compare(acting.model, self._stable.model).gain
        return gain if gain.known else None

    def _roll_back(self, acting: Candidate, why: str, gain: Estimate | None) -> None:
        self._age = 0
        reason = f"version {acting.version} was rolled back to {self._stable.version}: {why}"
        log.warning("%s", reason)
        if self._trial is not None:  # its challenger was only compared with a version that is worse than the stable one
            self._counts.refused += 1
            self.said.say(state="refused", why=f"the champion of its trial, {reason}")
            self._end_trial()
        if gain is None:
            self._measuring = time.monotonic() + self._rule.challenge
            why += f". Versions go live again after {ENOUGH} new outcomes of version {self._stable.version}"
        self.said.say(version=acting.version, state="rolled back", why=why, **dict.fromkeys(GAIN))
        self._counts.rolled_back += 1
        self._live.prepare(replace(self._stable, source="stable", load_ms=0.0))
        self._start_over(reason, self._stable)

    def _start_over(self, why: str, weights: Candidate) -> None:
        now = time.monotonic()
        while self._set_back and now - self._set_back[0] > WITHIN:
            self._set_back.popleft()
        if len(self._set_back) >= self._rule.max_rollbacks:
            times = count(len(self._set_back), "time")
            self._alarm = f"the trainer was set back {times} within ten minutes, which is the limit. {why}"
            log.error("alarm: %s. No version goes live until the dashboard's button allows it.", self._alarm)
            return
        self._set_back.append(now)
        self._counts.started_over += 1
        self._hooks.start_over(weights, why)

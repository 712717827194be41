"""The live policy: acts with one set of weights while the next is made ready beside it.

A thread loads and checks new weights into a model that does not act; the control loop takes it over between two
control steps by exchanging references. So nothing is reset, no action comes of half a policy, and the loop never
waits.

    live = LivePolicy(make_policy, first, rule=SwapRule("blend", blend_steps=75))
    live.prepare(candidate)          # watching thread; raises UserError where the weights do not fit
    event = live.adopt()             # control loop, between two steps; None where nothing is ready
    action = live.act(obs)

Every environment has a share a in [0, 1] of the new policy: `now` sets 1, `reset` sets it when that environment's
episode begins, `blend` ramps it over `blend_steps`. While some a < 1 both act. A version that arrives meanwhile
waits, and only the newest waits.

Three models ("seats") are enough: one acts, one may be leaving, and one is free, being loaded, or ready. A seat is
handed over by `deque.append` and taken by `deque.pop`, which are atomic: whoever popped it owns it, and nobody locks.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from livegym.live.history import History
from livegym.live.mixture import Chooser
from livegym.live.pool import Pool
from livegym.live.seat import Seat
from livegym.live.steering import Command, Steerable
from livegym.live.transition import Change, Progress, SwapRule
from livegym.rl.policy import Distribution, Policy
from livegym.utils.errors import UserError
from livegym.weights.candidate import Candidate, Label, SwapEvent

log = logging.getLogger(__name__)


class LivePolicy(Steerable):
    """One policy that acts in N environments and can be exchanged while it does."""

    def __init__(
        self,
        make_policy: Callable[[], Policy],
        first: Candidate,
        stochastic: bool,
        seed: int,
        rule: SwapRule | None = None,
        first_run: str | None = None,
    ) -> None:
        """`make_policy` builds one empty model. Raises UserError where `first` does not fit.

        `first_run`: whose versions are labelled by their number alone; None: the run of `first`.
        """
        super().__init__()
        self.rule = rule or SwapRule()
        self.first_run = first.run if first_run is None else first_run
        self._acting, *others = (Seat(make_policy()) for _ in range(3))
        self._leaving: Seat | None = None
        self._free, self._ready = deque(others), deque[Seat]()
        policy = self._acting.policy
        self.device = policy.device
        self.history = History(self.rule.history)
        self.pool = Pool(self.rule.pool_envs, policy.num_envs, make_policy, self.history, seed)
        self._alpha = torch.ones(policy.num_envs, device=self.device)  # (N,)
        self._progress = Progress(self._alpha)
        self._choose = Chooser(stochastic, torch.Generator(self.device).manual_seed(seed))
        policy.check(first.model, first.spec)
        self._acting.take(first)
        if self.rule.history:
            self._acting.keep(first, self.first_run)
            self._remember(self._acting)
        self.newest = self.acting  # offered, whether it acts already or waits
        self.said: Distribution | None = None  # what the acting version would do, in the last `act`

    @property
    def num_envs(self) -> int:
        """N: environments that it acts in."""
        return self._acting.policy.num_envs

    @property
    def acting(self) -> Candidate:
        """Whose weights act, without the weights; while two act, the new one's."""
        assert self._acting.candidate is not None
        return self._acting.candidate

    @property
    def label(self) -> Label:
        """The acting version's label."""
        return self.acting.label(self.first_run)

    def fits(self, candidate: Candidate) -> bool:
        """Whether a version has the shape of what acts."""
        try:
            self._acting.policy.check(candidate.model, candidate.spec)
        except UserError:
            return False
        return True

    @property
    def swapping(self) -> bool:
        """Whether two versions act at the moment."""
        return self._leaving is not None

    def weights(self) -> tuple[Label, dict[str, Tensor]]:
        """The acting version and a copy of its weights; may be asked for by the watching thread."""
        while True:
            seat = self._acting
            assert seat.candidate is not None
            label, weights = seat.candidate.label(self.first_run), seat.policy.state()
            if seat is self._acting:  # it was not exchanged, and perhaps loaded anew, meanwhile
                return label, weights

    # the watching thread's part

    def prepare(self, candidate: Candidate) -> None:
        """Makes a version ready, in the place of one that still waits. Raises UserError where it does not fit."""
        self._acting.policy.check(candidate.model, candidate.spec)  # before a waiting one is given up for it
        seat = self._take_seat()
        seat.take(candidate)
        if self.rule.history:
            seat.keep(candidate, self.first_run)
        assert seat.candidate is not None
        self.newest = seat.candidate
        with contextlib.suppress(IndexError):  # an older one that waits is given up
            self._free.append(self._ready.pop())
        self._ready.append(seat)  # from here on the control loop may own it

    def _take_seat(self) -> Seat:
        """A seat that does not act: a free one, or the one that waits. There is always one, if not at every moment."""
        while True:
            for seats in (self._free, self._ready):
                try:
                    return seats.pop()
                except IndexError:
                    continue

    # the control loop's part

    def _roll_back(self, label: Label | None) -> SwapEvent:
        kept = self._kept_or_refused(label)
        how = "now" if self.swapping else self.rule.how  # of three versions, two can act
        self._end_transition()
        seat = self._take_seat()
        seat.take(replace(kept.candidate, source="history", load_ms=0.0))
        seat.kept = kept
        self.pinned = True
        event = self._begin(seat, how, "rolled back")
        self.newest = self.acting
        return event

    def adopt(self) -> SwapEvent | None:
        """Between two control steps: exchanges the seats where a version is ready and may take over."""
        while not self._commands.empty():
            event = self._run_command(self._commands.get())
            if event is not None:
                return event
        if not self._ready or self.pinned or self._leaving is not None:
            return None
        if time.monotonic() - self._progress.swapped_at < self.rule.min_interval:
            return None
        try:
            seat = self._ready.pop()
        except IndexError:  # just now given up for a newer one
            return None
        return self._begin(seat, self.rule.how)

    def _run_command(self, command: Command) -> SwapEvent | None:
        try:
            return command()
        except UserError as error:  # what it is about was kept when it was asked for
            log.warning("%s", error)
            return None

    def _begin(self, seat: Seat, how: str, reason: str = "") -> SwapEvent:
        seat.copy_memory(self._acting)
        self._leaving, self._acting = self._acting, seat
        progress = self._progress
        progress.how = how
        progress.swapped_at, progress.steps = time.monotonic(), 0
        taken = progress.everywhere
        if how == "now":
            self._end_transition()
        else:
            self._alpha.fill_(0.0)
        if how == "reset":
            taken = progress.fresh.nonzero().squeeze(1).tolist()
            self._alpha[taken] = 1.0
            self._end_where_done()
        self._note_change(taken)
        self._remember(seat)
        return SwapEvent.of(self.acting, accepted=True, reason=reason)

    def _remember(self, seat: Seat) -> None:
        if seat.kept is not None:
            self.history.add(seat.kept)
            seat.kept = None

    def _note_change(self, env_ids: list[int]) -> None:
        env_ids = self.pool.without(env_ids)
        if env_ids:
            self._progress.changes.append((env_ids, self.label))

    def take_changes(self) -> list[Change]:
        """Which version acts where from the next step on, as far as that changed since the last call."""
        changes = self._progress.changes + self.pool.changes
        self._progress.changes, self.pool.changes = [], []
        return changes

    def _end_where_done(self) -> None:
        if self._leaving is not None and bool((self._alpha >= 1.0).all()):
            self._end_transition()

    def _end_transition(self) -> None:
        if self._leaving is not None:
            self._free.append(self._leaving)  # from here on the watching thread may own it
            self._leaving = None

    def act(self, obs: Tensor) -> Tensor:
        """obs (N, width) -> actions: the most likely ones, or samples where the policy is stochastic.

        Of a policy without memory, the first environments alone may be asked for: obs (n, width), n <= N.
        """
        obs = obs.to(self.device)
        out = self.said = self._acting.think(obs)
        if self._leaving is None:
            action = self._choose(out)
        else:
            if self._progress.how == "blend":
                self._progress.steps += 1
                self._alpha.fill_(min(1.0, self._progress.steps / self.rule.blend_steps))
            action = self._choose.mixed(self._leaving.think(obs), out, self._alpha[: len(obs)])
            self._end_where_done()
        self._progress.fresh[:] = False
        self._note_change(self._progress.joining)
        self._progress.joining = []
        return self.pool.act(obs, action, self._choose)

    def forget(self, env_ids: Tensor) -> None:
        """Episodes of environments (n,) begin anew."""
        self._acting.forget(env_ids)
        self._progress.fresh[env_ids] = True
        if self._leaving is not None:
            self._leaving.forget(env_ids)
            if self._progress.how == "blend":  # both play the new episodes: the old one is named first
                assert self._leaving.candidate is not None
                joining = self.pool.without(env_ids.tolist())
                self._progress.changes.append((joining, self._leaving.candidate.label(self.first_run)))
                self._progress.joining = joining
            else:
                self._note_change(env_ids[self._alpha[env_ids] < 1.0].tolist())
                self._alpha[env_ids] = 1.0
                self._end_where_done()
        self.pool.forget(env_ids, self.label)

"""The live policy: acts with one set of weights while the next is made ready beside it.

There are two models. The watching thread loads and checks new weights into the standby; the control loop takes them
over between two control steps by exchanging two references. So nothing is reset, no action comes of half a policy,
and the loop never waits for a file.

    live = LivePolicy(make_policy, first)
    live.prepare(candidate)          # watching thread; raises UserError where the weights do not fit
    event = live.adopt()             # control loop, between two steps; None where nothing is ready
    action = live.act(obs)

Ownership decides without a lock: the standby belongs to the watching thread while `_ready` is None, and to the
control loop while it is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from rl.policy import Memory, Policy
from rl.spec import PolicySpec
from utils.run import run_of


@dataclass(frozen=True)
class Candidate:
    """Verified weights with what is known of them."""

    model: dict[str, Tensor]
    spec: PolicySpec | None  # None: a plain rl_games file, which does not say
    run_id: str
    version: int
    epoch: int
    reward: float | None
    file: Path
    source: str = "files"
    load_ms: float = 0.0

    @property
    def run(self) -> str:
        """The name of its run directory; empty for a lone file."""
        run = run_of(self.file)
        return run.name if run else ""


@dataclass(frozen=True)
class SwapEvent:
    """One new version offered to the running policy: taken over, or refused with a reason."""

    time: float  # s since the epoch
    source: str
    run: str
    file: str
    version: int | None
    epoch: int | None
    reward: float | None
    accepted: bool
    reason: str
    load_ms: float

    @classmethod
    def of(cls, candidate: Candidate, accepted: bool, reason: str = "") -> SwapEvent:
        """The event of a candidate that was taken over or refused."""
        c = candidate
        return cls(time.time(), c.source, c.run, c.file.name, c.version, c.epoch, c.reward, accepted, reason, c.load_ms)


class LivePolicy:
    """One policy that acts in N environments and can be exchanged while it does."""

    def __init__(self, make_policy: Callable[[], Policy], first: Candidate, stochastic: bool, seed: int) -> None:
        """`make_policy` builds one empty model; it is called twice. Raises UserError where `first` does not fit."""
        self._active = make_policy()
        self._standby = make_policy()
        self._active.load(first.model, first.spec)
        self.acting = first
        self._ready: Candidate | None = None
        self._stochastic = stochastic
        self._rng = torch.Generator(self._active.device).manual_seed(seed)
        self._first_memory = self._active.first_memory()
        self._memory: Memory = tuple(m.clone() for m in self._first_memory)

    @property
    def busy(self) -> bool:
        """Whether a version is ready and the control loop has not taken it over yet."""
        return self._ready is not None

    def prepare(self, candidate: Candidate) -> None:
        """Watching thread: loads a version into the standby. Raises UserError where it does not fit."""
        if self.busy:
            raise RuntimeError("a version is waiting to be adopted; ask `busy` first")
        self._standby.load(candidate.model, candidate.spec)
        self._ready = candidate  # from here on the control loop owns the standby

    def adopt(self) -> SwapEvent | None:
        """Control loop: exchanges active and standby where a version is ready. The recurrent state goes on."""
        candidate = self._ready
        if candidate is None:
            return None
        self._active, self._standby = self._standby, self._active
        self.acting = candidate
        self._ready = None  # from here on the watching thread owns the standby again
        return SwapEvent.of(candidate, accepted=True)

    def act(self, obs: Tensor) -> Tensor:
        """obs (N, width) -> actions: the most likely ones, or samples where the policy is stochastic."""
        out = self._active(obs.to(self._active.device), self._memory)
        self._memory = out.memory
        return out.sample(self._rng) if self._stochastic else out.mode()

    def forget(self, env_ids: Tensor) -> None:
        """The recurrent state of environments (n,) is that of an episode's start again."""
        for memory, first in zip(self._memory, self._first_memory, strict=True):
            memory[:, env_ids] = first[:, env_ids]

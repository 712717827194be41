"""The watching thread: waits for newer weights, and prepares them while the present ones act.

    with Watcher(live, source, refusals):
        player.run(...)

The thread never touches the acting policy. Weights that it cannot use are reported once, with the reason, and tried
again when they change. While it runs, Python switches threads every 0.2 ms instead of every 5 ms: much of reading a
checkpoint is Python code, and a control loop that wakes up must not wait 5 ms for it.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from livegym.live.model_slot import SPACED
from livegym.live.swap import LivePolicy
from livegym.play.swap_guard import GuardRefusal
from livegym.play.world import World
from livegym.rl.policy import Misfit
from livegym.utils.errors import UserError
from livegym.utils.log import ROUTINE
from livegym.weights.archive import ArchivedVersion
from livegym.weights.candidate import Candidate, Label, SwapEvent
from livegym.weights.sources import Source

log = logging.getLogger(__name__)

TURN = 2e-4  # s: Python's thread switch interval
SLICE = 0.1  # s: longest duration of one wait, so that the thread can end soon
REST = 0.005  # s: pause after each version, because a learner may publish faster than the policy acts
HINT = " (onMismatch=reinit rebuilds network and environments)"
PAUSE = 5.0  # s: pause after an unexpected error


class Guard(Protocol):
    """Judges each version before it may take over."""

    def judge(self, candidate: Candidate, live: LivePolicy, ended: Callable[[], bool]) -> bool:
        """Return whether a version that fits may take over; False: it is offered again. Raises GuardRefusal."""
        ...


class Versions(Protocol):
    """The versions that can be loaded if a user asks for them, from files or from a server."""

    entries: tuple[ArchivedVersion, ...]

    def refresh(self) -> None:
        """Bring `entries` up to date. May be called often."""

    def load(self, label: Label) -> Candidate:
        """The verified weights of a version. Raises UserError."""
        ...


class _Turns:
    """Python's thread switch interval, which is the process's: the first watcher sets it, the last restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0  # s

    def shorten(self) -> None:
        with self._lock:
            if self._users == 0:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(TURN)
            self._users += 1

    def restore(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                sys.setswitchinterval(self._before)


_turns = _Turns()


class Watcher:
    """A background thread between one source of weights and one live policy."""

    def __init__(
        self,
        live: LivePolicy,
        source: Source,
        refusals: queue.SimpleQueue[SwapEvent],
        guard: Guard | None = None,
        build_for: Callable[[Candidate], World] | None = None,
        other_world: Callable[[Candidate], World | None] | None = None,
        archive: Versions | None = None,
        regularly: Callable[[], None] = lambda: None,
        hint: str = HINT,
        seen: Callable[[Candidate], None] = lambda candidate: None,
    ) -> None:
        """`refusals` receives the versions that could not be used; `guard` tests versions before they are prepared.

        `build_for` builds another world for a version that does not fit this one, or raises UserError. That world
        becomes `successor`, and this thread ends. The same happens with the world from `other_world`, which builds one
        for a version of another run that fits but was trained in other environments, or returns None. `archive` has
        the versions that can be loaded from files. `regularly` is called after each poll, several times a second.
        `hint` ends the warning about a version that does not fit. `seen` is called with each version that the source
        offers, before it is judged; it must not keep the tensors.
        """
        self._live = live
        self._source = source
        self._refusals = refusals
        self._guard, self._build_for = guard, build_for
        self._other_world = other_world
        self._archive = archive
        self._regularly, self._hint = regularly, hint
        self._seen = seen
        self._preloads = live.rule.pool_envs > 0  # of the files that exist at the start, for the pool
        self._compared = live.newest.run_id  # the run with which this world's environments were compared last
        self.successor: World | None = None
        self._misfits: set[str] = set()  # runs of which a version did not fit
        self._guarded = False  # the guard has refused a version
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="weights-watcher", daemon=True)

    def poll(self) -> None:
        """Poll once: prepare a newer version if there is one."""
        candidate = self._source.poll(self._live.newest)
        for refusal in self._source.refusals():
            self._refusals.put(refusal)
        if candidate is not None:
            self._seen(candidate)
            self._offer(candidate)

    def recall(self) -> None:
        """Load from files the versions that were requested since the last call."""
        if self._archive is None:
            return
        self._archive.refresh()
        self._live.archived = self._archive.entries
        if self._preloads:
            self._preloads = False
            entries = self._archive.entries
            self._load(tuple(entry.label for entry in entries[:: 1 + len(entries) // SPACED]), lambda: None)
        while not self._live.recalls.empty():
            self._load(*self._live.recalls.get())

    def _load(self, labels: tuple[Label, ...], then: Callable[[], object]) -> None:
        assert self._archive is not None
        try:
            for label in labels:
                self._live.restore(self._archive.load(label), then if label == labels[-1] else None)
        except (UserError, Misfit) as error:
            log.warning("%s", error)

    def _offer(self, candidate: Candidate) -> None:
        try:
            self._live.prepare(candidate, self._judge)
        except Misfit as misfit:
            self._offer_misfit(candidate, misfit)
        except GuardRefusal as refusal:
            self._refuse(candidate, str(refusal), routine=self._guarded)
            self._guarded = True
        except UserError as error:
            self._refuse(candidate, str(error))

    def _judge(self, candidate: Candidate) -> bool:
        if self._other_world is not None and candidate.run_id != self._compared:
            if self._live.pinned:
                return False  # it is offered again after `follow`
            self.successor = self._other_world(candidate)
            self._compared = candidate.run_id
            if self.successor is not None:
                return False
        if self._guard is not None and not self._guard.judge(candidate, self._live, self._end.is_set):
            return False
        return not self._end.is_set()

    def _offer_misfit(self, candidate: Candidate, misfit: Misfit) -> None:
        """Build a world for a version that does not fit this one, or refuse it."""
        if self._build_for is None:
            known = candidate.run in self._misfits  # its other versions will not fit either: one warning is enough
            self._misfits.add(candidate.run)
            self._refuse(candidate, str(misfit), for_good=True, hint=self._hint, routine=known)
        elif not self._live.pinned:  # if pinned, the version is offered again after `follow`
            try:
                self.successor = self._build_for(candidate)
            except UserError as error:
                self._refuse(candidate, str(error), for_good=True)

    def _refuse(
        self, candidate: Candidate, why: str, for_good: bool = False, hint: str = "", routine: bool = False
    ) -> None:
        self._source.refuse(candidate, for_good)
        log.warning(
            "refused %s: %s. The old policy keeps acting%s.",
            candidate.file or candidate.name,
            why,
            hint,
            extra=ROUTINE if routine else None,
        )
        self._refusals.put(SwapEvent.of(candidate, accepted=False, reason=why))

    def _watch(self) -> None:
        while not self._end.is_set() and self.successor is None:
            try:
                self.poll()
                self.recall()
                self._regularly()
                self._end.wait(REST)
                self._source.wait(SLICE)
            except Exception:  # if the thread died silently, the test would never follow again
                log.exception("polling for newer weights failed; trying again in %g s", PAUSE)
                self._end.wait(PAUSE)

    def __enter__(self) -> Watcher:
        _turns.shorten()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)
        _turns.restore()

"""Source of weights from a livegym server on another machine, or from files of the same run if it cannot be reached.

    source = AddressSource(link, first, runs_dir, interval=30.0)
    source.wait(1.0)                   # until there may be something new
    candidate = source.poll(acting)    # None if there is nothing new
    source.close()

A thread of its own keeps the connection, downloads the newest version that is announced, and verifies it. So neither
the control loop nor the watching thread ever waits for the network. If the connection is lost, the thread connects
again, after a pause that grows and is drawn at random, so that a thousand followers do not come back at once. Meanwhile
a copy of the run in `runs_dir` is followed, if there is one, by its files or by the weight bus.

The version of a run never goes back, whatever the server announces.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from pathlib import Path

from livegym.rundir.run import TRAINING_KINDS, Run, list_runs
from livegym.utils.errors import UserError
from livegym.weights.candidate import Candidate, SwapEvent
from livegym.weights.follow import FollowSource
from livegym.weights.link import Announced, Denied, Link, LinkError, News
from livegym.weights.remote_archive import RemoteArchive
from livegym.weights.sources import CheckpointSource

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
"""Pause before the next connection; it doubles with each failure."""
LONGEST_PAUSE_S = 5.0
DENIED_PAUSE_S = 30.0
"""Pause after a refusal."""
WAKE_S = 1.0
"""Longest wait for an announcement, after which `close` is noticed."""
LEAST_S = 0.02
"""Least time between two downloads."""
FLOOD = 500
"""Announcements within a second after which the connection is closed."""
LOCAL_AFTER_S = 3.0
"""Time without a connection after which a copy of the run on this machine is followed."""
GROWTH, SLACK = 2, 2**20  # a later version may have so many times the first one's bytes, and so many more
MOST_RUNS = 100  # runs that one server may go over to
REFUSALS = 100  # that are kept until they are asked for


class AddressSource:
    """Follows one address. `poll`, `wait` and `refuse` belong to the watching thread."""

    def __init__(self, link: Link, first: Candidate, runs_dir: Path, interval: float) -> None:
        """`first`: a version that the link has fetched; `interval`: s between polls of files, if they are followed."""
        self._link = link
        self._runs_dir = runs_dir
        self._interval = interval
        self.address = link.address.name
        self._fixed_run = first.run_id if link.address.run is not None else None
        self._most = GROWTH * sum(v.numel() * v.element_size() for v in first.model.values()) + SLACK
        self._highest = {first.run_id: first.version}  # by run: the highest version that was downloaded
        self._newest: Candidate | None = first
        self._refused: set[tuple[str, int]] = set()
        self._misfits: set[str] = set()
        self._refusals: deque[SwapEvent] = deque(maxlen=REFUSALS)
        self._news = threading.Event()
        self._end = threading.Event()
        self._connected = False
        self._lost_at = time.monotonic()
        self._said = ""
        self._local: FollowSource | None = None
        self.archive = RemoteArchive(Link(link.address, link.token), first)
        self._thread = threading.Thread(target=self._follow, name="weights-address", daemon=True)
        self._thread.start()

    # for the watching thread

    @property
    def connected(self) -> bool:
        """Whether there is a connection to the server now. May be read by any thread."""
        return self._connected

    @property
    def kind(self) -> str:
        """The source that is followed at the moment: network, bus or files."""
        return "network" if self._local is None else self._local.kind

    @property
    def run(self) -> Run | None:
        """The directory on this machine that is followed; None while the address is."""
        return None if self._local is None else self._local.run

    @property
    def newer_run(self) -> str | None:
        """None: the server decides which run is followed."""
        return None

    def wait(self, timeout: float) -> None:
        """Sleep until there may be something new, at most `timeout` s."""
        if self._local is not None:
            self._local.wait(timeout)
        else:
            self._news.wait(timeout)
        self._news.clear()

    def poll(self, acting: Candidate) -> Candidate | None:
        """The newest version if it should replace `acting`, or None. It never waits for the network."""
        self._choose()
        found = self._newest
        if found is not None and self._is_due(found, acting):
            return found
        if self._local is None:
            return None
        copied = self._local.poll(acting)
        return copied if copied is not None and self._is_due(copied, acting) else None

    def _is_due(self, found: Candidate, acting: Candidate) -> bool:
        if found.run_id in self._misfits or (found.run_id, found.version) in self._refused:
            return False
        if found.run_id == acting.run_id:
            return found.version > acting.version
        return found.version >= self._highest.get(found.run_id, 0)

    def refuse(self, candidate: Candidate, for_good: bool) -> None:
        """Do not offer the candidate again; with `for_good`, no version of its run."""
        if self._local is not None and not candidate.address:
            self._local.refuse(candidate, for_good)
            return
        self._refused = {(candidate.run_id, candidate.version)}
        if for_good:
            self._misfits.add(candidate.run_id)

    def refusals(self) -> list[SwapEvent]:
        """Weights that could not be used since the last call."""
        events = [self._refusals.popleft() for _ in range(len(self._refusals))]  # the other thread only appends
        return events + (self._local.refusals() if self._local is not None else [])

    def close(self) -> None:
        """End the connection. The thread ends within seconds."""
        self._end.set()
        self._news.set()

    def _choose(self) -> None:
        """Follow a copy of the run on this machine while there is no connection; leave it when there is one."""
        if self._connected:
            if self._local is not None:
                self._local = None
                log.info("following %s again.", self.address)
        elif self._local is None and time.monotonic() - self._lost_at > LOCAL_AFTER_S:
            self._lost_at = time.monotonic()  # look again later
            self._local = self._copy()

    def _copy(self) -> FollowSource | None:
        newest = self._newest
        runs = list_runs(self._runs_dir, TRAINING_KINDS) if newest is not None else []
        run = next((run for run in runs if newest is not None and run.run_id == newest.run_id), None)
        if run is None:
            return None
        log.info("%s cannot be reached: following its run on this machine, %s, meanwhile.", self.address, run.path)
        return FollowSource(CheckpointSource(run, "newest", self._runs_dir, run.task), "auto", self._interval)

    # for the thread of the connection

    def _follow(self) -> None:
        pause = FIRST_PAUSE_S
        while not self._end.is_set():
            try:
                with self._link.news() as news:
                    pause = FIRST_PAUSE_S
                    self._note_connected()
                    self._listen(news)
            except Denied as error:
                self._note_lost(str(error), logging.WARNING)
                pause = DENIED_PAUSE_S
            except UserError as error:
                self._note_lost(str(error), logging.INFO if isinstance(error, LinkError) else logging.WARNING)
            finally:
                self._link.close()
            self._end.wait(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _note_connected(self) -> None:
        self._connected = True
        log.info("%s: connected%s.", self.address, " again" if self._said else "")
        self._said = self._said or "connected"

    def _note_lost(self, why: str, level: int) -> None:
        if self._connected:
            self._lost_at = time.monotonic()
        self._connected = False
        if not self._end.is_set():
            log.log(
                level if why != self._said else logging.DEBUG, "%s; trying again. The old policy keeps acting.", why
            )
        self._said = why
        self._news.set()

    def _listen(self, news: News) -> None:
        """Download what is announced, until the connection is lost. Raises UserError then."""
        count, since = 0, time.monotonic()
        while not self._end.is_set():
            announced = news.next(WAKE_S)
            while announced is not None and not self._end.is_set():
                count += 1
                newer = news.next(0.0)  # only the newest counts
                if newer is None:
                    self._take(announced)
                    self._end.wait(LEAST_S)
                announced = newer
                if count > FLOOD:
                    self._refuse_flood(since)
                    count, since = 0, time.monotonic()
            if self._newest is not None:
                self.archive.bring_up_to_date(self._newest, self._link)

    def _refuse_flood(self, since: float) -> None:
        if time.monotonic() - since < 1.0:
            raise UserError(f"{self.address}: announces more than {FLOOD} versions a second")

    def _take(self, announced: Announced) -> None:
        """Download a version, unless it is older than one before it. Raises LinkError if the connection was lost."""
        run_id, version = announced.run_id, announced.version
        if self._fixed_run not in (None, run_id):
            return
        known = self._highest.get(run_id)
        here = self._newest is not None and self._newest.run_id == run_id
        if known is not None and (version < known or (here and version == known)):
            log.debug("%s announces version %d, after %d.", self.address, version, known)
            return
        if known is None and len(self._highest) >= MOST_RUNS:
            raise UserError(f"{self.address}: has gone over to more than {MOST_RUNS} runs; no more are followed")
        if announced.size > self._most:
            self._note_refusal(announced, f"it has {announced.size} bytes; expected at most {self._most}")
            return
        try:
            found = self._link.fetch(run_id, version, self._most)
        except (LinkError, Denied):
            raise
        except UserError as error:
            self._note_refusal(announced, str(error))
            return
        self._highest[run_id] = version
        self._newest = found
        self._news.set()

    def _note_refusal(self, announced: Announced, why: str) -> None:
        """Log and record once that a version cannot be used; it is not asked for again."""
        self._highest[announced.run_id] = max(announced.version, self._highest.get(announced.run_id, 0))
        log.warning("refused version %d of %s: %s. The old policy keeps acting.", announced.version, announced.run, why)
        self._refusals.append(
            SwapEvent(time.time(), "network", announced.run, "", announced.version, None, None, False, why, 0.0)
        )

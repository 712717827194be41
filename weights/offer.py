"""The versions that a server offers to followers on other machines: the newest, and those that have a checkpoint.

    offer = Offer()
    offer.publish(candidate, run)       # the thread that follows the run: each new version
    offer.newest                        # any thread: the newest version as bytes, or None
    offer.find(run_id, 41)              # any thread but an event loop: it may read a file

A version is made into bytes once, however many followers ask for it, and never changes after that. A listener is called
for each new version, on the thread that published it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livegym.rundir.checkpoint import CheckpointError, Entry, list_playable, read_checkpoint
from livegym.rundir.checkpoint_io import score_of, sidecar_of
from livegym.rundir.run import TRAINING_KINDS, Run, list_runs
from livegym.utils.errors import UserError
from livegym.utils.files import read_json_dict, strict_json
from livegym.weights.candidate import Candidate
from livegym.weights.message import MAX_BYTES, can_be_sent, checksum_of, encode
from livegym.weights.sources import candidate_of

log = logging.getLogger(__name__)

KEPT = 8  # versions of a live run that are kept in memory: a slow follower may still ask for one
KEPT_BYTES = 64 * 2**20  # of all of them; the newest is always kept
RELIST_S = 5.0  # age of a list of files after which it is made again
PROTOCOL = 1


@dataclass(frozen=True)
class OfferedVersion:
    """One version, ready to be sent."""

    data: bytes
    run: str
    run_id: str
    version: int
    etag: str
    announcement: str  # JSON, one line

    @classmethod
    def of(cls, candidate: Candidate) -> OfferedVersion:
        """The bytes of a version for which `can_be_sent` is true."""
        data = encode(candidate)
        facts = {"run": candidate.run, "run_id": candidate.run_id, "version": candidate.version, "bytes": len(data)}
        text = strict_json({"v": PROTOCOL, **facts}, indent=None)
        return cls(data, candidate.run, candidate.run_id, candidate.version, f'"{checksum_of(data)}"', text)


class Offer:
    """The versions that one server offers. `publish` belongs to one thread; the rest may be used by any."""

    def __init__(self, runs_dir: Path | None = None) -> None:
        """`runs_dir`: the training runs in this directory are offered too; None: only those that are published."""
        self._runs_dir = runs_dir
        self._lock = threading.Lock()
        self._reading = threading.Lock()  # one file at a time
        self._kept: OrderedDict[tuple[str, int], OfferedVersion] = OrderedDict()
        self._runs: dict[str, Run] = {}  # by id: the runs of the published versions that have a directory here
        self._listed: dict[str, tuple[float, list[dict[str, Any]]]] = {}
        self._listeners: list[Callable[[], None]] = []
        self._unfit: set[str] = set()
        self.newest: OfferedVersion | None = None

    def publish(self, candidate: Candidate, run: Run | None = None) -> None:
        """Offer a version from now on, and tell the listeners. One that was offered already changes nothing.

        `run`: the directory of its run on this machine, whose checkpoints are offered too.
        """
        made = self.get(candidate.run_id, candidate.version)
        if made is not None:
            self._announce(made)
            return
        if not can_be_sent(candidate):
            self._refuse(candidate, "does not say which run and which policy it is, as files of rl_games do not")
            return
        made = OfferedVersion.of(candidate)
        if len(made.data) > MAX_BYTES:
            self._refuse(candidate, f"has {len(made.data)} bytes; followers take at most {MAX_BYTES}")
            return
        with self._lock:
            if run is not None and run.run_id == candidate.run_id:
                self._runs[run.run_id] = run
            self._keep(made)
        self._announce(made)

    def _announce(self, made: OfferedVersion) -> None:
        with self._lock:
            if made is self.newest:
                return
            self.newest = made
            listeners = list(self._listeners)
        for tell in listeners:
            tell()

    def _refuse(self, candidate: Candidate, why: str) -> None:
        if candidate.run not in self._unfit:
            self._unfit.add(candidate.run)
            log.warning("%s is not offered to other machines: it %s.", candidate.name, why)

    def _keep(self, made: OfferedVersion) -> None:
        self._kept[made.run_id, made.version] = made
        while len(self._kept) > 1 and (len(self._kept) > KEPT or self._bytes > KEPT_BYTES):
            self._kept.popitem(last=False)

    @property
    def _bytes(self) -> int:
        return sum(len(made.data) for made in self._kept.values())

    def listen(self, tell: Callable[[], None]) -> None:
        """Call `tell` after each new version, until `unlisten`. It must not block."""
        with self._lock:
            self._listeners.append(tell)

    def unlisten(self, tell: Callable[[], None]) -> None:
        """Undo `listen`."""
        with self._lock:
            self._listeners.remove(tell)

    def get(self, run_id: str, version: int) -> OfferedVersion | None:
        """A version that is in memory; None if it is not."""
        with self._lock:
            return self._kept.get((run_id, version))

    def find(self, run_id: str, version: int) -> OfferedVersion | None:
        """A version in memory or in a checkpoint file; None if there is none, or its file cannot be used."""
        made = self.get(run_id, version)
        if made is not None:
            return made
        run = self._run(run_id)
        if run is None:
            return None
        with self._reading:
            return self.get(run_id, version) or self._read(run, version)

    def _read(self, run: Run, version: int) -> OfferedVersion | None:
        entry = next((entry for entry in list_playable(run) if entry.version == version), None)
        if entry is None:
            return None
        try:
            candidate = candidate_of(entry.path, read_checkpoint(entry.path), 0.0)
        except (CheckpointError, OSError) as error:
            log.warning("a follower asked for %s: %s", entry.path, error)
            return None
        if not can_be_sent(candidate) or (candidate.run_id, candidate.version) != (run.run_id, version):
            return None
        return OfferedVersion.of(candidate)

    def runs(self) -> list[dict[str, Any]]:
        """The runs, as JSON: the one that is followed now has a `version`, its newest; the others have null."""
        newest = self.newest
        found: dict[str, dict[str, Any]] = {}
        if newest is not None:
            found[newest.run_id] = {"run": newest.run, "run_id": newest.run_id, "version": newest.version}
        for run in self._known_runs():
            found.setdefault(run.run_id, {"run": run.name, "run_id": run.run_id, "version": None})
        return list(found.values())

    def _known_runs(self) -> list[Run]:
        with self._lock:
            known = list(self._runs.values())
        if self._runs_dir is not None:
            known += list_runs(self._runs_dir, TRAINING_KINDS)
        return [run for run in known if run.run_id]

    def _run(self, run_id: str) -> Run | None:
        with self._lock:
            if run_id in self._runs:
                return self._runs[run_id]
        return next((run for run in self._known_runs() if run.run_id == run_id), None)

    def versions(self, name: str) -> dict[str, Any] | None:
        """The versions of a run, by its id or its name, as JSON, the oldest first; None if the run is unknown."""
        run_id = next((run["run_id"] for run in self.runs() if name in (run["run_id"], run["run"])), None)
        if run_id is None:
            return None
        listed = {entry["version"]: entry for entry in self._files(run_id)}
        with self._lock:
            for made in self._kept.values():
                if made.run_id == run_id:
                    listed.setdefault(made.version, _facts(made.version, None, None, None))
        names = {run["run_id"]: run["run"] for run in self.runs()}
        ordered = [listed[version] for version in sorted(listed)]
        return {"v": PROTOCOL, "run": names[run_id], "run_id": run_id, "versions": ordered}

    def _files(self, run_id: str) -> list[dict[str, Any]]:
        listed_at, entries = self._listed.get(run_id, (float("-inf"), []))
        if time.monotonic() - listed_at < RELIST_S:
            return entries
        run = self._run(run_id)
        try:
            entries = [_facts_of(entry) for entry in list_playable(run) if entry.version >= 0] if run else []
        except UserError as error:
            log.debug("%s", error)
        self._listed[run_id] = (time.monotonic(), entries)
        return entries


def _facts(version: int, epoch: int | None, score: float | None, made: float | None) -> dict[str, Any]:
    return {"version": version, "epoch": epoch, "score": score, "made": made}


def _facts_of(entry: Entry) -> dict[str, Any]:
    made = read_json_dict(sidecar_of(entry.path)).get("wall_time")
    return _facts(entry.version, entry.epoch, score_of(entry.path), float(made) if type(made) is float else None)

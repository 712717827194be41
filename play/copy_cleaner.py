"""Deletes, in the copied run that a test follows, the checkpoints that the training run has deleted.

    cleaner = CopyCleaner(live, lambda: source.run, test)
    cleaner.clean()             # watching thread; may be called often

`rundir/copies.py` decides what may be deleted at all. This module adds the versions that are still needed here: those
that act or wait, those in the history, and the one that `checkpoint=latest_test` means. While no test runs, nothing is
deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from livegym.live.swap import LivePolicy
from livegym.rundir.copies import delete_pruned
from livegym.rundir.last_test import last_played
from livegym.rundir.listing import version_of
from livegym.rundir.run import Run, list_runs, run_of
from livegym.utils.words import count
from livegym.weights.candidate import split_label

log = logging.getLogger(__name__)

INTERVAL = 5.0  # s between two scans of the directory


class CopyCleaner:
    """Keeps the copy of the run that a test follows as small as the original."""

    def __init__(self, live: LivePolicy, run: Callable[[], Run], test: Run) -> None:
        """`run` returns the followed run; `test` is the run of the test itself."""
        self._live = live
        self._run = run
        self._test = test
        self._scanned_at = float("-inf")
        self._logged = False
        self._played: dict[Path, tuple[int, Path | None]] = {}  # test -> time of its results, and what it played last

    def clean(self) -> None:
        """Delete what the training run has deleted; does nothing within `INTERVAL` of the last scan."""
        if time.monotonic() - self._scanned_at < INTERVAL:
            return
        self._scanned_at = time.monotonic()
        run = self._run()
        deleted = delete_pruned(run, lambda: self._needed(run))
        for file in deleted:
            log.debug("deleted %s, as the training run has done", file)
        if deleted and not self._logged:
            self._logged = True
            log.info(
                "%s: %s that the training run has deleted %s deleted here, too, and so will be later ones.",
                run.nn,
                count(len(deleted), "older checkpoint"),
                "was" if len(deleted) == 1 else "were",
            )

    def _needed(self, run: Run) -> set[int]:
        """The versions of this run that must stay."""
        live = self._live
        labels = [live.label, live.newest.label(live.first_run), *live.history.labels]
        versions = {version for name, version in map(split_label, labels) if (name or live.first_run) == run.name}
        file = self._latest_test(run.path.parent)
        folder = run_of(file) if file is not None else None
        if file is not None and folder is not None and folder.resolve() == run.path.resolve():
            versions.add(version_of(file))
        return versions

    def _latest_test(self, runs_dir: Path) -> Path | None:
        """The checkpoint that `latest_test` means, apart from this test, which needs only the version that acts."""
        tests = (test for test in list_runs(runs_dir, "test") if test.path.resolve() != self._test.path.resolve())
        return next((file for file in map(self._last_played, tests) if file is not None), None)

    def _last_played(self, test: Run) -> Path | None:
        try:
            modified = test.results_file.stat().st_mtime_ns
        except OSError:
            return None
        known = self._played.get(test.path)
        if known is None or known[0] != modified or (known[1] is not None and not known[1].exists()):
            played = last_played(test, test.path.parent)
            known = self._played[test.path] = (modified, None if played is None else played[0])
        return known[1]

"""Weights from the bus of a training run on this host."""

from __future__ import annotations

import time
from pathlib import Path

from livegym.rl.spec import PolicySpec
from livegym.rundir.lock import lock_holder
from livegym.rundir.run import Run, bus_file
from livegym.utils.errors import UserError
from livegym.weights.bus_reader import BusReader, Publication
from livegym.weights.candidate import Candidate


def bus_of(run: Run) -> Path | None:
    """The file of the weight bus of `run`, if the run is being trained on this host; None otherwise."""
    holder = lock_holder(run)
    if holder is None or not holder.here:
        return None
    file = bus_file(run.run_id)
    return file if file is not None and file.exists() else None


class BusSource(BusReader):
    """A reader of one run's bus that offers its publications. Raises UserError if the bus cannot be read."""

    def __init__(self, run: Run, file: Path) -> None:
        super().__init__(file)
        self.run = run
        description = self.description
        self._spec = PolicySpec.from_dict(description["spec"]) if "spec" in description else None
        self._config = description.get("config")
        self._handled = 0  # sequence number of the newest publication that was handled
        self._misfit = False  # True if the shapes of this bus do not fit; they never change
        self._refused = 0  # sequence number of the newest refused publication

    @property
    def over(self) -> str | None:
        """Reason why no more versions will be published; None while more may come."""
        if self.ended:
            return "the training run has ended"
        if not self.writer_lives:
            return "the training process has died"
        return "its weight bus was removed or replaced" if self.replaced else None

    def wait(self, timeout: float) -> None:
        """Sleep until there is a new publication, at most `timeout` s."""
        self.wait_past(self._handled, timeout)

    def poll(self, acting: Candidate) -> Candidate | None:
        """The newest publication if it should replace `acting`, or None. Raises UserError if it is non-finite."""
        if self._misfit:
            return None
        start = time.perf_counter()
        publication = self.read(self._handled_up_to(acting))
        if publication is None:
            return None
        self._handled = publication.number
        if not self._is_due(publication, acting):
            return None
        broken = self.not_finite()
        if broken is not None:
            raise UserError(f"version {publication.version} on the weight bus has NaN or Infinity in {broken}")
        return Candidate(
            model=publication.model,
            spec=self._spec,
            run_id=self.run.run_id,
            version=publication.version,
            epoch=publication.epoch,
            score=publication.score,
            file=None,
            source="bus",
            load_ms=1000 * (time.perf_counter() - start),
            run_name=self.run.name,
            publication=(self.writer, publication.number),
            made=publication.time,
            config=self._config,
            level=publication.level,
        )

    def _handled_up_to(self, acting: Candidate) -> int:
        """Sequence number up to which publications are not offered.

        After a rollback, the replaced version may be offered again.
        """
        writer, number = acting.publication or (None, 0)
        return max(self._refused, number if writer == self.writer else 0)

    def _is_due(self, publication: Publication, acting: Candidate) -> bool:
        """Whether it is newer than `acting`; a publication of another run or writer always counts as newer."""
        if acting.run_id != self.run.run_id or acting.publication is not None:
            return True
        return publication.version > acting.version  # the acting weights are from a file of the same run

    def refuse(self, for_good: bool) -> None:
        """Do not offer the last publication again; with `for_good`, no publication of this writer."""
        self._refused, self._misfit = self._handled, self._misfit or for_good

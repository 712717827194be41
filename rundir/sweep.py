"""The record of a sweep: in its directory, `jobs/` has one file for each job that was started.

    job = JobRecord(Path("runs/sweeps/20260102_120008_000000"), 2, ["seed=2"])
    job.begin()                                # jobs/2.json; "status" is null until the job ends
    job.note_run(run)                          # "run": "../../Cartpole_train_20260102_120009"
    job.end(status=0, objective=494.8)         # "status": 0
    read_jobs(sweep)[0].run                    # the path of the first job's run, or None

A job that runs again, because its scheduler requeued it, finds its run there:

    job.begin(keep_run=True)
    job.earlier.run                            # the run that this job had

Each job writes its own file, because the jobs may be in other processes, or on other machines. Paths are relative to
the sweep's directory, so runs and sweep can be copied together.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from livegym.rundir.provenance import redact_arguments
from livegym.utils.files import atomic_write_text, discard, read_first_line, read_json_dict, strict_json

JOBS = "jobs"
STOP = "stop"
"""The file in the sweep's directory that says for which signal all jobs stop."""


@dataclass(frozen=True)
class Job:
    """One job of a sweep, as recorded in its file."""

    number: int  # from 1
    overrides: tuple[str, ...]  # as typed, without secrets
    run: Path | None = None  # its run directory; None if it has not made one
    status: int | None = None  # exit status; None while it runs, or if it was killed
    objective: float | None = None  # the value that a sweeper optimises


@dataclass
class JobRecord:
    """The file of the running job."""

    sweep: Path
    number: int
    overrides: list[str]
    earlier: Job | None = field(default=None, init=False)  # what the file said when this job began
    run: Path | None = field(default=None, init=False)
    objective: float | None = field(default=None, init=False)

    def begin(self, keep_run: bool = False) -> None:
        """Writes the file; `keep_run` keeps the run that it names. Raises OSError if it cannot be written."""
        self.earlier = _job(self.sweep, read_json_dict(self._file))
        if keep_run and self.earlier is not None:
            self.run = self.earlier.run
        self._write(None)

    def note_run(self, run_dir: os.PathLike[str]) -> None:
        """Notes the job's run directory. Raises OSError, as `begin` does."""
        self.run = Path(run_dir).absolute()
        self._write(None)

    def end(self, status: int, objective: float | None) -> None:
        """Notes how the job ended. Raises OSError, as `begin` does."""
        self.objective = objective
        self._write(status)

    def _write(self, status: int | None) -> None:
        content = {
            "number": self.number,
            "overrides": redact_arguments(self.overrides),
            "run": None if self.run is None else os.path.relpath(self.run, self.sweep.absolute()),
            "status": status,
            "objective": self.objective,
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_text(self._file, strict_json(content))

    @property
    def _file(self) -> Path:
        return self.sweep / JOBS / f"{self.number}.json"


def note_stop(sweep: Path, signum: int) -> None:
    """Tells all jobs of a sweep, those too that have not begun, to stop as for this signal. Raises OSError."""
    sweep.mkdir(parents=True, exist_ok=True)
    atomic_write_text(sweep / STOP, f"{int(signum)}\n")


def stop_noted(sweep: Path) -> int:
    """The signal for which the jobs of a sweep stop; 0 if they do not."""
    number = read_first_line(sweep / STOP)
    return int(number) if number.isdigit() else 0


def forget_stop(sweep: Path) -> None:
    """Removes the note of `note_stop`: the sweep begins again."""
    discard(sweep / STOP)


def is_sweep(directory: Path) -> bool:
    """Whether a directory is that of a sweep."""
    return (directory / JOBS).is_dir() or (directory / "multirun.yaml").is_file()


def read_jobs(sweep: Path) -> list[Job]:
    """The jobs of a sweep that have begun, by their numbers; files that cannot be read are left out."""
    found = [_job(sweep, read_json_dict(file)) for file in (sweep / JOBS).glob("*.json")]
    return sorted((job for job in found if job is not None), key=lambda job: job.number)


def _job(sweep: Path, content: dict[str, object]) -> Job | None:
    number, overrides = content.get("number"), content.get("overrides")
    if not isinstance(number, int) or not isinstance(overrides, list):
        return None
    job = Job(number, tuple(map(str, overrides)))
    run = content.get("run")
    if isinstance(run, str):
        job = replace(job, run=Path(os.path.normpath(sweep / run)))
    status = content.get("status")
    if isinstance(status, int):
        job = replace(job, status=status)
    objective = content.get("objective")
    return replace(job, objective=float(objective)) if isinstance(objective, (int, float)) else job

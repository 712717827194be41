"""The end of a sweep, in the process of the command: which jobs failed, and the table of the runs.

with other_processes_find_livegym(arguments):    # around Hydra
    ...
status = finish(NoteSweep.directory, total)      # prints them; the exit status of the sweep
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import livegym
from livegym.cfg.overrides import split, typed_safely
from livegym.cfg.parallel import BASIC
from livegym.compare.comparison import compare
from livegym.compare.report import print_tables
from livegym.projects.commands import command
from livegym.rundir.run import open_run
from livegym.rundir.sweep import Job, read_jobs
from livegym.utils.errors import UserError
from livegym.utils.log import output
from livegym.utils.pipes import say
from livegym.utils.search_path import child_environment
from livegym.utils.words import count

KILLED = 1  # counts as the exit status of a job that did not end by itself


def launcher_of(overrides: Sequence[str]) -> str:
    """The launcher that these arguments choose."""
    chosen = [split(o)[2].lstrip("=") for o in overrides if split(o)[1] == "hydra/launcher"]
    return chosen[-1] if chosen else BASIC


@contextlib.contextmanager
def other_processes_find_livegym(overrides: Sequence[str]) -> Iterator[None]:
    """A context in which the processes of a launcher import this livegym. It changes nothing for Hydra's own launcher.

    The processes get a copy of `sys.path` or of the environment. They print plain lines, because they share a terminal.
    """
    if launcher_of(overrides) == BASIC:
        yield
        return
    before, path = dict(os.environ), list(sys.path)
    os.environ.update({**child_environment(), "TTY_COMPATIBLE": "0"})  # the last is Rich's
    sys.path.append(str(livegym.HOME))
    try:
        yield
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)


def finish(sweep: Path, total: int | None) -> int:
    """Prints the table of the sweep's runs and which jobs failed.

    `total`: the number of its jobs; None if the sweeper chose them while it ran. Returns 0 if no job failed, the
    status that all failed jobs share, or 1.
    """
    jobs = read_jobs(sweep)
    _print_table(sweep, jobs)
    failed = [(job, KILLED if job.status is None else job.status) for job in jobs if job.status != 0]
    left = 0 if total is None else total - len(jobs)
    if failed:
        of = len(jobs) if total is None else total
        say(f"{len(failed)} of {count(of, 'job')} failed{f', {left} did not run' if left else ''}:")
    for job, status in failed:
        how = "did not end (killed?)" if job.status is None else f"exit status {status}"
        say(f"  {' '.join(job.overrides) or '(no overrides)'}: {how}")
    statuses = {status for _, status in failed}
    return statuses.pop() if len(statuses) == 1 else int(bool(statuses))


def _print_table(sweep: Path, jobs: Sequence[Job]) -> None:
    runs, missing = [], []
    for job in jobs:
        try:
            runs += [open_run(job.run)] if job.run is not None else []
        except UserError as error:
            missing.append(str(error))
    if not runs:
        return
    print_tables(compare(runs, missing), output)
    place = Path(os.path.relpath(sweep))
    say(f"pictures and an HTML file of these runs: {command('config=report', typed_safely('runs', str(place)))}")

"""The meaning of `runs=`: which runs are compared.

    choose([], Path("runs"))                                     # all training runs
    choose(["Cartpole_train_2026*"], Path("runs"))               # a pattern
    choose(["runs/sweeps/20260102_120008_000000"], Path("runs"))  # the runs of a sweep
    choose(["0108_a", "/data/Ant_train_20260102_120008"], Path("runs"))

Each name is a run directory, a sweep's directory, a directory of runs, a run's name, a unique part of one, or a pattern
with `*` or `?`. Runs of a sweep that no longer exist are returned as sentences, so that a report can name them.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from livegym.rundir.run import TRAINING_KINDS, Run, list_runs, nn_of, open_run, read_latest
from livegym.rundir.sweep import is_sweep, read_jobs
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.words import count

SWEEPS = "sweeps"
LATEST = {"latest": "train", "latest_train": "train", "latest_test": "test"}
SHOWN = 10  # names in an error


@dataclass(frozen=True)
class Chosen:
    """The runs to compare."""

    runs: list[Run]  # each once, in the order of the names
    missing: list[str]  # a sentence for each run of a sweep that does not exist
    sweep: Path | None = None  # the directory of the sweep, if exactly one sweep was named


def choose(names: Sequence[str], runs_dir: Path, task: str | None = None) -> Chosen:
    """The runs that `names` mean; without names, all training runs of `task` (None: of every task).

    Raises UserError if a name means no run, or if a part of a name means several.
    """
    if not names:
        runs = list_runs(runs_dir, TRAINING_KINDS, task)
        if not runs:
            of = f" of {task}" if task else ""
            raise UserError(f"{runs_dir.absolute()} has no training run{of}. Choose other runs: runs=... runsDir=...")
        return Chosen(runs[::-1], [])
    found: dict[str, Run] = {}
    missing: list[str] = []
    for name in names:
        for run in _named(name, runs_dir, missing):
            found.setdefault(os.path.realpath(run.path), run)
    sweeps = [place for name in names if (place := _directory(name, runs_dir)) is not None and is_sweep(place)]
    return Chosen(list(found.values()), missing, sweeps[0] if len(names) == len(sweeps) == 1 else None)


def _named(name: str, runs_dir: Path, missing: list[str]) -> list[Run]:
    if name in LATEST:
        pointed = read_latest(runs_dir, LATEST[name])
        if pointed is None:
            raise UserError(f"runs={name}: there is no {runs_dir / name}. Allowed: {_allowed(runs_dir)}")
        return [open_run(Path(os.path.realpath(pointed)))]
    place = _directory(name, runs_dir)
    if place is not None:
        return _in_directory(name, place, missing)
    if glob.has_magic(name):
        return _matching(name, runs_dir)
    runs = list_runs(runs_dir)
    parts = [run for run in runs if name in run.name]
    if len(parts) == 1:
        return parts
    if parts:
        shown = ", ".join(run.name for run in parts[:SHOWN])
        raise UserError(
            f"runs={name}: matches {count(len(parts), 'run')}, such as {shown}. Type more of the name, or a pattern "
            f"for all of them: 'runs=*{name}*'"
        )
    near = did_you_mean(name, [run.name for run in runs])
    raise UserError(f"runs={name}: no such run. Allowed: {_allowed(runs_dir)}{near}")


def _directory(name: str, runs_dir: Path) -> Path | None:
    """The directory that a name means: from here, from the directory of runs, or from that of its sweeps."""
    typed = Path(os.path.expanduser(name))
    places = [typed, runs_dir / typed, runs_dir / SWEEPS / typed]
    if "/" not in name and not _is_of_runs(typed):
        places = places[1:]  # `Ant` is a part of a name, even beside a folder of that name
    return next((place for place in places if os.path.isdir(place)), None)  # False for what cannot be a path


def _is_of_runs(place: Path) -> bool:
    return os.path.isdir(place) and (is_sweep(place) or nn_of(place).is_dir() or bool(list_runs(place)))


def _in_directory(name: str, place: Path, missing: list[str]) -> list[Run]:
    if is_sweep(place):
        return _of_sweep(name, place, missing)
    inside = list_runs(place, TRAINING_KINDS)
    if inside:
        return inside[::-1]
    return [open_run(place)]


def _of_sweep(name: str, sweep: Path, missing: list[str]) -> list[Run]:
    jobs = read_jobs(sweep)
    runs = []
    for job in jobs:
        typed = " ".join(job.overrides) or "no overrides"
        if job.run is None:
            missing.append(f"job {job.number} ({typed}) has no run; its exit status: {job.status}")
        elif not job.run.is_dir():
            missing.append(f"{job.run.name} ({typed}) no longer exists")
        else:
            runs.append(open_run(job.run))
    if not runs:
        why = "; ".join(missing) or "it records none"
        raise UserError(f"runs={name}: this sweep has no runs ({why}). Allowed: a sweep with runs, or runs by name.")
    return runs


def _matching(pattern: str, runs_dir: Path) -> list[Run]:
    if "/" in pattern:
        paths = [Path(path) for path in sorted(glob.glob(os.path.expanduser(pattern))) if os.path.isdir(path)]
        runs = [run for path in paths for run in list_runs(path.parent) if run.path == path]
    else:
        runs = [run for run in list_runs(runs_dir)[::-1] if fnmatch.fnmatchcase(run.name, pattern)]
    if not runs:
        raise UserError(f"runs={pattern}: matches no run. Allowed: {_allowed(runs_dir)}")
    return runs


def _allowed(runs_dir: Path) -> str:
    names = [run.name for run in list_runs(runs_dir)]
    if not names:
        return f"names of runs, but {runs_dir.absolute()} has none. Choose another directory: runsDir=..."
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}."

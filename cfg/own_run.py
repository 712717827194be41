"""`resume=auto`: continue the run of this same job if there is one with a checkpoint, and begin a new one otherwise.

    config = with_own_run(config, record, overrides)     # resume=true checkpoint=<its run>, or resume=false

A scheduler starts a job that it took away from its place again with the same command line. The job is the same one if
it has the same number in the same sweep directory, or, outside of sweeps, the same `jobName` in the same `runsDir`; and
if it was given the same values. Nothing is guessed: a run that another command line began is never resumed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

from livegym.cfg.jobs import AUTO
from livegym.cfg.origin import Origin, paths
from livegym.cfg.overrides import split
from livegym.rundir.listing import list_playable
from livegym.rundir.provenance import read_overrides, redact_arguments
from livegym.rundir.run import TRAINING_KINDS, Run, list_runs, open_run
from livegym.rundir.sweep import JobRecord
from livegym.schema.settled import SettledConfig
from livegym.utils.errors import UserError

MAY_CHANGE = ("config", *(path for path in paths(Origin.SESSION) if path != "checkpoint"), *paths(Origin.ADJUSTABLE))
"""Keys that may have other values when a job runs again; they do not say what is learned."""


def with_own_run(config: SettledConfig, record: JobRecord | None, overrides: Sequence[str]) -> SettledConfig:
    """`config` with `resume` true or false, and with the job's own run as its checkpoint if that is resumed.

    `record`: the job's record in its sweep; None outside of one. `overrides`: what was typed. Raises UserError if
    `resume=auto` does not say which job this is, or if that job had other values.
    """
    if config.jobName is not None and record is not None:
        raise UserError(
            f"jobName={config.jobName}: every job of this sweep would have that name. Leave it out: resume=auto "
            "recognises the jobs of a sweep by its directory (hydra.sweep.dir=...) and their numbers"
        )
    if config.resume != AUTO:
        return config
    if config.jobName is None and record is None:
        raise UserError(
            "resume=auto: nothing says which job this is. Allowed: in a sweep (-m), or with a name of your own that no "
            "other job in runsDir has, such as jobName=ant_s1. To continue a run that you know: resume=true "
            "checkpoint=<run>"
        )
    run = _of_name(config, overrides) if record is None else _of_sweep(record)
    if run is None:
        return dataclasses.replace(config, resume=False)
    return dataclasses.replace(config, resume=True, checkpoint=str(run.path.absolute()))


def _of_sweep(record: JobRecord) -> Run | None:
    """The run that this job of a sweep had, if it has a checkpoint."""
    earlier = record.earlier
    if earlier is None or earlier.run is None or not earlier.run.is_dir():
        return None
    _refuse_other(
        f"job {record.number} of {record.sweep}",
        earlier.overrides,
        record.overrides,
        "Choose another directory: hydra.sweep.dir=...",
    )
    run = open_run(earlier.run)
    return run if list_playable(run) else None


def _of_name(config: SettledConfig, overrides: Sequence[str]) -> Run | None:
    """The run in `runsDir` that the job of this name began, if it has a checkpoint."""
    name, begun = config.jobName, list_runs(Path(config.runsDir), TRAINING_KINDS)
    runs = [run for run in begun if run.job_name == name and list_playable(run)]
    if len(runs) > 1:
        raise UserError(
            f"jobName={name}: {len(runs)} runs in {Path(config.runsDir).absolute()} have this name: "
            f"{', '.join(run.name for run in runs)}. Choose one: resume=true checkpoint=<run>. Or another jobName"
        )
    for run in runs:
        _refuse_other(f"{run.path}", read_overrides(run.path), overrides, "Choose another name: jobName=...")
    return runs[0] if runs else None


def _refuse_other(what: str, before: Iterable[str], now: Iterable[str], instead: str) -> None:
    """Raises UserError if a job was begun with other values than these."""
    then, given = _deciding(before), _deciding(redact_arguments(list(now)))
    if then != given:
        raise UserError(
            f"resume=auto: {what} was begun with {' '.join(then) or 'no overrides'}, but this command has "
            f"{' '.join(given) or 'none'}. Allowed: the same values, because it continues exactly. {instead}"
        )


def _deciding(overrides: Iterable[str]) -> list[str]:
    """The arguments that decide what is learned, in an order of their own."""
    return sorted(override for override in overrides if split(override)[1] not in MAY_CHANGE)

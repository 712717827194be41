"""The jobs of a command line: one, or one for each combination of a sweep, wherever a launcher of Hydra runs them.

    jobs = Jobs(job, typed, added, sweep=True)      # jobs(cfg) runs one; Hydra calls it, perhaps in another process

With Hydra's own launcher, the jobs of a sweep run one after the other in this process. With others (joblib, submitit)
they run in processes that get a pickled copy of `Jobs`, and what a job leaves in memory is lost there. So `Jobs` holds
everything that a job needs to know, and its outcome is in a file of the sweep's directory (`rundir/sweep.py`).
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import traceback
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from livegym.cfg.overrides import split
from livegym.cfg.parallel import LOCAL_LAUNCHERS, share_cores
from livegym.cfg.stopping import Sweep, watched
from livegym.cfg.typed import hide_secrets, redacted
from livegym.cfg.validate import unused_keys, validate
from livegym.projects import registry
from livegym.rundir.sweep import JobRecord, forget_stop
from livegym.utils.errors import UserError
from livegym.utils.log import label_lines
from livegym.utils.pipes import say
from livegym.utils.search_path import forget_checkout
from livegym.utils.signals import NOTICES, StopFlag

Job = Callable[[DictConfig], "int | None"]

INTERRUPTED = 130
AUTO = "auto"  # of `resume`
SIGNALLED = 128  # from this status on, a signal ended the job, so the sweep ends too


@dataclass
class Jobs:
    """Runs the job, once or for each combination of a sweep. It can be pickled."""

    job: Job
    typed: dict[str, str] = field(default_factory=dict)  # an override that Hydra was given -> the typed argument
    added: list[str] = field(default_factory=list)  # overrides that Hydra was given, and that were not typed
    sweep: bool = False
    total: int = 1
    argv: list[str] = field(default_factory=lambda: list(sys.argv))
    orig_argv: list[str] = field(default_factory=lambda: list(sys.orig_argv))
    cwd: str = field(default_factory=os.getcwd)
    pid: int = field(default_factory=os.getpid)
    project_dir: str | None = field(default_factory=registry.project_dir)
    status: int = 0  # of the job that ran last in this process

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Find the same projects in another process. Called when this is unpickled, before Hydra composes there."""
        self.__dict__.update(state)
        if os.getpid() != self.pid:
            forget_checkout()
            registry.use(self.project_dir)

    def __call__(self, cfg: DictConfig) -> float | None:
        """Run one job. In a sweep, returns its objective; NaN if it failed or has none.

        Raises KeyboardInterrupt if the rest of a sweep must not run.
        """
        os.chdir(self.cwd)  # relative paths start at the folder of the command, independent of hydra.job.chdir
        sys.argv = list(self.argv)
        sys.orig_argv = list(self.orig_argv)
        with _given(self.typed, self.added):
            if self.sweep:
                return self._job_of_sweep(cfg)
            self.status = self._guarded(cfg)
            return None

    def _job_of_sweep(self, cfg: DictConfig) -> float:
        hydra = HydraConfig.get()
        place = Path(self.cwd) / str(hydra.sweep.dir)
        number = int(hydra.job.num) + 1
        local = hydra.runtime.choices["hydra/launcher"] in LOCAL_LAUNCHERS
        sweep = Sweep(place, self.pid if local else None)
        if os.getpid() != self.pid and sweep.signum:  # the sweep was stopped before this job began
            _end_if_lost(sweep, SIGNALLED + sweep.signum)
            return math.nan
        of = f"/{self.total}" if hydra.runtime.choices["hydra/sweeper"] == "basic" else ""  # others have no total
        if os.getpid() != self.pid:
            label_lines(f"[{number}{of}] ")  # jobs that run at the same time may write to one terminal
        say(f"[{number}{of}] {' '.join(redacted(explicit_overrides()))}")
        record = JobRecord(place, number, explicit_overrides())
        with _current(record), watched(sweep) if os.getpid() != self.pid else contextlib.nullcontext():
            self.status = self._recorded(cfg, record)
        if os.getpid() != self.pid:
            _end_if_lost(sweep, self.status)
            if cfg.resume == AUTO and not sweep.signum:
                requeue_if_told(self.status)
        elif self.status >= SIGNALLED:
            raise KeyboardInterrupt
        return math.nan if record.objective is None else record.objective

    def _recorded(self, cfg: DictConfig, record: JobRecord) -> int:
        try:
            if (record.sweep / "multirun.yaml").is_file():  # Hydra wrote it before the first job
                hide_secrets(record.sweep / "multirun.yaml")
            record.begin(keep_run=cfg.resume == AUTO)
            status = self._guarded(cfg)
            record.end(status, None if status else _objective(record, str(cfg.objective)))
        except OSError as error:
            say(f"error: {record.sweep} cannot be written ({error}). Free some space, or choose: runsDir=...")
            return 1
        return status

    def _guarded(self, cfg: DictConfig) -> int:
        """Return the job's exit status, whatever it raises: an error in one job must not end a sweep."""
        try:
            validate(cfg)
            for note in unused_keys(cfg, is_explicit):
                say(f"note: {note}")
            return self.job(cfg) or 0
        except UserError as error:
            say(f"error: {error}")
            return error.exit_code
        except KeyboardInterrupt:
            return INTERRUPTED
        except SystemExit as end:
            if self.sweep:
                say(f"error: the job called sys.exit({end.code!r})")
            return status_of(end)
        except Exception:  # noqa: BLE001 - reported with its traceback, and counted as a failure
            traceback.print_exc()
            return 1


def _objective(record: JobRecord, which: str) -> float | None:
    """The value of the job's run that a sweeper optimises; None if there is none."""
    if record.run is None:
        return None
    from livegym.compare.outcome import outcome_of  # imports torch, which would delay the report of a mistake
    from livegym.rundir.run import open_run

    outcome = outcome_of(open_run(record.run))
    return outcome.best if which == "best" else outcome.final


class NoteSweep(Callback):
    """Records the directory of the sweep in the process of the command. Hydra creates this object (cfg/config.yaml)."""

    directory: Path | None = None
    jobs: int | None = None  # how many there are, if that is known before

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Called by Hydra before the first job."""
        type(self).directory = directory = Path(str(config.hydra.sweep.dir)).absolute()
        forget_stop(directory)
        share_cores(config.hydra, self.jobs)


def _end_if_lost(sweep: Sweep, status: int) -> None:
    """Exit if the command has ended: a worker of joblib would wait for its next job, and write to a broken pipe."""
    if sweep.is_lost:
        os._exit(status)


def requeue_if_told(status: int) -> None:
    """Let the launcher requeue a job that it asked to stop. Returns if it does not.

    submitit tells its jobs by a signal that they must leave their place, and its handler for that signal requeues them
    and ends the process. A job's own handler comes first, and saves; now it is the other's turn.
    """
    signum = status - SIGNALLED
    handler = signal.getsignal(signum) if signum in NOTICES else None
    if not callable(handler):
        return
    try:
        handler(signum, None)
    except RuntimeError as error:  # submitit: the job was requeued as often as it may
        say(f"error: {error}")


def status_of(end: SystemExit) -> int:
    """Return the exit status that Python would use: a text is printed and counts as 1."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    say(str(end.code))
    return 1


_as_typed: dict[str, str] = {}
_added: set[str] = set()
_record: list[JobRecord] = []  # that of the running job, in a sweep


@contextlib.contextmanager
def _given(typed: dict[str, str], added: list[str]) -> Iterator[None]:
    _as_typed.update(typed)
    _added.update(added)
    try:
        yield
    finally:
        _as_typed.clear()
        _added.clear()


@contextlib.contextmanager
def _current(record: JobRecord) -> Iterator[None]:
    _record.append(record)
    try:
        yield
    finally:
        _record.clear()


def current_record() -> JobRecord | None:
    """The record of the running job; None if it is not part of a sweep."""
    return _record[0] if _record else None


def explicit_overrides() -> list[str]:
    """The running job's `key=value` arguments as typed, without Hydra's own; [] outside of a job."""
    if not HydraConfig.initialized():
        return []
    given = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)  # ${...} as it was typed
    return [_as_typed.get(o, o) for o in typing.cast(list[str], given) if o not in _added]


def in_sweep() -> bool:
    """Whether the running job is part of a sweep."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def status_in_sweep(status: int, stop: StopFlag) -> int:
    """Return the exit status of a test. Raises KeyboardInterrupt if it was stopped in a sweep, which must not continue.

    A test itself returns 0 on Ctrl+C.
    """
    if stop.requested and in_sweep():
        raise KeyboardInterrupt
    return status


def is_explicit(key: str) -> bool:
    """Whether the running job's command line sets `key` itself."""
    return any(split(o)[1] == key for o in explicit_overrides())

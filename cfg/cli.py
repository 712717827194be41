"""Turn the command line into a job and run it: train.py calls this.

    if __name__ == "__main__":
        raise SystemExit(cli.run(job))        # job(cfg: DictConfig) -> exit status or None

The typed arguments are checked before Hydra composes them (`compose.prepare`), so a mistake ends with one readable
message, status 2 and nothing on disk. Then Hydra runs the job once, or once for each combination of a sweep (`-m`).
If a job of a sweep fails, that is reported, and the other jobs still run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from livegym.cfg import compose
from livegym.cfg.overrides import OWN_OPTIONS, parse, split, values
from livegym.cfg.schemas import register
from livegym.cfg.typed import hide_secrets, redacted
from livegym.cfg.validate import unused_keys, validate
from livegym.projects import new, registry
from livegym.projects.commands import command
from livegym.schema import RootConfig
from livegym.schema.keys import Schema
from livegym.schema.values import plain_text
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.pipes import ending_with_the_reader, write_to_nobody
from livegym.utils.words import count

Job = Callable[[DictConfig], "int | None"]

INTERRUPTED = 130
SIGNALLED = 128  # from this status on, a signal ended the job, so the sweep ends too
COMMANDS = ("run", "cfg", "multirun", "shell_completion", "info")


def run(job: Job) -> int:
    """Run the command in sys.argv. Returns 0, 2 for a UserError, 130 after Ctrl+C, otherwise the job's exit status."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra then raises instead of printing and exiting
    try:
        _refuse_lost_directory()
        return _run(job, sys.argv[1:])
    except UserError as error:
        _say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED


def _refuse_lost_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UserError(
            f"the current directory cannot be used ({error}). Allowed: an existing folder. Change into one: cd ~"
        ) from error


def _refuse_several_processes() -> None:
    """Raises UserError under a launcher of several processes, each of which would train a run of its own."""
    size = os.environ.get("WORLD_SIZE", "1").strip()
    if size in ("", "1") and "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    raise UserError(
        f"started by torchrun or a similar launcher (WORLD_SIZE={size}), but a run trains in one process. "
        "Allowed: WORLD_SIZE unset or 1. Start it without the launcher; several seeds: -m seed=1,2"
    )


def _run(job: Job, arguments: list[str]) -> int:
    if arguments[:1] == ["new"]:
        return new.main(arguments[1:])
    registry.use(_project_dir(arguments))
    if {"--help", "-h"} & set(arguments):
        from livegym.cfg.help import help_text

        return _answer(help_text(arguments=arguments))
    if "--list-tasks" in arguments:
        from livegym.cfg.help import tasks_text

        return _answer(tasks_text())
    _refuse_several_processes()
    options = parse_options(arguments)
    if options.shell_completion or options.hydra_help:
        register()
        with ending_with_the_reader():
            return _hydra_main(_no_job, arguments)
    flags = [a for a in arguments if a not in options.overrides]
    prepared = compose.prepare(options.overrides, options.multirun)
    if prepared.sweep:
        _refuse_hopeless(prepared)
    jobs = Jobs(job, sweep=prepared.sweep, total=prepared.jobs)
    only_prints = options.cfg or options.info
    try:
        with _given(prepared), ending_with_the_reader() if only_prints else contextlib.nullcontext():
            status = _hydra_main(jobs, [*flags, *prepared.overrides])
    except KeyboardInterrupt:  # it ended a sweep: the failed jobs are still reported
        _say("interrupted")
        status = max([INTERRUPTED, *(s for _, s in jobs.ended if s >= SIGNALLED)])
    return max(status, jobs.exit_status())


def _answer(text: str) -> int:
    """Print the requested text and return the exit status."""
    with ending_with_the_reader():
        print(text)
    return 0


def _project_dir(arguments: list[str]) -> str | None:
    """The folder that `projectDir=` names. Raises UserError if it names several: a process has one set of projects."""
    given = [argument for argument in arguments if split(argument)[1] == "projectDir"]
    if not given:
        return None
    found = [value for argument in given for value in values(parse([argument])[0])]
    if len(found) > 1 or isinstance(found[0], (list, dict)):
        raise UserError(
            f"{' '.join(given)}: only one project can be named. Allowed: one folder. Install the others: "
            "pip install <folder>"
        )
    return None if found[0] is None else plain_text(found[0])


def parse_options(arguments: list[str]) -> argparse.Namespace:
    """Parse Hydra's options and the overrides, in any order. Raises UserError for an unknown option."""
    parser = get_args_parser()
    parser.error = _refuse_option  # type: ignore[method-assign]
    options, unknown = parser.parse_known_intermixed_args(arguments)
    if unknown:
        raise _unknown_option(unknown[0])
    if sum(bool(getattr(options, c)) for c in COMMANDS) > 1:
        raise UserError("--multirun, --cfg, --info: only one of them is allowed at a time. Leave the others out.")
    for name in ("config_path", "config_name", "config_dir", "experimental_rerun"):
        if getattr(options, name):
            raise UserError(
                f"--{name.replace('_', '-')}: not supported; the configuration is in {compose.CFG_DIR}. "
                "Allowed: your own presets in its config/ directory, chosen with config=<name>."
            )
    return options


def _unknown_option(option: str) -> UserError:
    name, _, value = option.lstrip("-").partition("=")
    instead = Schema().instead_of(name)
    if instead:
        return UserError(f"{option}: unknown option. {instead}. Allowed: {', '.join(OWN_OPTIONS)}.")
    key = Schema().right_path(name, "", [k.name for k in Schema().keys(RootConfig).values()])
    near = "" if key else did_you_mean(option, OWN_OPTIONS)
    written = key if "=" in key else f"{key or name}={value or '...'}"
    hint = near or f" Keys are typed without dashes: {written}"
    return UserError(f"{option}: unknown option. Allowed: {', '.join(OWN_OPTIONS)}.{hint}")


def _refuse_option(message: str) -> NoReturn:
    """Raise a UserError; argparse's own method would print its usage and exit."""
    raise UserError(f"{message}. Allowed: {', '.join(OWN_OPTIONS)}, and key=value. See {command('--help')}")


def _refuse_hopeless(prepared: compose.Prepared) -> None:
    """Raises the first job's error if every job of the sweep would fail, before the sweep's directory is made."""
    if prepared.jobs != len(prepared.samples):
        return
    errors = []
    for cfg in prepared.samples:
        try:
            validate(cfg)
            return
        except UserError as error:
            errors.append(error)
    raise errors[0]


def _hydra_main(task: Callable[[DictConfig], None], arguments: list[str]) -> int:
    main = hydra.main(str(compose.CFG_DIR), "config", compose.VERSION_BASE)(task)
    typed, sys.argv = sys.argv, [sys.argv[0], *arguments]
    try:
        main()
    except SystemExit as end:  # Hydra ends --hydra-help and similar options like this; a job's exit is caught in `Jobs`
        return _status(end)
    except compose.COMPOSE_ERRORS as error:
        raise compose.explained(error) from error
    except OSError as error:  # jobs report their own errors: this one is about the sweep's directory
        raise UserError(f"the sweep's directory cannot be made ({error}). Choose another place: runsDir=...") from error
    finally:
        sys.argv = typed
    return 0


def _no_job(cfg: DictConfig) -> None:
    raise UserError("nothing to run")


@dataclass
class Jobs:
    """Runs the job, once or for each combination of a sweep, and records the exit status of each."""

    job: Job
    sweep: bool = False
    total: int = 1
    argv: list[str] = field(default_factory=lambda: list(sys.argv))
    cwd: str = field(default_factory=os.getcwd)
    ended: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, cfg: DictConfig) -> None:
        """Run one job. Raises KeyboardInterrupt if the rest of a sweep must not run."""
        os.chdir(self.cwd)  # relative paths start at the folder of the command, independent of hydra.job.chdir
        sys.argv = list(self.argv)
        shown = " ".join(redacted(explicit_overrides()))
        if self.sweep:
            self._begin(shown)
        status = self._guarded(cfg)
        self.ended.append((shown, status))
        if self.sweep and status >= SIGNALLED:
            raise KeyboardInterrupt

    def _begin(self, shown: str) -> None:
        if not self.ended:
            hide_secrets(Path(HydraConfig.get().sweep.dir) / "multirun.yaml")
        _say(f"[{len(self.ended) + 1}/{self.total}] {shown}")

    def _guarded(self, cfg: DictConfig) -> int:
        """Return the job's exit status, whatever it raises: an error in one job must not end a sweep."""
        try:
            validate(cfg)
            for note in unused_keys(cfg, is_explicit):
                _say(f"note: {note}")
            return self.job(cfg) or 0
        except UserError as error:
            _say(f"error: {error}")
            return error.exit_code
        except KeyboardInterrupt:
            return INTERRUPTED
        except SystemExit as end:
            if self.sweep:
                _say(f"error: the job called sys.exit({end.code!r})")
            return _status(end)
        except Exception:  # noqa: BLE001 - reported with its traceback, and counted as a failure
            traceback.print_exc()
            return 1

    def exit_status(self) -> int:
        """Return the job's status; for a sweep, the status that all failed jobs share, or 1. Prints which failed."""
        failed = [(shown, status) for shown, status in self.ended if status]
        if not self.sweep:
            return failed[0][1] if failed else 0
        left = self.total - len(self.ended)
        if failed:
            _say(f"{len(failed)} of {count(self.total, 'job')} failed{f', {left} did not run' if left else ''}:")
        for shown, status in failed:
            _say(f"  {shown or '(no overrides)'}: exit status {status}")
        statuses = {status for _, status in failed}
        return statuses.pop() if len(statuses) == 1 else int(bool(statuses))


def _status(end: SystemExit) -> int:
    """Return the exit status that Python would use: a text is printed and counts as 1."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    _say(str(end.code))
    return 1


def _say(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        write_to_nobody(sys.stderr)


_as_typed: dict[str, str] = {}  # an override that Hydra was given -> the argument that was typed
_added: set[str] = set()  # overrides that Hydra was given, and that were not typed


@contextlib.contextmanager
def _given(prepared: compose.Prepared) -> Iterator[None]:
    _as_typed.update(prepared.typed)
    _added.update(prepared.added)
    try:
        yield
    finally:
        _as_typed.clear()
        _added.clear()


def explicit_overrides() -> list[str]:
    """The running job's `key=value` arguments as typed, without Hydra's own; [] outside of a job."""
    if not HydraConfig.initialized():
        return []
    given = OmegaConf.to_container(HydraConfig.get().overrides.task, resolve=False)  # ${...} as it was typed
    return [_as_typed.get(o, o) for o in typing.cast(list[str], given) if o not in _added]


def in_sweep() -> bool:
    """Whether the running job is part of a sweep."""
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def is_explicit(key: str) -> bool:
    """Whether the running job's command line sets `key` itself."""
    return any(split(o)[1] == key for o in explicit_overrides())

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
from collections.abc import Callable
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from omegaconf import DictConfig

from livegym.cfg import compose
from livegym.cfg.jobs import INTERRUPTED, Job, Jobs, NoteSweep, status_of
from livegym.cfg.overrides import OWN_OPTIONS, parse, split, values
from livegym.cfg.schemas import register
from livegym.cfg.stopping import PassOn
from livegym.cfg.validate import validate
from livegym.projects import new, registry
from livegym.projects.checkout import spelt_out
from livegym.projects.commands import command
from livegym.schema import RootConfig
from livegym.schema.keys import Schema
from livegym.schema.values import plain_text
from livegym.utils.addresses import is_address, refuse_secrets
from livegym.utils.errors import UserError, did_you_mean
from livegym.utils.pipes import ending_with_the_reader, say

COMMANDS = ("run", "cfg", "multirun", "shell_completion", "info")


def run(job: Job) -> int:
    """Run the command in sys.argv. Returns 0, 2 for a UserError, 130 after Ctrl+C, otherwise the job's exit status."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # Hydra then raises instead of printing and exiting
    try:
        _refuse_lost_directory()
        return _run(job, sys.argv[1:])
    except UserError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED


def _refuse_lost_directory() -> None:
    try:
        os.getcwd()
    except OSError as error:
        raise UserError(
            f"the current directory cannot be used ({error}). Allowed: an existing folder. Change into one: cd ~"
        ) from error


def _refuse_several_processes() -> None:
    """Raises UserError if a launcher has started several processes, each of which would train a run of its own."""
    size = os.environ.get("WORLD_SIZE", "1").strip()
    if size in ("", "1") and "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    raise UserError(
        f"started by torchrun or a similar launcher (WORLD_SIZE={size}), but a run trains in one process. "
        "Allowed: WORLD_SIZE unset or 1. Start it without the launcher; several seeds: -m seed=1,2"
    )


def _new(arguments: list[str]) -> int:
    """`livegym new`: from the template, or from the file of a robot."""
    if any(argument.partition("=")[0] == "--from" for argument in arguments):
        from livegym.robots import command  # it needs MuJoCo, and a project from the template does not

        return command.main(arguments)
    return new.main(arguments)


def _run(job: Job, arguments: list[str]) -> int:
    if arguments[:1] == ["new"]:
        return _new(arguments[1:])
    if arguments[:1] == ["serve"]:
        from livegym.cfg import serve_command

        if {"--help", "-h"} & set(arguments):
            return _answer(serve_command.help_text())
        arguments = serve_command.arguments_of(arguments[1:])
    _refuse_typed_tokens(arguments)
    registry.use(_project_dir(arguments))
    arguments = [spelt_out(argument) for argument in arguments]
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
    jobs = Jobs(job, prepared.typed, prepared.added, prepared.sweep, prepared.jobs)
    if prepared.sweep:
        return _run_sweep(jobs, [*flags, *prepared.overrides])
    with ending_with_the_reader() if options.cfg or options.info else contextlib.nullcontext():
        status = _hydra_main(jobs, [*flags, *prepared.overrides])
    return max(status, jobs.status)


def _run_sweep(jobs: Jobs, arguments: list[str]) -> int:
    """Run all jobs, and report on them even if the sweep was interrupted."""
    from livegym.cfg.sweeps import finish, launcher_of, other_processes_find_livegym

    total = jobs.total if all(split(a)[1] != "hydra/sweeper" for a in arguments) else None
    NoteSweep.directory, NoteSweep.jobs = None, total
    signals = PassOn(lambda: NoteSweep.directory, launcher_of(arguments))
    status = 0
    try:
        with other_processes_find_livegym(arguments), signals:
            status = _hydra_main(jobs, arguments)
    except KeyboardInterrupt:
        say("interrupted")
        status = max(INTERRUPTED, jobs.status)
    except RuntimeError as error:  # of a launcher: one of its processes was killed
        say(f"error: {str(error).strip().splitlines()[0]}")
        status = 1
    status = max(status, signals.exit_status)
    if NoteSweep.directory is None:
        return status
    return max(status, finish(NoteSweep.directory, total))


def _refuse_typed_tokens(arguments: list[str]) -> None:
    """Raises UserError for an address with a token, before any other message could repeat it."""
    for argument in arguments:
        key, _, value = argument.partition("=")
        value = value.strip("'\"\\")
        if key.lstrip("+~") == "checkpoint" and is_address(value):
            refuse_secrets(value)


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


def _hydra_main(task: Callable[[DictConfig], object], arguments: list[str]) -> int:
    main = hydra.main(str(compose.CFG_DIR), "config", compose.VERSION_BASE)(task)
    typed, sys.argv = sys.argv, [sys.argv[0], *arguments]
    try:
        main()
    except SystemExit as end:  # Hydra ends --hydra-help and similar options like this; a job's exit is caught in `Jobs`
        return status_of(end)
    except compose.COMPOSE_ERRORS as error:
        raise compose.explained(error) from error
    except OSError as error:  # jobs report their own errors: this one is about the sweep's directory
        raise UserError(f"the sweep's directory cannot be made ({error}). Choose another place: runsDir=...") from error
    finally:
        sys.argv = typed
    return 0


def _no_job(cfg: DictConfig) -> None:
    raise UserError("nothing to run")

"""`livegym serve`: continuous training of an environment that clients run, from its spaces alone.

    arguments_of(["--env", "CartPole-v1", "streamPort=0"])
    # ["config=continuous", "task=Spaces", "simulator=external", ..., "streamPort=0"]

The command stands for a command line of `config=continuous`, so everything else is as there: keys, the run, resuming.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NoReturn

from livegym.cfg.overrides import quoted, split
from livegym.projects.commands import command, program
from livegym.rundir.run import LONGEST, folder_name
from livegym.tasks.space import SpaceError, read_action_space, read_space, space_of, text_of_space
from livegym.utils.errors import UserError

SERVED = {"config": "continuous", "task": "Spaces", "simulator": "external", "online.training_interval": "0"}
KEYS = ("observation_space", "action_space")
UNNAMED = "spaces"
"""Name of a file of spaces that says nothing about its environment."""
FILE = (
    'Allowed: JSON with both spaces and nothing else, such as {"observation": "Box(-1, 1, (4,))", '
    '"action": "Discrete(2)"}'
)
HELP = """usage: {program} serve <spaces> [key=value ...]

Serves a policy to an environment that runs elsewhere, and trains it at the same time. The environment is known by its
spaces, which one of these names:

  --env CartPole-v1                the id of a Gymnasium environment; clients run it
  --observation-space "Box(-inf, inf, (4,))" --action-space "Discrete(2)"
                                   as Gymnasium prints them, or as JSON
  spaces.json                      a file with {{"observation": ..., "action": ...}}, each a space as text or as JSON

  --name "My robot"                the environment's name, for the dashboard and the run's folder; without it, the
                                   Gymnasium id, or the name of the file unless that is spaces.json

Observations: Box, Discrete, MultiDiscrete, MultiBinary, and Dict of these. Actions: Box with bounds, Discrete,
MultiDiscrete, MultiBinary. The keys are those of config=continuous (see {program} --help). To resume:
{resume}
"""


def arguments_of(arguments: list[str]) -> list[str]:
    """Return the command line of `config=continuous` that `serve` with these arguments stands for.

    Raises UserError if no spaces are named, or if they cannot be used.
    """
    given, rest = _parser().parse_known_intermixed_args(arguments)
    keys = [argument for argument in (*given.others, *rest) if "=" in argument]
    files = [argument for argument in (*given.others, *rest) if "=" not in argument]
    named = [given.env is not None, bool(files), given.observation_space is not None or given.action_space is not None]
    if len(files) > 1 or sum(named) != 1 or any(argument.startswith("-") for argument in files):
        raise UserError(
            f"{' '.join(['serve', *arguments])}: it needs the spaces of one environment. Allowed: --env <Gymnasium "
            "id>, or --observation-space <space> --action-space <space>, or a file such as spaces.json. See "
            f"{program()} serve --help"
        )
    spaces = _of_environment(given.env) if named[0] else _of_file(files[0]) if named[1] else _of_options(given)
    typed = [split(key)[1] for key in keys]
    fixed = [f"{key}={value}" for key, value in SERVED.items() if key not in typed]
    name = _name(given, files)
    named_env = [quoted("task.params.environment", name)] if name is not None else []
    return [*fixed, *(quoted(f"task.params.{key}", spaces[key]) for key in KEYS), *named_env, *keys]


def help_text() -> str:
    """Return what `serve --help` prints."""
    return HELP.format(
        program=program(), resume=f"  {command('config=continuous', 'resume=true', 'checkpoint=latest')}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.error = _refuse  # type: ignore[method-assign]
    parser.add_argument("--env")
    parser.add_argument("--name")
    parser.add_argument("--observation-space")
    parser.add_argument("--action-space")
    parser.add_argument("others", nargs="*")
    return parser


def _refuse(message: str) -> NoReturn:
    raise UserError(f"serve: {message}. See {program()} serve --help")


def _name(given: argparse.Namespace, files: list[str]) -> str | None:
    """Return the environment's name; None if the user has named none. Raises UserError if it cannot be used."""
    name: str | None = given.name
    if name is not None:
        if not any(map(str.isalnum, name)) or len(name) > LONGEST:
            raise UserError(
                f"--name {name!r}: it names the run's folder too. Allowed: at most {LONGEST} characters, with a letter "
                'or digit, for example --name "My robot"'
            )
        return name
    if given.env is not None:
        return str(given.env)
    stem = Path(files[0]).stem if files else ""
    return stem if folder_name(stem) and stem != UNNAMED else None


def _of_options(given: argparse.Namespace) -> dict[str, str]:
    for key in KEYS:
        if getattr(given, key) is None:
            raise UserError(f"serve: --{key.replace('_', '-')} is missing. Allowed: both spaces. See serve --help")
    return _checked(given.observation_space, given.action_space, "--observation-space", "--action-space")


def _of_file(path: str) -> dict[str, str]:
    try:
        content = json.loads(Path(path).expanduser().read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no file of spaces ({error}). {FILE}") from error
    names = set(content) if isinstance(content, dict) else set()
    if names != {"observation", "action"}:
        given = f"it has {', '.join(sorted(names)) or 'nothing'}" if isinstance(content, dict) else "it is no object"
        raise UserError(f"{path}: no file of spaces ({given}). {FILE}")
    return _checked(_text(content["observation"]), _text(content["action"]), f"{path}: observation", f"{path}: action")


def _text(space: Any) -> str:
    return space if isinstance(space, str) else json.dumps(space)


def _of_environment(name: str) -> dict[str, str]:
    import gymnasium  # imported here, because it takes a second, and the other forms do without it

    try:
        env = gymnasium.make(name)
    except (gymnasium.error.Error, ImportError, AttributeError, TypeError, ValueError) as error:
        raise UserError(
            f"--env {name}: it cannot be made ({error}). Allowed: the id of an installed Gymnasium environment, for "
            "example CartPole-v1. Or name the spaces: --observation-space ... --action-space ..."
        ) from error
    try:
        spaces = [text_of_space(space_of(space)) for space in (env.observation_space, env.action_space)]
    except SpaceError as error:
        raise UserError(
            f"--env {name}: {error}. A Gymnasium wrapper can change the space: serve what it has then."
        ) from error
    finally:
        env.close()
    return _checked(*spaces, f"--env {name}: observation_space", f"--env {name}: action_space")


def _checked(observation: str, action: str, *names: str) -> dict[str, str]:
    """Return both spaces as JSON. Raises UserError if one cannot be used."""
    texts = text_of_space(read_space(observation, names[0])), text_of_space(read_action_space(action, names[1]))
    return dict(zip(KEYS, texts, strict=True))

"""The configuration of a run that comes over a network: what is sent, and what is accepted.

    sent = shared_part(candidate.config)            # on the server
    config = received_config(text["config"])        # on the follower; UserError if it cannot be used

Only what a test takes from a run is sent (`cfg/saved.py`), so no path of the server and no secret is. What arrives is
untrusted. It can name a task, an algorithm and an engine that are installed here already, but it loads no code and
opens no file: a text that looks like a path is accepted only if the same text is the default here. All values are
checked against the schema when the configuration is used, as those of a checkpoint are.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

from livegym.cfg.saved import FROM_RUN
from livegym.projects.record import PROJECT
from livegym.schema.keys import Schema
from livegym.tasks import TASKS
from livegym.utils.errors import UserError
from livegym.utils.nested import look_up

log = logging.getLogger(__name__)

LONGEST = 1000  # characters of a text
MOST = 20_000  # values
PARAMS = "task.params."


def shared_part(config: dict[str, Any] | None) -> dict[str, Any] | None:
    """The part of a run's configuration that its followers need; None if the run has none."""
    if config is None:
        return None
    part = {name: config[name] for name in (*FROM_RUN, "physics", PROJECT) if name in config}
    engine = look_up(config, "sim.engine")
    return part if engine is None else {**part, "sim": {"engine": engine}}


def received_config(content: Any) -> dict[str, Any]:
    """A copy of a received configuration, without what no test takes from a run.

    Raises UserError if it is not one, or if it names a path.
    """
    if not isinstance(content, dict) or not all(isinstance(content.get(name), dict) for name in FROM_RUN):
        raise UserError("the received configuration has no task and train sections; it cannot be used")
    for count, (path, value) in enumerate(_values(content, keys=True)):
        if count == MOST:
            raise UserError(f"the received configuration has more than {MOST} values; it cannot be used")
        if isinstance(value, str) and (len(value) > LONGEST or "${" in value):
            raise UserError(f"{path}: the received text is too long, or refers to another value. It cannot be used")
    kept = shared_part(copy.deepcopy(content))
    assert kept is not None, "it is a dictionary"
    _forget_paths(kept)
    return kept


def _values(content: Any, keys: bool = False) -> Iterator[tuple[str, Any]]:
    """(path, value) of each value that is not a section or a list; with `keys`, also (path, name) of each key."""
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend((f"{path}.{name}"[:LONGEST].lstrip("."), item) for name, item in value.items())
            yield from ((path, name) for name in value if keys)
        elif isinstance(value, list):
            waiting.extend((path, item) for item in value)
        else:
            yield path, value


def _forget_paths(config: dict[str, Any]) -> None:
    """Remove parameters that name a file: the default of this machine counts. Raises UserError for any other path."""
    name = config["task"].get("name")
    known = TASKS[name].Params if isinstance(name, str) and name in TASKS else None
    params = config["task"].get("params")
    if known is not None and isinstance(params, dict):
        for key in Schema().keys(known, PARAMS).values():
            if key.doc.file and params.pop(key.name, None) is not None:
                log.info(
                    "%s names a file of the server, and is not used. One of this machine: %s=...", key.path, key.name
                )
    here = {} if known is None else {"task": {"params": dataclasses.asdict(known())}}
    for path, value in _values({part: config[part] for part in FROM_RUN}):
        if isinstance(value, str) and _looks_like_a_path(value) and value not in _texts(look_up(here, path)):
            raise UserError(
                f"the received configuration has {path}={value[:80]!r}, which looks like a path. Only paths that are "
                "the default on this machine are accepted. Copy the run instead: docs/hot-reload.md"
            )


def _looks_like_a_path(text: str) -> bool:
    return "/" in text or "\\" in text or text.startswith("~") or ".." in text


def _texts(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]

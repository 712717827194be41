"""Let a foreign task be configured by the keys that its own project has.

    with_upstream_keys(["task=dexrobot_isaac-BlindGrasping", "env.box.mass=0.2", "env.numEnvs=64"])
    # ["task=dexrobot_isaac-BlindGrasping", "task.params.env.box.mass=0.2", "numEnvs=64"]

Livegym's own keys come first, also under the names that the project has for them, such as `env.numEnvs`. Then come the
task's, then those of the run wherever the project has them.
`task.env.box=...`, as IsaacGymEnvs has it, means the same as `env.box=...`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence

from livegym.projects import registry
from livegym.projects.checkout import Checkout
from livegym.schema.keys import Schema
from livegym.tasks import TASKS
from livegym.utils.errors import UserError
from livegym.utils.log import log_before_setup

log = logging.getLogger(__name__)
SETTING = re.compile(r"([A-Za-z]\w*(?:\.\w+)+)(=.*)", re.S)
"""A dotted key and its value."""
OF_THE_RUN = ("numEnvs", "seed", "device", "viewer")
"""Keys of livegym that are meant wherever a project has them, if its task has no such key."""


def with_upstream_keys(arguments: Sequence[str]) -> list[str]:
    """The arguments, with livegym's names of keys that are the foreign task's own; each is named in the log."""
    project = registry.project_in_use()
    task = next((text.partition("=")[2] for text in reversed(arguments) if text.startswith("task=")), "")
    if not isinstance(project, Checkout) or task not in project.tasks or not any(map(_unknown, arguments)):
        return [*arguments]
    from livegym.compat.foreign.task import decided_here  # imports torch, which --help need not wait for

    part = registry.part("tasks", task)
    with part.running("has a configuration that cannot be read"):
        schema = Schema(params=TASKS[task].Params)
    return [_ours(argument, schema, decided_here(part)) for argument in arguments]


def _unknown(argument: str) -> re.Match[str] | None:
    """The parts of an argument whose key is none of livegym's, whatever the task; None for any other."""
    typed = SETTING.fullmatch(argument)
    return None if typed is None or typed[1].startswith("hydra.") or _has(Schema(), typed[1]) else typed


def _ours(argument: str, schema: Schema, decided: Mapping[str, str]) -> str:
    typed = _unknown(argument)
    if typed is None:
        return argument
    key = typed[1].removeprefix("task.")
    word = typed[1].rpartition(".")[2]
    places = (
        *([decided[key]] if key in decided else []),
        f"task.params.{typed[1]}",
        f"task.params.{key}",
        *([word] if word in OF_THE_RUN else []),
    )
    meant = next((place for place in places if _has(schema, place)), None)
    if meant is None:
        return argument
    log_before_setup()
    log.info("%s is %s%s here", argument, meant, typed[2])
    return f"{meant}{typed[2]}"


def _has(schema: Schema, path: str) -> bool:
    try:
        schema.find(path)
    except UserError:
        return False
    return True

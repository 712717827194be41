"""Refuse what a task without bodies cannot have: another engine, physics settings, viewers and videos.

Refuse a run that would simulate an environment which only clients have.

    check_bodies(config)      # UserError: the value, what is allowed, the next move

This is checked both for a typed task (`cfg.validate`) and for the task of a run that is tested or resumed
(`cfg.saved`).
"""

from __future__ import annotations

from livegym.projects.commands import program
from livegym.schema import RootConfig
from livegym.schema.engines import check_engine
from livegym.tasks import TASKS
from livegym.utils.errors import UserError

SHOWN = {  # keys that draw bodies, and the presets that set them
    "viewer": " (as in config=test_viewer)",
    "watch": " (as in config=test_stream)",
    "videoRecord": " (as in config=test_record)",
    "trainVideoEvery": "",
}


def check_bodies(config: RootConfig) -> None:
    """Raises UserError if engine, physics or viewers do not fit the task."""
    name = config.task.name
    by_clients = config.mode == "continuous" and config.simulator == "external"
    if TASKS[name].only_clients and config.mode in ("train", "test", "continuous") and not by_clients:
        what = f"simulator={config.simulator}" if config.mode == "continuous" else f"mode={config.mode}"
        raise UserError(
            f"{what}: task={name} has no simulator, because clients run its environment. Allowed: config=continuous "
            f"simulator=external. Start it with: {program()} serve"
        )
    own_dynamics = TASKS[name].own_dynamics
    check_engine(config.sim, config.physics, f"task={name}", own_dynamics)
    if not own_dynamics:
        return
    for key, preset in SHOWN.items():
        value = getattr(config, key)
        if value:
            off, shown = ("0", str(value)) if not isinstance(value, bool) else ("false", "true")
            raise UserError(
                f"{key}={shown}{preset}: task={name} has no bodies that could be shown. Allowed: {key}={off}. "
                "Test it without a picture: config=test; or watch the newest run of another task: task=Ant"
            )

"""One command line as a session: its configuration, and which keys of it were typed.

session = Session(config, provenance)
session.gives("reloadInterval")                    # typed, not a default
config = session.config_for(state["config"])       # with the task and training settings of a checkpoint's run
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from livegym.cfg.overrides import split
from livegym.cfg.saved import with_run_config
from livegym.rundir.provenance import Provenance
from livegym.schema.settled import SettledConfig


@dataclass(frozen=True)
class Session:
    """One command line, independent of the policy or run that it uses."""

    config: SettledConfig  # before a run's settings are applied
    provenance: Provenance  # its `overrides` are the typed arguments

    @property
    def typed(self) -> list[str]:
        """The arguments `key=value` as they were typed."""
        return self.provenance.overrides

    @property
    def keys(self) -> list[str]:
        """The paths of the keys that were typed, in that order."""
        return [split(override)[1] for override in self.typed]

    def gives(self, key: str) -> bool:
        """Whether a key, or a group, was typed."""
        return key in self.keys

    @property
    def task(self) -> str | None:
        """The task if it was typed; None if it is the default."""
        return self.config.task.name if self.gives("task") else None

    def config_for(self, saved: dict[str, Any] | None) -> SettledConfig:
        """This session's configuration with the task and training settings of a run; see `saved.with_run_config`.

        Raises UserError if what was typed contradicts the run, or the run's configuration cannot be used.
        """
        return with_run_config(self.config, saved, self.task, self.typed)
